//! HelmReleases that are deleted while something is done for them.

use serde_json::json;
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::wait::{LONG, Look, until};

use crate::common::{Replay, app, repository};

replays! {
    /// A9: flux#1873.
    a09_deleted_while_its_chart_is_fetched_it_leaves_nothing [with_brief_grace]

    /// A9, in an install and an upgrade: k3s-io/helm-controller#177.
    a09_deleted_while_helm_is_at_work_it_leaves_nothing [with_brief_grace]
}

const PASSWORD: &str = "s3cret-of-the-deleted";

/// A server that lets in whoever has the Secret `git`.
async fn locked(replay: &Replay) -> HttpServer {
    let server = HttpServer::start(&replay.world.upstreams, Scheme::Http).unwrap();
    server.set(|knobs| knobs.login = Some(("ada".to_owned(), PASSWORD.to_owned())));
    let secret = [("username", "ada"), ("password", PASSWORD)];
    replay
        .world
        .releases
        .put_secret("git", &secret)
        .await
        .unwrap();
    server
}

fn spec(server: &HttpServer, repository: &str, name: &str) -> serde_json::Value {
    let mut spec = app(&server.url(repository), name);
    spec["chart"]["secretRef"] = json!({"name": "git"});
    spec
}

async fn a09_deleted_while_its_chart_is_fetched_it_leaves_nothing(mut replay: Replay) {
    let server = locked(&replay).await;
    let releases = replay.world.releases.clone();
    Replay::holds(&server);
    for name in ["early", "late"] {
        repository(&replay.world, name, "one");
        releases
            .apply(name, &spec(&server, name, name))
            .await
            .unwrap();
    }
    until("both fetches to hang", LONG, || async {
        let requests = server.requests();
        let asked = |name: &str| requests.iter().any(|one| one.path.contains(name));
        Ok(Look::when(
            asked("early") && asked("late"),
            format!("{requests:?}"),
        ))
    })
    .await
    .unwrap();

    releases.delete("early").await.unwrap();
    releases.gone("early").await.unwrap();
    let deleted = releases.clone();
    replay
        .strike_while(async move { deleted.delete("late").await.unwrap() })
        .await;
    releases.gone("late").await.unwrap();
    replay.neighbour_goes_on().await;
    // The server answers at last; what hung goes on for nobody.
    Replay::goes_on(&server);
    left_nothing(&replay, &["early", "late"]).await;
    replay.ends_well().await;
}

async fn a09_deleted_while_helm_is_at_work_it_leaves_nothing(mut replay: Replay) {
    let server = locked(&replay).await;
    let upstream = repository(&replay.world, "r1", "one");
    let first = upstream.head().unwrap();
    let releases = replay.world.releases.clone();
    releases
        .apply("old", &spec(&server, "r1", "old"))
        .await
        .unwrap();
    replay.live("old", &first, "one").await;
    let hook = charts::hook("stuck", "pre-install,pre-upgrade", "");
    upstream
        .write("charts/app/templates/hook.yaml", hook)
        .unwrap();
    upstream.push("main", "Add a hook that never ends").unwrap();
    replay.world.sync().await.unwrap();
    // Before that, the new one would be made from what was there.
    releases.record("old", "pending-upgrade").await.unwrap();
    releases
        .apply("new", &spec(&server, "r1", "new"))
        .await
        .unwrap();
    releases.record("new", "pending-install").await.unwrap();

    let deleted = releases.clone();
    replay
        .strike_while(async move {
            deleted.delete("old").await.unwrap();
            deleted.delete("new").await.unwrap();
        })
        .await;
    releases.gone("old").await.unwrap();
    releases.gone("new").await.unwrap();
    left_nothing(&replay, &["old", "new"]).await;
    replay.ends_well().await;
}

/// Nothing is left of the HelmReleases: no release, no objects; on the volume there is what
/// the neighbour asks for, alone, and no credential.
async fn left_nothing(replay: &Replay, names: &[&str]) {
    let world = &replay.world;
    until("what nobody asks for to go", LONG, || async {
        let volume = &world.volume;
        let left = [
            volume.requests()?.len(),
            volume.manifests()?.len(),
            volume.mirrors()?.len(),
            volume.artifacts()?.len(),
            volume.decisions()?.len(),
        ];
        let folders = std::fs::read_dir(volume.credentials())?.flatten();
        let credentials = folders.filter(|one| one.path().is_dir()).count();
        let gone = left == [1; 5] && credentials == 0;
        Ok(Look::when(
            gone,
            format!("{left:?}, {credentials} credentials"),
        ))
    })
    .await
    .unwrap();
    assert_eq!(world.helm.list(&world.namespace).unwrap(), ["neighbour"]);
    for name in names {
        assert_eq!(world.releases.config_map(name).await.unwrap(), None);
        assert!(world.releases.records(name).await.unwrap().is_empty());
    }
    assert!(world.volume.find(PASSWORD).unwrap().is_empty());
}
