//! Hooks that fail, and hooks that never end. They are Jobs; no node runs them, and the tests
//! end them.

use serde_json::json;
use tandem_tests::charts;
use tandem_tests::git::Upstream;
use tandem_tests::kubernetes::{HelmRelease, JobEnd, complete_jobs};

use crate::common::{Fate, Replay, app, end_jobs_of, push, repository};

replays! {
    /// A16: helm-operator#236, flux#2285, helm-operator#447, helm#4558.
    a16_a_failing_hook_is_rolled_back_and_no_more
    /// A16, the first install: helm-operator#241.
    a16_a_failing_first_install_is_removed_and_tried_again
    /// A17: helm-operator#316, helm-operator#318, helm-controller#149, helm-controller#644,
    /// flux2#4614.
    a17_the_end_of_everything_in_the_middle_of_helm
}

/// Gives the chart a Job for each of these hooks, named after it.
fn hooks(upstream: &Upstream, kinds: &[&str]) {
    for kind in kinds {
        let job = charts::hook(kind, kind, "");
        upstream.write(&hook_file(kind), job).unwrap();
    }
}

fn hook_file(kind: &str) -> String {
    format!("charts/app/templates/{kind}.yaml")
}

fn failing(_: &str) -> Option<JobEnd> {
    Some(JobEnd::Failed)
}

fn is(found: &HelmRelease, condition: &str, status: &str) -> bool {
    found.condition(condition).is_some_and(|it| it.0 == status)
}

/// The last thing tried is this commit, and it was rolled back so often.
fn rolled_back(found: &HelmRelease, commit: &str, times: u32) -> bool {
    found.status("lastAttemptedRevision") == commit
        && found.status("rollbackCount") == times
        && is(found, "RolledBack", "True")
}

/// Every try made a revision that failed, and was rolled back once.
fn rolled_back_each_time(replay: &Replay, name: &str, tries: usize) {
    let states = replay.states(name);
    let mut expected = vec!["superseded"];
    for _ in 0..tries {
        expected.extend(["failed", "superseded"]);
    }
    expected.pop();
    expected.push("deployed");
    // A try in whose middle all ended left a failed revision, too; there are two such ends.
    let mut told: Vec<&str> = states.iter().map(String::as_str).collect();
    told.dedup();
    assert_eq!(told, expected, "{states:?}");
    let most = match replay.fate {
        Fate::Undisturbed => expected.len(),
        _ => expected.len() + 2,
    };
    assert!(states.len() <= most, "{states:?}");
}

