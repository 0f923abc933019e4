//! What becomes of a chart source: edited, deleted, locked anew.

use std::time::Duration;

use serde_json::json;
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::pair::Extra;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::{app, push, upstream};

#[tokio::test]
async fn an_edited_source_is_followed_at_once_and_leaks_nothing() {
    let mut world = World::empty("edited").await.unwrap();
    let extra = tandem_tests::pair::Extra::args(["--grace=1s", "--rescan-interval=1s"]);
    let never = tandem_tests::pair::Extra::args(["--git-poll-interval=24h"]);
    world.start_pair(&extra, &never).await.unwrap();
    let (one, first) = upstream(&world, "one", "one");
    let (two, _) = upstream(&world, "two", "two");
    let releases = world.releases.clone();
    releases
        .apply("web", &app(&one.file_url(), "web"))
        .await
        .unwrap();
    releases.released_from("web", &first).await.unwrap();

    // A commit that no poll has seen yet, by its id.
    let pushed = push(&one, "pinned");
    releases
        .patch("web", &json!({"spec": {"chart": {"ref": pushed}}}))
        .await
        .unwrap();
    releases.released_from("web", &pushed).await.unwrap();
    releases.marker("web", "pinned").await.unwrap();

    // A branch that is new.
    one.write_all(&charts::config_map("charts/app", "branch"))
        .unwrap();
    let branched = one.push("feature/x", "Branch").unwrap();
    releases
        .patch("web", &json!({"spec": {"chart": {"ref": "feature/x"}}}))
        .await
        .unwrap();
    releases.released_from("web", &branched).await.unwrap();
    releases.marker("web", "branch").await.unwrap();

    // Another path.
    one.write_all(&charts::config_map("charts/moved", "moved"))
        .unwrap();
    let moved = one.push("feature/x", "Move").unwrap();
    releases
        .patch(
            "web",
            &json!({"spec": {"chart": {"path": "charts/moved/"}}}),
        )
        .await
        .unwrap();
    releases.released_from("web", &moved).await.unwrap();
    releases.marker("web", "moved").await.unwrap();

    // Another repository: the mirror of the first one goes.
    let spec =
        json!({"spec": {"chart": {"git": two.file_url(), "ref": "main", "path": "charts/app"}}});
    releases.patch("web", &spec).await.unwrap();
    releases.marker("web", "two").await.unwrap();
    until("one mirror, one request, one manifest", LONG, || async {
        let left = (
            world.volume.mirrors()?.len(),
            world.volume.requests()?.len(),
            world.volume.manifests()?.len(),
        );
        Ok(Look::when(left == (1, 1, 1), format!("{left:?}")))
    })
    .await
    .unwrap();
    let history = world.helm.history(&world.namespace, "web").unwrap();
    assert_eq!(history.last().unwrap().status, "deployed");
    assert_eq!(history.len(), 5, "{history:?}");
}

#[tokio::test]
async fn what_is_left_of_an_earlier_time_is_not_released_to_who_asks_again() {
    let mut world = World::empty("again").await.unwrap();
    let never = Extra::args(["--git-poll-interval=24h"]);
    world.start_pair(&Extra::default(), &never).await.unwrap();
    let (one, first) = upstream(&world, "one", "one");
    let (two, other) = upstream(&world, "two", "other");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    let releases = world.releases.clone();
    let history = || world.helm.history(&world.namespace, "web").unwrap().len();
    let spec = app(&server.url("one"), "web");
    releases.apply("web", &spec).await.unwrap();
    releases.released_from("web", &first).await.unwrap();
    // No check ends before somebody says to wait for it.
    let stall = |stall: bool| server.set(|knobs| knobs.stall = stall);
    let waits = async || {
        let why = "is being checked, since the HelmRelease was edited";
        let told = releases.condition("web", "Ready", "Unknown", why);
        told.await.unwrap();
        stall(false);
    };

    // Its manifest and artifact stay for a while.
    releases.delete("web").await.unwrap();
    releases.gone("web").await.unwrap();
    until(
        "the request to go, and not what is served",
        LONG,
        || async {
            let left = (
                world.volume.requests()?.len(),
                world.volume.manifests()?.len(),
            );
            Ok(Look::when(left == (0, 1), format!("{left:?}")))
        },
    )
    .await
    .unwrap();
    let second = push(&one, "two");
    stall(true);
    releases.apply("web", &spec).await.unwrap();
    waits().await;
    releases.released_from("web", &second).await.unwrap();
    assert_eq!(history(), 1);

    // Edited away and back.
    let from = |url: String| json!({"spec": {"chart": {"git": url}}});
    releases.patch("web", &from(two.file_url())).await.unwrap();
    releases.released_from("web", &other).await.unwrap();
    let third = push(&one, "three");
    stall(true);
    releases
        .patch("web", &from(server.url("one")))
        .await
        .unwrap();
    waits().await;
    releases.released_from("web", &third).await.unwrap();
    releases.marker("web", "three").await.unwrap();
    assert_eq!(history(), 3);
}

