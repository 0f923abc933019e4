#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tandem_shared::manifest::{Reason, SourceState};
use tandem_shared::request::WantKind;

use crate::testing::{Sidecar, Upstream, chart, good, problem, reason, want};

#[test]
fn a_push_moves_exactly_the_chart_that_it_changes() {
    let upstream = Upstream::new();
    upstream.chart("charts/a", "one");
    upstream.chart("charts/b", "one");
    let first = upstream.publish();
    let mut sidecar = Sidecar::new(
        &upstream.url(),
        vec![chart("main", "charts/a"), chart("main", "charts/b")],
    );
    let before = sidecar.poll();
    assert_eq!(
        sidecar.children("list"),
        1,
        "the remote is asked for exactly what is wanted"
    );
    assert_eq!(before.state, SourceState::Ready);
    assert_eq!(before.refs["main"].commit, first);
    assert_eq!(before.refs["main"].full_name, "refs/heads/main");

    upstream.chart("charts/a", "two");
    let second = upstream.publish();
    let after = sidecar.poll();
    assert_eq!(after.refs["main"].commit, second);
    let (a, b) = (good(&after, "main:charts/a"), good(&after, "main:charts/b"));
    assert_eq!(a.commit.as_deref(), Some(second.as_str()));
    assert_eq!(sidecar.content(a)["templates/cm.yaml"], "two");
    assert_eq!(b, good(&before, "main:charts/b"));
}

#[test]
fn a_steady_state_costs_one_listing_and_writes_nothing() {
    let upstream = Upstream::new();
    upstream.chart("charts/a", "one");
    upstream.publish();
    let mut sidecar = Sidecar::new(&upstream.url(), vec![chart("main", "charts/a")]);
    let before = sidecar.poll();
    let (lists, fetches) = (sidecar.children("list"), sidecar.children("fetch"));
    for _ in 0..10 {
        assert!(sidecar.check(true).exchanged);
    }
    assert_eq!(sidecar.manifest(), before);
    assert_eq!(
        (sidecar.children("list"), sidecar.children("fetch")),
        (lists + 10, fetches)
    );
    // Another want of a known ref needs no exchange.
    sidecar
        .request
        .wants
        .push(want(WantKind::File, Some("main"), "charts/a/Chart.yaml"));
    assert!(!sidecar.check(false).exchanged);
    assert_eq!(sidecar.children("list"), lists + 10);
    let after = sidecar.manifest();
    assert_eq!(
        sidecar
            .content(good(&after, "main:charts/a/Chart.yaml"))
            .keys()
            .collect::<Vec<_>>(),
        ["Chart.yaml"]
    );
    // A refresh token does, and is echoed.
    sidecar.request.refresh = "now".into();
    assert!(sidecar.check(false).exchanged);
    assert_eq!(sidecar.manifest().handled_refresh, "now");
}

#[test]
fn every_kind_of_ref_is_understood() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    let first = upstream.publish();
    upstream.git(&["tag", "--annotate", "--message", "m", "v1"]);
    upstream.push("v1");
    upstream.chart("c", "two");
    let second = upstream.publish();
    upstream.git(&["tag", "light"]);
    upstream.push("light");
    upstream.push(&format!("{first}:refs/heads/feature/x"));
    upstream.push(&format!("{first}:refs/pull/7/head"));
    upstream.push(&format!("{second}:refs/tags/both"));
    upstream.push(&format!("{first}:refs/heads/both"));
    let (short, upper) = (first[..7].to_owned(), second.to_uppercase());
    let cases = [
        ("main", "refs/heads/main", &second),
        ("v1", "refs/tags/v1", &first),
        ("refs/tags/v1", "refs/tags/v1", &first),
        ("light", "refs/tags/light", &second),
        ("feature/x", "refs/heads/feature/x", &first),
        ("refs/pull/7/head", "refs/pull/7/head", &first),
        ("both", "refs/tags/both", &second),
        (&first, "commit", &first),
        (&upper, "commit", &second),
        (&short, "commit", &first),
    ];
    let mut wants: Vec<_> = cases.iter().map(|(asked, ..)| chart(asked, "c")).collect();
    wants.push(want(WantKind::Chart, None, "c"));
    let mut sidecar = Sidecar::new(&upstream.url(), wants);
    let manifest = sidecar.poll();
    for (asked, full_name, commit) in cases {
        let record = &manifest.refs[asked];
        assert_eq!(
            (record.full_name.as_str(), &record.commit),
            (full_name, commit),
            "{asked}"
        );
        good(&manifest, &format!("{asked}:c"));
    }
    assert_eq!(manifest.refs["HEAD"].full_name, "refs/heads/main");
    assert_eq!(
        good(&manifest, "-:c").commit.as_deref(),
        Some(second.as_str())
    );
}

