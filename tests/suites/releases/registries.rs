//! Charts from an OCI registry, pushed there by the real helm.

use serde_json::{Value, json};
use tandem_tests::pair::Extra;
use tandem_tests::registry::{Access, PASSWORD, Registry, USER};
use tandem_tests::world::World;

/// A HelmRelease of the chart `web` whose release bears its own name.
fn web(registry: &Registry, name: &str, version: &str) -> Value {
    json!({
        "releaseName": name,
        "chart": {
            "repository": registry.url("charts"), "name": "web", "version": version,
            "chartPullSecret": {"name": "pull"},
        },
    })
}

#[tokio::test]
async fn a_chart_of_a_registry_is_installed_and_upgraded_by_a_push() {
    let registry = Registry::start(Access::Token).unwrap();
    let mut world = World::empty("registry").await.unwrap();
    let plain = format!("--plain-http-registries={}", registry.host());
    let never = Extra::args(["--git-poll-interval=24h"]);
    world
        .start_pair(&Extra::args([plain]), &never)
        .await
        .unwrap();
    registry.push("charts", "web", "1.0.0", "one").unwrap();
    let releases = world.releases.clone();
    releases
        .apply("range", &web(&registry, "range", "^1"))
        .await
        .unwrap();
    // Never without its Secret, of which nothing is asked before.
    releases
        .condition("range", "ChartFetched", "False", "pull")
        .await
        .unwrap();
    let before = registry.tokens_asked();
    assert!(
        before.iter().all(|line| line.contains("push")),
        "{before:?}"
    );

    let entry = json!({"username": USER, "password": PASSWORD});
    let docker = json!({"auths": {registry.host(): entry}}).to_string();
    releases
        .put_secret("pull", &[(".dockerconfigjson", docker.as_str())])
        .await
        .unwrap();
    releases
        .apply("tag", &web(&registry, "tag", "1.0.0"))
        .await
        .unwrap();
    for name in ["range", "tag"] {
        releases.released_from(name, "1.0.0").await.unwrap();
        releases.marker(name, "one").await.unwrap();
    }

    // A newer version moves the range alone.
    registry.push("charts", "web", "1.1.0", "two").unwrap();
    world.sync().await.unwrap();
    releases.released_from("range", "1.1.0").await.unwrap();
    releases.marker("range", "two").await.unwrap();
    // A tag that is pushed again moves whoever asks for it.
    registry.push("charts", "web", "1.0.0", "moved").unwrap();
    world.sync().await.unwrap();
    releases.marker("tag", "moved").await.unwrap();
    releases.released("tag").await.unwrap();
    for name in ["range", "tag"] {
        let states = world.helm.states(&world.namespace, name).unwrap();
        assert_eq!(states, ["superseded", "deployed"], "{name}");
    }

    let logs = [
        world.sidecar().unwrap().log(),
        world.reconciler().unwrap().log(),
        releases.get("tag").await.unwrap().0.data.to_string(),
    ];
    assert!(logs.iter().all(|text| !text.contains(PASSWORD)));
    assert!(world.volume.find(PASSWORD).unwrap().is_empty());
}
