//! Charts in OCI registries: a real registry, pushed to by a real helm.

use std::collections::BTreeMap;

use serde_json::json;
use tandem_shared::credentials;
use tandem_shared::manifest::{Good, Manifest, Reason};
use tandem_shared::request::{Prefer, Request, Want, WantKind, WantSpec};
use tandem_shared::source::{CredentialRef, Source, SourceKind};
use tandem_tests::pair::{Extra, Role};
use tandem_tests::registry::{Access, Answered, IDENTITY_TOKEN, PASSWORD, Registry, USER, digest};
use tandem_tests::requests::{content, failure, manifest, problem, request};
use tandem_tests::volume::Volume;

use crate::common::start;

fn oci(url: &str) -> Source {
    Source {
        kind: SourceKind::Oci,
        url: url.to_owned(),
        credential: None,
    }
}

/// The chart `name`, as a want named after the version that is asked for.
fn chart(name: &str, version: &str) -> Want {
    Want {
        key: version.to_owned(),
        spec: WantSpec {
            kind: WantKind::Chart,
            reference: None,
            version: Some(version.to_owned()),
            path: name.to_owned(),
            skip_dependencies: false,
            submodules: false,
            verify: None,
        },
        group: String::new(),
        rejected: Default::default(),
        prefer: Prefer::default(),
        keys_id: None,
        used_by: Vec::new(),
    }
}

/// A sidecar that asks this registry in the clear.
async fn beside(registry: &Registry) -> (Volume, Role) {
    let plain = format!("--plain-http-registries={}", registry.host());
    start(&Extra::args([plain])).await
}

/// Asks anew, and waits until that was answered.
async fn asked_again(volume: &Volume, asked: &mut Request, refresh: &str) -> Manifest {
    asked.refresh = refresh.to_owned();
    volume.ask(asked).unwrap();
    manifest(volume, &asked.source, "asked again", |manifest| {
        manifest.handled_refresh == refresh
    })
    .await
    .unwrap()
}

fn good<'a>(manifest: &'a Manifest, key: &str) -> &'a Good {
    let result = &manifest.results[key];
    assert_eq!(result.problem, None, "{key}");
    result.good.as_ref().unwrap()
}

/// Waits until a want has a good result with this digest of the registry's.
async fn came(volume: &Volume, source: &Source, key: &str, digest: &str) -> Good {
    let has = |manifest: &Manifest| {
        let good = manifest.results.get(key)?.good.clone()?;
        (good.upstream_digest.as_deref() == Some(digest)).then_some(good)
    };
    let what = format!("{key} as {digest}");
    let found = manifest(volume, source, &what, |manifest| has(manifest).is_some()).await;
    has(&found.unwrap()).unwrap()
}

fn marker(volume: &Volume, good: &Good) -> String {
    let files = content(volume, &good.artifact).unwrap();
    let line = files["templates/cm.yaml"]
        .lines()
        .find(|line| line.contains("marker"));
    line.unwrap().trim().to_owned()
}

/// What was answered of these since `before`.
fn since(registry: &Registry, before: usize) -> Vec<Answered> {
    registry.answered().split_off(before)
}

