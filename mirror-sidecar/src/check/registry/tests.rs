#![allow(clippy::unwrap_used)]

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tandem_shared::manifest::{Reason, SourceState};
use tandem_shared::request::{Want, WantKind};
use tandem_shared::source::SourceKind;

use crate::testing::server::{Reply, Server, ok, status};
use crate::testing::{Sidecar, good, packed, problem, want};

fn digest(content: &[u8]) -> String {
    let hex = data_encoding::HEXLOWER.encode(&Sha256::digest(content));
    format!("sha256:{hex}")
}

/// A registry with all charts in version 1.0.0, that shows those called `private-…` to nobody.
fn partly_private() -> Server {
    Server::start(|request| {
        let path = request.split(' ').nth(1).unwrap();
        let rest = path.strip_prefix("/v2/charts/").unwrap();
        let (name, rest) = rest.split_once('/').unwrap();
        if name.starts_with("private-") {
            let challenge = "www-authenticate: Basic realm=\"charts\"\r\n";
            return status("401 Unauthorized", challenge, b"{}");
        }
        chart(name, rest)
    })
}

fn chart(name: &str, asked: &str) -> Reply {
    let archive = packed(name, "1.0.0", "one");
    let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    let manifest = json!({
        "schemaVersion": 2,
        "config": {"mediaType": "application/vnd.cncf.helm.config.v1+json", "digest": digest(b"{}"), "size": 2},
        "layers": [{"mediaType": layer, "digest": digest(&archive), "size": archive.len()}],
    })
    .to_string();
    let told = format!("docker-content-digest: {}\r\n", digest(manifest.as_bytes()));
    match asked.split_once('/').unwrap() {
        ("manifests", "1.0.0") => ok(&told, b""),
        ("manifests", _) => ok(&told, manifest.as_bytes()),
        _ => ok("", &archive),
    }
}

fn sidecar(server: &Server, user: &str, charts: &[&str]) -> Sidecar {
    let url = format!("oci://{user}{}/charts", server.host());
    let wants = charts.iter().map(|name| {
        let mut want = want(WantKind::Chart, None, name);
        want.spec.version = Some("1.0.0".to_owned());
        want.key = (*name).to_owned();
        want
    });
    let wants: Vec<Want> = wants.collect();
    let plain = ["--plain-http-registries", &server.host()];
    let mut sidecar = Sidecar::with_arguments(&url, wants, &plain);
    sidecar.request.source.kind = SourceKind::Oci;
    sidecar
}

#[test]
fn a_chart_that_wants_a_login_stops_none_that_wants_none() {
    let server = partly_private();
    for (user, told) in [("", "chartPullSecret"), ("me:wr0ng@", "refuses")] {
        let all = ["private-a", "private-b", "web"];
        let mut sidecar = sidecar(&server, user, &all);
        let manifest = sidecar.poll();
        assert_eq!(manifest.state, SourceState::Ready);
        good(&manifest, "web");
        for name in &all[..2] {
            let problem = problem(&manifest, name);
            assert_eq!(problem.reason, Reason::AuthenticationFailed);
            assert!(problem.message.contains(told), "{}", problem.message);
            assert!(!problem.message.contains("wr0ng"));
        }
    }
}

#[test]
fn a_refused_password_is_shown_three_times_at_most() {
    let server = partly_private();
    let all = ["private-a", "private-b", "private-c", "private-d"];
    let mut sidecar = sidecar(&server, "me:wr0ng@", &all);
    sidecar.check(true);
    let failure = sidecar.manifest().failure.unwrap();
    assert_eq!(failure.reason, Reason::AuthenticationFailed);
    let shown = |request: &&String| request.contains("authorization: Basic");
    assert_eq!(server.asked().iter().filter(shown).count(), 3);
}
