#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use serde_json::{Value, json};

use super::*;

fn defaults() -> SourceDefaults {
    SourceDefaults {
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        reference: None,
        skip_dependencies: false,
        own_namespace_alone: false,
    }
}

fn object(name: &str, created: &str, more: Value) -> StoredHelmRelease {
    let mut object = json!({
        "apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease",
        "metadata": {"namespace": "demo", "name": name, "uid": format!("uid-{name}"), "generation": 1, "creationTimestamp": created},
        "spec": {"releaseName": "web", "chart": {"git": "https://h/r.git", "path": "x"}},
    });
    merge(&mut object, more);
    serde_json::from_value(object).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn key(name: &str) -> Key {
    Key {
        namespace: "demo".into(),
        name: name.into(),
    }
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-02-01T00:00:00Z";

fn target() -> Target {
    Target {
        namespace: "demo".into(),
        name: "web".into(),
    }
}

#[test]
fn a_status_is_no_wish() {
    let mut releases = Releases::default();
    assert_eq!(
        releases.take(Event::Apply(object("a", EARLY, json!({}))), &defaults()),
        [(key("a"), Change::Added)]
    );
    let told = object(
        "a",
        EARLY,
        json!({"status": {"phase": "Succeeded"}, "metadata": {"resourceVersion": "9"}}),
    );
    assert_eq!(
        releases.take(Event::Apply(told), &defaults()),
        [(key("a"), Change::Told)]
    );
    for asked in [
        json!({"metadata": {"generation": 2}}),
        json!({"metadata": {"generation": 2, "annotations": {"helm.fluxcd.io/abandon": "true"}}}),
        json!({"metadata": {"generation": 2, "annotations": {"helm.fluxcd.io/abandon": "true"}, "deletionTimestamp": LATE}}),
    ] {
        assert_eq!(
            releases.take(Event::Apply(object("a", EARLY, asked)), &defaults()),
            [(key("a"), Change::Asked)]
        );
    }
}

#[test]
fn the_oldest_owns_a_release_and_the_next_one_inherits_it() {
    let mut releases = Releases::default();
    releases.take(Event::Apply(object("young", LATE, json!({}))), &defaults());
    assert_eq!(releases.owner(&target()), Some(&key("young")));
    let changes = releases.take(Event::Apply(object("old", EARLY, json!({}))), &defaults());
    assert!(
        changes.contains(&(key("young"), Change::Asked)),
        "{changes:?}"
    );
    assert_eq!(releases.owner(&target()), Some(&key("old")));
    let elsewhere = object(
        "old",
        EARLY,
        json!({"metadata": {"generation": 2}, "spec": {"releaseName": "other"}}),
    );
    let changes = releases.take(Event::Apply(elsewhere), &defaults());
    assert!(
        changes.contains(&(key("young"), Change::Asked)),
        "{changes:?}"
    );
    assert_eq!(releases.owner(&target()), Some(&key("young")));
    releases.take(Event::Delete(object("young", LATE, json!({}))), &defaults());
    assert_eq!(releases.owner(&target()), None);
}

#[test]
fn equal_age_is_settled_by_the_uid() {
    let mut releases = Releases::default();
    releases.take(
        Event::Apply(object("b", EARLY, json!({"metadata": {"uid": "1"}}))),
        &defaults(),
    );
    releases.take(
        Event::Apply(object("a", EARLY, json!({"metadata": {"uid": "2"}}))),
        &defaults(),
    );
    assert_eq!(releases.owner(&target()), Some(&key("b")));
}

#[test]
fn what_a_new_listing_lacks_is_gone() {
    let mut releases = Releases::default();
    for event in [
        Event::Init,
        Event::InitApply(object("a", EARLY, json!({}))),
        Event::InitApply(object("b", LATE, json!({}))),
    ] {
        releases.take(event, &defaults());
    }
    assert!(!releases.is_listed());
    releases.take(Event::InitDone, &defaults());
    assert!(releases.is_listed());
    releases.take(Event::Init, &defaults());
    releases.take(Event::InitApply(object("b", LATE, json!({}))), &defaults());
    let changes = releases.take(Event::InitDone, &defaults());
    assert!(
        changes.contains(&(key("a"), Change::Removed)),
        "{changes:?}"
    );
    assert_eq!(releases.len(), 1);
}

#[test]
fn an_object_that_cannot_be_read_harms_nobody() {
    let mut releases = Releases::default();
    releases.take(Event::Apply(object("a", EARLY, json!({}))), &defaults());
    let broken = object("b", LATE, json!({"spec": {"timeout": "soon"}}));
    assert_eq!(
        releases.take(Event::Apply(broken), &defaults()),
        [(key("b"), Change::Added)]
    );
    let entry = releases.get(&key("b")).unwrap();
    assert!(
        entry
            .wish
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("soon"),
        "{:?}",
        entry.wish
    );
    assert_eq!(releases.owner(&target()), Some(&key("a")));
}

#[test]
fn what_nobody_reads_is_not_kept() {
    let mut object = object(
        "a",
        EARLY,
        json!({"metadata": {
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "1"},
        }}),
    );
    strip(&mut object);
    assert_eq!(object.meta().managed_fields, None);
    assert_eq!(object.annotations().len(), 1);
}

#[test]
fn what_our_finalizer_does_not_hold_is_left_in_the_cluster() {
    let entry = |more: Value| Entry::new(object("a", EARLY, more), &defaults());
    let held = json!({"finalizers": [FINALIZER, "other"]});
    assert!(!entry(json!({ "metadata": held })).is_abandoning());
    assert!(entry(json!({"metadata": {"finalizers": ["other"]}})).is_abandoning());
    let annotated = json!({"finalizers": [FINALIZER], "annotations": {ABANDON_ANNOTATION: "true"}});
    assert!(entry(json!({ "metadata": annotated })).is_abandoning());
}
