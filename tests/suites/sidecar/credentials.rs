//! Who may see which proof of who asks.

use std::path::PathBuf;

use tandem_shared::credentials::{Store, Values};
use tandem_shared::manifest::{Manifest, Reason};
use tandem_shared::request::{Request, Want};
use tandem_shared::source::{CredentialRef, Source};
use tandem_tests::charts;
use tandem_tests::git::{AppKey, HttpServer, Knobs, Scheme, SshServer, TokenServer};
use tandem_tests::pair::Extra;
use tandem_tests::pki::{Authority, Identity};
use tandem_tests::requests::{chart, file, git, good, manifest, request, web};
use tandem_tests::volume::Volume;

use crate::common::{Mounted, start, upstream};

/// A request for `want` with a credential that holds `values`.
fn with(volume: &Volume, source: Source, want: Want, values: &[(&str, &str)]) -> Request {
    let secret = CredentialRef {
        namespace: "demo".into(),
        name: "proof".into(),
    };
    let mut asked = request(&source, [want]);
    asked.credential_id = Some(put(volume, &secret, values));
    asked.source.credential = Some(secret);
    asked
}

fn put(volume: &Volume, secret: &CredentialRef, values: &[(&str, &str)]) -> String {
    let values: Values = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
        .collect();
    let store = Store::open(&volume.credentials()).unwrap();
    store.put(secret, &values).unwrap()
}

/// A chart from git, and a values file behind a URL: of a server that has both.
fn both(server: &HttpServer) -> [(Source, Want); 2] {
    server.put_file("values.yaml", "a: 1\n");
    [
        (
            git(&server.url("charts")),
            chart("app", "main", "charts/app"),
        ),
        (
            web(&server.file_url("values.yaml")),
            file("app", "", "values.yaml"),
        ),
    ]
}

/// Waits until the sidecar has dealt with `asked`, and says so.
async fn answered(volume: &Volume, asked: &Request, holds: impl Fn(&Manifest) -> bool) -> Manifest {
    volume.ask(asked).unwrap();
    manifest(volume, &asked.source, &asked.refresh, |manifest| {
        let seen = manifest.observed_request.as_ref();
        seen.is_some_and(|seen| seen.credential_id == asked.credential_id)
            && manifest.handled_refresh == asked.refresh
            && holds(manifest)
    })
    .await
    .unwrap()
}

/// Waits until it is served, and nothing is wrong.
async fn served(volume: &Volume, asked: &Request) {
    answered(volume, asked, |manifest| {
        let result = manifest.results.get("app");
        manifest.failure.is_none() && result.is_some_and(|result| result.good.is_some())
    })
    .await;
}

/// Waits until it isn't, because of who asks; gives the message. (A server that hangs up
/// leaves git guessing for a while.)
async fn refused(volume: &Volume, asked: &Request) -> String {
    let is_refused = |manifest: &Manifest| {
        let failure = manifest.failure.as_ref();
        failure.is_some_and(|failure| failure.reason == Reason::AuthenticationFailed)
    };
    let manifest = answered(volume, asked, is_refused).await;
    manifest.failure.unwrap().message
}

#[tokio::test]
async fn a_client_certificate_is_shown_to_its_own_origin_alone() {
    let (upstreams, _upstream, _) = upstream();
    let server = HttpServer::start(&upstreams, Scheme::Mutual).unwrap();
    let other = server.beside(&upstreams).unwrap();
    other.put_file("values.yaml", "a: other\n");
    let (volume, role) = start(&Extra::default()).await;
    let authority = std::fs::read_to_string(server.authority()).unwrap();
    let (client, stranger) = (server.client().unwrap(), other_client());
    for (certificate, key, ca) in [
        ("tls.crt", "tls.key", "ca.crt"),
        ("certFile", "keyFile", "caFile"),
    ] {
        for (source, want) in both(&server) {
            let asked = |values: &[(&str, &str)], refresh: &str| {
                let mut asked = with(&volume, source.clone(), want.clone(), values);
                asked.refresh = format!("{refresh} {certificate}");
                asked
            };
            let trusting = (ca, authority.as_str());
            let own = (certificate, client.certificate.as_str());
            let proof = [trusting, own, (key, client.key.as_str())];
            let wrong = [
                trusting,
                (certificate, stranger.certificate.as_str()),
                (key, stranger.key.as_str()),
            ];
            // Who has none isn't let in, and is told what is asked for.
            let told = refused(&volume, &asked(&[trusting], "none")).await;
            assert!(told.contains("tls.crt"), "{told}");
            refused(&volume, &asked(&wrong, "wrong")).await;
            let told = refused(&volume, &asked(&[trusting, own], "half")).await;
            assert!(told.contains(key), "{told}");
            assert!(server.requests().is_empty());
            served(&volume, &asked(&proof, "own")).await;

            // Another origin would let it in, and isn't shown it.
            server.set(|knobs| knobs.redirect = Some(other.base()));
            let redirected = asked(&proof, "redirected");
            answered(&volume, &redirected, |manifest| manifest.failure.is_some()).await;
            assert!(other.requests().is_empty());
            server.set(|knobs| knobs.redirect = None);
            // Until then it is tried again every few seconds.
            served(&volume, &asked(&proof, "back")).await;
            server.clear();
        }
    }
    for secret in [&client.key, &stranger.key] {
        let line = secret.lines().nth(1).unwrap();
        assert!(volume.find(line).unwrap().is_empty());
        assert!(!role.log().contains(line));
    }
}

