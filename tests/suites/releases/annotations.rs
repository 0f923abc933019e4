//! What people hold back, let go again, and hurry.

use serde_json::{Value, json};
use tandem_tests::charts;
use tandem_tests::kubernetes::HelmRelease;
use tandem_tests::world::World;

use crate::common::{app, push, upstream};

async fn annotate(world: &World, name: &str, annotation: &str, value: Value) {
    let patch = json!({"metadata": {"annotations": {annotation: value}}});
    world.releases.patch(name, &patch).await.unwrap();
}

async fn suspend(world: &World, name: &str, value: Value) {
    annotate(world, name, "helm.fluxcd.io/suspend", value).await;
}

const REQUESTED: &str = "reconcile.fluxcd.io/requestedAt";

/// Asks for a HelmRelease to be looked at, and waits until that is done.
async fn request(world: &World, name: &str, at: &str) -> HelmRelease {
    annotate(world, name, REQUESTED, json!(at)).await;
    is_looked_at(world, name, at).await
}

async fn is_looked_at(world: &World, name: &str, at: &str) -> HelmRelease {
    let handled = |one: &HelmRelease| one.status("lastHandledReconcileAt") == at;
    let handled = world.releases.wait(name, "looked at", handled).await;
    handled.unwrap()
}

fn is_suspended(one: &HelmRelease) -> bool {
    one.condition("Suspended").is_some()
}

#[tokio::test]
async fn a_suspended_helmrelease_is_left_alone_until_it_is_resumed() {
    let mut world = World::start("suspend").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let releases = world.releases.clone();
    for name in ["held", "free"] {
        let spec = app(&upstream.file_url(), name);
        releases.apply(name, &spec).await.unwrap();
        releases.released_from(name, &first).await.unwrap();
    }
    suspend(&world, "held", json!("true")).await;
    let held = releases.wait("held", "suspended", is_suspended).await;
    assert_eq!(held.unwrap().condition("Ready").unwrap().0, "True");

    // What is pushed goes out to the other one of the same source; a restart changes nothing.
    let second = push(&upstream, "two");
    world.sync().await.unwrap();
    releases.released_from("free", &second).await.unwrap();
    let reconciler = world.reconciler_mut().unwrap();
    reconciler.kill().unwrap();
    reconciler.restart().unwrap();
    reconciler.ready().await.unwrap();
    let third = push(&upstream, "three");
    world.sync().await.unwrap();
    releases.released_from("free", &third).await.unwrap();
    let told = world.volume.decision(&world.namespace, "held").unwrap();
    let told = told.unwrap();
    assert_eq!(
        (told.action.as_str(), told.reason.as_str()),
        ("Nothing", "Suspended")
    );
    let revisions = |name: &str| world.helm.revisions(&world.namespace, name).unwrap().len();
    assert_eq!((revisions("held"), revisions("free")), (1, 3));

    suspend(&world, "held", Value::Null).await;
    let resumed = releases.released_from("held", &third).await.unwrap();
    assert!(!is_suspended(&resumed));
    assert_eq!(revisions("held"), 2);

    // Its deletion leaves the release alone, too.
    suspend(&world, "held", json!("true")).await;
    releases
        .wait("held", "suspended", is_suspended)
        .await
        .unwrap();
    releases.delete("held").await.unwrap();
    releases.gone("held").await.unwrap();
    releases.marker("held", "three").await.unwrap();
    assert_eq!(revisions("held"), 2);
}

#[tokio::test]
async fn a_helmrelease_that_is_asked_for_is_looked_at_and_tried_at_once() {
    let mut world = World::start("asked-for").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let releases = world.releases.clone();
    let spec = app(&upstream.file_url(), "web");
    releases.apply("web", &spec).await.unwrap();
    releases.released_from("web", &first).await.unwrap();

    // Nothing polls and no webhook calls; the annotation alone has the source checked.
    let second = push(&upstream, "two");
    let handled = request(&world, "web", "noon").await;
    assert_eq!(handled.status("revision"), second.as_str());
    releases.marker("web", "two").await.unwrap();

    // Nothing new is asked for, and nothing is done.
    request(&world, "web", "one o'clock").await;
    let revisions = world.helm.revisions(&world.namespace, "web").unwrap();
    assert_eq!(revisions.len(), 2);

    // It may be asked for while nobody looks.
    world.reconciler_mut().unwrap().kill().unwrap();
    let third = push(&upstream, "three");
    annotate(&world, "web", REQUESTED, json!("half past one")).await;
    world.reconciler_mut().unwrap().restart().unwrap();
    let handled = is_looked_at(&world, "web", "half past one").await;
    assert_eq!(handled.status("revision"), third.as_str());

    // What failed and waits for its next try needn't wait any longer.
    let broken = charts::broken_template();
    let file = "charts/app/templates/zz.yaml";
    upstream.write(file, broken).unwrap();
    upstream.push("main", "Break app").unwrap();
    let tries = || async {
        let metrics = world.reconciler().unwrap().metrics().await.unwrap();
        metrics
            .helm_runs()
            .get("upgrade")
            .copied()
            .unwrap_or_default()
    };
    request(&world, "web", "two o'clock").await;
    let before = tries().await;
    let failed = request(&world, "web", "three o'clock").await;
    assert_eq!(failed.condition("Ready").unwrap().0, "False");
    assert!(tries().await > before, "it was tried once more");
}
