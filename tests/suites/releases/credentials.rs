//! Credentials of chart sources: rotated, removed, lost, and kept to their namespace.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::DeleteParams};
use serde_json::json;
use tandem_shared::manifest::Reason;
use tandem_tests::git::{HttpServer, Scheme, SshServer};
use tandem_tests::kubernetes::HelmReleases;
use tandem_tests::pair::Extra;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::{app, push, upstream};

pub(crate) fn demand(server: &HttpServer, password: &str) {
    server.set(|knobs| knobs.login = Some(("ada".to_owned(), password.to_owned())));
}

#[tokio::test]
async fn an_ssh_identity_and_its_host_keys_are_rotated_without_a_restart() {
    let world = World::start("ssh-rotated").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let server = SshServer::start(&world.upstreams).unwrap();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    let (identity, known) = (read(server.identity()), read(server.known_hosts()));
    let strange = read(server.wrong_known_hosts().unwrap());
    let other = read(server.identity().with_file_name("other"));
    let releases = world.releases.clone();
    let secret = |identity: &str, known: &str| {
        let (releases, identity, known) = (releases.clone(), identity.to_owned(), known.to_owned());
        async move {
            let values = [
                ("identity", identity.as_str()),
                ("known_hosts", known.as_str()),
            ];
            releases.put_secret("git", &values).await.unwrap();
        }
    };
    secret(&other, &known).await;
    let mut spec = app(&server.url("charts"), "web");
    spec["chart"]["secretRef"] = json!({"name": "git"});
    releases.apply("web", &spec).await.unwrap();
    let refused = releases.condition("web", "ChartFetched", "False", "Permission denied");
    refused.await.unwrap();
    secret(&identity, &known).await;
    releases.released_from("web", &first).await.unwrap();

    for (name, words) in [
        ("host", "Add correct host key"),
        ("key", "Permission denied"),
    ] {
        match name {
            "host" => secret(&identity, &strange).await,
            _ => secret(&other, &known).await,
        }
        let commit = push(&upstream, name);
        world.sync().await.unwrap();
        let told = releases.condition("web", "ChartFetched", "False", words);
        told.await.unwrap();
        secret(&identity, &known).await;
        releases.released_from("web", &commit).await.unwrap();
        releases.marker("web", name).await.unwrap();
    }
}

#[tokio::test]
async fn a_removed_secret_is_no_reason_to_ask_as_nobody() {
    let world = World::start("secret-removed").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    demand(&server, "s3cret");
    let releases = world.releases.clone();
    let values = [("username", "ada"), ("password", "s3cret")];
    releases.put_secret("git", &values).await.unwrap();
    let mut spec = app(&server.url("charts"), "web");
    spec["chart"]["secretRef"] = json!({"name": "git"});
    releases.apply("web", &spec).await.unwrap();
    releases.released_from("web", &first).await.unwrap();

    // Anybody would be let in now.
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    secrets
        .delete("git", &DeleteParams::default())
        .await
        .unwrap();
    let told = releases
        .condition("web", "ChartFetched", "False", "does not exist")
        .await
        .unwrap();
    assert!(told.starts_with("chart.secretRef: "), "{told}");
    server.set(|knobs| knobs.login = None);
    server.clear();
    let second = push(&upstream, "two");
    world.sync().await.unwrap();
    // Who needs none is served meanwhile.
    let (other, commit) = crate::common::upstream(&world, "other", "other");
    let spec = app(&other.file_url(), "other");
    releases.apply("other", &spec).await.unwrap();
    releases.released_from("other", &commit).await.unwrap();
    assert!(server.requests().is_empty());
    releases.marker("web", "one").await.unwrap();

    demand(&server, "s3cret");
    releases.put_secret("git", &values).await.unwrap();
    releases.released_from("web", &second).await.unwrap();
}

