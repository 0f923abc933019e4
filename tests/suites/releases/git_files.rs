//! Values from files of git repositories, the chart's own and others.

use serde_json::{Value, json};
use tandem_shared::manifest::Reason;
use tandem_shared::source::{CredentialRef, Source};
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme, Upstream};
use tandem_tests::requests::{failure, git};
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::{app, upstream};

fn with_files(spec: &Value, files: &[Value]) -> Value {
    let mut spec = spec.clone();
    spec["valuesFrom"] = files
        .iter()
        .map(|file| json!({"gitFileRef": file}))
        .collect();
    spec
}

fn values(world: &World, name: &str) -> Value {
    world.helm.values(&world.namespace, name).unwrap()
}

fn revisions(world: &World, names: &[&str]) -> Vec<usize> {
    let history = |name: &&str| world.helm.history(&world.namespace, name).unwrap();
    names.iter().map(|name| history(name).len()).collect()
}

async fn values_become(world: &World, name: &str, wanted: Value) {
    until(format!("{name} to have {wanted}"), LONG, || async {
        let is = values(world, name);
        Ok(Look::when(is == wanted, is.to_string()))
    })
    .await
    .unwrap();
}

/// The commits of the values files that the last decision names.
async fn commits_become(world: &World, name: &str, wanted: &[&str]) {
    until(format!("the commits {wanted:?}"), LONG, || async {
        let decision = world.volume.decision(&world.namespace, name)?;
        let commits: Vec<String> = decision
            .iter()
            .flat_map(|decision| &decision.values_sources)
            .map(|file| file.commit.clone().unwrap_or_default())
            .collect();
        Ok(Look::when(commits == wanted, format!("{decision:?}")))
    })
    .await
    .unwrap();
}

fn push_values(upstream: &Upstream, path: &str, text: &str) -> String {
    upstream.write(path, text).unwrap();
    upstream.push("main", &format!("Change {path}")).unwrap()
}

#[tokio::test]
async fn a_file_of_another_repository_upgrades_those_alone_that_use_it() {
    let mut world = World::start("git-values").await.unwrap();
    let (charts, chart_commit) = upstream(&world, "charts", "one");
    let settings = world.upstreams.create("settings").unwrap();
    let first = push_values(&settings, "env/prod.yaml", "a: 1\n");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    server.set(|knobs| knobs.login = Some(("ada".to_owned(), "s3cret-pass".to_owned())));
    let url = server.url("settings");
    let releases = world.releases.clone();
    let file = json!({
        "git": url, "ref": "main", "path": "env/prod.yaml", "secretRef": {"name": "settings"},
    });
    let web = with_files(&app(&charts.file_url(), "web"), std::slice::from_ref(&file));
    releases.apply("web", &web).await.unwrap();
    // What its repository lacks is told, and who needs nothing of it goes on.
    let other = app(&charts.file_url(), "other");
    releases.apply("other", &other).await.unwrap();
    releases.released("other").await.unwrap();
    let told = releases
        .condition("web", "Released", "False", "/settings")
        .await
        .unwrap();
    assert!(
        told.contains("does not exist") && told.contains("env/prod.yaml"),
        "{told}"
    );
    let login = [("username", "ada"), ("password", "s3cret-pass")];
    releases.put_secret("settings", &login).await.unwrap();
    releases.released_from("web", &chart_commit).await.unwrap();
    assert_eq!(values(&world, "web"), json!({"a": 1}));
    commits_become(&world, "web", &[&first]).await;

    // A push of another file of that repository is no news, one of this file is.
    push_values(&settings, "env/dev.yaml", "a: dev\n");
    let second = push_values(&settings, "env/prod.yaml", "a: 2\n");
    world.sync().await.unwrap();
    values_become(&world, "web", json!({"a": 2})).await;
    releases.released_from("web", &chart_commit).await.unwrap();
    commits_become(&world, "web", &[&second]).await;
    assert_eq!(revisions(&world, &["web", "other"]), [2, 1]);
    let metrics = world.reconciler().unwrap().metrics().await.unwrap();
    assert_eq!(metrics.helm_processes_to("upgrade"), 1.0);

    // An outage takes nothing, whoever is started anew meanwhile.
    server.set(|knobs| knobs.status = Some(503));
    world.sync().await.unwrap();
    let source = Source {
        credential: Some(CredentialRef {
            namespace: world.namespace.clone(),
            name: "settings".to_owned(),
        }),
        ..git(&url)
    };
    failure(
        &world.volume,
        &source,
        &[Reason::Remote, Reason::Unreachable],
    )
    .await
    .unwrap();
    world.sidecar_mut().unwrap().kill().unwrap();
    world.reconciler_mut().unwrap().kill().unwrap();
    world.sidecar_mut().unwrap().restart().unwrap();
    world.reconciler_mut().unwrap().restart().unwrap();
    world.sidecar().unwrap().ready().await.unwrap();
    world.reconciler().unwrap().ready().await.unwrap();
    releases
        .condition("web", "Ready", "True", "values may be old")
        .await
        .unwrap();
    assert_eq!(revisions(&world, &["web", "other"]), [2, 1]);

    push_values(&settings, "env/prod.yaml", "a: 3\n");
    server.set(|knobs| knobs.status = None);
    world.sync().await.unwrap();
    values_become(&world, "web", json!({"a": 3})).await;
    releases.released("web").await.unwrap();
    assert_eq!(revisions(&world, &["web", "other"]), [3, 1]);

    let credentials = world.volume.credentials();
    for found in world.volume.find("s3cret-pass").unwrap() {
        assert!(found.starts_with(&credentials), "{}", found.display());
    }
    let status = releases.get("web").await.unwrap().0.data["status"].to_string();
    let logs = world.sidecar().unwrap().log() + &world.reconciler().unwrap().log();
    assert!(!(status + &logs).contains("s3cret-pass"));
}

