#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

use sha2::{Digest as _, Sha256};
use tandem_shared::manifest::{Manifest, Reason, SourceState, WantResult};
use tandem_shared::request::{Want, WantKind};
use tandem_shared::source::SourceKind;

use crate::testing::server::{Server, ok, status};
use crate::testing::{Sidecar, good, packed, problem, reason, want};

/// A repository that people publish to, behind a server that knows tags.
#[derive(Clone, Default)]
struct Published {
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    entries: Arc<Mutex<Vec<(String, String)>>>,
}

impl Published {
    /// Publishes a chart, in the place of one of that version.
    fn chart(&self, name: &str, version: &str, marker: &str) {
        let content = packed(name, version, marker);
        let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(&content));
        self.entry(
            name,
            version,
            &format!("{name}-{version}.tgz"),
            Some(&digest),
        );
        self.put(&format!("/charts/{name}-{version}.tgz"), content);
    }

    fn entry(&self, name: &str, version: &str, url: &str, digest: Option<&str>) {
        let digest = digest.map_or(String::new(), |digest| format!(", digest: {digest}"));
        self.gone(name, version);
        let entry = format!("{{version: {version}, urls: ['{url}']{digest}}}");
        self.entries.lock().unwrap().push((name.to_owned(), entry));
        self.write_index();
    }

    /// Takes a version out of the index.
    fn gone(&self, name: &str, version: &str) {
        let begins = format!("{{version: {version},");
        let mut entries = self.entries.lock().unwrap();
        entries.retain(|(of, entry)| of != name || !entry.starts_with(&begins));
        drop(entries);
        self.write_index();
    }

    fn write_index(&self) {
        let mut charts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, entry) in self.entries.lock().unwrap().iter() {
            charts.entry(name.clone()).or_default().push(entry.clone());
        }
        let charts: Vec<String> = charts
            .into_iter()
            .map(|(name, entries)| format!("{name}: [{}]", entries.join(", ")))
            .collect();
        let index = format!("apiVersion: v1\nentries: {{{}}}\n", charts.join(", "));
        self.put("/charts/index.yaml", index.into_bytes());
    }

    fn put(&self, path: &str, content: Vec<u8>) {
        self.files.lock().unwrap().insert(path.to_owned(), content);
    }

    fn serve(&self) -> Server {
        let files = Arc::clone(&self.files);
        Server::start(move |request| {
            let path = request.split([' ', '?']).nth(1).unwrap();
            let files = files.lock().unwrap();
            let Some(content) = files.get(path) else {
                return status("404 Not Found", "", b"");
            };
            let tag = data_encoding::HEXLOWER.encode(&Sha256::digest(content));
            if request.contains(&format!("if-none-match: \"{tag}\"")) {
                return status("304 Not Modified", "", b"");
            }
            ok(&format!("etag: \"{tag}\"\r\n"), content)
        })
    }
}

fn chart(name: &str, version: &str) -> Want {
    let mut want = want(WantKind::Chart, None, name);
    want.spec.version = Some(version.to_owned());
    want.key = format!("{name}:{version}");
    want
}

fn sidecar(server: &Server, wants: Vec<Want>) -> Sidecar {
    let mut sidecar = Sidecar::new(&server.url("/charts"), wants);
    sidecar.request.source.kind = SourceKind::Helm;
    sidecar
}

fn version<'a>(manifest: &'a Manifest, key: &str) -> &'a str {
    let good = manifest.results[key].good.as_ref().unwrap();
    good.version.as_deref().unwrap()
}

/// How often paths that end so were asked for.
fn asked(server: &Server, end: &str) -> usize {
    let asked = server.asked();
    let paths = asked
        .iter()
        .filter_map(|request| request.split([' ', '?']).nth(1));
    paths.filter(|path| path.ends_with(end)).count()
}

