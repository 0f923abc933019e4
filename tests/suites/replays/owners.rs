//! Whose a release is, and what becomes of it under another name.

use serde_json::json;
use tandem_tests::charts;
use tandem_tests::kubernetes::{HelmRelease, JobEnd, complete_jobs};

use crate::common::{Replay, app, push, repository};

replays! {
    /// A21: flux#2101, helm-operator#81, helm-operator#416.
    a21_one_release_of_two_helmreleases_and_its_new_name
}

async fn a21_one_release_of_two_helmreleases_and_its_new_name(mut replay: Replay) {
    let upstream = repository(&replay.world, "r1", "one");
    let hook = charts::hook("install", "pre-install", "");
    let when_asked = format!("{{{{ if .Values.slow }}}}\n{hook}{{{{ end }}}}\n");
    let templates = "charts/app/templates";
    upstream
        .write(&format!("{templates}/install.yaml"), when_asked)
        .unwrap();
    upstream
        .write(
            &format!("{templates}/delete.yaml"),
            charts::hook("delete", "pre-delete", ""),
        )
        .unwrap();
    let first = upstream.push("main", "Add hooks").unwrap();
    let releases = replay.world.releases.clone();
    releases
        .apply("a", &app(&upstream.file_url(), "a"))
        .await
        .unwrap();
    replay.live("a", &first, "one").await;

    // The second one is refused by name, for good.
    releases.is_the_older_one("a").await.unwrap();
    let mut other = app(&upstream.file_url(), "a");
    other["values"] = json!({"of": "b"});
    releases.apply("b", &other).await.unwrap();
    let owner = format!("{}/a", replay.world.namespace);
    let told = releases
        .condition("b", "Ready", "False", &owner)
        .await
        .unwrap();
    assert!(told.contains("releaseName"), "{told}");
    replay.strike().await;
    replay.lets_alone(&["a"]).await;
    replay.has_revisions("a", 1);
    let second = push(&upstream, "two");
    replay.world.sync().await.unwrap();
    replay.live("a", &second, "two").await;
    let found = releases.get("b").await.unwrap();
    let told = found.condition("Ready").unwrap();
    assert_eq!((told.0, told.1), ("False", "OwnedByOther"));
    replay.has_revisions("a", 2);

    // With a name of its own it leaves alone what it never had.
    other["releaseName"] = json!("b");
    releases.apply("b", &other).await.unwrap();
    let found = replay.live("b", &second, "two").await;
    assert!(found.status("formerReleases").is_null());
    replay.has_revisions("a", 2);
    replay.has_revisions("b", 1);

    // The former release stays for as long as the new one doesn't stand.
    let renamed = json!({"spec": {"releaseName": "a2", "values": {"slow": true}}});
    releases.patch("a", &renamed).await.unwrap();
    releases.record("a2", "pending-install").await.unwrap();
    let former = |found: &HelmRelease| found.status("formerReleases")[0]["name"] == "a";
    assert!(former(&releases.get("a").await.unwrap()));
    replay.strike().await;
    replay.has_revisions("a", 2);
    let of_the_new = |name: &str| name.starts_with("a2-").then_some(JobEnd::Complete);
    let stands = |found: &HelmRelease| {
        found.status("releaseName") == "a2" && found.status("revision") == second.as_str()
    };
    replay.end_jobs(of_the_new, "a", stands).await;

    // Then it is removed, whatever happens between.
    releases.record("a", "uninstalling").await.unwrap();
    let found = replay.live("a", &second, "two").await;
    assert!(former(&found));
    replay.has_revisions("a2", 1);
    replay.strike().await;
    let world = &replay.world;
    complete_jobs(&world.client, &world.namespace, || async {
        Ok(world.releases.records("a").await?.is_empty())
    })
    .await
    .unwrap();
    let none_left = |found: &HelmRelease| found.status("formerReleases").is_null();
    releases
        .wait("a", "rid of the former release", none_left)
        .await
        .unwrap();
    releases.released("a").await.unwrap();
    assert_eq!(releases.config_map("a").await.unwrap(), None);
    let mut live = world.helm.list(&world.namespace).unwrap();
    live.sort();
    assert_eq!(live, ["a2", "b", "neighbour"]);
    replay.has_revisions("a2", 1);
    replay.has_revisions("b", 1);
    releases.marker("a2", "two").await.unwrap();
    replay.ends_well().await;
}
