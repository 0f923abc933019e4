//! The pair with helm 3.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use serde_json::json;
use tandem_tests::kubernetes::from_git;
use tandem_tests::pair::Extra;
use tandem_tests::world::World;
use tandem_tests::{charts, programs};

#[tokio::test]
async fn helm_three_installs_upgrades_fails_mends_and_uninstalls() {
    let helm = programs::helm3().unwrap();
    assert_eq!(helm.version.major, 3);
    let mut world = World::with_helm("three", Some(helm.program)).await.unwrap();
    world
        .start_pair(&Extra::default(), &Extra::args(["--git-poll-interval=24h"]))
        .await
        .unwrap();
    let upstream = world.upstreams.create("charts").unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "one"))
        .unwrap();
    let first = upstream.push("main", "Add app").unwrap();
    let releases = world.releases.clone();
    let mut spec = from_git(&upstream.file_url(), "main", "charts/app");
    spec["releaseName"] = json!("web");
    spec["values"] = json!({"octal": "0777", "nothing": null});
    releases.apply("web", &spec).await.unwrap();
    releases.released_from("web", &first).await.unwrap();
    assert!(
        releases.config_map("web").await.unwrap().unwrap()["values"].contains("\"octal\":\"0777\"")
    );

    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    world.sync().await.unwrap();
    releases.released_from("web", &second).await.unwrap();
    releases.marker("web", "two").await.unwrap();

    let bad = "charts/app/templates/zz.yaml";
    upstream.write(bad, charts::broken_template()).unwrap();
    upstream.push("main", "Break app").unwrap();
    world.sync().await.unwrap();
    releases
        .condition("web", "Ready", "False", "a name is needed")
        .await
        .unwrap();
    releases.marker("web", "two").await.unwrap();
    upstream.run(&["rm", "--quiet", bad]).unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "three"))
        .unwrap();
    let third = upstream.push("main", "Mend app").unwrap();
    world.sync().await.unwrap();
    releases.released_from("web", &third).await.unwrap();
    releases.marker("web", "three").await.unwrap();

    releases.delete("web").await.unwrap();
    releases.gone("web").await.unwrap();
    assert!(world.helm.list(&world.namespace).unwrap().is_empty());
}
