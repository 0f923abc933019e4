//! Charts of Helm repositories, asked for by hand: packed and indexed by the real helm.

use std::fmt::Write;

use tandem_shared::credentials;
use tandem_shared::manifest::{Good, Manifest, Reason, SourceState};
use tandem_shared::request::Request;
use tandem_shared::source::{CredentialRef, Source};
use tandem_tests::git::{HttpServer, Scheme, Upstreams};
use tandem_tests::helm_repository::HelmRepository;
use tandem_tests::pair::Extra;
use tandem_tests::procfs;
use tandem_tests::registry::{Access, Registry};
use tandem_tests::requests::{content, failure, helm, manifest, problem, request, version};
use tandem_tests::volume::Volume;
use tandem_tests::wait::{LONG, Look, until};

use crate::common::{Neighbour, start};

fn server(scheme: Scheme) -> HttpServer {
    HttpServer::start(&Upstreams::new().unwrap(), scheme).unwrap()
}

/// Asks again, and waits until that was answered, well or badly.
async fn again(volume: &Volume, asked: &mut Request, why: &str) -> Manifest {
    asked.refresh = why.to_owned();
    volume.ask(asked).unwrap();
    manifest(volume, &asked.source, why, |one| one.handled_refresh == why)
        .await
        .unwrap()
}

/// Waits for a want in that version, without a problem.
async fn in_version(volume: &Volume, source: &Source, key: &str, wanted: &str) -> Good {
    let is = |manifest: &Manifest| {
        let result = manifest.results.get(key)?;
        let good = result.good.clone().filter(|_| result.problem.is_none())?;
        (good.version.as_deref() == Some(wanted)).then_some(good)
    };
    let found = manifest(volume, source, wanted, |one| is(one).is_some()).await;
    is(&found.unwrap()).unwrap()
}

/// What was asked for since the last look: the path's end, the status and the bytes of each.
fn asked_for(server: &HttpServer) -> Vec<(String, u16, usize)> {
    let requests = server.requests();
    server.clear();
    requests
        .into_iter()
        .map(|one| {
            let end = one.path.rsplit('/').next().unwrap_or_default().to_owned();
            (end, one.status.unwrap_or_default(), one.answered)
        })
        .collect()
}

#[tokio::test]
async fn a_range_follows_a_repository_that_helm_made() {
    let server = server(Scheme::Http);
    let repository = HelmRepository::new(&server, "charts").unwrap();
    repository.publish("app", "1.0.0", "one").unwrap();
    repository.publish("other", "1.0.0", "other").unwrap();
    let (volume, mut role) = start(&Extra::default()).await;
    let source = helm(&repository.url());
    let mut asked = request(&source, [version("app", "app", "^1")]);
    volume.ask(&asked).unwrap();
    let first = in_version(&volume, &source, "app", "1.0.0").await;
    let files = content(&volume, &first.artifact).unwrap();
    assert!(files["templates/cm.yaml"].contains("marker: one"));
    assert!(files["Chart.yaml"].contains("version: 1.0.0"));
    let sum = sha256(&repository.archive("app", "1.0.0").unwrap());
    assert_eq!(first.upstream_digest, Some(format!("sha256:{sum}")));
    let paths: Vec<String> = asked_for(&server).into_iter().map(|one| one.0).collect();
    assert_eq!(paths, ["index.yaml", "app-1.0.0.tgz"]);

    // Nothing new: a question that costs no body.
    again(&volume, &mut asked, "nothing new").await;
    assert_eq!(asked_for(&server), [("index.yaml".to_owned(), 304, 0)]);

    // Newer versions that don't fit, and another chart, move nothing.
    for (chart, newer) in [("app", "2.0.0"), ("app", "1.1.0-rc.1"), ("other", "1.1.0")] {
        repository.publish(chart, newer, "not wanted").unwrap();
    }
    let same = again(&volume, &mut asked, "what doesn't fit").await;
    assert_eq!(same.results["app"].good.as_ref(), Some(&first));
    repository.publish("app", "1.10.0", "two").unwrap();
    again(&volume, &mut asked, "newer").await;
    let second = in_version(&volume, &source, "app", "1.10.0").await;
    assert_ne!(second.artifact, first.artifact);

    // Published again with another content, it is followed.
    repository.publish("app", "1.10.0", "two again").unwrap();
    let followed = again(&volume, &mut asked, "published again").await;
    let third = followed.results["app"].good.clone().unwrap();
    let files = content(&volume, &third.artifact).unwrap();
    assert!(files["templates/cm.yaml"].contains("marker: two again"));

    // Withdrawn: nothing moves back, and the manifest says why.
    repository.withdraw("app", "1.10.0").unwrap();
    let gone = again(&volume, &mut asked, "withdrawn").await;
    assert_eq!(gone.results["app"].good.as_ref(), Some(&third));
    let told = problem(&volume, &source, "app", &Reason::VersionNotFound)
        .await
        .unwrap();
    assert!(told.contains("1.10.0") && told.contains("1.0.0"), "{told}");
    content(&volume, &third.artifact).unwrap();

    // A successor goes on with what lies on the volume.
    asked_for(&server);
    role.terminate().unwrap();
    role.restart().unwrap();
    let after = again(&volume, &mut asked, "after a restart").await;
    let results = |manifest: &Manifest| -> Vec<_> {
        let results = manifest.results.values().cloned();
        results.map(|one| (one.good, one.problem)).collect()
    };
    assert_eq!(results(&after), results(&gone));
    let traffic = asked_for(&server);
    assert!(!traffic.is_empty());
    for (file, status, bytes) in traffic {
        assert_eq!((file.as_str(), status, bytes), ("index.yaml", 304, 0));
    }
    let metrics = role.metrics().await.unwrap();
    let unchanged = [("kind", "index"), ("outcome", "unchanged")];
    assert!(metrics.sum("tandem_mirror_exchanges_total", &unchanged) >= 1.0);
}

