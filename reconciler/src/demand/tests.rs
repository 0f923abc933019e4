#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use serde_json::json;
use tandem_shared::artifact::Digest;
use tandem_shared::request::{Request, WantKind};
use tandem_shared::source::{CredentialRef, SourceKind};

use super::files::file_name;
use super::git::clean;
use super::*;

fn defaults() -> SourceDefaults {
    SourceDefaults {
        interval: Duration::from_secs(300),
        timeout: Duration::from_secs(120),
        reference: None,
        skip_dependencies: false,
        own_namespace_alone: false,
    }
}

fn release(namespace: &str, name: &str, spec: serde_json::Value) -> HelmRelease {
    serde_json::from_value(json!({
        "apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease",
        "metadata": {"namespace": namespace, "name": name}, "spec": spec,
    }))
    .unwrap()
}

const NO_KEYS: &BTreeMap<CredentialRef, String> = &BTreeMap::new();

fn git(url: &str, path: &str) -> serde_json::Value {
    json!({"chart": {"git": url, "ref": "main", "path": path}})
}

fn all(releases: &[HelmRelease]) -> BTreeMap<SourceName, Request> {
    let wishes: Vec<(String, Wish)> = releases
        .iter()
        .map(|release| (release.key(), wish(release, &defaults()).unwrap()))
        .collect();
    let parts = wishes.iter().flat_map(|(key, wish)| {
        wish.sources().map(move |wish| Part {
            helm_release: key,
            wish,
            credential: None,
            keys: NO_KEYS,
        })
    });
    requests(parts, &Extras::default(), &defaults())
}

/// The status of a HelmRelease of which this was tried last.
fn tried(chart: &str, revision: &str) -> Option<HelmReleaseStatus> {
    Some(HelmReleaseStatus {
        last_attempted_revision: Some(revision.to_owned()),
        last_attempted_chart: Some(chart.to_owned()),
        ..HelmReleaseStatus::default()
    })
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
    assert_eq!(wish.chart.wants[0].spec.kind, WantKind::Chart);
    let find = |path: &str| {
        wish.chart
            .wants
            .iter()
            .find(|want| want.spec.path == path)
            .unwrap()
    };
    assert_eq!(find("charts/x/prod.yaml").group, wish.chart.wants[0].group);
    assert_ne!(find("charts/shared.yaml").group, wish.chart.wants[0].group);
    for (written, path, with_chart) in [
        ("prod.yaml", "charts/x/prod.yaml", true),
        ("../shared.yaml", "charts/shared.yaml", false),
    ] {
        let found = &wish.files[&FileRef::Chart(written.into())];
        assert_eq!(found.key, find(path).key);
        assert_eq!(found.with_chart, with_chart);
        assert_eq!(found.source, wish.chart.name);
    }
}

#[test]
fn each_url_is_a_source_of_its_own_and_shared_by_all_who_name_it() {
    let mut one = git("https://h/r.git", "charts/x");
    one["valuesFrom"] = json!([
        {"externalSourceRef": {"url": "https://h/a/prod.yaml?token=t", "optional": true}},
        {"externalSourceRef": {"url": "https://h/"}},
        {"externalSourceRef": {"url": "https://h/"}},
    ]);
    let mut two = git("https://h/r.git", "charts/y");
    two["valuesFrom"] = json!([{"externalSourceRef": {"url": "https://h/a/prod.yaml?token=t"}}]);
    let made = all(&[release("a", "one", one), release("b", "two", two)]);
    assert_eq!(made.len(), 3);
    let of = |url: &str| {
        let mut found = made.values().filter(|made| made.source.url == url);
        let request = found.next().unwrap();
        assert_eq!(request.source.kind, SourceKind::Http);
        assert_eq!(request.wants.len(), 1);
        assert_eq!(request.wants[0].spec.kind, WantKind::File);
        (
            request.wants[0].spec.path.as_str(),
            request.wants[0].used_by.clone(),
        )
    };
    let prod = of("https://h/a/prod.yaml?token=t");
    assert_eq!(prod, ("prod.yaml", vec!["a/one".into(), "b/two".into()]));
    assert_eq!(of("https://h/"), ("values.yaml", vec!["a/one".into()]));
}

