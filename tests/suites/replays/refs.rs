//! Refs that move, go, return and change their names.

use crate::common::{Replay, app, push, repository};

replays! {
    /// A1: flux#3120, flux#696.
    a01_a_force_push_is_followed
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
        .write_all(&tandem_tests::charts::config_map("charts/app", "two"))
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
