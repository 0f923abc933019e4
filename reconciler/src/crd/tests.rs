#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::*;

fn release(spec: Value) -> HelmRelease {
    parse(spec).0.unwrap_or_else(|error| panic!("{error}"))
}

fn parse(spec: Value) -> StoredHelmRelease {
    serde_json::from_value(json!({
        "apiVersion": "helm.fluxcd.io/v1",
        "kind": "HelmRelease",
        "metadata": {"name": "app", "namespace": "demo"},
        "spec": spec,
    }))
    .unwrap()
}

fn git() -> Value {
    json!({"git": "https://example.org/repo", "path": "charts/app"})
}

#[test]
fn every_field_is_read_and_written() {
    let spec = json!({
        "helmVersion": "v3",
        "chart": {
            "git": "git@example.org:org/repo", "ref": "main", "path": "charts/app",
            "secretRef": {"name": "login", "namespace": "other"}, "skipDepUpdate": true,
            "repository": "https://charts.example.org", "name": "app", "version": "~1.0",
            "chartPullSecret": {"name": "pull"},
        },
        "releaseName": "a", "targetNamespace": "b", "maxHistory": 5, "timeout": 60,
        "resetValues": false, "skipCRDs": true, "wait": true, "forceUpgrade": true,
        "disableOpenAPIValidation": true,
        "rollback": {
            "enable": true, "retry": true, "maxRetries": 2, "force": true, "recreate": true,
            "disableHooks": true, "timeout": 30, "wait": true,
        },
        "test": {"enable": true, "ignoreFailures": true, "timeout": 40, "cleanup": false},
        "values": {"a": {"b": [1, null, "x"]}},
        "valuesFrom": [
            {"configMapKeyRef": {"name": "c", "namespace": "n", "key": "k", "optional": true}},
            {"secretKeyRef": {"name": "s"}},
            {"externalSourceRef": {"url": "https://example.org/v.yaml", "optional": false}},
            {"chartFileRef": {"path": "prod.yaml"}},
        ],
        "valueFileSecrets": [{"name": "old"}],
    });
    let parsed = release(spec.clone());
    assert_eq!(serde_json::to_value(&parsed.spec).unwrap(), spec);
    let known = schema_fields("/properties/spec");
    for field in spec.as_object().unwrap().keys() {
        assert!(known.contains(field), "{field}");
    }
    assert_eq!(known.len(), spec.as_object().unwrap().len());
}

#[test]
fn nulls_are_as_good_as_nothing() {
    let bare = release(json!({"chart": git()}));
    let nulls = release(json!({
        "chart": {"git": "https://example.org/repo", "path": "charts/app", "ref": null},
        "releaseName": null, "maxHistory": null, "timeout": null, "wait": null,
        "rollback": null, "test": null, "values": null, "valuesFrom": null,
        "valueFileSecrets": null, "helmVersion": null,
    }));
    assert_eq!(bare.spec, nulls.spec);
}

#[test]
fn unknown_fields_are_read_over() {
    let release = release(json!({
        "chart": {"repository": "https://example.org", "name": "a", "version": "1", "appVersion": "2"},
        "rollback": {"enabled": true}, "createCRD": true, "prometheus": {"enabled": true},
    }));
    assert!(!release.spec.rollback().enable());
}

#[test]
fn only_the_chart_is_required() {
    assert!(parse(json!({"chart": {}})).0.is_ok());
    let error = parse(json!({"releaseName": "a", "values": {}}))
        .0
        .unwrap_err();
    assert!(error.error.contains("chart"), "{}", error.error);
    assert_eq!(error.metadata.name.as_deref(), Some("app"));
    let error = parse(json!({"chart": git(), "timeout": "5m"}))
        .0
        .unwrap_err();
    assert_eq!(error.metadata.namespace.as_deref(), Some("demo"));
}

#[test]
fn names_are_derived_as_helm_operator_derives_them() {
    for (spec, name, namespace) in [
        (json!({"chart": git()}), "demo-app", "demo"),
        (
            json!({"chart": git(), "targetNamespace": "prod"}),
            "demo-prod-app",
            "prod",
        ),
        (
            json!({"chart": git(), "targetNamespace": "demo"}),
            "demo-app",
            "demo",
        ),
        (
            json!({"chart": git(), "targetNamespace": "", "releaseName": ""}),
            "demo-app",
            "demo",
        ),
        (
            json!({"chart": git(), "releaseName": "x", "targetNamespace": "prod"}),
            "x",
            "prod",
        ),
    ] {
        let target = release(spec).target();
        assert_eq!(
            (target.name.as_str(), target.namespace.as_str()),
            (name, namespace)
        );
    }
}