#[test]
fn a_range_moves_only_when_a_newer_match_appears() {
    let published = Published::default();
    published.chart("web", "1.0.0", "one");
    published.chart("web", "2.0.0", "far");
    let server = published.serve();
    let mut sidecar = sidecar(&server, vec![chart("web", "1.x")]);
    let first = sidecar.poll();
    let found = good(&first, "web:1.x");
    assert_eq!(found.version.as_deref(), Some("1.0.0"));
    assert_eq!(sidecar.content(found)["templates/cm.yaml"], "one");
    let name = found.chart.as_ref().unwrap();
    assert_eq!(
        (name.name.as_str(), name.version.as_str()),
        ("web", "1.0.0")
    );
    let digest = found.upstream_digest.as_deref().unwrap();
    assert!(
        digest.starts_with("sha256:") && digest.len() == 71,
        "{digest}"
    );

    // Nothing changed: one question, and no file is written.
    assert_eq!(sidecar.poll().sequence, first.sequence);
    assert_eq!((asked(&server, ".yaml"), asked(&server, ".tgz")), (2, 1));
    // What is new and doesn't fit, or fits and isn't newer, moves nothing.
    published.chart("web", "2.1.0", "farther");
    published.chart("web", "0.9.0", "older");
    published.chart("web", "1.1.0-rc.1", "not yet");
    assert_eq!(sidecar.poll().results, first.results);
    assert_eq!(asked(&server, ".tgz"), 1);

    published.chart("web", "1.1.0", "two");
    let second = sidecar.poll();
    assert_eq!(version(&second, "web:1.x"), "1.1.0");
    assert_eq!(
        sidecar.content(good(&second, "web:1.x"))["templates/cm.yaml"],
        "two"
    );

    // It is taken back: what runs of it goes on, and the manifest says why.
    published.gone("web", "1.1.0");
    let back = sidecar.poll();
    assert_eq!(back.results["web:1.x"].good, second.results["web:1.x"].good);
    assert_eq!(back.state, SourceState::Ready);
    let told = problem(&back, "web:1.x");
    assert_eq!(told.reason, Reason::VersionNotFound);
    assert!(told.message.contains("1.1.0 is gone"), "{told:?}");
    published.chart("web", "1.2.0", "three");
    assert_eq!(
        good(&sidecar.poll(), "web:1.x").version.as_deref(),
        Some("1.2.0")
    );
}

#[test]
fn a_lost_volume_resolves_to_what_was_released() {
    let published = Published::default();
    published.chart("web", "1.0.0", "one");
    let server = published.serve();
    let mut want = chart("web", "1.x");
    want.prefer.version = Some("1.1.0".to_owned());
    let mut sidecar = sidecar(&server, vec![want]);
    // That would be older than what runs.
    let manifest = sidecar.poll();
    assert_eq!(reason(&manifest, "web:1.x"), Reason::VersionNotFound);
    assert_eq!(manifest.results["web:1.x"].good, None);
    published.chart("web", "1.1.0", "two");
    assert_eq!(
        good(&sidecar.poll(), "web:1.x").version.as_deref(),
        Some("1.1.0")
    );
}

#[test]
fn one_index_serves_all_and_a_successor_goes_on_with_it() {
    let published = Published::default();
    published.chart("web", "1.0.0", "one");
    published.chart("db", "2.0.0", "two");
    let server = published.serve();
    let mut same = chart("web", "1.0.0");
    same.key = "same".to_owned();
    let mut sidecar = sidecar(&server, vec![chart("web", "^1"), same]);
    let manifest = sidecar.poll();
    let [first, second] = ["web:^1", "same"].map(|key| good(&manifest, key).artifact.clone());
    assert_eq!(first, second);
    assert_eq!((asked(&server, ".yaml"), asked(&server, ".tgz")), (1, 1));

    // A successor asks by what lies on the volume.
    sidecar.restart();
    assert_eq!(sidecar.poll().results, manifest.results);
    assert!(server.asked().last().unwrap().contains("if-none-match"));
    assert_eq!((asked(&server, ".yaml"), asked(&server, ".tgz")), (2, 1));
    // What is wanted anew is read out of it.
    sidecar.request.wants.push(chart("db", "2.x"));
    sidecar.check(false);
    assert_eq!(version(&sidecar.manifest(), "db:2.x"), "2.0.0");
    assert!(server.asked()[3].contains("if-none-match"));
    assert_eq!((asked(&server, ".yaml"), asked(&server, ".tgz")), (3, 2));
    // Nothing new is wanted, so nobody is asked.
    sidecar.check(false);
    assert_eq!(server.asked().len(), 5);

    // One that somebody spoiled is got anew, and believed only then.
    let index = sidecar
        .context
        .config
        .volume
        .served
        .repository(&sidecar.request.source.name())
        .join("index.yaml");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace("version: 1.0.0", "version: 1.9.9")).unwrap();
    sidecar.restart();
    let after = sidecar.poll();
    assert_eq!(version(&after, "web:^1"), "1.0.0");
    assert_eq!(fs::read_to_string(&index).unwrap(), text);
}