#[tokio::test]
async fn an_emptied_credentials_volume_is_waited_for() {
    let mut world = World::start("emptied").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    demand(&server, "s3cret");
    let releases = world.releases.clone();
    let values = [("username", "ada"), ("password", "s3cret")];
    releases.put_secret("git", &values).await.unwrap();
    let mut spec = app(&server.url("charts"), "web");
    spec["chart"]["secretRef"] = json!({"name": "git"});
    releases.apply("web", &spec).await.unwrap();
    releases.released_from("web", &first).await.unwrap();

    // A node that starts again: what lay in memory is gone, and the sidecar comes first.
    world.reconciler_mut().unwrap().kill().unwrap();
    world.sidecar_mut().unwrap().kill().unwrap();
    for entry in std::fs::read_dir(world.volume.credentials()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }
    server.set(|knobs| knobs.login = None);
    server.clear();
    let second = push(&upstream, "two");
    world.sidecar_mut().unwrap().restart().unwrap();
    until("the sidecar to miss the credential", LONG, || async {
        let manifests = world.volume.manifests()?;
        let missed = manifests.iter().any(|manifest| {
            let failure = manifest.failure.as_ref();
            failure.is_some_and(|failure| failure.reason == Reason::CredentialMissing)
        });
        Ok(Look::when(missed, format!("{manifests:?}")))
    })
    .await
    .unwrap();
    assert!(server.requests().is_empty());
    demand(&server, "s3cret");
    world.reconciler_mut().unwrap().restart().unwrap();
    releases.released_from("web", &second).await.unwrap();
    let history = world.helm.history(&world.namespace, "web").unwrap();
    assert_eq!(history.len(), 2, "{history:?}");
}

#[tokio::test]
async fn secrets_of_other_namespaces_are_used_unless_that_is_forbidden() {
    let mut world = World::empty("namespaces").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    demand(&server, "s3cret");
    let elsewhere = world.cluster.namespace("elsewhere").await.unwrap();
    let values = [("username", "ada"), ("password", "s3cret")];
    let there = HelmReleases::new(world.client.clone(), &elsewhere);
    there.put_secret("git", &values).await.unwrap();
    there
        .put_secret("values", &[("values.yaml", "a: 1")])
        .await
        .unwrap();
    let never = "--git-poll-interval=24h";
    let forbidding = Extra::args([never, "--no-cross-namespace-refs"]);
    world
        .start_pair(&Extra::default(), &forbidding)
        .await
        .unwrap();
    let releases = world.releases.clone();

    // Neither for its chart, nor for its values; by its own namespace's name it may.
    let mut web = app(&server.url("charts"), "web");
    web["chart"]["secretRef"] = json!({"name": "git", "namespace": elsewhere});
    releases.apply("web", &web).await.unwrap();
    let mut valued = app(&upstream.file_url(), "valued");
    let key = json!({"name": "values", "namespace": elsewhere});
    valued["valuesFrom"] = json!([{"secretKeyRef": key}]);
    releases.apply("valued", &valued).await.unwrap();
    for (name, field) in [("web", "chart.secretRef"), ("valued", "valuesFrom")] {
        let told = releases
            .condition(name, "Ready", "False", "--no-cross-namespace-refs")
            .await
            .unwrap();
        assert!(told.contains(field), "{told}");
    }
    releases.put_secret("git", &values).await.unwrap();
    let mut own = app(&server.url("charts"), "own");
    own["chart"]["secretRef"] = json!({"name": "git", "namespace": world.namespace});
    releases.apply("own", &own).await.unwrap();
    releases.released_from("own", &first).await.unwrap();
    // A copy under the same name is another source, with a mirror of its own.
    let requests = world.volume.requests().unwrap();
    assert!(requests.iter().all(|request| {
        let secret = request.source.credential.as_ref();
        secret.is_none_or(|secret| secret.namespace == world.namespace)
    }));
    assert!(
        world
            .helm
            .history(&world.namespace, "web")
            .unwrap()
            .is_empty()
    );

    // As helm-operator does it, both are released.
    world.reconciler_mut().unwrap().terminate().unwrap();
    world.start_reconciler(&Extra::args([never])).unwrap();
    releases.released_from("web", &first).await.unwrap();
    releases.released_from("valued", &first).await.unwrap();
    assert_eq!(world.volume.mirrors().unwrap().len(), 3);
}
