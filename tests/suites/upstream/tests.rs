//! Case 40: releases with tests. Those are Pods, and this suite ends them, as a node would.

use serde_json::{Value, json};
use tandem_tests::kubernetes::{HelmRelease, PodEnd, end_pod};
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::{app, ran, states, upstream};

/// Named by the revision, so that a Pod tells which run it belongs to.
const TEST: &str = "apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-test-{{ .Release.Revision }}
  annotations: {helm.sh/hook: test}
spec:
  restartPolicy: Never
  serviceAccountName: {{ .Release.Name }}
  containers:
    - name: test
      image: registry.example/test:1
";

/// Applies a HelmRelease `web` of a chart with a test.
async fn apply(world: &World, rest: Value) {
    let (upstream, _) = upstream(world);
    upstream
        .write("charts/app/templates/tests/test.yaml", TEST)
        .unwrap();
    upstream.push("main", "Add a test").unwrap();
    let mut spec = app(&upstream, "web");
    spec["values"] = json!({"replicas": 0});
    for (field, value) in rest.as_object().unwrap() {
        spec[field] = value.clone();
    }
    world.releases.apply("web", &spec).await.unwrap();
}

/// A release `web` that is installed and has passed its test.
async fn installed(world: &World, rest: Value) -> HelmRelease {
    apply(world, rest).await;
    run_test(world, 1, PodEnd::Succeeded).await;
    world.releases.released("web").await.unwrap()
}

/// Changes values, so that there is something to release, and the settings of tests.
async fn change(world: &World, marker: &str, test: Value) {
    let patch = json!({"spec": {"values": {"marker": marker}, "test": test}});
    world.releases.patch("web", &patch).await.unwrap();
}

async fn run_test(world: &World, revision: u32, end: PodEnd) {
    let pod = format!("web-test-{revision}");
    end_pod(&world.client, &world.namespace, &pod, end)
        .await
        .unwrap();
}

/// Waits until the newest generation was acted on, with these conditions.
async fn conditions(world: &World, wanted: &[(&str, &str)]) -> HelmRelease {
    world
        .releases
        .wait("web", &format!("{wanted:?}"), |found| {
            found.is_observed()
                && wanted
                    .iter()
                    .all(|(name, status)| found.condition(name).is_some_and(|one| one.0 == *status))
        })
        .await
        .unwrap()
}

async fn logged(world: &World, words: &str) {
    let reconciler = world.reconciler().unwrap();
    until(format!("{words:?} in the log"), LONG, || async {
        let log = reconciler.log();
        Ok(Look::when(log.contains(words), log))
    })
    .await
    .unwrap();
}

/// When test.enable is set, tests are run
#[tokio::test]
async fn tests_are_run() {
    let world = World::start("tests").await.unwrap();
    installed(&world, json!({"test": {"enable": true}})).await;
    let found = conditions(&world, &[("Released", "True"), ("Tested", "True")]).await;
    assert_eq!(found.status("releaseStatus"), "deployed");
    let status = world
        .helm
        .ok(&world.namespace, &["status", "web", "--output", "json"])
        .unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    let hook = &status["hooks"][0];
    assert_eq!(hook["events"], json!(["test"]), "{status}");
    assert_eq!(hook["last_run"]["phase"], "Succeeded", "{status}");
    ran(&world, &[("install", 1.0), ("test", 1.0)]).await;
}

/// When test.enable is set and test.ignoreFailures is false, releases with failed tests
/// are uninstalled
#[tokio::test]
async fn releases_with_failed_tests_are_uninstalled() {
    let world = World::start("untested").await.unwrap();
    apply(&world, json!({"test": {"enable": true}})).await;
    run_test(&world, 1, PodEnd::Failed).await;
    logged(&world, "test failed").await;
    logged(&world, "running uninstall").await;

    // It is tried again, and is a first revision again: nothing was left of the one before.
    run_test(&world, 1, PodEnd::Succeeded).await;
    world.releases.released("web").await.unwrap();
    assert_eq!(states(&world), ["deployed"]);
    ran(
        &world,
        &[("install", 2.0), ("test", 2.0), ("uninstall", 1.0)],
    )
    .await;
}

