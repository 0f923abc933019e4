//! The `helm.fluxcd.io/v1` `HelmRelease`, as helm-operator's users write it.
//!
//! The types are as lenient as the published schema: every optional field may be
//! absent or null, and what a value means when it is left out is said once, in
//! `access`. Lists and watches use [`StoredHelmRelease`], so that one object that
//! can't be read fails alone.

mod access;
mod chart;
mod manifest;
mod status;
#[cfg(test)]
mod tests;
mod values_from;

use kube::CustomResource;
use kube::core::DeserializeGuard;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use access::{ChartSource, GitChart, InvalidSpec, RepositoryChart, Target};
pub use chart::{ChartSpec, LocalObjectReference, ObjectReference, VerifyMode, VerifySpec};
pub use manifest::{CrdError, crd_yaml};
pub use status::{
    Condition, ConditionType, FormerRelease, HelmReleaseStatus, LastTest, Operation,
    OperationAction, Phase,
};
pub use values_from::{
    ChartFileSelector, ExternalSourceSelector, FileRef, GitFileSelector, KeySelector,
    ValuesFromSource,
};

/// On a `HelmRelease`: `"true"` lets its deletion leave the release in the cluster.
pub const ABANDON_ANNOTATION: &str = "helm.fluxcd.io/abandon";

/// On a `HelmRelease`: `"true"` lets nothing be done for it until the annotation goes.
pub const SUSPEND_ANNOTATION: &str = "helm.fluxcd.io/suspend";

/// On a `HelmRelease`: any new value asks for its source to be checked and its release to be
/// tried at once, as with Flux's own controllers.
pub const REQUEST_ANNOTATION: &str = "reconcile.fluxcd.io/requestedAt";

/// On a released object: the HelmRelease that it was released for.
pub const ANTECEDENT_ANNOTATION: &str = "helm.fluxcd.io/antecedent";

/// The finalizer that keeps a `HelmRelease` until its release is uninstalled.
pub const FINALIZER: &str = "helm.fluxcd.io/release";

/// A `HelmRelease` as lists and watches deliver it: one that can't be read is an error
/// with its metadata, and its neighbours are unharmed.
pub type StoredHelmRelease = DeserializeGuard<HelmRelease>;

/// One Helm release: a chart, its values, and how to release them.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "helm.fluxcd.io",
    version = "v1",
    kind = "HelmRelease",
    plural = "helmreleases",
    shortname = "hr",
    shortname = "hrs",
    namespaced,
    status = "HelmReleaseStatus",
    derive = "PartialEq",
    doc = "HelmRelease asks for one Helm release and tells what became of it.",
    printcolumn = r#"{"name": "Release", "type": "string", "jsonPath": ".status.releaseName", "description": "Name of the release in Helm."}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "What is being done, or was done last, for this HelmRelease."}"#,
    printcolumn = r#"{"name": "ReleaseStatus", "type": "string", "jsonPath": ".status.releaseStatus", "description": "Status of the release, as Helm records it."}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Released\")].message"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct HelmReleaseSpec {
    /// Where the chart comes from: `git` and `path`, or `repository`, `name` and `version`.
    pub chart: ChartSpec,

    /// Helm version to use. `v3` is served by whatever supported helm program runs; `v2`
    /// is refused with a condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "helm_versions")]
    pub helm_version: Option<String>,

    /// Name of the release in Helm. By default `<namespace>-<name>`, or
    /// `<namespace>-<targetNamespace>-<name>` when the release lives in another namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_name: Option<String>,

    /// Namespace to release into. By default that of the HelmRelease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_namespace: Option<String>,

    /// Revisions of the release that Helm keeps, 10 by default, at least 3; 0 keeps all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_history: Option<i64>,

    /// Seconds that each single step of an install, upgrade or uninstall may take, 300 by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,

    /// Set to false to keep the values of the previous revision where this HelmRelease
    /// says nothing. By default an upgrade starts from the defaults of the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_values: Option<bool>,

    /// Leave out the chart's CRDs at an install.
    #[serde(default, rename = "skipCRDs", skip_serializing_if = "Option::is_none")]
    pub skip_crds: Option<bool>,

    /// Wait until the released objects are ready before the release counts as deployed. By
    /// default only if rollbacks or tests are enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,

    /// Replace objects that an upgrade can't change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_upgrade: Option<bool>,

    /// Do without the check of rendered objects against the schema of the cluster.
    #[serde(
        default,
        rename = "disableOpenAPIValidation",
        skip_serializing_if = "Option::is_none"
    )]
    pub disable_openapi_validation: Option<bool>,

    /// What to do when an upgrade fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,

    /// The tests of the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,

    /// Values for the chart, over all that come from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_value")]
    pub values: Option<serde_json::Value>,

    /// Values from elsewhere, merged in order, the later over the earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values_from: Option<Vec<ValuesFromSource>>,

    /// Deprecated, use valuesFrom: Secrets whose `values.yaml` is merged before valuesFrom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_file_secrets: Option<Vec<LocalObjectReference>>,
}

/// What to do when an upgrade fails.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollback {
    /// Roll a failed upgrade back to the last good revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Try the upgrade again after a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<bool>,
    /// Upgrades to try after a rollback, 5 by default; 0 has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<i64>,
    /// Replace objects that the rollback can't change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Restart the Pods of the release, where the helm program still can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recreate: Option<bool>,
    /// Run no hooks during the rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_hooks: Option<bool>,
    /// Seconds that each single step of a rollback may take, 300 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// Wait until the objects rolled back to are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
}

/// The tests of the chart.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Test {
    /// Run the tests after every install and upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Count a release as good though its tests fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_failures: Option<bool>,
    /// Seconds that each single test may take, 300 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// Accepted for Helm 2's sake, without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<bool>,
}

/// No enum: the API server refuses null beside one, whatever `nullable` says.
fn helm_versions(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "nullable": true, "pattern": "^v[23]$" })
}

/// Values of any shape, so that one that isn't a map is refused with a condition, not lost.
fn any_value(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "description": "Values for the chart, over all that come from elsewhere.",
        "nullable": true,
        "x-kubernetes-preserve-unknown-fields": true
    })
}
