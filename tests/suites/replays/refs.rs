//! Refs that move, go, return and change their names.

use serde_json::json;
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::wait::{LONG, Look, until};

use crate::common::{Replay, app, push, repository};

replays! {
    /// A1: flux#3120, flux#696.
    a01_a_force_push_is_followed

    /// A2: helm-operator#108, flipt#4179.
    a02_a_ref_that_is_deleted_stops_nobody_and_returns

    /// A4: devtron#4605, atlantis#6682.
    a04_a_branch_becomes_the_folder_of_another
}

async fn a01_a_force_push_is_followed(mut replay: Replay) {
    let upstream = repository(&replay.world, "r1", "one");
    let first = upstream.head().unwrap();
    let releases = replay.world.releases.clone();
    releases
        .apply("a", &app(&upstream.file_url(), "a"))
        .await
        .unwrap();
    replay.live("a", &first, "one").await;

    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let orphan = upstream.push_orphan("main", "Begin anew").unwrap();
    replay.world.sync().await.unwrap();
    replay.strike().await;
    replay.world.sync().await.unwrap();
    replay.live("a", &orphan, "two").await;

    let third = push(&upstream, "three");
    replay.world.sync().await.unwrap();
    replay.live("a", &third, "three").await;
    replay.ends_well().await;
}

async fn a02_a_ref_that_is_deleted_stops_nobody_and_returns(mut replay: Replay) {
    let upstream = repository(&replay.world, "r1", "one");
    let first = upstream.head().unwrap();
    let x = |marker: &str| {
        upstream
            .write_all(&charts::config_map("charts/app", marker))
            .unwrap();
        upstream
            .push("x", &format!("Change app to {marker}"))
            .unwrap()
    };
    let on_x = x("x one");
    let server = HttpServer::start(&replay.world.upstreams, Scheme::Http).unwrap();
    let releases = replay.world.releases.clone();
    let spec = app(&server.url("r1"), "a");
    releases.apply("a", &spec).await.unwrap();
    let mut spec = app(&server.url("r1"), "x");
    spec["chart"]["ref"] = json!("x");
    releases.apply("x", &spec).await.unwrap();
    replay.live("a", &first, "one").await;
    replay.live("x", &on_x, "x one").await;
    let uid = replay.uid("x").await;

    // It is gone. Who asks for it is told, and keeps what there is; the other goes on.
    upstream.delete_branch("x").unwrap();
    let second = push(&upstream, "two");
    replay.world.sync().await.unwrap();
    replay.live("a", &second, "two").await;
    let gone = |message: String| {
        assert!(message.contains(r#"no branch or tag "x""#), "{message}");
    };
    for condition in ["ChartFetched", "Released", "Ready"] {
        let told = releases.condition("x", condition, "False", "\"x\"");
        gone(told.await.unwrap());
    }
    replay.strike().await;
    let third = push(&upstream, "three");
    replay.world.sync().await.unwrap();
    replay.live("a", &third, "three").await;
    gone(
        releases
            .condition("x", "Ready", "False", "\"x\"")
            .await
            .unwrap(),
    );
    replay.has_revisions("x", 1);
    replay.live_marker("x", "x one").await;

    // It returns as it was: nothing is to be done.
    upstream
        .run(&["push", "--quiet", "origin", &format!("{on_x}:refs/heads/x")])
        .unwrap();
    replay.world.sync().await.unwrap();
    replay.live("x", &on_x, "x one").await;
    replay.has_revisions("x", 1);

    // It goes again, and returns with something new, in the middle of whose fetch it happens.
    upstream.delete_branch("x").unwrap();
    replay.world.sync().await.unwrap();
    gone(
        releases
            .condition("x", "Ready", "False", "\"x\"")
            .await
            .unwrap(),
    );
    let returned = x("x two");
    Replay::holds(&server);
    replay.world.sync().await.unwrap();
    server.stalled().await.unwrap();
    replay.strike().await;
    replay.neighbour_goes_on().await;
    Replay::goes_on(&server);
    replay.live("x", &returned, "x two").await;
    replay.has_revisions("x", 2);
    replay.has_revisions("a", 3);
    assert_eq!(replay.uid("x").await, uid);
    replay.ends_well().await;
}

async fn a04_a_branch_becomes_the_folder_of_another(mut replay: Replay) {
    let upstream = repository(&replay.world, "r1", "one");
    let first = upstream.head().unwrap();
    let branch = |name: &str| {
        upstream
            .write_all(&charts::config_map("charts/app", name))
            .unwrap();
        upstream.push(name, &format!("Branch {name}")).unwrap()
    };
    let server = HttpServer::start(&replay.world.upstreams, Scheme::Http).unwrap();
    let releases = replay.world.releases.clone();
    let on = |name: &str, branch: &str| {
        let mut spec = app(&server.url("r1"), name);
        spec["chart"]["ref"] = json!(branch);
        spec
    };
    let feature = branch("feature");
    releases.apply("a", &on("a", "main")).await.unwrap();
    releases.apply("b", &on("b", "feature")).await.unwrap();
    replay.live("a", &first, "one").await;
    replay.live("b", &feature, "feature").await;

    // The branch goes, main moves, and all is fetched; then the folder comes.
    upstream.delete_branch("feature").unwrap();
    let second = push(&upstream, "two");
    replay.world.sync().await.unwrap();
    replay.live("a", &second, "two").await;
    releases
        .condition("b", "Ready", "False", "\"feature\"")
        .await
        .unwrap();
    let nested = branch("feature/x");
    Replay::holds(&server);
    releases.apply("b", &on("b", "feature/x")).await.unwrap();
    releases.apply("c", &on("c", "feature/x")).await.unwrap();
    server.stalled().await.unwrap();
    replay.strike().await;
    Replay::goes_on(&server);
    replay.live("b", &nested, "feature/x").await;
    replay.live("c", &nested, "feature/x").await;

    // And back: the folder goes and the branch returns, in one fetch with a push to main.
    upstream.delete_branch("feature/x").unwrap();
    let again = branch("feature");
    let third = push(&upstream, "three");
    Replay::holds(&server);
    releases.apply("b", &on("b", "feature")).await.unwrap();
    replay.world.sync().await.unwrap();
    server.stalled().await.unwrap();
    replay.strike().await;
    Replay::goes_on(&server);
    replay.live("b", &again, "feature").await;
    replay.live("a", &third, "three").await;
    releases
        .condition("c", "Ready", "False", "\"feature/x\"")
        .await
        .unwrap();
    replay.live_marker("c", "feature/x").await;
    for (name, revisions) in [("a", 3), ("b", 3), ("c", 1)] {
        replay.has_revisions(name, revisions);
    }

    // A slash is data; no file or folder is named after it.
    let manifests = replay.world.volume.layout().served.manifests();
    until("plain files alone", LONG, || async {
        let entries = std::fs::read_dir(&manifests)?;
        let folders = entries.flatten().filter(|entry| entry.path().is_dir());
        Ok(Look::when(folders.count() == 0, "folders"))
    })
    .await
    .unwrap();
    replay.ends_well().await;
}
