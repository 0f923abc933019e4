//! Credentials that change under a running pair, also while the old one is being used.

use serde_json::{Value, json};
use tandem_tests::git::{HttpServer, Request, Scheme};
use tandem_tests::helm_repository::HelmRepository;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::{app, push, upstream};

/// What a source's server lets in from now on.
fn demand(server: &HttpServer, password: &str) {
    server.set(|knobs| knobs.login = Some(("ada".to_owned(), password.to_owned())));
}

/// How such a login looks in a request.
fn shown(password: &str) -> Option<String> {
    use base64::Engine;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("ada:{password}"));
    Some(format!("Basic {pair}"))
}

/// Whether a request with this login was answered so.
fn answered(requests: &[Request], password: &str, status: u16) -> bool {
    let login = shown(password);
    let mut all = requests.iter();
    all.any(|one| one.authorization == login && one.status == Some(status))
}

/// The ids of all credentials that requests name.
fn ids(world: &World) -> Vec<String> {
    let requests = world.volume.requests().unwrap().into_iter();
    requests.filter_map(|one| one.credential_id).collect()
}

async fn put(world: &World, password: &str) {
    let values = [("username", "ada"), ("password", password)];
    world.releases.put_secret("proof", &values).await.unwrap();
}

/// Goes through two rotations: of what is refused, and while the old one is being used.
/// `news` brings something to the source and says what is then released; `rotate` hands the
/// HelmRelease another password.
async fn rotations(
    world: &World,
    server: &HttpServer,
    news: impl Fn(&str) -> String,
    rotate: impl AsyncFn(&str),
    released: impl AsyncFn(&str),
) {
    // The server is the first to know of the new one.
    demand(server, "s3cret-two");
    let second = news("two");
    world.sync_answered().await.unwrap();
    assert!(answered(&server.requests(), "s3cret-one", 401));
    let manifest = world.volume.manifests().unwrap();
    assert!(manifest.iter().any(|one| one.failure.is_some()));
    rotate("s3cret-two").await;
    released(&second).await;

    // It sits on an answer to the old one while the new one comes.
    server.clear();
    server.set(|knobs| knobs.stall = true);
    let third = news("three");
    world.sync().await.unwrap();
    server.stalled().await.unwrap();
    let before = ids(world);
    demand(server, "s3cret-three");
    rotate("s3cret-three").await;
    until("the new one in a request", LONG, || async {
        let now = ids(world);
        Ok(Look::when(now != before, format!("{now:?}")))
    })
    .await
    .unwrap();
    server.set(|knobs| knobs.stall = false);
    released(&third).await;
    let requests = server.requests();
    assert!(answered(&requests, "s3cret-two", 401), "{requests:?}");
    assert!(answered(&requests, "s3cret-three", 200), "{requests:?}");
    // Nobody goes on with the old one.
    server.clear();
    world.sync_answered().await.unwrap();
    let requests = server.requests();
    let new = shown("s3cret-three");
    assert!(
        !requests.is_empty() && requests.iter().all(|one| one.authorization == new),
        "{requests:?}"
    );
}

#[tokio::test]
async fn the_secret_of_a_helm_repository_counts_at_once_also_while_the_old_one_is_used() {
    let world = World::start("rotated-helm").await.unwrap();
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    demand(&server, "s3cret-one");
    let repository = HelmRepository::new(&server, "charts").unwrap();
    repository.publish("app", "1.0.0", "one").unwrap();
    put(&world, "s3cret-one").await;
    let spec = json!({
        "releaseName": "web",
        "chart": {
            "repository": repository.url(), "name": "app", "version": "1.x",
            "chartPullSecret": {"name": "proof"},
        },
    });
    let releases = world.releases.clone();
    releases.apply("web", &spec).await.unwrap();
    releases.released_from("web", "1.0.0").await.unwrap();
    let news = |marker: &str| {
        let version = if marker == "two" { "1.1.0" } else { "1.2.0" };
        repository.publish("app", version, marker).unwrap();
        version.to_owned()
    };
    let rotate = async |password: &str| put(&world, password).await;
    let released = async |version: &str| {
        releases.released_from("web", version).await.unwrap();
    };
    rotations(&world, &server, news, rotate, released).await;
    let states = world.helm.states(&world.namespace, "web").unwrap();
    assert_eq!(states, ["superseded", "superseded", "deployed"]);
}

#[tokio::test]
async fn the_secret_of_a_git_repository_counts_at_once_also_while_the_old_one_is_used() {
    let world = World::start("rotated-git").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    demand(&server, "s3cret-one");
    put(&world, "s3cret-one").await;
    let mut spec = app(&server.url("charts"), "web");
    spec["chart"]["secretRef"] = json!({"name": "proof"});
    let releases = world.releases.clone();
    releases.apply("web", &spec).await.unwrap();
    releases.released_from("web", &first).await.unwrap();
    let rotate = async |password: &str| put(&world, password).await;
    let released = async |commit: &str| {
        releases.released_from("web", commit).await.unwrap();
    };
    rotations(
        &world,
        &server,
        |marker| push(&upstream, marker),
        rotate,
        released,
    )
    .await;
}

#[tokio::test]
async fn the_password_in_a_values_url_counts_at_once_also_while_the_old_one_is_used() {
    let world = World::start("rotated-url").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    demand(&server, "s3cret-one");
    server.put_file("values.yaml", "is: one\n");
    let with = |password: &str| {
        let url = server.file_url("values.yaml");
        let url = url.replace("://", &format!("://ada:{password}@"));
        json!([{"externalSourceRef": {"url": url}}])
    };
    let mut spec = app(&upstream.file_url(), "web");
    spec["valuesFrom"] = with("s3cret-one");
    let releases = world.releases.clone();
    releases.apply("web", &spec).await.unwrap();
    releases.released("web").await.unwrap();
    let news = |marker: &str| {
        server.put_file("values.yaml", format!("is: {marker}\n"));
        marker.to_owned()
    };
    let rotate = async |password: &str| {
        let patch = json!({"spec": {"valuesFrom": with(password)}});
        releases.patch("web", &patch).await.unwrap();
    };
    let released = async |marker: &str| {
        let wanted: Value = json!({"is": marker});
        until(format!("values of {marker}"), LONG, || async {
            let now = world.helm.values(&world.namespace, "web")?;
            Ok(Look::when(now == wanted, now))
        })
        .await
        .unwrap();
        releases.released("web").await.unwrap();
    };
    rotations(&world, &server, news, rotate, released).await;
    let history = world.helm.history(&world.namespace, "web").unwrap();
    assert_eq!(history.len(), 3, "{history:?}");
}
