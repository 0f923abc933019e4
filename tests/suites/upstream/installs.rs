//! Cases 10, 15, 25, 35 and 50: installs, upgrades, histories, the end.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::json;
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::helm_repository::HelmRepository;
use tandem_tests::kubernetes::from_git;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::{app, upstream};

async fn replicas(world: &World, name: &str) -> Option<i32> {
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), &world.namespace);
    let found = deployments.get_opt(name).await.unwrap()?;
    found.spec?.replicas
}

/// Helm chart installation smoke test
#[tokio::test]
async fn smoke() {
    let world = World::start("smoke").await.unwrap();
    let (_upstream, commit) = upstream(&world);
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    let mut spec = from_git(&server.url("charts"), "main", "charts/app");
    spec["releaseName"] = json!("podinfo");
    world.releases.apply("podinfo", &spec).await.unwrap();
    let repository = HelmRepository::new(&server, "charts").unwrap();
    let files = charts::application("podinfo", "one");
    repository
        .publish_files("podinfo", "3.2.0", &files)
        .unwrap();
    let spec = json!({
        "releaseName": "podinfo-helm-repository",
        "chart": {"repository": repository.url(), "name": "podinfo", "version": "3.2.0"},
    });
    let releases = &world.releases;
    releases
        .apply("podinfo-helm-repository", &spec)
        .await
        .unwrap();
    for (name, revision) in [
        ("podinfo", commit.as_str()),
        ("podinfo-helm-repository", "3.2.0"),
    ] {
        let found = releases.released_from(name, revision).await.unwrap();
        assert_eq!(found.status("releaseStatus"), "deployed");
        assert_eq!(found.condition("Deployed").unwrap().0, "True");
    }
}

/// When a mutation it Git is made, a release is upgraded
///
/// When a values.yaml change in Git is made, a release is upgraded
#[tokio::test]
async fn a_change_in_git_without_a_new_version() {
    let world = World::start("mutation").await.unwrap();
    let (upstream, first) = upstream(&world);
    let releases = world.releases.clone();
    releases.apply("web", &app(&upstream, "web")).await.unwrap();
    releases.released_from("web", &first).await.unwrap();
    let changes = [
        ("templates/NOTES.txt", "It is up.\n"),
        (
            "values.yaml",
            "replicas: 2\nimage: registry.example/app:1\nmarker: one\n",
        ),
    ];
    for (file, content) in changes {
        upstream
            .write(&format!("charts/app/{file}"), content)
            .unwrap();
        let head = upstream.push("main", &format!("Change {file}")).unwrap();
        world.sync().await.unwrap();
        let found = releases.released_from("web", &head).await.unwrap();
        assert_eq!(
            found.status("lastAttemptedRevision"),
            head.as_str(),
            "{file}"
        );
        assert_eq!(found.condition("Deployed").unwrap().0, "True", "{file}");
    }
    assert_eq!(replicas(&world, "web").await, Some(2));
}

/// When resetValues is explicitly set to false, previous values of a release are reused
#[tokio::test]
async fn values_of_an_adopted_release_are_reused() {
    let world = World::start("reuse").await.unwrap();
    let (upstream, _) = upstream(&world);
    let chart = upstream.work().join("charts/app").display().to_string();
    world
        .helm
        .ok(
            &world.namespace,
            &["install", "web", &chart, "--set", "replicas=2"],
        )
        .unwrap();
    let mut spec = app(&upstream, "web");
    spec["resetValues"] = json!(false);
    spec["values"] = json!({"marker": "ours"});
    world.releases.apply("web", &spec).await.unwrap();
    world.releases.released("web").await.unwrap();
    let values = world.helm.values(&world.namespace, "web").unwrap();
    assert_eq!(values, json!({"marker": "ours", "replicas": 2}));
    assert_eq!(replicas(&world, "web").await, Some(2));

    let unset = json!({"spec": {"resetValues": null}});
    world.releases.patch("web", &unset).await.unwrap();
    until("one replica", LONG, || async {
        let now = replicas(&world, "web").await;
        Ok(Look::when(now == Some(1), format!("{now:?}")))
    })
    .await
    .unwrap();
    world.releases.released("web").await.unwrap();
}

/// When a HelmRelease is nested in a chart, an upgrade does succeed
#[tokio::test]
async fn a_helmrelease_in_a_chart() {
    let world = World::start("nested").await.unwrap();
    let (upstream, _) = upstream(&world);
    let child = |marker: &str| {
        format!(
            "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: child}}\nspec:\n  \
             releaseName: child\n  chart: {{git: \"{}\", ref: main, path: charts/app}}\n  \
             values: {{marker: {marker}}}\n",
            upstream.file_url()
        )
    };
    let put = |marker: &str| {
        upstream
            .write_all(&charts::config_map("charts/parent", marker))
            .unwrap();
        upstream
            .write("charts/parent/templates/child.yaml", child(marker))
            .unwrap();
        upstream.push("main", &format!("Make it {marker}")).unwrap()
    };
    let first = put("one");
    let releases = world.releases.clone();
    let mut parent = from_git(&upstream.file_url(), "main", "charts/parent");
    parent["releaseName"] = json!("parent");
    releases.apply("parent", &parent).await.unwrap();
    releases.released_from("parent", &first).await.unwrap();
    let before = releases.released("child").await.unwrap();
    let second = put("two");
    world.sync().await.unwrap();
    releases.released_from("parent", &second).await.unwrap();
    let generation = before.status("observedGeneration").as_i64().unwrap();
    releases
        .wait("child", "observed and released again", |one| {
            one.status("observedGeneration") == generation + 1
                && one.condition("Released").is_some_and(|one| one.0 == "True")
        })
        .await
        .unwrap();
    let values = world.helm.values(&world.namespace, "child").unwrap();
    assert_eq!(values, json!({"marker": "two"}));
}