#[tokio::test]
async fn deleted_while_its_chart_is_fetched_it_leaves_nothing() {
    let mut world = World::empty("deleted").await.unwrap();
    world
        .start_pair(
            &Extra::args(["--grace=1s", "--rescan-interval=1s"]),
            &Extra::args(["--git-poll-interval=24h"]),
        )
        .await
        .unwrap();
    let (_upstream, _) = upstream(&world, "charts", "one");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    server.set(|knobs| knobs.drip = Some(Duration::from_millis(50)));
    let releases = world.releases.clone();
    releases
        .apply("web", &app(&server.url("charts"), "web"))
        .await
        .unwrap();
    until("the fetch to begin", LONG, || async {
        Ok(Look::when(!server.requests().is_empty(), "no request"))
    })
    .await
    .unwrap();
    releases.delete("web").await.unwrap();
    releases.gone("web").await.unwrap();
    server.set(|knobs| knobs.drip = None);
    until("mirror, manifest and request to go", LONG, || async {
        let volume = &world.volume;
        let left = (
            volume.mirrors()?,
            volume.manifests()?.len(),
            volume.requests()?.len(),
            volume.artifacts()?,
        );
        Ok(Look::when(
            left.0.is_empty() && left.1 == 0 && left.2 == 0 && left.3.is_empty(),
            format!("{left:?}"),
        ))
    })
    .await
    .unwrap();
    assert!(world.helm.list(&world.namespace).unwrap().is_empty());
    assert_eq!(
        world
            .reconciler()
            .unwrap()
            .metrics()
            .await
            .unwrap()
            .helm_processes(),
        0.0
    );
}

#[tokio::test]
async fn a_rotated_secret_is_followed_and_never_shown() {
    let world = World::start("secret").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let server = HttpServer::start(&world.upstreams, Scheme::Https).unwrap();
    let login = |password: &str| Some(("ada".to_owned(), password.to_owned()));
    server.set(|knobs| knobs.login = login("s3cret-one"));
    let releases = world.releases.clone();
    let ca = std::fs::read_to_string(server.authority()).unwrap();
    let secret = |password: &'static str| {
        let ca = ca.clone();
        let releases = releases.clone();
        async move {
            let values = [
                ("username", "ada"),
                ("password", password),
                ("ca.crt", ca.as_str()),
            ];
            releases.put_secret("git", &values).await.unwrap();
        }
    };
    secret("s3cret-one").await;
    let mut spec = app(&server.url("charts"), "web");
    spec["chart"]["secretRef"] = json!({"name": "git"});
    releases.apply("web", &spec).await.unwrap();
    releases.released_from("web", &first).await.unwrap();

    server.set(|knobs| knobs.login = login("s3cret-two"));
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    world.sync().await.unwrap();
    until("the refusal in the manifest", LONG, || async {
        let manifests = world.volume.manifests()?;
        let refused = manifests.iter().any(|one| {
            one.failure
                .as_ref()
                .is_some_and(|failure| failure.reason.to_string() == "AuthenticationFailed")
        });
        Ok(Look::when(refused, format!("{manifests:?}")))
    })
    .await
    .unwrap();
    releases.marker("web", "one").await.unwrap();
    secret("s3cret-two").await;
    releases.released_from("web", &second).await.unwrap();

    let (sidecar, reconciler) = (
        world.sidecar().unwrap().log(),
        world.reconciler().unwrap().log(),
    );
    let status = releases.get("web").await.unwrap().0.data.to_string();
    let events = format!("{:?}", releases.events("web").await.unwrap());
    for password in ["s3cret-one", "s3cret-two"] {
        for (place, text) in [
            ("sidecar", &sidecar),
            ("reconciler", &reconciler),
            ("status", &status),
            ("events", &events),
        ] {
            assert!(!text.contains(password), "{password} in {place}");
        }
        assert!(world.volume.find(password).unwrap().is_empty());
    }
}