#[test]
fn defaults_are_those_of_helm_operator() {
    let spec = release(json!({"chart": git()})).spec;
    assert_eq!(spec.timeout(), Duration::from_secs(300));
    assert_eq!(spec.rollback().timeout(), Duration::from_secs(300));
    assert_eq!(spec.test().timeout(), Duration::from_secs(300));
    assert_eq!(spec.max_history(), 10);
    assert!(spec.reset_values());
    assert!(!spec.wait() && !spec.skip_crds() && !spec.force_upgrade());
    assert!(!spec.disable_openapi_validation() && !spec.test().ignore_failures());
    for field in ["rollback", "test"] {
        let spec = release(json!({"chart": git(), field: {"enable": true}})).spec;
        assert!(spec.wait(), "{field}");
        let spec = release(json!({"chart": git(), field: {"enable": true}, "wait": false})).spec;
        assert!(!spec.wait(), "{field}");
    }
}

#[test]
fn odd_numbers_have_a_meaning() {
    let history = |kept: i64| {
        release(json!({"chart": git(), "maxHistory": kept}))
            .spec
            .max_history()
    };
    assert_eq!([0, -1, 1, 2, 3, 7].map(history), [0, 0, 3, 3, 3, 7]);
    assert_eq!(history(i64::MAX), u32::MAX);
    let timeout = |seconds: i64| {
        release(json!({"chart": git(), "timeout": seconds}))
            .spec
            .timeout()
    };
    assert_eq!(timeout(0), Duration::from_secs(300));
    assert_eq!(timeout(-5), Duration::from_secs(300));
    assert!(timeout(i64::MAX) < Duration::from_secs(u64::from(u32::MAX)));
}

#[test]
fn upgrades_are_tried_again_as_often_as_asked() {
    let rollback = |value: Value| {
        release(json!({"chart": git(), "rollback": value}))
            .spec
            .rollback()
            .clone()
    };
    assert!(!rollback(json!({"enable": true})).may_retry(0));
    let default = rollback(json!({"retry": true}));
    assert!(default.may_retry(5) && !default.may_retry(6));
    let once = rollback(json!({"retry": true, "maxRetries": 1}));
    assert!(once.may_retry(1) && !once.may_retry(2));
    assert!(rollback(json!({"retry": true, "maxRetries": 0})).may_retry(i64::MAX));
}

#[test]
fn git_wins_over_a_repository_and_incomplete_sources_are_refused() {
    let source = |chart: Value| release(json!({ "chart": chart })).chart_source();
    let both = json!({"git": "g", "path": ".", "repository": "r", "name": "n", "version": "1"});
    assert!(matches!(source(both), Ok(ChartSource::Git(_))));
    let half = json!({"git": "g", "repository": "r", "name": "n", "version": " 1 "});
    match source(half) {
        Ok(ChartSource::Repository(chart)) => assert_eq!(chart.version, "1"),
        other => panic!("{other:?}"),
    }
    for chart in [
        json!({}),
        json!({"git": "g"}),
        json!({"git": "", "path": "p"}),
        json!({"repository": "r", "name": "n"}),
    ] {
        let error = source(chart).unwrap_err().to_string();
        assert!(error.starts_with("could not find valid chart source configuration for release"));
    }
}

#[test]
fn credentials_are_in_the_namespace_of_the_helm_release_by_default() {
    let secret = |reference: Value| {
        let chart = json!({"git": "g", "path": "p", "secretRef": reference});
        match release(json!({ "chart": chart })).chart_source() {
            Ok(ChartSource::Git(chart)) => chart.secret,
            other => panic!("{other:?}"),
        }
    };
    let pair = |namespace: &str| Some((namespace.to_owned(), "s".to_owned()));
    assert_eq!(secret(json!({"name": "s"})), pair("demo"));
    assert_eq!(
        secret(json!({"name": "s", "namespace": "other"})),
        pair("other")
    );
    assert_eq!(secret(Value::Null), None);
}

#[test]
fn what_can_not_be_released_is_refused_in_words() {
    let refusal = |spec: Value| release(spec).validate().unwrap_err().to_string();
    assert!(
        release(json!({"chart": git(), "helmVersion": "v3"}))
            .validate()
            .is_ok()
    );
    assert!(refusal(json!({"chart": git(), "helmVersion": "v2"})).contains("Helm 3"));
    for name in [
        "-a",
        "A",
        "a_b",
        "a..b",
        &"a".repeat(54),
        "--kubeconfig=/x",
        "a b",
    ] {
        let error = refusal(json!({"chart": git(), "releaseName": name}));
        assert!(
            error.contains(name) && error.contains("spec.releaseName"),
            "{error}"
        );
    }
    assert!(
        refusal(json!({"chart": git(), "releaseName": "a", "targetNamespace": "a/b"}))
            .contains("a/b")
    );
}

