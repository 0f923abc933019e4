#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;

use super::*;

fn good(commit: &str, digit: &str) -> serde_json::Value {
    json!({"commit": commit, "artifact": format!("t1:{}", digit.repeat(64)), "inputs": "i", "size": 1, "since": "2026-01-01T00:00:00Z"})
}

fn manifest(sequence: u64, results: serde_json::Value, failure: serde_json::Value) -> Manifest {
    serde_json::from_value(json!({
        "schema": "tandem.manifest/v1", "name": "n", "source": {"kind": "git", "url": "file:///r"},
        "epoch": "e", "sequence": sequence, "state": "ready", "results": results, "failure": failure,
    }))
    .unwrap()
}

fn keys(set: &BTreeSet<String>) -> Vec<&str> {
    set.iter().map(String::as_str).collect()
}

#[test]
fn only_wants_with_another_artifact_or_problem_count() {
    let problem =
        json!({"reason": "InvalidChart", "message": "no", "since": "2026-01-01T00:00:00Z"});
    let old = manifest(
        1,
        json!({"a": {"good": good("c1", "1")}, "b": {"good": good("c1", "2")}, "c": {}, "gone": {"good": good("c1", "4")}}),
        json!(null),
    );
    let new = manifest(
        2,
        json!({"a": {"good": good("c1", "1")}, "b": {"good": good("c2", "3")}, "c": {"problem": problem}}),
        json!(null),
    );
    assert_eq!(keys(&changed_wants(Some(&old), &new)), ["b", "c", "gone"]);
    assert_eq!(keys(&changed_wants(None, &new)), ["a", "b", "c"]);
    assert!(
        changed_wants(
            Some(&new),
            &manifest(3, serde_json::to_value(&new.results).unwrap(), json!(null))
        )
        .is_empty()
    );
}

#[test]
fn a_failure_is_news_when_it_begins_stays_and_ends() {
    let failing = |attempts: u32, next: &str| {
        manifest(
            1,
            json!({}),
            json!({"reason": "UnknownHost", "message": "m", "since": "2026-01-01T00:00:00Z", "attempts": attempts, "nextAttempt": next}),
        )
    };
    let well = manifest(1, json!({}), json!(null));
    let first = failing(1, "2026-01-01T00:00:00Z");
    let second = failing(2, "2026-01-01T00:01:00Z");
    assert!(source_failure_changed(Some(&well), &first));
    assert!(!source_failure_changed(Some(&first), &second));
    assert!(source_failure_changed(
        Some(&second),
        &failing(3, "2026-01-01T00:02:00Z")
    ));
    assert!(!source_failure_changed(
        Some(&failing(3, "2026-01-01T00:02:00Z")),
        &failing(4, "2026-01-01T00:03:00Z")
    ));
    assert!(source_failure_changed(Some(&second), &well));
    assert!(!source_failure_changed(None, &well));
}

#[test]
fn hints_add_up() {
    let mut look = Look::default();
    let name = SourceName::parse("r-0123456789abcdef0123456789abcdef").unwrap();
    look.add(Hint::Source(name.clone()));
    look.add(Hint::Source(name.clone()));
    assert_eq!(look.sources.len(), 1);
    assert!(!look.everything);
    look.add(Hint::Lost);
    assert!(look.everything);
}

#[tokio::test]
async fn a_published_manifest_is_told_and_reading_it_is_not() {
    let volume = tempfile::tempdir().unwrap();
    let folder = volume.path().join("manifests");
    tandem_shared::publish::folder(&folder, tandem_shared::publish::Audience::Group).unwrap();
    let (looks, mut told) = mpsc::channel(8);
    let watching = tokio::spawn(watch_manifests(folder.clone(), looks));
    assert_eq!(told.recv().await, Some(Look::all()));
    let name = SourceName::parse("r-0123456789abcdef0123456789abcdef").unwrap();
    let file = folder.join(format!("{name}.json"));
    tandem_shared::publish::bytes(&file, b"{}", tandem_shared::publish::Audience::Group).unwrap();
    let look = told.recv().await.unwrap();
    assert_eq!(look.sources, [name.clone()].into());
    std::fs::read(&file).unwrap();
    let other = SourceName::parse("s-0123456789abcdef0123456789abcdef").unwrap();
    tandem_shared::publish::bytes(
        &folder.join(format!("{other}.json")),
        b"{}",
        tandem_shared::publish::Audience::Group,
    )
    .unwrap();
    let mut seen = BTreeSet::new();
    while !seen.contains(&other) {
        seen.extend(told.recv().await.unwrap().sources);
    }
    watching.abort();
}
