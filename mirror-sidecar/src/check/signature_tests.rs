//! What is served of what is signed, and of what isn't, on a real repository.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use git2::{ObjectType, Oid, Repository};
use tandem_shared::credentials::{Store, Values};
use tandem_shared::manifest::{Manifest, Reason};
use tandem_shared::request::{Want, WantKind};
use tandem_shared::source::CredentialRef;
use tandem_shared::verify::{Verify, VerifyMode};

use crate::testing::{Sidecar, Upstream, chart, good, problem, reason, want};
use crate::verify::testing::{BORN, DAY, Pgp, ssh, ssh_name, ssh_public, ssh_sign, values};

/// Signs what git would give to a program for that.
type Signer<'a> = &'a dyn Fn(&[u8]) -> String;

fn work(upstream: &Upstream) -> Repository {
    Repository::open(upstream.git(&["rev-parse", "--show-toplevel"])).unwrap()
}

/// Commits everything, as `git commit -S` does.
fn commit(upstream: &Upstream, signer: Signer<'_>) -> String {
    let plain = upstream.commit();
    let repository = work(upstream);
    let objects = repository.odb().unwrap();
    let raw = objects.read(Oid::from_str(&plain).unwrap()).unwrap();
    let text = std::str::from_utf8(raw.data()).unwrap();
    let signature = signer(raw.data());
    let id = repository.commit_signed(text, &signature, None).unwrap();
    upstream.git(&["reset", "--quiet", "--hard", &id.to_string()]);
    id.to_string()
}

/// Changes the chart, signs that and pushes it.
fn push(upstream: &Upstream, marker: &str, signer: Signer<'_>) -> String {
    upstream.chart("c", marker);
    let commit = commit(upstream, signer);
    upstream.push("HEAD:refs/heads/main");
    commit
}

/// Tags the newest commit under one name, as `git tag -s` does under another.
fn tag(upstream: &Upstream, name: &str, own: &str, signer: Option<Signer<'_>>) {
    let head = upstream.git(&["rev-parse", "HEAD"]);
    let payload = format!("object {head}\ntype commit\ntag {own}\ntagger a <a@b> 1 +0000\n\nm\n");
    let signature = signer.map(|signer| signer(payload.as_bytes()));
    let raw = payload + &signature.unwrap_or_default();
    let repository = work(upstream);
    let objects = repository.odb().unwrap();
    let id = objects.write(ObjectType::Tag, raw.as_bytes()).unwrap();
    let full = format!("refs/tags/{name}");
    upstream.git(&["update-ref", &full, &id.to_string()]);
    upstream.push(&full);
}

fn secret() -> CredentialRef {
    CredentialRef {
        namespace: "demo".into(),
        name: "signers".into(),
    }
}

fn verified(mut want: Want, mode: VerifyMode) -> Want {
    want.spec.verify = Some(Verify {
        mode,
        keys: secret(),
    });
    want
}

/// A sidecar with these wants, which are verified by these keys where they ask for it.
fn sidecar(upstream: &Upstream, wants: Vec<Want>, keys: &Values) -> Sidecar {
    let mut sidecar = Sidecar::new(&upstream.url(), wants);
    sidecar.context.config.credentials = Some(sidecar.volume().join("credentials"));
    give(&mut sidecar, keys);
    sidecar
}

/// Hands keys over, as the reconciler does.
fn give(sidecar: &mut Sidecar, keys: &Values) {
    let root = sidecar.context.config.credentials.clone().unwrap();
    let id = Store::open(&root).unwrap().put(&secret(), keys).unwrap();
    for want in &mut sidecar.request.wants {
        want.keys_id = want.spec.verify.is_some().then(|| id.clone());
    }
}

fn marker(sidecar: &Sidecar, manifest: &Manifest, key: &str) -> String {
    let good = manifest.results[key].good.as_ref().unwrap();
    sidecar.content(good)["templates/cm.yaml"].clone()
}

