//! Bad requests, bad remotes and bad repositories: each fails alone.

use std::fs;
use std::time::Duration;

use tandem_shared::manifest::Reason;
use tandem_shared::request::WantKind;
use tandem_shared::source::{Source, SourceKind};
use tandem_tests::git::{GitDaemon, HttpServer, Scheme, SshServer};
use tandem_tests::pair::Extra;
use tandem_tests::requests::{chart, content, failure, git, good, manifest, problem, request};
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::{charts, procfs};

use crate::common::{Neighbour, start, upstream};

#[tokio::test]
async fn bad_wants_fail_alone_and_say_why() {
    let (upstreams, upstream, _) = upstream();
    upstream.write("empty/values.yaml", "a: 1\n").unwrap();
    upstream.write("lower/chart.yaml", "name: lower\n").unwrap();
    upstream.write("broken/Chart.yaml", "name: [\n").unwrap();
    upstream
        .write_all(&charts::config_map("escape", "x"))
        .unwrap();
    upstream.link("escape/files", "/etc").unwrap();
    upstream
        .write_all(&charts::config_map("climb", "x"))
        .unwrap();
    upstream
        .link("climb/up.yaml", "../../../outside.yaml")
        .unwrap();
    upstream
        .write_all(&charts::config_map("circle", "x"))
        .unwrap();
    upstream.link("circle/charts", "../circle").unwrap();
    upstream.write_all(&charts::config_map("lfs", "x")).unwrap();
    upstream
        .write(
            "lfs/values.yaml",
            "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n",
        )
        .unwrap();
    let commit = upstream.push("main", "Add bad charts").unwrap();
    let (volume, mut role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    let bad = [
        (
            "no ref",
            "missing",
            "charts/app",
            Reason::RefNotFound,
            "missing",
        ),
        (
            "no commit",
            "0123456789012345678901234567890123456789",
            "charts/app",
            Reason::RefNotFound,
            "0123456789",
        ),
        (
            "no path",
            "main",
            "charts/none",
            Reason::PathNotFound,
            "charts/none",
        ),
        (
            "outside",
            "main",
            "../charts/app",
            Reason::InvalidPath,
            "../charts/app",
        ),
        ("absolute", "main", "/etc", Reason::PathNotFound, "etc"),
        (
            "no Chart.yaml",
            "main",
            "empty",
            Reason::InvalidChart,
            "Chart.yaml",
        ),
        (
            "lower case",
            "main",
            "lower",
            Reason::InvalidChart,
            "Chart.yaml",
        ),
        (
            "broken",
            "main",
            "broken",
            Reason::InvalidChart,
            "Chart.yaml",
        ),
        ("escape", "main", "escape", Reason::InvalidLink, "files"),
        ("climb", "main", "climb", Reason::InvalidLink, "up.yaml"),
        ("circle", "main", "circle", Reason::InvalidLink, "charts"),
        ("lfs", "main", "lfs", Reason::LfsPointer, "values.yaml"),
    ];
    let mut wants: Vec<_> = bad
        .iter()
        .map(|(key, reference, path, ..)| chart(key, reference, path))
        .collect();
    let mut strange = chart("strange", "main", "charts/app");
    strange.spec.kind = WantKind::Other("picture".into());
    wants.push(strange);
    wants.push(chart("fine", "main", "charts/app"));
    volume.ask(&request(&source, wants)).unwrap();

    good(&volume, &source, "fine", &commit).await.unwrap();
    for (key, _, _, reason, words) in bad {
        let message = problem(&volume, &source, key, &reason).await.unwrap();
        assert!(message.contains(words), "{key}: {message}");
    }
    problem(&volume, &source, "strange", &Reason::Unsupported)
        .await
        .unwrap();
    assert!(role.is_running().unwrap());
    Neighbour::new(&upstreams).goes_on(&volume).await;
}

#[tokio::test]
async fn bad_sources_fail_alone_and_say_why() {
    let (upstreams, upstream, commit) = upstream();
    let mut daemon = GitDaemon::start(&upstreams).unwrap();
    let refusing = git(&daemon.url("charts"));
    daemon.stop().unwrap();
    let https = HttpServer::start(&upstreams, Scheme::Https).unwrap();
    let login = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    login.set(|knobs| knobs.login = Some(("ada".into(), "s3cret".into())));
    let ssh = SshServer::start(&upstreams).unwrap();
    let (volume, mut role) = start(&Extra::args([
        format!("--ssh-key-file={}", ssh.identity().display()),
        format!(
            "--ssh-known-hosts-file={}",
            ssh.wrong_known_hosts().unwrap().display()
        ),
    ]))
    .await;
    let bad = [
        (refusing, vec![Reason::Unreachable]),
        (
            git("http://no-such-host.invalid/charts.git"),
            vec![Reason::UnknownHost],
        ),
        (
            git(&login.url("charts")),
            vec![Reason::AuthenticationFailed],
        ),
        (
            git(&login.url("charts").replace("http://", "http://ada:wr0ng@")),
            vec![Reason::InvalidUrl, Reason::AuthenticationFailed],
        ),
        (git(&https.url("charts")), vec![Reason::HostNotTrusted]),
        (git(&ssh.url("charts")), vec![Reason::HostNotTrusted]),
        (
            git(&format!(
                "file://{}",
                upstreams.root().join("none.git").display()
            )),
            vec![Reason::RepositoryNotFound],
        ),
        (
            git("ext::sh -c touch% /tmp/owned"),
            vec![Reason::InvalidUrl],
        ),
        (git("--upload-pack=touch"), vec![Reason::InvalidUrl]),
        (
            git("ssh://-oProxyCommand=touch/x"),
            vec![Reason::InvalidUrl],
        ),
        (
            Source {
                kind: SourceKind::Other("bucket".into()),
                url: "s3://b".into(),
                credential: None,
            },
            vec![Reason::Unsupported],
        ),
    ];
    for (source, _) in &bad {
        volume
            .ask(&request(source, [chart("app", "main", "charts/app")]))
            .unwrap();
    }
    for (source, reasons) in &bad {
        let message = failure(&volume, source, reasons).await.unwrap();
        assert!(
            !message.is_empty() && !message.contains("wr0ng"),
            "{message}"
        );
    }
    let fine = git(&upstream.file_url());
    volume
        .ask(&request(&fine, [chart("app", "main", "charts/app")]))
        .unwrap();
    good(&volume, &fine, "app", &commit).await.unwrap();
    assert!(role.is_running().unwrap());
    assert!(!role.log().contains("wr0ng"), "a password in the log");
    let leaks = volume.find("wr0ng").unwrap();
    assert!(
        leaks
            .iter()
            .all(|path| path.starts_with(volume.layout().wanted.root())),
        "{leaks:?}"
    );
}

#[tokio::test]
async fn bad_request_files_are_left_alone_and_harm_nobody() {
    let (upstreams, upstream, commit) = upstream();
    let (volume, mut role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    let asked = request(&source, [chart("app", "main", "charts/app")]);
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &commit).await.unwrap();
    let before = volume.manifest(&source).unwrap().unwrap();

    let mut neighbour = Neighbour::new(&upstreams);
    let requests = volume.layout().wanted.requests();
    let path = volume.layout().wanted.request(&source.name());
    let other_name = volume
        .layout()
        .wanted
        .request(&git("https://example.org/x").name());
    fs::write(&other_name, serde_json::to_vec(&asked).unwrap()).unwrap();
    fs::write(requests.join("notes.txt"), "not ours").unwrap();
    let newer = serde_json::to_string(&asked)
        .unwrap()
        .replace("tandem.request/v1", "tandem.request/v2");
    for text in [newer.as_str(), "{", "", "[]", "null"] {
        fs::write(path.with_extension("by-hand"), text).unwrap();
        fs::rename(path.with_extension("by-hand"), &path).unwrap();
        neighbour.goes_on(&volume).await;
    }
    // What was good is still served, and the file was not touched.
    assert_eq!(fs::read_to_string(&path).unwrap(), "null");
    let after = volume.manifest(&source).unwrap().unwrap();
    assert_eq!(after.results["app"].good, before.results["app"].good);
    content(
        &volume,
        &after.results["app"].good.as_ref().unwrap().artifact,
    )
    .unwrap();
    assert!(
        volume
            .manifest(&git("https://example.org/x"))
            .unwrap()
            .is_none_or(|one| one.results.is_empty())
    );
    assert!(
        role.log().contains("v2"),
        "the unknown version is named in words"
    );

    // Put right, it is read at once.
    let mut asked = asked;
    asked.refresh = "well again".into();
    volume.ask(&asked).unwrap();
    manifest(&volume, &source, "well again", |one| {
        one.handled_refresh == "well again"
    })
    .await
    .unwrap();
    assert!(role.is_running().unwrap());
}

#[tokio::test]
async fn a_silent_server_delays_nobody_and_is_given_up() {
    let (upstreams, _upstream, commit) = upstream();
    let (volume, role) = start(&Extra::default()).await;
    let mut neighbour = Neighbour::new(&upstreams);
    for (name, drip) in [("stall", None), ("drip", Some(Duration::from_millis(200)))] {
        let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
        server.set(|knobs| {
            knobs.stall = drip.is_none();
            knobs.drip = drip;
        });
        let source = git(&server.url("charts"));
        let mut asked = request(&source, [chart(name, "main", "charts/app")]);
        asked.timeout_seconds = 2;
        volume.ask(&asked).unwrap();
        until("the server to be asked", LONG, || async {
            Ok(Look::when(!server.requests().is_empty(), "no request"))
        })
        .await
        .unwrap();
        neighbour.goes_on(&volume).await;
        failure(&volume, &source, &[Reason::Timeout]).await.unwrap();
        until("no git to be left", LONG, || async {
            let left: Vec<_> = procfs::session(role.pid())
                .into_iter()
                .filter(|one| one.name.starts_with("git"))
                .collect();
            Ok(Look::when(left.is_empty(), format!("{left:?}")))
        })
        .await
        .unwrap();
        // It recovers by itself, with what the killed exchange left behind.
        server.set(|knobs| {
            knobs.stall = false;
            knobs.drip = None;
        });
        good(&volume, &source, name, &commit).await.unwrap();
    }
}
