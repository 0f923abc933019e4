//! What changes, in requests and in repositories, and what it costs.

use tandem_shared::manifest::{Reason, SourceState};
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::pair::Extra;
use tandem_tests::requests::{chart, content, file, git, good, manifest, problem, request};
use tandem_tests::wait::{LONG, Look, until};

use crate::common::{start, upstream};

#[tokio::test]
async fn a_changed_request_is_answered_at_once_and_says_so() {
    let (_upstreams, upstream, first) = upstream();
    let (volume, _role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &first).await.unwrap();

    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    asked.refresh = "token-7".into();
    volume.ask(&asked).unwrap();
    let handled = manifest(&volume, &source, "token", |one| {
        one.handled_refresh == "token-7"
    })
    .await
    .unwrap();
    assert_eq!(
        handled.results["app"]
            .good
            .as_ref()
            .unwrap()
            .commit
            .as_ref(),
        Some(&second)
    );

    // Another want of the same source needs no new mirror, and the digest of
    // the request that was seen is that of the file.
    asked.wants.push(chart("other", "main", "charts/other"));
    volume.ask(&asked).unwrap();
    let seen = manifest(&volume, &source, "other", |one| {
        one.results
            .get("other")
            .is_some_and(|result| result.good.is_some())
    })
    .await
    .unwrap();
    let digest = {
        use sha2::Digest;
        let bytes = std::fs::read(volume.layout().wanted.request(&source.name())).unwrap();
        data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(bytes))
    };
    assert_eq!(seen.observed_request.unwrap().digest, digest);
    assert_eq!(volume.mirrors().unwrap().len(), 1);
}

#[tokio::test]
async fn a_group_moves_whole_or_not_at_all() {
    let (_upstreams, upstream, first) = upstream();
    let (volume, _role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    let mut wants = [
        chart("app", "main", "charts/app"),
        file("values", "main", "env/prod.yaml"),
    ];
    wants.iter_mut().for_each(|want| want.group = "both".into());
    let alone = chart("other", "main", "charts/other");
    let mut asked = request(&source, wants.into_iter().chain([alone]));
    volume.ask(&asked).unwrap();
    for key in ["app", "values", "other"] {
        good(&volume, &source, key, &first).await.unwrap();
    }
    let before = volume.manifest(&source).unwrap().unwrap();
    let values = before.results["values"].good.as_ref().unwrap();
    let files = content(&volume, &values.artifact).unwrap();
    assert_eq!(files.into_values().collect::<Vec<_>>(), ["replicas: 3\n"]);

    // The values file vanishes while all charts change: the group stays behind.
    for path in ["charts/app", "charts/other"] {
        upstream
            .write_all(&charts::config_map(path, "two"))
            .unwrap();
    }
    upstream.run(&["rm", "--quiet", "env/prod.yaml"]).unwrap();
    let second = upstream.push("main", "Lose the values").unwrap();
    asked.refresh = "1".into();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "other", &second).await.unwrap();
    problem(&volume, &source, "values", &Reason::PathNotFound)
        .await
        .unwrap();
    problem(&volume, &source, "app", &Reason::GroupHeldBack)
        .await
        .unwrap();
    let held = volume.manifest(&source).unwrap().unwrap();
    assert_eq!(
        held.results["app"].good.as_ref().unwrap().commit.as_ref(),
        Some(&first)
    );
    assert_eq!(held.results["values"].good, before.results["values"].good);

    upstream.write("env/prod.yaml", "replicas: 4\n").unwrap();
    let third = upstream.push("main", "Find the values").unwrap();
    asked.refresh = "2".into();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "values", &third).await.unwrap();
    let whole = manifest(&volume, &source, "app without a problem", |one| {
        one.results["app"].problem.is_none()
    })
    .await
    .unwrap();
    let app = content(
        &volume,
        &whole.results["app"].good.as_ref().unwrap().artifact,
    )
    .unwrap();
    assert!(app.values().any(|text| text.contains("marker: two")));
}

