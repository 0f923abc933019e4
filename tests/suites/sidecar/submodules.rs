//! Submodules of repositories behind real servers.

use tandem_shared::credentials;
use tandem_shared::manifest::Reason;
use tandem_shared::request::Want;
use tandem_shared::source::CredentialRef;
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme, Upstream, Upstreams};
use tandem_tests::pair::Extra;
use tandem_tests::requests::{chart, content, git, good, problem, request};

use crate::common::start;

fn following(key: &str, path: &str) -> Want {
    let mut want = chart(key, "main", path);
    want.spec.submodules = true;
    want
}

/// A repository of one chart.
fn library(upstreams: &Upstreams, name: &str, marker: &str) -> (Upstream, String) {
    let upstream = upstreams.create(name).unwrap();
    let files = charts::config_map("app", marker);
    upstream.write_all(&files).unwrap();
    let commit = upstream.push("main", marker).unwrap();
    (upstream, commit)
}

/// A repository with nothing but submodules: path, address, commit. Gives its commit.
fn repository(upstream: &Upstream, submodules: &[(&str, &str, &str)]) -> String {
    let text: String = submodules
        .iter()
        .map(|(path, url, _)| format!("[submodule \"{path}\"]\n\tpath = {path}\n\turl = {url}\n"))
        .collect();
    upstream.write(".gitmodules", text).unwrap();
    upstream.run(&["add", "--all"]).unwrap();
    for (path, _, commit) in submodules {
        let entry = format!("160000,{commit},{path}");
        let args = ["update-index", "--add", "--cacheinfo", &entry];
        upstream.run(&args).unwrap();
    }
    let args = ["commit", "--quiet", "--message", "submodules"];
    upstream.run(&args).unwrap();
    let args = ["push", "--quiet", "origin", "HEAD:refs/heads/main"];
    upstream.run(&args).unwrap();
    upstream.head().unwrap()
}

#[tokio::test]
async fn a_credential_goes_to_submodules_of_its_own_host_alone() {
    let (home, elsewhere) = (Upstreams::new().unwrap(), Upstreams::new().unwrap());
    let server = HttpServer::start(&home, Scheme::Http).unwrap();
    let login = Some(("ada".to_owned(), "s3cret-one".to_owned()));
    server.set(|knobs| knobs.login = login.clone());
    let other = HttpServer::start(&elsewhere, Scheme::Http).unwrap();
    let (_, here) = library(&home, "here", "here");
    let (_, there) = library(&elsewhere, "there", "there");
    let parent = home.create("parent").unwrap();
    let commit = repository(
        &parent,
        &[
            ("near", "../here.git", &here),
            ("far", &other.url("there"), &there),
        ],
    );
    let (volume, role) = start(&Extra::default()).await;
    let store = credentials::Store::open(&volume.credentials()).unwrap();
    let secret = CredentialRef {
        namespace: "demo".into(),
        name: "git".into(),
    };
    let values = [
        ("username".to_owned(), b"ada".to_vec()),
        ("password".to_owned(), b"s3cret-one".to_vec()),
    ];
    let mut source = git(&server.url("parent"));
    source.credential = Some(secret.clone());
    let wants = [following("near", "near/app"), following("far", "far/app")];
    let mut asked = request(&source, wants);
    asked.credential_id = Some(store.put(&secret, &values.into()).unwrap());
    volume.ask(&asked).unwrap();
    for (key, marker) in [("near", "marker: here"), ("far", "marker: there")] {
        let good = good(&volume, &source, key, &commit).await.unwrap();
        let files = content(&volume, &good.artifact).unwrap();
        assert!(files.values().any(|text| text.contains(marker)), "{key}");
    }
    assert_eq!(volume.mirrors().unwrap().len(), 1, "all in one mirror");
    let requests = other.requests();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|one| one.authorization.is_none()));

    // The other host asks for a password: ours isn't tried, and nothing of it is told.
    other.set(|knobs| knobs.login = login);
    other.clear();
    let (_, hidden) = library(&elsewhere, "hidden", "hidden");
    repository(
        &parent,
        &[
            ("near", "../here.git", &here),
            ("far", &other.url("hidden"), &hidden),
        ],
    );
    asked.refresh = "again".into();
    volume.ask(&asked).unwrap();
    let reason = Reason::AuthenticationFailed;
    let message = problem(&volume, &source, "far", &reason).await.unwrap();
    for word in ["\"far\"", &other.url("hidden")] {
        assert!(message.contains(word), "{message}");
    }
    let requests = other.requests();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|one| one.authorization.is_none()));
    assert!(!message.contains("s3cret") && !role.log().contains("s3cret"));
    assert!(volume.find("s3cret-one").unwrap().is_empty());
}

#[tokio::test]
async fn a_repository_from_elsewhere_leads_to_no_folder_of_this_machine() {
    let upstreams = Upstreams::new().unwrap();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let (library, commit) = library(&upstreams, "here", "here");
    let parent = upstreams.create("parent").unwrap();
    let submodules = [("local", library.file_url()), ("web", server.url("here"))];
    let entries = [
        (submodules[0].0, submodules[0].1.as_str(), commit.as_str()),
        (submodules[1].0, submodules[1].1.as_str(), commit.as_str()),
    ];
    let (volume, _role) = start(&Extra::default()).await;
    let second = repository(&parent, &entries[..1]);
    let source = git(&server.url("parent"));
    let mut asked = request(&source, [following("local", "local/app")]);
    volume.ask(&asked).unwrap();
    let reason = Reason::InvalidUrl;
    let message = problem(&volume, &source, "local", &reason).await.unwrap();
    assert!(message.contains("no folder of this machine"), "{message}");

    // From this machine it may, and over the web all may.
    let local = git(&parent.file_url());
    volume
        .ask(&request(&local, [following("local", "local/app")]))
        .unwrap();
    good(&volume, &local, "local", &second).await.unwrap();
    let third = repository(&parent, &entries);
    asked.wants = vec![following("web", "web/app")];
    asked.refresh = "again".into();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "web", &third).await.unwrap();
}

#[tokio::test]
async fn a_server_that_gives_no_commits_by_id_serves_submodules_too() {
    let upstreams = Upstreams::new().unwrap();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let (library, old) = library(&upstreams, "here", "old");
    let files = charts::config_map("app", "new");
    library.write_all(&files).unwrap();
    library.push("main", "new").unwrap();
    // Behind a plain web server, and so without the protocol that gives anything by its id.
    library.run_bare(&["update-server-info"]).unwrap();
    server.set(|knobs| knobs.dumb = true);
    let parent = upstreams.create("parent").unwrap();
    let commit = repository(&parent, &[("sub", "../here.git", &old)]);
    parent.run_bare(&["update-server-info"]).unwrap();
    let (volume, _role) = start(&Extra::default()).await;
    let source = git(&server.url("parent"));
    volume
        .ask(&request(&source, [following("app", "sub/app")]))
        .unwrap();
    let good = good(&volume, &source, "app", &commit).await.unwrap();
    let files = content(&volume, &good.artifact).unwrap();
    assert!(files.values().any(|text| text.contains("marker: old")));
}
