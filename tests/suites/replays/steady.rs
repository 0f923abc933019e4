//! Releases that are upgraded when their chart changes, and only then.

use serde_json::json;
use tandem_shared::source::Source;
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::requests;
use tandem_tests::wait::{LONG, Look, until};

use crate::common::{Replay, app};

replays! {
    /// A14: helm-operator#194, helm-operator#218, helm-operator#457, helm-operator#337.
    a14_a_chart_with_dependencies_is_upgraded_when_it_changes_only
}

const FILE: &str = "files/x";

async fn a14_a_chart_with_dependencies_is_upgraded_when_it_changes_only(mut replay: Replay) {
    let upstream = replay.world.upstreams.create("r1").unwrap();
    // What the ConfigMap shows is a file of the chart, which is no template and no value.
    let marker = format!("{{{{ .Files.Get \"{FILE}\" | quote }}}}");
    let names = ["sibling", "vendored"];
    for name in names {
        let path = format!("charts/{name}");
        let files = charts::config_map(&path, &marker);
        upstream.write_all(&files).unwrap();
        let file = format!("{path}/{FILE}");
        upstream.write(&file, "one").unwrap();
    }
    let depends = |chart: &str, on: &str| {
        let own = charts::metadata(chart, "0.1.0");
        let file = format!("charts/{chart}/Chart.yaml");
        let dependencies = format!("{own}dependencies:\n- {on}\n");
        upstream.write(&file, dependencies).unwrap();
    };
    depends(
        "sibling",
        "{name: lib, version: 0.1.0, repository: file://../lib}",
    );
    depends("vendored", "{name: sub, version: 0.1.0}");
    for path in ["charts/lib", "charts/vendored/charts/sub"] {
        let name = path.rsplit('/').next().unwrap();
        let object = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {{{{ .Release.Name }}}}-{name}}}\n"
        );
        let chart = charts::metadata(name, "0.1.0");
        upstream
            .write(&format!("{path}/Chart.yaml"), chart)
            .unwrap();
        let template = format!("{path}/templates/object.yaml");
        upstream.write(&template, object).unwrap();
    }
    let first = upstream.push("main", "Add charts").unwrap();
    let server = HttpServer::start(&replay.world.upstreams, Scheme::Http).unwrap();
    let source = requests::git(&server.url("r1"));
    let releases = replay.world.releases.clone();
    for name in names {
        let mut spec = app(&server.url("r1"), name);
        spec["chart"]["path"] = json!(format!("charts/{name}"));
        releases.apply(name, &spec).await.unwrap();
    }
    for (name, object) in [("sibling", "sibling-lib"), ("vendored", "vendored-sub")] {
        replay.live(name, &first, "one").await;
        let object = releases.config_map(object).await.unwrap();
        assert!(object.is_some(), "{name} came with its dependency");
    }

    // Nothing changes, ten times; in the middle of the sixth it happens.
    idle(&replay, &source, 5).await;
    Replay::holds(&server);
    replay.world.sync().await.unwrap();
    server.stalled().await.unwrap();
    replay.strike().await;
    Replay::goes_on(&server);
    idle(&replay, &source, 5).await;
    for name in names {
        replay.live(name, &first, "one").await;
        replay.has_revisions(name, 1);
    }
    let runs = |metrics: tandem_tests::metrics::Metrics| metrics.helm_processes();
    let before = runs(replay.world.reconciler().unwrap().metrics().await.unwrap());

    // A commit that touches none of them is none of their business.
    upstream.write("README", "charts").unwrap();
    upstream.push("main", "Describe").unwrap();
    idle(&replay, &source, 1).await;
    let after = runs(replay.world.reconciler().unwrap().metrics().await.unwrap());
    assert_eq!(before, after, "no helm ran for a commit beside the charts");

    // Then a file changes, and nothing else.
    for name in names {
        upstream
            .write(&format!("charts/{name}/{FILE}"), "two")
            .unwrap();
    }
    let changed = upstream.push("main", "Change a file").unwrap();
    Replay::holds(&server);
    replay.world.sync().await.unwrap();
    server.stalled().await.unwrap();
    replay.strike().await;
    Replay::goes_on(&server);
    for name in names {
        replay.live(name, &changed, "two").await;
    }
    idle(&replay, &source, 3).await;
    for name in names {
        replay.has_revisions(name, 2);
    }
    replay.ends_well().await;
}

/// Has the source checked so many times, each to its end.
async fn idle(replay: &Replay, source: &Source, times: u32) {
    let world = &replay.world;
    for _ in 0..times {
        world.sync().await.unwrap();
        let requests = world.volume.requests().unwrap();
        let asked = requests.into_iter().find(|one| one.source == *source);
        let token = asked.unwrap().refresh;
        until(format!("the check {token}"), LONG, || async {
            let manifest = world.volume.manifest(source)?;
            let handled = manifest.map(|one| one.handled_refresh).unwrap_or_default();
            Ok(Look::when(handled == token, handled))
        })
        .await
        .unwrap();
    }
}