#[tokio::test]
async fn a_tag_a_range_and_a_digest_give_the_chart_that_helm_pushed() {
    let registry = Registry::start(Access::Open).unwrap();
    let first = registry.push("charts", "web", "1.0.0", "one").unwrap();
    let second = registry.push("charts", "web", "1.1.0+b.1", "two").unwrap();
    registry
        .push("charts", "web", "2.0.0-rc.1", "three")
        .unwrap();
    let (volume, _role) = beside(&registry).await;
    let source = oci(&registry.url("charts"));
    let pinned = format!("1.0.0@{first}");
    let wants = ["1.0.0", "1.1.0+b.1", "^1.0", "*", &first, &pinned];
    let mut asked = request(&source, wants.map(|version| chart("web", version)));
    volume.ask(&asked).unwrap();
    for (key, version, digest, is) in [
        ("1.0.0", "1.0.0", &first, "marker: one"),
        ("1.1.0+b.1", "1.1.0+b.1", &second, "marker: two"),
        ("^1.0", "1.1.0+b.1", &second, "marker: two"),
        ("*", "1.1.0+b.1", &second, "marker: two"),
        (&first, "1.0.0", &first, "marker: one"),
        (&pinned, "1.0.0", &first, "marker: one"),
    ] {
        let good = came(&volume, &source, key, digest).await;
        assert_eq!(good.version.as_deref(), Some(version), "{key}");
        assert_eq!(good.chart.as_ref().unwrap().version, version, "{key}");
        assert_eq!(marker(&volume, &good), is, "{key}");
    }

    // Asked again with nothing new, the registry says so in a few words, and that is all.
    let before = asked_again(&volume, &mut asked, "warm").await;
    assert!(before.checked_at.is_some());
    let answered = registry.answered().len();
    let after = asked_again(&volume, &mut asked, "still").await;
    assert_eq!(after.results, before.results);
    let asked_for = since(&registry, answered);
    let small = |one: &Answered| one.method == "HEAD" || one.path.contains("/tags/list");
    assert!(asked_for.iter().all(small), "{asked_for:?}");
    // A digest can't be anything else than what it was, and the other four stand for two tags.
    let heads = asked_for.iter().filter(|one| one.method == "HEAD");
    assert_eq!(heads.count(), 2, "{asked_for:?}");

    // Nor is anybody asked who is asked for a digest alone.
    asked.wants = vec![chart("web", &first)];
    let answered = registry.answered().len();
    asked_again(&volume, &mut asked, "pinned").await;
    assert_eq!(since(&registry, answered), []);
}

#[tokio::test]
async fn a_moved_tag_is_followed_and_a_range_moves_only_to_what_is_newer() {
    let registry = Registry::start(Access::Open).unwrap();
    let first = registry.push("charts", "web", "1.2.0", "one").unwrap();
    let (volume, mut role) = beside(&registry).await;
    let source = oci(&registry.url("charts"));
    let mut asked = request(
        &source,
        ["1.2.0", "1.x"].map(|version| chart("web", version)),
    );
    volume.ask(&asked).unwrap();
    let before = came(&volume, &source, "1.2.0", &first).await;
    came(&volume, &source, "1.x", &first).await;

    // The same content, pushed under the same tag, is no news to anybody.
    let same = registry.push("charts", "web", "1.2.0", "one").unwrap();
    let manifest = asked_again(&volume, &mut asked, "same").await;
    let after = good(&manifest, "1.2.0");
    assert_eq!(after.upstream_digest.as_ref(), Some(&same));
    assert_eq!(
        (&after.artifact, after.since),
        (&before.artifact, before.since)
    );

    // Other content is.
    let moved = registry.push("charts", "web", "1.2.0", "moved").unwrap();
    assert_ne!(moved, first);
    let manifest = asked_again(&volume, &mut asked, "moved").await;
    for key in ["1.2.0", "1.x"] {
        assert_eq!(good(&manifest, key).upstream_digest.as_ref(), Some(&moved));
        assert_eq!(marker(&volume, good(&manifest, key)), "marker: moved");
    }

    // Older, or of another line, or no release: nothing that the range moves to.
    for other in ["1.1.9", "2.0.0", "1.3.0-rc.1"] {
        registry.push("charts", "web", other, other).unwrap();
    }
    let manifest = asked_again(&volume, &mut asked, "others").await;
    assert_eq!(good(&manifest, "1.x").version.as_deref(), Some("1.2.0"));
    let newer = registry.push("charts", "web", "1.10.0", "newer").unwrap();
    let manifest = asked_again(&volume, &mut asked, "newer").await;
    let held = good(&manifest, "1.x").clone();
    assert_eq!(held.version.as_deref(), Some("1.10.0"));
    assert_eq!(held.upstream_digest.as_ref(), Some(&newer));

    // Gone, it stays, and what is left of the range isn't taken instead; also later, and by
    // a sidecar that was started anew.
    registry.remove_tag("charts/web", "1.10.0").await.unwrap();
    role.terminate().unwrap();
    role.restart().unwrap();
    let manifest = asked_again(&volume, &mut asked, "gone").await;
    let result = &manifest.results["1.x"];
    assert_eq!(result.good.as_ref(), Some(&held));
    let told = result.problem.as_ref().unwrap();
    assert_eq!(told.reason, Reason::VersionNotFound);
    assert!(told.message.contains("1.10.0 is gone"), "{}", told.message);
    assert!(
        volume
            .artifacts()
            .unwrap()
            .contains(&held.artifact.file_name())
    );
    registry.push("charts", "web", "1.11.0", "newest").unwrap();
    let manifest = asked_again(&volume, &mut asked, "newest").await;
    assert_eq!(good(&manifest, "1.x").version.as_deref(), Some("1.11.0"));
}