#[tokio::test]
async fn only_what_changed_is_exported_and_only_when_something_did() {
    let (upstreams, upstream, first) = upstream();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let (volume, role) = start(&Extra::default()).await;
    let source = git(&server.url("charts"));
    let mut asked = request(
        &source,
        [
            chart("app", "main", "charts/app"),
            chart("other", "main", "charts/other"),
            chart("again", "main", "charts/app/"),
        ],
    );
    asked.interval_seconds = 1;
    volume.ask(&asked).unwrap();
    for key in ["app", "other", "again"] {
        good(&volume, &source, key, &first).await.unwrap();
    }
    // What is published while a check runs isn't its last word.
    let before = manifest(&volume, &source, "a whole check", |one| {
        one.observed_request.is_some() && one.state == SourceState::Ready
    })
    .await
    .unwrap();
    assert_eq!(
        before.results["app"].good.as_ref().unwrap().artifact,
        before.results["again"].good.as_ref().unwrap().artifact
    );

    // Polls go on; nothing is fetched, and the manifest doesn't claim news.
    server.clear();
    let counted = role.metrics().await.unwrap().polls();
    until("five polls", LONG, || async {
        let now = role.metrics().await?.polls();
        Ok(Look::when(now >= counted + 5.0, now - counted))
    })
    .await
    .unwrap();
    let requests = server.requests();
    let fetches = requests
        .iter()
        .filter(|one| String::from_utf8_lossy(&one.body).contains("command=fetch"))
        .count();
    assert_eq!(fetches, 0, "{requests:?}");
    let idle = volume.manifest(&source).unwrap().unwrap();
    assert_eq!(
        (&idle.epoch, idle.sequence, &idle.results),
        (&before.epoch, before.sequence, &before.results)
    );

    // A push of one chart changes one result. The poll finds it by itself.
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    good(&volume, &source, "app", &second).await.unwrap();
    let after = volume.manifest(&source).unwrap().unwrap();
    assert_eq!(after.results["other"], before.results["other"]);
    let main = after
        .refs
        .values()
        .find(|one| one.full_name == "refs/heads/main")
        .unwrap();
    assert_eq!(
        (main.commit.as_str(), main.subject.as_str()),
        (second.as_str(), "Change app")
    );
}

#[tokio::test]
async fn what_nothing_asks_for_is_dropped_after_the_grace() {
    let (upstreams, upstream, first) = upstream();
    let second = upstreams.create("second").unwrap();
    second
        .write_all(&charts::config_map("app", "second"))
        .unwrap();
    let second_commit = second.push("main", "Add app").unwrap();
    let (volume, _role) = start(&Extra::args(["--grace=1s", "--rescan-interval=1s"])).await;
    let (one, two) = (git(&upstream.file_url()), git(&second.file_url()));
    volume
        .ask(&request(
            &one,
            [
                chart("app", "main", "charts/app"),
                chart("other", "main", "charts/other"),
            ],
        ))
        .unwrap();
    volume
        .ask(&request(&two, [chart("app", "main", "app")]))
        .unwrap();
    good(&volume, &one, "other", &first).await.unwrap();
    good(&volume, &two, "app", &second_commit).await.unwrap();
    assert_eq!(
        (
            volume.mirrors().unwrap().len(),
            volume.artifacts().unwrap().len()
        ),
        (2, 3)
    );

    volume.withdraw(&one).unwrap();
    until("the orphans to be gone", LONG, || async {
        let left = (
            volume.mirrors()?,
            volume.artifacts()?,
            volume.manifest(&one)?.is_some(),
        );
        Ok(Look::when(
            left.0.len() == 1 && left.1.len() == 1 && !left.2,
            format!("{left:?}"),
        ))
    })
    .await
    .unwrap();
    let kept = volume.manifest(&two).unwrap().unwrap();
    content(
        &volume,
        &kept.results["app"].good.as_ref().unwrap().artifact,
    )
    .unwrap();
}

