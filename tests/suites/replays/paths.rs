//! Charts that move, lose their Chart.yaml, can't be rendered, or lie where nobody looks.

use serde_json::{Value, json};
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme, Upstream};

use crate::common::{Replay, app, repository};

replays! {
    /// A8: helm-operator#327, flux#1376, helm-operator#108, helm-controller#1095.
    a08_a_chart_that_is_lost_is_named_kept_and_upgraded_in_place

    /// A8, its spellings.
    a08_every_spelling_of_a_path_is_that_path
}

/// The charts of the repository that loses them, each in the folder of its name.
const LOST: [&str; 5] = ["moved", "without", "lower", "broken", "branch"];

fn path(path: &str) -> Value {
    json!({"spec": {"chart": {"path": path}}})
}

fn write(upstream: &Upstream, folder: &str, marker: &str) {
    let files = charts::config_map(&format!("charts/{folder}"), marker);
    upstream.write_all(&files).unwrap();
}

async fn a08_a_chart_that_is_lost_is_named_kept_and_upgraded_in_place(mut replay: Replay) {
    let upstream = replay.world.upstreams.create("r1").unwrap();
    upstream.write("README", "no charts here").unwrap();
    let bare = upstream.push("bare", "Begin without charts").unwrap();
    for name in LOST.into_iter().chain(["whole"]) {
        write(&upstream, name, "one");
    }
    let first = upstream.push("main", "Add charts").unwrap();
    let server = HttpServer::start(&replay.world.upstreams, Scheme::Http).unwrap();
    let releases = replay.world.releases.clone();
    let mut uids = Vec::new();
    for name in LOST.into_iter().chain(["whole", "never"]) {
        let mut spec = app(&server.url("r1"), name);
        spec["chart"]["path"] = json!(format!("charts/{name}"));
        releases.apply(name, &spec).await.unwrap();
    }
    for name in LOST {
        replay.live(name, &first, "one").await;
        uids.push(replay.uid(name).await);
    }
    replay.live("whole", &first, "one").await;

    // One push breaks all but one of them.
    let git = |args: &[&str]| upstream.run(args).map(drop).unwrap();
    write(&upstream, "moved", "two");
    git(&["add", "--all"]);
    git(&["mv", "charts/moved", "charts/elsewhere"]);
    git(&["rm", "--quiet", "charts/without/Chart.yaml"]);
    git(&["mv", "charts/lower/Chart.yaml", "charts/lower/chart.yaml"]);
    let unbalanced = "data: {{ \"never closed }}\n";
    upstream
        .write("charts/broken/templates/broken.yaml", unbalanced)
        .unwrap();
    write(&upstream, "whole", "two");
    let second = upstream.push("main", "Break charts").unwrap();
    let reference = |name: &str| json!({"spec": {"chart": {"ref": name}}});
    releases.patch("branch", &reference("bare")).await.unwrap();
    replay.world.sync().await.unwrap();
    replay.live("whole", &second, "two").await;
    let tells = [
        ("moved", &second, "there is no folder"),
        ("never", &second, "there is no folder"),
        ("without", &second, "there is no Chart.yaml"),
        ("lower", &second, "chart.yaml"),
        ("branch", &bare, "there is no folder"),
    ];
    for struck in [false, true] {
        if struck {
            replay.strike().await;
            replay.neighbour_goes_on().await;
        }
        for (name, commit, words) in tells {
            let told = releases.condition(name, "Ready", "False", &commit[..12]);
            let told = told.await.unwrap();
            let path = format!("charts/{name}");
            assert!(told.contains(words) && told.contains(&path), "{told}");
        }
        let told = releases.condition("broken", "Ready", "False", "unterminated");
        let told = told.await.unwrap();
        assert!(told.contains("broken/templates/broken.yaml"), "{told}");
        let broken = releases.get("broken").await.unwrap();
        assert_eq!(broken.status("lastAttemptedRevision"), second.as_str());
        for name in LOST {
            replay.live_marker(name, "one").await;
            replay.has_revisions(name, 1);
        }
        assert!(
            replay
                .world
                .helm
                .history(&replay.world.namespace, "never")
                .unwrap()
                .is_empty()
        );
    }

    // All of it is mended, in the middle of whose fetch it happens.
    for name in ["without", "lower", "broken", "branch", "never"] {
        write(&upstream, name, "three");
    }
    git(&["rm", "--quiet", "--force", "charts/lower/chart.yaml"]);
    git(&["rm", "--quiet", "charts/broken/templates/broken.yaml"]);
    let third = upstream.push("main", "Mend charts").unwrap();
    Replay::holds(&server);
    releases
        .patch("moved", &path("charts/elsewhere"))
        .await
        .unwrap();
    releases.patch("branch", &reference("main")).await.unwrap();
    replay.world.sync().await.unwrap();
    server.stalled().await.unwrap();
    replay.strike().await;
    Replay::goes_on(&server);
    // What lies elsewhere now was there at the second push already.
    replay.live_marker("moved", "two").await;
    for name in ["without", "lower", "broken", "branch", "never"] {
        replay.live(name, &third, "three").await;
    }
    for (name, uid) in LOST.into_iter().zip(uids) {
        releases.released(name).await.unwrap();
        assert_eq!(replay.uid(name).await, uid, "{name} was upgraded in place");
        replay.has_revisions(name, 2);
    }
    replay.has_revisions("whole", 2);
    replay.has_revisions("never", 1);
    replay.ends_well().await;
}

async fn a08_every_spelling_of_a_path_is_that_path(mut replay: Replay) {
    let nested = repository(&replay.world, "nested", "one");
    // The root of the other repository is the chart itself.
    let root = replay.world.upstreams.create("root").unwrap();
    let at_root = |marker: &str| {
        for (file, content) in charts::config_map("root", marker) {
            let file = file.trim_start_matches("root/");
            root.write(file, content).unwrap();
        }
        root.push("main", marker).unwrap()
    };
    at_root("one");
    let server = HttpServer::start(&replay.world.upstreams, Scheme::Http).unwrap();
    let releases = replay.world.releases.clone();
    let spellings = [
        ("plain", "nested", "charts/app"),
        ("slash", "nested", "charts/app/"),
        ("rooted", "nested", "/charts/app"),
        ("around", "nested", "./charts//other/../app/."),
        ("dot", "root", "."),
        ("root", "root", "/"),
    ];
    for (name, repository, path) in spellings {
        let mut spec = app(&server.url(repository), name);
        spec["chart"]["path"] = json!(path);
        releases.apply(name, &spec).await.unwrap();
    }
    for (name, ..) in spellings {
        replay.live_marker(name, "one").await;
    }
    let (in_nested, in_root) = (crate::common::push(&nested, "two"), at_root("two"));
    Replay::holds(&server);
    replay.world.sync().await.unwrap();
    server.stalled().await.unwrap();
    replay.strike().await;
    Replay::goes_on(&server);
    for (name, repository, _) in spellings {
        let commit = if repository == "root" {
            &in_root
        } else {
            &in_nested
        };
        replay.live(name, commit, "two").await;
        replay.has_revisions(name, 2);
    }
    replay.ends_well().await;
}
