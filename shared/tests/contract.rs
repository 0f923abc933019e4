//! What is read, what is read over, and what is refused, in words.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests set up what the product must not do by itself"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use tandem_shared::credentials::{self, CredentialError, Store};
use tandem_shared::decision::{Decision, ObjectRef, ValuesSource};
use tandem_shared::layout::Volume;
use tandem_shared::manifest::{Manifest, Reason, SourceState, WantResult};
use tandem_shared::observe::{self, ObserveError};
use tandem_shared::publish::{self, Audience};
use tandem_shared::request::{self, Request, WantKind, WantSpec};
use tandem_shared::schema;
use tandem_shared::source::{CredentialRef, Source, SourceKind};
use tandem_shared::version::{Contract, Document};
use tandem_shared::watch::{Hint, watch};

fn source() -> Source {
    Source {
        kind: SourceKind::Git,
        url: "https://u:secret@git.test/Charts.git".into(),
        credential: None,
    }
}

fn volume() -> (tempfile::TempDir, Volume) {
    let root = tempfile::tempdir().unwrap();
    let volume = Volume::at(root.path());
    for folder in volume
        .wanted
        .folders()
        .iter()
        .chain(&volume.served.folders())
    {
        publish::folder(folder, Audience::Group).unwrap();
    }
    (root, volume)
}

fn a_request() -> Request {
    let spec = WantSpec {
        kind: WantKind::Chart,
        reference: Some("main".into()),
        version: None,
        path: "charts/web".into(),
        skip_dependencies: false,
        submodules: false,
        verify: None,
    };
    Request {
        schema: Request::current_schema(),
        source: source(),
        owner: "reconciler".into(),
        credential_id: Some("0".repeat(32)),
        interval_seconds: 60,
        timeout_seconds: 20,
        refresh: "r1".into(),
        wants: request::group([spec].into()),
    }
}

fn a_manifest() -> Manifest {
    Manifest {
        schema: Manifest::current_schema(),
        name: source().name().to_string(),
        source: source().redacted(),
        epoch: "e".into(),
        sequence: 1,
        observed_request: None,
        handled_refresh: String::new(),
        state: SourceState::Pending,
        checked_at: None,
        interval_seconds: None,
        changed_at: None,
        refs: BTreeMap::new(),
        results: BTreeMap::from([("k".to_owned(), WantResult::default())]),
        failure: None,
    }
}

#[test]
fn what_is_written_is_read() {
    let (_root, volume) = volume();
    let name = source().name();
    publish::json(&volume.wanted.request(&name), &a_request()).unwrap();
    publish::json(&volume.served.manifest(&name), &a_manifest()).unwrap();
    assert_eq!(
        observe::request(&volume.wanted.request(&name), &name)
            .unwrap()
            .document,
        a_request()
    );
    assert_eq!(
        observe::manifest(&volume.served.manifest(&name), &source())
            .unwrap()
            .document,
        a_manifest()
    );
    assert_eq!(
        observe::list(&volume.wanted.requests()).unwrap().sources,
        [name]
    );
}

#[test]
fn no_secret_reaches_a_manifest_or_a_name() {
    let text = serde_json::to_string(&a_manifest()).unwrap();
    assert!(
        !text.contains("secret") && !source().name().as_str().contains("secret"),
        "{text}"
    );
}

#[test]
fn unknown_optional_fields_are_read_over_and_unknown_words_kept() {
    let (_root, volume) = volume();
    let name = source().name();
    let mut value = serde_json::to_value(a_manifest()).unwrap();
    value["later"] = json!({"x": 1});
    value["state"] = json!("hibernating");
    value["results"]["k"] = json!({"problem": {"reason": "Quantum", "message": "m", "since": "2026-01-01T00:00:00Z", "later": 1}});
    let path = volume.served.manifest(&name);
    publish::json(&path, &value).unwrap();
    let manifest = observe::manifest(&path, &source()).unwrap().document;
    assert_eq!(manifest.state, SourceState::Other("hibernating".into()));
    assert_eq!(
        manifest.results["k"].problem.as_ref().unwrap().reason,
        Reason::Other("Quantum".into())
    );
}