#[test]
fn passwords_of_urls_are_kept_apart() {
    let mut spec = git("https://me:one@h/r.git", "x");
    spec["valuesFrom"] = json!([
        {"externalSourceRef": {"url": "https://me:two@h/v"}},
        {"externalSourceRef": {"url": "https://me:three@h/w"}},
        {"externalSourceRef": {"url": "https://me:four@h/w"}},
        {"externalSourceRef": {"url": "https://h/w"}},
    ]);
    let wish = wish(&release("a", "one", spec), &defaults()).unwrap();
    let mut credentials = BTreeMap::new();
    for source in wish.sources() {
        assert!(!source.source.url.contains("me"), "{source:?}");
        if let Some(credential) = &source.source.credential {
            assert!(credential.name.contains(':'));
            let password = source.embedded.as_ref().unwrap()["password"].clone();
            let same = credentials.insert(credential.clone(), password.clone());
            assert!(same.is_none_or(|same| same == password), "{credential:?}");
        }
    }
    assert_eq!(credentials.len(), 3);
    let bare = &wish.files[&FileRef::Url("https://h/w".into())];
    let bare = wish.source(&bare.source).unwrap();
    assert_eq!(bare.source.credential, None);
}

#[test]
fn files_are_called_as_their_urls_end() {
    for (url, name) in [
        ("https://h/a/prod.yaml?x=/y", "prod.yaml"),
        ("https://h/a/", "values.yaml"),
        ("https://h", "values.yaml"),
        ("https://h/a/..", "values.yaml"),
        ("https://h/a%0Ab", "a%0Ab"),
        ("no url", "values.yaml"),
    ] {
        assert_eq!(file_name(url), name, "{url}");
    }
}

#[test]
fn a_password_never_reaches_a_request() {
    let wish = wish(
        &release("a", "one", git("https://me:s%40cret@h/Path.git", "x")),
        &defaults(),
    )
    .unwrap();
    assert_eq!(wish.chart.source.url, "https://h/Path.git");
    assert_eq!(wish.chart.embedded.as_ref().unwrap()["password"], b"s@cret");
    assert_eq!(
        wish.chart.source.credential.as_ref().unwrap().name,
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
    let chart = json!({"chart": {"repository": "oci://me:s%40cret@h/Charts", "name": "web", "version": "1"}});
    let wish = super::wish(&release("a", "one", chart), &defaults()).unwrap();
    assert_eq!(wish.chart.source.url, "oci://h/Charts");
    assert_eq!(wish.chart.embedded.unwrap()["password"], b"s@cret");
    // Where it would be of no use it goes nowhere at all.
    for (written, kept) in [
        ("ssh://git@h/r.git", "ssh://git@h/r.git"),
        ("ssh://git:s3cret@h/r.git", "ssh://git@h/r.git"),
        ("git://me:s3cret@h/r.git", "git://h/r.git"),
        ("git:s3cret@h:r.git", "git@h:r.git"),
    ] {
        let wish = super::wish(&release("a", "one", git(written, "x")), &defaults()).unwrap();
        assert_eq!(
            (wish.chart.source.url.as_str(), wish.chart.embedded),
            (kept, None)
        );
    }
}

#[test]
fn a_secret_that_is_named_wins_and_is_part_of_the_identity() {
    let mut spec = git("https://me:old@h/r.git", "x");
    spec["chart"]["secretRef"] = json!({"name": "token"});
    let wish = wish(&release("a", "one", spec), &defaults()).unwrap();
    assert_eq!(
        wish.chart.source.credential,
        Some(CredentialRef {
            namespace: "a".into(),
            name: "token".into()
        })
    );
    assert_eq!(wish.chart.embedded, None);
    assert_ne!(
        wish.chart.name,
        super::wish(
            &release("a", "one", git("https://h/r.git", "x")),
            &defaults()
        )
        .unwrap()
        .chart
        .name
    );
}

#[test]
fn a_short_commit_id_or_a_range_keeps_what_it_stood_for() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let mut one = release(
        "a",
        "one",
        json!({"chart": {"git": "https://h/r.git", "ref": "0123456", "path": "x"}}),
    );
    one.status = tried("https://h/r.git/x", commit);
    assert_eq!(
        wish(&one, &defaults()).unwrap().chart.wants[0]
            .prefer
            .commit
            .as_deref(),
        Some(commit)
    );
    for (reference, keeps) in [("semver:^1.2", true), ("main", false), ("fedcba9", false)] {
        one.spec.chart.git_ref = Some(reference.into());
        let prefer = &wish(&one, &defaults()).unwrap().chart.wants[0].prefer;
        assert_eq!(prefer.commit.is_some(), keeps, "{reference}");
    }
}