/// When tests fail and test.ignoreFailures is false, Tested and Released conditions are
/// False
#[tokio::test]
async fn tested_and_released_conditions_are_false() {
    let world = World::start("failing").await.unwrap();
    installed(&world, json!({"test": {"enable": true}})).await;
    change(&world, "two", json!({})).await;
    run_test(&world, 2, PodEnd::Failed).await;
    let found = conditions(&world, &[("Tested", "False"), ("Released", "False")]).await;
    logged(&world, "test failed").await;
    assert_eq!(found.status("phase"), "TestFailed");
    // Nobody asked for a rollback.
    conditions(&world, &[("Stalled", "True"), ("Ready", "False")]).await;
    assert_eq!(states(&world), ["superseded", "deployed"]);
    ran(&world, &[("install", 1.0), ("upgrade", 1.0), ("test", 2.0)]).await;
}

/// When tests fail and test.ignoreFailures is true, release has Released condition is True
/// & Tested condition is False
#[tokio::test]
async fn released_condition_is_true_and_tested_condition_is_false() {
    let world = World::start("ignored").await.unwrap();
    apply(
        &world,
        json!({"test": {"enable": true, "ignoreFailures": true}}),
    )
    .await;
    run_test(&world, 1, PodEnd::Failed).await;
    let wanted = [("Released", "True"), ("Tested", "False"), ("Ready", "True")];
    conditions(&world, &wanted).await;
    logged(&world, "test failed - ignoring failures").await;
    assert_eq!(states(&world), ["deployed"]);

    change(&world, "two", json!({})).await;
    run_test(&world, 2, PodEnd::Failed).await;
    conditions(&world, &wanted).await;
    logged(&world, "upgrade succeeded").await;
    let told = world.volume.decision(&world.namespace, "web").unwrap();
    assert_eq!(told.unwrap().failures, 0, "nothing that counts has failed");
    assert_eq!(states(&world), ["superseded", "deployed"]);
    ran(&world, &[("install", 1.0), ("upgrade", 1.0), ("test", 2.0)]).await;
}

/// Rolled back from revision 2, which failed its test; then mended.
async fn rolled_back_and_mended(world: &World) {
    let found = conditions(world, &[("RolledBack", "True"), ("Stalled", "True")]).await;
    logged(world, "test failed").await;
    assert_eq!(found.condition("Tested").unwrap().0, "False");
    assert_eq!(found.condition("Released").unwrap().0, "False");
    assert_eq!(found.status("rollbackCount"), 1);
    assert_eq!(found.status("releaseStatus"), "deployed");
    assert_eq!(states(world), ["superseded", "superseded", "deployed"]);
    assert_eq!(
        world.helm.values(&world.namespace, "web").unwrap(),
        json!({"replicas": 0})
    );

    change(world, "mended", json!({"timeout": null})).await;
    run_test(world, 4, PodEnd::Succeeded).await;
    let mended = conditions(world, &[("Released", "True"), ("Tested", "True")]).await;
    assert!(mended.condition("RolledBack").is_none());
    assert!(mended.status("rollbackCount").is_null());
    let runs = [
        ("install", 1.0),
        ("upgrade", 2.0),
        ("rollback", 1.0),
        ("test", 3.0),
    ];
    ran(world, &runs).await;
}

/// When test.enable and rollback.enable are set and test.ignoreFailures is false, releases
/// with failed tests are rolled back
#[tokio::test]
async fn releases_with_failed_tests_are_rolled_back() {
    let world = World::start("return").await.unwrap();
    installed(
        &world,
        json!({"test": {"enable": true}, "rollback": {"enable": true}}),
    )
    .await;
    change(&world, "two", json!({})).await;
    run_test(&world, 2, PodEnd::Failed).await;
    rolled_back_and_mended(&world).await;
}

/// When test.enable and rollback.enable are set, releases with timed out tests are rolled
/// back
#[tokio::test]
async fn releases_with_timed_out_tests_are_rolled_back() {
    let world = World::start("late").await.unwrap();
    installed(
        &world,
        json!({"test": {"enable": true}, "rollback": {"enable": true}}),
    )
    .await;
    // Nobody ends this one.
    change(&world, "two", json!({"timeout": 5})).await;
    rolled_back_and_mended(&world).await;
}
