#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::fs;
use std::sync::{Arc, Mutex};

use tandem_shared::manifest::{Reason, SourceState};
use tandem_shared::request::WantKind;
use tandem_shared::source::SourceKind;

use crate::testing::server::{Server, ok, status};
use crate::testing::{Sidecar, chart, good, reason, want};

const KEY: &str = "-:values.yaml";

fn sidecar(url: &str) -> Sidecar {
    let mut sidecar = Sidecar::new(url, vec![want(WantKind::File, None, "values.yaml")]);
    sidecar.request.source.kind = SourceKind::Http;
    sidecar
}

/// A server with an ETag whose one file a test may change or take away.
fn changing() -> (Server, Arc<Mutex<Option<&'static str>>>) {
    let text = Arc::new(Mutex::new(Some("a: 1\n")));
    let now = Arc::clone(&text);
    let server = Server::start(move |request| match *now.lock().unwrap() {
        None => status("404 Not Found", "", b""),
        Some(text) if request.contains(&format!("if-none-match: \"{}\"", text.trim())) => {
            status("304 Not Modified", "", b"")
        }
        Some(text) => ok(&format!("etag: \"{}\"\r\n", text.trim()), text.as_bytes()),
    });
    (server, text)
}

fn exchanges(sidecar: &Sidecar, outcome: &str) -> u64 {
    let text = sidecar.context.metrics.text().unwrap();
    let line = format!("tandem_mirror_exchanges_total{{kind=\"get\",outcome=\"{outcome}\"}} ");
    let found = text.lines().find_map(|found| found.strip_prefix(&line));
    found.map_or(0, |count| count.parse().unwrap())
}

#[test]
fn a_file_is_served_and_follows_its_url() {
    let (server, text) = changing();
    let mut sidecar = sidecar(&server.url("/values.yaml"));
    let first = sidecar.poll();
    assert_eq!(first.state, SourceState::Ready);
    let content = sidecar.content(good(&first, KEY));
    assert_eq!(content["values.yaml"], "a: 1\n");
    assert_eq!(content.len(), 1);

    // Nothing changed: a 304, and nothing is written.
    for _ in 0..3 {
        assert!(sidecar.check(true).exchanged);
    }
    assert_eq!(sidecar.manifest(), first);
    assert_eq!(exchanges(&sidecar, "unchanged"), 3);
    // Nobody asks: nothing at all.
    assert!(!sidecar.check(false).exchanged);
    assert_eq!(server.asked().len(), 4);

    // The same after a restart, which remembers no tag: the artifact stays.
    sidecar.restart();
    sidecar.check(true);
    assert_eq!(good(&sidecar.manifest(), KEY), good(&first, KEY));

    *text.lock().unwrap() = Some("a: 2\n");
    sidecar.request.refresh = "now".into();
    assert!(sidecar.check(false).exchanged);
    let second = sidecar.manifest();
    assert_eq!(second.handled_refresh, "now");
    assert_eq!(sidecar.content(good(&second, KEY))["values.yaml"], "a: 2\n");
}

#[test]
fn what_was_good_stays_beside_the_failure_and_comes_back_by_itself() {
    let (server, text) = changing();
    let mut sidecar = sidecar(&server.url("/values.yaml?token=secret-token"));
    let first = sidecar.poll();
    *text.lock().unwrap() = None;
    let failing = sidecar.poll();
    assert_eq!(failing.state, SourceState::Failing);
    let failure = failing.failure.as_ref().unwrap();
    assert_eq!(failure.reason, Reason::PathNotFound);
    assert!(failure.message.contains("/values.yaml"), "{failure:?}");
    assert!(failure.message.contains("404"), "{failure:?}");
    assert_eq!(good(&failing, KEY), good(&first, KEY));
    *text.lock().unwrap() = Some("a: 2\n");
    // A look is enough: a source that fails is asked at every one.
    sidecar.check(false);
    let again = sidecar.manifest();
    assert_eq!((again.state, again.failure), (SourceState::Ready, None));
}

