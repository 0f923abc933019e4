//! Who else works on a release: people, and other HelmReleases.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tandem_tests::kubernetes::HelmRelease;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::{app, push, upstream};

#[tokio::test]
async fn a_release_made_by_hand_is_adopted() {
    let world = World::start("adopt").await.unwrap();
    let (upstream, commit) = upstream(&world, "charts", "one");
    let chart = upstream.work().join("charts/app").display().to_string();
    world
        .helm
        .ok(
            &world.namespace,
            &["install", "same", &chart, "--set-string", "a=1"],
        )
        .unwrap();
    world
        .helm
        .ok(
            &world.namespace,
            &["install", "other", &chart, "--set-string", "a=1"],
        )
        .unwrap();
    let releases = world.releases.clone();

    // Chart and values are as wanted: no helm has to run.
    let mut spec = app(&upstream.file_url(), "same");
    spec["values"] = json!({"a": "1"});
    releases.apply("same", &spec).await.unwrap();
    releases.released_from("same", &commit).await.unwrap();
    assert_eq!(
        world.helm.revisions(&world.namespace, "same").unwrap(),
        [(1, "deployed".to_owned())]
    );

    // Values differ: one upgrade.
    let mut spec = app(&upstream.file_url(), "other");
    spec["values"] = json!({"a": "2"});
    releases.apply("other", &spec).await.unwrap();
    releases.released_from("other", &commit).await.unwrap();
    let revisions = world.helm.revisions(&world.namespace, "other").unwrap();
    assert_eq!(
        revisions,
        [(1, "superseded".to_owned()), (2, "deployed".to_owned())]
    );
    assert_eq!(
        world.helm.values(&world.namespace, "other").unwrap(),
        json!({"a": "2"})
    );
}