#[tokio::test]
async fn a_password_and_a_token_reach_their_own_origin_alone() {
    let (upstreams, _upstream, _) = upstream();
    let (volume, role) = start(&Extra::default()).await;
    const PROOFS: [&str; 2] = ["s3cret-password", "s3cret-token"];
    for scheme in [Scheme::Http, Scheme::Https] {
        let server = HttpServer::start(&upstreams, scheme).unwrap();
        let other = server.beside(&upstreams).unwrap();
        let authority = std::fs::read_to_string(server.authority()).unwrap();
        let elsewhere = other.base().replace("127.0.0.1", "localhost");
        for (source, want) in both(&server) {
            other.put_file("values.yaml", "a: other\n");
            for (values, login, token) in [
                (vec![], None, None),
                (
                    vec![("username", "ada"), ("password", PROOFS[0])],
                    Some(("ada".to_owned(), PROOFS[0].to_owned())),
                    None,
                ),
                (
                    vec![("bearerToken", PROOFS[1])],
                    None,
                    Some(PROOFS[1].to_owned()),
                ),
            ] {
                let mut values = values;
                if scheme == Scheme::Https {
                    values.push(("ca.crt", authority.as_str()));
                }
                let mut asked = with(&volume, source.clone(), want.clone(), &values);
                if values.is_empty() {
                    continue;
                }
                let demand = |server: &HttpServer| {
                    server.set(|knobs| {
                        knobs.login.clone_from(&login);
                        knobs.token.clone_from(&token);
                    });
                };
                demand(&server);
                let about = format!("{:?} {}", source.kind, values[0].0);
                asked.refresh = format!("served {about}");
                served(&volume, &asked).await;
                let proven = |server: &HttpServer| {
                    let requests = server.requests();
                    let shown = |one: &tandem_tests::git::Request| one.authorization.is_some();
                    requests.iter().any(shown)
                };
                assert_eq!(proven(&server), login.is_some() || token.is_some());

                // Another origin, which may ask for it or not, by either name.
                for (base, asks) in [
                    (other.base(), false),
                    (other.base(), true),
                    (elsewhere.clone(), false),
                    (elsewhere.clone(), true),
                ] {
                    if asks {
                        demand(&other);
                    } else {
                        other.set(|knobs| *knobs = Knobs::default());
                    }
                    asked.refresh = format!("{base} {asks} {about}");
                    server.set(|knobs| knobs.redirect = Some(base));
                    answered(&volume, &asked, |_| true).await;
                    assert!(!proven(&other), "{}: {:?}", asked.refresh, other.requests());
                }
                server.set(|knobs| knobs.redirect = None);
                server.clear();
                other.clear();
            }
        }
    }
    for proof in PROOFS {
        assert!(volume.find(proof).unwrap().is_empty());
        assert!(!role.log().contains(proof));
    }
}