#[test]
fn a_lost_or_rejected_artifact_is_got_again() {
    let (server, _) = changing();
    let mut sidecar = sidecar(&server.url("/values.yaml"));
    let first = sidecar.poll();
    let digest = good(&first, KEY).artifact.clone();
    let path = sidecar.context.config.volume.served.artifact(&digest);
    fs::remove_file(&path).unwrap();
    sidecar.check(false);
    assert!(path.exists());
    // As long, and something else.
    let size = fs::metadata(&path).unwrap().len();
    fs::write(&path, vec![b'x'; usize::try_from(size).unwrap()]).unwrap();
    sidecar.request.wants[0].rejected.insert(digest);
    sidecar.check(false);
    assert_eq!(
        sidecar.content(good(&sidecar.manifest(), KEY))["values.yaml"],
        "a: 1\n"
    );
    // One that was rejected wrongly is believed, once.
    let asked = server.asked().len();
    sidecar.check(false);
    assert_eq!(server.asked().len(), asked);
}

#[test]
fn secrets_of_the_url_are_in_no_file_but_the_request() {
    let server = Server::start(|request| {
        // me:s3cr+t
        if request.contains("authorization: Basic bWU6czNjcit0") {
            ok("", b"a: 1")
        } else {
            status("401 Unauthorized", "", b"")
        }
    });
    let url = format!("http://me:s3cr+t@{}/values.yaml?token=t0ken", server.host());
    let mut sidecar = sidecar(&url);
    let manifest = sidecar.poll();
    assert_eq!(sidecar.content(good(&manifest, KEY))["values.yaml"], "a: 1");
    let wrong = url.replace("s3cr+t", "wr0ng");
    let mut refused = self::sidecar(&wrong);
    let failing = refused.poll();
    let failure = failing.failure.as_ref().unwrap();
    assert_eq!(failure.reason, Reason::AuthenticationFailed);
    assert!(failure.message.contains("user:password@"), "{failure:?}");
    for manifest in [manifest, failing] {
        let text = serde_json::to_string(&manifest).unwrap();
        for secret in ["s3cr+t", "wr0ng", "t0ken"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[test]
fn what_is_no_text_is_no_values_file() {
    let server = Server::start(|request| match request.contains("/packed") {
        true => ok("content-encoding: gzip\r\n", b"a: 1"),
        false => ok("", b"a: \xff"),
    });
    for path in ["/binary", "/packed"] {
        let failure = sidecar(&server.url(path)).poll().failure.unwrap();
        assert_eq!(failure.reason, Reason::InvalidFile, "{path}: {failure:?}");
    }
}

#[test]
fn what_no_url_gives_is_refused_alone() {
    let server = Server::of("a: 1");
    let mut sidecar = sidecar(&server.url("/values.yaml"));
    sidecar.request.wants.push(chart("main", "charts/a"));
    sidecar.request.wants.push(want(WantKind::File, None, ".."));
    let manifest = sidecar.poll();
    good(&manifest, KEY);
    assert_eq!(reason(&manifest, "main:charts/a"), Reason::Unsupported);
    assert_eq!(reason(&manifest, "-:.."), Reason::InvalidPath);
}

#[test]
fn schemes_are_those_of_the_allow_list() {
    let server = Server::of("a: 1");
    let mut sidecar = Sidecar::with_arguments(
        &server.url("/values.yaml"),
        vec![want(WantKind::File, None, "values.yaml")],
        &["--schemes=https"],
    );
    sidecar.request.source.kind = SourceKind::Http;
    let failure = sidecar.poll().failure.unwrap();
    assert_eq!(failure.reason, Reason::InvalidUrl);
    assert!(failure.message.contains("https"), "{failure:?}");
    assert!(server.asked().is_empty());
}
