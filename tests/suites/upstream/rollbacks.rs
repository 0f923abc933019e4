//! Case 20: upgrades that fail, and the way back.
//!
//! No node runs Pods here: without replicas the Deployment is ready at once, with replicas
//! the wait for it ends with `spec.timeout`, which is short only while it is to fail.

use serde_json::{Value, json};
use tandem_tests::git::Upstream;
use tandem_tests::kubernetes::HelmRelease;
use tandem_tests::programs;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::{app, ran, states, upstream};

/// A release `web` that is ready and is rolled back when an upgrade fails.
async fn installed(world: &World) -> Upstream {
    let (upstream, commit) = upstream(world);
    let mut spec = app(&upstream, "web");
    spec["values"] = json!({"replicas": 0});
    // helm 4 knows no `recreate`, which is told and stops nothing.
    spec["rollback"] = json!({"enable": true, "recreate": true});
    world.releases.apply("web", &spec).await.unwrap();
    let released = world.releases.released_from("web", &commit).await;
    let released = released.unwrap();
    let told = released.condition("FieldsIgnored");
    let told = told.is_some_and(|told| told.2.contains("spec.rollback.recreate"));
    assert_eq!(told, programs::helm().unwrap().version.major > 3);
    upstream
}

async fn change(world: &World, spec: Value) {
    let patch = json!({ "spec": spec });
    world.releases.patch("web", &patch).await.unwrap();
}

/// Mends what can't become ready, with values of its own.
async fn mend(world: &World) {
    let values = json!({"replicas": 0, "marker": "mended"});
    change(world, json!({"timeout": null, "values": values})).await;
    let mended = world.releases.released("web").await.unwrap();
    assert_eq!(mended.status("releaseStatus"), "deployed");
    assert!(mended.condition("RolledBack").is_none());
    assert!(mended.status("rollbackCount").is_null());
    assert_eq!(
        world.helm.values(&world.namespace, "web").unwrap(),
        json!({"replicas": 0, "marker": "mended"})
    );
}

/// Waits until it was rolled back that often, and is left at that.
async fn given_up(world: &World, rollbacks: u32) {
    let holds = |found: &HelmRelease| {
        found.is_observed()
            && found.status("rollbackCount") == rollbacks
            && found
                .condition("Stalled")
                .is_some_and(|one| one.0 == "True" && one.1 == "RolledBack")
    };
    let what = format!("rolled back {rollbacks} times and given up");
    let found = world.releases.wait("web", &what, holds).await.unwrap();
    assert_eq!(found.condition("RolledBack").unwrap().0, "True");
    assert_eq!(found.condition("Released").unwrap().0, "False");
    assert_eq!(found.condition("Ready").unwrap().0, "False");
    assert_eq!(found.status("releaseStatus"), "deployed");
}

fn log(world: &World) -> String {
    world.reconciler().unwrap().log()
}

/// When rollback.enable is set, releases with failed waits are rolled back
#[tokio::test]
async fn releases_with_failed_waits_are_rolled_back() {
    let world = World::start("waits").await.unwrap();
    let _upstream = installed(&world).await;
    change(&world, json!({"timeout": 5, "values": {"replicas": 1}})).await;
    given_up(&world, 1).await;
    assert!(log(&world).contains("upgrade failed"));
    assert_eq!(states(&world), ["superseded", "failed", "deployed"]);
    assert_eq!(
        world.helm.values(&world.namespace, "web").unwrap(),
        json!({"replicas": 0})
    );
    mend(&world).await;
    let runs = [("install", 1.0), ("upgrade", 2.0), ("rollback", 1.0)];
    ran(&world, &runs).await;
}

/// When rollback.retry is set, upgrades are reattempted after a rollback
#[tokio::test]
async fn upgrades_are_reattempted_after_a_rollback() {
    let world = World::start("retry").await.unwrap();
    let _upstream = installed(&world).await;
    let retried = json!({"timeout": 5, "values": {"replicas": 1}, "rollback": {"retry": true}});
    change(&world, retried).await;
    let thrice = |found: &HelmRelease| found.status("rollbackCount").as_i64() >= Some(3);
    let found = world
        .releases
        .wait("web", "rolled back three times", thrice)
        .await
        .unwrap();
    assert!(found.condition("Stalled").is_none(), "it goes on trying");
    assert!(log(&world).contains("upgrade failed"));
    mend(&world).await;
}

/// When rollback.maxRetries is set to 1, upgrade is only retried once
///
/// helm-operator then says that it runs a dry run "to compare with release", whenever it
/// looks. No helm is run here, which is asserted in place of those words.
#[tokio::test]
async fn upgrade_is_only_retried_once() {
    let world = World::start("once").await.unwrap();
    let _upstream = installed(&world).await;
    let retried = json!({
        "timeout": 5,
        "values": {"replicas": 1},
        "rollback": {"retry": true, "maxRetries": 1},
    });
    change(&world, retried).await;
    given_up(&world, 2).await;
    assert!(log(&world).contains("upgrade failed"));
    let twice = ["superseded", "failed", "superseded", "failed", "deployed"];
    assert_eq!(states(&world), twice);
    let runs = [("install", 1.0), ("upgrade", 2.0), ("rollback", 2.0)];
    ran(&world, &runs).await;

    // It is looked at again, and there is nothing new to release.
    change(&world, json!({"timeout": 6})).await;
    given_up(&world, 2).await;
    assert_eq!(states(&world), twice);
    ran(&world, &runs).await;
    mend(&world).await;
}

/// When rollback.enable is set, validation error does not trigger a rollback (v3)
///
/// That is, what helm refuses by itself, before it makes a revision. The type of a field was
/// among that once; now that is for the API server to judge, while the revision is being
/// applied: there is something to roll back.
#[tokio::test]
async fn validation_error_does_not_trigger_a_rollback() {
    let world = World::start("validation").await.unwrap();
    let upstream = installed(&world).await;
    let schema = "charts/app/values.schema.json";
    let integer = json!({"properties": {"replicas": {"type": "integer"}}});
    upstream.write(schema, integer.to_string()).unwrap();
    let commit = upstream.push("main", "Add a schema").unwrap();
    world.sync().await.unwrap();
    world.releases.released_from("web", &commit).await.unwrap();

    change(&world, json!({"values": {"replicas": "faulty"}})).await;
    // A second try shows that there was no rollback after the first one.
    until(
        "the schema, and two tries at faulty values",
        LONG,
        || async {
            let metrics = world.reconciler()?.metrics().await?;
            let upgrades = metrics.helm_processes_to("upgrade");
            Ok(Look::when(upgrades >= 3.0, format!("{upgrades} upgrades")))
        },
    )
    .await
    .unwrap();
    let found = world.releases.get("web").await.unwrap();
    assert_eq!(found.condition("Released").unwrap().0, "False");
    assert!(found.condition("RolledBack").is_none());
    assert!(found.status("rollbackCount").is_null());
    assert_eq!(states(&world), ["superseded", "deployed"]);

    upstream.run(&["rm", "--quiet", schema]).unwrap();
    upstream.push("main", "Leave it to the API server").unwrap();
    world.sync().await.unwrap();
    given_up(&world, 1).await;
    mend(&world).await;
}
