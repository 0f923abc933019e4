//! mirror-sidecar alone, asked by hand-written requests: what it serves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use tandem_shared::credentials;
use tandem_shared::manifest::{Reason, SourceState};
use tandem_shared::source::CredentialRef;
use tandem_tests::charts;
use tandem_tests::git::{GitDaemon, HttpServer, Scheme, SshServer, Upstream, Upstreams};
use tandem_tests::pair::{Extra, Role, sidecar};
use tandem_tests::requests::{chart, content, file, git, good, manifest, problem, request};
use tandem_tests::volume::Volume;
use tandem_tests::wait::{LONG, Look, until};

fn upstream() -> (Upstreams, Upstream, String) {
    let upstreams = Upstreams::new().unwrap();
    let upstream = upstreams.create("charts").unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "one"))
        .unwrap();
    upstream
        .write_all(&charts::config_map("charts/other", "one"))
        .unwrap();
    upstream.write("env/prod.yaml", "replicas: 3\n").unwrap();
    let commit = upstream.push("main", "Add charts").unwrap();
    (upstreams, upstream, commit)
}

async fn start(extra: &Extra) -> (Volume, Role) {
    let volume = Volume::new().unwrap();
    let role = sidecar(&volume, extra).unwrap();
    role.ready().await.unwrap();
    (volume, role)
}

#[tokio::test]
async fn a_chart_comes_from_a_path_over_git_http_and_ssh() {
    let (upstreams, upstream, commit) = upstream();
    let http = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let ssh = SshServer::start(&upstreams).unwrap();
    let daemon = GitDaemon::start(&upstreams).unwrap();
    let (volume, _role) = start(&Extra::args([
        format!("--ssh-key-file={}", ssh.identity().display()),
        format!("--ssh-known-hosts-file={}", ssh.known_hosts().display()),
    ]))
    .await;
    let mut artifacts = Vec::new();
    for url in [
        upstream.file_url(),
        daemon.url("charts"),
        http.url("charts"),
        ssh.url("charts"),
    ] {
        let source = git(&url);
        volume
            .ask(&request(&source, [chart("app", "main", "charts/app")]))
            .unwrap();
        let good = good(&volume, &source, "app", &commit).await.unwrap();
        assert_eq!(good.chart.as_ref().unwrap().name, "app");
        let files = content(&volume, &good.artifact).unwrap();
        assert!(
            files.keys().all(|path| !path.contains("other")),
            "{files:?}"
        );
        assert!(
            files.values().any(|text| text.contains("marker: one")),
            "{files:?}"
        );
        artifacts.push(good.artifact);
    }
    artifacts.dedup();
    assert_eq!(
        artifacts.len(),
        1,
        "the same content has one name: {artifacts:?}"
    );
    assert_eq!(
        volume.mirrors().unwrap().len(),
        4,
        "one mirror for each address"
    );
}

#[tokio::test]
async fn https_takes_the_authority_and_the_login_from_the_credential() {
    let (upstreams, upstream, commit) = upstream();
    let server = HttpServer::start(&upstreams, Scheme::Https).unwrap();
    let login = |password: &str| Some(("ada".to_owned(), password.to_owned()));
    server.set(|knobs| knobs.login = login("s3cret-one"));
    let (volume, role) = start(&Extra::default()).await;

    let store = credentials::Store::open(&volume.credentials()).unwrap();
    let secret = CredentialRef {
        namespace: "demo".into(),
        name: "git".into(),
    };
    let ca = std::fs::read(server.authority()).unwrap();
    let put = |password: &str| {
        let values = [
            ("username".to_owned(), b"ada".to_vec()),
            ("password".to_owned(), password.as_bytes().to_vec()),
            ("ca.crt".to_owned(), ca.clone()),
        ];
        store.put(&secret, &values.into()).unwrap()
    };
    let mut source = git(&server.url("charts"));
    source.credential = Some(secret.clone());
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    asked.credential_id = Some(put("s3cret-one"));
    volume.ask(&asked).unwrap();
    let first = good(&volume, &source, "app", &commit).await.unwrap();

    // The server takes a new password: the old chart stays, the reason is said.
    server.set(|knobs| knobs.login = login("s3cret-two"));
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    asked.refresh = "rotated".into();
    volume.ask(&asked).unwrap();
    let failing = manifest(&volume, &source, "refused", |one| one.failure.is_some())
        .await
        .unwrap();
    assert_eq!(failing.state, SourceState::Failing);
    assert_eq!(
        failing.failure.unwrap().reason,
        Reason::AuthenticationFailed
    );
    assert_eq!(
        failing.results["app"].good.as_ref().unwrap().artifact,
        first.artifact
    );
    content(&volume, &first.artifact).unwrap();

    // A new credential is a new request; nothing is restarted.
    asked.credential_id = Some(put("s3cret-two"));
    volume.ask(&asked).unwrap();
    let good = good(&volume, &source, "app", &second).await.unwrap();
    assert_ne!(good.artifact, first.artifact);
    for password in ["s3cret-one", "s3cret-two"] {
        assert!(volume.find(password).unwrap().is_empty());
        assert!(!role.log().contains(password));
    }
}