fn sha256(content: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    data_encoding::HEXLOWER.encode(&Sha256::digest(content))
}

#[tokio::test]
async fn an_index_may_lead_into_a_registry_which_is_asked_as_anybody_may() {
    let registry = Registry::start(Access::Token).unwrap();
    for (path, version) in [("public/charts", "1.0.0"), ("charts", "1.1.0")] {
        registry.push(path, "app", version, version).unwrap();
    }
    let server = server(Scheme::Http);
    let repository = HelmRepository::new(&server, "charts").unwrap();
    let list = |version: &str, path: &str, digest: &str| {
        let url = registry.url(&format!("{path}/app:{version}"));
        repository.put(
            "index.yaml",
            format!("apiVersion: v1\nentries:\n  app: [{{version: {version}, urls: ['{url}'], digest: '{digest}'}}]\n"),
        );
    };
    list("1.0.0", "public/charts", "");
    let plain = format!("--plain-http-registries={}", registry.host());
    let (volume, _role) = start(&Extra::args([plain])).await;
    let source = helm(&repository.url());
    let mut asked = request(&source, [version("app", "app", "^1")]);
    volume.ask(&asked).unwrap();
    let good = in_version(&volume, &source, "app", "1.0.0").await;
    let files = content(&volume, &good.artifact).unwrap();
    assert!(files["templates/cm.yaml"].contains("marker: 1.0.0"));

    for (version, path, digest, reason) in [
        ("1.1.0", "charts", "", Reason::AuthenticationFailed),
        ("1.0.1", "public/charts", "", Reason::VersionNotFound),
        ("1.0.0+x", "public/charts", "", Reason::VersionNotFound),
    ] {
        list(version, path, digest);
        let told = again(&volume, &mut asked, version).await;
        assert_eq!(told.results["app"].good.as_ref(), Some(&good));
        problem(&volume, &source, "app", &reason).await.unwrap();
    }
    list("1.0.0", "public/charts", &"0".repeat(64));
    again(&volume, &mut asked, "another digest").await;
    let told = problem(&volume, &source, "app", &Reason::DigestMismatch).await;
    assert!(told.unwrap().contains("oci://"));
}

