//! `reconciler status`, from the volume alone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::process::{Command, Output};

use serde_json::{Value, json};
use tandem_tests::kubernetes::from_git;
use tandem_tests::world::World;
use tandem_tests::{charts, programs};

fn status(world: &World, args: &[&str]) -> Output {
    Command::new(programs::product().unwrap().reconciler)
        .args(["status", "--volume"])
        .arg(world.volume.path())
        .args(args)
        .env_remove("KUBECONFIG")
        .output()
        .unwrap()
}

/// Every text anywhere in a JSON value.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(parts) => parts.iter().flat_map(texts).collect(),
        Value::Object(parts) => parts.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn the_volume_alone_says_what_is_released_and_what_is_wrong() {
    let mut world = World::start("status").await.unwrap();
    let upstream = world.upstreams.create("charts").unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "one"))
        .unwrap();
    let commit = upstream.push("main", "Add app").unwrap();
    let mut spec = from_git(&upstream.file_url(), "main", "charts/app");
    spec["releaseName"] = json!("shown");
    world.releases.apply("web", &spec).await.unwrap();
    world.releases.released_from("web", &commit).await.unwrap();
    // The processes are gone: nothing but files is left to ask.
    world.reconciler_mut().unwrap().terminate().unwrap();
    world.sidecar_mut().unwrap().terminate().unwrap();

    let table = status(&world, &[]);
    let text = String::from_utf8(table.stdout).unwrap();
    let row = text
        .lines()
        .find(|line| line.contains("/web"))
        .unwrap_or_else(|| panic!("{text}"));
    for part in [
        &world.namespace,
        &upstream.file_url(),
        "main",
        &commit[..10],
        "charts/app",
        "shown",
    ] {
        assert!(row.contains(part), "{part} in {row}");
    }
    let output = status(&world, &["-o", "json"]);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = texts(&shown);
    for part in [upstream.file_url().as_str(), commit.as_str(), "shown"] {
        assert!(
            all.iter().any(|text| text.contains(part)),
            "{part} in {shown}"
        );
    }

    world.sidecar_mut().unwrap().restart().unwrap();
    world.reconciler_mut().unwrap().restart().unwrap();
    world.sidecar().unwrap().ready().await.unwrap();
    world.reconciler().unwrap().ready().await.unwrap();
    let well = status(&world, &[]);
    assert!(well.status.success(), "{well:?}");
    world
        .releases
        .patch("web", &json!({"spec": {"chart": {"ref": "nowhere"}}}))
        .await
        .unwrap();
    world
        .releases
        .condition("web", "Ready", "False", "nowhere")
        .await
        .unwrap();
    let wrong = status(&world, &[]);
    assert_eq!(wrong.status.code(), Some(1));
    let text = String::from_utf8(wrong.stdout).unwrap();
    assert!(
        text.contains("RefNotFound") && text.contains("nowhere"),
        "{text}"
    );
}

#[test]
fn what_is_no_volume_is_refused_in_words() {
    let output = Command::new(programs::product().unwrap().reconciler)
        .args(["status", "--volume", "/nonexistent/volume"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("/nonexistent/volume"), "{said}");
}
