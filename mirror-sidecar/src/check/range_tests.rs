//! Ranges of tags, on a real repository.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs;

use tandem_shared::manifest::Reason;

use crate::testing::{Sidecar, Upstream, chart, good, problem, reason};

const KEY: &str = "semver:^1:c";

fn tag(upstream: &Upstream, name: &str) -> String {
    upstream.chart("c", name);
    let commit = upstream.publish();
    upstream.git(&["tag", "--annotate", "--force", "--message", "m", name]);
    upstream.push(&format!("refs/tags/{name}"));
    commit
}

fn asks() -> Vec<tandem_shared::request::Want> {
    vec![chart("semver:^1", "c")]
}

/// Which tag is served, and that its chart is.
fn served(sidecar: &mut Sidecar) -> (String, String) {
    let manifest = sidecar.poll();
    let record = &manifest.refs["semver:^1"];
    let served = good(&manifest, KEY);
    let name = record.full_name.strip_prefix("refs/tags/").unwrap();
    assert_eq!(sidecar.content(served)["templates/cm.yaml"], name);
    (name.to_owned(), record.commit.clone())
}

#[test]
fn a_range_follows_newer_tags_only() {
    let upstream = Upstream::new();
    let first = tag(&upstream, "v1.2.0");
    tag(&upstream, "v2.0.0");
    let mut sidecar = Sidecar::new(&upstream.url(), asks());
    assert_eq!(served(&mut sidecar), ("v1.2.0".into(), first.clone()));
    assert_eq!(sidecar.children("list"), 1, "one exchange asks for all");

    // An older one is none of its business, and costs no fetch.
    let fetches = sidecar.children("fetch");
    tag(&upstream, "v1.1.0");
    assert_eq!(served(&mut sidecar).0, "v1.2.0");
    assert_eq!(sidecar.children("fetch"), fetches);

    let newest = tag(&upstream, "v1.10.0");
    assert_eq!(served(&mut sidecar), ("v1.10.0".into(), newest.clone()));

    // It vanishes: nobody goes back, whatever process and mirror there is.
    upstream.push(":refs/tags/v1.10.0");
    assert_eq!(served(&mut sidecar), ("v1.10.0".into(), newest.clone()));
    sidecar.restart();
    assert_eq!(served(&mut sidecar), ("v1.10.0".into(), newest.clone()));
    fs::remove_dir_all(sidecar.mirror().join("objects")).unwrap();
    sidecar.restart();
    assert_eq!(served(&mut sidecar), ("v1.10.0".into(), newest.clone()));
    // On a lost volume nobody knows that there ever was more than a commit.
    let mut lost = Sidecar::new(&upstream.url(), asks());
    lost.request.wants[0].prefer.commit = Some(newest);
    assert_eq!(served(&mut lost), ("v1.2.0".into(), first));

    // A tag that is moved is followed.
    let moved = tag(&upstream, "v1.10.0");
    assert_eq!(served(&mut sidecar), ("v1.10.0".into(), moved));
}

#[test]
fn a_range_keeps_its_spelling_on_a_lost_volume() {
    let upstream = Upstream::new();
    let plain = tag(&upstream, "1.4.0");
    let other = tag(&upstream, "v1.4.0");
    let mut lost = Sidecar::new(&upstream.url(), asks());
    assert_eq!(served(&mut lost), ("v1.4.0".into(), other));
    let mut lost = Sidecar::new(&upstream.url(), asks());
    lost.request.wants[0].prefer.commit = Some(plain.clone());
    assert_eq!(served(&mut lost), ("1.4.0".into(), plain));
}

#[test]
fn a_range_that_nothing_fits_says_what_there_is() {
    let upstream = Upstream::new();
    tag(&upstream, "v0.9.0");
    tag(&upstream, "v0.10.0");
    let mut wants = asks();
    wants.push(chart("semver:newest", "c"));
    wants.push(chart("main", "c"));
    let mut sidecar = Sidecar::new(&upstream.url(), wants);
    let manifest = sidecar.poll();
    good(&manifest, "main:c");
    for (key, words) in [
        (KEY, "v0.10.0, v0.9.0"),
        ("semver:newest:c", "\"newest\" is no version and no range"),
    ] {
        assert_eq!(reason(&manifest, key), Reason::RefNotFound);
        let message = &problem(&manifest, key).message;
        assert!(message.contains(words), "{message}");
    }
    tag(&upstream, "v1.0.0");
    assert_eq!(served(&mut sidecar).0, "v1.0.0");
}

#[test]
fn a_server_of_the_old_protocol_is_asked_for_tags_as_well() {
    let upstream = Upstream::new();
    tag(&upstream, "v1.0.0");
    let newest = tag(&upstream, "v1.1.0");
    let mut sidecar = Sidecar::new(&upstream.url(), asks());
    let wanted = tandem_shared::observe::Observed {
        document: sidecar.request.clone(),
        digest: String::new(),
    };
    let mut state = crate::check::State::take_up(&sidecar.context, &wanted.document);
    state.git.manner = crate::mirror::Manner::Old;
    sidecar.state = Some(state);
    assert_eq!(served(&mut sidecar), ("v1.1.0".into(), newest));
}
