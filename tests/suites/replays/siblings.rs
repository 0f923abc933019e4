//! Charts of one repository that depend on each other.

use serde_json::json;
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme};

use crate::common::{Replay, app};

replays! {
    /// A12: source-controller#194, helm#5587.
    a12_a_change_of_a_sibling_alone_is_released
}

async fn a12_a_change_of_a_sibling_alone_is_released(mut replay: Replay) {
    let upstream = replay.world.upstreams.create("r1").unwrap();
    let mut umbrella = charts::config_map("charts/umb", "umbrella");
    umbrella[0].1 += "dependencies:\n- {name: lib, version: 0.1.0, repository: file://../lib}\n";
    let library = |version: &str, marker: &str| {
        let mut files = charts::config_map("charts/lib", marker);
        files.iter_mut().for_each(|(_, text)| {
            *text = text
                .replace("version: 0.1.0", &format!("version: {version}"))
                .replace("{{ .Release.Name }}", "{{ .Release.Name }}-lib");
        });
        files
    };
    upstream.write_all(&umbrella).unwrap();
    upstream.write_all(&library("0.1.0", "one")).unwrap();
    let first = upstream.push("main", "Add charts").unwrap();
    let server = HttpServer::start(&replay.world.upstreams, Scheme::Http).unwrap();
    let releases = replay.world.releases.clone();
    let mut spec = app(&server.url("r1"), "umb");
    spec["chart"]["path"] = json!("charts/umb");
    releases.apply("umb", &spec).await.unwrap();
    replay.live("umb", &first, "umbrella").await;
    replay.live_marker("umb-lib", "one").await;

    // The same version, and nothing of the umbrella itself.
    upstream.write_all(&library("0.1.0", "two")).unwrap();
    let second = upstream.push("main", "Change lib").unwrap();
    Replay::holds(&server);
    replay.world.sync().await.unwrap();
    server.stalled().await.unwrap();
    replay.strike().await;
    Replay::goes_on(&server);
    replay.live("umb", &second, "umbrella").await;
    replay.live_marker("umb-lib", "two").await;
    replay.has_revisions("umb", 2);

    // A version that the umbrella doesn't ask for: told, and what runs stays.
    upstream.write_all(&library("0.2.0", "three")).unwrap();
    upstream.push("main", "Release lib").unwrap();
    replay.world.sync().await.unwrap();
    let told = releases
        .condition("umb", "Ready", "False", "0.2.0")
        .await
        .unwrap();
    assert!(told.contains("\"lib\"") && told.contains("0.1.0"), "{told}");
    replay.live_marker("umb-lib", "two").await;
    replay.has_revisions("umb", 2);
    replay.ends_well().await;
}