#[test]
fn what_is_wrong_is_refused_in_words() {
    let (root, volume) = volume();
    let name = source().name();
    let path = volume.served.manifest(&name);
    let refusal = |content: &str| {
        publish::bytes(&path, content.as_bytes(), Audience::Group).unwrap();
        observe::manifest(&path, &source()).unwrap_err().to_string()
    };
    let with = |pointer: &str, new: Value| {
        let mut value = serde_json::to_value(a_manifest()).unwrap();
        *value.pointer_mut(pointer).unwrap() = new;
        value.to_string()
    };
    let cases = [
        (
            with("/schema", json!("tandem.manifest/v2")),
            "its schema is `tandem.manifest/v2`, this build reads `tandem.manifest/v1` only",
        ),
        // A later version need not have any of our fields.
        (
            json!({"schema": "tandem.manifest/v7"}).to_string(),
            "`tandem.manifest/v7`",
        ),
        (
            with("/schema", json!("tandem.request/v1")),
            "where `tandem.manifest/v1` belongs",
        ),
        (
            with("/name", json!("other-0123456789abcdef0123456789abcdef")),
            "speaks of the source other-",
        ),
        (
            with("/source/url", json!("https://git.test/other.git")),
            "speaks of the source git https://git.test/other.git",
        ),
        (with("/sequence", json!("one")), "isn't valid: invalid type"),
        ("{\"schema\": ".to_owned(), "isn't valid: EOF"),
        (String::new(), "isn't valid: EOF"),
    ];
    for (content, words) in cases {
        let message = refusal(&content);
        assert!(
            message.contains(words) && message.contains(path.to_str().unwrap()),
            "{message}"
        );
    }

    std::fs::remove_file(&path).unwrap();
    let elsewhere = root.path().join("elsewhere.json");
    publish::json(&elsewhere, &a_manifest()).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert!(matches!(
        observe::manifest(&path, &source()),
        Err(ObserveError::NotAFile(_))
    ));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(
        observe::manifest(&path, &source()),
        Err(ObserveError::NotAFile(_))
    ));
    std::fs::remove_dir(&path).unwrap();
    assert!(matches!(
        observe::manifest(&path, &source()),
        Err(ObserveError::Missing(_))
    ));
    let huge = std::fs::File::create(&path).unwrap();
    huge.set_len(17 * 1024 * 1024).unwrap();
    assert!(matches!(
        observe::manifest(&path, &source()),
        Err(ObserveError::TooLarge { .. })
    ));
}

#[test]
fn a_request_under_another_name_is_refused_with_the_right_one() {
    let (_root, volume) = volume();
    let other = Source {
        url: "https://git.test/other.git".into(),
        ..source()
    }
    .name();
    let path = volume.wanted.request(&other);
    publish::json(&path, &a_request()).unwrap();
    let message = observe::request(&path, &other).unwrap_err().to_string();
    assert!(message.contains(source().name().as_str()), "{message}");
}

#[test]
fn strays_are_told_apart() {
    let (_root, volume) = volume();
    let folder = volume.wanted.requests();
    for name in ["podinfo.json", "README", ".tmp-abc"] {
        std::fs::write(folder.join(name), "x").unwrap();
    }
    let listing = observe::list(&folder).unwrap();
    assert_eq!(
        (listing.sources.len(), listing.strays),
        (0, vec![folder.join("podinfo.json")])
    );
    assert!(matches!(
        observe::list(Path::new("/nowhere")),
        Err(ObserveError::Missing(_))
    ));
}

#[test]
fn schemas_fit_the_types() {
    let schemas: BTreeMap<String, Value> = schema::all().into_iter().collect();
    let decision = Decision {
        schema: Decision::current_schema(),
        helm_release: ObjectRef {
            namespace: "demo".into(),
            name: "web".into(),
        },
        generation: 1,
        release: ObjectRef {
            namespace: "demo".into(),
            name: "web".into(),
        },
        source: None,
        wants: vec![],
        values_sources: vec![ValuesSource {
            file: "https://h/values.yaml".into(),
            source: "h-values.yaml-0".into(),
            want: "k".into(),
            commit: None,
            artifact: None,
        }],
        artifact: Some(format!("t1:{}", "0".repeat(64)).parse().unwrap()),
        chart_revision: None,
        verified_by: None,
        released: None,
        action: "Install".into(),
        reason: "InstallSucceeded".into(),
        message: String::new(),
        ready: true,
        revision: Some(1),
        failures: 0,
        next_attempt: None,
        at: "2026-01-01T00:00:00Z".parse().unwrap(),
    };
    let contract = Contract {
        schema: Contract::current_schema(),
        writer: "reconciler".into(),
        version: "0.1.0".into(),
        started_at: "2026-01-01T00:00:00Z".parse().unwrap(),
    };
    let documents = [
        ("request", serde_json::to_value(a_request()).unwrap()),
        ("manifest", serde_json::to_value(a_manifest()).unwrap()),
        ("release", serde_json::to_value(decision).unwrap()),
        ("contract", serde_json::to_value(contract).unwrap()),
    ];
    for (kind, document) in documents {
        let validator =
            jsonschema::validator_for(&schemas[&format!("{kind}.schema.json")]).unwrap();
        assert!(
            validator.is_valid(&document),
            "{kind}: {:?}",
            validator
                .iter_errors(&document)
                .map(|e| e.to_string())
                .collect::<Vec<_>>()
        );
        let mut later = document.clone();
        later["schema"] = json!(format!("tandem.{kind}/v2"));
        assert!(!validator.is_valid(&later), "{kind} of another version");
        let mut more = document;
        more["later"] = json!(1);
        assert!(validator.is_valid(&more), "{kind} with an unknown field");
    }
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    for (name, schema) in schema::all() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("schemas")
            .join(&name);
        let published: Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap_or_default()).unwrap_or_default();
        assert!(
            published == schema,
            "{name} is out of date: run `cargo generate`"
        );
    }
}

