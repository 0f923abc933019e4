#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use tandem_shared::layout::Volume;
use tandem_shared::manifest::Reason;
use tandem_shared::source::SourceName;

use super::*;
use crate::credentials::Access;
use crate::testing::server::{Server, ok, status};
use crate::web::{Asked, Web};

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn read(text: &str, wanted: &[&str]) -> Result<Index, RepositoryError> {
    Index::read(text.as_bytes(), names(wanted))
}

fn versions<'a>(index: &'a Index, chart: &str) -> Vec<&'a str> {
    let entries = index.charts[chart].iter();
    entries.map(|entry| entry.version.as_str()).collect()
}

#[test]
fn what_would_fill_the_memory_is_refused() {
    let mut anchors = "apiVersion: v1\nentries: {}\nodd: [".to_owned();
    for number in 0..1_001 {
        write!(anchors, "&a{number} x,").unwrap();
    }
    let error = read(&(anchors.clone() + "]"), &[]).unwrap_err();
    assert!(error.to_string().contains("anchors"), "{error}");
    let fewer = anchors.replacen("&a0 x,", "", 1);
    read(&(fewer + "]"), &[]).unwrap();

    let mut long = "apiVersion: v1\nentries:\n  web:\n".to_owned();
    let url = "u".repeat(2_000);
    for number in 0..4_200 {
        let urls = format!("[{url}, {url}, {url}, {url}]");
        writeln!(long, "  - {{version: 1.0.{number}, urls: {urls}}}").unwrap();
    }
    let error = read(&long, &["web"]).unwrap_err();
    assert_eq!(error.reason(), Reason::TooLarge, "{error}");
}

#[test]
fn only_what_is_wanted_is_kept_of_an_index() {
    let text = "
apiVersion: v1
entries:
  other:
  - {name: other, version: 1.0.0, urls: [a]}
  web:
  - name: web
    annotations: {images: \"- a\\n- b\", when: 2024-01-01T00:00:00Z, odd: .nan, n: 0x1F}
    appVersion: 1e12345
    created: 2024-05-01T10:11:12.123456789Z
    description: |
      entries: not these
    digest: SHA256:ABC
    version: 1.10.0
    urls: [web-1.10.0.tgz, 'https://o/web.tgz']
  - name: web
    digest: sha256:0aF
    version: 1.2
    urls:
    - web-1.2.tgz
  empty:
  also: []
generated: 2024-06-01T00:00:00Z
";
    let index = read(text, &["web", "empty", "also", "gone"]).unwrap();
    assert_eq!(versions(&index, "web"), ["1.10.0", "1.2"]);
    let entry = &index.charts["web"][0];
    assert_eq!(entry.urls, ["web-1.10.0.tgz", "https://o/web.tgz"]);
    assert_eq!(index.charts["web"][1].digest.as_deref(), Some("0af"));
    assert_eq!(versions(&index, "also"), Vec::<&str>::new());
    assert!(!index.charts.contains_key("gone") && !index.charts.contains_key("other"));
    assert_eq!((index.listed, index.skipped), (4, 0));
}

#[test]
fn json_is_read_as_well() {
    let text = r#" {"apiVersion":"v1","entries":{"x":[{"a":[1,{"b":null}]}],
        "web":[{"version":"1.0.0","urls":["w\u002ftgz"],"digest":null}, null]},"generated":"é"}"#;
    let index = read(text, &["web"]).unwrap();
    assert_eq!(index.charts["web"][0].urls, ["w/tgz"]);
    assert_eq!((index.listed, index.skipped), (2, 1));
    assert!(read(&text[..80], &["web"]).is_err());
}

#[test]
fn a_bad_entry_spoils_only_itself() {
    let text = "
apiVersion: v1
entries:
  web:
  - {version: 1.0.0, urls: [a]}
  - {version: latest, urls: [a]}
  - {version: 1.2.3.4, urls: [a]}
  - {version: 1.1.0, urls: []}
  - {version: 1.2.0}
  - {urls: [a]}
  - null
  - {version: 1.3.0, urls: [null, '']}
  - {version: [1.4.0], urls: [a]}
  - {version: 1.5.0, urls: a}
  - text
  - {version: 1.6.0, urls: [a], [complex]: {key: [x]}, ? {a: b} : c, sub: &x {version: 6.6.6, urls: [evil]}}
  - *x
  - {version: 0.9.0, urls: [a]}
";
    let index = read(text, &["web"]).unwrap();
    assert_eq!(versions(&index, "web"), ["1.0.0", "1.6.0", "0.9.0"]);
    assert_eq!(index.skipped, 11);
    let odd = read(
        "apiVersion: v1\nentries: {web: text, b: {c: d}}\n",
        &["web"],
    )
    .unwrap();
    assert_eq!(versions(&odd, "web"), Vec::<&str>::new());
}

