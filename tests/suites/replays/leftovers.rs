//! What a crash leaves behind, and a volume without room.

use std::path::PathBuf;

use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::guard;
use tandem_tests::pair::Extra;
use tandem_tests::requests::git;
use tandem_tests::wait::{LONG, Look, until};

use crate::common::{Fate, NEVER, Replay, app, push, repository};

replays! {
    /// A30: argo-cd#17623, git-sync#914, helm-operator#554, flux#2713.
    a30_what_a_crash_leaves_and_a_full_volume_heal [on_a_small_volume]
}

/// Bytes that the volume may hold.
const LIMIT: usize = 20_000_000;

/// What git's children leave in a mirror when they are killed.
const LEFT: &[&str] = &[
    "shallow.lock",
    "HEAD.lock",
    "config.lock",
    "packed-refs.lock",
    "refs/tandem/left.lock",
    "objects/tmp_obj_left",
    "objects/pack/tmp_pack_left",
];

impl Replay {
    async fn on_a_small_volume(case: &str, fate: Fate) -> Self {
        let limit = format!("--volume-limit={LIMIT}");
        // What is on the volume is counted eight times in a grace.
        let sidecar = Extra::args([limit.as_str(), "--grace=4s"]);
        Self::with(case, fate, &sidecar, &Extra::args([NEVER])).await
    }
}

async fn a30_what_a_crash_leaves_and_a_full_volume_heal(mut replay: Replay) {
    let releases = replay.world.releases.clone();
    let upstream = repository(&replay.world, "r1", "one");
    let first = upstream.head().unwrap();
    let server = HttpServer::start(&replay.world.upstreams, Scheme::Http).unwrap();
    let spec = app(&server.url("r1"), "a");
    releases.apply("a", &spec).await.unwrap();
    replay.live("a", &first, "one").await;

    // In the middle of an exchange, with all that earlier ones could have left.
    let served = replay.world.volume.layout().served.clone();
    let mirror = served.mirror(&git(&server.url("r1")).name());
    let second = push(&upstream, "two");
    Replay::holds(&server);
    replay.world.sync().await.unwrap();
    server.stalled().await.unwrap();
    let mut left: Vec<PathBuf> = LEFT.iter().map(|path| mirror.join(path)).collect();
    if replay.fate != Fate::Undisturbed {
        // Those of a process that lives may be at work.
        let folders = [served.manifests(), served.artifacts(), served.mirrors()];
        left.extend(folders.map(|folder| folder.join(".tmp-left")));
    }
    for path in &left {
        guard::write(path, "left").unwrap();
    }
    replay.strike().await;
    Replay::goes_on(&server);
    replay.live("a", &second, "two").await;
    replay.has_revisions("a", 2);
    until("nothing to be left", LONG, || async {
        let still: Vec<_> = left.iter().filter(|path| path.exists()).collect();
        Ok(Look::when(still.is_empty(), format!("{still:?}")))
    })
    .await
    .unwrap();

    // The volume fills: nothing more is fetched, what is there stays, and it is told.
    let filler = served.root().join("filler");
    guard::write(&filler, vec![0; LIMIT]).unwrap();
    until("the sidecar to see it", LONG, || async {
        let metrics = replay.world.sidecar()?.metrics().await?;
        let used = metrics.sum("tandem_mirror_volume_bytes", &[]);
        Ok(Look::when(used >= LIMIT as f64, used))
    })
    .await
    .unwrap();
    let third = push(&upstream, "three");
    replay.world.sync().await.unwrap();
    let told = releases.condition("a", "ChartFetched", "False", "--volume-limit");
    told.await.unwrap();
    let still = releases.get("a").await.unwrap();
    assert_eq!(still.condition("Ready").unwrap().0, "True");
    replay.live_marker("a", "two").await;
    replay.has_revisions("a", 2);

    // There is room again, and nobody has to say so.
    std::fs::remove_file(&filler).unwrap();
    replay.live("a", &third, "three").await;
    replay.has_revisions("a", 3);
    replay.ends_well().await;
}