#[test]
fn commits_that_are_held_need_no_network() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    let commit = upstream.publish();
    let mut sidecar = Sidecar::new(
        &upstream.url(),
        vec![chart(&commit, "c"), chart(&commit[..8], "c")],
    );
    let before = sidecar.poll();
    good(&before, &format!("{}:c", &commit[..8]));
    sidecar.request.wants.pop();
    sidecar.check(false);
    fs::rename(upstream.bare(), upstream.bare().with_extension("away")).unwrap();
    sidecar.restart();
    let (lists, fetches) = (sidecar.children("list"), sidecar.children("fetch"));
    let after = sidecar.poll();
    assert_eq!(after.state, SourceState::Ready);
    assert_eq!(
        (sidecar.children("list"), sidecar.children("fetch")),
        (lists, fetches)
    );
    assert_eq!(
        good(&after, &format!("{commit}:c")),
        good(&before, &format!("{commit}:c"))
    );
}

#[test]
fn a_short_id_stays_what_it_was_on_a_lost_volume() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    let commit = upstream.publish();
    let mut pinned = chart(&commit[..6], "c");
    pinned.prefer.commit = Some(commit.clone());
    // No branch has it any more, so only the preference leads to it.
    upstream.git(&["checkout", "--quiet", "--orphan", "other"]);
    upstream.chart("c", "other");
    upstream.publish();
    upstream.git_bare(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let mut sidecar = Sidecar::new(&upstream.url(), vec![pinned.clone()]);
    let manifest = sidecar.poll();
    assert_eq!(manifest.refs[&commit[..6]].commit, commit);
    pinned.prefer = Default::default();
    let mut without = Sidecar::new(&upstream.url(), vec![pinned]);
    assert_eq!(
        reason(&without.poll(), &format!("{}:c", &commit[..6])),
        Reason::RefNotFound
    );
}

#[test]
fn one_missing_ref_stops_no_other_and_may_come_back() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    let first = upstream.publish();
    upstream.push("HEAD:refs/heads/x");
    let mut sidecar = Sidecar::new(
        &upstream.url(),
        vec![chart("main", "c"), chart("x", "c"), chart("a b", "c")],
    );
    let before = sidecar.poll();
    assert_eq!(reason(&before, "a b:c"), Reason::RefNotFound);

    upstream.push(":refs/heads/x");
    upstream.chart("c", "two");
    let second = upstream.publish();
    let gone = sidecar.poll();
    assert_eq!(gone.state, SourceState::Ready);
    assert_eq!(good(&gone, "main:c").commit.as_ref(), Some(&second));
    assert_eq!(reason(&gone, "x:c"), Reason::RefNotFound);
    let kept = gone.results["x:c"].good.as_ref().unwrap();
    assert_eq!(kept.commit.as_ref(), Some(&first));
    assert_eq!(sidecar.content(kept)["templates/cm.yaml"], "one");

    upstream.push("HEAD:refs/heads/x");
    assert_eq!(good(&sidecar.poll(), "x:c").commit.as_ref(), Some(&second));
}

