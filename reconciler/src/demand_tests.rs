#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use serde_json::json;

use super::*;

fn defaults() -> SourceDefaults {
    SourceDefaults {
        interval: Duration::from_secs(300),
        timeout: Duration::from_secs(120),
        reference: None,
        skip_dependencies: false,
    }
}

fn release(namespace: &str, name: &str, spec: serde_json::Value) -> HelmRelease {
    serde_json::from_value(json!({
        "apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease",
        "metadata": {"namespace": namespace, "name": name}, "spec": spec,
    }))
    .unwrap()
}

fn git(url: &str, path: &str) -> serde_json::Value {
    json!({"chart": {"git": url, "ref": "main", "path": path}})
}

fn all(releases: &[HelmRelease]) -> BTreeMap<SourceName, Request> {
    let wishes: Vec<(String, Wish)> = releases
        .iter()
        .map(|release| (release.key(), wish(release, &defaults()).unwrap()))
        .collect();
    let parts = wishes.iter().map(|(key, wish)| Part {
        helm_release: key,
        wish,
        credential: None,
    });
    requests(parts, &Extras::default(), &defaults())
}

#[test]
fn one_source_is_asked_once_however_many_want_it() {
    let made = all(&[
        release("a", "one", git("https://h/r.git", "charts/x")),
        release("b", "two", git("https://h/r.git", "./charts/x/")),
        release("b", "three", git("https://h/r.git", "charts/y")),
        release("b", "four", git("https://h/R.git", "charts/y")),
    ]);
    assert_eq!(made.len(), 2);
    let first = made
        .values()
        .find(|request| request.source.url.ends_with("r.git"))
        .unwrap();
    assert_eq!(first.wants.len(), 2);
    let shared = first
        .wants
        .iter()
        .find(|want| want.spec.path == "charts/x")
        .unwrap();
    assert_eq!(shared.used_by, ["a/one", "b/two"]);
}

#[test]
fn the_order_of_helm_releases_does_not_matter() {
    let mut releases = vec![
        release("a", "one", git("https://h/r.git", "x")),
        release("b", "two", git("https://h/r.git", "x")),
        release("c", "three", git("https://h/s.git", "y")),
    ];
    let forwards = all(&releases);
    releases.reverse();
    assert_eq!(forwards, all(&releases));
}

#[test]
fn paths_are_cleaned_and_what_leads_out_is_left_for_the_refusal() {
    for (written, cleaned) in [
        ("charts/x", "charts/x"),
        ("/charts//x/", "charts/x"),
        ("./a/../charts/x", "charts/x"),
        (".", "."),
        ("/", "."),
        ("../x", "../x"),
        ("a/../../x", "a/../../x"),
    ] {
        assert_eq!(clean(written), cleaned, "{written}");
    }
}

#[test]
fn a_values_file_moves_with_the_chart_unless_it_may_be_missing() {
    let mut spec = git("https://h/r.git", "charts/x");
    spec["valuesFrom"] = json!([
        {"chartFileRef": {"path": "prod.yaml"}},
        {"chartFileRef": {"path": "../shared.yaml", "optional": true}},
    ]);
    let wish = wish(&release("a", "one", spec), &defaults()).unwrap();
    assert_eq!(wish.wants[0].spec.kind, WantKind::Chart);
    let find = |path: &str| {
        wish.wants
            .iter()
            .find(|want| want.spec.path == path)
            .unwrap()
    };
    assert_eq!(find("charts/x/prod.yaml").group, wish.wants[0].group);
    assert_ne!(find("charts/shared.yaml").group, wish.wants[0].group);
    assert_eq!(wish.files["prod.yaml"], find("charts/x/prod.yaml").key);
    assert_eq!(wish.files["../shared.yaml"], find("charts/shared.yaml").key);
}

#[test]
fn a_password_never_reaches_a_request() {
    let wish = wish(
        &release("a", "one", git("https://me:s%40cret@h/Path.git", "x")),
        &defaults(),
    )
    .unwrap();
    assert_eq!(wish.source.url, "https://h/Path.git");
    assert_eq!(wish.embedded.as_ref().unwrap()["password"], b"s@cret");
    assert_eq!(
        wish.source.credential.as_ref().unwrap().name,
        "helmrelease:one"
    );
    assert!(
        !format!(
            "{:?}",
            all(&[release(
                "a",
                "one",
                git("https://me:s%40cret@h/Path.git", "x")
            )])
        )
        .contains("cret")
    );
    // Where it would be of no use it goes nowhere at all.
    for (written, kept) in [
        ("ssh://git@h/r.git", "ssh://git@h/r.git"),
        ("ssh://git:s3cret@h/r.git", "ssh://git@h/r.git"),
        ("git://me:s3cret@h/r.git", "git://h/r.git"),
        ("git:s3cret@h:r.git", "git@h:r.git"),
        ("https://me:s3 cret@h:port/r.git", "https://h:port/r.git"),
    ] {
        let wish = super::wish(&release("a", "one", git(written, "x")), &defaults()).unwrap();
        assert_eq!((wish.source.url.as_str(), wish.embedded), (kept, None));
    }
}

