//! What is signed as people sign it, and what isn't.

use tandem_shared::credentials::{Store, Values};
use tandem_shared::manifest::{Manifest, Reason};
use tandem_shared::request::{Request, Want};
use tandem_shared::source::CredentialRef;
use tandem_shared::verify::{Verify, VerifyMode};
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme, Signer, Upstream, Upstreams};
use tandem_tests::pair::{Extra, Role};
use tandem_tests::requests::{chart, content, git, manifest, request};
use tandem_tests::volume::Volume;

use crate::common::{start, upstream};

fn secret() -> CredentialRef {
    CredentialRef {
        namespace: "demo".into(),
        name: "signers".into(),
    }
}

/// A sidecar that serves what is signed in a repository behind a real server.
struct Signed {
    _upstreams: Upstreams,
    _server: HttpServer,
    upstream: Upstream,
    volume: Volume,
    role: Role,
    asked: Request,
    looks: u32,
}

impl Signed {
    /// With wants of `charts/app`, each a key, a ref and what of it has to be signed.
    async fn new(wants: &[(&str, &str, VerifyMode)]) -> Self {
        let (upstreams, upstream, _) = upstream();
        let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
        let (volume, role) = start(&Extra::default()).await;
        let wants = wants.iter().map(|(key, reference, mode)| {
            let mut want: Want = chart(key, reference, "charts/app");
            want.spec.verify = Some(Verify {
                mode: mode.clone(),
                keys: secret(),
            });
            want
        });
        let asked = request(&git(&server.url("charts")), wants);
        Self {
            _upstreams: upstreams,
            _server: server,
            upstream,
            volume,
            role,
            asked,
            looks: 0,
        }
    }

    /// Hands the keys of these over, in place of those before.
    fn trust(&mut self, signers: &[&Signer]) {
        let mut values = Values::new();
        for (number, signer) in signers.iter().enumerate() {
            let (name, public) = signer.public().unwrap();
            values.insert(format!("{number}-{name}"), public.into_bytes());
        }
        let store = Store::open(&self.volume.credentials()).unwrap();
        let id = store.put(&secret(), &values).unwrap();
        for want in &mut self.asked.wants {
            want.keys_id = Some(id.clone());
        }
    }

    fn change(&self, marker: &str) {
        let files = charts::config_map("charts/app", marker);
        self.upstream.write_all(&files).unwrap();
    }

    fn push(&self, marker: &str, signer: Option<&Signer>) -> String {
        self.change(marker);
        match signer {
            Some(signer) => self.upstream.push_signed(marker, signer).unwrap(),
            None => self.upstream.push("main", marker).unwrap(),
        }
    }

    /// What the sidecar makes of all that, once it has looked.
    async fn look(&mut self) -> Manifest {
        self.looks += 1;
        self.asked.refresh = self.looks.to_string();
        self.volume.ask(&self.asked).unwrap();
        let keys = self.asked.wants.iter().filter_map(|w| w.keys_id.clone());
        let keys = keys.collect();
        manifest(&self.volume, &self.asked.source, "an answer", |manifest| {
            let seen = manifest.observed_request.as_ref();
            manifest.handled_refresh == self.asked.refresh
                && seen.is_some_and(|seen| seen.keys_ids == keys)
        })
        .await
        .unwrap()
    }

    /// What is served of a want that nothing is wrong with: its commit, and who signed.
    fn served(manifest: &Manifest, key: &str) -> (String, Option<String>, Option<String>) {
        let result = &manifest.results[key];
        assert_eq!(result.problem, None, "{key}");
        let good = result.good.clone().unwrap();
        let by = good.verified_by.unwrap();
        (good.commit.unwrap(), by.commit, by.tag)
    }

    /// Asserts that a want is refused for a lack of a signature, in these words.
    fn refused(manifest: &Manifest, key: &str, words: &[&str]) {
        let problem = manifest.results[key].problem.as_ref().unwrap();
        assert_eq!(problem.reason, Reason::Unverified, "{}", problem.message);
        for word in words.iter().chain(&["the Secret demo/signers"]) {
            assert!(problem.message.contains(word), "{word}: {problem:?}");
        }
    }