async fn a16_a_failing_hook_is_rolled_back_and_no_more(mut replay: Replay) {
    let upstream = repository(&replay.world, "r1", "one");
    let first = upstream.head().unwrap();
    let releases = replay.world.releases.clone();
    for (name, rollback) in [
        ("once", json!({"enable": true})),
        (
            "thrice",
            json!({"enable": true, "retry": true, "maxRetries": 2}),
        ),
    ] {
        let mut spec = app(&upstream.file_url(), name);
        spec["rollback"] = rollback;
        spec["maxHistory"] = json!(0);
        releases.apply(name, &spec).await.unwrap();
    }
    for name in ["once", "thrice"] {
        replay.live(name, &first, "one").await;
    }
    let uid = replay.uid("thrice").await;

    hooks(&upstream, &["pre-upgrade"]);
    let second = push(&upstream, "two");
    replay.world.sync().await.unwrap();
    for name in ["once", "thrice"] {
        releases.record(name, "pending-upgrade").await.unwrap();
    }
    replay.strike().await;

    // The upgrade fails and is rolled back; one of them is to be tried again.
    let given_up = |found: &HelmRelease| is(found, "Stalled", "True");
    replay.end_jobs(failing, "once", given_up).await;
    let tried = |found: &HelmRelease| is(found, "RolledBack", "True");
    replay.end_jobs(failing, "thrice", tried).await;
    replay.strike().await;

    replay.end_jobs(failing, "thrice", given_up).await;
    for (name, times) in [("once", 1), ("thrice", 3)] {
        rolled_back_each_time(&replay, name, times);
        releases.marker(name, "one").await.unwrap();
    }

    // And that is where it stays, also for a process that remembers nothing.
    replay.strike().await;
    replay.lets_alone(&["once", "thrice"]).await;
    for (name, times) in [("once", 1), ("thrice", 3)] {
        rolled_back_each_time(&replay, name, times);
        let found = releases.get(name).await.unwrap();
        assert!(rolled_back(&found, &second, u32::try_from(times).unwrap()));
        assert!(is(&found, "Released", "False"));
        let told = found.condition("Ready").unwrap();
        assert_eq!((told.0, told.1), ("False", "RolledBack"));
        assert!(told.2.contains("pre-upgrade"), "{}", told.2);
    }

    // Something else that fails is counted by itself.
    let third = push(&upstream, "three");
    replay.world.sync().await.unwrap();
    for name in ["thrice", "once"] {
        let anew = |found: &HelmRelease| rolled_back(found, &third, 1);
        replay.end_jobs(failing, name, anew).await;
    }

    upstream
        .run(&["rm", "--quiet", &hook_file("pre-upgrade")])
        .unwrap();
    let fourth = push(&upstream, "four");
    replay.world.sync().await.unwrap();
    for name in ["once", "thrice"] {
        let found = replay.live(name, &fourth, "four").await;
        assert!(found.condition("RolledBack").is_none());
        assert!(found.status("rollbackCount").is_null());
    }
    assert_eq!(replay.uid("thrice").await, uid, "it was never uninstalled");
    replay.ends_well().await;
}

async fn a16_a_failing_first_install_is_removed_and_tried_again(mut replay: Replay) {
    let upstream = repository(&replay.world, "r1", "one");
    hooks(&upstream, &["pre-install", "pre-delete"]);
    upstream.push("main", "Add hooks").unwrap();
    let releases = replay.world.releases.clone();
    let mut spec = app(&upstream.file_url(), "a");
    spec["rollback"] = json!({"enable": true, "retry": true, "maxRetries": 2});
    releases.apply("a", &spec).await.unwrap();
    releases.record("a", "pending-install").await.unwrap();
    replay.strike().await;

    // There is nothing to return to: what was made is removed.
    let install_fails = |name: &str| (name == "a-pre-install").then_some(JobEnd::Failed);
    let removes =
        |found: &HelmRelease| found.status("operation")["action"] == "RemoveFailedInstall";
    replay.end_jobs(install_fails, "a", removes).await;
    releases.record("a", "uninstalling").await.unwrap();
    replay.strike().await;

    // It is tried again, after a wait that grows.
    let ending = |name: &str| install_fails(name).or(Some(JobEnd::Complete));
    let decision = || {
        let world = &replay.world;
        world.volume.decision(&world.namespace, "a").unwrap()
    };
    let waits =
        |_: &HelmRelease| decision().is_some_and(|it| it.failures == 2 && it.action == "Wait");
    replay.end_jobs(ending, "a", waits).await;
    let told = decision().unwrap();
    assert!(told.next_attempt.is_some_and(|next| next > told.at));
    assert!(told.message.contains("pre-install"), "{}", told.message);
    assert_eq!(replay.did("install", "a").await, 2.0);
    assert_eq!(replay.did("rollback", "a").await, 0.0);
    assert!(releases.records("a").await.unwrap().is_empty());
    assert_eq!(releases.config_map("a").await.unwrap(), None);
    let found = releases.get("a").await.unwrap();
    assert!(is(&found, "Released", "False"));
    assert!(found.condition("RolledBack").is_none());
    assert!(found.status("rollbackCount").is_null());

    upstream
        .run(&["rm", "--quiet", &hook_file("pre-install")])
        .unwrap();
    let second = push(&upstream, "two");
    replay.world.sync().await.unwrap();
    replay.live("a", &second, "two").await;
    assert_eq!(replay.states("a"), ["deployed"]);
    replay.ends_well().await;
}

