//! Releases appear, follow pushes and values, and go.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::kubernetes::from_git;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::{app, push, upstream};

#[tokio::test]
async fn a_release_is_installed_follows_a_push_and_goes_with_its_helmrelease() {
    let world = World::start("life").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    let namespace = world.namespace.clone();
    let releases = world.releases.clone();
    releases
        .apply(
            "web",
            &from_git(&server.url("charts"), "main", "charts/app"),
        )
        .await
        .unwrap();
    let installed = releases.released_from("web", &first).await.unwrap();
    // Named as helm-operator names it.
    let release = format!("{namespace}-web");
    assert_eq!(installed.status("releaseName"), release.as_str());
    assert_eq!(installed.status("releaseStatus"), "deployed");
    assert_eq!(installed.status("phase"), "Succeeded");
    for condition in ["Deployed", "Released", "Ready"] {
        assert_eq!(
            installed.condition(condition).unwrap().0,
            "True",
            "{condition}"
        );
    }
    assert_eq!(
        installed
            .condition("Reconciling")
            .map_or("False", |one| one.0),
        "False"
    );
    assert_eq!(
        installed.condition("Stalled").map_or("False", |one| one.0),
        "False"
    );
    releases.marker(&release, "one").await.unwrap();
    releases
        .event("web", "Normal", "ReleaseSynced", "")
        .await
        .unwrap();
    assert_eq!(
        world.helm.revisions(&namespace, &release).unwrap(),
        [(1, "deployed".to_owned())]
    );
    let decision = world.volume.decision(&namespace, "web").unwrap().unwrap();
    assert!(decision.ready, "{decision:?}");

    let second = push(&upstream, "two");
    world.sync().await.unwrap();
    releases.released_from("web", &second).await.unwrap();
    releases.marker(&release, "two").await.unwrap();
    let revisions = world.helm.revisions(&namespace, &release).unwrap();
    assert_eq!(
        revisions,
        [(1, "superseded".to_owned()), (2, "deployed".to_owned())]
    );

    // What dashboards of helm-operator ask for.
    let metrics = world.reconciler().unwrap().metrics().await.unwrap();
    for (action, times) in [("install", 1.0), ("upgrade", 1.0)] {
        let labels = [
            ("action", action),
            ("success", "true"),
            ("target_namespace", namespace.as_str()),
            ("release_name", release.as_str()),
        ];
        let count = "flux_helm_operator_release_action_duration_seconds_count";
        assert_eq!(metrics.sum(count, &labels), times, "{action}");
    }
    let synced = [("action", "sync"), ("success", "true")];
    assert!(
        metrics.sum(
            "flux_helm_operator_release_action_duration_seconds_count",
            &synced
        ) >= 2.0
    );
    assert_eq!(metrics.sum("flux_helm_operator_release_count", &[]), 1.0);
    let ready = [("condition", "Ready"), ("release_name", release.as_str())];
    assert_eq!(
        metrics.sum("flux_helm_operator_release_condition_info", &ready),
        1.0
    );

    assert_eq!(world.volume.requests().unwrap().len(), 1);
    releases.delete("web").await.unwrap();
    releases.gone("web").await.unwrap();
    assert!(world.helm.history(&namespace, &release).unwrap().is_empty());
    assert_eq!(releases.config_map(&release).await.unwrap(), None);
    until("the request and the decision to go", LONG, || async {
        let left = (
            world.volume.requests()?.len(),
            world.volume.decisions()?.len(),
        );
        Ok(Look::when(left == (0, 0), format!("{left:?}")))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn one_changed_chart_of_twenty_upgrades_its_releases_alone() {
    let world = World::start("twenty").await.unwrap();
    let upstream = world.upstreams.create("charts").unwrap();
    for chart in 0..20 {
        upstream
            .write_all(&charts::config_map(&format!("charts/c{chart}"), "one"))
            .unwrap();
    }
    upstream.push("main", "Add twenty charts").unwrap();
    let releases = world.releases.clone();
    let names: Vec<String> = (0..22).map(|number| format!("r{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let mut spec = from_git(
            &upstream.file_url(),
            "main",
            &format!("charts/c{}", number % 20),
        );
        spec["releaseName"] = json!(name);
        releases.apply(name, &spec).await.unwrap();
    }
    for name in &names {
        releases.released(name).await.unwrap();
    }
    assert_eq!(world.volume.mirrors().unwrap().len(), 1);
    let children = world
        .reconciler()
        .unwrap()
        .metrics()
        .await
        .unwrap()
        .helm_processes();

    upstream
        .write_all(&charts::config_map("charts/c1", "two"))
        .unwrap();
    let commit = upstream.push("main", "Change one").unwrap();
    world.sync().await.unwrap();
    for name in ["r1", "r21"] {
        releases.released_from(name, &commit).await.unwrap();
        releases.marker(name, "two").await.unwrap();
    }
    for (number, name) in names.iter().enumerate() {
        let expected = if number % 20 == 1 { 2 } else { 1 };
        let revisions = releases.records(name).await.unwrap().len();
        assert_eq!(revisions, expected, "{name}");
    }
    let after = world
        .reconciler()
        .unwrap()
        .metrics()
        .await
        .unwrap()
        .helm_processes();
    assert_eq!(after - children, 2.0, "one helm for each affected release");
}

#[tokio::test]
async fn values_arrive_as_they_were_written() {
    let world = World::start("values").await.unwrap();
    let upstream = world.upstreams.create("charts").unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "one"))
        .unwrap();
    let defaults = "default: kept\nnul: {a: 1, b: 2}\nlist: [1, 2, 3]\n";
    upstream.write("charts/app/values.yaml", defaults).unwrap();
    upstream
        .write(
            "charts/plain/Chart.yaml",
            charts::metadata("plain", "0.1.0"),
        )
        .unwrap();
    upstream
        .push("main", "Add app, and a chart that shows nothing")
        .unwrap();
    let mut spec = app(&upstream.file_url(), "web");
    spec["values"] = json!({
        "nul": {"a": null},
        "list": [9],
        "yes": "yes", "octal": "0777", "exponent": "123e456", "hex": "0x1F", "under": "1_000",
        "multi": "l1\n l2\n", "unicode": "\u{2028}😀/", "empty": "", "true": true, "half": 0.5,
        "template": "{{ .Release.Name }}",
    });
    let releases = world.releases.clone();
    releases.apply("web", &spec).await.unwrap();
    releases.released("web").await.unwrap();
    let seen = |data: Option<BTreeMap<String, String>>| -> Value {
        serde_json::from_str(&data.unwrap()["values"]).unwrap()
    };
    let values = seen(releases.config_map("web").await.unwrap());
    let mut expected = spec["values"].clone();
    expected["nul"] = json!({"b": 2});
    expected["default"] = json!("kept");
    assert_eq!(values, expected);

    // An edit is one upgrade; taking everything back gives the defaults.
    spec.as_object_mut().unwrap().remove("values");
    releases
        .patch("web", &json!({"spec": {"values": null}}))
        .await
        .unwrap();
    until("the defaults", LONG, || async {
        let values = seen(releases.config_map("web").await?);
        let holds =
            values == json!({"default": "kept", "nul": {"a": 1, "b": 2}, "list": [1, 2, 3]});
        Ok(Look::when(holds, values))
    })
    .await
    .unwrap();
    releases.released("web").await.unwrap();
    assert_eq!(
        world.helm.revisions(&world.namespace, "web").unwrap().len(),
        2
    );

    // Characters that YAML reads as others, or not at all. They can't be in an
    // object that helm applies, but they can be in values.
    let mut plain = from_git(&upstream.file_url(), "main", "charts/plain");
    plain["releaseName"] = json!("plain");
    plain["values"] = json!({"controls": "\u{7f}\u{85}\u{9f}\u{2028}\u{2029}\u{feff}\u{fffe}\u{ffff}", "key \u{85}": "\u{1}\t"});
    releases.apply("plain", &plain).await.unwrap();
    releases.released("plain").await.unwrap();
    assert_eq!(
        world.helm.values(&world.namespace, "plain").unwrap(),
        plain["values"]
    );

    // What changes nothing for the chart is no upgrade.
    releases
        .patch("web", &json!({"spec": {"timeout": 77, "maxHistory": 5}}))
        .await
        .unwrap();
    releases.released("web").await.unwrap();
    assert_eq!(
        world.helm.revisions(&world.namespace, "web").unwrap().len(),
        2
    );
}

#[tokio::test]
async fn a_new_helmrelease_sees_what_was_pushed_before_it() {
    let world = World::start("fresh").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let releases = world.releases.clone();
    releases
        .apply("web", &app(&upstream.file_url(), "web"))
        .await
        .unwrap();
    releases.released_from("web", &first).await.unwrap();
    // No poll and no webhook: the HelmRelease itself is the sign.
    upstream
        .write_all(&charts::config_map("charts/new", "new"))
        .unwrap();
    let second = upstream.push("main", "Add another chart").unwrap();
    let mut spec = from_git(&upstream.file_url(), "main", "charts/new");
    spec["releaseName"] = json!("new");
    releases.apply("new", &spec).await.unwrap();
    releases.released_from("new", &second).await.unwrap();
}