    /// Asserts that this is still what is served.
    fn holds(&self, manifest: &Manifest, key: &str, commit: &str, marker: &str) {
        let good = manifest.results[key].good.as_ref().unwrap();
        assert_eq!(good.commit.as_deref(), Some(commit));
        let files = content(&self.volume, &good.artifact).unwrap();
        let marker = format!("marker: {marker}");
        assert!(files.values().any(|text| text.contains(&marker)));
    }
}

/// Goes through what may be pushed to a branch whose commits have to be signed.
async fn a_branch(ada: Signer, eve: Signer) {
    let mut signed = Signed::new(&[("app", "main", VerifyMode::Head)]).await;
    signed.trust(&[&ada]);
    // From the start: nothing was good before.
    let nobodys = signed.push("nobody", None);
    let manifest = signed.look().await;
    let advice = ["the commit isn't signed", "git commit -S"];
    Signed::refused(&manifest, "app", &[&advice[..], &[&nobodys[..12]]].concat());
    assert_eq!(manifest.results["app"].good, None);

    let name = ada.name().unwrap();
    let first = signed.push("one", Some(&ada));
    let manifest = signed.look().await;
    let by_ada = |commit: &str| (commit.to_owned(), Some(name.clone()), None);
    assert_eq!(Signed::served(&manifest, "app"), by_ada(&first));
    signed.holds(&manifest, "app", &first, "one");

    let strange = eve.name().unwrap();
    let unknown = [&*strange, "none of the keys", "if you trust it"];
    for (marker, signer, words) in [
        ("nobody again", None, &advice[..]),
        ("eve", Some(&eve), &unknown[..]),
    ] {
        let commit = signed.push(marker, signer);
        let manifest = signed.look().await;
        Signed::refused(&manifest, "app", &[words, &[&commit[..12]]].concat());
        signed.holds(&manifest, "app", &first, "one");
    }

    let last = signed.push("two", Some(&ada));
    let manifest = signed.look().await;
    assert_eq!(Signed::served(&manifest, "app"), by_ada(&last));
    signed.holds(&manifest, "app", &last, "two");
}

#[tokio::test]
async fn of_a_branch_only_what_is_signed_by_a_known_ssh_key_is_served() {
    a_branch(Signer::ssh().unwrap(), Signer::ssh().unwrap()).await;
}

#[tokio::test]
async fn of_a_branch_only_what_is_signed_by_a_known_openpgp_key_is_served() {
    a_branch(Signer::openpgp().unwrap(), Signer::openpgp().unwrap()).await;
}