#[tokio::test]
async fn a_file_at_the_ref_of_the_chart_comes_from_its_commit_and_another_does_not() {
    let world = World::start("git-beside").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    upstream.write("env/prod.yaml", "a: 1\n").unwrap();
    let first = upstream.push("main", "Add env/prod.yaml").unwrap();
    let url = upstream.file_url();
    let releases = world.releases.clone();
    let same = json!({"git": url, "ref": "main", "path": "env/prod.yaml"});
    let spec = with_files(&app(&url, "same"), &[same]);
    releases.apply("same", &spec).await.unwrap();
    releases.released_from("same", &first).await.unwrap();
    assert_eq!(values(&world, "same"), json!({"a": 1}));
    // Pinned where main was: what moves on main moves the chart alone.
    let pinned = json!({"git": url, "ref": first, "path": "env/prod.yaml"});
    let spec = with_files(&app(&url, "pinned"), &[pinned]);
    releases.apply("pinned", &spec).await.unwrap();
    releases.released_from("pinned", &first).await.unwrap();

    // A newer chart without the file is no chart for those whose file comes with it.
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    upstream.run(&["rm", "-q", "env/prod.yaml"]).unwrap();
    let broken = upstream
        .push("main", "Change app, lose its values")
        .unwrap();
    world.sync().await.unwrap();
    releases.released_from("pinned", &broken).await.unwrap();
    releases.marker("pinned", "two").await.unwrap();
    releases
        .condition("same", "Ready", "False", "env/prod.yaml")
        .await
        .unwrap();
    releases.marker("same", "one").await.unwrap();
    assert_eq!(values(&world, "same"), json!({"a": 1}));
    assert_eq!(revisions(&world, &["same", "pinned"]), [1, 2]);

    let fixed = push_values(&upstream, "env/prod.yaml", "a: 2\n");
    world.sync().await.unwrap();
    values_become(&world, "same", json!({"a": 2})).await;
    releases.marker("same", "two").await.unwrap();
    releases.released("same").await.unwrap();
    // One revision has both; and the file at the pinned commit is what it was.
    assert_eq!(revisions(&world, &["same", "pinned"]), [2, 2]);
    assert_eq!(values(&world, "pinned"), json!({"a": 1}));
    let decision = world.volume.decision(&world.namespace, "same").unwrap();
    assert_eq!(decision.unwrap().values_sources, []);
    commits_become(&world, "pinned", &[&first]).await;

    // A push of that file alone is another revision for those alone that have it from main.
    let last = push_values(&upstream, "env/prod.yaml", "a: 3\n");
    assert_ne!(last, fixed);
    world.sync().await.unwrap();
    values_become(&world, "same", json!({"a": 3})).await;
    releases.released("same").await.unwrap();
    assert_eq!(revisions(&world, &["same", "pinned"]), [3, 2]);
}

#[tokio::test]
async fn a_file_that_is_missing_or_no_yaml_is_told_unless_it_is_optional() {
    let world = World::start("git-missing").await.unwrap();
    let (charts, commit) = upstream(&world, "charts", "one");
    let settings = world.upstreams.create("settings").unwrap();
    push_values(&settings, "base.yaml", "a: base\n");
    push_values(&settings, "broken.yaml", "a: [1\n");
    let file = |path: &str, optional: bool| json!({"git": settings.file_url(), "ref": "main", "path": path, "optional": optional});
    let releases = world.releases.clone();
    let spec = app(&charts.file_url(), "web");
    for (files, told) in [
        (
            [file("base.yaml", false), file("gone.yaml", false)],
            "gone.yaml",
        ),
        (
            [file("base.yaml", false), file("broken.yaml", false)],
            "broken.yaml",
        ),
        (
            [file("base.yaml", false), file("../up.yaml", false)],
            "up.yaml",
        ),
    ] {
        releases
            .apply("web", &with_files(&spec, &files))
            .await
            .unwrap();
        releases
            .condition("web", "Released", "False", told)
            .await
            .unwrap();
    }
    assert!(world.helm.list(&world.namespace).unwrap().is_empty());
    let files = [
        file("base.yaml", false),
        file("broken.yaml", true),
        file("late.yaml", true),
    ];
    releases
        .apply("web", &with_files(&spec, &files))
        .await
        .unwrap();
    releases.released_from("web", &commit).await.unwrap();
    assert_eq!(values(&world, "web"), json!({"a": "base"}));
    // It counts from the commit on that has it.
    push_values(&settings, "late.yaml", "b: late\n");
    world.sync().await.unwrap();
    values_become(&world, "web", json!({"a": "base", "b": "late"})).await;
    releases.released("web").await.unwrap();
    assert_eq!(revisions(&world, &["web"]), [2]);
}
