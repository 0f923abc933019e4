//! Charts from Helm repositories, packed and indexed by the real helm.

use serde_json::{Value, json};
use tandem_shared::manifest::Reason;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::helm_repository::HelmRepository;
use tandem_tests::requests;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

/// A HelmRelease of the chart `app` whose release bears its own name.
fn app(repository: &HelmRepository<'_>, version: &str) -> Value {
    json!({
        "releaseName": "web",
        "chart": { "repository": repository.url(), "name": "app", "version": version },
    })
}

#[tokio::test]
async fn a_range_is_upgraded_once_for_each_newer_version() {
    let world = World::start("range").await.unwrap();
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    let repository = HelmRepository::new(&server, "charts").unwrap();
    repository.publish("app", "1.0.0", "one").unwrap();
    let releases = world.releases.clone();
    releases
        .apply("web", &app(&repository, "^1"))
        .await
        .unwrap();
    let found = releases.released_from("web", "1.0.0").await.unwrap();
    assert_eq!(found.status("lastAttemptedRevision"), "1.0.0");
    assert_eq!(found.condition("ChartFetched").unwrap().0, "True");
    releases.marker("web", "one").await.unwrap();

    repository.publish("app", "2.0.0", "far").unwrap();
    repository.publish("app", "1.1.0", "two").unwrap();
    world.sync().await.unwrap();
    releases.released_from("web", "1.1.0").await.unwrap();
    releases.marker("web", "two").await.unwrap();
    // What was released last stands in the request, for a volume that is lost.
    let source = requests::helm(&repository.url());
    until("the preference in the request", LONG, || async {
        let requests = world.volume.requests()?;
        let prefers = requests.iter().any(|request| {
            let mut wants = request.wants.iter();
            wants.any(|want| want.prefer.version.as_deref() == Some("1.1.0"))
        });
        Ok(Look::when(prefers, format!("{requests:?}")))
    })
    .await
    .unwrap();

    // Withdrawn, the version stays, here and after the volume is lost.
    repository.withdraw("app", "1.1.0").unwrap();
    world.sync().await.unwrap();
    let gone = Reason::VersionNotFound;
    requests::problem(&world.volume, &source, &key(&world), &gone)
        .await
        .unwrap();
    releases
        .condition("web", "ChartFetched", "False", "1.1.0 is gone")
        .await
        .unwrap();
    let states = || world.helm.states(&world.namespace, "web").unwrap();
    assert_eq!(states(), ["superseded", "deployed"]);
    releases.marker("web", "two").await.unwrap();

    // What is asked for by its name is taken, also if it is older.
    let older = json!({"spec": {"chart": {"version": "1.0.0"}}});
    releases.patch("web", &older).await.unwrap();
    releases.released_from("web", "1.0.0").await.unwrap();
    releases.marker("web", "one").await.unwrap();
    assert_eq!(states(), ["superseded", "superseded", "deployed"]);

    // Of another chart, whose versions are lower, nothing is known yet.
    repository.publish("other", "0.5.0", "other").unwrap();
    let other = json!({"spec": {"chart": {"name": "other", "version": ">=0.1.0"}}});
    releases.patch("web", &other).await.unwrap();
    let found = releases.released_from("web", "0.5.0").await.unwrap();
    let from = format!("{}/other", repository.url().trim_end_matches('/'));
    assert_eq!(found.status("lastAttemptedChart"), from.as_str());
}

/// The key of the one want that there is.
fn key(world: &World) -> String {
    world.volume.requests().unwrap()[0].wants[0].key.clone()
}

#[tokio::test]
async fn a_lost_volume_goes_on_with_what_was_released() {
    let mut world = World::empty("lostvolume").await.unwrap();
    let never = tandem_tests::pair::Extra::args(["--git-poll-interval=24h"]);
    let nothing = tandem_tests::pair::Extra::default();
    world.start_pair(&nothing, &never).await.unwrap();
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    let repository = HelmRepository::new(&server, "charts").unwrap();
    repository.publish("app", "1.0.0", "one").unwrap();
    repository.publish("app", "1.1.0", "two").unwrap();
    let releases = world.releases.clone();
    releases
        .apply("web", &app(&repository, "1.x"))
        .await
        .unwrap();
    releases.released_from("web", "1.1.0").await.unwrap();
    repository.withdraw("app", "1.1.0").unwrap();

    world.sidecar_mut().unwrap().terminate().unwrap();
    world.reconciler_mut().unwrap().terminate().unwrap();
    let served = world.volume.layout().served.clone();
    for folder in [
        served.manifests(),
        served.artifacts(),
        served.repositories(),
    ] {
        std::fs::remove_dir_all(folder).unwrap();
    }
    std::fs::remove_dir_all(world.volume.layout().wanted.requests()).unwrap();
    world.start_pair(&nothing, &never).await.unwrap();
    let told = releases
        .condition("web", "ChartFetched", "False", "1.1.0 is gone")
        .await
        .unwrap();
    assert!(told.contains("1.0.0"), "{told}");
    repository.publish("app", "1.2.0", "three").unwrap();
    world.sync().await.unwrap();
    releases.released_from("web", "1.2.0").await.unwrap();
    let states = world.helm.states(&world.namespace, "web").unwrap();
    assert_eq!(states, ["superseded", "deployed"]);
}

#[tokio::test]
async fn a_pull_secret_opens_a_private_repository() {
    let world = World::start("pullsecret").await.unwrap();
    let server = HttpServer::start(&world.upstreams, Scheme::Https).unwrap();
    server.set(|knobs| knobs.login = Some(("ada".to_owned(), "s3cret-pull".to_owned())));
    let repository = HelmRepository::new(&server, "charts").unwrap();
    repository.publish("app", "1.0.0", "one").unwrap();
    let releases = world.releases.clone();
    let mut spec = app(&repository, "1.0.0");
    spec["chart"]["chartPullSecret"] = json!({"name": "pull"});
    releases.apply("web", &spec).await.unwrap();
    // Never without it.
    releases
        .condition("web", "ChartFetched", "False", "chart.chartPullSecret")
        .await
        .unwrap();
    assert!(server.requests().is_empty());

    let ca = std::fs::read_to_string(server.authority()).unwrap();
    let values = [
        ("username", "ada"),
        ("password", "s3cret-pull"),
        ("ca.crt", ca.as_str()),
    ];
    releases.put_secret("pull", &values).await.unwrap();
    releases.released_from("web", "1.0.0").await.unwrap();
    let asked = server.requests();
    assert!(
        asked.iter().all(|one| one.authorization.is_some()),
        "{asked:?}"
    );
    let status = releases.get("web").await.unwrap().0.data.to_string();
    let logs = [
        world.sidecar().unwrap().log(),
        world.reconciler().unwrap().log(),
        status,
    ];
    assert!(logs.iter().all(|text| !text.contains("s3cret-pull")));
    assert!(world.volume.find("s3cret-pull").unwrap().is_empty());
}