#[test]
fn a_reference_can_not_lead_elsewhere_in_the_api() {
    let validate = |spec: Value| release(spec).validate();
    let by_values = |key: &str, reference: &Value| {
        let entry = json!({key: reference, "optional": true});
        validate(json!({"chart": git(), "releaseName": "a", "valuesFrom": [entry]}))
    };
    let by_file = |reference: &Value| {
        let file = json!({"git": "https://h/r", "path": "p", "secretRef": reference});
        let entry = json!({"gitFileRef": file});
        validate(json!({"chart": git(), "releaseName": "a", "valuesFrom": [entry]}))
    };
    let by_chart = |reference: &Value| {
        let mut chart = git();
        chart["secretRef"] = reference.clone();
        validate(json!({"chart": chart, "releaseName": "a"}))
    };
    for good in [
        json!({"name": "a"}),
        json!({"name": "kube-root-ca.crt", "namespace": "other"}),
        json!({"name": "a".repeat(253), "namespace": ""}),
    ] {
        assert_eq!(by_values("configMapKeyRef", &good), Ok(()));
        assert_eq!(by_values("secretKeyRef", &good), Ok(()));
        assert_eq!(by_chart(&good), Ok(()));
        assert_eq!(by_file(&good), Ok(()));
    }
    for bad in [
        json!({"name": ""}),
        json!({"name": "../secrets/b"}),
        json!({"name": "b?watch=1"}),
        json!({"name": "B"}),
        json!({"name": "b", "namespace": "x/secrets/b?y="}),
        json!({"name": "b", "namespace": "a.b"}),
    ] {
        let said = [
            by_values("configMapKeyRef", &bad),
            by_values("secretKeyRef", &bad),
            by_chart(&bad),
            by_file(&bad),
            validate(json!({
                "chart": git(),
                "releaseName": "a",
                "valueFileSecrets": [{"name": format!("{}/", bad["name"])}],
            })),
        ];
        for error in said {
            assert!(
                matches!(error, Err(InvalidSpec::Reference { .. })),
                "{bad}: {error:?}"
            );
        }
    }
}

#[test]
fn a_values_file_is_named_without_what_is_secret() {
    let file = |source: Value| {
        let source: ValuesFromSource = serde_json::from_value(source).unwrap();
        source.file("demo")
    };
    let git = |more: Value| {
        let mut file = json!({"git": "https://me:pass@h/r.git", "path": "a/b.yaml"});
        file.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"gitFileRef": file})
    };
    for (source, told, guarded) in [
        (
            json!({"chartFileRef": {"path": "a"}}),
            r#"file "a" of the chart"#,
            false,
        ),
        (
            json!({"externalSourceRef": {"url": "https://h/v?token=t"}}),
            "https://h/v",
            true,
        ),
        (
            json!({"externalSourceRef": {"url": "https://h/v"}}),
            "https://h/v",
            false,
        ),
        (
            git(json!({})),
            r#"file "a/b.yaml" of https://h/r.git"#,
            true,
        ),
        (
            git(json!({"git": "https://h/r.git", "ref": "v1"})),
            r#"file "a/b.yaml" of https://h/r.git at "v1""#,
            false,
        ),
        (
            git(json!({"git": "git@h:r.git", "secretRef": {"name": "s"}})),
            r#"file "a/b.yaml" of git@h:r.git"#,
            true,
        ),
    ] {
        let file = file(source).unwrap();
        assert_eq!(
            (file.to_string().as_str(), file.is_guarded()),
            (told, guarded)
        );
    }
    // The first one that is set counts, here as where values are read.
    assert_eq!(
        file(json!({"configMapKeyRef": {"name": "c"}, "gitFileRef": {"git": "g", "path": "p"}})),
        None
    );
    let secret = git(json!({"secretRef": {"name": "s"}, "ref": ""}));
    let Some(FileRef::Git {
        secret, reference, ..
    }) = file(secret)
    else {
        panic!("no file of git");
    };
    assert_eq!(secret, Some(("demo".to_owned(), "s".to_owned())));
    assert_eq!(reference, None);
    for (git_url, path) in [("", "p"), ("https://h/r", "")] {
        let entry = json!({"gitFileRef": {"git": git_url, "path": path}});
        let spec = json!({"chart": self::git(), "releaseName": "a", "valuesFrom": [entry]});
        assert_eq!(release(spec).validate(), Err(InvalidSpec::GitFile));
    }
}

