//! Symbolic links in charts: what lies in the repository may be linked to, and nothing else.

use serde_json::json;
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme, Upstream};
use tandem_tests::guard;

use crate::common::{Replay, app};

replays! {
    /// A11: source-controller PR 1931, argo-cd#8379, helm#8540, helm#3700.
    a11_links_within_the_repository_are_followed_and_no_others
}

/// What stands in a file of the machine that no chart may read.
const SECRET: &str = "s3cret-of-the-node";

/// The chart's template and values lie elsewhere in the repository.
fn shared(upstream: &Upstream, marker: &str) {
    for (path, content) in charts::config_map("charts/app", marker) {
        let path = match path.rsplit('/').next() {
            Some("cm.yaml") => "shared/cm.yaml",
            Some("values.yaml") => "env/prod.yaml",
            _ => &path,
        };
        upstream.write(path, content).unwrap();
    }
}

async fn a11_links_within_the_repository_are_followed_and_no_others(mut replay: Replay) {
    let outside = guard::folder("outside").unwrap();
    guard::write(&outside.join("token"), SECRET).unwrap();
    let upstream = replay.world.upstreams.create("r1").unwrap();
    shared(&upstream, "one");
    upstream
        .link("charts/app/templates/cm.yaml", "../../../shared/cm.yaml")
        .unwrap();
    upstream
        .link("charts/app/values.yaml", "../../env/prod.yaml")
        .unwrap();
    let reads = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-read}\ndata: {h: {{ .Files.Get \"files/h\" | quote }}}\n";
    for name in ["turned", "absolute", "climbing", "circle"] {
        let folder = format!("charts/{name}");
        let files = charts::config_map(&folder, "one");
        upstream.write_all(&files).unwrap();
        let path = format!("{folder}/templates/read.yaml");
        upstream.write(&path, reads).unwrap();
    }
    let token = outside.join("token").display().to_string();
    let climbing = format!("{}{token}", "../".repeat(40));
    upstream.link("charts/absolute/files/h", &token).unwrap();
    upstream.link("charts/climbing/files/h", &climbing).unwrap();
    upstream.link("charts/circle/self", "../..").unwrap();
    let first = upstream.push("main", "Add charts").unwrap();

    let server = HttpServer::start(&replay.world.upstreams, Scheme::Http).unwrap();
    let releases = replay.world.releases.clone();
    for name in ["app", "turned", "absolute", "climbing", "circle"] {
        let mut spec = app(&server.url("r1"), name);
        spec["chart"]["path"] = json!(format!("charts/{name}"));
        releases.apply(name, &spec).await.unwrap();
    }
    replay.live("app", &first, "one").await;
    replay.live("turned", &first, "one").await;
    let data = releases.config_map("app").await.unwrap().unwrap();
    assert!(data["values"].contains("kept"), "{data:?}");

    // What is linked to changes, and a chart that was good begins to lead away, in the middle
    // of whose fetch it happens.
    shared(&upstream, "two");
    upstream.link("charts/turned/files/h", &token).unwrap();
    let second = upstream.push("main", "Change what is linked to").unwrap();
    Replay::holds(&server);
    replay.world.sync().await.unwrap();
    server.stalled().await.unwrap();
    replay.strike().await;
    Replay::goes_on(&server);
    replay.live("app", &second, "two").await;
    replay.has_revisions("app", 2);
    for (name, words) in [
        ("turned", "charts/turned/files/h"),
        ("absolute", "charts/absolute/files/h"),
        ("climbing", "charts/climbing/files/h"),
        ("circle", "charts/circle/self"),
    ] {
        let told = releases.condition(name, "Ready", "False", words);
        let told = told.await.unwrap();
        let why = if name == "circle" {
            "circle"
        } else {
            "out of the repository"
        };
        assert!(told.contains(why) && !told.contains(SECRET), "{told}");
    }
    replay.live_marker("turned", "one").await;
    replay.has_revisions("turned", 1);
    for name in ["absolute", "climbing", "circle"] {
        let history = replay.world.helm.history(&replay.world.namespace, name);
        assert!(history.unwrap().is_empty(), "{name}");
    }
    let found = replay.world.volume.find(SECRET).unwrap();
    assert!(found.is_empty(), "{found:?}");

    // It leads nowhere any more.
    upstream
        .run(&["rm", "--quiet", "charts/turned/files/h"])
        .unwrap();
    let files = charts::config_map("charts/turned", "three");
    upstream.write_all(&files).unwrap();
    let third = upstream.push("main", "Mend a chart").unwrap();
    replay.world.sync().await.unwrap();
    replay.live("turned", &third, "three").await;
    replay.has_revisions("turned", 2);
    replay.ends_well().await;
}