#[tokio::test]
async fn what_is_wrong_is_told_of_each_and_stops_no_other() {
    let registry = Registry::start(Access::Open).unwrap();
    let first = registry.push("charts", "web", "1.0.0", "one").unwrap();
    let image = "application/vnd.oci.image.config.v1+json";
    let blob = json!({"mediaType": image, "digest": digest(b"{}"), "size": 2});
    let oci_manifest = "application/vnd.oci.image.manifest.v1+json";
    let text = json!({"schemaVersion": 2, "mediaType": oci_manifest, "config": blob, "layers": []});
    registry
        .put_manifest("charts/image", "1.0.0", oci_manifest, &text, &[b"{}"])
        .await
        .unwrap();
    let index = "application/vnd.oci.image.index.v1+json";
    let part = json!({"mediaType": oci_manifest, "digest": digest(text.to_string().as_bytes()), "size": text.to_string().len()});
    let list = json!({"schemaVersion": 2, "mediaType": index, "manifests": [part]});
    registry
        .put_manifest("charts/image", "2.0.0", index, &list, &[])
        .await
        .unwrap();
    // What says that it is a chart, and has something else for its archive.
    let config = json!({"mediaType": "application/vnd.cncf.helm.config.v1+json", "digest": digest(b"{}"), "size": 2});
    let html = b"<html>no archive</html>";
    let layer = json!({"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "digest": digest(html), "size": html.len()});
    let text =
        json!({"schemaVersion": 2, "mediaType": oci_manifest, "config": config, "layers": [layer]});
    registry
        .put_manifest("charts/image", "3.0.0", oci_manifest, &text, &[b"{}", html])
        .await
        .unwrap();

    let (volume, _role) = beside(&registry).await;
    let source = oci(&registry.url("charts"));
    let unknown = format!("sha256:{}", "0".repeat(64));
    let other = format!("2.0.0@{first}");
    let named = |key: &str, name: &str, version: &str| Want {
        key: key.to_owned(),
        ..chart(name, version)
    };
    let cases = [
        ("tag", "web", "9.9.9", Reason::VersionNotFound, "9.9.9"),
        ("part", "web", "1.0", Reason::VersionNotFound, "write 1.0.x"),
        (
            "range",
            "web",
            "3.x",
            Reason::VersionNotFound,
            "there are 1.0.0",
        ),
        ("digest", "web", &unknown, Reason::VersionNotFound, "0000"),
        (
            "other",
            "web",
            &other,
            Reason::InvalidChart,
            "version \"1.0.0\"",
        ),
        (
            "chart",
            "gone",
            "1.0.0",
            Reason::VersionNotFound,
            "charts/gone",
        ),
        (
            "charts",
            "gone",
            "1.x",
            Reason::ChartNotFound,
            "charts/gone",
        ),
        (
            "twice",
            "charts",
            "1.0.0",
            Reason::VersionNotFound,
            "already",
        ),
        (
            "image",
            "image",
            "1.0.0",
            Reason::InvalidChart,
            "image.config",
        ),
        ("index", "image", "2.0.0", Reason::InvalidChart, "index"),
        ("html", "image", "3.0.0", Reason::InvalidChart, "<html>"),
        ("name", "../x", "1.0.0", Reason::InvalidPath, "../x"),
        ("version", "web", "a/b", Reason::InvalidVersion, "a/b"),
    ];
    let mut wants: Vec<Want> = cases
        .iter()
        .map(|(key, name, version, ..)| named(key, name, version))
        .collect();
    wants.push(chart("web", "1.0.0"));
    volume.ask(&request(&source, wants)).unwrap();
    came(&volume, &source, "1.0.0", &first).await;
    for (key, _, _, reason, words) in cases {
        let told = problem(&volume, &source, key, &reason).await.unwrap();
        assert!(told.contains(words), "{key}: {told}");
    }
}

#[tokio::test]
async fn a_chart_that_the_storage_lost_stops_no_other_and_comes_when_it_is_back() {
    let registry = Registry::start(Access::Open).unwrap();
    let lost = registry.push("charts", "a-lost", "1.0.0", "lost").unwrap();
    let there = registry.push("charts", "web", "1.0.0", "one").unwrap();
    registry.spoil(&lost, true).unwrap();
    let (volume, _role) = beside(&registry).await;
    let source = oci(&registry.url("charts"));
    let lost_chart = Want {
        key: "a-lost".to_owned(),
        ..chart("a-lost", "1.0.0")
    };
    let asked = request(&source, [lost_chart, chart("web", "1.0.0")]);
    volume.ask(&asked).unwrap();
    came(&volume, &source, "1.0.0", &there).await;
    let told = manifest(&volume, &source, "a problem of the lost one", |one| {
        let result = one.results.get("a-lost");
        result.is_some_and(|result| result.problem.is_some())
    })
    .await
    .unwrap();
    assert_eq!(told.failure, None);
    registry.spoil(&lost, false).unwrap();
    came(&volume, &source, "a-lost", &lost).await;
}

#[tokio::test]
async fn a_repository_at_which_the_registry_fails_stops_no_other() {
    let registry = Registry::start(Access::Open).unwrap();
    let there = registry.push("charts", "web", "1.0.0", "one").unwrap();
    let mut wants = vec![chart("web", "1.0.0")];
    for name in ["a-first", "b-second"] {
        registry.push("charts", name, "1.0.0", name).unwrap();
        registry.spoil_tags(&format!("charts/{name}")).unwrap();
        wants.push(Want {
            key: name.to_owned(),
            ..chart(name, "1.0.0")
        });
    }
    // They come before it.
    wants[0].key = "web".to_owned();
    let (volume, _role) = beside(&registry).await;
    let source = oci(&registry.url("charts"));
    volume.ask(&request(&source, wants)).unwrap();
    came(&volume, &source, "web", &there).await;
    for name in ["a-first", "b-second"] {
        let told = problem(&volume, &source, name, &Reason::Remote).await;
        assert!(told.unwrap().contains(name));
    }
    let told = manifest(&volume, &source, "all", |one| one.results.len() == 3).await;
    assert_eq!(told.unwrap().failure, None);
}

/// Puts a credential on the volume as the reconciler does, and has the source name it.
fn give(volume: &Volume, asked: &mut Request, values: &[(&str, String)]) {
    let reference = CredentialRef {
        namespace: "apps".to_owned(),
        name: "pull".to_owned(),
    };
    let values: BTreeMap<String, Vec<u8>> = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone().into_bytes()))
        .collect();
    let store = credentials::Store::open(&volume.credentials()).unwrap();
    asked.credential_id = Some(store.put(&reference, &values).unwrap());
    asked.source.credential = Some(reference);
}

