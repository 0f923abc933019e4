//! The pair on bad input: a condition and an event that help, a neighbour that
//! goes on, and never the loss of what was good.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::time::Duration;

use serde_json::{Value, json};
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme, Upstream};
use tandem_tests::http_client;
use tandem_tests::kubernetes::from_git;
use tandem_tests::mounts::{self, Mount};
use tandem_tests::pair::{Extra, Role};
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

fn upstream(world: &World, name: &str) -> (Upstream, String) {
    let upstream = world.upstreams.create(name).unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "one"))
        .unwrap();
    let commit = upstream.push("main", "Add app").unwrap();
    (upstream, commit)
}

fn app(url: &str, name: &str) -> Value {
    let mut spec = from_git(url, "main", "charts/app");
    spec["releaseName"] = json!(name);
    spec
}

/// A release of another repository, which must go on whatever happens.
struct Neighbour {
    upstream: Upstream,
    pushes: u32,
}

impl Neighbour {
    async fn new(world: &World) -> Self {
        let (upstream, commit) = upstream(world, "neighbour");
        world
            .releases
            .apply("neighbour", &app(&upstream.file_url(), "neighbour"))
            .await
            .unwrap();
        world
            .releases
            .released_from("neighbour", &commit)
            .await
            .unwrap();
        Self {
            upstream,
            pushes: 0,
        }
    }