/// Goes through what may stand behind a tag that has to be signed, alone or with its commit.
async fn tags(ada: Signer, eve: Signer) {
    let mut signed = Signed::new(&[
        ("tag", "v1", VerifyMode::Tag),
        ("both", "v1", VerifyMode::TagAndHead),
        ("light", "light", VerifyMode::Tag),
        ("bare", "bare", VerifyMode::Tag),
        ("branch", "main", VerifyMode::Tag),
    ])
    .await;
    signed.trust(&[&ada]);
    let name = Some(ada.name().unwrap());

    // A signed tag of a commit that nobody signed, and tags without a signature.
    let nobodys = signed.push("one", None);
    signed.upstream.push_signed_tag("v1", &ada).unwrap();
    signed.upstream.push_tag("bare").unwrap();
    let light = ["tag", "light"];
    signed.upstream.run(&light).unwrap();
    let light = ["push", "--quiet", "origin", "refs/tags/light"];
    signed.upstream.run(&light).unwrap();
    let manifest = signed.look().await;
    let served = Signed::served(&manifest, "tag");
    assert_eq!(served, (nobodys.clone(), None, name.clone()));
    let commit = &nobodys[..12];
    Signed::refused(&manifest, "both", &["the commit isn't signed", commit]);
    Signed::refused(&manifest, "bare", &["the tag bare isn't signed", commit]);
    for (key, words) in [
        ("light", "the tag light is a lightweight one"),
        ("branch", "name a tag as the ref, or take the mode HEAD"),
    ] {
        let problem = manifest.results[key].problem.as_ref().unwrap();
        assert_eq!(problem.reason, Reason::Unverified);
        assert!(problem.message.contains(words), "{problem:?}");
    }
    for key in ["both", "light", "bare", "branch"] {
        assert_eq!(manifest.results[key].good, None, "{key}");
    }

    // The tag moves to a commit that is signed, too.
    let both = signed.push("two", Some(&ada));
    signed.upstream.push_signed_tag("v1", &ada).unwrap();
    let manifest = signed.look().await;
    let served = Signed::served(&manifest, "both");
    assert_eq!(served, (both.clone(), name.clone(), name.clone()));
    assert_eq!(Signed::served(&manifest, "tag"), (both.clone(), None, name));

    // Somebody else moves it on, by a commit of hers that is signed.
    signed.push("three", Some(&ada));
    signed.upstream.push_signed_tag("v1", &eve).unwrap();
    let manifest = signed.look().await;
    let strange = eve.name().unwrap();
    for key in ["tag", "both"] {
        Signed::refused(&manifest, key, &["the tag v1", &strange, "git tag -s"]);
        signed.holds(&manifest, key, &both, "two");
    }
}

#[tokio::test]
async fn tags_have_to_be_signed_by_a_known_ssh_key() {
    tags(Signer::ssh().unwrap(), Signer::ssh().unwrap()).await;
}

#[tokio::test]
async fn tags_have_to_be_signed_by_a_known_openpgp_key() {
    tags(Signer::openpgp().unwrap(), Signer::openpgp().unwrap()).await;
}

#[tokio::test]
async fn rotated_keys_count_at_once() {
    let (old, new) = (Signer::ssh().unwrap(), Signer::openpgp().unwrap());
    let mut signed = Signed::new(&[("app", "main", VerifyMode::Head)]).await;
    let pid = signed.role.pid();
    signed.trust(&[&old]);
    let first = signed.push("one", Some(&old));
    Signed::served(&signed.look().await, "app");

    // What the new one signed is refused until it is trusted, and then needs no other push.
    let second = signed.push("two", Some(&new));
    let manifest = signed.look().await;
    Signed::refused(&manifest, "app", &[&new.name().unwrap()]);
    signed.holds(&manifest, "app", &first, "one");
    signed.trust(&[&old, &new]);
    let manifest = signed.look().await;
    let name = Some(new.name().unwrap());
    assert_eq!(Signed::served(&manifest, "app"), (second, name, None));

    // The old one vouches for nothing once it is gone.
    signed.trust(&[&new]);
    let third = signed.push("three", Some(&old));
    let manifest = signed.look().await;
    let words = [&*old.name().unwrap(), &third[..12]];
    Signed::refused(&manifest, "app", &words);
    assert_eq!(signed.role.pid(), pid);
    assert!(signed.role.is_running().unwrap());
}

#[tokio::test]
async fn a_key_that_expired_or_was_revoked_vouches_for_nothing() {
    for (given_up, words) in [
        (
            Signer::expire as fn(&Signer) -> _,
            "which had expired by then",
        ),
        (Signer::revoke, "which is revoked"),
    ] {
        let ada = Signer::openpgp().unwrap();
        let mut signed = Signed::new(&[("app", "main", VerifyMode::Head)]).await;
        signed.trust(&[&ada]);
        let first = signed.push("one", Some(&ada));
        Signed::served(&signed.look().await, "app");
        let second = signed.push("two", Some(&ada));
        // Her key says so of itself from now on.
        given_up(&ada).unwrap();
        signed.trust(&[&ada]);
        let manifest = signed.look().await;
        let name = ada.name().unwrap();
        Signed::refused(&manifest, "app", &[&name, words, &second[..12]]);
        signed.holds(&manifest, "app", &first, "one");
    }
}