#[test]
fn deprecated_secrets_come_first() {
    let spec = release(json!({
        "chart": git(),
        "valuesFrom": [{"configMapKeyRef": {"name": "c"}}],
        "valueFileSecrets": [{"name": "one"}, {"name": "two"}],
    }))
    .spec;
    let sources = spec.values_sources();
    let secrets: Vec<_> = sources
        .iter()
        .filter_map(|source| source.secret_key_ref.as_ref())
        .collect();
    assert_eq!(
        secrets
            .iter()
            .map(|secret| secret.name.as_str())
            .collect::<Vec<_>>(),
        ["one", "two"]
    );
    assert_eq!(secrets[0].key(), "values.yaml");
    assert_eq!(secrets[0].namespace("demo"), "demo");
    assert!(sources[2].config_map_key_ref.is_some());
    assert!(sources.iter().all(|source| !source.is_optional()));
}

#[test]
fn a_phase_of_another_version_does_not_matter() {
    let status: HelmReleaseStatus =
        serde_json::from_value(json!({"phase": "Migrating", "revision": "abc"})).unwrap();
    assert_eq!(
        (status.phase, status.revision.as_deref()),
        (None, Some("abc"))
    );
    let status: HelmReleaseStatus = serde_json::from_value(json!({"phase": "RolledBack"})).unwrap();
    assert_eq!(status.phase, Some(Phase::RolledBack));
}

#[test]
fn the_definition_is_what_helm_operator_s_users_know() {
    let yaml = crd_yaml().unwrap();
    assert_eq!(yaml, crd_yaml().unwrap());
    let crd = crate::values::read_yaml(yaml.as_bytes()).unwrap();
    assert_eq!(crd["metadata"]["name"], "helmreleases.helm.fluxcd.io");
    assert_eq!(crd["spec"]["names"]["shortNames"], json!(["hr", "hrs"]));
    assert_eq!(crd["spec"]["scope"], "Namespaced");
    // Else it can't take the place of one that was made in the days of v1beta1.
    assert_eq!(crd["spec"]["preserveUnknownFields"], false);
    let version = &crd["spec"]["versions"][0];
    assert_eq!(version["subresources"]["status"], json!({}));
    let columns: Vec<_> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        columns,
        ["Release", "Phase", "ReleaseStatus", "Message", "Age"]
    );
    let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["required"], json!(["chart"]));
    assert_eq!(
        spec["properties"]["values"]["x-kubernetes-preserve-unknown-fields"],
        true
    );
    for field in spec["properties"].as_object().unwrap().keys() {
        let schema = &spec["properties"][field];
        // The API server refuses null beside an enum, whatever `nullable` says.
        let takes_null = schema["nullable"] == true && schema.get("enum").is_none();
        assert_eq!(takes_null, field != "chart", "{field}");
    }
}

/// Names of the fields that the schema has at this place.
fn schema_fields(pointer: &str) -> std::collections::BTreeSet<String> {
    let crd = serde_json::to_value(<HelmRelease as kube::CustomResourceExt>::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let properties = schema.pointer(pointer).unwrap()["properties"]
        .as_object()
        .unwrap();
    properties.keys().cloned().collect()
}

#[test]
fn a_release_that_was_never_tried_leaves_no_former_one() {
    let target = |name: &str| Target {
        namespace: "demo".into(),
        name: name.into(),
    };
    let former = |name: &str, stood: bool| FormerRelease {
        name: name.into(),
        namespace: "demo".into(),
        revision: stood.then(|| "c0ffee".into()),
        last_attempted_revision: Some("c0ffee".into()),
        operation: None,
    };
    let mut status = HelmReleaseStatus {
        release_name: Some("old".into()),
        release_namespace: Some("demo".into()),
        ..HelmReleaseStatus::default()
    };
    // A refusal names a release, too, which may be anybody's.
    assert_eq!(status.formers(&target("new")), []);
    status.last_attempted_revision = Some("c0ffee".into());
    assert_eq!(status.formers(&target("new")), [former("old", false)]);
    assert_eq!(status.formers(&target("old")), []);
    status.revision = Some("c0ffee".into());
    status.former_releases = vec![former("new", true), former("older", false)];
    // Back to a former name: it is the present one again.
    assert_eq!(
        status.formers(&target("new")),
        [former("old", true), former("older", false)]
    );
}

#[test]
fn what_another_process_began_and_did_not_end_was_interrupted() {
    let began = Operation {
        action: OperationAction::Upgrade,
        revision: 2,
        process: "web-0-1".into(),
        epoch: 0,
        started_at: Time(Timestamp::UNIX_EPOCH),
        interrupted: false,
    };
    assert!(!began.clone().seen_by("web-0-1").interrupted);
    let told = began.clone().seen_by("web-0-2");
    assert!(told.interrupted);
    assert_eq!((told.action, told.revision), (began.action, began.revision));
}
