//! Values from files behind URLs, in good times and bad.

use serde_json::{Value, json};
use tandem_shared::manifest::Reason;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::requests::{failure, web};
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::{app, upstream};

fn with_urls(spec: &Value, urls: &[(&str, bool)]) -> Value {
    let mut spec = spec.clone();
    spec["valuesFrom"] = urls
        .iter()
        .map(|(url, optional)| json!({"externalSourceRef": {"url": url, "optional": optional}}))
        .collect();
    spec
}

fn values(world: &World, name: &str) -> Value {
    world.helm.values(&world.namespace, name).unwrap()
}

fn revisions(world: &World) -> [usize; 3] {
    ["web", "optional", "other"].map(|name| {
        let history = world.helm.history(&world.namespace, name).unwrap();
        history.len()
    })
}

#[tokio::test]
async fn an_outage_changes_nothing_and_a_change_upgrades_once() {
    let mut world = World::start("url-outage").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    server.put_file("base.yaml", "a: base\nb: base\n");
    server.put_file("over.yaml", "b: over\n");
    let (base, over) = (server.file_url("base.yaml"), server.file_url("over.yaml"));
    let releases = world.releases.clone();
    let spec = |name: &str| app(&upstream.file_url(), name);
    for (name, spec) in [
        (
            "web",
            with_urls(&spec("web"), &[(&base, false), (&over, false)]),
        ),
        (
            "optional",
            with_urls(&spec("optional"), &[(&over, true), (&base, true)]),
        ),
        ("other", spec("other")),
    ] {
        releases.apply(name, &spec).await.unwrap();
        releases.released(name).await.unwrap();
    }
    // In the order of the HelmRelease, the later over the earlier.
    assert_eq!(values(&world, "web"), json!({"a": "base", "b": "over"}));
    assert_eq!(
        values(&world, "optional"),
        json!({"a": "base", "b": "base"})
    );

    server.set(|knobs| knobs.status = Some(503));
    world.sync().await.unwrap();
    failure(&world.volume, &web(&over), &[Reason::Remote])
        .await
        .unwrap();
    world.sidecar_mut().unwrap().kill().unwrap();
    world.reconciler_mut().unwrap().kill().unwrap();
    world.sidecar_mut().unwrap().restart().unwrap();
    world.reconciler_mut().unwrap().restart().unwrap();
    world.sidecar().unwrap().ready().await.unwrap();
    world.reconciler().unwrap().ready().await.unwrap();
    // Once it lasts it is told, and that is all.
    for name in ["web", "optional"] {
        let told = releases
            .condition(name, "Ready", "True", "values may be old")
            .await
            .unwrap();
        assert!(told.contains("503"), "{told}");
        releases.released(name).await.unwrap();
    }
    assert_eq!(revisions(&world), [1, 1, 1]);
    let metrics = world.reconciler().unwrap().metrics().await.unwrap();
    assert_eq!(metrics.helm_processes(), 0.0);

    // Who names it only now has never had it.
    let late = with_urls(&spec("late"), &[(&server.file_url("late.yaml"), false)]);
    releases.apply("late", &late).await.unwrap();
    let told = releases
        .condition("late", "Released", "False", "late.yaml")
        .await
        .unwrap();
    assert!(told.contains("503"), "{told}");

    // Better again, and another content of one: both who use it are upgraded, once.
    server.put_file("over.yaml", "b: changed\n");
    server.put_file("late.yaml", "c: late\n");
    server.set(|knobs| knobs.status = None);
    world.sync().await.unwrap();
    for name in ["web", "optional"] {
        releases
            .wait(name, "upgraded and well", |found| {
                let ready = found.condition("Ready");
                ready.is_some_and(|(is, _, message)| is == "True" && !message.contains("old"))
            })
            .await
            .unwrap();
    }
    releases.released("late").await.unwrap();
    until("both to be upgraded", LONG, || async {
        let is = (values(&world, "web"), values(&world, "late"));
        let wanted = (json!({"a": "base", "b": "changed"}), json!({"c": "late"}));
        Ok(Look::when(is == wanted, format!("{is:?}")))
    })
    .await
    .unwrap();
    // `optional` takes `b` from the other file.
    assert_eq!(revisions(&world), [2, 1, 1]);
    let metrics = world.reconciler().unwrap().metrics().await.unwrap();
    assert_eq!(metrics.helm_processes_to("upgrade"), 1.0);
    assert_eq!(metrics.helm_processes_to("install"), 1.0);
    assert_eq!(metrics.helm_processes(), 2.0);
}

#[tokio::test]
async fn an_optional_file_is_waited_for_until_its_url_was_asked() {
    let mut world = World::start("url-first").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    server.put_file("values.yaml", "a: 1\n");
    server.set(|knobs| knobs.stall = true);
    let url = server.file_url("values.yaml");
    let releases = world.releases.clone();
    let spec = app(&upstream.file_url(), "web");
    releases
        .apply("web", &with_urls(&spec, &[(&url, true)]))
        .await
        .unwrap();
    releases
        .condition("web", "Ready", "Unknown", &url)
        .await
        .unwrap();
    assert!(world.helm.list(&world.namespace).unwrap().is_empty());
    // Its end doesn't wait for a server that says nothing.
    world.sidecar_mut().unwrap().terminate().unwrap();
    server.set(|knobs| knobs.stall = false);
    world.sidecar_mut().unwrap().restart().unwrap();
    releases.released("web").await.unwrap();
    assert_eq!(values(&world, "web"), json!({"a": 1}));
    let history = world.helm.history(&world.namespace, "web").unwrap();
    assert_eq!(history.len(), 1, "{history:?}");
}

#[tokio::test]
async fn a_password_and_a_token_in_a_url_are_shown_nowhere() {
    let world = World::start("url-secret").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    server.set(|knobs| knobs.login = Some(("ada".to_owned(), "s3cret-pass".to_owned())));
    server.put_file("values.yaml", "a: 1\n");
    let url = server.file_url("values.yaml?key=t0ken-in-query");
    let with = |password: &str| url.replace("://", &format!("://ada:{password}@"));
    let releases = world.releases.clone();
    let spec = app(&upstream.file_url(), "web");
    releases
        .apply("web", &with_urls(&spec, &[(&with("s3cret-pass"), false)]))
        .await
        .unwrap();
    releases.released("web").await.unwrap();
    assert_eq!(values(&world, "web"), json!({"a": 1}));
    // And where it is refused.
    let spec = app(&upstream.file_url(), "refused");
    releases
        .apply(
            "refused",
            &with_urls(&spec, &[(&with("wr0ng-pass"), false)]),
        )
        .await
        .unwrap();
    let told = releases
        .condition("refused", "Released", "False", "401")
        .await
        .unwrap();
    assert!(told.contains("/files/values.yaml"), "{told}");

    let requests = world.volume.layout().wanted.requests();
    let credentials = world.volume.credentials();
    let mut told = String::new();
    for name in ["web", "refused"] {
        told += &releases.get(name).await.unwrap().0.data["status"].to_string();
        told += &format!("{:?}", releases.events(name).await.unwrap());
    }
    let logs = world.sidecar().unwrap().log() + &world.reconciler().unwrap().log();
    for (secret, at) in [
        ("s3cret-pass", &credentials),
        ("wr0ng-pass", &credentials),
        ("t0ken-in-query", &requests),
    ] {
        for found in world.volume.find(secret).unwrap() {
            assert!(found.starts_with(at), "{secret} in {}", found.display());
        }
        for text in [&told, &logs] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}