#[test]
fn a_ref_that_git_finds_broken_stops_no_other() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let tree = upstream.git(&["rev-parse", "HEAD^{tree}"]);
    let nobody = "nobody 1700000000 +0000";
    let broken = format!("tree {tree}\nauthor {nobody}\ncommitter {nobody}\n\nbroken\n");
    let broken = upstream.object("commit", &broken);
    upstream.push(&format!("{broken}:refs/heads/bad"));
    let mut sidecar = Sidecar::new(&upstream.url(), vec![chart("bad", "c"), chart("main", "c")]);
    for marker in ["two", "three"] {
        upstream.chart("c", marker);
        upstream.publish();
        let manifest = sidecar.poll();
        let content = sidecar.content(good(&manifest, "main:c"));
        assert_eq!(content["templates/cm.yaml"], marker);
        assert_eq!(reason(&manifest, "bad:c"), Reason::Remote);
        assert_eq!(manifest.failure, None);
        // Alone it says no more about the source.
        assert_eq!(sidecar.poll().failure, None);
    }
}

#[test]
fn a_commit_that_is_not_there_is_not_looked_for_in_all_history_at_each_poll() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let missing = "1".repeat(40);
    let mut sidecar = Sidecar::new(
        &upstream.url(),
        vec![chart(&missing, "c"), chart("main", "c")],
    );
    let first = sidecar.poll();
    assert_eq!(reason(&first, &format!("{missing}:c")), Reason::RefNotFound);
    good(&first, "main:c");
    let mut fetches = |anew: &str| {
        let before = sidecar.children("fetch");
        anew.clone_into(&mut sidecar.request.refresh);
        let manifest = sidecar.poll();
        assert_eq!(
            reason(&manifest, &format!("{missing}:c")),
            Reason::RefNotFound
        );
        sidecar.children("fetch") - before
    };
    assert_eq!(fetches(""), 1, "whether the remote gives it");
    assert_eq!(fetches("now"), 2, "and all of its history");
    assert_eq!(fetches("now"), 1);
}

#[test]
fn a_range_and_its_commit_are_of_one_exchange() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    upstream.git(&["tag", "v1.0.0"]);
    upstream.push("v1.0.0");
    upstream.chart("c", "two");
    upstream.publish();
    let mut sidecar = Sidecar::new(
        &upstream.url(),
        vec![chart("main", "c"), chart("semver:^1", "c")],
    );
    sidecar.poll();
    // What the newer tag stands for is here already, and something else can't be had.
    upstream.git(&["tag", "v1.1.0"]);
    upstream.push("v1.1.0");
    sidecar.request.wants.push(chart("other", "c"));
    upstream.chart("c", "three");
    upstream.commit();
    upstream.push("HEAD:refs/heads/other");
    let objects = upstream.bare().join("objects");
    let tip = upstream.git(&["rev-parse", "HEAD^{tree}"]);
    fs::remove_file(objects.join(&tip[..2]).join(&tip[2..])).unwrap();
    let manifest = sidecar.poll();
    let record = &manifest.refs["semver:^1"];
    assert_eq!(record.full_name, "refs/tags/v1.1.0");
    assert_eq!(record.commit, upstream.git(&["rev-parse", "v1.1.0"]));
}

#[test]
fn a_branch_may_become_a_folder_of_branches() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    upstream.push("HEAD:refs/heads/feature");
    let mut sidecar = Sidecar::new(
        &upstream.url(),
        vec![chart("main", "c"), chart("feature", "c")],
    );
    good(&sidecar.poll(), "feature:c");
    upstream.push(":refs/heads/feature");
    upstream.push("HEAD:refs/heads/feature/x");
    upstream.chart("c", "two");
    let second = upstream.publish();
    sidecar.request.wants.push(chart("feature/x", "c"));
    let manifest = sidecar.poll();
    assert_eq!(good(&manifest, "main:c").commit.as_ref(), Some(&second));
    good(&manifest, "feature/x:c");
    assert_eq!(reason(&manifest, "feature:c"), Reason::RefNotFound);
}

