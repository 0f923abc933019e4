//! Bad input: a condition and an event that help, a neighbour that goes on, and
//! never the loss of what was good.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::mounts::{self, Mount};
use tandem_tests::pair::{Extra, Role};
use tandem_tests::world::World;
use tandem_tests::{charts, http_client};

use crate::common::{Neighbour, app, upstream};

#[tokio::test]
async fn what_is_wrong_is_said_and_what_was_good_stays() {
    let mut world = World::start("faults").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    upstream.write("empty/values.yaml", "a: 1\n").unwrap();
    upstream
        .write_all(&charts::config_map("broken", "x"))
        .unwrap();
    upstream
        .write("broken/templates/bad.yaml", charts::broken_template())
        .unwrap();
    upstream
        .write_all(&charts::config_map("refused", "x"))
        .unwrap();
    upstream
        .write(
            "refused/templates/bad.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n",
        )
        .unwrap();
    let first = upstream.push("main", "Add bad charts").unwrap();
    let login = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    login.set(|knobs| knobs.login = Some(("ada".into(), "s3cret".into())));
    let mut neighbour = Neighbour::new(&world).await;
    let releases = world.releases.clone();
    let url = upstream.file_url();

    // Each of these replaces the spec of a good release.
    let bad: [(&str, Value, &str); 10] = [
        (
            "host",
            json!({"chart": {"git": "http://no-such-host.invalid/charts.git"}}),
            "no-such-host.invalid",
        ),
        (
            "login",
            json!({"chart": {"git": login.url("charts")}}),
            "charts.git",
        ),
        ("ref", json!({"chart": {"ref": "gone"}}), "gone"),
        (
            "path",
            json!({"chart": {"path": "charts/none"}}),
            "charts/none",
        ),
        (
            "outside",
            json!({"chart": {"path": "../../etc"}}),
            "../../etc",
        ),
        ("chart", json!({"chart": {"path": "empty"}}), "Chart.yaml"),
        (
            "template",
            json!({"chart": {"path": "broken"}}),
            "a name is needed",
        ),
        (
            "object",
            json!({"chart": {"path": "refused"}}),
            "Not_A_Name",
        ),
        ("values", json!({"values": ["not", "a", "map"]}), "values"),
        ("version", json!({"helmVersion": "v2"}), "v2"),
    ];
    for (name, ..) in &bad {
        releases.apply(name, &app(&url, name)).await.unwrap();
    }
    for (name, ..) in &bad {
        releases.released(name).await.unwrap();
    }
    for (name, spec, _) in &bad {
        releases
            .patch(name, &json!({ "spec": spec }))
            .await
            .unwrap();
    }
    for (name, _, words) in &bad {
        let message = releases
            .condition(name, "Ready", "False", words)
            .await
            .unwrap();
        assert!(!message.contains("s3cret"), "{message}");
        let found = releases.wait(name, "Released is False", |found| {
            found
                .condition("Released")
                .is_some_and(|one| one.0 == "False")
        });
        found.await.unwrap();
        releases
            .event(name, "Warning", "FailedReleaseSync", words)
            .await
            .unwrap();
    }
    neighbour.goes_on(&mut world).await;
    for (name, ..) in &bad {
        releases.marker(name, "one").await.unwrap();
        let history = world.helm.history(&world.namespace, name).unwrap();
        assert!(
            history.iter().any(|one| one.revision == 1
                && ["deployed", "superseded"].contains(&one.status.as_str())),
            "{name}: {history:?}"
        );
    }
    // The reasons of the sources stand in their manifests, too.
    let reasons: Vec<String> = world
        .volume
        .manifests()
        .unwrap()
        .into_iter()
        .flat_map(|one| {
            one.failure.into_iter().map(|failure| failure.reason).chain(
                one.results
                    .into_values()
                    .filter_map(|result| result.problem)
                    .map(|problem| problem.reason),
            )
        })
        .map(|reason| reason.to_string())
        .collect();
    for reason in [
        "UnknownHost",
        "AuthenticationFailed",
        "RefNotFound",
        "PathNotFound",
        "InvalidChart",
    ] {
        assert!(
            reasons.iter().any(|one| one == reason),
            "{reason}: {reasons:?}"
        );
    }

    // Put right, each comes back.
    for (name, ..) in &bad {
        let mut good = app(&url, name);
        good["values"] = Value::Null;
        good["helmVersion"] = Value::Null;
        releases
            .patch(name, &json!({ "spec": good }))
            .await
            .unwrap();
    }
    for (name, ..) in &bad {
        releases.released_from(name, &first).await.unwrap();
        releases.marker(name, "one").await.unwrap();
    }
    for role in [
        world.sidecar_mut().unwrap().is_running(),
        world.reconciler_mut().unwrap().is_running(),
    ] {
        assert!(role.unwrap());
    }
}