#[test]
fn a_version_that_is_published_again_is_another_chart() {
    let published = Published::default();
    published.chart("web", "1.0.0", "one");
    let server = published.serve();
    let mut sidecar = sidecar(&server, vec![chart("web", "1.0.0")]);
    let first = sidecar.poll();
    published.chart("web", "1.0.0", "again");
    let second = sidecar.poll();
    let found = good(&second, "web:1.0.0");
    assert_eq!(sidecar.content(found)["templates/cm.yaml"], "again");
    let before = good(&first, "web:1.0.0");
    assert_ne!(before.upstream_digest, found.upstream_digest);
    assert_ne!(before.artifact, found.artifact);
}

#[test]
fn a_key_that_comes_to_stand_for_something_else_gets_that() {
    let published = Published::default();
    for (name, version) in [("lib", "1.0.0"), ("two", "1.0.0"), ("two", "0.9.0")] {
        published.chart(name, version, &format!("{name} {version}"));
        published.entry(name, version, &format!("{name}-{version}.tgz"), None);
    }
    let server = published.serve();
    let mut sidecar = sidecar(&server, vec![chart("lib", "1.0.0")]);
    for (name, version) in [("lib", "1.0.0"), ("two", "1.0.0"), ("two", "0.9.0")] {
        let want = &mut sidecar.request.wants[0];
        want.key = "mine".to_owned();
        want.spec.path = name.to_owned();
        want.spec.version = Some(version.to_owned());
        sidecar.check(false);
        let good = good(&sidecar.manifest(), "mine").clone();
        let chart = good.chart.unwrap();
        assert_eq!((&*chart.name, &*chart.version), (name, version));
    }
}

#[test]
fn what_the_index_does_not_list_is_not_believed() {
    let published = Published::default();
    published.chart("web", "1.0.0", "one");
    let server = published.serve();
    let mut sidecar = sidecar(&server, vec![chart("web", "1.x")]);
    let first = sidecar.poll();
    published.chart("web", "1.1.0", "two");
    published.put("/charts/web-1.1.0.tgz", packed("web", "1.1.0", "evil"));
    let wrong = sidecar.poll();
    assert_eq!(reason(&wrong, "web:1.x"), Reason::DigestMismatch);
    assert_eq!(wrong.results["web:1.x"].good, first.results["web:1.x"].good);
    // The index may only have been ahead of the archive: it is tried again soon.
    let ended = sidecar.check(true);
    assert!(ended.next < std::time::Duration::from_secs(30), "{ended:?}");
    published.chart("web", "1.1.0", "two");
    assert_eq!(
        good(&sidecar.poll(), "web:1.x").version.as_deref(),
        Some("1.1.0")
    );

    // Without a digest, name and version tell.
    for (name, version) in [("db", "1.2.0"), ("web", "1.2.1")] {
        published.entry("web", "1.2.0", "x.tgz", None);
        published.put("/charts/x.tgz", packed(name, version, "other"));
        let wrong = sidecar.poll();
        assert_eq!(reason(&wrong, "web:1.x"), Reason::InvalidChart);
        let message = &problem(&wrong, "web:1.x").message;
        assert!(
            message.contains(&format!("{name:?} {version}")),
            "{message}"
        );
    }
    published.put("/charts/x.tgz", b"<html>Login</html>".to_vec());
    let message = problem(&sidecar.poll(), "web:1.x").message.clone();
    assert!(
        message.contains("/charts/x.tgz") && message.contains("<html>"),
        "{message}"
    );
    published.put("/charts/x.tgz", packed("web", "v1.2.0", "three"));
    assert_eq!(
        good(&sidecar.poll(), "web:1.x").version.as_deref(),
        Some("1.2.0")
    );
}