#[tokio::test]
async fn a_change_by_hand_is_put_right() {
    let world = World::start("drift").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    let releases = world.releases.clone();
    let mut spec = app(&upstream.file_url(), "web");
    spec["values"] = json!({"a": "wanted"});
    releases.apply("web", &spec).await.unwrap();
    releases.released("web").await.unwrap();

    // A person upgrades to other values, then rolls back; both are undone by
    // going forward.
    let chart = upstream.work().join("charts/app").display().to_string();
    world
        .helm
        .ok(
            &world.namespace,
            &["upgrade", "web", &chart, "--set-string", "a=by-hand"],
        )
        .unwrap();
    until("the wanted values", LONG, || async {
        let values = world.helm.values(&world.namespace, "web")?;
        Ok(Look::when(values == json!({"a": "wanted"}), values))
    })
    .await
    .unwrap();
    releases.released("web").await.unwrap();
    world
        .helm
        .ok(&world.namespace, &["uninstall", "web"])
        .unwrap();
    until("the release to return", LONG, || async {
        let revisions = world.helm.revisions(&world.namespace, "web")?;
        let back = revisions.last().is_some_and(|last| last.1 == "deployed");
        Ok(Look::when(back, format!("{revisions:?}")))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn any_upgrade_puts_back_what_was_changed_in_objects() {
    let world = World::start("live").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    // No value reaches this one.
    let fixed =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fixed}\ndata: {marker: as written}\n";
    upstream
        .write("charts/app/templates/fixed.yaml", fixed)
        .unwrap();
    upstream.push("main", "Add an object").unwrap();
    let releases = world.releases.clone();
    let mut spec = app(&upstream.file_url(), "web");
    releases.apply("web", &spec).await.unwrap();
    releases.released("web").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let by_hand = Patch::Merge(json!({"data": {"marker": "by hand"}}));
    let editor = PatchParams {
        field_manager: Some("kubectl-edit".to_owned()),
        ..PatchParams::default()
    };
    maps.patch("fixed", &editor, &by_hand).await.unwrap();
    releases.marker("fixed", "by hand").await.unwrap();

    spec["values"] = json!({"again": "1"});
    releases.apply("web", &spec).await.unwrap();
    releases.marker("fixed", "as written").await.unwrap();
}

#[tokio::test]
async fn one_release_has_one_owner() {
    let world = World::start("owner").await.unwrap();
    let (upstream, first) = upstream(&world, "charts", "one");
    let releases = world.releases.clone();
    releases
        .apply("first", &app(&upstream.file_url(), "shared"))
        .await
        .unwrap();
    releases.released_from("first", &first).await.unwrap();
    releases.is_the_older_one("first").await.unwrap();
    let mut other = app(&upstream.file_url(), "shared");
    other["values"] = json!({"a": "other"});
    releases.apply("second", &other).await.unwrap();
    let message = releases
        .condition("second", "Ready", "False", "first")
        .await
        .unwrap();
    assert!(message.contains("first"), "{message}");
    let told = world
        .volume
        .decision(&world.namespace, "second")
        .unwrap()
        .unwrap();
    assert_eq!(
        (told.action.as_str(), told.revision, told.released),
        ("Refuse", None, None)
    );

    // The owner goes on; the other changes nothing, and doesn't take the
    // release with it when it goes.
    let second = push(&upstream, "two");
    world.sync().await.unwrap();
    releases.released_from("first", &second).await.unwrap();
    releases.delete("second").await.unwrap();
    releases.gone("second").await.unwrap();
    releases.marker("shared", "two").await.unwrap();
    assert_eq!(
        world
            .helm
            .revisions(&world.namespace, "shared")
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test]
async fn a_release_of_another_name_takes_the_place_of_the_former_one() {
    let mut world = World::start("renamed").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    let releases = world.releases.clone();
    let app = |release: &str| app(&upstream.file_url(), release);
    let live = |namespace: &str, wanted: &[&str]| {
        let mut wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        wanted.sort();
        let (helm, namespace) = (&world.helm, namespace.to_owned());
        until(format!("just {wanted:?} in {namespace}"), LONG, move || {
            let listed = helm.list(&namespace).map(|mut names| {
                names.sort();
                Look::when(names == wanted, format!("{names:?}"))
            });
            std::future::ready(listed)
        })
    };
    releases.apply("web", &app("first")).await.unwrap();
    releases.released("web").await.unwrap();
    // Somebody else wants that name, and gets it once it is free: then it stays.
    releases.is_the_older_one("web").await.unwrap();
    releases.apply("heir", &app("first")).await.unwrap();
    releases
        .condition("heir", "Ready", "False", "web")
        .await
        .unwrap();
    releases.apply("web", &app("second")).await.unwrap();
    releases.released("web").await.unwrap();
    releases.released("heir").await.unwrap();
    live(&world.namespace, &["first", "second"]).await.unwrap();

    // The former release stays for as long as the new one can't be made.
    let mut broken = app("third");
    broken["values"] = json!({"bad": "x"});
    broken["chart"]["path"] = json!("charts/none");
    releases.apply("web", &broken).await.unwrap();
    releases
        .condition("web", "Ready", "False", "charts/none")
        .await
        .unwrap();
    live(&world.namespace, &["first", "second"]).await.unwrap();
    releases.apply("web", &app("third")).await.unwrap();
    live(&world.namespace, &["first", "third"]).await.unwrap();
    let none_left = |one: &HelmRelease| one.status("formerReleases").is_null();
    releases
        .wait("web", "rid of former releases", none_left)
        .await
        .unwrap();

    // The same of another namespace.
    let elsewhere = world.cluster.namespace("renamed-elsewhere").await.unwrap();
    let mut moved = app("third");
    moved["targetNamespace"] = json!(elsewhere);
    releases.apply("web", &moved).await.unwrap();
    live(&elsewhere, &["third"]).await.unwrap();
    live(&world.namespace, &["first"]).await.unwrap();

    // Nothing of its own is left when it goes while both are there, and what isn't stays:
    // it never came to touch the release that a person made.
    let chart = upstream.work().join("charts/app").display().to_string();
    let by_hand = ["install", "fourth", &chart];
    world.helm.ok(&world.namespace, &by_hand).unwrap();
    world.sidecar_mut().unwrap().kill().unwrap();
    let mut unmade = app("fourth");
    unmade["chart"]["path"] = json!("charts/none");
    releases.apply("web", &unmade).await.unwrap();
    let remembered = |one: &HelmRelease| one.status("formerReleases")[0]["name"] == "third";
    releases
        .wait("web", "mindful of its former release", remembered)
        .await
        .unwrap();
    releases.delete("web").await.unwrap();
    releases.gone("web").await.unwrap();
    assert!(world.helm.list(&elsewhere).unwrap().is_empty());
    let mut left = world.helm.list(&world.namespace).unwrap();
    left.sort();
    assert_eq!(left, ["first", "fourth"]);
}