#[test]
fn a_range_of_versions_keeps_what_it_stood_for() {
    let chart = |version: &str| json!({"chart": {"repository": "https://h/charts", "name": "web", "version": version}});
    let prefers = |name: &str, version: &str, last: &str| {
        let mut one = release("a", name, chart(version));
        one.status = tried("https://h/charts/web", last);
        wish(&one, &defaults()).unwrap().chart
    };
    // What another chart stood for says nothing about this one.
    for other in ["https://h/charts/api", "https://other/charts/web"] {
        let mut one = release("a", "one", chart("^1.0"));
        one.status = tried(other, "1.2.0");
        let wish = wish(&one, &defaults()).unwrap().chart;
        assert_eq!(wish.wants[0].prefer.version, None, "{other}");
    }
    let commit = "0123456789abcdef0123456789abcdef01234567";
    for (version, last, expected) in [
        ("^1.0", "1.2.0", Some("1.2.0")),
        ("1.x", "v1.2.0-rc.1+b", Some("v1.2.0-rc.1+b")),
        (">=1 <2", "1.9.9", Some("1.9.9")),
        // One version means that one.
        ("1.0.0", "1.2.0", None),
        ("v1.0.0", "1.2.0", None),
        // Before, it came from git.
        ("^1.0", commit, None),
    ] {
        let wish = prefers("one", version, last);
        let prefer = wish.wants[0].prefer.version.as_deref();
        assert_eq!(prefer, expected, "{version} {last}");
    }
    // Of two that share a want the newer one counts, whichever comes first.
    let wishes = ["1.9.0", "1.10.0", "1.2.0"].map(|last| prefers("one", "^1", last));
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let parts = order.map(|at| Part {
            helm_release: "a/one",
            wish: &wishes[at],
            credential: None,
            keys: NO_KEYS,
        });
        let made = requests(parts, &Extras::default(), &defaults());
        let prefer = &made[&wishes[0].name].wants[0].prefer;
        assert_eq!(prefer.version.as_deref(), Some("1.10.0"), "{order:?}");
    }
}

#[test]
fn what_dependencies_stood_for_is_preferred_by_all_who_saw_it() {
    let of = |name: &str, chart: &str| {
        let mut one = release("a", name, git("https://h/r.git", "x"));
        let resolved =
            json!([{"name": "lib", "version": "1.0.0", "repository": "https://h", "digest": "d"}]);
        let status = json!({"dependencies": {"for": chart, "dependencies": resolved}});
        one.status = serde_json::from_value(status).unwrap();
        wish(&one, &defaults()).unwrap().chart
    };
    let mut wishes = [
        of("one", "i1:new"),
        of("two", "i1:old"),
        of("three", "i1:new"),
    ];
    let preferred = |wishes: &[SourceWish]| {
        let parts = wishes.iter().map(|wish| Part {
            helm_release: "a/x",
            wish,
            credential: None,
            keys: NO_KEYS,
        });
        let all = requests(parts, &Extras::default(), &defaults());
        let request = all.into_values().next().unwrap();
        request.wants[0].prefer.dependencies.clone()
    };
    let first = preferred(&wishes);
    let charts: Vec<&str> = first.iter().map(|one| one.chart.as_str()).collect();
    assert_eq!(charts, ["i1:new", "i1:old"]);
    wishes.reverse();
    assert_eq!(preferred(&wishes), first);
}

