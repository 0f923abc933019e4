//! A steady state costs nothing but a look at each source.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::json;
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::kubernetes::{HelmRelease, from_git};
use tandem_tests::pair::Extra;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

/// HelmReleases on the one repository.
const RELEASES: usize = 50;
/// Poll intervals that are watched.
const INTERVALS: f64 = 10.0;

async fn versions(world: &World) -> BTreeMap<String, String> {
    let listed = world.releases.list().await.unwrap();
    listed
        .into_iter()
        .map(|one| {
            (
                one.0.metadata.name.unwrap(),
                one.0.metadata.resource_version.unwrap(),
            )
        })
        .collect()
}

#[tokio::test]
async fn fifty_releases_at_rest_start_fetch_and_write_nothing() {
    let mut world = World::empty("steady").await.unwrap();
    let upstream = world.upstreams.create("charts").unwrap();
    for chart in 0..5 {
        upstream
            .write_all(&charts::config_map(&format!("charts/c{chart}"), "one"))
            .unwrap();
    }
    upstream.push("main", "Add charts").unwrap();
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    // The slow looks at everything are part of the steady state.
    let often = Extra::args(["--git-poll-interval=1s", "--charts-sync-interval=2s"]);
    world
        .start_pair(&Extra::args(["--rescan-interval=2s"]), &often)
        .await
        .unwrap();
    let names: Vec<String> = (0..RELEASES).map(|number| format!("r{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let mut spec = from_git(
            &server.url("charts"),
            "main",
            &format!("charts/c{}", number % 5),
        );
        spec["releaseName"] = json!(name);
        world.releases.apply(name, &spec).await.unwrap();
    }
    for name in &names {
        world.releases.released(name).await.unwrap();
    }
    // Objects may be annotated only after the last release stands.
    for name in &names {
        let annotated = |one: &HelmRelease| !one.status("annotatedRevision").is_null();
        let waited = world.releases.wait(name, "annotated", annotated).await;
        waited.unwrap();
    }
    // What is still being written about the last release is written.
    let seen = Mutex::new(BTreeMap::new());
    until("nothing more to be written", LONG, || async {
        let now = versions(&world).await;
        let before = std::mem::replace(&mut *seen.lock().unwrap(), now.clone());
        Ok(Look::when(before == now, "still changing"))
    })
    .await
    .unwrap();
    let before = seen.into_inner().unwrap();

    let reconciler = world.reconciler().unwrap().metrics().await.unwrap();
    let polls = world.sidecar().unwrap().metrics().await.unwrap().polls();
    server.clear();
    until("ten poll intervals", LONG, || async {
        let now = world.sidecar()?.metrics().await?.polls() - polls;
        Ok(Look::when(now >= INTERVALS, now))
    })
    .await
    .unwrap();
    let after = world.reconciler().unwrap().metrics().await.unwrap();
    let requests = server.requests();
    let polled = world.sidecar().unwrap().metrics().await.unwrap().polls() - polls;
    assert_eq!(
        after.helm_processes() - reconciler.helm_processes(),
        0.0,
        "helm processes"
    );
    assert_eq!(
        after.api_writes() - reconciler.api_writes(),
        0.0,
        "API writes"
    );
    let posted = |command: &str| {
        requests
            .iter()
            .filter(|one| String::from_utf8_lossy(&one.body).contains(command))
            .count()
    };
    assert_eq!(posted("command=fetch"), 0, "fetches");
    let looks = posted("command=ls-refs") as f64;
    assert!(
        (looks - polled).abs() <= 1.0,
        "{looks} looks in {polled} polls"
    );
    assert_eq!(versions(&world).await, before, "no HelmRelease was written");
}
