//! The README's first command, as a reader runs it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::process::{Command, Output};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use tandem_tests::charts;
use tandem_tests::cluster::Cluster;
use tandem_tests::git::Upstreams;
use tandem_tests::kubernetes::install_crd;
use tandem_tests::wait::{LONG, Look, until};

fn demo(cluster: &Cluster, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_demo"))
        .args(["--", "--once", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .args(args)
        .output()
        .unwrap()
}

/// Nothing is left of a demo on a cluster that isn't its own.
async fn nothing_left(cluster: &Cluster, definition: bool) {
    let client = cluster.client().await.unwrap();
    let (namespaces, definitions): (Api<Namespace>, Api<CustomResourceDefinition>) =
        (Api::all(client.clone()), Api::all(client));
    until("the demo's namespace to be gone", LONG, || async {
        let left = namespaces.list(&ListParams::default()).await?;
        let left: Vec<String> = left
            .iter()
            .map(ResourceExt::name_any)
            .filter(|name| name.contains("demo"))
            .collect();
        let kept = definitions
            .get_opt("helmreleases.helm.fluxcd.io")
            .await?
            .is_some();
        Ok(Look::when(
            left.is_empty() && kept == definition,
            format!("{left:?}, definition: {kept}"),
        ))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn the_demo_tells_its_story_and_leaves_nothing_behind() {
    let cluster = Cluster::shared().unwrap();
    let told = demo(&cluster, &[]);
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(
        told.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&told.stderr)
    );
    for part in [
        "Only api was upgraded",
        "1 superseded, 2 deployed",
        "status --volume",
        "export KUBECONFIG=",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    nothing_left(&cluster, false).await;

    // A chart of the reader's own, on a cluster that knows HelmReleases.
    install_crd(&cluster.client().await.unwrap()).await.unwrap();
    let upstream = Upstreams::new().unwrap().create("own").unwrap();
    upstream
        .write_all(&charts::config_map("deploy/app", "own"))
        .unwrap();
    upstream.push("main", "Add app").unwrap();
    let url = upstream.file_url();
    let told = demo(&cluster, &["--git", &url, "--path", "deploy/app"]);
    assert!(
        told.status.success(),
        "{}",
        String::from_utf8_lossy(&told.stderr)
    );
    let told = demo(
        &cluster,
        &["--git", &url, "--path", "deploy/none", "--ref", "main"],
    );
    assert_eq!(told.status.code(), Some(1));
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(
        said.contains("deploy/none") && !said.contains("stack backtrace"),
        "{said}"
    );
    nothing_left(&cluster, true).await;
}
