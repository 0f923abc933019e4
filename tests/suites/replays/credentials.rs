//! Passwords that change under a running pair.

use serde_json::json;
use tandem_tests::git::{HttpServer, Scheme};

use crate::common::{Replay, app, push, repository};

replays! {
    /// A26: git-sync#975, git-sync#978, source-controller#1080.
    a26_a_rotated_password_behind_a_private_authority_recovers
}

const PASSWORDS: [&str; 2] = ["s3cret/one%2F", "s3cret/two@:"];

async fn a26_a_rotated_password_behind_a_private_authority_recovers(mut replay: Replay) {
    let releases = replay.world.releases.clone();
    let upstream = repository(&replay.world, "private", "one");
    let server = HttpServer::start(&replay.world.upstreams, Scheme::Https).unwrap();
    let demand = |password: &str| {
        server.set(|knobs| knobs.login = Some(("ada".to_owned(), password.to_owned())));
    };
    let authority = std::fs::read_to_string(server.authority()).unwrap();
    let secret = |password: &'static str| {
        let (releases, authority) = (releases.clone(), authority.clone());
        async move {
            let values = [
                ("username", "ada"),
                ("password", password),
                ("caFile", authority.as_str()),
            ];
            releases.put_secret("login", &values).await.unwrap();
        }
    };
    demand(PASSWORDS[0]);
    secret(PASSWORDS[0]).await;
    let mut spec = app(&server.url("private"), "private");
    spec["chart"]["secretRef"] = json!({"name": "login"});
    releases.apply("private", &spec).await.unwrap();
    let first = upstream.head().unwrap();
    replay.live("private", &first, "one").await;

    // The server takes another one, there is something new, and the Secret is as it was.
    demand(PASSWORDS[1]);
    let second = push(&upstream, "two");
    replay.world.sync().await.unwrap();
    for _ in ["before", "after"] {
        let told = releases.condition("private", "ChartFetched", "False", "Check the Secret");
        told.await.unwrap();
        let still = releases.get("private").await.unwrap();
        assert_eq!(still.condition("Ready").unwrap().0, "True");
        replay.live_marker("private", "one").await;
        replay.has_revisions("private", 1);
        replay.neighbour_goes_on().await;
        replay.strike().await;
    }

    // An edit of the Secret is enough.
    secret(PASSWORDS[1]).await;
    let back = replay.live("private", &second, "two").await;
    assert_eq!(back.condition("ChartFetched").unwrap().0, "True");
    replay.has_revisions("private", 2);

    let world = &replay.world;
    let shown = [
        world.sidecar().unwrap().log(),
        world.reconciler().unwrap().log(),
        releases.get("private").await.unwrap().0.data.to_string(),
        format!("{:?}", releases.events("private").await.unwrap()),
    ];
    for password in PASSWORDS {
        assert!(world.volume.find(password).unwrap().is_empty());
        assert!(shown.iter().all(|text| !text.contains(password)));
    }
    replay.ends_well().await;
}
