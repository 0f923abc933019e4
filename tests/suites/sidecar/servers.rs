//! Git servers as they are out there: old, plain, large, moved, behind proxies.

use std::fs;

use tandem_shared::credentials;
use tandem_shared::manifest::Reason;
use tandem_shared::source::{CredentialRef, Source};
use tandem_tests::git::{HttpServer, Knobs, Scheme};
use tandem_tests::pair::Extra;
use tandem_tests::proxy::Proxy;
use tandem_tests::requests::{chart, failure, git, good, manifest, problem, request};
use tandem_tests::volume::Volume;
use tandem_tests::{charts, guard};

use crate::common::{start, upstream};

/// A source with a credential of its own, and that credential's id.
fn with_credential(volume: &Volume, url: &str, values: &[(&str, &str)]) -> (Source, String) {
    let store = credentials::Store::open(&volume.credentials()).unwrap();
    let secret = CredentialRef {
        namespace: "demo".into(),
        name: "git".into(),
    };
    let values = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
        .collect();
    let id = store.put(&secret, &values).unwrap();
    let source = Source {
        credential: Some(secret),
        ..git(url)
    };
    (source, id)
}

#[tokio::test]
async fn servers_that_give_no_commit_by_its_id_serve_all_refs() {
    let (upstreams, upstream, first) = upstream();
    upstream.push_tag("v1.0.0").unwrap();
    let files = charts::config_map("charts/app", "two");
    upstream.write_all(&files).unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    upstream.run_bare(&["update-server-info"]).unwrap();
    let (volume, _role) = start(&Extra::default()).await;
    for plain in [true, false] {
        let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
        server.set(|knobs| (knobs.dumb, knobs.old) = (plain, !plain));
        let source = git(&server.url("charts"));
        let refs = [
            ("branch", "main", &second),
            ("head", "", &second),
            ("tag", "v1.0.0", &first),
            ("range", "semver:^1", &first),
            ("commit", first.as_str(), &first),
            ("short", &first[..9], &first),
        ];
        let wants = refs.map(|(key, reference, _)| chart(key, reference, "charts/app"));
        volume.ask(&request(&source, wants)).unwrap();
        for (key, _, commit) in refs {
            good(&volume, &source, key, commit).await.unwrap();
        }
        let served = volume.manifest(&source).unwrap().unwrap();
        assert_eq!(served.refs["HEAD"].full_name, "refs/heads/main");
        assert_eq!(served.refs["semver:^1"].full_name, "refs/tags/v1.0.0");
    }
}

#[tokio::test]
async fn a_repository_that_lacks_its_own_history_serves_what_it_has() {
    let (upstreams, upstream, _) = upstream();
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    let shallow = upstreams.root().join("shallow.git");
    let to = shallow.display().to_string();
    let from = upstream.file_url();
    upstream
        .run_bare(&["clone", "--quiet", "--bare", "--depth=1", &from, &to])
        .unwrap();
    assert!(shallow.join("shallow").exists());
    let (volume, _role) = start(&Extra::default()).await;
    for old in [false, true] {
        let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
        server.set(|knobs| knobs.old = old);
        let source = git(&server.url("shallow"));
        let head = upstream.head().unwrap();
        let refs = [
            ("branch", "main"),
            ("commit", head.as_str()),
            ("short", &head[..9]),
        ];
        let wants = refs.map(|(key, reference)| chart(key, reference, "charts/app"));
        let mut asked = request(&source, wants);
        volume.ask(&asked).unwrap();
        for (key, _) in refs {
            good(&volume, &source, key, &head).await.unwrap();
        }
        let marker = format!("three, old: {old}");
        upstream
            .write_all(&charts::config_map("charts/app", &marker))
            .unwrap();
        let third = upstream.commit(&marker).unwrap();
        upstream
            .run(&["push", "--quiet", &to, "HEAD:refs/heads/main"])
            .unwrap();
        asked.refresh = "pushed".to_owned();
        volume.ask(&asked).unwrap();
        good(&volume, &source, "branch", &third).await.unwrap();
        good(&volume, &source, "commit", &head).await.unwrap();
    }
    // What lies before is had from nobody, and said to be so.
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let source = git(&server.url("shallow"));
    let first = upstream
        .run(&["rev-parse", &format!("{second}~1")])
        .unwrap();
    let wants = [
        chart("before", first.trim(), "charts/app"),
        chart("app", "main", "charts/app"),
    ];
    volume.ask(&request(&source, wants)).unwrap();
    let head = upstream.head().unwrap();
    good(&volume, &source, "app", &head).await.unwrap();
    let told = problem(&volume, &source, "before", &Reason::RefNotFound)
        .await
        .unwrap();
    assert!(told.contains(first.trim()), "{told}");
}