#[test]
fn what_is_to_be_signed_is_asked_for_with_the_keys_of_the_own_namespace() {
    let mut spec = git("https://h/r.git", "x");
    spec["chart"]["verify"] = json!({"mode": "Tag", "secretRef": {"name": "signers"}});
    let beside = json!({"git": "https://h/r.git", "ref": "main", "path": "prod.yaml"});
    let mut elsewhere = beside.clone();
    elsewhere["ref"] = json!("other");
    let mut other = beside.clone();
    other["git"] = json!("https://h/other.git");
    let mut signed = other.clone();
    signed["path"] = json!("signed.yaml");
    signed["verify"] = json!({"mode": "Tag", "secretRef": {"name": "signers"}});
    spec["valuesFrom"] = json!([
        {"chartFileRef": {"path": "values-prod.yaml"}},
        {"chartFileRef": {"path": "may-be.yaml", "optional": true}},
        {"gitFileRef": beside}, {"gitFileRef": elsewhere}, {"gitFileRef": other},
        {"gitFileRef": signed},
    ]);
    let one = wish(&release("a", "one", spec), &defaults()).unwrap();
    let secret = CredentialRef {
        namespace: "a".into(),
        name: "signers".into(),
    };
    let keys = BTreeMap::from([(secret.clone(), "id".to_owned())]);
    let made = |keys| {
        let parts = one.sources().map(|wish| Part {
            helm_release: "a/one",
            wish,
            credential: None,
            keys,
        });
        requests(parts, &Extras::default(), &defaults())
    };
    let asked = |keys| {
        let wants = made(keys).into_values().flat_map(|request| request.wants);
        let wants = wants.map(|want| {
            let verify = want.spec.verify;
            let mode = verify.map(|verify| {
                assert_eq!(verify.keys, secret);
                verify.mode
            });
            (want.spec.path, want.spec.reference, mode, want.keys_id)
        });
        let mut wants: Vec<_> = wants.collect();
        wants.sort();
        wants
    };
    let want = |path: &str, reference: &str, signed: bool, id: bool| {
        let mode = signed.then_some(tandem_shared::verify::VerifyMode::Tag);
        let id = id.then(|| "id".to_owned());
        (path.to_owned(), Some(reference.to_owned()), mode, id)
    };
    for (keys, id) in [(&keys, true), (NO_KEYS, false)] {
        let expected = [
            // Of other commits than the chart's, and so not its affair.
            want("prod.yaml", "main", false, false),
            want("prod.yaml", "main", true, id),
            want("prod.yaml", "other", false, false),
            want("signed.yaml", "main", true, id),
            want("x", "main", true, id),
            want("x/may-be.yaml", "main", true, id),
            want("x/values-prod.yaml", "main", true, id),
        ];
        assert_eq!(asked(keys), expected);
    }
    let lent: Vec<Lent> = one.chart.lent().into_iter().collect();
    assert_eq!(lent, [Lent::Keys(secret)]);
    let default = json!({"chart": {"git": "https://h/r.git", "path": "x",
        "verify": {"secretRef": {"name": "signers"}}}});
    let default = wish(&release("a", "one", default), &defaults()).unwrap();
    let verify = default.chart.wants[0].spec.verify.as_ref().unwrap();
    assert_eq!(verify.mode, tandem_shared::verify::VerifyMode::Head);
}

#[test]
fn signatures_are_asked_for_of_charts_from_git_alone_and_by_names_that_can_exist() {
    let chart = json!({"repository": "https://h", "name": "web", "version": "1.0.0",
        "verify": {"secretRef": {"name": "signers"}}});
    let error = wish(&release("a", "one", json!({"chart": chart})), &defaults()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("chart.verify is for charts from git")
    );
    let mut spec = git("https://h/r.git", "x");
    spec["chart"]["verify"] = json!({"secretRef": {"name": "../other"}});
    let error = wish(&release("a", "one", spec), &defaults()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("chart.verify.secretRef names"),
        "{error}"
    );
}