#[test]
fn a_rewritten_and_collected_history_is_followed() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let mut sidecar = Sidecar::new(&upstream.url(), vec![chart("main", "c")]);
    sidecar.poll();
    upstream.git(&["checkout", "--quiet", "--orphan", "other"]);
    upstream.chart("c", "two");
    let other = upstream.publish();
    upstream.git_bare(&["reflog", "expire", "--expire=now", "--all"]);
    upstream.git_bare(&["gc", "--quiet", "--prune=now"]);
    sidecar.restart();
    let manifest = sidecar.poll();
    assert_eq!(good(&manifest, "main:c").commit.as_ref(), Some(&other));
    assert_eq!(
        sidecar.content(good(&manifest, "main:c"))["templates/cm.yaml"],
        "two"
    );
}

#[test]
fn a_failing_remote_leaves_what_is_good_and_recovers() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let mut sidecar = Sidecar::new(&upstream.url(), vec![chart("main", "c")]);
    let before = sidecar.poll();
    let away = upstream.bare().with_extension("away");
    fs::rename(upstream.bare(), &away).unwrap();
    sidecar.restart();
    sidecar.poll();
    let failing = sidecar.poll();
    assert_eq!(failing.state, SourceState::Failing);
    assert_eq!(
        (failing.epoch.as_str(), failing.sequence),
        (before.epoch.as_str(), before.sequence + 1)
    );
    let failure = failing.failure.clone().unwrap();
    assert_eq!(failure.reason, Reason::RepositoryNotFound);
    assert!(
        failure.message.contains("Check the URL"),
        "{}",
        failure.message
    );
    assert_eq!(good(&failing, "main:c"), good(&before, "main:c"));
    // What is held can still be asked for.
    sidecar
        .request
        .wants
        .push(want(WantKind::File, Some("main"), "c/Chart.yaml"));
    good(&sidecar.poll(), "main:c/Chart.yaml");
    fs::rename(&away, upstream.bare()).unwrap();
    let well = sidecar.poll();
    assert_eq!((well.state, well.failure), (SourceState::Ready, None));
}

#[test]
fn a_group_moves_whole_or_not_at_all() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.write("env/prod.yaml", "a: 1");
    upstream.publish();
    let mut wants = vec![
        chart("main", "c"),
        want(WantKind::File, Some("main"), "env/prod.yaml"),
    ];
    for want in &mut wants {
        want.group = "g".into();
    }
    let mut alone = chart("main", "c");
    alone.key = "alone".into();
    wants.push(alone);
    let mut sidecar = Sidecar::new(&upstream.url(), wants);
    let before = sidecar.poll();
    upstream.git(&["rm", "--quiet", "env/prod.yaml"]);
    upstream.chart("c", "two");
    let second = upstream.publish();
    let held = sidecar.poll();
    assert_eq!(reason(&held, "main:env/prod.yaml"), Reason::PathNotFound);
    assert_eq!(reason(&held, "main:c"), Reason::GroupHeldBack);
    assert_eq!(held.results["main:c"].good, before.results["main:c"].good);
    assert_eq!(good(&held, "alone").commit.as_ref(), Some(&second));
    upstream.write("env/prod.yaml", "a: 2");
    upstream.publish();
    let moved = sidecar.poll();
    assert_eq!(
        sidecar.content(good(&moved, "main:c"))["templates/cm.yaml"],
        "two"
    );
    assert_eq!(
        sidecar.content(good(&moved, "main:env/prod.yaml"))["prod.yaml"],
        "a: 2"
    );
}