#[tokio::test]
async fn a_branch_that_the_server_lost_a_part_of_stops_no_other() {
    let (upstreams, upstream, first) = upstream();
    upstream.write("charts/torn/Chart.yaml", "lost").unwrap();
    upstream.push("torn", "Add what is lost").unwrap();
    let tree = upstream.run(&["rev-parse", "HEAD:charts/torn"]).unwrap();
    let (folder, file) = tree.trim().split_at(2);
    let object = upstream.bare().join("objects").join(folder).join(file);
    fs::remove_file(object).unwrap();
    upstream
        .run(&["reset", "--quiet", "--hard", &first])
        .unwrap();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let sources = [git(&server.url("charts")), git(&upstream.file_url())];
    let (volume, _role) = start(&Extra::default()).await;
    let wants = [("torn", "torn"), ("app", "main")];
    let wants = wants.map(|(key, branch)| chart(key, branch, "charts/app"));
    for source in &sources {
        volume.ask(&request(source, wants.clone())).unwrap();
        good(&volume, source, "app", &first).await.unwrap();
        let told = problem(&volume, source, "torn", &Reason::Remote)
            .await
            .unwrap();
        assert!(told.contains(tree.trim()), "{told}");
    }
    // It lies in the mirror only as long as the mirror isn't made anew.
    let mark = |source: &Source| volume.layout().served.mirror(&source.name()).join("mark");
    for source in &sources {
        fs::write(mark(source), "").unwrap();
    }
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    for source in &sources {
        let mut asked = request(source, wants.clone());
        asked.refresh = "pushed".to_owned();
        volume.ask(&asked).unwrap();
        good(&volume, source, "app", &second).await.unwrap();
        assert!(mark(source).exists(), "{}", source.url);
    }
}

#[tokio::test]
async fn refs_that_the_server_never_gives_are_waited_for_and_stop_no_other() {
    let (upstreams, upstream, first) = upstream();
    let mut ids = Vec::new();
    for branch in ["slow-1", "slow-2"] {
        upstream.write("note", branch).unwrap();
        ids.push(upstream.push(branch, branch).unwrap());
    }
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    server.set(|knobs| knobs.stall_wants = ids);
    let (volume, _role) = start(&Extra::default()).await;
    let source = git(&server.url("charts"));
    let slow = ["slow-1", "slow-2"].map(|branch| chart(branch, branch, "charts/app"));
    let mut asked = request(&source, slow.clone());
    asked.timeout_seconds = 3;
    volume.ask(&asked).unwrap();
    // Nothing that is wanted comes, so it is the source that can't be had.
    failure(&volume, &source, &[Reason::Timeout]).await.unwrap();

    asked.wants.push(chart("app", "main", "charts/app"));
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &first).await.unwrap();
    for key in ["slow-1", "slow-2"] {
        problem(&volume, &source, key, &Reason::Timeout)
            .await
            .unwrap();
    }
    manifest(&volume, &source, "a source that is ready", |one| {
        one.failure.is_none()
    })
    .await
    .unwrap();

    server.set(|knobs| knobs.stall_wants.clear());
    let head = |branch: &str| upstream.run_bare(&["rev-parse", branch]);
    for key in ["slow-1", "slow-2"] {
        let commit = head(key).unwrap();
        good(&volume, &source, key, commit.trim()).await.unwrap();
    }
}

