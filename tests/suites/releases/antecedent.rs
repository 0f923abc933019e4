//! The annotation that tells for which HelmRelease an object was released.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, NamespaceResourceScope};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};
use tandem_tests::charts;
use tandem_tests::git::Upstream;
use tandem_tests::kubernetes::{HelmRelease, HelmReleases};
use tandem_tests::pair::{self, Extra};
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use crate::common::{app, push, upstream};

const ANNOTATION: &str = "helm.fluxcd.io/antecedent";

const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: {{ .Release.Name }}}\n\
                       spec: {ports: [{port: 80}]}\n";
const HOOK: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-hook\n  \
                    annotations: {helm.sh/hook: pre-install}\n";

/// A ConfigMap beside the one of the chart, made while `condition` holds.
fn another(condition: &str) -> String {
    format!(
        "{{{{ if {condition} }}}}\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {{{{ .Release.Name }}}}-more}}\n{{{{ end }}}}\n"
    )
}

/// What an object is annotated with; nothing if it isn't there.
async fn annotation<K>(world: &World, name: &str) -> Option<String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + serde::de::DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(world.client.clone(), &world.namespace);
    let found = api.get_opt(name).await.unwrap()?;
    found.annotations().get(ANNOTATION).cloned()
}

fn of(namespace: &str, name: &str) -> Option<String> {
    Some(format!("{namespace}:helmrelease/{name}"))
}

/// Objects that the reconciler has annotated.
async fn written(world: &World) -> f64 {
    let metrics = world.reconciler().unwrap().metrics().await.unwrap();
    metrics.sum("tandem_api_writes_total", &[("kind", "annotation")])
}

fn push_file(upstream: &Upstream, path: &str, text: &str) -> String {
    upstream.write(path, text).unwrap();
    upstream.push("main", &format!("Add {path}")).unwrap()
}

/// Takes the annotation off a ConfigMap.
async fn bare(world: &World, name: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let none = json!({"metadata": {"annotations": {ANNOTATION: null}}});
    maps.patch(name, &PatchParams::default(), &Patch::Merge(none))
        .await
        .unwrap();
}

#[tokio::test]
async fn every_object_of_a_release_names_its_helmrelease() {
    let mut world = World::start("antecedent").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    upstream
        .write("charts/app/templates/service.yaml", SERVICE)
        .unwrap();
    let first = push_file(&upstream, "charts/app/templates/hook.yaml", HOOK);
    let releases = world.releases.clone();
    let spec = app(&upstream.file_url(), "web");
    let ours = of(&world.namespace, "mine");
    releases.apply("mine", &spec).await.unwrap();
    let released = releases.released_from("mine", &first).await.unwrap();
    assert_eq!(released.status("annotatedRevision"), 1);
    assert_eq!(annotation::<ConfigMap>(&world, "web").await, ours);
    assert_eq!(annotation::<Service>(&world, "web").await, ours);
    assert_eq!(annotation::<ConfigMap>(&world, "web-hook").await, None);
    assert_eq!(written(&world).await, 2.0);

    // An upgrade leaves the annotation where it is, and what is new gets it.
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = push_file(
        &upstream,
        "charts/app/templates/more.yaml",
        &another("true"),
    );
    world.sync().await.unwrap();
    let released = releases.released_from("mine", &second).await.unwrap();
    releases.marker("web", "two").await.unwrap();
    assert_eq!(released.status("annotatedRevision"), 2);
    assert_eq!(annotation::<ConfigMap>(&world, "web").await, ours);
    assert_eq!(annotation::<ConfigMap>(&world, "web-more").await, ours);
    assert_eq!(written(&world).await, 3.0);

    // Replaced objects lose it, and get it again.
    releases
        .patch("mine", &json!({"spec": {"forceUpgrade": true}}))
        .await
        .unwrap();
    releases.released("mine").await.unwrap();
    for name in ["web", "web-more"] {
        assert_eq!(annotation::<ConfigMap>(&world, name).await, ours, "{name}");
    }
    assert_eq!(annotation::<Service>(&world, "web").await, ours);
    let revisions = world.helm.revisions(&world.namespace, "web").unwrap();
    assert_eq!(revisions.len(), 3, "{revisions:?}");

    // As if it had been killed between helm's end and the annotations: nothing tells that
    // the objects bear them, and no helm has to run.
    world.reconciler_mut().unwrap().kill().unwrap();
    bare(&world, "web-more").await;
    let kind = GroupVersionKind::gvk("helm.fluxcd.io", "v1", "HelmRelease");
    let kind = ApiResource::from_gvk_with_plural(&kind, "helmreleases");
    let all: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &world.namespace, &kind);
    let forgotten = Patch::Merge(json!({"status": {"annotatedRevision": null}}));
    all.patch_status("mine", &PatchParams::default(), &forgotten)
        .await
        .unwrap();
    world.reconciler_mut().unwrap().restart().unwrap();
    let again = |found: &HelmRelease| found.status("annotatedRevision") == 3;
    releases
        .wait("mine", "annotated again", again)
        .await
        .unwrap();
    assert_eq!(annotation::<ConfigMap>(&world, "web-more").await, ours);
    assert_eq!(
        world.helm.revisions(&world.namespace, "web").unwrap(),
        revisions
    );

    // At rest, that costs nothing: a look at it all the same writes no annotation.
    let before = written(&world).await;
    releases
        .patch("mine", &json!({"spec": {"timeout": 77}}))
        .await
        .unwrap();
    releases.released("mine").await.unwrap();
    assert_eq!(written(&world).await, before);
}