#[tokio::test]
async fn the_operators_netrc_is_for_its_hosts_alone_and_read_anew() {
    let (upstreams, _upstream, _) = upstream();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let line = |password: &str| format!("machine 127.0.0.1\nlogin ada\npassword {password}\n");
    let mut mounted = Mounted::new(&[".netrc"]);
    mounted.hold(&[(".netrc", &line("s3cret-one"))]);
    let flag = format!("--netrc-file={}", mounted.path(".netrc").display());
    let (volume, role) = start(&Extra::args([flag])).await;
    let demand = |password: &str| {
        server.clear();
        server.set(|knobs| knobs.login = Some(("ada".to_owned(), password.to_owned())));
    };
    let shown = || -> Vec<String> {
        let requests = server.requests().into_iter();
        requests.filter_map(|one| one.authorization).collect()
    };
    for (source, want) in both(&server) {
        let mut asked = request(&source, [want.clone()]);
        for password in ["s3cret-one", "s3cret-two"] {
            demand(password);
            mounted.hold(&[(".netrc", &line(password))]);
            asked.refresh = password.to_owned();
            served(&volume, &asked).await;
        }
        // What is no netrc file, or not there, is no reason to ask as nobody.
        for (content, word) in [
            (&[(".netrc", "machine h\ns3cret-three")][..], "line 2"),
            (&[(".netrc", "default login a password b")], "default"),
            (&[], "can't be read"),
        ] {
            server.clear();
            mounted.hold(content);
            asked.refresh = format!("bad {word}");
            let bad = answered(&volume, &asked, |manifest| manifest.failure.is_some()).await;
            let failure = bad.failure.unwrap();
            assert_eq!(failure.reason, Reason::CredentialMissing);
            assert!(failure.message.contains(word), "{}", failure.message);
            assert!(server.requests().is_empty());
        }
        mounted.hold(&[(".netrc", &line("s3cret-two"))]);
        asked.refresh = "mended".to_owned();
        served(&volume, &asked).await;

        // Another host, and who has a credential of its own.
        server.clear();
        let mut elsewhere = source.clone();
        elsewhere.url = source.url.replace("127.0.0.1", "localhost");
        refused(&volume, &request(&elsewhere, [want.clone()])).await;
        assert_eq!(shown(), Vec::<String>::new());
        let own = with(&volume, source.clone(), want, &[("bearerToken", "s3cret")]);
        refused(&volume, &own).await;
        let shown = shown();
        assert!(!shown.is_empty());
        assert!(shown.iter().all(|one| one == "Bearer s3cret"), "{shown:?}");
    }
    for password in ["s3cret-one", "s3cret-two", "s3cret-three"] {
        assert!(volume.find(password).unwrap().is_empty());
        assert!(!role.log().contains(password));
    }
}

fn files<'a>(identity: &'a str, known: &'a str) -> [(&'static str, &'a str); 2] {
    [("identity", identity), ("known_hosts", known)]
}

#[tokio::test]
async fn the_operators_ssh_key_and_host_keys_are_read_anew() {
    let (upstreams, upstream, _) = upstream();
    let server = SshServer::start(&upstreams).unwrap();
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    let (known, identity) = (read(server.known_hosts()), read(server.identity()));
    let strange = read(server.wrong_known_hosts().unwrap());
    let other = read(server.identity().with_file_name("other"));
    let mut mounted = Mounted::new(&["identity", "known_hosts"]);

    mounted.hold(&files(&other, &known));
    let path = |name: &str| mounted.path(name).display().to_string();
    let flags = [
        format!("--ssh-key-file={}", path("identity")),
        format!("--ssh-known-hosts-file={}", path("known_hosts")),
    ];
    let (volume, _role) = start(&Extra::args(flags)).await;
    let source = git(&server.url("charts"));
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    for (round, marker) in ["first", "second"].into_iter().enumerate() {
        for (name, content, reason) in [
            ("key", files(&other, &known), Reason::AuthenticationFailed),
            ("host", files(&identity, &strange), Reason::HostNotTrusted),
        ] {
            mounted.hold(&content);
            asked.refresh = format!("another {name}, {round}");
            let failing = answered(&volume, &asked, |manifest| manifest.failure.is_some()).await;
            assert_eq!(failing.failure.unwrap().reason, reason, "{name}");
        }
        upstream
            .write_all(&charts::config_map("charts/app", marker))
            .unwrap();
        let commit = upstream.push("main", marker).unwrap();
        mounted.hold(&files(&identity, &known));
        asked.refresh = marker.to_owned();
        volume.ask(&asked).unwrap();
        good(&volume, &source, "app", &commit).await.unwrap();
    }
}