#[test]
fn a_secret_that_is_named_wins_and_is_part_of_the_identity() {
    let mut spec = git("https://me:old@h/r.git", "x");
    spec["chart"]["secretRef"] = json!({"name": "token"});
    let wish = wish(&release("a", "one", spec), &defaults()).unwrap();
    assert_eq!(
        wish.source.credential,
        Some(CredentialRef {
            namespace: "a".into(),
            name: "token".into()
        })
    );
    assert_eq!(wish.embedded, None);
    assert_ne!(
        wish.name,
        super::wish(
            &release("a", "one", git("https://h/r.git", "x")),
            &defaults()
        )
        .unwrap()
        .name
    );
}

#[test]
fn a_short_commit_id_keeps_what_it_stood_for() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let mut one = release(
        "a",
        "one",
        json!({"chart": {"git": "https://h/r.git", "ref": "0123456", "path": "x"}}),
    );
    one.status = serde_json::from_value(json!({"lastAttemptedRevision": commit})).unwrap();
    assert_eq!(
        wish(&one, &defaults()).unwrap().wants[0]
            .prefer
            .commit
            .as_deref(),
        Some(commit)
    );
    one.spec.chart.git_ref = Some("main".into());
    assert!(wish(&one, &defaults()).unwrap().wants[0].prefer.is_empty());
}

#[test]
fn tokens_and_rejections_are_kept() {
    let one = release("a", "one", git("https://h/r.git", "x"));
    let wish = wish(&one, &defaults()).unwrap();
    let digest: Digest = format!("t1:{}", "0".repeat(64)).parse().unwrap();
    let extras = Extras {
        refresh: [(wish.name.clone(), "token".to_owned())].into(),
        rejected: [(
            (wish.name.clone(), wish.chart().to_owned()),
            [digest.clone()].into(),
        )]
        .into(),
    };
    let part = Part {
        helm_release: "a/one",
        wish: &wish,
        credential: Some("id"),
    };
    let made = requests([part], &extras, &defaults());
    let request = &made[&wish.name];
    assert_eq!(request.refresh, "token");
    assert_eq!(request.credential_id.as_deref(), Some("id"));
    assert_eq!(request.wants[0].rejected, [digest].into());
}

#[test]
fn repositories_ask_for_a_version() {
    let one = release(
        "a",
        "one",
        json!({"chart": {"repository": "https://h/charts", "name": "web", "version": "^1.0"}}),
    );
    let wish = wish(&one, &defaults()).unwrap();
    assert_eq!(wish.source.kind, SourceKind::Helm);
    assert_eq!(wish.wants[0].spec.version.as_deref(), Some("^1.0"));
    let oci = release(
        "a",
        "one",
        json!({"chart": {"repository": "oci://h/charts", "name": "web", "version": "1.0.0"}}),
    );
    assert_eq!(
        super::wish(&oci, &defaults()).unwrap().source.kind,
        SourceKind::Oci
    );
    let nothing = release("a", "one", json!({"chart": {"git": "https://h/r.git"}}));
    assert!(
        super::wish(&nothing, &defaults())
            .unwrap_err()
            .is_chart_source()
    );
}

#[test]
fn dependencies_are_left_alone_if_either_the_operator_or_the_helm_release_says_so() {
    for (operator, helm_release, expected) in [
        (false, None, false),
        (false, Some(true), true),
        (true, None, true),
        (true, Some(false), true),
    ] {
        let defaults = SourceDefaults {
            skip_dependencies: operator,
            ..defaults()
        };
        let mut spec = git("https://h/r.git", "x");
        spec["chart"]["skipDepUpdate"] = json!(helm_release);
        let wish = wish(&release("a", "one", spec), &defaults).unwrap();
        assert_eq!(wish.wants[0].spec.skip_dependencies, expected);
    }
}