#[tokio::test]
async fn a_missing_namespace_is_said_and_heals_when_it_appears() {
    let world = World::start("homeless").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    let missing = format!("{}-later", world.namespace);
    let mut spec = app(&upstream.file_url(), "web");
    spec["targetNamespace"] = json!(missing);
    let releases = world.releases.clone();
    releases.apply("web", &spec).await.unwrap();
    let message = releases
        .condition("web", "Ready", "False", "NamespaceMissing")
        .await
        .unwrap();
    assert!(message.contains("create it"), "{message}");
    let metrics = world.reconciler().unwrap().metrics().await.unwrap();
    assert_eq!(metrics.helm_processes(), 0.0, "helm could only fail");
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let made = json!({"metadata": {"name": missing}});
    let made = serde_json::from_value(made).unwrap();
    namespaces
        .create(&PostParams::default(), &made)
        .await
        .unwrap();
    releases.released("web").await.unwrap();
    assert_eq!(world.helm.list(&missing).unwrap(), ["web"]);
    releases.delete("web").await.unwrap();
    releases.gone("web").await.unwrap();
    namespaces
        .delete(&missing, &DeleteParams::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_manifest_of_an_unknown_version_is_refused_in_words() {
    let mut world = World::start("contract").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let releases = world.releases.clone();
    releases
        .apply("web", &app(&upstream.file_url(), "web"))
        .await
        .unwrap();
    releases.released_from("web", &first).await.unwrap();
    world.sidecar_mut().unwrap().terminate().unwrap();
    let folder = world.volume.layout().served.manifests();
    let path = std::fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|one| one == "json"))
        .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let newer = path.with_extension("newer");
    std::fs::write(
        &newer,
        text.replace("tandem.manifest/v1", "tandem.manifest/v9"),
    )
    .unwrap();
    std::fs::rename(&newer, &path).unwrap();
    releases
        .condition("web", "Ready", "False", "tandem.manifest/v9")
        .await
        .unwrap();
    releases.marker("web", "one").await.unwrap();

    // The sidecar sets aside what it can't read and goes on.
    world.sidecar_mut().unwrap().restart().unwrap();
    releases.released_from("web", &first).await.unwrap();
    assert_eq!(
        world.helm.revisions(&world.namespace, "web").unwrap().len(),
        1
    );
}

#[tokio::test]
async fn a_volume_that_is_read_only_is_said_aloud() {
    let Some(mount) = mounts::available() else {
        return;
    };
    let mut world = World::empty("readonly").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let layout = world.volume.layout().clone();
    let served = Mount::ReadOnly {
        path: layout.served.root().to_owned(),
    };
    let wanted = Mount::ReadOnly {
        path: layout.wanted.root().to_owned(),
    };
    let started = world.start_sidecar(&Extra::default().inside(mount, served));
    let words = refusal(started, || world.sidecar()).await;
    assert!(words.to_lowercase().contains("read-only"), "{words}");
    let started = world.start_reconciler(&Extra::default().inside(mount, wanted));
    let words = refusal(started, || world.reconciler()).await;
    assert!(words.to_lowercase().contains("read-only"), "{words}");

    world
        .start_pair(&Extra::default(), &Extra::args(["--git-poll-interval=24h"]))
        .await
        .unwrap();
    world
        .releases
        .apply("web", &app(&upstream.file_url(), "web"))
        .await
        .unwrap();
    world.releases.released_from("web", &first).await.unwrap();
}

/// What a process says that can't do its work: it doesn't start, or isn't ready.
async fn refusal<'a>(
    started: anyhow::Result<()>,
    role: impl FnOnce() -> anyhow::Result<&'a Role>,
) -> String {
    if let Err(error) = started {
        return format!("{error:#}");
    }
    let role = role().unwrap();
    let (status, text) = http_client::get(&format!("http://{}/readyz", role.address()))
        .await
        .unwrap();
    assert_ne!(status, 200);
    format!("{text}\n{}", role.log())
}