#[test]
fn a_lost_or_tampered_artifact_is_built_again() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let mut sidecar = Sidecar::new(&upstream.url(), vec![chart("main", "c")]);
    let before = sidecar.poll();
    let artifact = good(&before, "main:c").artifact.clone();
    let path = sidecar.context.config.volume.served.artifact(&artifact);
    fs::remove_file(&path).unwrap();
    sidecar.poll();
    assert_eq!(
        sidecar.content(good(&sidecar.manifest(), "main:c"))["templates/cm.yaml"],
        "one"
    );
    upstream.git_bare(&["update-ref", "-d", "refs/heads/main"]);
    fs::remove_file(&path).unwrap();
    assert_eq!(reason(&sidecar.poll(), "main:c"), Reason::RefNotFound);
    assert!(path.exists());
    upstream.push("HEAD:refs/heads/main");
    sidecar.poll();
    // Of the same length, so only its digest tells.
    let mut bytes = fs::read(&path).unwrap();
    bytes[600] ^= 1;
    fs::write(&path, bytes).unwrap();
    sidecar.poll();
    sidecar.request.wants[0].rejected.insert(artifact);
    sidecar.check(false);
    assert_eq!(
        sidecar.content(good(&sidecar.manifest(), "main:c"))["templates/cm.yaml"],
        "one"
    );
}

/// What a power failure leaves of files that were not synced: their names.
fn empty_files(path: &Path) {
    if path.is_file() {
        fs::set_permissions(path, Permissions::from_mode(0o640)).unwrap();
        fs::write(path, "").unwrap();
    }
    for entry in fs::read_dir(path).into_iter().flatten() {
        empty_files(&entry.unwrap().path());
    }
}

#[test]
fn a_mirror_that_lost_its_files_in_a_power_failure_is_made_anew() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let mut sidecar = Sidecar::new(&upstream.url(), vec![chart("main", "c")]);
    let before = sidecar.poll();
    for lost in ["objects", "refs", "shallow", "HEAD", "config", ""] {
        // Several packs, and a shallow history.
        for text in ["first", "second"] {
            upstream.chart("c", &format!("{text} {lost}"));
            upstream.publish();
            sidecar.poll();
        }
        assert!(sidecar.mirror().join(lost).exists(), "{lost}");
        empty_files(&sidecar.mirror().join(lost));
        sidecar.restart();
        upstream.chart("c", lost);
        let commit = upstream.publish();
        let after = sidecar.poll();
        let found = good(&after, "main:c").commit.clone();
        assert_eq!(found, Some(commit), "{lost}: {after:?}");
        assert_eq!(
            (after.state, &after.epoch),
            (SourceState::Ready, &before.epoch)
        );
    }
}

#[test]
fn a_broken_mirror_is_made_anew_while_the_manifest_goes_on() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let mut sidecar = Sidecar::new(&upstream.url(), vec![chart("main", "c")]);
    let before = sidecar.poll();
    for breakage in ["HEAD", "objects"] {
        let path = sidecar.mirror().join(breakage);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap()
        } else {
            fs::remove_file(&path).unwrap()
        }
        sidecar.restart();
        upstream.chart("c", breakage);
        let commit = upstream.publish();
        let after = sidecar.poll();
        assert_eq!(
            good(&after, "main:c").commit.as_ref(),
            Some(&commit),
            "{breakage}"
        );
        assert_eq!(after.epoch, before.epoch);
    }
    // While the remote is away, the broken one can't be replaced, and what is good stays.
    fs::remove_file(sidecar.mirror().join("HEAD")).unwrap();
    fs::rename(upstream.bare(), upstream.bare().with_extension("away")).unwrap();
    sidecar.restart();
    let failing = sidecar.poll();
    assert_eq!(failing.state, SourceState::Failing);
    assert!(
        failing
            .failure
            .unwrap()
            .message
            .contains("couldn't be made anew")
    );
    assert!(failing.results["main:c"].good.is_some());
}

