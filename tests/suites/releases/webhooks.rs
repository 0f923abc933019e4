//! Pushes that forges tell of.

use std::path::{Path, PathBuf};
use std::time::Instant;

use axum::body::Body;
use axum::http::Request;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::pair::Extra;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;
use tandem_tests::{guard, http_client};

use crate::common::{app, push, upstream};

const SECRET: &str = "s3cret-of-hooks";

/// A pair that polls nothing by itself and receives webhooks, with a secret in a file.
async fn world(name: &str) -> (World, PathBuf) {
    let mut world = World::empty(name).await.unwrap();
    let secret = guard::folder("hooks").unwrap().join("secret");
    std::fs::write(&secret, SECRET).unwrap();
    let args = [
        "--git-poll-interval=24h".to_owned(),
        "--webhook-listen=127.0.0.1:0".to_owned(),
        format!("--webhook-secret-file={}", secret.display()),
    ];
    world
        .start_pair(&Extra::default(), &Extra::args(args))
        .await
        .unwrap();
    (world, secret)
}

fn receivers(world: &World) -> String {
    let log = world.reconciler().unwrap().log();
    let (_, address) = log.rsplit_once("receivers=").unwrap();
    let address = address.split_whitespace().next().unwrap();
    format!("http://{address}/api/v1/webhooks")
}