#[test]
fn credentials_change_their_id_with_their_content_and_owner() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::open(root.path()).unwrap();
    let secret = |namespace: &str| CredentialRef {
        namespace: namespace.into(),
        name: "git".into(),
    };
    let values =
        |password: &str| BTreeMap::from([("password".to_owned(), password.as_bytes().to_vec())]);
    let ids: BTreeSet<String> = [("a", "x"), ("a", "y"), ("b", "x")]
        .map(|(namespace, password)| store.put(&secret(namespace), &values(password)).unwrap())
        .into();
    assert_eq!(ids.len(), 3);
    let id = store.put(&secret("a"), &values("x")).unwrap();
    assert!(ids.contains(&id));
    assert_eq!(credentials::load(root.path(), &id).unwrap(), values("x"));
    // The same volume gives the same ids after a restart, another one others.
    assert_eq!(
        Store::open(root.path())
            .unwrap()
            .id(&secret("a"), &values("x")),
        id
    );
    let emptied = tempfile::tempdir().unwrap();
    assert_ne!(
        Store::open(emptied.path())
            .unwrap()
            .id(&secret("a"), &values("x")),
        id
    );
    store.retain(|kept| kept == id).unwrap();
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 2);
    // What a pull secret is called.
    let pull = BTreeMap::from([(".dockerconfigjson".to_owned(), b"{}".to_vec())]);
    let id = store.put(&secret("a"), &pull).unwrap();
    assert_eq!(credentials::load(root.path(), &id).unwrap(), pull);
}

#[test]
fn credential_names_stay_in_their_folder() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::open(root.path()).unwrap();
    let secret = CredentialRef {
        namespace: "a".into(),
        name: "b".into(),
    };
    for key in ["../x", "", ".", "..", "..data", ".tmp-x", "a/b"] {
        let values = BTreeMap::from([(key.to_owned(), vec![])]);
        assert!(
            matches!(store.put(&secret, &values), Err(CredentialError::Name(_))),
            "{key}"
        );
    }
    for id in ["", "..", "id.key", "../../etc"] {
        assert!(
            matches!(
                credentials::load(root.path(), id),
                Err(CredentialError::Name(_))
            ),
            "{id}"
        );
    }
    assert!(matches!(
        credentials::load(root.path(), &"0".repeat(32)),
        Err(CredentialError::Missing(_))
    ));
}

#[test]
fn hints_name_the_source_and_tell_a_lost_folder() {
    let (_root, volume) = volume();
    let (send, hints) = mpsc::channel();
    let folder = volume.served.manifests();
    let _watch = watch(&folder, move |hint| {
        let _ = send.send(hint);
    })
    .unwrap();
    let name = source().name();
    let path = volume.served.manifest(&name);
    publish::json(&path, &a_manifest()).unwrap();
    let patience = Duration::from_secs(30);
    assert_eq!(
        hints.recv_timeout(patience).unwrap(),
        Hint::Source(name.clone())
    );
    while hints.try_recv().is_ok() {}

    // Reading wakes nobody: the next thing heard is the next change.
    observe::manifest(&path, &source()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let mut heard = Vec::new();
    while heard.last() != Some(&Hint::Lost) {
        heard.push(hints.recv_timeout(patience).unwrap());
    }
    assert!(
        heard
            .iter()
            .all(|hint| matches!(hint, Hint::Source(_) | Hint::Lost)),
        "{heard:?}"
    );
}

#[test]
fn a_folder_that_is_not_there_is_waited_for() {
    let volume = tempfile::tempdir().unwrap();
    let above = volume.path().join("wanted");
    let folder = above.join("requests");
    let heard = || {
        let (send, hints) = mpsc::channel();
        let watch = watch(&folder, move |hint| drop(send.send(hint))).unwrap();
        (watch, hints)
    };
    let patience = Duration::from_secs(30);
    for nearer in [&above, &folder] {
        let (_watch, hints) = heard();
        // What is beside the way is no hint.
        publish::folder(&volume.path().join("beside"), Audience::Group).unwrap();
        publish::folder(nearer, Audience::Group).unwrap();
        assert_eq!(hints.recv_timeout(patience).unwrap(), Hint::Lost);
    }
    let (_watch, hints) = heard();
    let name = source().name();
    publish::json(&folder.join(format!("{name}.json")), &a_manifest()).unwrap();
    assert_eq!(hints.recv_timeout(patience).unwrap(), Hint::Source(name));
}
