//! Kills, restarts and losses of either process and of the volume.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme, Upstream};
use tandem_tests::kubernetes::from_git;
use tandem_tests::procfs;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

const HOOK: &str = "charts/app/templates/hook.yaml";

fn upstream(world: &World) -> Upstream {
    let upstream = world.upstreams.create("charts").unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "one"))
        .unwrap();
    upstream
}

fn app(url: &str) -> Value {
    let mut spec = from_git(url, "main", "charts/app");
    spec["releaseName"] = json!("web");
    spec
}

async fn record(world: &World, status: &str) {
    world.releases.record("web", status).await.unwrap();
}

async fn config_map_uid(world: &World) -> Option<String> {
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    maps.get("web").await.unwrap().metadata.uid
}

/// The end of a container, or `kill -9` of the one process.
async fn kill_and_restart(world: &mut World, whole: bool) {
    let reconciler = world.reconciler_mut().unwrap();
    if whole {
        reconciler.kill()
    } else {
        reconciler.kill_alone()
    }
    .unwrap();
    reconciler.restart().unwrap();
    reconciler.ready().await.unwrap();
}

#[tokio::test]
async fn killed_in_an_install_it_installs_in_the_end() {
    for whole in [true, false] {
        let mut world = World::start("install").await.unwrap();
        let upstream = upstream(&world);
        upstream
            .write(HOOK, charts::hook("stuck", "pre-install", ""))
            .unwrap();
        upstream.push("main", "Add app with a stuck hook").unwrap();
        world
            .releases
            .apply("web", &app(&upstream.file_url()))
            .await
            .unwrap();
        record(&world, "pending-install").await;
        kill_and_restart(&mut world, whole).await;

        upstream.run(&["rm", "--quiet", HOOK]).unwrap();
        let mended = upstream.push("main", "Remove the hook").unwrap();
        world.sync().await.unwrap();
        world.releases.released_from("web", &mended).await.unwrap();
        world.releases.marker("web", "one").await.unwrap();
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
}

#[tokio::test]
async fn killed_in_an_upgrade_it_goes_forward_and_never_uninstalls() {
    for whole in [true, false] {
        let mut world = World::start("upgrade").await.unwrap();
        let upstream = upstream(&world);
        let first = upstream.push("main", "Add app").unwrap();
        world
            .releases
            .apply("web", &app(&upstream.file_url()))
            .await
            .unwrap();
        world.releases.released_from("web", &first).await.unwrap();
        let uid = config_map_uid(&world).await;

        upstream
            .write(HOOK, charts::hook("stuck", "pre-upgrade", ""))
            .unwrap();
        upstream.push("main", "Add a stuck hook").unwrap();
        world.sync().await.unwrap();
        record(&world, "pending-upgrade").await;
        kill_and_restart(&mut world, whole).await;

        upstream.run(&["rm", "--quiet", HOOK]).unwrap();
        upstream
            .write_all(&charts::config_map("charts/app", "three"))
            .unwrap();
        let third = upstream.push("main", "Remove the hook").unwrap();
        world.sync().await.unwrap();
        world.releases.released_from("web", &third).await.unwrap();
        world.releases.marker("web", "three").await.unwrap();
        assert_eq!(
            config_map_uid(&world).await,
            uid,
            "the release was never uninstalled"
        );
        let history = world.helm.history(&world.namespace, "web").unwrap();
        assert_eq!(
            (history[0].revision, history[0].status.as_str()),
            (1, "superseded"),
            "{history:?}"
        );
        assert_eq!(history.last().unwrap().status, "deployed", "{history:?}");
        assert!(
            history.iter().all(|one| !one.status.starts_with("pending")),
            "{history:?}"
        );
    }
}

#[tokio::test]
async fn helm_killed_alone_has_failed_and_is_run_again() {
    let world = World::start("alone-helm").await.unwrap();
    let upstream = upstream(&world);
    let first = upstream.push("main", "Add app").unwrap();
    let releases = world.releases.clone();
    releases
        .apply("web", &app(&upstream.file_url()))
        .await
        .unwrap();
    releases.released_from("web", &first).await.unwrap();
    let uid = config_map_uid(&world).await;
    upstream
        .write(HOOK, charts::hook("stuck", "pre-upgrade", ""))
        .unwrap();
    upstream.push("main", "Add a stuck hook").unwrap();
    world.sync().await.unwrap();
    record(&world, "pending-upgrade").await;
    let reconciler = world.reconciler().unwrap().pid();
    let helm = procfs::session(reconciler)
        .into_iter()
        .find(|one| one.name == "helm")
        .unwrap();
    let helm = Pid::from_raw(i32::try_from(helm.pid).unwrap()).unwrap();
    rustix::process::kill_process(helm, Signal::KILL).unwrap();
    releases
        .condition("web", "Released", "False", "ended by signal 9")
        .await
        .unwrap();

    // The next try takes its turn, is stuck as well, and gives way to what is mended.
    until("a second try", LONG, || async {
        let states = world.helm.states(&world.namespace, "web")?;
        let again = states == ["deployed", "failed", "pending-upgrade"];
        Ok(Look::when(again, format!("{states:?}")))
    })
    .await
    .unwrap();
    upstream.run(&["rm", "--quiet", HOOK]).unwrap();
    let mended = upstream.push("main", "Remove the hook").unwrap();
    world.sync().await.unwrap();
    releases.released_from("web", &mended).await.unwrap();
    assert_eq!(
        config_map_uid(&world).await,
        uid,
        "it was never uninstalled"
    );
}

#[tokio::test]
async fn an_upgrade_gives_way_to_a_newer_push() {
    let world = World::start("interrupt").await.unwrap();
    let upstream = upstream(&world);
    let first = upstream.push("main", "Add app").unwrap();
    world
        .releases
        .apply("web", &app(&upstream.file_url()))
        .await
        .unwrap();
    world.releases.released_from("web", &first).await.unwrap();
    upstream
        .write(HOOK, charts::hook("stuck", "pre-upgrade", ""))
        .unwrap();
    upstream.push("main", "Add a stuck hook").unwrap();
    world.sync().await.unwrap();
    record(&world, "pending-upgrade").await;
    upstream.run(&["rm", "--quiet", HOOK]).unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "three"))
        .unwrap();
    let third = upstream.push("main", "Remove the hook").unwrap();
    world.sync().await.unwrap();
    world.releases.released_from("web", &third).await.unwrap();
    world.releases.marker("web", "three").await.unwrap();
}

