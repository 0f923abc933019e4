//! Hosts that can't be reached, for as long as it takes.

use serde_json::json;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::pair::Extra;
use tandem_tests::unreachable::{BlackHole, Refusing};

use crate::common::{Fate, Replay, app, push, repository};

replays! {
    /// A28: git-sync#65, git-sync#105, flux#3011, helm-operator#394.
    a28_hosts_that_are_away_concern_nobody_else_and_return [with_brief_polls]

    /// A28, with more of them than are worked on at a time: helm-controller#351.
    a28_hosts_that_hang_hold_up_nobody
}

impl Replay {
    async fn with_brief_polls(case: &str, fate: Fate) -> Self {
        let polls = Extra::args(["--git-poll-interval=2s", "--git-timeout=2s"]);
        Self::with(case, fate, &Extra::default(), &polls).await
    }
}

async fn a28_hosts_that_are_away_concern_nobody_else_and_return(mut replay: Replay) {
    let releases = replay.world.releases.clone();
    let upstreams = replay.world.upstreams.clone();
    // Both were there once.
    let mut ports = Vec::new();
    let mut repositories = Vec::new();
    for name in ["hole", "refused"] {
        let upstream = repository(&replay.world, name, "one");
        let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
        let spec = app(&server.url(name), name);
        releases.apply(name, &spec).await.unwrap();
        replay.live(name, &upstream.head().unwrap(), "one").await;
        ports.push(server.port());
        repositories.push((name, upstream));
    }
    let hole = BlackHole::at(ports[0]).await.unwrap();
    let refusing = Refusing::at(ports[1]).unwrap();
    let nowhere = app("http://git.invalid/r1.git", "nowhere");
    releases.apply("nowhere", &nowhere).await.unwrap();
    let pushed: Vec<_> = repositories
        .iter()
        .map(|(name, upstream)| (*name, push(upstream, "two")))
        .collect();

    for round in 1..=2 {
        // It is told, and harms no release that there is.
        for (name, words) in [("hole", "time"), ("refused", "refused")] {
            let told = releases.condition(name, "ChartFetched", "False", words);
            told.await.unwrap();
            let still = releases.get(name).await.unwrap();
            assert_eq!(still.condition("Ready").unwrap().0, "True", "{name}");
        }
        let told = releases.condition("nowhere", "Ready", "False", "git.invalid");
        told.await.unwrap();
        replay.neighbour_goes_on().await;
        let fresh = format!("fresh-{round}");
        let upstream = repository(&replay.world, &fresh, "new");
        let spec = app(&upstream.file_url(), &fresh);
        releases.apply(&fresh, &spec).await.unwrap();
        replay.live(&fresh, &upstream.head().unwrap(), "new").await;
        // What is there is used.
        for (name, _) in &pushed {
            let values = json!({"spec": {"values": {"round": round}}});
            releases.patch(name, &values).await.unwrap();
            releases.released(name).await.unwrap();
            let world = &replay.world;
            let used = world.helm.values(&world.namespace, name).unwrap();
            assert_eq!(used, json!({"round": round}));
            replay.live_marker(name, "one").await;
            replay.has_revisions(name, round + 1);
        }
        if round == 1 {
            replay.strike().await;
        }
    }

    // They return, and nobody has to say so.
    drop((hole, refusing));
    let servers: Vec<_> = ports
        .iter()
        .map(|port| HttpServer::start_at(&upstreams, Scheme::Http, *port).unwrap())
        .collect();
    for (name, commit) in &pushed {
        let back = replay.live(name, commit, "two").await;
        assert_eq!(back.condition("ChartFetched").unwrap().0, "True");
        replay.has_revisions(name, 4);
    }
    let elsewhere = json!({"spec": {"chart": {"git": servers[0].url("hole")}}});
    releases.patch("nowhere", &elsewhere).await.unwrap();
    replay.live("nowhere", &pushed[0].1, "two").await;
    replay.has_revisions("nowhere", 1);
    assert!(replay.world.sidecar_mut().unwrap().is_running().unwrap());
    assert!(replay.world.reconciler_mut().unwrap().is_running().unwrap());
    replay.ends_well().await;
}

async fn a28_hosts_that_hang_hold_up_nobody(mut replay: Replay) {
    let releases = replay.world.releases.clone();
    let server = HttpServer::start(&replay.world.upstreams, Scheme::Http).unwrap();
    Replay::holds(&server);
    let hanging: Vec<String> = (0..6).map(|one| format!("hangs-{one}")).collect();
    for name in &hanging {
        repository(&replay.world, name, "one");
        let spec = app(&server.url(name), name);
        releases.apply(name, &spec).await.unwrap();
    }
    for round in 1..=2 {
        server.stalled().await.unwrap();
        let fresh = format!("fresh-{round}");
        let upstream = repository(&replay.world, &fresh, "new");
        let spec = app(&upstream.file_url(), &fresh);
        releases.apply(&fresh, &spec).await.unwrap();
        replay.live(&fresh, &upstream.head().unwrap(), "new").await;
        replay.neighbour_goes_on().await;
        // Nobody had to wait until their time was over.
        for manifest in replay.world.volume.manifests().unwrap() {
            assert_eq!(manifest.failure, None, "{}", manifest.source.url);
        }
        if round == 1 {
            server.clear();
            replay.strike().await;
            if replay.fate == Fate::Undisturbed {
                break;
            }
        }
    }
    Replay::goes_on(&server);
    for name in &hanging {
        releases.released(name).await.unwrap();
        replay.has_revisions(name, 1);
    }
    replay.ends_well().await;
}