fn docker(host: &str, entry: serde_json::Value) -> String {
    json!({"auths": {"https://other.example.org": {"auth": "eDp5"}, host: entry}}).to_string()
}

#[tokio::test]
async fn credentials_open_registries_and_are_shown_nowhere() {
    for access in [Access::Password, Access::Token] {
        let registry = Registry::start(access).unwrap();
        let pushed = registry.push("charts", "web", "1.0.0", "one").unwrap();
        let (volume, role) = beside(&registry).await;
        let source = oci(&registry.url("charts"));
        let mut asked = request(&source, [chart("web", "1.0.0"), chart("web", "1.x")]);

        // Nobody gets nothing, and is told what to do.
        volume.ask(&asked).unwrap();
        let told = match access {
            Access::Password => failure(&volume, &source, &[Reason::AuthenticationFailed]).await,
            _ => problem(&volume, &source, "1.0.0", &Reason::AuthenticationFailed).await,
        };
        assert!(told.unwrap().contains("chartPullSecret"));

        // A wrong password is told as one, and said nowhere.
        let login = |password: &str| json!({"username": USER, "password": password});
        give(
            &volume,
            &mut asked,
            &[(
                ".dockerconfigjson",
                docker(&registry.host(), login("wr0ng-password")),
            )],
        );
        let named = asked.source.clone();
        volume.ask(&asked).unwrap();
        let told = failure(&volume, &named, &[Reason::AuthenticationFailed])
            .await
            .unwrap();
        assert!(told.contains("refuses the credential"), "{told}");

        // That of another registry isn't used.
        give(
            &volume,
            &mut asked,
            &[(
                ".dockerconfigjson",
                docker("elsewhere:5000", login(PASSWORD)),
            )],
        );
        volume.ask(&asked).unwrap();
        let host = registry.host();
        let found = manifest(&volume, &named, "told that there is no entry", |manifest| {
            let failure = manifest.failure.as_ref();
            failure.is_some_and(|failure| failure.message.contains(&format!("no entry for {host}")))
        });
        let told = found.await.unwrap().failure.unwrap().message;
        assert!(told.contains("elsewhere:5000"), "{told}");

        // The right one is, at once.
        give(
            &volume,
            &mut asked,
            &[(
                ".dockerconfigjson",
                docker(&registry.host(), login(PASSWORD)),
            )],
        );
        volume.ask(&asked).unwrap();
        came(&volume, &named, "1.0.0", &pushed).await;
        came(&volume, &named, "1.x", &pushed).await;

        // So is a user and password as they are.
        let plain = [
            ("username", USER.to_owned()),
            ("password", PASSWORD.to_owned()),
        ];
        give(&volume, &mut asked, &plain);
        let newer = registry.push("charts", "web", "1.1.0", "two").unwrap();
        volume.ask(&asked).unwrap();
        came(&volume, &named, "1.x", &newer).await;

        if access == Access::Token {
            // Docker leaves one of these for registries that don't want to see a password twice.
            let entry = json!({"auth": "MDo=", "identitytoken": IDENTITY_TOKEN});
            give(
                &volume,
                &mut asked,
                &[(".dockerconfigjson", docker(&registry.host(), entry))],
            );
            let newest = registry.push("charts", "web", "1.2.0", "three").unwrap();
            volume.ask(&asked).unwrap();
            came(&volume, &named, "1.x", &newest).await;
            let tokens = registry.tokens_asked();
            let posted = tokens.iter().filter(|line| line.starts_with("POST"));
            assert!(posted.clone().count() > 0, "{tokens:?}");
            assert!(
                posted.clone().all(|line| line.contains("ok=true")),
                "{tokens:?}"
            );
            // The sidecar never asks for more than it needs.
            let ours = tokens.iter().filter(|line| !line.contains("push"));
            assert!(ours.clone().count() > 0 && ours.clone().all(|line| line.contains(":pull\"")));

            // What everybody may have needs no credential.
            let public = registry
                .push("public/charts", "web", "1.0.0", "one")
                .unwrap();
            let source = oci(&registry.url("public/charts"));
            volume
                .ask(&request(&source, [chart("web", "1.0.0")]))
                .unwrap();
            came(&volume, &source, "1.0.0", &public).await;
        }
        for secret in [PASSWORD, IDENTITY_TOKEN, "wr0ng-password", "eDp5"] {
            assert_eq!(
                volume.find(secret).unwrap(),
                Vec::<std::path::PathBuf>::new()
            );
            assert!(!role.log().contains(secret), "{secret}");
        }
    }
}

