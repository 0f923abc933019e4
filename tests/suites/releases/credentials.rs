//! Credentials of chart sources: rotated, removed, lost, and kept to their namespace.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::DeleteParams};
use serde_json::json;
use tandem_shared::manifest::Reason;
use tandem_tests::git::{AppKey, HttpServer, Scheme, SshServer, TokenServer};
use tandem_tests::kubernetes::HelmReleases;
use tandem_tests::pair::Extra;
use tandem_tests::pki::{Authority, Identity};
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::{app, push, upstream};

fn demand(server: &HttpServer, password: &str) {
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

fn certificate<'a>(identity: &'a Identity, authority: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("tls.crt", identity.certificate.as_str()),
        ("tls.key", identity.key.as_str()),
        ("ca.crt", authority),
    ]
}

/// A secret as it may be spelled where it must not be.
fn spellings(secret: &str) -> Vec<String> {
    let encoded: String = secret
        .bytes()
        .map(|byte| match byte {
            b'-' | b'_' => char::from(byte).to_string(),
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect();
    let base64 = |text: &str| STANDARD.encode(text);
    vec![
        secret.to_owned(),
        encoded.to_lowercase(),
        base64(secret),
        base64(&format!("ada:{secret}")),
        base64(&format!("x-access-token:{secret}")),
        encoded,
    ]
}

#[tokio::test]
async fn no_secret_of_any_source_is_shown_anywhere() {
    let world = World::start("redaction").await.unwrap();
    let (upstream, commit) = upstream(&world, "charts", "one");
    let releases = world.releases.clone();
    let http = |scheme| HttpServer::start(&world.upstreams, scheme).unwrap();
    let (slash, encoded, token) = (http(Scheme::Http), http(Scheme::Http), http(Scheme::Http));
    let (mutual, app_host) = (http(Scheme::Mutual), http(Scheme::Http));
    let ssh = SshServer::start(&world.upstreams).unwrap();
    ssh.wrong_known_hosts().unwrap();
    let (key, other_key) = (AppKey::new().unwrap(), AppKey::new().unwrap());
    let tokens = TokenServer::start(&key).unwrap();
    tokens.give("ghs_s3cret", 3600);
    demand(&slash, "sl/ash-s3cret");
    demand(&encoded, "p@ss/enc-s3cret");
    encoded.put_file("values.yaml", "a: 1\n");
    token.set(|knobs| knobs.token = Some("b3arer-s3cret".to_owned()));
    app_host.set(|knobs| knobs.login = Some(("x-access-token".into(), "ghs_s3cret".into())));
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let (known, authority) = (read(&ssh.known_hosts()), read(mutual.authority()));
    let (identity, other) = (
        read(&ssh.identity()),
        read(&ssh.identity().with_file_name("other")),
    );
    let (client, stranger) = (
        mutual.client().unwrap(),
        Authority::new("another")
            .unwrap()
            .client("ada", "x")
            .unwrap(),
    );
    let base = tokens.base();
    let line = |pem: &str| pem.lines().nth(1).unwrap().to_owned();

    // Of each kind one that is let in, and one that isn't.
    let login = |password| vec![("username", "ada"), ("password", password)];
    let ssh_key = |identity| vec![("identity", identity), ("known_hosts", known.as_str())];
    let github = |private| {
        vec![
            ("githubAppID", "12"),
            ("githubAppInstallationID", "34"),
            ("githubAppPrivateKey", private),
            ("githubAppBaseURL", base.as_str()),
        ]
    };
    let by_secret = [
        (
            "slash",
            slash.url("charts"),
            [login("sl/ash-s3cret"), login("wr0ng/ash")],
        ),
        (
            "token",
            token.url("charts"),
            [
                vec![("bearerToken", "b3arer-s3cret")],
                vec![("bearerToken", "wr0ng-b3arer")],
            ],
        ),
        (
            "ssh",
            ssh.url("charts"),
            [ssh_key(&identity), ssh_key(&other)],
        ),
        (
            "certificate",
            mutual.url("charts"),
            [
                certificate(&client, &authority),
                certificate(&stranger, &authority),
            ],
        ),
        (
            "github",
            app_host.url("charts"),
            [github(&key.private), github(&other_key.private)],
        ),
    ];
    let mut specs = Vec::new();
    for (name, url, [good, bad]) in &by_secret {
        for (name, values, is_good) in [
            ((*name).to_owned(), good, true),
            (format!("{name}-refused"), bad, false),
        ] {
            releases.put_secret(&name, values).await.unwrap();
            let mut spec = app(url, &name);
            spec["chart"]["secretRef"] = json!({"name": name});
            specs.push((name, spec, is_good));
        }
    }
    for (name, password, is_good) in [
        ("url", "p%40ss%2Fenc-s3cret", true),
        ("url-refused", "wr0ng%40ss%2Fenc", false),
    ] {
        let with = |url: String| url.replace("://", &format!("://ada:{password}@"));
        specs.push((
            name.to_owned(),
            app(&with(encoded.url("charts")), name),
            is_good,
        ));
        let name = format!("values-{name}");
        let mut spec = app(&upstream.file_url(), &name);
        let values = with(encoded.file_url("values.yaml"));
        spec["valuesFrom"] = json!([{"externalSourceRef": {"url": values}}]);
        specs.push((name, spec, is_good));
    }
    for (name, spec, _) in &specs {
        releases.apply(name, spec).await.unwrap();
    }
    let mut shown = String::new();
    for (name, _, is_good) in &specs {
        if *is_good {
            releases.released_from(name, &commit).await.unwrap();
        } else {
            // Told whose fault it is, wherever it is told first.
            let told = |found: &tandem_tests::kubernetes::HelmRelease| {
                let ready = found.condition("Ready");
                ready.is_some_and(|(is, _, message)| is == "False" && message.contains("127.0.0.1"))
            };
            releases.wait(name, "refused", told).await.unwrap();
        }
        shown += &releases.get(name).await.unwrap().0.data["status"].to_string();
        shown += &format!("{:?}", releases.events(name).await.unwrap());
    }
    shown += &world.sidecar().unwrap().log();
    shown += &world.reconciler().unwrap().log();
    let secrets = [
        "sl/ash-s3cret",
        "wr0ng/ash",
        "b3arer-s3cret",
        "wr0ng-b3arer",
        "p@ss/enc-s3cret",
        "wr0ng@ss/enc",
        "ghs_s3cret",
        &line(&identity),
        &line(&other),
        &line(&client.key),
        &line(&stranger.key),
        &line(&key.private),
        &line(&other_key.private),
    ];
    for secret in secrets {
        for spelling in spellings(secret) {
            let found = world.volume.find(&spelling).unwrap();
            assert!(found.is_empty(), "{spelling} in {found:?}");
            assert!(!shown.contains(&spelling), "{spelling} is shown");
        }
    }
}