#[tokio::test]
async fn every_kind_of_ref_is_understood() {
    let (_upstreams, upstream, first) = upstream();
    upstream.push_tag("v1").unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    upstream
        .run(&["push", "--quiet", "origin", "HEAD:refs/heads/feature/x"])
        .unwrap();
    upstream
        .run(&["push", "--quiet", "origin", "HEAD:refs/changes/1"])
        .unwrap();
    let (volume, _role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    let refs = [
        ("branch", "main", &second),
        ("head", "", &second),
        ("slash", "feature/x", &second),
        ("full", "refs/heads/main", &second),
        ("hidden", "refs/changes/1", &second),
        ("annotated tag", "v1", &first),
        ("full tag", "refs/tags/v1", &first),
        ("commit", first.as_str(), &first),
        ("short commit", &first[..8], &first),
    ];
    let wants = refs.map(|(key, reference, _)| chart(key, reference, "charts/app"));
    volume.ask(&request(&source, wants)).unwrap();
    for (key, _, commit) in refs {
        good(&volume, &source, key, commit).await.unwrap();
    }
    assert_eq!(
        volume.mirrors().unwrap().len(),
        1,
        "one mirror, however many refs"
    );
    assert_eq!(
        volume.artifacts().unwrap().len(),
        2,
        "one artifact for each content"
    );
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
    let before = volume.manifest(&source).unwrap().unwrap();
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
async fn links_inside_the_repository_become_files() {
    let (_upstreams, upstream, _) = upstream();
    upstream
        .write("shared/cm.yaml", "kind: ConfigMap # shared\n")
        .unwrap();
    upstream
        .link(
            "charts/app/templates/shared.yaml",
            "../../../shared/cm.yaml",
        )
        .unwrap();
    upstream
        .link("charts/app/prod.yaml", "../../env/prod.yaml")
        .unwrap();
    upstream.link("charts/app/files", "../../shared").unwrap();
    let commit = upstream.push("main", "Link").unwrap();
    let (volume, _role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    volume
        .ask(&request(&source, [chart("app", "main", "charts/app")]))
        .unwrap();
    let good = good(&volume, &source, "app", &commit).await.unwrap();
    let files = content(&volume, &good.artifact).unwrap();
    let ending = |name: &str| {
        files
            .iter()
            .find(|(path, _)| path.ends_with(name))
            .map(|(_, text)| text.as_str())
    };
    assert_eq!(
        ending("templates/shared.yaml"),
        Some("kind: ConfigMap # shared\n")
    );
    assert_eq!(ending("prod.yaml"), Some("replicas: 3\n"));
    assert_eq!(ending("files/cm.yaml"), Some("kind: ConfigMap # shared\n"));
}

#[tokio::test]
async fn a_sibling_comes_with_the_chart_and_its_changes_count() {
    let (_upstreams, upstream, _) = upstream();
    upstream
        .write_all(&charts::config_map("charts/lib", "lib one"))
        .unwrap();
    upstream
        .write_all(&charts::config_map("charts/umbrella", "umbrella"))
        .unwrap();
    upstream
        .write(
            "charts/umbrella/Chart.yaml",
            "apiVersion: v2\nname: umbrella\nversion: 0.1.0\ndependencies:\n  - {name: lib, version: 0.1.0, repository: 'file://../lib'}\n",
        )
        .unwrap();
    let first = upstream.push("main", "Add an umbrella").unwrap();
    let (volume, _role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    let mut asked = request(&source, [chart("umbrella", "main", "charts/umbrella")]);
    volume.ask(&asked).unwrap();
    let before = good(&volume, &source, "umbrella", &first).await.unwrap();
    let files = content(&volume, &before.artifact).unwrap();
    assert!(
        files
            .iter()
            .any(|(path, text)| path.contains("charts/lib/") && text.contains("lib one")),
        "{files:?}"
    );

    upstream
        .write_all(&charts::config_map("charts/lib", "lib two"))
        .unwrap();
    let second = upstream.push("main", "Change lib").unwrap();
    asked.refresh = "1".into();
    volume.ask(&asked).unwrap();
    let after = good(&volume, &source, "umbrella", &second).await.unwrap();
    assert_ne!(before.artifact, after.artifact);
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
