//! Installs and upgrades that fail or are overtaken.

use kube::ResourceExt;
use serde_json::json;
use tandem_tests::charts;
use tandem_tests::kubernetes::{HelmRelease, from_git};
use tandem_tests::pair::Extra;
use tandem_tests::world::World;

use crate::common::{app, upstream};

#[tokio::test]
async fn a_failed_install_leaves_nothing_and_a_failed_upgrade_goes_forward() {
    let world = World::start("forward").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    let releases = world.releases.clone();
    // The second object is refused by the API server after the first was made.
    let bad = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n";
    upstream.write("charts/app/templates/zz.yaml", bad).unwrap();
    upstream.push("main", "Break app").unwrap();
    releases
        .apply("web", &app(&upstream.file_url(), "web"))
        .await
        .unwrap();
    releases
        .condition("web", "Ready", "False", "Not_A_Name")
        .await
        .unwrap();

    upstream
        .run(&["rm", "--quiet", "charts/app/templates/zz.yaml"])
        .unwrap();
    let fixed = upstream.push("main", "Mend app").unwrap();
    world.sync().await.unwrap();
    releases.released_from("web", &fixed).await.unwrap();
    let revisions = world.helm.revisions(&world.namespace, "web").unwrap();
    assert_eq!(
        revisions,
        [(1, "deployed".to_owned())],
        "the failed install removed itself"
    );

    upstream.write("charts/app/templates/zz.yaml", bad).unwrap();
    upstream.push("main", "Break app again").unwrap();
    world.sync().await.unwrap();
    releases
        .condition("web", "Ready", "False", "Not_A_Name")
        .await
        .unwrap();
    releases.marker("web", "one").await.unwrap();
    let uid = world.helm.history(&world.namespace, "web").unwrap();
    assert_eq!(uid[0].status, "deployed", "{uid:?}");

    upstream
        .run(&["rm", "--quiet", "charts/app/templates/zz.yaml"])
        .unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let fixed = upstream.push("main", "Mend app again").unwrap();
    world.sync().await.unwrap();
    releases.released_from("web", &fixed).await.unwrap();
    releases.marker("web", "two").await.unwrap();
    let history = world.helm.history(&world.namespace, "web").unwrap();
    assert_eq!(history.last().unwrap().status, "deployed", "{history:?}");
    assert_eq!(
        history
            .iter()
            .filter(|one| one.status == "deployed")
            .count(),
        1,
        "{history:?}"
    );
}

#[tokio::test]
async fn a_release_that_helm_cannot_store_keeps_its_predecessor() {
    let world = World::start("large").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let releases = world.releases.clone();
    releases
        .apply("web", &app(&upstream.file_url(), "web"))
        .await
        .unwrap();
    releases.released_from("web", &first).await.unwrap();
    let noise = charts::noise(1_200_000);
    upstream.write("charts/app/files/blob.bin", noise).unwrap();
    upstream.push("main", "Add a blob").unwrap();
    world.sync().await.unwrap();
    releases
        .condition("web", "Ready", "False", "Too long")
        .await
        .unwrap();
    releases.marker("web", "one").await.unwrap();
    assert_eq!(
        world.helm.revisions(&world.namespace, "web").unwrap(),
        [(1, "deployed".to_owned())]
    );
}

/// One helm at a time, and the first one stuck.
#[tokio::test]
async fn what_is_edited_while_it_waits_for_its_turn_is_released_once() {
    let mut world = World::empty("turn").await.unwrap();
    let one_at_a_time = Extra::args(["--workers=1"]);
    world
        .start_pair(&Extra::default(), &one_at_a_time)
        .await
        .unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    upstream
        .write_all(&charts::config_map("charts/stuck", "stuck"))
        .unwrap();
    upstream
        .write(
            "charts/stuck/templates/hook.yaml",
            charts::hook("stuck", "pre-install", ""),
        )
        .unwrap();
    let commit = upstream.push("main", "Add a stuck chart").unwrap();
    let releases = world.releases.clone();
    let mut stuck = from_git(&upstream.file_url(), "main", "charts/stuck");
    stuck["releaseName"] = json!("stuck");
    releases.apply("stuck", &stuck).await.unwrap();
    let running = |one: &HelmRelease| !one.status("operation").is_null();
    releases
        .wait("stuck", "running helm", running)
        .await
        .unwrap();

    let mut spec = app(&upstream.file_url(), "web");
    spec["values"] = json!({"a": "early"});
    releases.apply("web", &spec).await.unwrap();
    let held = |one: &HelmRelease| !one.0.finalizers().is_empty();
    let waiting = releases.wait("web", "made ready", held).await.unwrap();
    assert!(waiting.status("operation").is_null(), "it waits for helm");
    spec["values"] = json!({"a": "late"});
    releases
        .patch("web", &json!({ "spec": spec }))
        .await
        .unwrap();
    releases.delete("stuck").await.unwrap();
    releases.released_from("web", &commit).await.unwrap();
    releases.gone("stuck").await.unwrap();
    assert_eq!(
        world.helm.revisions(&world.namespace, "web").unwrap(),
        [(1, "deployed".to_owned())]
    );
    assert_eq!(
        world.helm.values(&world.namespace, "web").unwrap(),
        json!({"a": "late"})
    );
    let metrics = world.reconciler().unwrap().metrics().await.unwrap();
    assert_eq!(
        metrics.helm_processes_to("install"),
        2.0,
        "one of each HelmRelease"
    );
}

#[tokio::test]
async fn deleted_while_it_is_upgraded_it_leaves_nothing() {
    let world = World::start("midway").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let releases = world.releases.clone();
    releases
        .apply("web", &app(&upstream.file_url(), "web"))
        .await
        .unwrap();
    releases.released_from("web", &first).await.unwrap();
    upstream
        .write(
            "charts/app/templates/hook.yaml",
            charts::hook("stuck", "pre-upgrade", ""),
        )
        .unwrap();
    upstream.push("main", "Add a stuck hook").unwrap();
    world.sync().await.unwrap();
    releases.record("web", "pending-upgrade").await.unwrap();
    releases.delete("web").await.unwrap();
    releases.gone("web").await.unwrap();
    assert!(world.helm.list(&world.namespace).unwrap().is_empty());
    assert_eq!(releases.config_map("web").await.unwrap(), None);
}
