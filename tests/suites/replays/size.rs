//! Releases that are larger than what the API server stores.

use tandem_tests::charts;
use tandem_tests::wait::{LONG, Look, until};

use crate::common::{Replay, app, push, repository};

replays! {
    /// A23: helm#7126, helm#9788, helm-operator#511.
    a23_a_chart_that_is_too_large_leaves_what_was_there
}

const BLOB: &str = "charts/app/files/blob.bin";

async fn a23_a_chart_that_is_too_large_leaves_what_was_there(mut replay: Replay) {
    let upstream = repository(&replay.world, "r1", "one");
    let first = upstream.head().unwrap();
    let releases = replay.world.releases.clone();
    releases
        .apply("a", &app(&upstream.file_url(), "a"))
        .await
        .unwrap();
    replay.live("a", &first, "one").await;
    let uid = replay.uid("a").await;

    // Below the limit as a file, above it once Helm has encoded it.
    upstream.write(BLOB, charts::noise(900 * 1024)).unwrap();
    push(&upstream, "two");
    replay.world.sync().await.unwrap();
    let works = [("a", "upgrade"), ("new", "install")];
    for (name, action) in works {
        let spec = app(&upstream.file_url(), name);
        releases.apply(name, &spec).await.unwrap();
        let told = releases
            .condition(name, "Released", "False", "Too long")
            .await
            .unwrap();
        assert!(told.contains(&format!("{action} failed")), "{told}");
    }
    replay.strike().await;

    // It is tried again, after waits that grow, and no more often than is told.
    for (name, action) in works {
        until(format!("a second failure of {name}"), LONG, || async {
            let world = &replay.world;
            let decision = world.volume.decision(&world.namespace, name)?;
            let waits = decision.as_ref().is_some_and(|told| {
                told.action == "Wait"
                    && told.failures == 2
                    && told.next_attempt.is_some_and(|next| next > told.at)
            });
            Ok(Look::when(waits, format!("{decision:?}")))
        })
        .await
        .unwrap();
        assert_eq!(replay.did(action, name).await, 2.0, "{action} of {name}");
    }
    replay.has_revisions("a", 1);
    releases.marker("a", "one").await.unwrap();
    assert_eq!(replay.uid("a").await, uid);
    assert!(releases.records("new").await.unwrap().is_empty());
    assert_eq!(releases.config_map("new").await.unwrap(), None);

    upstream.run(&["rm", "--quiet", BLOB]).unwrap();
    let third = push(&upstream, "three");
    replay.world.sync().await.unwrap();
    for (name, revisions) in [("a", 2), ("new", 1)] {
        replay.live(name, &third, "three").await;
        replay.has_revisions(name, revisions);
    }
    assert_eq!(replay.uid("a").await, uid);
    replay.ends_well().await;
}