#[tokio::test]
async fn each_repository_is_opened_by_the_entry_that_names_most_of_it() {
    let registry = Registry::start(Access::Password).unwrap();
    for name in ["web", "api", "job"] {
        registry.push("team/charts", name, "1.0.0", name).unwrap();
    }
    let (volume, _role) = beside(&registry).await;
    let source = oci(&registry.url("team/charts"));
    let named = |name: &str| Want {
        key: name.to_owned(),
        ..chart(name, "1.0.0")
    };
    let mut asked = request(&source, ["web", "api", "job"].map(named));
    let login = |password: &str| json!({"username": USER, "password": password});
    let host = registry.host();
    let auths = json!({
        host.as_str(): login("wr0ng"),
        format!("{host}/team"): login(PASSWORD),
        format!("{host}/team/charts/api"): login("wr0ng-api"),
        format!("{host}/team/charts/we"): login("wr0ng-we"),
        format!("{host}/team/charts/job"): {},
    });
    let config = json!({"auths": auths}).to_string();
    give(&volume, &mut asked, &[(".dockerconfigjson", config)]);
    let found = asked_again(&volume, &mut asked, "first").await;
    assert_eq!(marker(&volume, good(&found, "web")), "marker: web");
    for (key, words) in [
        ("api", "refuses the credential"),
        ("job", "holds no `auth`"),
    ] {
        let problem = found.results[key].problem.as_ref().unwrap();
        assert_eq!(problem.reason, Reason::AuthenticationFailed);
        assert!(problem.message.contains(words), "{}", problem.message);
    }
    // Of what nothing is left to open, the source says it.
    asked.wants.retain(|want| want.key == "job");
    volume.ask(&asked).unwrap();
    failure(&volume, &asked.source, &[Reason::AuthenticationFailed])
        .await
        .unwrap();
}