#[tokio::test]
async fn what_is_taken_over_names_its_new_helmrelease() {
    let world = World::start("antecedent-adopt").await.unwrap();
    let (upstream, commit) = upstream(&world, "charts", "one");
    let chart = upstream.work().join("charts/app").display().to_string();
    let install = ["install", "web", &chart];
    world.helm.ok(&world.namespace, &install).unwrap();
    // As it stood there for a HelmRelease that is gone.
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let former = json!({"metadata": {"annotations": {ANNOTATION: "gone:helmrelease/web"}}});
    maps.patch("web", &PatchParams::default(), &Patch::Merge(former))
        .await
        .unwrap();
    let releases = world.releases.clone();
    releases
        .apply("mine", &app(&upstream.file_url(), "web"))
        .await
        .unwrap();
    releases.released_from("mine", &commit).await.unwrap();
    assert_eq!(
        annotation::<ConfigMap>(&world, "web").await,
        of(&world.namespace, "mine")
    );
    assert_eq!(
        world.helm.revisions(&world.namespace, "web").unwrap(),
        [(1, "deployed".to_owned())]
    );
}

#[tokio::test]
async fn what_a_suspended_helmrelease_asks_for_is_not_touched() {
    let world = World::start("antecedent-held").await.unwrap();
    let (upstream, commit) = upstream(&world, "charts", "one");
    let chart = upstream.work().join("charts/app").display().to_string();
    let install = ["install", "web", &chart];
    world.helm.ok(&world.namespace, &install).unwrap();
    let releases = world.releases.clone();
    let mut unmade = app(&upstream.file_url(), "web");
    unmade["chart"]["path"] = json!("charts/none");
    releases.apply("mine", &unmade).await.unwrap();
    releases
        .condition("mine", "Ready", "False", "charts/none")
        .await
        .unwrap();
    let suspend = |value: Value| json!({"annotations": {"helm.fluxcd.io/suspend": value}});
    let made = json!({"chart": {"path": "charts/app"}});
    let held = json!({"metadata": suspend(json!("true")), "spec": made});
    releases.patch("mine", &held).await.unwrap();
    // What is written to objects is written before that.
    releases
        .wait("mine", "suspended", |found| {
            found.condition("Suspended").is_some()
        })
        .await
        .unwrap();
    assert_eq!(annotation::<ConfigMap>(&world, "web").await, None);

    let resumed = json!({"metadata": suspend(Value::Null)});
    releases.patch("mine", &resumed).await.unwrap();
    releases.released_from("mine", &commit).await.unwrap();
    assert_eq!(
        annotation::<ConfigMap>(&world, "web").await,
        of(&world.namespace, "mine")
    );
}

#[tokio::test]
async fn what_a_rollback_makes_anew_is_annotated() {
    let world = World::start("antecedent-back").await.unwrap();
    let upstream = world.upstreams.create("charts").unwrap();
    upstream
        .write_all(&charts::application("charts/app", "one"))
        .unwrap();
    let more = another("not .Values.less");
    let commit = push_file(&upstream, "charts/app/templates/more.yaml", &more);
    let mut spec = app(&upstream.file_url(), "web");
    spec["values"] = json!({"replicas": 0});
    spec["rollback"] = json!({"enable": true});
    let releases = world.releases.clone();
    releases.apply("mine", &spec).await.unwrap();
    releases.released_from("mine", &commit).await.unwrap();
    // No node runs a Pod, so this one never gets ready; and one object is gone with it.
    let worse = json!({"timeout": 3, "values": {"replicas": 1, "less": true}});
    releases
        .patch("mine", &json!({ "spec": worse }))
        .await
        .unwrap();
    let rolled_back =
        |found: &HelmRelease| found.is_observed() && found.status("rollbackCount") == 1;
    let found = releases
        .wait("mine", "rolled back", rolled_back)
        .await
        .unwrap();
    assert_eq!(found.status("annotatedRevision"), 3);
    assert_eq!(
        annotation::<ConfigMap>(&world, "web-more").await,
        of(&world.namespace, "mine")
    );
}