/// The results, without when they are looked at again.
fn untimed(manifest: &Manifest) -> BTreeMap<String, WantResult> {
    let mut results = manifest.results.clone();
    for result in results.values_mut() {
        result.next_attempt = None;
    }
    results
}

#[test]
fn a_failure_stops_neither_what_was_good_nor_others() {
    let published = Published::default();
    published.chart("web", "1.0.0", "one");
    published.entry("db", "1.0.0", "gone.tgz", None);
    let server = published.serve();
    let wants = [
        ("web", "1.x"),
        ("db", "1.x"),
        ("nope", "1"),
        ("web", "latest"),
        ("web", "7"),
    ];
    let mut wants: Vec<Want> = wants
        .iter()
        .map(|(name, version)| chart(name, version))
        .collect();
    wants.push(want(WantKind::File, None, "web"));
    let mut sidecar = sidecar(&server, wants);
    let manifest = sidecar.poll();
    good(&manifest, "web:1.x");
    for (key, expected, said) in [
        ("db:1.x", Reason::PathNotFound, "404"),
        ("nope:1", Reason::ChartNotFound, "of the 2"),
        ("web:latest", Reason::InvalidVersion, "^1.2"),
        ("web:7", Reason::VersionNotFound, "1.0.0"),
        ("-:web", Reason::Unsupported, "kind chart"),
    ] {
        let told = problem(&manifest, key);
        assert_eq!(told.reason, expected, "{told:?}");
        assert!(told.message.contains(said), "{told:?}");
    }
    // An outage, or no index, takes nothing away.
    for (content, expected) in [
        (None, Reason::PathNotFound),
        (Some(b"entries: {web: [".to_vec()), Reason::InvalidFile),
        (Some(b"<html>".to_vec()), Reason::InvalidFile),
    ] {
        match content {
            None => drop(published.files.lock().unwrap().remove("/charts/index.yaml")),
            Some(content) => published.put("/charts/index.yaml", content),
        }
        let failing = sidecar.poll();
        let failure = failing.failure.as_ref().unwrap();
        assert_eq!(failure.reason, expected, "{failure:?}");
        assert_eq!(untimed(&failing), untimed(&manifest));
    }
    published.write_index();
    let well = sidecar.poll();
    assert_eq!((&well.failure, untimed(&well)), (&None, untimed(&manifest)));
}

#[test]
fn members_of_a_group_move_together_or_not_at_all() {
    let published = Published::default();
    published.chart("web", "1.0.0", "one");
    published.chart("db", "1.0.0", "one");
    let server = published.serve();
    let mut wants = vec![chart("web", "1.x"), chart("db", "1.x")];
    for want in &mut wants {
        want.group = "both".to_owned();
    }
    let mut sidecar = sidecar(&server, wants);
    let first = sidecar.poll();
    good(&first, "db:1.x");
    published.chart("web", "1.1.0", "two");
    published.entry("db", "1.1.0", "gone.tgz", None);
    let held = sidecar.poll();
    assert_eq!(reason(&held, "web:1.x"), Reason::GroupHeldBack);
    assert_eq!(reason(&held, "db:1.x"), Reason::PathNotFound);
    for key in ["web:1.x", "db:1.x"] {
        assert_eq!(held.results[key].good, first.results[key].good);
    }
}

