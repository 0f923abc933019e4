//! Files behind URLs, asked for by hand.

use tandem_shared::manifest::{Manifest, Reason};
use tandem_shared::source::Source;
use tandem_tests::git::{HttpServer, Scheme, Upstreams};
use tandem_tests::pair::Extra;
use tandem_tests::requests::{content, failure, file, manifest, request, web};
use tandem_tests::volume::Volume;

use crate::common::start;

/// Trusts this authority alone, whatever the machine's own variables say.
fn trusting(authority: String) -> Extra {
    Extra::default()
        .env("SSL_CERT_FILE", authority)
        .env("SSL_CERT_DIR", "")
        .env("GIT_SSL_CAINFO", "")
        .env("GIT_SSL_CAPATH", "")
}

async fn served(volume: &Volume, source: &Source, text: &str) -> Manifest {
    let is = |manifest: &Manifest| {
        let good = manifest.results.get("v")?.good.as_ref()?;
        let files = content(volume, &good.artifact).ok()?;
        Some(files.get("values.yaml").map(String::as_str) == Some(text))
    };
    manifest(volume, source, text, |manifest| is(manifest) == Some(true))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_url_is_followed_over_tls_and_never_into_the_clear() {
    let upstreams = Upstreams::new().unwrap();
    let secure = HttpServer::start(&upstreams, Scheme::Https).unwrap();
    let plain = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    secure.put_file("values.yaml", "a: 1\n");
    plain.put_file("values.yaml", "a: clear\n");
    let authority = secure.authority().display().to_string();
    let (volume, mut role) = start(&trusting(authority)).await;

    let source = web(&secure.file_url("values.yaml"));
    let mut asked = request(&source, [file("v", "", "values.yaml")]);
    volume.ask(&asked).unwrap();
    let first = served(&volume, &source, "a: 1\n").await;

    // Downwards, it isn't followed; what was good stays.
    secure.set(|knobs| knobs.redirect = Some(plain.base()));
    asked.refresh = "downwards".to_owned();
    volume.ask(&asked).unwrap();
    let told = failure(&volume, &source, &[Reason::Remote]).await.unwrap();
    assert!(told.contains("in the clear"), "{told}");
    assert!(plain.requests().is_empty());
    let failing = volume.manifest(&source).unwrap().unwrap();
    assert_eq!(failing.results, first.results);

    // Upwards it is.
    secure.set(|knobs| knobs.redirect = None);
    plain.set(|knobs| knobs.redirect = Some(secure.base()));
    let upwards = web(&plain.file_url("values.yaml"));
    volume
        .ask(&request(&upwards, [file("v", "", "values.yaml")]))
        .unwrap();
    served(&volume, &upwards, "a: 1\n").await;

    // Back over a restart, and along with what changes.
    role.terminate().unwrap();
    secure.put_file("values.yaml", "a: 2\n");
    role.restart().unwrap();
    role.ready().await.unwrap();
    served(&volume, &source, "a: 2\n").await;
    served(&volume, &upwards, "a: 2\n").await;
}

#[tokio::test]
async fn who_is_not_trusted_is_not_asked() {
    let upstreams = Upstreams::new().unwrap();
    let secure = HttpServer::start(&upstreams, Scheme::Https).unwrap();
    secure.put_file("values.yaml", "a: 1\n");
    // Another authority than the server's own.
    let stranger = HttpServer::start(&upstreams, Scheme::Https).unwrap();
    let authority = stranger.authority().display().to_string();
    let (volume, _role) = start(&trusting(authority)).await;
    let source = web(&secure.file_url("values.yaml"));
    volume
        .ask(&request(&source, [file("v", "", "values.yaml")]))
        .unwrap();
    let told = failure(&volume, &source, &[Reason::HostNotTrusted])
        .await
        .unwrap();
    assert!(told.contains("SSL_CERT_FILE"), "{told}");
    assert!(secure.requests().is_empty());
}
