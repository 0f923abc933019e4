//! A HelmRelease whose source is edited. Nothing polls and nobody calls: the edit alone has
//! to bring what is there now.

use serde_json::{Value, json};
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::wait::{LONG, Look, until};

use crate::common::{Replay, app, push, repository};

replays! {
    /// A6: helm-operator#562, helm-operator#458, helm-operator pull request 573.
    a06_an_edited_ref_brings_what_it_is_now_and_nothing_older

    /// A7: flux#1850, helm-operator#109.
    a07_an_edited_url_is_followed_and_its_mirror_goes [with_brief_grace]
}

fn reference(name: &str) -> Value {
    json!({"spec": {"chart": {"ref": name}}})
}

async fn a06_an_edited_ref_brings_what_it_is_now_and_nothing_older(mut replay: Replay) {
    let upstream = repository(&replay.world, "r1", "one");
    let first = upstream.head().unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "feature"))
        .unwrap();
    let feature = upstream.push("feature", "Branch").unwrap();
    let server = HttpServer::start(&replay.world.upstreams, Scheme::Http).unwrap();
    let releases = replay.world.releases.clone();
    let mut spec = app(&server.url("r1"), "a");
    releases.apply("a", &spec).await.unwrap();
    spec["releaseName"] = json!("stays");
    releases.apply("stays", &spec).await.unwrap();
    spec["releaseName"] = json!("b");
    spec["chart"]["ref"] = json!("feature");
    releases.apply("b", &spec).await.unwrap();
    replay.live("a", &first, "one").await;
    replay.live("stays", &first, "one").await;
    replay.live("b", &feature, "feature").await;

    // A commit that nobody has seen, by its id.
    let second = push(&upstream, "two");
    Replay::holds(&server);
    releases.patch("a", &reference(&second)).await.unwrap();
    server.stalled().await.unwrap();
    replay.strike().await;
    Replay::goes_on(&server);
    replay.live("a", &second, "two").await;
    replay.live("stays", &second, "two").await;

    // A branch that others follow, and that has moved since anybody looked.
    let third = push(&upstream, "three");
    Replay::holds(&server);
    releases.patch("b", &reference("main")).await.unwrap();
    server.stalled().await.unwrap();
    replay.strike().await;
    replay.neighbour_goes_on().await;
    Replay::goes_on(&server);
    replay.live("b", &third, "three").await;
    replay.live("stays", &third, "three").await;
    replay.has_revisions("b", 2);

    // And back, edited while nobody is there, to what moved meanwhile.
    upstream
        .write_all(&charts::config_map("charts/app", "feature two"))
        .unwrap();
    let feature = upstream.push("feature", "Change the branch").unwrap();
    let edited = releases.clone();
    replay
        .strike_while(async move { edited.patch("b", &reference("feature")).await.unwrap() })
        .await;
    replay.live("b", &feature, "feature two").await;

    // Edited while the reconciler alone is away, and the sidecar looks for nothing.
    let fourth = push(&upstream, "four");
    let reconciler = replay.world.reconciler_mut().unwrap();
    reconciler.kill().unwrap();
    releases.patch("b", &reference("main")).await.unwrap();
    reconciler.restart().unwrap();
    replay.live("b", &fourth, "four").await;
    replay.live("stays", &fourth, "four").await;

    // A commit by the beginning of its id.
    let fifth = push(&upstream, "five");
    releases.patch("a", &reference(&fifth[..10])).await.unwrap();
    replay.live("a", &fifth, "five").await;
    replay.live("stays", &fifth, "five").await;
    replay.live("b", &fifth, "five").await;
    for (name, revisions) in [("a", 3), ("b", 5), ("stays", 5)] {
        replay.has_revisions(name, revisions);
    }
    replay.ends_well().await;
}

async fn a07_an_edited_url_is_followed_and_its_mirror_goes(mut replay: Replay) {
    let one = repository(&replay.world, "r1", "one");
    let two = repository(&replay.world, "r2", "two");
    let (first, second) = (one.head().unwrap(), two.head().unwrap());
    let server = HttpServer::start(&replay.world.upstreams, Scheme::Http).unwrap();
    let releases = replay.world.releases.clone();
    for name in ["a", "b"] {
        let spec = app(&one.file_url(), name);
        releases.apply(name, &spec).await.unwrap();
        replay.live(name, &first, "one").await;
    }
    let uid = replay.uid("a").await;

    // What others still ask for stays.
    let url = |url: String| json!({"spec": {"chart": {"git": url}}});
    Replay::holds(&server);
    releases.patch("a", &url(server.url("r2"))).await.unwrap();
    server.stalled().await.unwrap();
    replay.strike().await;
    Replay::goes_on(&server);
    replay.live("a", &second, "two").await;
    let changed = push(&one, "one again");
    replay.world.sync().await.unwrap();
    replay.live("b", &changed, "one again").await;
    sources(&replay, 3).await;

    // With the last one who asked, it goes.
    let edited = releases.clone();
    let to = url(server.url("r2"));
    replay
        .strike_while(async move { edited.patch("b", &to).await.unwrap() })
        .await;
    replay.live("b", &second, "two").await;
    sources(&replay, 2).await;
    for name in ["a", "b"] {
        let changed = push(&two, &format!("two for {name}"));
        replay.world.sync().await.unwrap();
        replay
            .live(name, &changed, &format!("two for {name}"))
            .await;
    }
    assert_eq!(replay.uid("a").await, uid);
    // For b the first of those two pushes counts as well.
    replay.has_revisions("a", 4);
    replay.has_revisions("b", 5);

    // To where nothing is, and back.
    let nothing = replay.world.upstreams.root().join("nothing.git");
    let nowhere = url(format!("file://{}", nothing.display()));
    releases.patch("b", &nowhere).await.unwrap();
    let told = releases.condition("b", "Ready", "False", "nothing.git");
    told.await.unwrap();
    releases.patch("b", &url(server.url("r2"))).await.unwrap();
    releases.released("b").await.unwrap();
    replay.has_revisions("b", 5);

    // Deleted and made again with the URL that it had first.
    releases.delete("a").await.unwrap();
    releases.gone("a").await.unwrap();
    let spec = app(&one.file_url(), "a");
    releases.apply("a", &spec).await.unwrap();
    replay.live("a", &changed, "one again").await;
    replay.has_revisions("a", 1);
    sources(&replay, 3).await;
    replay.ends_well().await;
}

/// Waits until there are so many mirrors, manifests and requests, the neighbour's with them.
async fn sources(replay: &Replay, many: usize) {
    let volume = &replay.world.volume;
    until(format!("{many} of each"), LONG, || async {
        let left = (
            volume.mirrors()?.len(),
            volume.manifests()?.len(),
            volume.requests()?.len(),
        );
        Ok(Look::when(left == (many, many, many), format!("{left:?}")))
    })
    .await
    .unwrap();
}