#[tokio::test]
async fn told_to_end_in_an_upgrade_it_ends_and_leaves_nothing_pending() {
    let mut world = World::start("term").await.unwrap();
    let upstream = upstream(&world);
    let first = upstream.push("main", "Add app").unwrap();
    world
        .releases
        .apply("web", &app(&upstream.file_url()))
        .await
        .unwrap();
    world.releases.released_from("web", &first).await.unwrap();
    upstream
        .write(HOOK, charts::hook("stuck", "pre-upgrade", ""))
        .unwrap();
    upstream.push("main", "Add a stuck hook").unwrap();
    world.sync().await.unwrap();
    record(&world, "pending-upgrade").await;
    world.reconciler_mut().unwrap().terminate().unwrap();
    record(&world, "failed").await;
    upstream.run(&["rm", "--quiet", HOOK]).unwrap();
    let mended = upstream.push("main", "Remove the hook").unwrap();
    world.reconciler_mut().unwrap().restart().unwrap();
    world.reconciler().unwrap().ready().await.unwrap();
    world.sync().await.unwrap();
    world.releases.released_from("web", &mended).await.unwrap();
}

#[tokio::test]
async fn killed_in_an_uninstall_it_uninstalls_in_the_end() {
    let mut world = World::start("uninstall").await.unwrap();
    let upstream = upstream(&world);
    // The hook fails by itself soon, then another try makes it anew.
    upstream
        .write(HOOK, charts::hook("slow", "pre-delete", ""))
        .unwrap();
    let first = upstream.push("main", "Add app").unwrap();
    world
        .releases
        .apply("web", &app(&upstream.file_url()))
        .await
        .unwrap();
    world.releases.released_from("web", &first).await.unwrap();
    world.releases.delete("web").await.unwrap();
    record(&world, "uninstalling").await;
    kill_and_restart(&mut world, true).await;
    tandem_tests::kubernetes::complete_jobs(&world.client, &world.namespace, || async {
        Ok(world.releases.records("web").await?.is_empty())
    })
    .await
    .unwrap();
    world.releases.gone("web").await.unwrap();
    assert_eq!(world.releases.config_map("web").await.unwrap(), None);
    assert!(world.helm.list(&world.namespace).unwrap().is_empty());
}