#[tokio::test]
async fn a_private_repository_is_opened_by_its_credential_alone() {
    let private = server(Scheme::Https);
    let repository = HelmRepository::new(&private, "charts").unwrap();
    repository.publish("app", "1.0.0", "one").unwrap();
    let login = |password: &str| Some(("ada".to_owned(), password.to_owned()));
    private.set(|knobs| knobs.login = login("s3cret-one"));
    let (volume, role) = start(&Extra::default()).await;
    let store = credentials::Store::open(&volume.credentials()).unwrap();
    let secret = CredentialRef {
        namespace: "demo".into(),
        name: "charts".into(),
    };
    let ca = std::fs::read(private.authority()).unwrap();
    let put = |password: &str| {
        let values = [
            ("username".to_owned(), b"ada".to_vec()),
            ("password".to_owned(), password.as_bytes().to_vec()),
            ("ca.crt".to_owned(), ca.clone()),
        ];
        store.put(&secret, &values.into()).unwrap()
    };
    let mut source = helm(&repository.url());
    source.credential = Some(secret.clone());
    let mut asked = request(&source, [version("app", "app", "1.x")]);
    asked.credential_id = Some(put("s3cret-one"));
    volume.ask(&asked).unwrap();
    let first = in_version(&volume, &source, "app", "1.0.0").await;

    // Rotated on the server first: what was good stays, and the reason is said.
    private.set(|knobs| knobs.login = login("s3cret-two"));
    repository.publish("app", "1.1.0", "two").unwrap();
    let failing = again(&volume, &mut asked, "rotated").await;
    assert_eq!(failing.state, SourceState::Failing);
    assert_eq!(failing.results["app"].good.as_ref(), Some(&first));
    let told = failure(&volume, &source, &[Reason::AuthenticationFailed])
        .await
        .unwrap();
    assert!(told.contains(&repository.url()), "{told}");
    asked.credential_id = Some(put("s3cret-two"));
    volume.ask(&asked).unwrap();
    in_version(&volume, &source, "app", "1.1.0").await;

    // An archive that the index has elsewhere is asked for without the credential, and not
    // trusted with anything.
    let elsewhere = server(Scheme::Http);
    let other = HelmRepository::new(&elsewhere, "mirror").unwrap();
    other.publish("app", "1.2.0", "three").unwrap();
    let index = other.index_text().unwrap().replace(
        "- app-1.2.0.tgz",
        &format!("- {}/app-1.2.0.tgz", other.url()),
    );
    repository.put("index.yaml", index);
    again(&volume, &mut asked, "elsewhere").await;
    in_version(&volume, &source, "app", "1.2.0").await;
    let sent = elsewhere.requests();
    assert!(
        !sent.is_empty() && sent.iter().all(|one| one.authorization.is_none()),
        "{sent:?}"
    );

    for password in ["s3cret-one", "s3cret-two"] {
        assert!(volume.find(password).unwrap().is_empty());
        assert!(!role.log().contains(password));
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown_to_its_repository_and_not_where_an_index_leads() {
    let upstreams = Upstreams::new().unwrap();
    let private = HttpServer::start(&upstreams, Scheme::Mutual).unwrap();
    let repository = HelmRepository::new(&private, "charts").unwrap();
    repository.publish("app", "1.0.0", "one").unwrap();
    let (volume, role) = start(&Extra::default()).await;
    let store = credentials::Store::open(&volume.credentials()).unwrap();
    let secret = CredentialRef {
        namespace: "demo".into(),
        name: "charts".into(),
    };
    let authority = std::fs::read_to_string(private.authority()).unwrap();
    let client = private.client().unwrap();
    let put = |values: &[(&str, &str)]| {
        let values = values
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
        store.put(&secret, &values.collect()).unwrap()
    };
    let mut source = helm(&repository.url());
    source.credential = Some(secret.clone());
    let mut asked = request(&source, [version("app", "app", "1.x")]);
    // Without it nobody is let in.
    let trusting = ("ca.crt", authority.as_str());
    asked.credential_id = Some(put(&[trusting]));
    volume.ask(&asked).unwrap();
    let told = failure(&volume, &source, &[Reason::AuthenticationFailed])
        .await
        .unwrap();
    assert!(told.contains("tls.crt"), "{told}");
    assert!(private.requests().is_empty());
    let proof = [
        trusting,
        ("tls.crt", client.certificate.as_str()),
        ("tls.key", client.key.as_str()),
    ];
    asked.credential_id = Some(put(&proof));
    volume.ask(&asked).unwrap();
    let first = in_version(&volume, &source, "app", "1.0.0").await;

    // Another host that would let it in, which a newer index names for its archive. It is
    // trusted, too, and isn't shown it.
    let other = private.beside(&upstreams).unwrap();
    let elsewhere = HelmRepository::new(&other, "mirror").unwrap();
    elsewhere.publish("app", "1.1.0", "two").unwrap();
    let newer = elsewhere.index_text().unwrap().replace(
        "- app-1.1.0.tgz",
        &format!("- {}/app-1.1.0.tgz", elsewhere.url()),
    );
    repository.put("index.yaml", newer);
    let refused = again(&volume, &mut asked, "elsewhere").await;
    let result = &refused.results["app"];
    assert_eq!(result.good.as_ref(), Some(&first));
    let told = &result.problem.as_ref().unwrap().message;
    assert!(told.contains(&other.base()), "{told}");
    assert!(other.requests().is_empty());
    // Its own archives come.
    repository.publish("app", "1.2.0", "three").unwrap();
    again(&volume, &mut asked, "its own").await;
    in_version(&volume, &source, "app", "1.2.0").await;

    let line = client.key.lines().nth(1).unwrap();
    assert!(volume.find(line).unwrap().is_empty());
    assert!(!role.log().contains(line));
}

#[tokio::test]
async fn whatever_goes_wrong_keeps_what_was_good_and_says_so() {
    let server = server(Scheme::Http);
    let repository = HelmRepository::new(&server, "charts").unwrap();
    repository.publish("app", "1.0.0", "one").unwrap();
    repository.publish("other", "0.1.0", "one").unwrap();
    let (volume, mut role) = start(&Extra::default()).await;
    let source = helm(&repository.url());
    let wants = [version("app", "app", "1.x"), version("other", "other", "*")];
    let mut asked = request(&source, wants);
    asked.timeout_seconds = 2;
    volume.ask(&asked).unwrap();
    let first = in_version(&volume, &source, "app", "1.0.0").await;
    in_version(&volume, &source, "other", "0.1.0").await;

    server.set(|knobs| knobs.status = Some(503));
    again(&volume, &mut asked, "out of order").await;
    let told = failure(&volume, &source, &[Reason::Remote]).await.unwrap();
    assert!(
        told.contains("503") && told.contains(&repository.url()),
        "{told}"
    );
    server.set(|knobs| {
        knobs.status = None;
        knobs.stall = true;
    });
    again(&volume, &mut asked, "silent").await;
    failure(&volume, &source, &[Reason::Timeout]).await.unwrap();
    server.set(|knobs| knobs.stall = false);
    repository.put("index.yaml", "<!DOCTYPE html><title>Log in</title>");
    again(&volume, &mut asked, "a login page").await;
    let told = failure(&volume, &source, &[Reason::InvalidFile])
        .await
        .unwrap();
    assert!(told.contains("no index"), "{told}");
    let failing = volume.manifest(&source).unwrap().unwrap();
    assert_eq!(failing.results["app"].good.as_ref(), Some(&first));
    content(&volume, &first.artifact).unwrap();

    // It mends itself, and one archive that isn't what the index says stops nobody else.
    repository.publish("app", "1.1.0", "two").unwrap();
    repository.publish("other", "0.2.0", "two").unwrap();
    let good = repository.archive("app", "1.1.0").unwrap();
    repository.put("app-1.1.0.tgz", repository.archive("app", "1.0.0").unwrap());
    let mixed = again(&volume, &mut asked, "another archive").await;
    in_version(&volume, &source, "other", "0.2.0").await;
    assert_eq!(mixed.results["app"].good.as_ref(), Some(&first));
    let told = problem(&volume, &source, "app", &Reason::DigestMismatch)
        .await
        .unwrap();
    assert!(
        told.contains("app-1.1.0.tgz") && told.contains(&sha256(&good)),
        "{told}"
    );
    // The archive follows its index, and nobody has to ask for that.
    repository.put("app-1.1.0.tgz", good);
    in_version(&volume, &source, "app", "1.1.0").await;

    // Not there at all.
    for (key, chart, wanted, reason, said) in [
        ("a", "apq", "1.x", Reason::ChartNotFound, "apq"),
        ("b", "app", "3.x", Reason::VersionNotFound, "1.1.0, 1.0.0"),
        ("c", "app", "newest", Reason::InvalidVersion, "newest"),
    ] {
        asked.wants.push(version(key, chart, wanted));
        volume.ask(&asked).unwrap();
        let told = problem(&volume, &source, key, &reason).await.unwrap();
        assert!(told.contains(said), "{told}");
    }
    assert!(role.is_running().unwrap());
}

#[tokio::test]
async fn a_repository_that_nothing_asks_for_leaves_nothing() {
    let server = server(Scheme::Http);
    let repository = HelmRepository::new(&server, "charts").unwrap();
    repository.publish("app", "1.0.0", "one").unwrap();
    let (volume, _role) = start(&Extra::args(["--grace=1s", "--rescan-interval=1s"])).await;
    let source = helm(&repository.url());
    volume
        .ask(&request(&source, [version("app", "app", "*")]))
        .unwrap();
    in_version(&volume, &source, "app", "1.0.0").await;
    let folder = volume.layout().served.repository(&source.name());
    assert!(folder.join("index.yaml").is_file());
    volume.withdraw(&source).unwrap();
    until("index, manifest and artifact to go", LONG, || async {
        let left = (
            folder.exists(),
            volume.manifests()?.len(),
            volume.artifacts()?.len(),
        );
        Ok(Look::when(left == (false, 0, 0), format!("{left:?}")))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_large_index_costs_little_memory() {
    let server = server(Scheme::Http);
    let repository = HelmRepository::new(&server, "charts").unwrap();
    repository.publish("app", "1.0.0", "one").unwrap();
    let (volume, role) = start(&Extra::default()).await;
    let source = helm(&repository.url());
    let mut asked = request(&source, [version("app", "app", "*")]);
    volume.ask(&asked).unwrap();
    in_version(&volume, &source, "app", "1.0.0").await;
    let before = procfs::memory(role.pid(), "VmHWM").unwrap();

    // Between its own chart, as helm wrote it, and its end there are thousands of others.
    repository.publish("app", "1.1.0", "two").unwrap();
    let small = repository.index_text().unwrap();
    let (begin, end) = small.split_once("generated:").unwrap();
    let mut large = begin.to_owned();
    for chart in 0..60 {
        writeln!(large, "  chart-{chart}:").unwrap();
        for minor in 0..100 {
            let text = "a chart for a server of things, ".repeat(20);
            write!(large, "  - apiVersion: v2\n    created: \"2024-05-01T10:11:12Z\"\n    description: {text}\n    digest: {}\n    keywords: [a, b]\n    name: chart-{chart}\n    urls:\n    - chart-{chart}-1.{minor}.0.tgz\n    version: 1.{minor}.0\n", "ab".repeat(32)).unwrap();
        }
    }
    assert!(large.len() > 4 << 20, "{}", large.len());
    repository.put("index.yaml", format!("{large}generated:{end}"));
    again(&volume, &mut asked, "large").await;
    in_version(&volume, &source, "app", "1.1.0").await;
    let grown = procfs::memory(role.pid(), "VmHWM").unwrap() - before;
    assert!(
        grown < 2 << 20,
        "{grown} bytes for an index of {}",
        large.len()
    );
}

#[tokio::test]
async fn a_silent_server_of_archives_is_waited_for_once_and_takes_nobodys_place() {
    let upstreams = Upstreams::new().unwrap();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let mut neighbour = Neighbour::new(&upstreams);
    let repository = HelmRepository::new(&server, "charts").unwrap();
    repository.publish("app", "1.0.0", "one").unwrap();
    repository.publish("other", "1.0.0", "one").unwrap();
    server.set(|knobs| knobs.stall_only = Some(".tgz".to_owned()));
    let (volume, _role) = start(&Extra::args(["--max-concurrent=1"])).await;
    let source = helm(&repository.url());
    let wants = [version("app", "app", "^1"), version("other", "other", "^1")];
    let mut asked = request(&source, wants);
    asked.timeout_seconds = 5;
    asked.refresh = "hangs".to_owned();
    volume.ask(&asked).unwrap();
    let told = manifest(&volume, &source, "both tried", |one| {
        one.handled_refresh == "hangs"
    })
    .await
    .unwrap();
    let message = |key: &str| &told.results[key].problem.as_ref().unwrap().message;
    assert!(message("app").contains("within 5 s"), "{}", message("app"));
    let second = message("other");
    assert!(second.contains("for another chart"), "{second}");

    // While one waits, whoever has work goes on.
    asked.timeout_seconds = 600;
    asked.refresh = "hangs longer".to_owned();
    server.clear();
    volume.ask(&asked).unwrap();
    server.stalled().await.unwrap();
    neighbour.goes_on(&volume).await;
    server.set(|knobs| knobs.stall_only = None);
    in_version(&volume, &source, "app", "1.0.0").await;
    in_version(&volume, &source, "other", "1.0.0").await;
}