#[test]
fn only_what_is_signed_by_a_key_of_ours_is_served_and_the_last_good_stays() {
    let upstream = Upstream::new();
    let (ada, eve, bob) = (Pgp::new(1), Pgp::new(2), ssh(3));
    let by_ada = |payload: &[u8]| ada.sign_by_subkey(payload, BORN + DAY);
    let by_eve = |payload: &[u8]| eve.sign(payload, BORN + DAY);
    let by_bob = |payload: &[u8]| ssh_sign(&bob, "git", payload);
    let keys = values(&[("ada.asc", &ada.armored()), ("bob.pub", &ssh_public(&bob))]);
    let first = push(&upstream, "one", &by_ada);
    let mut plain = chart("main", "c");
    plain.key = "plain".into();
    let wants = vec![verified(chart("main", "c"), VerifyMode::Head), plain];
    let mut sidecar = sidecar(&upstream, wants, &keys);
    let manifest = sidecar.poll();
    let found = good(&manifest, "main:c");
    assert_eq!(found.commit.as_ref(), Some(&first));
    let signers = |manifest: &Manifest| {
        let by = good(manifest, "main:c").verified_by.clone().unwrap();
        (by.commit, by.tag)
    };
    assert_eq!(signers(&manifest), (Some(ada.name()), None));
    assert_eq!(good(&manifest, "plain").verified_by, None);
    let observed = manifest.observed_request.unwrap().keys_ids;
    assert_eq!(observed.len(), 1);

    for (text, words) in [("nobody", "isn't signed"), ("eve", &eve.name())] {
        upstream.chart("c", text);
        let commit = match text {
            "nobody" => upstream.publish(),
            _ => push(&upstream, text, &by_eve),
        };
        // A change of the request alone has it looked at again, too.
        for poll in [true, false] {
            sidecar.request.wants[1].used_by = vec![format!("{text}{poll}")];
            sidecar.check(poll);
            let manifest = sidecar.manifest();
            let told = problem(&manifest, "main:c");
            assert_eq!(told.reason, Reason::Unverified);
            assert_eq!(told.commit.as_ref(), Some(&commit));
            for word in [words, "\"c\" at main", &commit[..12], "Secret demo/signers"] {
                assert!(told.message.contains(word), "{word}: {}", told.message);
            }
            assert_eq!(marker(&sidecar, &manifest, "main:c"), "one");
            assert_eq!(marker(&sidecar, &manifest, "plain"), text);
        }
        sidecar.restart();
    }
    push(&upstream, "two", &by_bob);
    let manifest = sidecar.poll();
    assert_eq!(signers(&manifest), (Some(ssh_name(&bob)), None));
    assert_eq!(marker(&sidecar, &manifest, "main:c"), "two");

    // A commit beside the chart: the content stays, and who vouches for it is told.
    upstream.write("other", "x");
    commit(&upstream, &by_ada);
    upstream.push("HEAD:refs/heads/main");
    let manifest = sidecar.poll();
    assert_eq!(signers(&manifest), (Some(ada.name()), None));
    assert_eq!(marker(&sidecar, &manifest, "main:c"), "two");
}

