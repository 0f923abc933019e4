//! Releases of charts whose dependencies are downloaded.

use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::helm_repository::HelmRepository;
use tandem_tests::pair::Extra;
use tandem_tests::registry::{Access, Registry};
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::app;

/// `app`, which depends on whatever version 1 of `lib` and of `base` there is.
fn umbrella(repository: &str, registry: &str, marker: &str) -> charts::Files {
    let mut files = charts::config_map("charts/app", marker);
    files[0].1 += &format!(
        "dependencies:\n- {{name: lib, version: ^1.0.0, repository: '{repository}'}}\n- {{name: base, version: 1.x, repository: '{registry}'}}\n"
    );
    files
}

fn part(name: &str, version: &str, marker: &str) -> charts::Files {
    let mut files = charts::config_map(name, marker);
    files.iter_mut().for_each(|(_, text)| {
        // One object each.
        let own = format!("{{{{ .Release.Name }}}}-{name}");
        *text = text.replace("{{ .Release.Name }}", &own);
        *text = text.replace("version: 0.1.0", &format!("version: {version}"));
    });
    files
}

#[tokio::test]
async fn a_newer_dependency_is_released_with_a_change_of_its_chart_alone() {
    let mut world = World::empty("dependencies").await.unwrap();
    let server = HttpServer::start(&world.upstreams, Scheme::Https).unwrap();
    let repository = HelmRepository::new(&server, "stable").unwrap();
    let registry = Registry::start(Access::Open).unwrap();
    let publish = |version: &str, marker: &str| {
        let lib = part("lib", version, marker);
        repository.publish_files("lib", version, &lib).unwrap();
        let base = part("base", version, marker);
        registry.push_files("charts", "base", &base).unwrap();
    };
    publish("1.0.0", "old");
    let (stable, charts) = (repository.url(), registry.url("charts"));
    let upstream = world.upstreams.create("charts").unwrap();
    let push = |marker: &str| {
        let files = umbrella(&stable, &charts, marker);
        upstream.write_all(&files).unwrap();
        upstream.push("main", marker).unwrap()
    };
    let first = push("one");
    let sidecar = Extra::args([
        format!("--helm={}", world.helm.program().display()),
        format!("--plain-http-registries={}", registry.host()),
    ])
    .env("SSL_CERT_FILE", server.authority().display().to_string())
    .env("SSL_CERT_DIR", "")
    .env("GIT_SSL_CAINFO", "")
    .env("GIT_SSL_CAPATH", "");
    let never = Extra::args(["--git-poll-interval=24h"]);
    world.start_pair(&sidecar, &never).await.unwrap();
    let spec = app(&upstream.file_url(), "web");
    world.releases.apply("web", &spec).await.unwrap();
    world.releases.released_from("web", &first).await.unwrap();
    let marked = async |world: &World, marker: &str| {
        for part in ["web-lib", "web-base"] {
            world.releases.marker(part, marker).await.unwrap();
        }
    };
    marked(&world, "old").await;
    // What has to stay: the artifact, what it is made of, and every word of helm's history.
    let served = |world: &World| {
        let found = world.volume.manifests().unwrap().remove(0);
        let mut results = found.results.into_values();
        let good = results.next().unwrap().good.unwrap();
        (good.artifact, good.resolved)
    };
    let history = |world: &World| world.helm.history(&world.namespace, "web").unwrap();
    let before = (served(&world), history(&world));
    assert_eq!(before.1.len(), 1, "{before:?}");

    // Ten looks, with newer ones within the ranges.
    publish("1.1.0", "new");
    for _ in 0..10 {
        world.sync_answered().await.unwrap();
        assert_eq!(served(&world), before.0);
    }
    let reconciler = world.reconciler().unwrap().metrics().await.unwrap();
    assert_eq!(reconciler.helm_processes(), 1.0);

    // Then everything is lost.
    world.sidecar_mut().unwrap().terminate().unwrap();
    world.reconciler_mut().unwrap().terminate().unwrap();
    world.lose_volumes().unwrap();
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
    let decision = world.volume.decision(&world.namespace, "web").unwrap();
    assert_eq!(decision.unwrap().artifact.as_ref(), Some(&before.0.0));
    world.sync_answered().await.unwrap();
    assert_eq!((served(&world), history(&world)), before);
    let found = world.releases.released("web").await.unwrap();
    assert_eq!(found.status("revision"), first.as_str());
    let reconciler = world.reconciler().unwrap().metrics().await.unwrap();
    assert_eq!(reconciler.helm_processes(), 0.0);
    assert_eq!(repository.downloads("lib", "1.1.0"), 0);

    let second = push("two");
    world.sync().await.unwrap();
    world.releases.released_from("web", &second).await.unwrap();
    marked(&world, "new").await;
    assert_eq!(history(&world).len(), 2);
}