#[tokio::test]
async fn a_github_apps_token_is_asked_for_used_and_renewed() {
    let (upstreams, upstream, _) = upstream();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let (key, other) = (AppKey::new().unwrap(), AppKey::new().unwrap());
    let tokens = TokenServer::start(&key).unwrap();
    let (volume, role) = start(&Extra::default()).await;
    let base = tokens.base();
    let values = |private| {
        [
            ("githubAppID", "12"),
            ("githubAppInstallationID", "34"),
            ("githubAppPrivateKey", private),
            ("githubAppBaseURL", base.as_str()),
        ]
    };
    let demand = |token: &str| {
        server.clear();
        server.set(|knobs| knobs.login = Some(("x-access-token".to_owned(), token.to_owned())));
    };
    let source = git(&server.url("charts"));
    let want = chart("app", "main", "charts/app");
    let mut asked = with(&volume, source.clone(), want.clone(), &values(&key.private));
    let push = |marker: &str| {
        upstream
            .write_all(&charts::config_map("charts/app", marker))
            .unwrap();
        upstream.push("main", marker).unwrap()
    };

    // One is got and used until it ends.
    demand("ghs_one");
    tokens.give("ghs_one", 3600);
    for marker in ["first", "second"] {
        let commit = push(marker);
        asked.refresh = marker.to_owned();
        volume.ask(&asked).unwrap();
        good(&volume, &asked.source, "app", &commit).await.unwrap();
    }
    let stated = tokens.stated();
    assert_eq!(stated.len(), 1, "{stated:?}");
    assert_eq!(stated[0].installation, "34");
    assert_eq!(stated[0].claims["iss"], "12");

    // Revoked, another one is got by itself; that one ends at once.
    demand("ghs_two");
    tokens.give("ghs_two", 0);
    let commit = push("third");
    asked.refresh = "third".to_owned();
    volume.ask(&asked).unwrap();
    good(&volume, &asked.source, "app", &commit).await.unwrap();
    let before = tokens.stated().len();
    assert!(before > 1);

    // What has ended isn't shown to the server any more.
    demand("ghs_three");
    tokens.give("ghs_three", 3600);
    let commit = push("fourth");
    asked.refresh = "fourth".to_owned();
    volume.ask(&asked).unwrap();
    good(&volume, &asked.source, "app", &commit).await.unwrap();
    assert_eq!(tokens.stated().len(), before + 1);
    let refused =
        |one: &tandem_tests::git::Request| one.authorization.is_some() && one.status == Some(401);
    assert!(!server.requests().iter().any(refused));

    // Another key is that of another App.
    let mut wrong = with(
        &volume,
        source.clone(),
        want.clone(),
        &values(&other.private),
    );
    wrong.refresh = "wrong".to_owned();
    server.clear();
    let told = self::refused(&volume, &wrong).await;
    assert!(told.contains("githubAppPrivateKey"), "{told}");
    assert!(tokens.refused() > 0);
    assert!(server.requests().is_empty());

    // A commit that is here is served without a token.
    let pinned = chart("app", &commit, "charts/app");
    let mut here = with(&volume, source.clone(), pinned, &values(&other.private));
    here.refresh = "here".to_owned();
    answered(&volume, &here, |manifest| {
        let good = manifest.results["app"].good.as_ref();
        manifest.failure.is_none()
            && good.is_some_and(|good| good.commit.as_deref() == Some(&*commit))
    })
    .await;

    // And another host gets no token of this one.
    let mut elsewhere = source;
    elsewhere.url = elsewhere.url.replace("127.0.0.1", "localhost");
    let mut elsewhere = with(&volume, elsewhere, want, &values(&key.private));
    elsewhere.refresh = "elsewhere".to_owned();
    let told = self::refused(&volume, &elsewhere).await;
    assert!(told.contains("githubAppBaseURL"), "{told}");
    assert!(server.requests().is_empty());
    assert_eq!(tokens.stated().len(), before + 1);

    let secret = |key: &AppKey| key.private.lines().nth(1).unwrap().to_owned();
    for secret in [
        secret(&key),
        secret(&other),
        "ghs_one".to_owned(),
        "ghs_two".to_owned(),
        "ghs_three".to_owned(),
    ] {
        assert!(volume.find(&secret).unwrap().is_empty());
        assert!(!role.log().contains(&secret));
    }
}

#[tokio::test]
async fn a_github_apps_installation_is_found_by_its_owner() {
    let (upstreams, upstream, _) = upstream();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    server.set(|knobs| knobs.login = Some(("x-access-token".to_owned(), "ghs_one".to_owned())));
    let key = AppKey::new().unwrap();
    let tokens = TokenServer::start(&key).unwrap();
    // Good for no time at all, so that each look asks for one.
    tokens.give("ghs_one", 0);
    let (volume, _role) = start(&Extra::default()).await;
    let base = tokens.base();
    let values = [
        ("githubAppID", "12"),
        ("githubAppInstallationOwner", "acme-corp"),
        ("githubAppPrivateKey", key.private.as_str()),
        ("githubAppBaseURL", base.as_str()),
    ];
    let source = git(&server.url("charts"));
    let mut asked = with(&volume, source, chart("app", "main", "charts/app"), &values);

    let told = refused(&volume, &asked).await;
    assert!(told.contains("githubAppInstallationOwner"), "{told}");
    assert!(tokens.stated().is_empty());
    assert!(server.requests().is_empty());

    // As an organization, as a user, and under another id when it was installed anew.
    for (place, id) in [
        ("orgs/acme-corp", 34),
        ("users/acme-corp", 35),
        ("users/acme-corp", 36),
    ] {
        tokens.install(place, id);
        asked.refresh = format!("{place} {id}");
        upstream
            .write_all(&charts::config_map("charts/app", &asked.refresh))
            .unwrap();
        let commit = upstream.push("main", &asked.refresh).unwrap();
        volume.ask(&asked).unwrap();
        good(&volume, &asked.source, "app", &commit).await.unwrap();
        let stated = tokens.stated();
        assert_eq!(stated.last().unwrap().installation, id.to_string());
    }
}

/// A client of another authority.
fn other_client() -> Identity {
    let authority = Authority::new("another authority").unwrap();
    authority.client("ada", "tests").unwrap()
}