#[test]
fn tokens_and_rejections_are_kept() {
    let one = release("a", "one", git("https://h/r.git", "x"));
    let wish = wish(&one, &defaults()).unwrap();
    let digest: Digest = format!("t1:{}", "0".repeat(64)).parse().unwrap();
    let extras = Extras {
        refresh: [(wish.chart.name.clone(), "token".to_owned())].into(),
        rejected: [(
            (wish.chart.name.clone(), wish.chart.key().to_owned()),
            [digest.clone()].into(),
        )]
        .into(),
    };
    let part = Part {
        helm_release: "a/one",
        wish: &wish.chart,
        credential: Some("id"),
        keys: NO_KEYS,
    };
    let made = requests([part], &extras, &defaults());
    let request = &made[&wish.chart.name];
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
    assert_eq!(wish.chart.source.kind, SourceKind::Helm);
    assert_eq!(wish.chart.wants[0].spec.version.as_deref(), Some("^1.0"));
    let oci = release(
        "a",
        "one",
        json!({"chart": {"repository": "oci://h/charts", "name": "web", "version": "1.0.0"}}),
    );
    assert_eq!(
        super::wish(&oci, &defaults()).unwrap().chart.source.kind,
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
        assert_eq!(wish.chart.wants[0].spec.skip_dependencies, expected);
    }
}

/// What a HelmRelease with `chart` wants, and where it finds the files of its `gitFileRef`s.
fn with_files(chart: serde_json::Value, files: serde_json::Value) -> (Wish, Vec<FileWish>) {
    let sources: Vec<_> = files
        .as_array()
        .unwrap()
        .iter()
        .map(|file| json!({"gitFileRef": file}))
        .collect();
    let mut spec = chart;
    spec["valuesFrom"] = json!(sources);
    let release = release("a", "one", spec);
    let wish = wish(&release, &defaults()).unwrap();
    let sources = release.spec.values_sources();
    let names = sources.iter().map(|source| source.file("a").unwrap());
    let files = names.map(|file| wish.files[&file].clone()).collect();
    (wish, files)
}

#[test]
fn a_file_at_the_ref_of_the_chart_moves_with_it_and_any_other_by_itself() {
    let url = "https://h/r.git";
    let (wish, files) = with_files(
        git(url, "charts/x"),
        json!([
            {"git": url, "ref": "main", "path": "./env/prod.yaml"},
            {"git": url, "ref": "main", "path": "env/maybe.yaml", "optional": true},
            {"git": url, "ref": "next", "path": "env/prod.yaml"},
            {"git": url, "path": "env/prod.yaml"},
            {"git": url, "ref": "main", "path": "env/prod.yaml", "secretRef": {"name": "s"}},
            {"git": "https://h/other.git", "ref": "main", "path": "a.yaml"},
            {"git": "https://h/other.git", "ref": "main", "path": "b.yaml"},
            {"git": "https://h/other.git", "ref": "main", "path": "c.yaml", "optional": true},
        ]),
    );
    let with_chart: Vec<bool> = files.iter().map(|file| file.with_chart).collect();
    assert_eq!(
        with_chart,
        [true, false, false, false, false, false, false, false]
    );
    let of_chart: Vec<bool> = files
        .iter()
        .map(|file| file.source == wish.chart.name)
        .collect();
    assert_eq!(
        of_chart,
        [true, true, true, true, false, false, false, false]
    );
    let want = |at: usize| {
        let file = &files[at];
        let wants = &wish.source(&file.source).unwrap().wants;
        wants.iter().find(|want| want.key == file.key).unwrap()
    };
    assert_eq!(want(0).spec.path, "env/prod.yaml");
    assert_eq!(want(0).group, wish.chart.wants[0].group);
    assert_eq!(wish.chart.wants[0].spec.kind, WantKind::Chart);
    assert_eq!(want(2).spec.reference.as_deref(), Some("next"));
    assert_eq!(want(3).spec.reference, None);
    // Files of one ref are of one commit, unless one of them need not be there.
    assert_eq!(want(5).group, want(6).group);
    let groups: std::collections::BTreeSet<_> = (0..7).map(|at| &want(at).group).collect();
    assert_eq!(groups.len(), 6);
    assert!(!groups.contains(&want(7).group));
    // Each source once, with all that is wanted of it.
    let sources: Vec<usize> = wish.sources().map(|wish| wish.wants.len()).collect();
    assert_eq!(sources.iter().sum::<usize>(), 9);
    assert_eq!(sources.len(), 3);
    let secret = wish
        .source(&files[4].source)
        .unwrap()
        .source
        .credential
        .clone();
    assert_eq!(secret.unwrap().name, "s");
}