#[test]
fn what_is_no_index_is_said_in_words() {
    for bad in [
        "",
        "<!DOCTYPE html><title>Login</title>",
        "just: yaml\n",
        "- a list\n",
        "entries: {web: [",
        "apiVersion: v1\nentries: text\n",
        "apiVersion: v1\nentries: [web]\n",
        "apiVersion: v1\nentries:\n  web:\n  - version: \"\n",
        "null",
        "entries: *nothing\n",
        "{\"entries\":",
    ] {
        let error = read(bad, &["web"]).unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidFile, "{bad}: {error}");
        assert!(error.to_string().len() < 600, "{error}");
    }
    let nothing = read("apiVersion: v1\nentries:\n", &["web"]).unwrap();
    assert_eq!(nothing.listed, 0);
    let deep = format!("apiVersion: v1\nentries: {}", "[".repeat(100_000));
    assert!(read(&deep, &["web"]).is_err());
    let long = format!(
        "apiVersion: v1\nentries: {{}}\nx: {}\n",
        "x".repeat(5 << 20)
    );
    let error = read(&long, &["web"]).unwrap_err().to_string();
    assert!(error.contains("single text"), "{error}");
    let bytes = b"apiVersion: v1\nentries: {w\xc3: 1}";
    let error = Index::read(bytes.as_slice(), names(&[])).unwrap_err();
    assert!(error.to_string().contains("UTF-8"), "{error}");
}

#[test]
fn more_versions_than_are_read_are_refused() {
    let mut text = "apiVersion: v1\nentries:\n  web:\n".to_owned();
    for at in 0..11 {
        writeln!(text, "  - {{version: 1.0.{at}, urls: [a]}}").unwrap();
    }
    let read = |name, most| Index::read_at_most(text.as_bytes(), names(&[name]), most);
    let error = read("web", 10).unwrap_err();
    assert_eq!(error.reason(), Reason::TooLarge, "{error}");
    assert_eq!(read("web", 11).unwrap().charts["web"].len(), 11);
    assert_eq!(read("other", 10).unwrap().listed, 1);
}

struct Place {
    folder: tempfile::TempDir,
    store: Store,
}

fn store() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let name = SourceName::parse("s-0123456789abcdef0123456789abcdef").unwrap();
    let store = Store::of(&Volume::at(folder.path()).served, &name);
    Place { folder, store }
}

#[test]
fn an_index_is_asked_for_by_what_is_held_also_by_a_successor() {
    let index = "apiVersion: v1\nentries: {web: [{version: 1.0.0, urls: [a]}]}\n";
    let server = Server::start(move |request| match request.split(' ').nth(1) {
        Some("/bad/index.yaml") => ok("etag: \"b\"\r\n", b"<html>"),
        _ if request.contains("if-none-match: \"1\"") => status("304 Not Modified", "", b""),
        _ if request.contains("if-none-match: \"2\"") => ok("etag: \"3\"\r\n", index.as_bytes()),
        _ => ok("etag: \"1\"\r\n", index.as_bytes()),
    });
    let (access, web) = (Access::default(), Web::default());
    let allowed = [crate::address::Scheme::Http].into();
    let ask = |store: &Store, url: &str, held: Option<&Held>| {
        let asked = Asked::plain(url, &access, &allowed, Duration::from_secs(60), 1000);
        store.fetch(&web, asked, held)
    };
    let place = store();
    let store = &place.store;
    let url = index_url(&server.url("")).unwrap();
    assert_eq!(store.held(&url), None);
    let Fetched::New(arrived) = ask(store, &url, None).unwrap() else {
        panic!("nothing was held");
    };
    // Not before it was read.
    assert_eq!(store.held(&url), None);
    let (held, read) = store.accept(arrived, names(&["web"])).unwrap();
    assert_eq!(read.charts.len(), 1);

    let again = store.held(&url).unwrap();
    assert_eq!(again, held);
    assert_eq!(store.held("http://other/index.yaml"), None);
    assert!(matches!(
        ask(store, &url, Some(&again)).unwrap(),
        Fetched::Unchanged(_)
    ));
    assert_eq!(store.load(&again, names(&["web"])).unwrap(), read);

    // The same under another name is the same.
    let text = serde_json::to_string(&held)
        .unwrap()
        .replace("\\\"1\\\"", "\\\"2\\\"");
    let renamed: Held = serde_json::from_str(&text).unwrap();
    let Fetched::Unchanged(renamed) = ask(store, &url, Some(&renamed)).unwrap() else {
        panic!("it is the same");
    };
    assert_eq!(store.held(&url), Some(renamed));

    // What is no index takes nobody's place.
    let bad = server.url("/bad/index.yaml");
    let Fetched::New(arrived) = ask(store, &bad, None).unwrap() else {
        panic!("another URL");
    };
    assert!(store.accept(arrived, names(&["web"])).is_err());
    assert!(store.load(&held, names(&["web"])).is_ok());

    // Nor what was changed on the volume.
    let file = place
        .folder
        .path()
        .join("served/repositories/s-0123456789abcdef0123456789abcdef/index.yaml");
    fs::write(&file, index.replace("1.0.0", "6.6.6")).unwrap();
    let error = store.load(&held, names(&["web"])).unwrap_err();
    assert!(matches!(error, RepositoryError::Changed), "{error}");
    fs::remove_file(&file).unwrap();
    assert_eq!(store.held(&url), None);
}