#[tokio::test]
async fn of_many_refs_only_those_that_are_wanted_are_asked_for() {
    let (upstreams, upstream, commit) = upstream();
    let mut packed = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    for number in 0..50_000 {
        packed.push_str(&format!("{commit} refs/heads/topic-{number:05}\n"));
    }
    guard::write(&upstream.bare().join("packed-refs"), packed).unwrap();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let source = git(&server.url("charts"));
    let (volume, _role) = start(&Extra::default()).await;
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &commit).await.unwrap();

    server.clear();
    asked.refresh = "again".into();
    volume.ask(&asked).unwrap();
    manifest(&volume, &source, "a poll", |one| {
        one.handled_refresh == "again"
    })
    .await
    .unwrap();
    let requests = server.requests();
    // It is known by now what the server can do, so that isn't asked again.
    let [asked] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    assert_eq!(asked.protocol, "version=2");
    let question = String::from_utf8_lossy(&asked.body);
    assert!(question.contains("command=ls-refs"), "{question}");
    let prefixes: Vec<&str> = question
        .lines()
        .filter_map(|line| line.split("ref-prefix ").nth(1))
        .collect();
    assert_eq!(prefixes, ["refs/heads/main", "refs/main", "refs/tags/main"]);
    let answered: usize = requests.iter().map(|one| one.answered).sum();
    assert!(answered < 2048, "{answered} bytes for an unchanged poll");
}

