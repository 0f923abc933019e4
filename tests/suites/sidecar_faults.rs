//! mirror-sidecar when something goes wrong: bad requests, bad remotes, bad
//! repositories, kills, and a volume that refuses.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tandem_shared::manifest::Reason;
use tandem_shared::request::WantKind;
use tandem_shared::source::{Source, SourceKind};
use tandem_tests::git::{GitDaemon, HttpServer, Scheme, SshServer, Upstream, Upstreams};
use tandem_tests::mounts::{self, Mount};
use tandem_tests::pair::{Extra, Role, sidecar};
use tandem_tests::requests::{chart, content, failure, git, good, manifest, problem, request};
use tandem_tests::volume::Volume;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::{charts, procfs};

fn upstream() -> (Upstreams, Upstream, String) {
    let upstreams = Upstreams::new().unwrap();
    let upstream = upstreams.create("charts").unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "one"))
        .unwrap();
    upstream
        .write_all(&charts::config_map("charts/other", "one"))
        .unwrap();
    let commit = upstream.push("main", "Add charts").unwrap();
    (upstreams, upstream, commit)
}

/// A second repository that must go on whatever happens to the first.
struct Neighbour {
    upstream: Upstream,
    source: Source,
    pushes: u32,
}

impl Neighbour {
    fn new(upstreams: &Upstreams) -> Self {
        let upstream = upstreams.create("neighbour").unwrap();
        let source = git(&upstream.file_url());
        Self {
            upstream,
            source,
            pushes: 0,
        }
    }

    async fn goes_on(&mut self, volume: &Volume) {
        self.pushes += 1;
        let marker = format!("push {}", self.pushes);
        self.upstream
            .write_all(&charts::config_map("app", &marker))
            .unwrap();
        let commit = self.upstream.push("main", &marker).unwrap();
        let mut asked = request(&self.source, [chart("app", "main", "app")]);
        asked.refresh = marker;
        volume.ask(&asked).unwrap();
        good(volume, &self.source, "app", &commit).await.unwrap();
    }
}

async fn start(extra: &Extra) -> (Volume, Role) {
    let volume = Volume::new().unwrap();
    let role = sidecar(&volume, extra).unwrap();
    role.ready().await.unwrap();
    (volume, role)
}

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

#[tokio::test]
async fn killed_in_the_middle_of_a_fetch_it_goes_on_where_it_was() {
    let (upstreams, upstream, first) = upstream();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let (volume, mut role) = start(&Extra::default()).await;
    let source = git(&server.url("charts"));
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    volume.ask(&asked).unwrap();
    let held = good(&volume, &source, "app", &first).await.unwrap();

    let mut commit = String::new();
    for round in 0..4 {
        upstream
            .write_all(&charts::config_map("charts/app", &format!("round {round}")))
            .unwrap();
        upstream
            .write("charts/app/files/large", blob(round))
            .unwrap();
        commit = upstream.push("main", &format!("Round {round}")).unwrap();
        server.set(|knobs| knobs.drip = Some(Duration::from_millis(5)));
        server.clear();
        asked.refresh = format!("round {round}");
        volume.ask(&asked).unwrap();
        until("the fetch to be answered", LONG, || async {
            let fetching = server.requests().iter().any(|one| {
                String::from_utf8_lossy(&one.body).contains("command=fetch") && one.answered > 0
            });
            Ok(Look::when(fetching, "no fetch"))
        })
        .await
        .unwrap();
        // As a kubelet ends a container, or as the kernel kills one process.
        if round % 2 == 0 {
            role.kill()
        } else {
            role.kill_alone()
        }
        .unwrap();
        assert_eq!(
            content(&volume, &held.artifact).unwrap(),
            content(
                &volume,
                &volume.manifest(&source).unwrap().unwrap().results["app"]
                    .good
                    .as_ref()
                    .unwrap()
                    .artifact
            )
            .unwrap(),
            "the manifest still serves what was good"
        );
        role.restart().unwrap();
    }
    // What a kill can leave in a mirror, all at once.
    let mirror = volume.layout().served.mirror(&source.name());
    for left in [
        "shallow.lock",
        "config.lock",
        "objects/pack/tmp_pack_killed",
    ] {
        fs::write(mirror.join(left), "").unwrap();
    }
    role.kill().unwrap();
    role.restart().unwrap();
    server.set(|knobs| knobs.drip = None);
    asked.refresh = "at last".into();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &commit).await.unwrap();
    until("nothing left over", LONG, || async {
        let left: Vec<PathBuf> = ["shallow.lock", "objects/pack/tmp_pack_killed"]
            .iter()
            .map(|name| mirror.join(name))
            .filter(|path| path.exists())
            .collect();
        Ok(Look::when(left.is_empty(), format!("{left:?}")))
    })
    .await
    .unwrap();
}