#[test]
fn other_keys_count_at_once_and_take_nothing_away() {
    let upstream = Upstream::new();
    let (ada, eve) = (ssh(1), ssh(2));
    push(&upstream, "one", &|payload| ssh_sign(&ada, "git", payload));
    let hers = values(&[("ada.pub", &ssh_public(&ada))]);
    let others = values(&[("eve.pub", &ssh_public(&eve))]);
    let wants = vec![verified(chart("main", "c"), VerifyMode::Head)];
    let mut sidecar = sidecar(&upstream, wants, &others);
    let manifest = sidecar.poll();
    assert_eq!(reason(&manifest, "main:c"), Reason::Unverified);
    assert_eq!(manifest.results["main:c"].good, None);
    let lists = sidecar.children("list");
    give(&mut sidecar, &hers);
    sidecar.check(false);
    good(&sidecar.manifest(), "main:c");

    let broken = values(&[("ada.pub", "ssh-ed25519 nonsense")]);
    let both = values(&[("a.pub", &ssh_public(&ada)), ("b.pub", &ssh_public(&eve))]);
    for (keys, expected) in [
        (&others, Some((Reason::Unverified, ssh_name(&ada)))),
        (&both, None),
        (&broken, Some((Reason::Unverified, "`ada.pub`".to_owned()))),
        (&hers, None),
    ] {
        give(&mut sidecar, keys);
        sidecar.check(false);
        let manifest = sidecar.manifest();
        match expected {
            Some((expected, words)) => {
                let told = problem(&manifest, "main:c");
                assert_eq!(told.reason, expected);
                assert!(told.message.contains(&words), "{}", told.message);
            }
            None => drop(good(&manifest, "main:c")),
        }
        assert_eq!(marker(&sidecar, &manifest, "main:c"), "one");
    }
    assert_eq!(sidecar.children("list"), lists, "nobody else was asked");

    // Keys that aren't there (yet) are waited for.
    for id in [None, Some("0".repeat(32))] {
        sidecar.request.wants[0].keys_id = id;
        sidecar.check(false);
        let manifest = sidecar.manifest();
        assert_eq!(reason(&manifest, "main:c"), Reason::CredentialMissing);
        assert_eq!(marker(&sidecar, &manifest, "main:c"), "one");
    }
    let root = sidecar.context.config.credentials.take();
    let manifest = sidecar.poll();
    assert_eq!(reason(&manifest, "main:c"), Reason::CredentialMissing);
    sidecar.context.config.credentials = root;
    give(&mut sidecar, &hers);
    good(&sidecar.poll(), "main:c");
}

#[test]
fn tags_have_to_be_annotated_signed_and_called_as_they_were() {
    let upstream = Upstream::new();
    let (ada, eve) = (ssh(1), ssh(2));
    let by_ada = |payload: &[u8]| ssh_sign(&ada, "git", payload);
    let by_eve = |payload: &[u8]| ssh_sign(&eve, "git", payload);
    upstream.chart("c", "one");
    let commit = upstream.publish();
    tag(&upstream, "signed", "signed", Some(&by_ada));
    tag(&upstream, "renamed", "signed", Some(&by_ada));
    tag(&upstream, "strange", "strange", Some(&by_eve));
    tag(&upstream, "bare", "bare", None);
    upstream.git(&["tag", "light"]);
    upstream.push("refs/tags/light");
    let asked = |reference: &str| verified(chart(reference, "c"), VerifyMode::Tag);
    let names = [
        "signed",
        "refs/tags/signed",
        "renamed",
        "strange",
        "bare",
        "light",
        "main",
    ];
    let mut wants: Vec<Want> = names.iter().map(|name| asked(name)).collect();
    wants.push(asked(&commit));
    wants.push(verified(chart("signed", "c"), VerifyMode::TagAndHead));
    wants[8].key = "both".into();
    wants.push(verified(
        chart("signed", "c"),
        VerifyMode::Other("Moon".into()),
    ));
    wants[9].key = "moon".into();
    let keys = values(&[("ada.pub", &ssh_public(&ada))]);
    let mut sidecar = sidecar(&upstream, wants, &keys);
    let manifest = sidecar.poll();
    for name in ["signed", "refs/tags/signed"] {
        let by = good(&manifest, &format!("{name}:c")).verified_by.clone();
        let by = by.unwrap();
        assert_eq!((by.commit, by.tag), (None, Some(ssh_name(&ada))));
    }
    for (key, words) in [
        ("renamed:c", "was signed as \"signed\""),
        ("strange:c", "is none of the keys"),
        ("bare:c", "the tag bare isn't signed"),
        ("light:c", "lightweight"),
        ("main:c", "\"main\" is none"),
        (&format!("{commit}:c"), "is none"),
        ("both", "the commit isn't signed"),
    ] {
        let told = problem(&manifest, key);
        assert_eq!(told.reason, Reason::Unverified, "{key}");
        assert!(told.message.contains(words), "{key}: {}", told.message);
        assert_eq!(manifest.results[key].good, None, "{key}");
    }
    assert_eq!(reason(&manifest, "moon"), Reason::Unsupported);

    // The same commit, signed by somebody else: the tag counts, not the commit alone.
    tag(&upstream, "signed", "signed", Some(&by_eve));
    tag(&upstream, "strange", "strange", Some(&by_ada));
    let manifest = sidecar.poll();
    assert_eq!(reason(&manifest, "signed:c"), Reason::Unverified);
    assert_eq!(marker(&sidecar, &manifest, "signed:c"), "one");
    good(&manifest, "strange:c");

    push(&upstream, "two", &by_ada);
    tag(&upstream, "signed", "signed", Some(&by_ada));
    let manifest = sidecar.poll();
    let by = good(&manifest, "both").verified_by.clone().unwrap();
    assert_eq!(
        (by.commit, by.tag),
        (Some(ssh_name(&ada)), Some(ssh_name(&ada)))
    );
}

