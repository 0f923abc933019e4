#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use serde_json::json;
use tandem_shared::manifest::Reason;
use ureq::tls::{Certificate, PrivateKey};

use super::*;
use crate::credentials::ClientCertificate;
use crate::testing::server::{Reply, Server, moved, ok, status};

const LONG: Duration = Duration::from_secs(60);
const ARCHIVE: &[u8] = b"archive";

fn allowed() -> BTreeSet<Scheme> {
    [Scheme::Http, Scheme::Https].into()
}

/// The registry at `server`, in the clear.
fn place(server: &Server) -> Place {
    let plain = [server.host()].into();
    place::parse(
        &format!("oci://{}/charts", server.host()),
        &allowed(),
        &plain,
    )
    .unwrap()
}

/// Asks the registry at `server` as `login`.
fn with<T>(
    server: &Server,
    proof: &Access,
    tokens: &mut Tokens,
    ask: impl FnOnce(&mut Registry<'_>) -> T,
) -> T {
    ask(&mut Registry {
        web: &Web::default(),
        place: &place(server),
        trust: &Access::default(),
        proof,
        allowed: &allowed(),
        timeout: LONG,
        tokens,
    })
}

fn digest(server: &Server, proof: &Access) -> Result<String, OciError> {
    with(server, proof, &mut Tokens::default(), |registry| {
        registry.digest("charts/web", "1.0.0")
    })
}

fn password(password: &str) -> Access {
    Access {
        basic: Some(("me".to_owned(), SecretString::from(password.to_owned()))),
        ..Access::default()
    }
}

/// `me:right`, as Basic has it.
const BASIC: &str = "authorization: Basic bWU6cmlnaHQ=";

fn manifest() -> String {
    let config = "application/vnd.cncf.helm.config.v1+json";
    let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    json!({
        "schemaVersion": 2,
        "config": {"mediaType": config, "digest": digest_of(b"{}"), "size": 2},
        "layers": [{"mediaType": layer, "digest": digest_of(ARCHIVE), "size": ARCHIVE.len()}],
    })
    .to_string()
}

fn unauthorized(challenge: &str) -> Reply {
    status(
        "401 Unauthorized",
        &format!("www-authenticate: {challenge}\r\n"),
        b"{}",
    )
}

/// What a registry with one chart answers to whoever it knows.
fn chart(request: &str) -> Reply {
    let manifest = manifest();
    let digest = digest_of(manifest.as_bytes());
    let told = format!("docker-content-digest: {digest}\r\n");
    let path = request.split(' ').nth(1).unwrap();
    match path.strip_prefix("/v2/charts/web/").unwrap_or_default() {
        "manifests/1.0.0" if request.starts_with("HEAD") => ok(&told, b""),
        "manifests/1.0.0" => ok(&told, manifest.as_bytes()),
        rest if rest == format!("manifests/{digest}") => ok("", manifest.as_bytes()),
        rest if rest == format!("blobs/{}", digest_of(ARCHIVE)) => ok("", ARCHIVE),
        _ => status("404 Not Found", "", b"{}"),
    }
}

/// A registry that lets in who has the token that the server at `realm` gives out.
fn behind_token(realm: String) -> Server {
    Server::start(
        move |request| match request.contains("authorization: Bearer t-1\r\n") {
            true => chart(request),
            false => unauthorized(&format!("Bearer realm=\"{realm}\",service=\"reg\"")),
        },
    )
}

/// Gives out a token to whoever has the right password, and to nobody else.
fn tokens() -> Server {
    Server::start(|request| match request.contains(BASIC) {
        true => ok("", br#"{"token":"t-1","expires_in":300}"#),
        false => status("401 Unauthorized", "", b"{}"),
    })
}

#[test]
fn a_chart_comes_by_its_digests() {
    let server = Server::start(chart);
    with(
        &server,
        &Access::default(),
        &mut Tokens::default(),
        |registry| {
            let digest = registry.digest("charts/web", "1.0.0").unwrap();
            let manifest = registry.manifest("charts/web", &digest).unwrap();
            assert_eq!(manifest.digest, digest);
            let archive = registry.blob("charts/web", &manifest.archive, 100).unwrap();
            assert_eq!(archive, ARCHIVE);
            let error = registry
                .blob("charts/web", &manifest.archive, 6)
                .unwrap_err();
            assert_eq!(error.reason(), Reason::TooLarge);
            let missing = registry.digest("charts/web", "1.2").unwrap_err();
            assert!(missing.to_string().contains("1.2.x"), "{missing}");
            let twice = registry.digest("charts/charts", "1.0.0").unwrap_err();
            assert!(twice.to_string().contains("already"), "{twice}");
        },
    );
    let asked = server.asked();
    assert!(
        asked[0].starts_with("HEAD /v2/charts/web/manifests/1.0.0 "),
        "{asked:?}"
    );
    assert!(asked[0].contains("accept: application/vnd.oci.image.manifest.v1+json,"));
    assert!(
        asked.iter().all(|one| !one.contains("authorization")),
        "{asked:?}"
    );
}

#[test]
fn a_registry_that_does_not_say_the_digest_is_asked_for_the_manifest() {
    let server = Server::start(|request| match request.starts_with("HEAD") {
        true => ok("docker-content-digest: odd\r\n", b""),
        false => ok("", manifest().as_bytes()),
    });
    let found = digest(&server, &Access::default()).unwrap();
    assert_eq!(found, digest_of(manifest().as_bytes()));
}

#[test]
fn what_is_not_what_its_digest_says_is_refused() {
    // Anything for any digest.
    let server = Server::start(|request| match request.contains("/blobs/") {
        true => ok("", b"another"),
        false => ok("", manifest().as_bytes()),
    });
    with(
        &server,
        &Access::default(),
        &mut Tokens::default(),
        |registry| {
            let asked = digest_of(b"other");
            let error = registry.manifest("charts/web", &asked).unwrap_err();
            assert!(matches!(&error, OciError::Digest { asked: one, .. } if *one == asked));
            let found = digest_of(manifest().as_bytes());
            let archive = registry.manifest("charts/web", &found).unwrap().archive;
            let error = registry.blob("charts/web", &archive, 100).unwrap_err();
            assert!(matches!(error, OciError::Digest { .. }), "{error}");
            // It says that it is small, and isn't.
            let error = registry
                .blob("charts/web", &Blob { size: 1, ..archive }, 5)
                .unwrap_err();
            assert_eq!(error.reason(), Reason::TooLarge);
        },
    );
}

#[test]
fn a_password_goes_to_the_server_of_tokens_and_a_token_to_the_registry() {
    let tokens = tokens();
    let server = behind_token(tokens.url("/token?x=1"));
    let mut kept = Tokens::default();
    for _ in 0..2 {
        with(&server, &password("right"), &mut kept, |registry| {
            registry.digest("charts/web", "1.0.0").unwrap();
        });
    }
    let asked = tokens.asked();
    assert_eq!(asked.len(), 1, "kept while it is good: {asked:?}");
    let question = "GET /token?x=1&service=reg&scope=repository%3Acharts%2Fweb%3Apull ";
    assert!(asked[0].starts_with(question), "{asked:?}");
    let asked = server.asked();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(!asked[0].contains("authorization"), "{asked:?}");
    assert!(asked.iter().all(|one| !one.contains(BASIC)), "{asked:?}");
}

#[test]
fn an_identity_token_is_sent_as_a_form() {
    let tokens = Server::start(|request| match request.starts_with("POST /t ") {
        true => ok("", br#"{"access_token":"t-1"}"#),
        false => status("404 Not Found", "", b""),
    });
    let server = behind_token(tokens.url("/t"));
    let login = Access {
        identity_token: Some(SecretString::from("secret".to_owned())),
        ..password("wrong")
    };
    digest(&server, &login).unwrap();
    let asked = tokens.asked();
    assert!(
        asked.iter().all(|one| !one.contains("authorization")),
        "{asked:?}"
    );
}

#[test]
fn a_client_certificate_is_for_the_registry_alone() {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["client".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let identity = ureq::tls::ClientCert::new_with_certs(
        &[Certificate::from_pem(certificate.as_bytes()).unwrap()],
        PrivateKey::from_pem(key.serialize_pem().as_bytes()).unwrap(),
    );
    let trust = Access {
        ca: Some("/ca.crt".into()),
        client: Some(ClientCertificate {
            certificate: "/tls.crt".into(),
            key: "/tls.key".into(),
            identity,
        }),
        ..Access::default()
    };
    let place = place::parse("oci://h.test/c", &allowed(), &BTreeSet::new()).unwrap();
    let registry = Registry {
        web: &Web::default(),
        place: &place,
        trust: &trust,
        proof: &Access::default(),
        allowed: &allowed(),
        timeout: LONG,
        tokens: &mut Tokens::default(),
    };
    for (realm, shown) in [
        ("https://h.test/token", true),
        ("https://h.test:8443/token", false),
        ("https://auth.h.test/token", false),
    ] {
        let at = registry.trust_at(&Url::parse(realm).unwrap());
        assert_eq!(at.client.is_some(), shown, "{realm}");
        assert_eq!(at.ca, trust.ca);
    }
}

#[test]
fn no_redirect_gets_a_password_or_a_token() {
    let elsewhere = Arc::new(Server::start(|_| ok("", br#"{"token":"t-1"}"#)));
    let to = elsewhere.url("/stolen");
    let leads_away = Server::start(move |_| moved(&to));
    let server = behind_token(leads_away.url("/token"));
    // The token of the other place is taken; it was given to nobody.
    digest(&server, &password("right")).unwrap();
    let asked = elsewhere.asked();
    assert_eq!(asked.len(), 1);
    assert!(!asked[0].contains("authorization"), "{asked:?}");

    // Blobs lie elsewhere, behind addresses that say by themselves who may have them.
    let blobs = Server::of("archive");
    let to = blobs.url("/blob?signed");
    let tokens = tokens();
    let realm = tokens.url("/token");
    let server = Server::start(move |request| match request.contains("Bearer t-1") {
        true => moved(&to),
        false => unauthorized(&format!("Bearer realm=\"{realm}\"")),
    });
    with(
        &server,
        &password("right"),
        &mut Tokens::default(),
        |registry| {
            let blob = some_blob();
            registry.blob("charts/web", &blob, 100).unwrap();
        },
    );
    let asked = blobs.asked();
    assert!(asked[0].starts_with("GET /blob?signed "), "{asked:?}");
    assert!(!asked[0].contains("authorization"), "{asked:?}");
}

fn some_blob() -> Blob {
    manifest::chart(manifest().as_bytes()).unwrap()
}

#[test]
fn the_challenge_of_another_place_is_not_answered() {
    let tokens = tokens();
    let realm = tokens.url("/token");
    let stranger =
        Server::start(move |_| unauthorized(&format!("Bearer realm=\"{realm}\", Basic realm=x")));
    let to = stranger.url("/x");
    let server = Server::start(move |_| moved(&to));
    let error = digest(&server, &password("right")).unwrap_err();
    assert_eq!(error.reason(), Reason::AuthenticationFailed);
    assert!(tokens.asked().is_empty());
    let asked = stranger.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(!asked[0].contains("authorization"), "{asked:?}");
}

#[test]
fn a_password_is_sent_where_it_is_wanted_and_when() {
    let server = Server::start(|request| match request.contains(BASIC) {
        true => chart(request),
        false => unauthorized("Basic realm=\"reg\""),
    });
    digest(&server, &password("right")).unwrap();
    assert!(!server.asked()[0].contains("authorization"));
    let wrong = digest(&server, &password("wr0ng")).unwrap_err();
    assert!(matches!(wrong, OciError::Login(_)), "{wrong}");
    assert_eq!(wrong.reach(), Reach::Perhaps);
    assert!(!wrong.to_string().contains("wr0ng"));
    let none = digest(&server, &Access::default()).unwrap_err();
    assert!(matches!(none, OciError::NoLogin), "{none}");
    let token = Access {
        bearer: Some(SecretString::from("own".to_owned())),
        ..Access::default()
    };
    digest(&server, &token).unwrap_err();
    assert!(
        server
            .asked()
            .last()
            .unwrap()
            .contains("authorization: Bearer own")
    );
}

#[test]
fn whose_fault_a_refusal_is_is_told_apart() {
    let server = behind_token(tokens().url("/gone"));
    let gone = digest(&server, &password("right")).unwrap_err();
    assert!(matches!(gone, OciError::Token(..)), "{gone}");
    assert_eq!(gone.reason(), Reason::Unreachable);

    let tokens = tokens();
    let server = behind_token(tokens.url("/token"));
    let wrong = digest(&server, &password("wr0ng")).unwrap_err();
    assert!(matches!(wrong, OciError::Login(_)), "{wrong}");
    assert_eq!(wrong.reach(), Reach::Perhaps, "others may be asked without");

    // A token is given, and it isn't enough: of this repository alone.
    let realm = Server::of(r#"{"token":"t-2"}"#);
    let server = behind_token(realm.url("/token"));
    let denied = digest(&server, &Access::default()).unwrap_err();
    assert!(matches!(denied, OciError::Denied(..)), "{denied}");
    assert_eq!(denied.reach(), Reach::Chart);
    assert!(denied.to_string().contains("chartPullSecret"), "{denied}");
    assert_eq!(server.asked().len(), 2, "asked no more than twice");

    // As much is meant by servers of tokens that refuse to give one.
    for access in [Access::default(), password("right")] {
        let realm = Server::start(|_| status("403 Forbidden", "", b"{}"));
        let server = behind_token(realm.url("/token"));
        let denied = digest(&server, &access).unwrap_err();
        assert!(matches!(denied, OciError::Denied(..)), "{denied}");
        assert_eq!(denied.reach(), Reach::Chart);
    }

    let nonsense = Server::of("<html>");
    let server = behind_token(nonsense.url("/token"));
    let error = digest(&server, &Access::default()).unwrap_err();
    assert!(matches!(error, OciError::NoToken(..)), "{error}");

    for (code, reach) in [
        ("503 X", Reach::Perhaps),
        ("429 X", Reach::Registry),
        ("400 X", Reach::Chart),
    ] {
        let server = Server::start(move |_| status(code, "", b""));
        let error = digest(&server, &Access::default()).unwrap_err();
        assert_eq!(error.reach(), reach, "{error}");
    }
}

#[test]
fn tags_are_looked_through_page_by_page() {
    let server = Server::start(|request| {
        let path = request.split(' ').nth(1).unwrap();
        let next = |last: &str| {
            format!("link: </v2/charts/web/tags/list?last={last}&n=3>; rel=\"next\"\r\n")
        };
        match path.rsplit_once("last=").map_or("", |(_, rest)| rest) {
            "" => ok(&next("a"), br#"{"tags":["1.0.0","1.2.0","latest"]}"#),
            "a&n=3" => ok(&next("b"), br#"{"tags":["1.10.0","2.0.0"]}"#),
            _ => ok("", br#"{"tags":["0.9.0"]}"#),
        }
    });
    let range = Range::parse("1.x").unwrap();
    let found = with(
        &server,
        &Access::default(),
        &mut Tokens::default(),
        |registry| registry.versions("charts/web", &range, None).unwrap(),
    );
    let versions: Vec<String> = found.versions.iter().map(ToString::to_string).collect();
    assert_eq!(versions.join(" "), "0.9.0 1.0.0 1.2.0 1.10.0 2.0.0");
    assert_eq!((found.tags, server.asked().len()), (6, 3));
}

#[test]
fn a_list_without_an_end_has_one() {
    let server = Server::start(|_| ok("link: <?n=1>; rel=next\r\n", br#"{"tags":["1.0.0"]}"#));
    let range = Range::parse("1.x").unwrap();
    let error = with(
        &server,
        &Access::default(),
        &mut Tokens::default(),
        |registry| registry.versions("charts/web", &range, None).unwrap_err(),
    );
    let OciError::Endless { tags, within } = error else {
        panic!("{error}");
    };
    assert_eq!((tags, within.as_str()), (tags::PAGES, "1000 pages"));
    assert_eq!(server.asked().len(), tags::PAGES);
}

#[test]
fn a_list_of_tags_has_one_deadline_and_one_budget() {
    let range = Range::parse("1.x").unwrap();
    let link = "link: <?n=1>; rel=next\r\n";
    let endless = |server: &Server, timeout: Duration| {
        let listed = with(
            server,
            &Access::default(),
            &mut Tokens::default(),
            |registry| {
                registry.timeout = timeout;
                registry.versions("charts/web", &range, None)
            },
        );
        let error = listed.unwrap_err();
        assert_eq!(error.reason(), Reason::Remote, "{error}");
        let text = error.to_string();
        let (_, text) = text.split_once("no end within ").unwrap();
        text.split_once(" (").unwrap().0.to_owned()
    };
    // Each page comes soon enough, and all of them don't.
    let slow = Server::start(move |_| {
        std::thread::sleep(Duration::from_millis(100));
        ok(link, br#"{"tags":["1.0.0"]}"#)
    });
    assert_eq!(endless(&slow, Duration::from_secs(3)), "3 s");
    assert!(slow.asked().len() > 1);
    let large = Server::start(move |_| {
        let space = usize::try_from(tags::BYTES).unwrap() - 100;
        ok(
            link,
            format!("{{\"tags\":[]{}}}", " ".repeat(space)).as_bytes(),
        )
    });
    assert_eq!(endless(&large, LONG), "64 MiB");
    assert_eq!(large.asked().len(), 9);
}