#[tokio::test]
async fn a_registry_of_an_own_authority_is_trusted_by_its_certificate_alone() {
    let registry = Registry::start_secure(Access::Token).unwrap();
    let pushed = registry.push("charts", "web", "1.0.0", "one").unwrap();
    let (volume, _role) = start(&Extra::default()).await;
    let source = oci(&registry.url("charts"));
    let mut asked = request(&source, [chart("web", "1.0.0")]);
    volume.ask(&asked).unwrap();
    failure(&volume, &source, &[Reason::HostNotTrusted])
        .await
        .unwrap();

    let authority = std::fs::read_to_string(registry.authority().unwrap()).unwrap();
    let values = [
        ("ca.crt", authority),
        ("username", USER.to_owned()),
        ("password", PASSWORD.to_owned()),
    ];
    give(&volume, &mut asked, &values);
    volume.ask(&asked).unwrap();
    came(&volume, &asked.source, "1.0.0", &pushed).await;
}

#[tokio::test]
async fn an_outage_takes_nothing_away() {
    let mut registry = Registry::start(Access::Open).unwrap();
    let first = registry.push("charts", "web", "1.0.0", "one").unwrap();
    let (volume, mut role) = beside(&registry).await;
    let source = oci(&registry.url("charts"));
    let mut asked = request(&source, [chart("web", "1.x")]);
    volume.ask(&asked).unwrap();
    let before = came(&volume, &source, "1.x", &first).await;

    registry.stop().unwrap();
    asked.refresh = "away".to_owned();
    volume.ask(&asked).unwrap();
    failure(&volume, &source, &[Reason::Unreachable])
        .await
        .unwrap();
    role.kill().unwrap();
    role.restart().unwrap();
    asked.refresh = "still away".to_owned();
    volume.ask(&asked).unwrap();
    let found = manifest(&volume, &source, "failing again", |manifest| {
        manifest.handled_refresh == "still away" && manifest.failure.is_some()
    });
    assert_eq!(
        found.await.unwrap().results["1.x"].good.as_ref(),
        Some(&before)
    );
    assert_eq!(marker(&volume, &before), "marker: one");

    // It comes back with something newer, which is seen without anybody asking.
    registry.resume().unwrap();
    let newer = registry.push("charts", "web", "1.1.0", "two").unwrap();
    came(&volume, &source, "1.x", &newer).await;
}
