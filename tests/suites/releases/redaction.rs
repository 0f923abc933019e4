//! Every kind of proof, taken and refused, and a search for it in all that is written.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tandem_tests::git::{AppKey, HttpServer, Scheme, SshServer, TokenServer};
use tandem_tests::helm_repository::HelmRepository;
use tandem_tests::pair::Extra;
use tandem_tests::pki::{Authority, Identity};
use tandem_tests::registry::{Access, PASSWORD, Registry, USER};
use tandem_tests::world::World;
use tandem_tests::{charts, guard};

use crate::common::{app, upstream};
use crate::credentials::demand;

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
        base64(&format!("{USER}:{secret}")),
        base64(&format!("x-access-token:{secret}")),
        encoded,
    ]
}

#[tokio::test]
async fn no_secret_of_any_source_is_shown_anywhere() {
    let mut world = World::empty("redaction").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    let releases = world.releases.clone();
    let http = |scheme| HttpServer::start(&world.upstreams, scheme).unwrap();
    let (slash, encoded, token) = (http(Scheme::Http), http(Scheme::Http), http(Scheme::Http));
    let (mutual, app_host) = (http(Scheme::Mutual), http(Scheme::Http));
    let (helm_host, parts_host, closed) =
        (http(Scheme::Http), http(Scheme::Http), http(Scheme::Http));
    let registry = Registry::start(Access::Password).unwrap();
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
    demand(&helm_host, "h/elm-s3cret");
    demand(&parts_host, "n3trc/s3cret");
    demand(&closed, "another");
    let published = |server, name: &str| {
        let repository = HelmRepository::new(server, "charts").unwrap();
        repository.publish(name, "1.0.0", name).unwrap();
        repository.url()
    };
    let helm_url = published(&helm_host, "app");
    let parts = [published(&parts_host, "lib"), published(&closed, "lib")];
    registry.push("charts", "app", "1.0.0", "one").unwrap();
    registry.push("parts", "lib", "1.0.0", "one").unwrap();
    // By another name, the host has another login.
    let by_name = registry.host().replace("127.0.0.1", "localhost");
    let (named, numbered) = (format!("oci://{by_name}/parts"), registry.url("parts"));
    for (name, repository) in [
        ("part", &parts[0]),
        ("part-refused", &parts[1]),
        ("oci-part", &named),
        ("oci-part-refused", &numbered),
    ] {
        let path = format!("charts/{name}");
        let mut files = charts::config_map(&path, "one");
        files[0].1 += &format!(
            "dependencies:\n- {{name: lib, version: ^1, repository: '{repository}', condition: lib.enabled}}\n"
        );
        files[1].1 += "lib: {enabled: false}\n";
        upstream.write_all(&files).unwrap();
    }
    let commit = upstream.push("main", "Add charts with parts").unwrap();
    let netrc = guard::folder("netrc").unwrap().join(".netrc");
    let lines = format!(
        "machine 127.0.0.1 login ada password n3trc/s3cret\nmachine localhost login {USER} password {PASSWORD}\n"
    );
    guard::write(&netrc, lines).unwrap();
    let sidecar = Extra::args([
        format!("--helm={}", world.helm.program().display()),
        format!("--netrc-file={}", netrc.display()),
        format!("--plain-http-registries={},{by_name}", registry.host()),
    ]);
    let never = Extra::args(["--git-poll-interval=24h"]);
    world.start_pair(&sidecar, &never).await.unwrap();
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
            specs.push((name, spec, is_good.then_some(commit.as_str())));
        }
    }
    // Helm repositories and registries, each by a Secret and by its URL.
    let of_version = |url: &str, name: &str| {
        let chart = json!({"repository": url, "name": "app", "version": "1.0.0"});
        json!({"releaseName": name, "chart": chart})
    };
    let registry_url = registry.url("charts");
    let docker = |password| {
        let login = json!({"username": USER, "password": password});
        json!({"auths": {registry.host(): login}}).to_string()
    };
    let configs = [PASSWORD, "wr0ng-pull"].map(docker);
    let pulling = configs
        .each_ref()
        .map(|config| vec![(".dockerconfigjson", config.as_str())]);
    for (name, url, [good, bad]) in [
        (
            "helm",
            &helm_url,
            [login("h/elm-s3cret"), login("wr0ng/elm")],
        ),
        ("oci", &registry_url, pulling),
    ] {
        for (name, values, is_good) in [
            (name.to_owned(), good, true),
            (format!("{name}-refused"), bad, false),
        ] {
            releases.put_secret(&name, &values).await.unwrap();
            let mut spec = of_version(url, &name);
            spec["chart"]["chartPullSecret"] = json!({"name": name});
            specs.push((name, spec, is_good.then_some("1.0.0")));
        }
    }
    for (name, url, login, is_good) in [
        ("helm-url", &helm_url, "ada:h%2Felm-s3cret", true),
        ("helm-url-refused", &helm_url, "ada:wr0ng%2Felm-url", false),
        ("oci-url", &registry_url, "robot:s3cret-of-robot", true),
        (
            "oci-url-refused",
            &registry_url,
            "robot:wr0ng-pull-url",
            false,
        ),
    ] {
        let url = url.replace("://", &format!("://{login}@"));
        specs.push((
            name.to_owned(),
            of_version(&url, name),
            is_good.then_some("1.0.0"),
        ));
    }
    // Dependencies, whose logins are the operator's.
    for (name, is_good) in [
        ("part", true),
        ("part-refused", false),
        ("oci-part", true),
        ("oci-part-refused", false),
    ] {
        let mut spec = app(&upstream.file_url(), name);
        spec["chart"]["path"] = json!(format!("charts/{name}"));
        specs.push((name.to_owned(), spec, is_good.then_some(commit.as_str())));
    }
    for (name, password, is_good) in [
        ("url", "p%40ss%2Fenc-s3cret", true),
        ("url-refused", "wr0ng%40ss%2Fenc", false),
    ] {
        let with = |url: String| url.replace("://", &format!("://ada:{password}@"));
        specs.push((
            name.to_owned(),
            app(&with(encoded.url("charts")), name),
            is_good.then_some(commit.as_str()),
        ));
        let name = format!("values-{name}");
        let mut spec = app(&upstream.file_url(), &name);
        let values = with(encoded.file_url("values.yaml"));
        spec["valuesFrom"] = json!([{"externalSourceRef": {"url": values}}]);
        specs.push((name, spec, is_good.then_some(commit.as_str())));
    }
    for (name, spec, _) in &specs {
        releases.apply(name, spec).await.unwrap();
    }
    let mut shown = String::new();
    for (name, _, expected) in &specs {
        if let Some(revision) = expected {
            releases.released_from(name, revision).await.unwrap();
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
        "h/elm-s3cret",
        "wr0ng/elm",
        "wr0ng/elm-url",
        "n3trc/s3cret",
        PASSWORD,
        "wr0ng-pull",
        "wr0ng-pull-url",
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