fn signature(secret: &str, body: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    let code = mac.chain_update(body).finalize().into_bytes();
    let hex: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

async fn deliver(url: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let mut request = Request::post(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let answer = http_client::send(request).await.unwrap();
    let text = String::from_utf8_lossy(answer.body()).into_owned();
    (answer.status().as_u16(), text)
}

/// As GitHub delivers.
async fn github(world: &World, event: &str, secret: &str, body: &Value) -> (u16, String) {
    let body = body.to_string();
    let signature = signature(secret, &body);
    let headers = [
        ("X-GitHub-Event", event),
        ("X-Hub-Signature-256", signature.as_str()),
        ("Content-Type", "application/json"),
    ];
    deliver(&format!("{}/github", receivers(world)), &headers, &body).await
}

fn pushed_to(url: &str) -> Value {
    json!({"ref": "refs/heads/main", "repository": {"clone_url": url, "full_name": "s3cret/name"}})
}

/// The refresh tokens of all requests: what is to be checked at once gets another one.
fn tokens(world: &World) -> Vec<(String, String)> {
    let requests = world.volume.requests().unwrap();
    let tokens = requests.into_iter();
    tokens
        .map(|request| (request.source.url, request.refresh))
        .collect()
}

fn checks(server: &HttpServer, repository: &str) -> usize {
    let requests = server.requests();
    let listings = requests.iter().filter(|request| {
        let asked = String::from_utf8_lossy(&request.body);
        asked.contains("command=ls-refs") && request.path.contains(&format!("/{repository}"))
    });
    listings.count()
}

async fn is_checked(world: &World, url: &str, other_than: &str) -> String {
    let mut last = String::new();
    until(format!("{url} to be checked"), LONG, || async {
        let requests = world.volume.requests()?;
        let request = requests.iter().find(|one| one.source.url == url);
        let token = request.map(|request| request.refresh.clone());
        let handled = match request {
            Some(request) => world.volume.manifest(&request.source)?,
            None => None,
        };
        let handled = handled.map(|manifest| manifest.handled_refresh);
        let done = token == handled && token.as_deref().is_some_and(|now| now != other_than);
        Ok(Look::when(done, format!("{token:?} {handled:?}")))
    })
    .await
    .unwrap();
    for (of, token) in tokens(world) {
        if of == url {
            last = token;
        }
    }
    last
}

#[tokio::test]
async fn a_signed_push_is_released_at_once_and_no_other_source_is_asked() {
    let (world, _) = world("hook-push").await;
    let (charts, first) = upstream(&world, "charts", "one");
    let (_other, _) = upstream(&world, "other", "one");
    let settings = world.upstreams.create("settings").unwrap();
    settings.write("prod.yaml", "a: 1\n").unwrap();
    settings.push("main", "Add prod.yaml").unwrap();
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    let releases = world.releases.clone();
    let mut web = app(&server.url("charts"), "web");
    web["valuesFrom"] = json!([
        {"gitFileRef": {"git": server.url("settings"), "ref": "main", "path": "prod.yaml"}},
    ]);
    releases.apply("web", &web).await.unwrap();
    releases.released_from("web", &first).await.unwrap();
    let other = app(&server.url("other"), "other");
    releases.apply("other", &other).await.unwrap();
    releases.released("other").await.unwrap();
    let history = |name: &str| world.helm.history(&world.namespace, name).unwrap().len();

    server.clear();
    let before = tokens(&world);
    let commit = push(&charts, "two");
    // However the forge spells its address.
    let address = server.url("charts").replace("http://", "HTTP://ada@");
    let delivery = pushed_to(&format!("{}.git/", address.trim_end_matches(".git")));
    for (event, secret, status, words) in [
        ("push", "another", 401, "not by any secret"),
        ("ping", SECRET, 200, "the secret is right"),
        ("issues", SECRET, 200, "only pushes"),
    ] {
        let (is, said) = github(&world, event, secret, &delivery).await;
        assert_eq!(is, status, "{said}");
        assert!(said.contains(words), "{said}");
    }
    let (status, said) = github(&world, "push", SECRET, &pushed_to("https://h/none.git")).await;
    assert_eq!(status, 200, "{said}");
    assert!(said.contains("no source"), "{said}");
    // A request is written before the answer to what asked for it.
    assert_eq!(tokens(&world), before);
    assert_eq!(server.requests().len(), 0);

    let began = Instant::now();
    let (status, said) = github(&world, "push", SECRET, &delivery).await;
    assert_eq!((status, said.as_str()), (202, "1 source is checked\n"));
    releases.released_from("web", &commit).await.unwrap();
    releases.marker("web", "two").await.unwrap();
    let url = server.url("charts");
    let token = is_checked(&world, &url, "").await;

    // Whoever sends it again makes us ask once in a while, not once each time.
    assert_eq!(checks(&server, "other"), 0);
    server.clear();
    for _ in 0..40 {
        let (status, said) = github(&world, "push", SECRET, &delivery).await;
        assert_eq!(status, 202, "{said}");
    }
    is_checked(&world, &url, &token).await;
    let most = usize::try_from(began.elapsed().as_secs() / 5 + 1).unwrap();
    let checked = checks(&server, "charts");
    assert!((1..=most).contains(&checked), "{checked} of {most}");
    assert_eq!(history("web"), 2);

    // The source of a values file is one as well; here as GitLab tells of it.
    settings.write("prod.yaml", "a: 2\n").unwrap();
    settings.push("main", "Change prod.yaml").unwrap();
    let body = json!({"object_kind": "push", "project": {"git_http_url": server.url("settings")}});
    let headers = [("X-Gitlab-Event", "Push Hook"), ("X-Gitlab-Token", SECRET)];
    let gitlab = format!("{}/gitlab", receivers(&world));
    let (status, said) = deliver(&gitlab, &headers, &body.to_string()).await;
    assert_eq!(status, 202, "{said}");
    until("values of the push", LONG, || async {
        let values = world.helm.values(&world.namespace, "web")?;
        Ok(Look::when(values == json!({"a": 2}), values.to_string()))
    })
    .await
    .unwrap();
    releases.released("web").await.unwrap();

    assert_eq!(checks(&server, "other"), 0);
    assert_eq!((history("web"), history("other")), (3, 1));
    let metrics = world.reconciler().unwrap().metrics().await.unwrap();
    for (receiver, outcome, times) in [
        ("github", "accepted", 41.0),
        ("github", "unauthorized", 1.0),
        ("github", "no_source", 1.0),
        ("github", "ping", 1.0),
        ("github", "ignored", 1.0),
        ("gitlab", "accepted", 1.0),
    ] {
        let labels = [("receiver", receiver), ("outcome", outcome)];
        let counted = metrics.sum("tandem_webhooks_total", &labels);
        assert_eq!(counted, times, "{receiver} {outcome}");
    }
    // Neither a secret nor what else a delivery holds is told.
    let log = world.reconciler().unwrap().log();
    assert!(log.contains("pushed to"), "{log}");
    for never in [SECRET, "s3cret/name", "ada@"] {
        assert!(!log.contains(never), "{never} in {log}");
        assert_eq!(world.volume.find(never).unwrap(), Vec::<PathBuf>::new());
    }
}

#[tokio::test]
async fn what_is_not_proved_or_too_large_changes_nothing() {
    let (world, secret) = world("hook-refused").await;
    let (_upstream, _) = upstream(&world, "charts", "one");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    let releases = world.releases.clone();
    let url = server.url("charts");
    releases.apply("web", &app(&url, "web")).await.unwrap();
    releases.released("web").await.unwrap();
    server.clear();
    let before = tokens(&world);
    let receivers = receivers(&world);
    let body = pushed_to(&url).to_string();
    let good = signature(SECRET, &body);
    let sha1 = format!("sha1={}", "0".repeat(40));
    let large = format!("{{\"url\": \"{url}\", \"x\": \"{}\"}}", "x".repeat(5 << 20));
    let of_large = signature(SECRET, &large);
    for (to, headers, body, status, words) in [
        ("github", vec![], &body, 401, "not signed"),
        ("gitlab", vec![], &body, 401, "not signed"),
        ("generic", vec![], &body, 401, "not signed"),
        (
            "generic",
            vec![("X-Signature", sha1.as_str())],
            &body,
            401,
            "SHA-1",
        ),
        (
            "generic",
            vec![("X-Signature", "sha256=x")],
            &body,
            401,
            "no signature",
        ),
        (
            "gitlab",
            vec![("X-Gitlab-Token", "s3cret")],
            &body,
            401,
            "another",
        ),
        (
            "github",
            vec![("X-Hub-Signature-256", &good)],
            &body,
            400,
            "the event",
        ),
        (
            "generic",
            vec![("X-Signature", &of_large)],
            &large,
            413,
            "4 MiB",
        ),
        // Too large is told before anybody looks whether it is believed.
        (
            "generic",
            vec![("X-Signature", &good)],
            &large,
            413,
            "4 MiB",
        ),
        ("svn", vec![("X-Signature", &good)], &body, 404, "generic"),
        (
            "bitbucket",
            vec![("X-Event-Key", "diagnostics:ping")],
            &body,
            200,
            "untried",
        ),
    ] {
        let (is, said) = deliver(&format!("{receivers}/{to}"), &headers, body).await;
        assert_eq!(is, status, "{to} {headers:?}: {said}");
        assert!(said.contains(words), "{to} {headers:?}: {said}");
        assert!(!said.contains(&url), "{said}");
    }
    // Only deliveries are received there, and none where everything else is.
    let main = world.reconciler().unwrap().address().to_owned();
    let elsewhere = format!("http://{main}/api/v1/webhooks/generic");
    let (status, said) = deliver(&elsewhere, &[("X-Signature", &good)], &body).await;
    assert_eq!(status, 404, "{said}");
    for (path, expected) in [
        ("/metrics", 404),
        ("/api/v1/sync-git", 404),
        ("/healthz", 200),
        ("/api/v1/webhooks/github", 405),
    ] {
        let base = receivers.trim_end_matches("/api/v1/webhooks");
        let (status, _) = http_client::get(&format!("{base}{path}")).await.unwrap();
        assert_eq!(status, expected, "{path}");
    }
    assert_eq!(tokens(&world), before);

    // Another secret counts from the moment on that it stands in the file.
    let generic = format!("{receivers}/generic");
    let with = async |secret: &str| {
        let signature = signature(secret, &body);
        let headers = [("X-Signature", signature.as_str())];
        deliver(&generic, &headers, &body).await.0
    };
    let write = |file: &Path, text: &str| std::fs::write(file, text).unwrap();
    write(&secret, "the new one\n");
    assert_eq!((with(SECRET).await, with("the new one").await), (401, 202));
    write(&secret, &format!("the new one\n{SECRET}\n"));
    assert_eq!((with(SECRET).await, with("the new one").await), (202, 202));
    for nothing in [Some(""), None] {
        match nothing {
            Some(text) => write(&secret, text),
            None => std::fs::remove_file(&secret).unwrap(),
        }
        let (status, said) = deliver(&generic, &[("X-Signature", &good)], &body).await;
        assert_eq!(status, 403, "{said}");
        assert!(said.contains("no secret"), "{said}");
    }
    assert_ne!(tokens(&world), before);
}

#[tokio::test]
async fn what_was_pushed_just_before_the_end_or_unheard_is_checked_after_it() {
    let (mut world, _) = world("hook-end").await;
    let (upstream, _) = upstream(&world, "charts", "one");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    let releases = world.releases.clone();
    let url = server.url("charts");
    releases.apply("web", &app(&url, "web")).await.unwrap();
    releases.released("web").await.unwrap();
    let delivery = pushed_to(&url);
    let released = async |marker: &str, commit: &str| {
        releases.released_from("web", commit).await.unwrap();
        releases.marker("web", marker).await.unwrap();
    };
    // Two in a moment: the second one has to wait, and the process ends meanwhile.
    assert_eq!(github(&world, "push", SECRET, &delivery).await.0, 202);
    is_checked(&world, &url, "").await;
    let commit = push(&upstream, "two");
    assert_eq!(github(&world, "push", SECRET, &delivery).await.0, 202);
    let reconciler = world.reconciler_mut().unwrap();
    reconciler.kill().unwrap();
    reconciler.restart().unwrap();
    released("two", &commit).await;
    // And one of which a forge tells nobody.
    let reconciler = world.reconciler_mut().unwrap();
    reconciler.terminate().unwrap();
    let commit = push(&upstream, "three");
    reconciler.restart().unwrap();
    released("three", &commit).await;
}
