//! What the tests ask of the API server, and tell it.

mod helm_releases;
mod jobs;
mod pods;
mod records;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};

use crate::wait::{LONG, Look, until};

pub use helm_releases::{HelmRelease, HelmReleases, from_git};
pub use jobs::{JobEnd, complete_jobs, end_jobs};
pub use pods::{PodEnd, end_pod};

/// The field manager of everything that the harness applies.
const MANAGER: &str = "tandem-tests";

/// The generated CustomResourceDefinition in the checkout.
pub fn crd_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/crd.yaml")
}

/// Applies the HelmRelease CustomResourceDefinition and waits until the API
/// server serves it: a watch that starts before fails.
pub async fn install_crd(client: &Client) -> Result<()> {
    let file = crd_file();
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("{} is missing: run cargo generate", file.display()))?;
    let crd: CustomResourceDefinition = serde_saphyr::from_str(&text)?;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = crd.name_any();
    crds.patch(
        &name,
        &PatchParams::apply(MANAGER).force(),
        &Patch::Apply(&crd),
    )
    .await?;
    until(format!("{name} to be Established"), LONG, || async {
        let status = crds.get_status(&name).await?.status;
        let conditions = status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let established = conditions
            .iter()
            .any(|one| one.type_ == "Established" && one.status == "True");
        Ok(Look::when(established, format!("{conditions:?}")))
    })
    .await
}