#[tokio::test]
async fn a_mirror_holds_what_is_asked_for_and_stays_small() {
    let (_upstreams, upstream, _) = upstream();
    for number in 0..20 {
        upstream.write("history", number.to_string()).unwrap();
        upstream.push("main", &format!("History {number}")).unwrap();
    }
    upstream.push("unasked", "Branch off").unwrap();
    upstream.push_tag("v-unasked").unwrap();
    let (volume, role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    let mirror = volume.layout().served.mirror(&source.name());
    let held = |args: &[&str]| {
        let output = tandem_tests::git::git()
            .unwrap()
            .arg("--git-dir")
            .arg(&mirror)
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    // More pushes than a shallow mirror may remember the ends of.
    for number in 0..70 {
        upstream
            .write_all(&charts::config_map("charts/app", &format!("push {number}")))
            .unwrap();
        let commit = upstream.push("main", &format!("Push {number}")).unwrap();
        asked.refresh = number.to_string();
        volume.ask(&asked).unwrap();
        good(&volume, &source, "app", &commit).await.unwrap();
        if number == 0 {
            assert_eq!(
                held(&["rev-list", "--all", "--count"]),
                "1",
                "one commit, not its history"
            );
        }
    }
    assert_eq!(
        held(&["for-each-ref", "--format=%(refname)"])
            .lines()
            .count(),
        1
    );
    until("the mirror to be repacked", LONG, || async {
        let ends = std::fs::read_to_string(mirror.join("shallow"))?
            .lines()
            .count();
        Ok(Look::when(
            ends <= 64,
            format!("{ends} ends, {}", held(&["count-objects", "-v"])),
        ))
    })
    .await
    .unwrap();
    let metrics = role.metrics().await.unwrap();
    assert!(metrics.sum("tandem_mirror_git_children_total", &[("kind", "repack")]) >= 1.0);
    // What was repacked still serves.
    asked.refresh = "after".into();
    volume.ask(&asked).unwrap();
    let served = manifest(&volume, &source, "after", |one| {
        one.handled_refresh == "after"
    })
    .await
    .unwrap();
    let good = served.results["app"].good.as_ref().unwrap();
    assert!(
        content(&volume, &good.artifact)
            .unwrap()
            .values()
            .any(|text| text.contains("push 69"))
    );
}

#[tokio::test]
async fn a_rewritten_history_is_followed() {
    let (_upstreams, upstream, first) = upstream();
    let (volume, _role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    let mut asked = request(
        &source,
        [
            chart("app", "main", "charts/app"),
            chart("pinned", &first, "charts/app"),
        ],
    );
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &first).await.unwrap();
    good(&volume, &source, "pinned", &first).await.unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let orphan = upstream.push_orphan("main", "Start over").unwrap();
    asked.refresh = "1".into();
    volume.ask(&asked).unwrap();
    let good_now = good(&volume, &source, "app", &orphan).await.unwrap();
    assert!(
        content(&volume, &good_now.artifact)
            .unwrap()
            .values()
            .any(|text| text.contains("marker: two"))
    );
    // A commit that is held needs no network: upstream has lost it.
    let kept = volume.manifest(&source).unwrap().unwrap();
    assert_eq!(
        kept.results["pinned"]
            .good
            .as_ref()
            .unwrap()
            .commit
            .as_ref(),
        Some(&first)
    );
}

#[tokio::test]
async fn refs_vanish_return_and_change_places() {
    let (_upstreams, upstream, first) = upstream();
    upstream
        .run(&["push", "--quiet", "origin", "HEAD:refs/heads/feature"])
        .unwrap();
    let (volume, _role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    let mut asked = request(
        &source,
        [
            chart("main", "main", "charts/app"),
            chart("feature", "feature", "charts/app"),
        ],
    );
    volume.ask(&asked).unwrap();
    good(&volume, &source, "feature", &first).await.unwrap();

    // `feature` goes, `feature/x` comes, and `main` moves on.
    upstream.delete_branch("feature").unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    upstream
        .run(&["push", "--quiet", "origin", "HEAD:refs/heads/feature/x"])
        .unwrap();
    asked.wants.push(chart("nested", "feature/x", "charts/app"));
    asked.refresh = "1".into();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "main", &second).await.unwrap();
    good(&volume, &source, "nested", &second).await.unwrap();
    problem(&volume, &source, "feature", &Reason::RefNotFound)
        .await
        .unwrap();
    let kept = volume.manifest(&source).unwrap().unwrap();
    assert_eq!(
        kept.results["feature"]
            .good
            .as_ref()
            .unwrap()
            .commit
            .as_ref(),
        Some(&first)
    );

    upstream.delete_branch("feature/x").unwrap();
    upstream
        .run(&["push", "--quiet", "origin", "HEAD:refs/heads/feature"])
        .unwrap();
    asked.refresh = "2".into();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "feature", &second).await.unwrap();
    problem(&volume, &source, "nested", &Reason::RefNotFound)
        .await
        .unwrap();
}