#[test]
fn the_newest_tag_of_a_range_counts_and_no_older_one_in_its_place() {
    let upstream = Upstream::new();
    let ada = ssh(1);
    let by_ada = |payload: &[u8]| ssh_sign(&ada, "git", payload);
    upstream.chart("c", "one");
    upstream.publish();
    tag(&upstream, "v1.0.0", "v1.0.0", Some(&by_ada));
    let keys = values(&[("ada.pub", &ssh_public(&ada))]);
    let wants = || vec![verified(chart("semver:^1", "c"), VerifyMode::Tag)];
    let key = "semver:^1:c";
    let mut first = sidecar(&upstream, wants(), &keys);
    good(&first.poll(), key);
    upstream.chart("c", "two");
    upstream.publish();
    tag(&upstream, "v1.1.0", "v1.1.0", None);
    let manifest = first.poll();
    let told = problem(&manifest, key);
    assert!(
        told.message.contains("the tag v1.1.0 isn't signed"),
        "{}",
        told.message
    );
    assert_eq!(marker(&first, &manifest, key), "one");
    let mut lost = sidecar(&upstream, wants(), &keys);
    let manifest = lost.poll();
    assert_eq!(reason(&manifest, key), Reason::Unverified);
    assert_eq!(manifest.results[key].good, None);
    tag(&upstream, "v1.1.0", "v1.1.0", Some(&by_ada));
    for sidecar in [&mut first, &mut lost] {
        let manifest = sidecar.poll();
        good(&manifest, key);
        assert_eq!(marker(sidecar, &manifest, key), "two");
    }
}

#[test]
fn what_was_served_unverified_goes_when_it_is_asked_for_signed() {
    let upstream = Upstream::new();
    let ada = ssh(1);
    upstream.chart("c", "one");
    upstream.publish();
    let keys = values(&[("ada.pub", &ssh_public(&ada))]);
    let mut sidecar = sidecar(&upstream, vec![chart("main", "c")], &keys);
    good(&sidecar.poll(), "main:c");
    // Under the same key, as only a person would write it.
    sidecar.request.wants = vec![verified(chart("main", "c"), VerifyMode::Head)];
    give(&mut sidecar, &keys);
    sidecar.check(false);
    let manifest = sidecar.manifest();
    assert_eq!(reason(&manifest, "main:c"), Reason::Unverified);
    assert_eq!(manifest.results["main:c"].good, None);
}

#[test]
fn a_group_moves_when_all_that_has_to_be_signed_is() {
    let upstream = Upstream::new();
    let ada = ssh(1);
    let by_ada = |payload: &[u8]| ssh_sign(&ada, "git", payload);
    upstream.write("values.yaml", "a: 1");
    let first = push(&upstream, "one", &by_ada);
    let keys = values(&[("ada.pub", &ssh_public(&ada))]);
    let mut wants = vec![
        verified(chart("main", "c"), VerifyMode::Head),
        want(WantKind::File, Some("main"), "values.yaml"),
    ];
    for want in &mut wants {
        want.group = "both".into();
    }
    let mut sidecar = sidecar(&upstream, wants, &keys);
    good(&sidecar.poll(), "main:values.yaml");
    upstream.write("values.yaml", "a: 2");
    upstream.publish();
    let manifest = sidecar.poll();
    assert_eq!(reason(&manifest, "main:c"), Reason::Unverified);
    assert_eq!(reason(&manifest, "main:values.yaml"), Reason::GroupHeldBack);
    let file = manifest.results["main:values.yaml"].good.as_ref().unwrap();
    assert_eq!(file.commit.as_ref(), Some(&first));
}