/// When an upgrade fails, Deployed and Released conditions are False
#[tokio::test]
async fn a_failed_upgrade() {
    let world = World::start("failed").await.unwrap();
    let (upstream, first) = upstream(&world);
    let releases = world.releases.clone();
    releases.apply("web", &app(&upstream, "web")).await.unwrap();
    releases.released_from("web", &first).await.unwrap();
    let bad = json!({"spec": {"values": {"replicas": "a word"}}});
    releases.patch("web", &bad).await.unwrap();
    for condition in ["Deployed", "Released"] {
        let message = releases
            .condition("web", condition, "False", "")
            .await
            .unwrap();
        assert!(message.contains("upgrade failed"), "{condition}: {message}");
    }
    assert!(world.reconciler().unwrap().log().contains("upgrade failed"));
}

/// When max history is not set on release the most recent 10 revisions are kept
///
/// When max history on release is set to 5 the most recent 5 revisions are kept
#[tokio::test]
async fn histories_are_kept_short() {
    let world = World::start("history").await.unwrap();
    let (upstream, _) = upstream(&world);
    let releases = world.releases.clone();
    let cases = [("ten", None, 10_u32), ("five", Some(5), 5)];
    for (name, most, _) in cases {
        let mut spec = app(&upstream, name);
        spec["maxHistory"] = json!(most);
        releases.apply(name, &spec).await.unwrap();
    }
    for step in 1..=11 {
        for (name, most, kept) in cases {
            if most.is_some() && step > kept + 1 {
                continue;
            }
            let marker = format!("step {step}");
            let patch = json!({"spec": {"values": {"marker": marker}}});
            releases.patch(name, &patch).await.unwrap();
        }
        for (name, ..) in cases {
            releases.released(name).await.unwrap();
        }
    }
    for (name, _, kept) in cases {
        let revisions = world.helm.revisions(&world.namespace, name).unwrap();
        let last = revisions.last().unwrap().0;
        assert!(last > kept, "{name}: {revisions:?}");
        assert_eq!(revisions.len(), kept as usize, "{name}: {revisions:?}");
        assert_eq!(revisions[0].0, last - kept + 1, "{name}: the newest");
    }
}

/// When skipCRDs is set
#[tokio::test]
async fn definitions_are_skipped() {
    let world = World::start("skip-crds").await.unwrap();
    let (upstream, _) = upstream(&world);
    // Definitions belong to no namespace: the name is of this test alone.
    let name = format!("things.{}.example", world.namespace);
    let definition = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {name}}}\n\
         spec:\n  group: {}.example\n  scope: Namespaced\n  names: {{plural: things, kind: Thing}}\n  versions:\n    \
         - name: v1\n      served: true\n      storage: true\n      schema: {{openAPIV3Schema: {{type: object}}}}\n",
        world.namespace
    );
    upstream
        .write("charts/app/crds/things.yaml", definition)
        .unwrap();
    let commit = upstream.push("main", "Add a definition").unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let mut spec = app(&upstream, "without");
    spec["skipCRDs"] = json!(true);
    world.releases.apply("without", &spec).await.unwrap();
    let found = world
        .releases
        .released_from("without", &commit)
        .await
        .unwrap();
    assert_eq!(found.status("releaseStatus"), "deployed");
    assert!(definitions.get_opt(&name).await.unwrap().is_none());

    let with = app(&upstream, "with");
    world.releases.apply("with", &with).await.unwrap();
    world.releases.released_from("with", &commit).await.unwrap();
    assert!(definitions.get_opt(&name).await.unwrap().is_some());
    definitions
        .delete(&name, &Default::default())
        .await
        .unwrap();
}

/// Deletes cleanup resources successfully
#[tokio::test]
async fn a_deleted_helmrelease_takes_its_objects_along() {
    let world = World::start("cleanup").await.unwrap();
    let (upstream, _) = upstream(&world);
    let spec = app(&upstream, "web");
    world.releases.apply("web", &spec).await.unwrap();
    world.releases.released("web").await.unwrap();
    assert_eq!(replicas(&world, "web").await, Some(1));
    world.releases.delete("web").await.unwrap();
    world.releases.gone("web").await.unwrap();
    until("the Deployment to be gone", LONG, || async {
        let left = replicas(&world, "web").await;
        Ok(Look::when(left.is_none(), format!("{left:?}")))
    })
    .await
    .unwrap();
    assert!(world.helm.list(&world.namespace).unwrap().is_empty());
}