#[test]
fn a_ref_that_is_left_out_is_the_operators() {
    let mut spec = json!({"chart": {"git": "https://h/r.git", "ref": "v1", "path": "x"}});
    spec["valuesFrom"] = json!([{"gitFileRef": {"git": "https://h/r.git", "path": "y"}}]);
    for (default, with_chart) in [(None, false), (Some("v2"), false), (Some("v1"), true)] {
        let defaults = SourceDefaults {
            reference: default.map(str::to_owned),
            ..defaults()
        };
        let wish = wish(&release("a", "one", spec.clone()), &defaults).unwrap();
        let file = wish.files.values().next().unwrap();
        assert_eq!(file.with_chart, with_chart, "{default:?}");
        let want = wish.chart.wants.iter().find(|want| want.key == file.key);
        assert_eq!(want.unwrap().spec.reference.as_deref(), default);
    }
}

#[test]
fn a_chart_of_a_repository_takes_files_of_git_but_none_of_its_own() {
    let chart =
        json!({"chart": {"repository": "https://h/charts", "name": "web", "version": "^1.0"}});
    let file = json!([{"git": "https://h/charts", "ref": "main", "path": "a.yaml"}]);
    let (wish, files) = with_files(chart.clone(), file);
    assert_eq!(wish.chart.wants.len(), 1);
    assert_ne!(files[0].source, wish.chart.name);
    let source = wish.source(&files[0].source).unwrap();
    assert_eq!(source.source.kind, SourceKind::Git);
    let mut spec = chart;
    spec["valuesFrom"] = json!([{"chartFileRef": {"path": "a.yaml"}}]);
    let refused = super::wish(&release("a", "one", spec), &defaults()).unwrap_err();
    assert!(refused.to_string().contains("gitFileRef"), "{refused}");
}

#[test]
fn a_password_in_the_url_of_a_file_is_its_own_unless_it_is_the_charts() {
    let (wish, files) = with_files(
        git("https://me:one@h/r.git", "x"),
        json!([
            {"git": "https://me:one@h/r.git", "ref": "main", "path": "a"},
            {"git": "https://me:two@h/r.git", "ref": "main", "path": "a"},
            {"git": "https://h/r.git", "ref": "main", "path": "a"},
        ]),
    );
    let passwords: Vec<Option<Vec<u8>>> = files
        .iter()
        .map(|file| {
            let source = wish.source(&file.source).unwrap();
            assert_eq!(source.source.url, "https://h/r.git");
            let embedded = source.embedded.as_ref();
            assert_eq!(embedded.is_some(), source.source.credential.is_some());
            embedded.map(|embedded| embedded["password"].clone())
        })
        .collect();
    assert_eq!(passwords, [Some(b"one".into()), Some(b"two".into()), None]);
    let with_chart: Vec<bool> = files.iter().map(|file| file.with_chart).collect();
    assert_eq!(with_chart, [true, false, false]);
    let names: std::collections::BTreeSet<_> = wish.sources().map(|wish| &wish.name).collect();
    assert_eq!(names.len(), 3);
}

