//! Case 30: values from elsewhere.

use serde_json::json;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::kubernetes::HelmReleases;
use tandem_tests::world::World;

use crate::common::{app, upstream};

/// When valuesFrom.configMapKeyRefs are defined, they are sourced
///
/// When valuesFrom.secretKeyRefs are defined, they are sourced
#[tokio::test]
async fn values_from_objects_of_any_namespace() {
    // What is in another namespace than the one looked after isn't followed.
    let world = World::resyncing("key-refs", "1s").await.unwrap();
    let (upstream, _) = upstream(&world);
    let elsewhere = world.cluster.namespace("key-refs-elsewhere").await.unwrap();
    let releases = world.releases.clone();
    let other = HelmReleases::new(world.client.clone(), &elsewhere);
    for (name, namespace, objects) in [
        ("same", &world.namespace, &releases),
        ("other", &elsewhere, &other),
    ] {
        let mut spec = app(&upstream, name);
        spec["valuesFrom"] = json!([
            {"configMapKeyRef": {"name": "settings", "namespace": namespace}},
            {"secretKeyRef": {"name": "settings", "namespace": namespace, "key": "own"}},
        ]);
        releases.apply(name, &spec).await.unwrap();
        releases
            .condition(name, "Released", "False", "ConfigMap")
            .await
            .unwrap();
        objects
            .put_config_map("settings", &[("values.yaml", "replicas: 3\nmarker: map")])
            .await
            .unwrap();
        releases
            .condition(name, "Released", "False", "Secret")
            .await
            .unwrap();
        objects
            .put_secret("settings", &[("own", "marker: secret")])
            .await
            .unwrap();
        releases.released(name).await.unwrap();
        let values = world.helm.values(&world.namespace, name).unwrap();
        assert_eq!(values, json!({"replicas": 3, "marker": "secret"}), "{name}");
    }
}

/// When valuesFrom.chartFileRefs are defined, they are sourced
#[tokio::test]
async fn values_from_files_of_the_chart() {
    let world = World::start("chart-files").await.unwrap();
    let (upstream, _) = upstream(&world);
    upstream
        .write(
            "charts/app/overrides/more.yaml",
            "replicas: 2\nmarker: more\n",
        )
        .unwrap();
    let commit = upstream.push("main", "Add more values").unwrap();
    let releases = world.releases.clone();
    let file = |path: &str, optional: bool| json!([{"chartFileRef": {"path": path, "optional": optional}}]);
    let mut spec = app(&upstream, "web");
    spec["valuesFrom"] = file("overrides/more.yaml", false);
    releases.apply("web", &spec).await.unwrap();
    releases.released_from("web", &commit).await.unwrap();
    let values = world.helm.values(&world.namespace, "web").unwrap();
    assert_eq!(values, json!({"replicas": 2, "marker": "more"}));

    spec["valuesFrom"] = file("overrides/missing.yaml", false);
    releases.apply("web", &spec).await.unwrap();
    releases
        .condition("web", "Released", "False", "overrides/missing.yaml")
        .await
        .unwrap();
    spec["valuesFrom"] = file("overrides/missing.yaml", true);
    releases.apply("web", &spec).await.unwrap();
    releases.released("web").await.unwrap();
    let values = world.helm.values(&world.namespace, "web").unwrap();
    assert!(values.is_null() || values == json!({}), "{values}");
}

/// When valuesFrom.externalSourceRefs are defined, they are sourced
#[tokio::test]
async fn values_from_urls() {
    let world = World::start("urls").await.unwrap();
    let (upstream, _) = upstream(&world);
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    server.put_file("more.yaml", "replicas: 2\nmarker: url\n");
    let releases = world.releases.clone();
    let url = |name: &str, optional: bool| {
        let url = server.file_url(name);
        json!([{"externalSourceRef": {"url": url, "optional": optional}}])
    };
    let mut spec = app(&upstream, "web");
    spec["valuesFrom"] = url("more.yaml", false);
    releases.apply("web", &spec).await.unwrap();
    releases.released("web").await.unwrap();
    let values = world.helm.values(&world.namespace, "web").unwrap();
    assert_eq!(values, json!({"replicas": 2, "marker": "url"}));

    spec["valuesFrom"] = url("missing.yaml", false);
    releases.apply("web", &spec).await.unwrap();
    let missing = server.file_url("missing.yaml");
    let told = releases
        .condition("web", "Released", "False", &missing)
        .await
        .unwrap();
    assert!(told.contains("404"), "{told}");
    let values = world.helm.values(&world.namespace, "web").unwrap();
    assert_eq!(values, json!({"replicas": 2, "marker": "url"}));

    spec["valuesFrom"] = url("missing.yaml", true);
    releases.apply("web", &spec).await.unwrap();
    releases.released("web").await.unwrap();
    let values = world.helm.values(&world.namespace, "web").unwrap();
    assert!(values.is_null() || values == json!({}), "{values}");
}