#[tokio::test]
async fn a_server_that_changes_its_ways_is_still_followed() {
    let (upstreams, upstream, commit) = upstream();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let other = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let source = git(&server.url("charts"));
    let (volume, _role) = start(&Extra::default()).await;
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &commit).await.unwrap();

    let usual = Knobs::default;
    let ways = [
        ("as before", usual()),
        (
            "old",
            Knobs {
                old: true,
                ..usual()
            },
        ),
        ("new", usual()),
        (
            "files",
            Knobs {
                dumb: true,
                ..usual()
            },
        ),
        (
            "moved",
            Knobs {
                redirect: Some(other.base()),
                ..usual()
            },
        ),
    ];
    for (way, knobs) in ways {
        server.set(|now| *now = knobs);
        let files = charts::config_map("charts/app", way);
        upstream.write_all(&files).unwrap();
        let commit = upstream.push("main", way).unwrap();
        upstream.run_bare(&["update-server-info"]).unwrap();
        asked.refresh = way.to_owned();
        volume.ask(&asked).unwrap();
        good(&volume, &source, "app", &commit).await.unwrap();
        manifest(&volume, &source, way, |one| {
            one.failure.is_none() && one.handled_refresh == way
        })
        .await
        .unwrap();
    }
    assert!(!other.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_within_a_host_takes_the_credential_along_and_no_other() {
    let (upstreams, _upstream, commit) = upstream();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let login = Some(("ada".to_owned(), "s3cret-one".to_owned()));
    let moved = Some(("/old".to_owned(), server.base()));
    server.set(|knobs| (knobs.login, knobs.moved) = (login.clone(), moved));
    let (volume, role) = start(&Extra::default()).await;
    let url = format!("{}/old/charts.git", server.base());
    let login_of_ada = [("username", "ada"), ("password", "s3cret-one")];
    let (source, id) = with_credential(&volume, &url, &login_of_ada);
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    asked.credential_id = Some(id);
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &commit).await.unwrap();

    // Another host that asks for a password doesn't get this one.
    let other = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    other.set(|knobs| knobs.login = login);
    server.set(|knobs| knobs.moved = Some(("/old".to_owned(), other.base())));
    asked.refresh = "elsewhere".into();
    volume.ask(&asked).unwrap();
    let refused = [Reason::AuthenticationFailed];
    failure(&volume, &source, &refused).await.unwrap();
    let requests = other.requests();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|one| one.authorization.is_none()));
    // It may be read by everybody: then it is followed.
    other.set(|knobs| knobs.login = None);
    asked.refresh = "open".into();
    volume.ask(&asked).unwrap();
    manifest(&volume, &source, "well again", |one| {
        one.failure.is_none() && one.handled_refresh == "open"
    })
    .await
    .unwrap();
    let requests = other.requests();
    assert!(requests.iter().all(|one| one.authorization.is_none()));

    // git would take a token along to any host. To another one nobody follows, and what to
    // do is said.
    let (mut source, id) = with_credential(&volume, &url, &[("bearerToken", "t0ken-of-mine")]);
    source.credential = Some(CredentialRef {
        namespace: "demo".into(),
        name: "token".into(),
    });
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    asked.credential_id = Some(id);
    server.set(|knobs| (knobs.login, knobs.token) = (None, Some("t0ken-of-mine".to_owned())));
    other.clear();
    volume.ask(&asked).unwrap();
    let told = failure(&volume, &source, &[Reason::Remote]).await.unwrap();
    assert!(told.contains("final"), "{told}");
    assert!(other.requests().is_empty());
    // What has moved within the host is found, at once and at each look.
    server.set(|knobs| knobs.moved = Some(("/old".to_owned(), server.base())));
    for look in ["within", "again"] {
        asked.refresh = look.to_owned();
        volume.ask(&asked).unwrap();
        manifest(&volume, &source, look, |one| {
            one.failure.is_none() && one.handled_refresh == look
        })
        .await
        .unwrap();
    }
    good(&volume, &source, "app", &commit).await.unwrap();
    for secret in ["s3cret-one", "t0ken-of-mine"] {
        assert!(!role.log().contains(secret));
        assert!(volume.find(secret).unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_repository_behind_a_proxy_is_reached_through_it() {
    let (upstreams, _upstream, commit) = upstream();
    let plain = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let secure = HttpServer::start(&upstreams, Scheme::Https).unwrap();
    let named = |server: &HttpServer, name: &str| server.url("charts").replace("127.0.0.1", name);
    let proxy = Proxy::start().unwrap();
    // What the machine itself sets is none of the test's business.
    let none = [
        "http_proxy",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ]
    .into_iter()
    .chain(["no_proxy", "NO_PROXY"])
    .filter(|name| std::env::var_os(name).is_some())
    .fold(Extra::default(), |extra, name| extra.env(name, ""));
    let authority = secure.authority().display().to_string();
    let cases = [
        (
            "http_proxy",
            proxy.http(),
            named(&plain, "git.invalid"),
            "http",
        ),
        (
            "https_proxy",
            proxy.http(),
            named(&secure, "localhost"),
            "connect",
        ),
        (
            "ALL_PROXY",
            proxy.socks(),
            named(&plain, "git.invalid"),
            "socks",
        ),
    ];
    for (variable, value, url, how) in cases {
        let extra = none
            .clone()
            .env(variable, value)
            .env("GIT_SSL_CAINFO", &authority);
        let (volume, _role) = start(&extra).await;
        let source = git(&url);
        volume
            .ask(&request(&source, [chart("app", "main", "charts/app")]))
            .unwrap();
        good(&volume, &source, "app", &commit).await.unwrap();
        let asked = proxy.asked();
        assert!(asked.iter().any(|one| one.starts_with(how)), "{asked:?}");
    }
    // A host that is none of the proxy's business is asked itself.
    let before = proxy.asked().len();
    let extra = none
        .env("http_proxy", proxy.http())
        .env("no_proxy", "127.0.0.1");
    let (volume, _role) = start(&extra).await;
    let source = git(&plain.url("charts"));
    volume
        .ask(&request(&source, [chart("app", "main", "charts/app")]))
        .unwrap();
    good(&volume, &source, "app", &commit).await.unwrap();
    assert_eq!(proxy.asked().len(), before);
}