#[test]
fn a_broken_remote_is_not_taken_for_a_broken_mirror() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let mut sidecar = Sidecar::new(&upstream.url(), vec![chart("main", "c")]);
    let before = sidecar.poll();
    upstream.chart("c", "two");
    let tree = {
        upstream.publish();
        upstream.git(&["rev-parse", "HEAD:c"])
    };
    let object = upstream
        .bare()
        .join("objects")
        .join(&tree[..2])
        .join(&tree[2..]);
    let lost = fs::read(&object).unwrap();
    fs::remove_file(&object).unwrap();
    // It lies in the mirror only as long as that isn't made anew.
    let mark = sidecar.mirror().join("mark");
    fs::write(&mark, "").unwrap();
    let broken = sidecar.poll();
    let problem = problem(&broken, "main:c");
    assert_eq!(problem.reason, Reason::Remote, "{}", problem.message);
    assert!(problem.message.contains(&tree), "{}", problem.message);
    let kept = &broken.results["main:c"].good;
    assert_eq!(kept.as_ref(), Some(good(&before, "main:c")));
    fs::write(&object, lost).unwrap();
    let mended = sidecar.poll();
    assert_ne!(good(&mended, "main:c"), good(&before, "main:c"));
    assert!(mark.exists());
}

#[test]
fn what_killed_children_left_is_in_nobodys_way() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let mut sidecar = Sidecar::new(&upstream.url(), vec![chart("main", "c")]);
    sidecar.poll();
    let mirror = sidecar.mirror();
    for left in [
        "shallow.lock",
        "packed-refs.lock",
        "config.lock",
        "objects/pack/tmp_pack_x",
    ] {
        fs::create_dir_all(mirror.join(left).parent().unwrap()).unwrap();
        fs::write(mirror.join(left), "").unwrap();
    }
    // Of a fetch of all history that was cut short, by a name that is one of a folder now.
    let whole = "refs/tandem-whole/heads/feature";
    let held = sidecar.poll().refs["main"].commit.clone();
    fs::create_dir_all(mirror.join("refs/tandem-whole/heads")).unwrap();
    fs::write(mirror.join(whole), format!("{held}\n")).unwrap();
    upstream.push("HEAD:refs/heads/feature/x");
    sidecar.request.wants.push(chart(&"1".repeat(40), "c"));
    sidecar.restart();
    upstream.chart("c", "two");
    let second = upstream.publish();
    let manifest = sidecar.poll();
    assert_eq!(good(&manifest, "main:c").commit.as_ref(), Some(&second));
    let missing = format!("{}:c", "1".repeat(40));
    assert_eq!(reason(&manifest, &missing), Reason::RefNotFound);
    assert!(!mirror.join(whole).is_file());
    assert!(
        !mirror.join("shallow.lock").exists() && !mirror.join("objects/pack/tmp_pack_x").exists()
    );
}

#[test]
fn many_pushes_leave_a_small_mirror() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let mut sidecar = Sidecar::new(&upstream.url(), vec![chart("main", "c")]);
    sidecar.poll();
    for turn in 0..70 {
        upstream.chart("c", &turn.to_string());
        upstream.publish();
        sidecar.poll();
    }
    let lines = fs::read_to_string(sidecar.mirror().join("shallow"))
        .unwrap()
        .lines()
        .count();
    assert!(lines <= 65, "{lines} lines in shallow");
    assert!(sidecar.children("repack") >= 2);
    assert_eq!(
        sidecar.content(good(&sidecar.manifest(), "main:c"))["templates/cm.yaml"],
        "69"
    );
}

#[test]
fn a_shallow_upstream_serves_as_well() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    upstream.chart("c", "two");
    upstream.publish();
    let shallow = upstream.bare().with_file_name("shallow.git");
    upstream.git(&[
        "clone",
        "--quiet",
        "--bare",
        "--depth=1",
        &upstream.url(),
        shallow.to_str().unwrap(),
    ]);
    let mut sidecar = Sidecar::new(
        &format!("file://{}", shallow.display()),
        vec![chart("main", "c")],
    );
    let manifest = sidecar.poll();
    assert_eq!(
        sidecar.content(good(&manifest, "main:c"))["templates/cm.yaml"],
        "two"
    );
}