    async fn goes_on(&mut self, world: &mut World) {
        self.pushes += 1;
        let marker = format!("push {}", self.pushes);
        self.upstream
            .write_all(&charts::config_map("charts/app", &marker))
            .unwrap();
        let commit = self.upstream.push("main", &marker).unwrap();
        world.sync().await.unwrap();
        world
            .releases
            .released_from("neighbour", &commit)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn what_is_wrong_is_said_and_what_was_good_stays() {
    let mut world = World::start("faults").await.unwrap();
    let (upstream, _) = upstream(&world, "charts");
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
async fn a_failed_install_leaves_nothing_and_a_failed_upgrade_goes_forward() {
    let world = World::start("forward").await.unwrap();
    let (upstream, _) = upstream(&world, "charts");
    let releases = world.releases.clone();
    // The second object is refused by the API server after the first was made.
    let bad = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n";
    upstream.write("charts/app/templates/zz.yaml", bad).unwrap();
    upstream.push("main", "Break app").unwrap();
    releases
        .apply("web", &app(&upstream.file_url(), "web"))
        .await
        .unwrap();
    releases
        .condition("web", "Ready", "False", "Not_A_Name")
        .await
        .unwrap();

    upstream
        .run(&["rm", "--quiet", "charts/app/templates/zz.yaml"])
        .unwrap();
    let fixed = upstream.push("main", "Mend app").unwrap();
    world.sync().await.unwrap();
    releases.released_from("web", &fixed).await.unwrap();
    let revisions = world.helm.revisions(&world.namespace, "web").unwrap();
    assert_eq!(
        revisions,
        [(1, "deployed".to_owned())],
        "the failed install removed itself"
    );

    upstream.write("charts/app/templates/zz.yaml", bad).unwrap();
    upstream.push("main", "Break app again").unwrap();
    world.sync().await.unwrap();
    releases
        .condition("web", "Ready", "False", "Not_A_Name")
        .await
        .unwrap();
    releases.marker("web", "one").await.unwrap();
    let uid = world.helm.history(&world.namespace, "web").unwrap();
    assert_eq!(uid[0].status, "deployed", "{uid:?}");

    upstream
        .run(&["rm", "--quiet", "charts/app/templates/zz.yaml"])
        .unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let fixed = upstream.push("main", "Mend app again").unwrap();
    world.sync().await.unwrap();
    releases.released_from("web", &fixed).await.unwrap();
    releases.marker("web", "two").await.unwrap();
    let history = world.helm.history(&world.namespace, "web").unwrap();
    assert_eq!(history.last().unwrap().status, "deployed", "{history:?}");
    assert_eq!(
        history
            .iter()
            .filter(|one| one.status == "deployed")
            .count(),
        1,
        "{history:?}"
    );
}

#[tokio::test]
async fn a_release_that_helm_cannot_store_keeps_its_predecessor() {
    let world = World::start("large").await.unwrap();
    let (upstream, first) = upstream(&world, "charts");
    let releases = world.releases.clone();
    releases
        .apply("web", &app(&upstream.file_url(), "web"))
        .await
        .unwrap();
    releases.released_from("web", &first).await.unwrap();
    let mut state = 1_u32;
    let noise: Vec<u8> = (0..1_200_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect();
    upstream.write("charts/app/files/blob.bin", noise).unwrap();
    upstream.push("main", "Add a blob").unwrap();
    world.sync().await.unwrap();
    releases
        .condition("web", "Ready", "False", "Too long")
        .await
        .unwrap();
    releases.marker("web", "one").await.unwrap();
    assert_eq!(
        world.helm.revisions(&world.namespace, "web").unwrap(),
        [(1, "deployed".to_owned())]
    );
}

#[tokio::test]
async fn deleted_while_its_chart_is_fetched_it_leaves_nothing() {
    let mut world = World::empty("deleted").await.unwrap();
    world
        .start_pair(
            &Extra::args(["--grace=1s", "--rescan-interval=1s"]),
            &Extra::args(["--git-poll-interval=24h"]),
        )
        .await
        .unwrap();
    let (_upstream, _) = upstream(&world, "charts");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    server.set(|knobs| knobs.drip = Some(Duration::from_millis(50)));
    let releases = world.releases.clone();
    releases
        .apply("web", &app(&server.url("charts"), "web"))
        .await
        .unwrap();
    until("the fetch to begin", LONG, || async {
        Ok(Look::when(!server.requests().is_empty(), "no request"))
    })
    .await
    .unwrap();
    releases.delete("web").await.unwrap();
    releases.gone("web").await.unwrap();
    server.set(|knobs| knobs.drip = None);
    until("mirror, manifest and request to go", LONG, || async {
        let volume = &world.volume;
        let left = (
            volume.mirrors()?,
            volume.manifests()?.len(),
            volume.requests()?.len(),
            volume.artifacts()?,
        );
        Ok(Look::when(
            left.0.is_empty() && left.1 == 0 && left.2 == 0 && left.3.is_empty(),
            format!("{left:?}"),
        ))
    })
    .await
    .unwrap();
    assert!(world.helm.list(&world.namespace).unwrap().is_empty());
    assert_eq!(
        world
            .reconciler()
            .unwrap()
            .metrics()
            .await
            .unwrap()
            .helm_processes(),
        0.0
    );
}

#[tokio::test]
async fn deleted_while_it_is_upgraded_it_leaves_nothing() {
    let world = World::start("midway").await.unwrap();
    let (upstream, first) = upstream(&world, "charts");
    let releases = world.releases.clone();
    releases
        .apply("web", &app(&upstream.file_url(), "web"))
        .await
        .unwrap();
    releases.released_from("web", &first).await.unwrap();
    upstream
        .write(
            "charts/app/templates/hook.yaml",
            charts::hook("stuck", "pre-upgrade", ""),
        )
        .unwrap();
    upstream.push("main", "Add a stuck hook").unwrap();
    world.sync().await.unwrap();
    until("the pending upgrade", LONG, || async {
        let records = releases.records("web").await?;
        Ok(Look::when(
            records.iter().any(|one| one["status"] == "pending-upgrade"),
            format!("{records:?}"),
        ))
    })
    .await
    .unwrap();
    releases.delete("web").await.unwrap();
    releases.gone("web").await.unwrap();
    assert!(world.helm.list(&world.namespace).unwrap().is_empty());
    assert_eq!(releases.config_map("web").await.unwrap(), None);
}

#[tokio::test]
async fn a_rotated_secret_is_followed_and_never_shown() {
    let world = World::start("secret").await.unwrap();
    let (upstream, first) = upstream(&world, "charts");
    let server = HttpServer::start(&world.upstreams, Scheme::Https).unwrap();
    let login = |password: &str| Some(("ada".to_owned(), password.to_owned()));
    server.set(|knobs| knobs.login = login("s3cret-one"));
    let releases = world.releases.clone();
    let ca = std::fs::read_to_string(server.authority()).unwrap();
    let secret = |password: &'static str| {
        let ca = ca.clone();
        let releases = releases.clone();
        async move {
            let values = [
                ("username", "ada"),
                ("password", password),
                ("ca.crt", ca.as_str()),
            ];
            releases.put_secret("git", &values).await.unwrap();
        }
    };
    secret("s3cret-one").await;
    let mut spec = app(&server.url("charts"), "web");
    spec["chart"]["secretRef"] = json!({"name": "git"});
    releases.apply("web", &spec).await.unwrap();
    releases.released_from("web", &first).await.unwrap();

    server.set(|knobs| knobs.login = login("s3cret-two"));
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    world.sync().await.unwrap();
    until("the refusal in the manifest", LONG, || async {
        let manifests = world.volume.manifests()?;
        let refused = manifests.iter().any(|one| {
            one.failure
                .as_ref()
                .is_some_and(|failure| failure.reason.to_string() == "AuthenticationFailed")
        });
        Ok(Look::when(refused, format!("{manifests:?}")))
    })
    .await
    .unwrap();
    releases.marker("web", "one").await.unwrap();
    secret("s3cret-two").await;
    releases.released_from("web", &second).await.unwrap();

    let (sidecar, reconciler) = (
        world.sidecar().unwrap().log(),
        world.reconciler().unwrap().log(),
    );
    let status = releases.get("web").await.unwrap().0.data.to_string();
    let events = format!("{:?}", releases.events("web").await.unwrap());
    for password in ["s3cret-one", "s3cret-two"] {
        for (place, text) in [
            ("sidecar", &sidecar),
            ("reconciler", &reconciler),
            ("status", &status),
            ("events", &events),
        ] {
            assert!(!text.contains(password), "{password} in {place}");
        }
        assert!(world.volume.find(password).unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_manifest_of_an_unknown_version_is_refused_in_words() {
    let mut world = World::start("contract").await.unwrap();
    let (upstream, first) = upstream(&world, "charts");
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
    let (upstream, first) = upstream(&world, "charts");
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
