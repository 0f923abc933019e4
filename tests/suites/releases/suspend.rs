//! What people hold back, and let go again.

use serde_json::{Value, json};
use tandem_tests::kubernetes::HelmRelease;
use tandem_tests::world::World;

use crate::common::{app, push, upstream};

async fn suspend(world: &World, name: &str, value: Value) {
    let annotations = json!({"helm.fluxcd.io/suspend": value});
    let patch = json!({"metadata": {"annotations": annotations}});
    world.releases.patch(name, &patch).await.unwrap();
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