#[test]
fn what_can_not_be_served_is_said_in_words() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let url = upstream.url();
    let mut sidecar = Sidecar::new(&url, vec![chart("main", "c")]);
    sidecar.request.source.kind = tandem_shared::source::SourceKind::Other("bucket".into());
    assert_eq!(sidecar.poll().failure.unwrap().reason, Reason::Unsupported);

    let mut sidecar = Sidecar::new(&url, vec![chart("main", "c")]);
    let before = sidecar.poll();
    sidecar.request.schema = "tandem.request/v2".into();
    let after = sidecar.poll_anything();
    assert_eq!(after.failure.unwrap().reason, Reason::Unsupported);
    assert_eq!(after.results, before.results);

    let mut sidecar = Sidecar::new("ext::sh -c id", vec![chart("main", "c")]);
    assert_eq!(sidecar.poll().failure.unwrap().reason, Reason::InvalidUrl);

    let own = Sidecar::new(&url, vec![]);
    let inside = format!("file://{}/served/mirrors/x.git", own.volume().display());
    let mut sidecar = own;
    sidecar.request.source.url = inside;
    assert_eq!(sidecar.poll().failure.unwrap().reason, Reason::InvalidUrl);

    let mut sidecar = Sidecar::new(&url, vec![chart("main", "c")]);
    sidecar.request.credential_id = Some("0".repeat(32));
    let failure = sidecar.poll().failure.unwrap();
    assert_eq!(failure.reason, Reason::CredentialMissing);
    assert_eq!(sidecar.children("list"), 0);

    let mut sidecar = Sidecar::new(
        &url,
        vec![
            chart("main", "../c"),
            chart("main", "c/Chart.yaml"),
            chart("main", "nope"),
            want(WantKind::File, Some("main"), "c"),
        ],
    );
    let manifest = sidecar.poll();
    assert_eq!(reason(&manifest, "main:../c"), Reason::InvalidPath);
    assert_eq!(reason(&manifest, "main:c/Chart.yaml"), Reason::InvalidChart);
    assert_eq!(reason(&manifest, "main:nope"), Reason::PathNotFound);
    assert_eq!(reason(&manifest, "main:c"), Reason::PathNotFound);
    assert!(
        problem(&manifest, "main:nope")
            .message
            .contains("at main (")
    );
}

#[test]
fn a_server_that_only_gives_what_it_advertises_serves_old_commits_too() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    let first = upstream.publish();
    upstream.chart("c", "two");
    upstream.publish();
    // The old protocol refuses ids that no ref names.
    upstream.git_bare(&["config", "uploadpack.allowTipSHA1InWant", "false"]);
    let mut sidecar = Sidecar::new(
        &upstream.url(),
        vec![
            chart("main", "c"),
            chart(&first, "c"),
            chart(&"0".repeat(39).replace('0', "1"), "c"),
            chart(&"1".repeat(40), "c"),
        ],
    );
    let manifest = sidecar.poll();
    assert_eq!(
        good(&manifest, &format!("{first}:c")).commit.as_ref(),
        Some(&first)
    );
    good(&manifest, "main:c");
    assert_eq!(
        reason(&manifest, &format!("{}:c", "1".repeat(40))),
        Reason::RefNotFound
    );
    assert_eq!(
        reason(&manifest, &format!("{}:c", "1".repeat(39))),
        Reason::RefNotFound
    );
}

#[test]
fn a_key_that_comes_to_stand_for_something_else_is_looked_at_anew() {
    let upstream = Upstream::new();
    upstream.chart("a", "of a");
    upstream.chart("b", "of b");
    upstream.publish();
    let mut mine = chart("main", "a");
    mine.key = "mine".into();
    let mut sidecar = Sidecar::new(&upstream.url(), vec![mine]);
    good(&sidecar.poll(), "mine");
    sidecar.request.wants[0].spec.path = "b".into();
    sidecar.check(false);
    let manifest = sidecar.manifest();
    let content = sidecar.content(good(&manifest, "mine"));
    assert_eq!(content["templates/cm.yaml"], "of b");
}