/// A policy of the API server that refuses the annotation on one ConfigMap.
async fn forbid(world: &World, map: &str) -> String {
    let name = format!("no-antecedent.{}", world.namespace);
    let refuses = format!(
        "object.metadata.name != '{map}' || !has(object.metadata.annotations) || \
         !('{ANNOTATION}' in object.metadata.annotations)"
    );
    let policy = json!({
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"],
            }]},
            "validations": [{"expression": refuses, "message": "nobody annotates this"}],
        },
    });
    let own = json!({"kubernetes.io/metadata.name": world.namespace});
    let binding = json!({
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": own}},
        },
    });
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(world.client.clone());
    let made = serde_json::from_value(policy).unwrap();
    policies
        .create(&PostParams::default(), &made)
        .await
        .unwrap();
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(world.client.clone());
    let made = serde_json::from_value(binding).unwrap();
    bindings
        .create(&PostParams::default(), &made)
        .await
        .unwrap();
    name
}

/// Waits until the annotation on a ConfigMap is refused, or no longer.
async fn is_refused(world: &World, map: &str, refused: bool) {
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let patch: Value = json!({"metadata": {"annotations": {ANNOTATION: "x"}}});
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    until(format!("annotations refused: {refused}"), LONG, || async {
        let tried = maps.patch(map, &dry, &Patch::Merge(&patch)).await;
        Ok(Look::when(tried.is_err() == refused, format!("{tried:?}")))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn what_can_not_be_annotated_fails_nothing_and_is_tried_again() {
    let world = World::start("antecedent-no").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    upstream
        .write("charts/app/templates/service.yaml", SERVICE)
        .unwrap();
    let releases = world.releases.clone();
    // What the policy refuses is known by its name.
    releases.put_config_map("web", &[]).await.unwrap();
    let policy = forbid(&world, "web").await;
    is_refused(&world, "web", true).await;
    releases.delete_config_map("web").await.unwrap();
    let first = push(&upstream, "two");
    releases
        .apply("mine", &app(&upstream.file_url(), "web"))
        .await
        .unwrap();
    let released = releases.released_from("mine", &first).await.unwrap();
    assert_eq!(released.condition("Ready").unwrap().0, "True");
    assert!(released.status("annotatedRevision").is_null());
    assert_eq!(annotation::<ConfigMap>(&world, "web").await, None);
    let ours = of(&world.namespace, "mine");
    assert_eq!(annotation::<Service>(&world, "web").await, ours);
    let log = world.reconciler().unwrap().log();
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("annotate ConfigMap web"))
        .collect();
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("nobody annotates this"), "{told:#?}");

    // The next pass tries it again, without helm.
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(world.client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(world.client.clone());
    let now = DeleteParams::default();
    bindings.delete(&policy, &now).await.unwrap();
    policies.delete(&policy, &now).await.unwrap();
    is_refused(&world, "web", false).await;
    releases
        .patch("mine", &json!({"spec": {"timeout": 77}}))
        .await
        .unwrap();
    releases
        .wait("mine", "annotated", |found| {
            found.status("annotatedRevision") == 1
        })
        .await
        .unwrap();
    assert_eq!(annotation::<ConfigMap>(&world, "web").await, ours);
}

/// The same chart from the same place, wanted by HelmReleases of two reconcilers, of which
/// each follows one namespace.
async fn two_worlds(name: &str) -> (World, World, Upstream, Value) {
    let world = World::start(name).await.unwrap();
    let other = World::start(&format!("{name}-other")).await.unwrap();
    let (upstream, commit) = upstream(&world, "charts", "one");
    let mut spec = app(&upstream.file_url(), "shared");
    spec["targetNamespace"] = json!(world.namespace);
    world.releases.apply("first", &spec).await.unwrap();
    world
        .releases
        .released_from("first", &commit)
        .await
        .unwrap();
    (world, other, upstream, spec)
}

#[tokio::test]
async fn a_release_of_another_reconciler_is_refused_by_name_until_it_is_free() {
    let (world, other, _upstream, spec) = two_worlds("antecedent-two").await;
    let stands = || world.helm.revisions(&world.namespace, "shared").unwrap();
    let first = format!("{}/first", world.namespace);
    other.releases.apply("second", &spec).await.unwrap();
    other
        .releases
        .condition("second", "Ready", "False", &first)
        .await
        .unwrap();
    let refused = other.releases.get("second").await.unwrap();
    assert_eq!(refused.condition("Released").unwrap().0, "False");
    assert_eq!(refused.condition("Stalled").unwrap().1, "OwnedByOther");
    assert_eq!(refused.status("phase"), "Failed");
    // It doesn't take the release with it when it goes.
    other.releases.delete("second").await.unwrap();
    other.releases.gone("second").await.unwrap();
    assert_eq!(stands(), [(1, "deployed".to_owned())]);
    assert_eq!(
        annotation::<ConfigMap>(&world, "shared").await,
        of(&world.namespace, "first")
    );

    // Left behind by the one that had it, the other takes it over as it is.
    other.releases.apply("second", &spec).await.unwrap();
    other
        .releases
        .condition("second", "Ready", "False", &first)
        .await
        .unwrap();
    let left = json!({"metadata": {"annotations": {"helm.fluxcd.io/abandon": "true"}}});
    world.releases.patch("first", &left).await.unwrap();
    world.releases.delete("first").await.unwrap();
    world.releases.gone("first").await.unwrap();
    other
        .releases
        .patch("second", &json!({"spec": {"timeout": 77}}))
        .await
        .unwrap();
    other.releases.released("second").await.unwrap();
    assert_eq!(
        annotation::<ConfigMap>(&world, "shared").await,
        of(&other.namespace, "second")
    );
    assert_eq!(stands(), [(1, "deployed".to_owned())]);
}

#[tokio::test]
async fn what_helm_operator_has_is_refused_by_name() {
    let world = World::start("antecedent-operator").await.unwrap();
    let elsewhere = world.cluster.namespace("antecedent-flux").await.unwrap();
    let (upstream, commit) = upstream(&world, "charts", "one");
    let chart = upstream.work().join("charts/app").display().to_string();
    let install = ["install", "web", &chart];
    world.helm.ok(&world.namespace, &install).unwrap();
    // Nobody here follows that HelmRelease, but it is there.
    let mut spec = app(&upstream.file_url(), "web");
    spec["targetNamespace"] = json!(world.namespace);
    let theirs = HelmReleases::new(world.client.clone(), &elsewhere);
    theirs.apply("theirs", &spec).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let value = format!("{elsewhere}:helmrelease/theirs");
    let annotated = json!({"metadata": {"annotations": {ANNOTATION: value}}});
    let annotated = Patch::Merge(annotated);
    maps.patch("web", &PatchParams::default(), &annotated)
        .await
        .unwrap();
    let releases = world.releases.clone();
    releases.apply("mine", &spec).await.unwrap();
    let holder = format!("{elsewhere}/theirs");
    releases
        .condition("mine", "Ready", "False", &holder)
        .await
        .unwrap();
    assert_eq!(
        annotation::<ConfigMap>(&world, "web").await,
        of(&elsewhere, "theirs")
    );
    // It asks for something else now, so this one may have it.
    theirs
        .patch("theirs", &json!({"spec": {"releaseName": "else"}}))
        .await
        .unwrap();
    releases
        .patch("mine", &json!({"spec": {"timeout": 77}}))
        .await
        .unwrap();
    releases.released_from("mine", &commit).await.unwrap();
    assert_eq!(
        annotation::<ConfigMap>(&world, "web").await,
        of(&world.namespace, "mine")
    );
}

#[tokio::test]
async fn a_helmrelease_that_can_not_be_read_counts() {
    let mut world = World::empty("antecedent-blind").await.unwrap();
    let (upstream, commit) = upstream(&world, "charts", "one");
    let chart = upstream.work().join("charts/app").display().to_string();
    let install = ["install", "web", &chart];
    world.helm.ok(&world.namespace, &install).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let annotated = json!({"metadata": {"annotations": {ANNOTATION: "elsewhere:helmrelease/web"}}});
    let annotated = Patch::Merge(annotated);
    maps.patch("web", &PatchParams::default(), &annotated)
        .await
        .unwrap();
    // A reconciler that may do everything in its namespace, and nothing elsewhere.
    let releases = world.releases.clone();
    let account = json!({"metadata": {"name": "blind"}});
    let account: ServiceAccount = serde_json::from_value(account).unwrap();
    releases.create(&account).await.unwrap();
    let role = json!({
        "metadata": {"name": "blind"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    });
    let role: Role = serde_json::from_value(role).unwrap();
    releases.create(&role).await.unwrap();
    let binding = json!({
        "metadata": {"name": "blind"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "blind"},
        "subjects": [{"kind": "ServiceAccount", "name": "blind", "namespace": world.namespace}],
    });
    let binding: RoleBinding = serde_json::from_value(binding).unwrap();
    releases.create(&binding).await.unwrap();
    let kubeconfig = world
        .cluster
        .service_account_kubeconfig(&world.namespace, "blind")
        .await
        .unwrap();
    world.start_sidecar(&Extra::default()).unwrap();
    let only = Extra::args([format!("--allow-namespace={}", world.namespace)]);
    let helm = world.helm.program();
    let reconciler = pair::reconciler(&world.volume, &kubeconfig, helm, &only).unwrap();
    reconciler.ready().await.unwrap();
    releases
        .apply("mine", &app(&upstream.file_url(), "web"))
        .await
        .unwrap();
    let message = releases
        .condition("mine", "Ready", "False", "elsewhere/web")
        .await
        .unwrap();
    assert!(
        message.contains("can't be read") && message.contains(ANNOTATION),
        "{message}"
    );

    // As it says.
    bare(&world, "web").await;
    releases
        .patch("mine", &json!({"spec": {"timeout": 77}}))
        .await
        .unwrap();
    releases.released_from("mine", &commit).await.unwrap();
    let ours = of(&world.namespace, "mine");
    assert_eq!(annotation::<ConfigMap>(&world, "web").await, ours);
}

#[tokio::test]
async fn a_former_release_that_another_reconciler_took_over_stays() {
    let (world, other, _upstream, spec) = two_worlds("antecedent-former").await;
    // The former release waits for a new one that can't be made, and is taken over.
    let unmade = json!({"spec": {"releaseName": "new", "chart": {"path": "charts/none"}}});
    world.releases.patch("first", &unmade).await.unwrap();
    world
        .releases
        .condition("first", "Ready", "False", "charts/none")
        .await
        .unwrap();
    other.releases.apply("second", &spec).await.unwrap();
    other.releases.released("second").await.unwrap();
    let theirs = of(&other.namespace, "second");
    assert_eq!(annotation::<ConfigMap>(&world, "shared").await, theirs);

    let made = json!({"spec": {"chart": {"path": "charts/app"}}});
    world.releases.patch("first", &made).await.unwrap();
    let done = |found: &HelmRelease| {
        found.is_observed()
            && found.condition("Ready").is_some_and(|one| one.0 == "True")
            && found.status("formerReleases").is_null()
    };
    world
        .releases
        .wait("first", "done with the former release", done)
        .await
        .unwrap();
    let mut left = world.helm.list(&world.namespace).unwrap();
    left.sort();
    assert_eq!(left, ["new", "shared"]);
    assert_eq!(annotation::<ConfigMap>(&world, "shared").await, theirs);
    let log = world.reconciler().unwrap().log();
    let why = format!("annotated for HelmRelease {}/second", other.namespace);
    assert!(log.contains(&why), "{log}");
}

#[tokio::test]
async fn what_is_put_off_while_others_are_released_is_annotated_in_the_end() {
    let mut world = World::empty("put-off").await.unwrap();
    let one_by_one = Extra::args(["--git-poll-interval=24h", "--workers=1"]);
    world
        .start_pair(&Extra::default(), &one_by_one)
        .await
        .unwrap();
    let (upstream, _) = upstream(&world, "charts", "one");
    let names: Vec<String> = (0..6).map(|number| format!("web-{number}")).collect();
    for name in &names {
        let spec = app(&upstream.file_url(), name);
        world.releases.apply(name, &spec).await.unwrap();
    }
    for name in &names {
        let annotated = |one: &HelmRelease| one.status("annotatedRevision") == 1;
        let waited = world.releases.wait(name, "annotated", annotated).await;
        assert_eq!(waited.unwrap().condition("Ready").unwrap().0, "True");
        let ours = of(&world.namespace, name);
        assert_eq!(annotation::<ConfigMap>(&world, name).await, ours);
    }
    // Each of them once, and no helm for it.
    assert_eq!(written(&world).await, 6.0);
    let metrics = world.reconciler().unwrap().metrics().await.unwrap();
    assert_eq!(metrics.helm_processes(), 6.0);
}