#[test]
fn a_lost_or_rejected_artifact_is_made_again() {
    let published = Published::default();
    published.chart("web", "1.0.0", "one");
    let server = published.serve();
    let mut sidecar = sidecar(&server, vec![chart("web", "1.x")]);
    let first = sidecar.poll();
    let digest = good(&first, "web:1.x").artifact.clone();
    let path = sidecar.context.config.volume.served.artifact(&digest);
    let content = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    sidecar.check(false);
    assert_eq!(fs::read(&path).unwrap(), content);
    fs::write(&path, vec![b'x'; content.len()]).unwrap();
    sidecar.request.wants[0].rejected.insert(digest);
    sidecar.check(false);
    assert_eq!(fs::read(&path).unwrap(), content);
    assert_eq!(sidecar.manifest().results, first.results);
    // One that was rejected wrongly is believed, once.
    let asked = server.asked().len();
    sidecar.check(false);
    assert_eq!(server.asked().len(), asked);
}

#[test]
fn the_credential_opens_the_repository_and_nothing_else() {
    let published = Published::default();
    published.chart("web", "1.0.0", "own");
    let files = Arc::clone(&published.files);
    let other = published.serve();
    // me:s3cr+t
    let guarded = Server::start(move |request| {
        let path = request.split([' ', '?']).nth(1).unwrap();
        match files.lock().unwrap().get(path) {
            _ if !request.contains("authorization: Basic bWU6czNjcit0") => {
                status("401 Unauthorized", "", b"")
            }
            Some(content) => ok("", content),
            None => status("404 Not Found", "", b""),
        }
    });
    let url = format!("http://me:s3cr+t@{}/charts?key=k3y", guarded.host());
    let mut sidecar = sidecar(&guarded, vec![chart("web", "1.x")]);
    sidecar.request.source.url = url.clone();
    let manifest = sidecar.poll();
    assert_eq!(good(&manifest, "web:1.x").version.as_deref(), Some("1.0.0"));
    assert!(
        guarded
            .asked()
            .iter()
            .all(|asked| asked.contains("?key=k3y "))
    );

    // An archive elsewhere is asked for without it.
    published.chart("web", "1.1.0", "elsewhere");
    published.entry("web", "1.1.0", &other.url("/charts/web-1.1.0.tgz"), None);
    let moved = sidecar.poll();
    assert_eq!(version(&moved, "web:1.x"), "1.1.0");
    let asked = other.asked();
    assert_eq!(asked.len(), 1);
    assert!(
        !asked[0].contains("authorization") && !asked[0].contains("k3y"),
        "{asked:?}"
    );

    // One in a registry is asked for there.
    published.entry(
        "web",
        "1.2.0",
        "oci://registry.invalid/charts/web:1.2.0",
        None,
    );
    assert_eq!(reason(&sidecar.poll(), "web:1.x"), Reason::UnknownHost);

    let mut refused = self::sidecar(&guarded, vec![chart("web", "1.x")]);
    refused.request.source.url = url.replace("s3cr+t", "wr0ng");
    let failure = refused.poll().failure.unwrap();
    assert_eq!(failure.reason, Reason::AuthenticationFailed);
    // The request holds the query, as the HelmRelease does; nothing else of the volume does.
    let mut folders = vec![
        sidecar.volume().join("served"),
        refused.volume().join("served"),
    ];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            for secret in ["s3cr+t", "wr0ng", "k3y"] {
                assert!(!text.contains(secret), "{path:?}: {text}");
            }
        }
    }
    assert!(files > 5);
}

#[test]
fn the_second_url_of_an_archive_counts_where_the_first_gives_nothing() {
    let published = Published::default();
    published.chart("web", "1.0.0", "one");
    published.entry("web", "1.0.0", "gone.tgz', 'web-1.0.0.tgz", None);
    let server = published.serve();
    let mut sidecar = sidecar(&server, vec![chart("web", "1.x")]);
    good(&sidecar.poll(), "web:1.x");
    assert_eq!(asked(&server, ".tgz"), 2);
}