/// Bytes that git can't make small, different for each seed.
fn blob(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..20_000)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[0]
        })
        .collect()
}

#[tokio::test]
async fn a_broken_mirror_and_a_tampered_artifact_are_made_anew() {
    let (_upstreams, upstream, first) = upstream();
    let (volume, mut role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    volume.ask(&asked).unwrap();
    let held = good(&volume, &source, "app", &first).await.unwrap();

    // Every object of the mirror becomes unreadable.
    let mirror = volume.layout().served.mirror(&source.name());
    spoil(&mirror.join("objects"));
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    asked.refresh = "1".into();
    volume.ask(&asked).unwrap();
    content(&volume, &held.artifact).unwrap();
    let good_now = good(&volume, &source, "app", &second).await.unwrap();

    // The reconciler reports an artifact that isn't what its name says.
    let path = volume.layout().served.artifact(&good_now.artifact);
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    fs::write(&path, "tampered").unwrap();
    content(&volume, &good_now.artifact).unwrap_err();
    asked.wants[0].rejected.insert(good_now.artifact.clone());
    volume.ask(&asked).unwrap();
    until("a whole artifact", LONG, || async {
        Ok(Look::when(
            content(&volume, &good_now.artifact).is_ok(),
            "still tampered",
        ))
    })
    .await
    .unwrap();

    // A lost artifact is made anew after a restart, too.
    fs::remove_file(&path).unwrap();
    role.kill().unwrap();
    role.restart().unwrap();
    until("the artifact to return", LONG, || async {
        Ok(Look::when(
            content(&volume, &good_now.artifact).is_ok(),
            "not there",
        ))
    })
    .await
    .unwrap();
}

fn spoil(folder: &std::path::Path) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            spoil(&path);
        } else {
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640))
                .unwrap();
            fs::write(&path, "spoilt").unwrap();
        }
    }
}

#[tokio::test]
async fn a_second_sidecar_on_the_volume_is_refused_in_words() {
    let (volume, mut role) = start(&Extra::default()).await;
    let refused = sidecar(&volume, &Extra::args(["--lock-wait=1s"]))
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("mirror-sidecar.lock") || refused.contains("another"),
        "{refused}"
    );
    assert!(role.is_running().unwrap());
    role.terminate().unwrap();
    sidecar(&volume, &Extra::default())
        .unwrap()
        .ready()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_full_volume_loses_nothing_and_recovers() {
    let (_upstreams, upstream, first) = upstream();
    let volume = Volume::new().unwrap();
    let served = volume.layout().served.root().to_owned();
    let Some(mount) = mounts::available() else {
        return;
    };
    let full = Mount::Sized {
        path: served,
        bytes: 1024 * 1024,
    };
    let mut role = sidecar(&volume, &Extra::default().inside(mount, full)).unwrap();
    role.ready().await.unwrap();
    // The mount is seen by that process alone: look through its eyes.
    let seen = volume.through(role.pid());
    let source = git(&upstream.file_url());
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    volume.ask(&asked).unwrap();
    let held = good(&seen, &source, "app", &first).await.unwrap();

    upstream
        .write(
            "charts/app/files/large",
            (0..200).flat_map(blob).collect::<Vec<u8>>(),
        )
        .unwrap();
    upstream.push("main", "Grow").unwrap();
    asked.refresh = "1".into();
    volume.ask(&asked).unwrap();
    until("words about the volume", LONG, || async {
        let log = role.log();
        Ok(Look::when(
            log.contains("No space left") || log.to_lowercase().contains("full"),
            log,
        ))
    })
    .await
    .unwrap();
    content(&seen, &held.artifact).unwrap();
    assert!(role.is_running().unwrap());

    // Upstream shrinks again: nothing has to be restarted or removed by hand.
    upstream
        .run(&["rm", "--quiet", "charts/app/files/large"])
        .unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "small"))
        .unwrap();
    let third = upstream.push_orphan("main", "Shrink").unwrap();
    asked.refresh = "2".into();
    volume.ask(&asked).unwrap();
    good(&seen, &source, "app", &third).await.unwrap();
}
