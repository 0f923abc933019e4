//! Releases of charts whose dependencies are downloaded.

use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::helm_repository::HelmRepository;
use tandem_tests::pair::Extra;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::app;

/// `app`, which depends on whatever version 1 of `lib` there is.
fn umbrella(repository: &str, marker: &str) -> charts::Files {
    let mut files = charts::config_map("charts/app", marker);
    files[0].1 +=
        &format!("dependencies:\n- {{name: lib, version: ^1.0.0, repository: {repository}}}\n");
    files
}

fn library(marker: &str) -> charts::Files {
    let mut files = charts::config_map("lib", marker);
    // One object each.
    files.iter_mut().for_each(|(_, text)| {
        *text = text.replace("{{ .Release.Name }}", "{{ .Release.Name }}-lib");
    });
    files
}

#[tokio::test]
async fn a_newer_dependency_is_released_with_a_change_of_its_chart_alone() {
    let mut world = World::empty("dependencies").await.unwrap();
    let server = HttpServer::start(&world.upstreams, Scheme::Https).unwrap();
    let repository = HelmRepository::new(&server, "stable").unwrap();
    repository
        .publish_files("lib", "1.0.0", &library("old"))
        .unwrap();
    let upstream = world.upstreams.create("charts").unwrap();
    upstream
        .write_all(&umbrella(&repository.url(), "one"))
        .unwrap();
    let first = upstream.push("main", "Add app").unwrap();
    let sidecar = Extra::args([format!("--helm={}", world.helm.program().display())])
        .env("SSL_CERT_FILE", server.authority().display().to_string())
        .env("SSL_CERT_DIR", "")
        .env("GIT_SSL_CAINFO", "")
        .env("GIT_SSL_CAPATH", "");
    world
        .start_pair(&sidecar, &Extra::args(["--git-poll-interval=1s"]))
        .await
        .unwrap();
    let spec = app(&upstream.file_url(), "web");
    world.releases.apply("web", &spec).await.unwrap();
    world.releases.released_from("web", &first).await.unwrap();
    let lib = async |world: &World| {
        let found = world.releases.config_map("web-lib").await.unwrap();
        found.unwrap()["marker"].clone()
    };
    assert_eq!(lib(&world).await, "old");

    // Ten polls, with a newer one within the range; then everything is lost.
    repository
        .publish_files("lib", "1.1.0", &library("new"))
        .unwrap();
    let polls = world.sidecar().unwrap().metrics().await.unwrap().polls();
    until("ten polls", LONG, || async {
        let now = world.sidecar()?.metrics().await?.polls() - polls;
        Ok(Look::when(now >= 10.0, now))
    })
    .await
    .unwrap();
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
    assert_eq!(repository.downloads("lib", "1.1.0"), 0);

    upstream
        .write_all(&umbrella(&repository.url(), "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    world.releases.released_from("web", &second).await.unwrap();
    assert_eq!(lib(&world).await, "new");
}