/// Completes the Jobs whose names end so.
fn completing(kind: &'static str) -> impl Fn(&str) -> Option<JobEnd> {
    move |name| name.ends_with(kind).then_some(JobEnd::Complete)
}

async fn a17_the_end_of_everything_in_the_middle_of_helm(mut replay: Replay) {
    let upstream = repository(&replay.world, "r1", "one");
    let kinds = ["pre-install", "pre-upgrade", "pre-rollback", "pre-delete"];
    hooks(&upstream, &kinds);
    let first = upstream.push("main", "Add hooks").unwrap();
    let releases = replay.world.releases.clone();
    let mut spec = app(&upstream.file_url(), "a");
    spec["rollback"] = json!({"enable": true});
    releases.apply("a", &spec).await.unwrap();
    let released = |commit: String| {
        move |found: &HelmRelease| {
            found.status("revision") == commit.as_str() && is(found, "Ready", "True")
        }
    };

    releases.record("a", "pending-install").await.unwrap();
    replay.strike().await;
    // What was begun is removed, if it ended, and made anew.
    replay
        .end_jobs(completing(""), "a", released(first.clone()))
        .await;
    replay.live("a", &first, "one").await;
    assert_eq!(replay.states("a"), ["deployed"]);
    let uid = replay.uid("a").await;

    // That all ended is no fault of the upgrade: it is made again, not rolled back.
    let second = push(&upstream, "two");
    replay.world.sync().await.unwrap();
    releases.record("a", "pending-upgrade").await.unwrap();
    replay.strike().await;
    replay
        .end_jobs(completing("pre-upgrade"), "a", released(second.clone()))
        .await;
    let found = replay.live("a", &second, "two").await;
    assert!(found.condition("RolledBack").is_none());
    let expected: &[&str] = match replay.fate {
        Fate::Undisturbed => &["superseded", "deployed"],
        _ => &["superseded", "failed", "deployed"],
    };
    assert_eq!(replay.states("a"), expected);

    let bad = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n";
    upstream.write("charts/app/templates/zz.yaml", bad).unwrap();
    let third = push(&upstream, "three");
    replay.world.sync().await.unwrap();
    let returning = |found: &HelmRelease| found.status("operation")["action"] == "Rollback";
    replay
        .end_jobs(completing("pre-upgrade"), "a", returning)
        .await;
    releases.record("a", "pending-rollback").await.unwrap();
    let client = replay.world.client.clone();
    let returned = |found: &HelmRelease| rolled_back(found, &third, 1);
    let way = completing("pre-rollback");
    let back = end_jobs_of(&client, &releases, way, "a", returned);
    replay.strike_while_it(back).await;
    releases
        .condition("a", "Stalled", "True", "RolledBack")
        .await
        .unwrap();
    releases.marker("a", "two").await.unwrap();
    let states = replay.states("a");
    let in_force = states.iter().filter(|it| *it == "deployed").count();
    assert_eq!((in_force, states.last().unwrap().as_str()), (1, "deployed"));

    upstream
        .run(&["rm", "--quiet", "charts/app/templates/zz.yaml"])
        .unwrap();
    let fourth = push(&upstream, "four");
    replay.world.sync().await.unwrap();
    replay
        .end_jobs(completing("pre-upgrade"), "a", released(fourth.clone()))
        .await;
    replay.live("a", &fourth, "four").await;
    assert_eq!(replay.uid("a").await, uid, "it was never uninstalled");

    releases.delete("a").await.unwrap();
    releases.record("a", "uninstalling").await.unwrap();
    replay.strike().await;
    let world = &replay.world;
    complete_jobs(&world.client, &world.namespace, || async {
        Ok(world.releases.records("a").await?.is_empty())
    })
    .await
    .unwrap();
    releases.gone("a").await.unwrap();
    assert_eq!(releases.config_map("a").await.unwrap(), None);
    assert_eq!(world.helm.list(&world.namespace).unwrap(), ["neighbour"]);
    replay.ends_well().await;
}
