//! What `deploy/` holds, on the real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::path::{Path, PathBuf};

use axum::http;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding, RoleRef, Subject};
use kube::api::{Api, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt, discovery};
use serde_json::{Value, json};
use tandem_tests::cluster::Cluster;
use tandem_tests::kubernetes::{HelmReleases, from_git, install_crd};
use tandem_tests::pair::{self, Extra};
use tandem_tests::volume::Volume;
use tandem_tests::{charts, git, programs};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn documents(file: &Path) -> Vec<DynamicObject> {
    let text = std::fs::read_to_string(file).unwrap();
    text.split("\n---\n")
        .map(|document| {
            serde_saphyr::from_str(document)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        })
        .collect()
}

/// Applies an object; a field that the API server doesn't know is an error.
async fn apply(client: &Client, object: &DynamicObject) {
    let types = object.types.clone().unwrap();
    let kind = GroupVersionKind::try_from(&types).unwrap();
    let (resource, capabilities) = discovery::pinned_kind(client, &kind).await.unwrap();
    let api: Api<DynamicObject> = if capabilities.scope == discovery::Scope::Cluster {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(
            client.clone(),
            object.namespace().as_deref().unwrap(),
            &resource,
        )
    };
    let strict = PatchParams::apply("deploy-test")
        .force()
        .validation_strict();
    if let Err(error) = api
        .patch(&object.name_any(), &strict, &Patch::Apply(object))
        .await
    {
        panic!("{} {}: {error}", types.kind, object.name_any());
    }
}

#[tokio::test]
async fn the_base_is_accepted_strictly_and_separates_the_two_containers() {
    let cluster = Cluster::shared().unwrap();
    let client = cluster.client().await.unwrap();
    let listing: Value = serde_saphyr::from_str(
        &std::fs::read_to_string(deploy().join("kustomization.yaml")).unwrap(),
    )
    .unwrap();
    let files: Vec<&str> = listing["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap())
        .collect();
    assert!(files.contains(&"crd.yaml"), "{files:?}");
    install_crd(&client).await.unwrap();
    for file in files {
        for object in documents(&deploy().join(file)) {
            apply(&client, &object).await;
        }
    }
    let deployments: Api<Deployment> = Api::namespaced(client, "tandem");
    let pod = deployments
        .get("tandem")
        .await
        .unwrap()
        .spec
        .unwrap()
        .template
        .spec
        .unwrap();
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert_eq!(
        mounts(&pod, "mirror-sidecar"),
        ["/credentials ro", "/tandem/served rw", "/tandem/wanted ro"]
    );
    assert_eq!(
        mounts(&pod, "reconciler"),
        [
            "/credentials rw",
            "/tandem/served ro",
            "/tandem/wanted rw",
            "/var/run/secrets/kubernetes.io/serviceaccount ro"
        ]
    );
    let users: Vec<_> = pod
        .containers
        .iter()
        .map(|one| one.security_context.as_ref().unwrap().run_as_user)
        .collect();
    assert!(
        users.iter().all(Option::is_some) && users[0] != users[1],
        "{users:?}"
    );
    let credentials = pod
        .volumes
        .unwrap()
        .into_iter()
        .find(|one| one.name == "credentials")
        .unwrap();
    assert_eq!(
        credentials.empty_dir.unwrap().medium.as_deref(),
        Some("Memory")
    );
}

/// Where a container's mounts are and whether it may write there; its own
/// temporary folder apart.
fn mounts(pod: &PodSpec, container: &str) -> Vec<String> {
    let container = pod
        .containers
        .iter()
        .find(|one| one.name == container)
        .unwrap();
    let mut mounts: Vec<String> = container
        .volume_mounts
        .iter()
        .flatten()
        .filter(|mount| mount.mount_path != "/tmp")
        .map(|mount| {
            format!(
                "{} {}",
                mount.mount_path,
                if mount.read_only == Some(true) {
                    "ro"
                } else {
                    "rw"
                }
            )
        })
        .collect();
    mounts.sort();
    mounts
}

#[tokio::test]
async fn the_reconcilers_role_is_enough_beside_what_the_charts_need() {
    let cluster = Cluster::shared().unwrap();
    let client = cluster.client().await.unwrap();
    install_crd(&client).await.unwrap();
    let namespace = cluster.namespace("rbac").await.unwrap();
    // The role as it is shipped, bound to a service account of this test, and
    // beside it what the test's chart needs: `edit` in its one namespace.
    for object in documents(&deploy().join("rbac.yaml")) {
        if object.types.as_ref().unwrap().kind == "ClusterRole" {
            apply(&client, &object).await;
        }
    }
    let roles: Api<ClusterRole> = Api::all(client.clone());
    assert!(roles.get_opt("tandem-reconciler").await.unwrap().is_some());
    let releases = HelmReleases::new(client.clone(), &namespace);
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tandem"}});
    releases
        .create::<k8s_openapi::api::core::v1::ServiceAccount>(
            &serde_json::from_value(account).unwrap(),
        )
        .await
        .unwrap();
    let subject = Subject {
        kind: "ServiceAccount".into(),
        name: "tandem".into(),
        namespace: Some(namespace.clone()),
        ..Subject::default()
    };
    let binding = |role: &str| {
        json!({
            "metadata": {"name": format!("{role}-{namespace}")},
            "roleRef": RoleRef { api_group: "rbac.authorization.k8s.io".into(), kind: "ClusterRole".into(), name: role.into() },
            "subjects": [subject],
        })
    };
    let cluster_wide: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> =
        Api::all(client.clone());
    let shipped = serde_json::from_value(binding("tandem-reconciler")).unwrap();
    cluster_wide
        .create(&PostParams::default(), &shipped)
        .await
        .unwrap();
    let mut edit: RoleBinding = serde_json::from_value(binding("edit")).unwrap();
    edit.metadata = ObjectMeta {
        name: Some("edit".into()),
        ..ObjectMeta::default()
    };
    releases.create(&edit).await.unwrap();

    let upstreams = git::Upstreams::new().unwrap();
    let upstream = upstreams.create("charts").unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "one"))
        .unwrap();
    let first = upstream.push("main", "Add app").unwrap();
    let volume = Volume::new().unwrap();
    let kubeconfig = cluster
        .service_account_kubeconfig(&namespace, "tandem")
        .await
        .unwrap();
    let sidecar = pair::sidecar(&volume, &Extra::default()).unwrap();
    let extra = Extra::args([format!("--allow-namespace={namespace}")]);
    let reconciler = pair::reconciler(
        &volume,
        &kubeconfig,
        &programs::helm().unwrap().program,
        &extra,
    )
    .unwrap();
    sidecar.ready().await.unwrap();
    reconciler.ready().await.unwrap();
    releases
        .apply("web", &from_git(&upstream.file_url(), "main", "charts/app"))
        .await
        .unwrap();
    releases.released_from("web", &first).await.unwrap();
    releases
        .event("web", "Normal", "ReleaseSynced", "")
        .await
        .unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    reconciler.sync_git().await.unwrap();
    releases.released_from("web", &second).await.unwrap();
    releases.delete("web").await.unwrap();
    releases.gone("web").await.unwrap();
}