#[tokio::test]
async fn each_goes_on_while_the_other_is_gone() {
    let mut world = World::start("alone").await.unwrap();
    let upstream = upstream(&world);
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    let first = upstream.push("main", "Add app").unwrap();
    world
        .releases
        .apply("web", &app(&server.url("charts")))
        .await
        .unwrap();
    world.releases.released_from("web", &first).await.unwrap();

    // Without the sidecar, killed in a fetch, values still arrive.
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    server.set(|knobs| knobs.drip = Some(Duration::from_millis(50)));
    server.clear();
    world.sync().await.unwrap();
    until("the exchange to begin", LONG, || async {
        Ok(Look::when(!server.requests().is_empty(), "none"))
    })
    .await
    .unwrap();
    world.sidecar_mut().unwrap().kill_alone().unwrap();
    world
        .releases
        .patch("web", &json!({"spec": {"values": {"a": "b"}}}))
        .await
        .unwrap();
    world.releases.released_from("web", &first).await.unwrap();
    assert_eq!(
        world.helm.values(&world.namespace, "web").unwrap(),
        json!({"a": "b"})
    );

    // It returns, and the push arrives.
    server.set(|knobs| knobs.drip = None);
    world.sidecar_mut().unwrap().restart().unwrap();
    world.releases.released_from("web", &second).await.unwrap();

    // Without the reconciler the sidecar serves on; back, it sees what it missed.
    world.reconciler_mut().unwrap().kill().unwrap();
    world
        .releases
        .patch("web", &json!({"spec": {"chart": {"ref": "later"}}}))
        .await
        .unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "later"))
        .unwrap();
    let later = upstream.push("later", "Branch").unwrap();
    world.reconciler_mut().unwrap().restart().unwrap();
    world.releases.released_from("web", &later).await.unwrap();
    world.releases.marker("web", "later").await.unwrap();
}

#[tokio::test]
async fn a_lost_volume_costs_no_upgrade() {
    let mut world = World::start("lost").await.unwrap();
    let upstream = upstream(&world);
    let first = upstream.push("main", "Add app").unwrap();
    let mut spec = app(&upstream.file_url());
    spec["chart"]["ref"] = json!(&first[..9]);
    world.releases.apply("web", &spec).await.unwrap();
    world.releases.released_from("web", &first).await.unwrap();

    for _ in 0..2 {
        world.sidecar_mut().unwrap().kill().unwrap();
        world.reconciler_mut().unwrap().kill().unwrap();
        for folder in [
            world.volume.layout().wanted.root(),
            world.volume.layout().served.root(),
            &world.volume.credentials(),
        ] {
            std::fs::remove_dir_all(folder).unwrap();
            std::fs::create_dir_all(folder).unwrap();
        }
        world.reconciler_mut().unwrap().restart().unwrap();
        world.sidecar_mut().unwrap().restart().unwrap();
        until("a decision that all is well", LONG, || async {
            let decision = world.volume.decision(&world.namespace, "web")?;
            let well = decision
                .as_ref()
                .is_some_and(|one| one.ready && one.artifact.is_some());
            Ok(Look::when(well, format!("{decision:?}")))
        })
        .await
        .unwrap();
        assert_eq!(
            world.helm.revisions(&world.namespace, "web").unwrap(),
            [(1, "deployed".to_owned())]
        );
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
}
