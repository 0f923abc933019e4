#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;
use tandem_shared::decision::Decision;
use tandem_shared::layout::Volume;
use tandem_shared::lock;
use tandem_shared::manifest::Manifest;
use tandem_shared::publish::{self, Audience};
use tandem_shared::request::Request;
use tandem_shared::source::Source;

use super::*;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn source() -> Source {
    serde_json::from_value(json!({"kind": "git", "url": "https://me:secret@h/charts.git"})).unwrap()
}

fn request(used_by: &[&str]) -> Request {
    serde_json::from_value(json!({
        "schema": "tandem.request/v1", "source": source(), "owner": "tandem-reconciler",
        "wants": [{"key": "k", "kind": "chart", "ref": "main", "path": "charts/web", "usedBy": used_by}],
    }))
    .unwrap()
}

fn manifest(result: serde_json::Value) -> Manifest {
    serde_json::from_value(json!({
        "schema": "tandem.manifest/v1", "name": source().name().to_string(), "source": source().redacted(),
        "epoch": "e", "sequence": 1, "state": "ready",
        "refs": {"main": {"fullName": "refs/heads/main", "commit": COMMIT}},
        "results": {"k": result},
    }))
    .unwrap()
}

fn good() -> serde_json::Value {
    json!({"good": {
        "commit": COMMIT, "artifact": format!("t1:{}", "1".repeat(64)), "inputs": "i", "size": 1,
        "since": "2026-01-01T00:00:00Z", "chart": {"name": "web", "version": "0.1.0"},
    }})
}

fn decision(ready: bool, reason: &str) -> Decision {
    serde_json::from_value(json!({
        "schema": "tandem.release/v1", "helmRelease": {"namespace": "demo", "name": "web"}, "generation": 1,
        "release": {"namespace": "demo", "name": "demo-web"}, "source": source().name().to_string(), "wants": ["k"],
        "chartRevision": COMMIT, "released": COMMIT, "action": "Nothing", "reason": reason, "message": "a sentence", "ready": ready,
        "revision": 3, "at": "2026-01-01T00:00:00Z",
    }))
    .unwrap()
}

fn alive() -> Vec<Role> {
    ["reconciler", "mirror-sidecar"]
        .map(|role| Role {
            role: role.into(),
            alive: true,
            version: Some("0.1.0".into()),
            started_at: None,
        })
        .into()
}

fn contents(decisions: Vec<Decision>, used_by: &[&str], result: serde_json::Value) -> Contents {
    let name = source().name();
    Contents {
        requests: [(name.clone(), request(used_by))].into(),
        manifests: [(name, manifest(result))].into(),
        decisions,
        roles: alive(),
        problems: Vec::new(),
    }
}

#[test]
fn a_row_goes_from_the_source_to_the_release() {
    let overview = overview(&contents(
        vec![decision(true, "Succeeded")],
        &["demo/web"],
        good(),
    ));
    assert!(overview.well);
    assert_eq!(overview.rows.len(), 1);
    let text = show::table(&overview);
    let row = text.lines().find(|line| line.contains("demo/web")).unwrap();
    for part in [
        "https://h/charts.git",
        "main",
        "0123456789 ",
        "charts/web (web-0.1.0)",
        "demo/demo-web",
        " 3 ",
        "ok",
    ] {
        assert!(row.contains(part), "{part}: {row}");
    }
    assert!(
        !text.contains("secret") && !serde_json::to_string(&overview).unwrap().contains("secret")
    );
}

#[test]
fn what_is_wrong_is_told_in_full() {
    let overview = overview(&contents(
        vec![decision(false, "UpgradeFailed")],
        &["demo/web"],
        good(),
    ));
    assert!(!overview.well);
    let text = show::table(&overview);
    assert!(
        text.contains("! demo/web: UpgradeFailed: a sentence"),
        "{text}"
    );
}

#[test]
fn wants_of_a_person_have_rows_and_others_are_told_once() {
    // Of one about which nothing was decided yet this is all there is to say.
    let undecided = overview(&contents(Vec::new(), &["demo/web"], good()));
    assert!(!undecided.well && undecided.rows[0].reason == "Waiting");
    assert_eq!(undecided.rows[0].helm_release.as_deref(), Some("demo/web"));
    let decided = vec![decision(true, "Succeeded")];
    let decided = overview(&contents(decided, &["demo/web"], good()));
    assert_eq!(decided.rows.len(), 1);
    let by_hand = overview(&contents(Vec::new(), &[], good()));
    assert!(by_hand.well && by_hand.rows[0].reason == "Served");
    assert_eq!(
        by_hand.rows[0].changed_at,
        "2026-01-01T00:00:00Z".parse().ok()
    );
    let problem = json!({
        "problem": {"reason": "PathNotFound", "message": "no such path", "since": "2026-01-01T00:00:00Z"},
        "nextAttempt": "2026-01-01T00:05:00Z",
    });
    let wrong = overview(&contents(Vec::new(), &[], problem));
    assert!(!wrong.well && wrong.rows[0].reason == "PathNotFound");
    assert_eq!(
        wrong.rows[0].message,
        "no such path (looked at again by 2026-01-01T00:05:00Z)"
    );
}

#[test]
fn a_volume_is_read_while_nobody_works_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let volume = Volume::at(folder.path());
    assert!(read(&volume).is_err());
    for folder in volume
        .wanted
        .folders()
        .iter()
        .chain(&volume.served.folders())
    {
        publish::folder(folder, Audience::Group).unwrap();
    }
    let name = source().name();
    publish::json(&volume.wanted.request(&name), &request(&["demo/web"])).unwrap();
    publish::json(&volume.served.manifest(&name), &manifest(good())).unwrap();
    publish::json(
        &volume.wanted.release("demo", "web"),
        &decision(true, "Succeeded"),
    )
    .unwrap();
    let seen = overview(&read(&volume).unwrap());
    assert_eq!(seen.rows.len(), 1);
    assert!(
        seen.problems
            .iter()
            .any(|problem| problem == "mirror-sidecar never ran on this volume"),
        "{:?}",
        seen.problems
    );
    let lock = lock::try_acquire(&volume.wanted.role_lock()).unwrap();
    assert!(read(&volume).unwrap().roles[0].alive);
    drop(lock);
    publish::bytes(
        &volume.wanted.requests().join("stray.json"),
        b"{}",
        Audience::Group,
    )
    .unwrap();
    assert!(
        overview(&read(&volume).unwrap())
            .problems
            .iter()
            .any(|problem| problem.contains("stray.json"))
    );
}