#[test]
fn a_file_shares_what_the_short_commit_id_of_the_chart_stood_for() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let mut spec = json!({"chart": {"git": "https://h/r.git", "ref": "0123456", "path": "x"}});
    spec["valuesFrom"] = json!([
        {"gitFileRef": {"git": "https://h/r.git", "ref": "0123456", "path": "a", "optional": true}},
        {"gitFileRef": {"git": "https://h/r.git", "ref": "main", "path": "b"}},
    ]);
    let mut one = release("a", "one", spec);
    one.status = tried("https://h/r.git/x", commit);
    for want in wish(&one, &defaults()).unwrap().chart.wants {
        let short = want.spec.reference.as_deref() == Some("0123456");
        assert_eq!(want.prefer.commit.is_some(), short, "{want:?}");
    }
}

#[test]
fn a_helmrelease_may_be_kept_to_its_own_namespace() {
    let keeping = SourceDefaults {
        own_namespace_alone: true,
        ..defaults()
    };
    let chart =
        |secret: serde_json::Value| json!({"git": "https://h/r", "path": "p", "secretRef": secret});
    let plain = json!({"git": "https://h/r", "path": "p"});
    let pulled = json!({
        "repository": "https://h", "name": "c", "version": "1.0.0",
        "chartPullSecret": {"name": "s"},
    });
    let file = |secret: serde_json::Value| json!([{"gitFileRef": {"git": "https://h/f", "path": "v", "secretRef": secret}}]);
    let (own, other) = (
        json!({"name": "s", "namespace": "demo"}),
        json!({"name": "s", "namespace": "other"}),
    );
    for (chart, values, refused) in [
        (chart(json!({"name": "s"})), json!([]), None),
        (chart(own.clone()), json!([]), None),
        (chart(other.clone()), json!([]), Some("chart.secretRef")),
        (pulled, json!([]), None),
        (plain.clone(), json!([{"secretKeyRef": own}]), None),
        (
            plain.clone(),
            json!([{"secretKeyRef": other}]),
            Some("valuesFrom"),
        ),
        (
            plain.clone(),
            json!([{"configMapKeyRef": other}]),
            Some("valuesFrom"),
        ),
        (plain.clone(), file(own), None),
        (plain, file(other), Some("gitFileRef.secretRef")),
    ] {
        let release = release("demo", "web", json!({"chart": chart, "valuesFrom": values}));
        assert!(wish(&release, &defaults()).is_ok());
        let told = wish(&release, &keeping)
            .err()
            .map(|error| error.to_string());
        match refused {
            None => assert_eq!(told, None),
            Some(field) => {
                let told = told.unwrap();
                assert!(told.contains(field) && told.contains("other/s"), "{told}");
            }
        }
    }
}

#[test]
fn a_password_that_nobody_encoded_is_told_and_nobody_asked_without_it() {
    let fine = git("https://h/r.git", "x");
    let with = |source: serde_json::Value| {
        let mut spec = fine.clone();
        spec["valuesFrom"] = json!([source]);
        spec
    };
    for (spec, told) in [
        (git("https://me:pa/s3cret@h/r.git", "x"), true),
        (git("https://me:s3cret@h:port/r.git", "x"), true),
        (git("https://me:pa%2Fs3cret@h/r.git", "x"), false),
        (git("git@h:r.git", "x"), false),
        (fine.clone(), false),
        (
            json!({"chart": {"repository": "OCI://me:pa/s3cret@h/r", "name": "a", "version": "1"}}),
            true,
        ),
        (
            with(json!({"externalSourceRef": {"url": "https://me:pa/s3cret@h/v"}})),
            true,
        ),
        (
            with(json!({"gitFileRef": {"git": "https://me:pa/s3cret@h/r", "path": "v"}})),
            true,
        ),
    ] {
        let wish = wish(&release("a", "one", spec.clone()), &defaults());
        match wish {
            Err(error @ WishError::Muddled(_)) if told => {
                assert!(error.to_string().contains("%2F"), "{error}");
                assert!(!error.to_string().contains("s3cret"), "{error}");
            }
            Ok(_) if !told => {}
            other => panic!("{spec}: {other:?}"),
        }
    }
}
