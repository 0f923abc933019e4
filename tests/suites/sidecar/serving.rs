//! Where charts come from, and what is in them.

use tandem_shared::credentials;
use tandem_shared::manifest::{Reason, SourceState};
use tandem_shared::source::CredentialRef;
use tandem_tests::charts;
use tandem_tests::git::{GitDaemon, HttpServer, Scheme, SshServer};
use tandem_tests::pair::Extra;
use tandem_tests::requests::{chart, content, git, good, manifest, request};

use crate::common::{start, upstream};

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
