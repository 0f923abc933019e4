//! Values from ConfigMaps and Secrets: an edit counts at once.

use serde_json::{Value, json};
use tandem_tests::charts;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::{app, upstream};

/// Nothing is looked at again by itself.
const NEVER: &str = "24h";

async fn deployed(world: &World, release: &str, wanted: &Value) {
    until(format!("{release} with {wanted}"), LONG, || async {
        let revisions = world.helm.revisions(&world.namespace, release)?;
        if revisions.last().is_none_or(|last| last.1 != "deployed") {
            return Ok(Look::NotYet(format!("{revisions:?}")));
        }
        let values = world.helm.values(&world.namespace, release)?;
        Ok(Look::when(values == *wanted, values))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_edit_of_what_a_helmrelease_names_is_followed_at_once() {
    let world = World::resyncing("named", NEVER).await.unwrap();
    let (upstream, commit) = upstream(&world, "charts", "one");
    let releases = world.releases.clone();
    let mut spec = app(&upstream.file_url(), "web");
    spec["valuesFrom"] = json!([
        {"configMapKeyRef": {"name": "settings"}},
        {"secretKeyRef": {"name": "token", "key": "secret.yaml"}},
        {"configMapKeyRef": {"name": "more", "optional": true}},
    ]);
    releases.apply("web", &spec).await.unwrap();
    releases
        .condition("web", "Ready", "False", "no such ConfigMap")
        .await
        .unwrap();

    // What is missing heals when it appears.
    releases
        .put_config_map("settings", &[("values.yaml", "a: 1")])
        .await
        .unwrap();
    releases
        .condition("web", "Ready", "False", "no such Secret")
        .await
        .unwrap();
    releases
        .put_secret("token", &[("secret.yaml", "b: hidden")])
        .await
        .unwrap();
    releases.released_from("web", &commit).await.unwrap();
    deployed(&world, "web", &json!({"a": 1, "b": "hidden"})).await;

    // Nobody names this one.
    releases
        .put_config_map("other", &[("values.yaml", "a: 0")])
        .await
        .unwrap();
    releases
        .put_config_map("settings", &[("values.yaml", "a: 2")])
        .await
        .unwrap();
    deployed(&world, "web", &json!({"a": 2, "b": "hidden"})).await;
    releases
        .put_secret("token", &[("secret.yaml", "b: rotated")])
        .await
        .unwrap();
    deployed(&world, "web", &json!({"a": 2, "b": "rotated"})).await;
    releases
        .put_config_map("more", &[("values.yaml", "c: here")])
        .await
        .unwrap();
    deployed(&world, "web", &json!({"a": 2, "b": "rotated", "c": "here"})).await;

    // What goes is missed, and the release stays as it was.
    releases.delete_config_map("settings").await.unwrap();
    releases
        .condition("web", "Ready", "False", "no such ConfigMap")
        .await
        .unwrap();
    let revisions = world.helm.revisions(&world.namespace, "web").unwrap();
    assert_eq!(revisions.last(), Some(&(4, "deployed".to_owned())));
    let metrics = world.reconciler().unwrap().metrics().await.unwrap();
    assert_eq!(metrics.helm_processes(), 4.0, "one for each change");
}

#[tokio::test]
async fn an_edit_cuts_short_what_is_being_waited_for() {
    let world = World::resyncing("short", NEVER).await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    let hook = charts::hook("stuck", "pre-upgrade", "");
    let when_asked = format!("{{{{ if .Values.stuck }}}}\n{hook}{{{{ end }}}}\n");
    upstream
        .write("charts/app/templates/hook.yaml", when_asked)
        .unwrap();
    upstream.push("main", "Add a hook").unwrap();
    let releases = world.releases.clone();
    let put = async |values: &str| {
        let data = [("values.yaml", values)];
        releases.put_config_map("settings", &data).await.unwrap();
    };
    put("step: 1").await;
    let mut spec = app(&upstream.file_url(), "web");
    spec["valuesFrom"] = json!([{"configMapKeyRef": {"name": "settings"}}]);
    releases.apply("web", &spec).await.unwrap();
    releases.released("web").await.unwrap();

    put("{step: 2, stuck: true}").await;
    releases.record("web", "pending-upgrade").await.unwrap();
    put("step: 3").await;
    deployed(&world, "web", &json!({"step": 3})).await;
    releases.released("web").await.unwrap();
}