#[tokio::test]
async fn the_definition_is_the_one_that_users_know() {
    let cluster = Cluster::shared().unwrap();
    let client = cluster.client().await.unwrap();
    install_crd(&client).await.unwrap();
    let namespace = cluster.namespace("definition").await.unwrap();
    let path = format!("/apis/helm.fluxcd.io/v1/namespaces/{namespace}/helmreleases");

    let listed = client
        .list_api_group_resources("helm.fluxcd.io/v1")
        .await
        .unwrap()
        .resources;
    let resource = listed
        .iter()
        .find(|one| one.name == "helmreleases")
        .unwrap();
    assert_eq!(
        resource.short_names,
        Some(vec!["hr".to_owned(), "hrs".to_owned()])
    );
    assert!(listed.iter().any(|one| one.name == "helmreleases/status"));
    let table = http::Request::get(&path)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: Value = client.request(table).await.unwrap();
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        columns,
        [
            "Name",
            "Release",
            "Phase",
            "ReleaseStatus",
            "Message",
            "Age"
        ]
    );

    let releases = HelmReleases::new(client.clone(), &namespace);
    // Every field, in the spellings that manifests in the wild use.
    let every = json!({
        "chart": {
            "git": "git@example.org:charts.git", "ref": "master", "path": "charts/app",
            "secretRef": {"name": "git", "namespace": "other"}, "skipDepUpdate": true,
            "repository": "https://example.org/charts/", "name": "app", "version": "~1.2.0 ",
            "chartPullSecret": {"name": "pull"},
        },
        "helmVersion": "v3", "releaseName": "app", "targetNamespace": "apps", "maxHistory": 0,
        "timeout": 600, "resetValues": false, "skipCRDs": true, "wait": true, "forceUpgrade": true,
        "disableOpenAPIValidation": true,
        "rollback": {
            "enable": true, "retry": true, "maxRetries": 0, "force": true, "recreate": true,
            "disableHooks": true, "timeout": 300, "wait": true,
        },
        "test": {"enable": true, "ignoreFailures": true, "timeout": 30, "cleanup": false},
        "values": {"any": [1, {"x": null}], "s": "yes"},
        "valuesFrom": [
            {"configMapKeyRef": {"name": "a", "namespace": "b", "key": "c", "optional": true}},
            {"secretKeyRef": {"name": "a", "optional": false}},
            {"externalSourceRef": {"url": "https://example.org/values.yaml", "optional": true}},
            {"chartFileRef": {"path": "prod.yaml", "optional": true}},
            {"gitFileRef": {
                "git": "git@example.org:values.git", "ref": "main", "path": "prod.yaml",
                "secretRef": {"name": "git", "namespace": "other"}, "optional": true,
            }},
        ],
        "valueFileSecrets": [{"name": "old"}],
    });
    releases.apply("every", &every).await.unwrap();
    assert_eq!(
        releases.get("every").await.unwrap().0.data["spec"],
        every,
        "nothing is dropped"
    );
    let unknown = json!({"chart": {"git": "https://example.org/x", "path": "x", "appVersion": "1"}, "rollback": {"enabled": true}});
    releases.apply("unknown", &unknown).await.unwrap();
    releases
        .apply("strange", &json!({"chart": {}, "values": ["no", "map"]}))
        .await
        .unwrap();
    for bad in [
        json!({}),
        json!({"chart": "x"}),
        json!({"chart": {}, "timeout": "5m"}),
        json!({"chart": {}, "helmVersion": "v4"}),
    ] {
        let refused = releases.apply("bad", &bad).await.unwrap_err();
        assert!(
            format!("{refused:#}").contains("spec"),
            "{bad}: {refused:#}"
        );
    }
}
