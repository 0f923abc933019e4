//! What became of a HelmRelease.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use tandem_shared::request::Resolution;

use super::Target;

/// What became of a HelmRelease.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmReleaseStatus {
    /// Newest generation that was acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is being done, or was done last.
    #[serde(
        default,
        deserialize_with = "known_phase",
        skip_serializing_if = "Option::is_none"
    )]
    pub phase: Option<Phase>,
    /// Name of the release in Helm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_name: Option<String>,
    /// Namespace of the release in Helm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_namespace: Option<String>,
    /// Status of the release, as Helm records it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_status: Option<String>,
    /// Commit or version of the chart that is released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Commit or version of the chart that was tried last, successfully or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempted_revision: Option<String>,
    /// Where that was from: the URL of the source, and the path or name of the chart in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempted_chart: Option<String>,
    /// What the chart's dependencies stood for then, so that a lost volume changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Resolution>,
    /// Rollbacks of the chart and values that were tried last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_count: Option<i64>,
    /// Observations, one of each type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Option<Vec<Condition>>,
    /// The operation that was started last, for as long as Helm's record isn't settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// The annotation `reconcile.fluxcd.io/requestedAt` that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The last run of the chart's tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_test: Option<LastTest>,
    /// Revision of the release whose objects are all annotated with this HelmRelease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotated_revision: Option<i64>,
    /// Releases that it had under other names, or in other namespaces. They are removed
    /// once the present one stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_releases: Vec<FormerRelease>,
}

/// A release that a HelmRelease had before it asked for another.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FormerRelease {
    /// Name of the release in Helm.
    pub name: String,
    /// Namespace of the release in Helm.
    pub namespace: String,
    /// Commit or version of the chart that was released; none if it was only tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Commit or version of the chart that was tried last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempted_revision: Option<String>,
    /// The operation that was started last on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
}

impl FormerRelease {
    /// The release.
    #[must_use]
    pub fn target(&self) -> Target {
        Target {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

impl HelmReleaseStatus {
    /// Whether the release that it names was released by this HelmRelease, or tried to be. A
    /// refusal names one, too, which may be anybody's.
    #[must_use]
    pub fn has_tried(&self) -> bool {
        self.revision.is_some() || self.last_attempted_revision.is_some()
    }

    /// Whether it tells of this release and of no former one, as nearly every status does.
    #[must_use]
    pub fn is_only_of(&self, target: &Target) -> bool {
        self.former_releases.is_empty()
            && self.release_name.as_ref() == Some(&target.name)
            && self.release_namespace.as_ref() == Some(&target.namespace)
    }

    /// The releases that are left of former names, for a HelmRelease that asks for `target`
    /// now, by name. Only what it has tried is among them.
    #[must_use]
    pub fn formers(&self, target: &Target) -> Vec<FormerRelease> {
        let named = self
            .release_name
            .clone()
            .zip(self.release_namespace.clone());
        let last = named
            .filter(|_| self.has_tried())
            .map(|(name, namespace)| FormerRelease {
                name,
                namespace,
                revision: self.revision.clone(),
                last_attempted_revision: self.last_attempted_revision.clone(),
                operation: self.operation.clone(),
            });
        let mut formers: BTreeMap<Target, FormerRelease> = BTreeMap::new();
        for former in self.former_releases.iter().cloned().chain(last) {
            formers.insert(former.target(), former);
        }
        formers.remove(target);
        formers.into_values().collect()
    }

    /// The condition of this type, if there is one.
    #[must_use]
    pub fn condition(&self, type_: ConditionType) -> Option<&Condition> {
        self.conditions
            .iter()
            .flatten()
            .find(|condition| condition.type_ == type_.as_str())
    }
}

/// An operation on a release, recorded before its child starts.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// What is done.
    pub action: OperationAction,
    /// Revision of the release that the operation makes or works on.
    pub revision: i64,
    /// The process that started it.
    pub process: String,
    /// The Lease epoch under which it was started.
    #[serde(default)]
    pub epoch: i64,
    /// When it was started.
    pub started_at: Time,
    /// It was stopped for a newer desired state or a shutdown, which is no failure.
    #[serde(default, skip_serializing_if = "is_false")]
    pub interrupted: bool,
}

impl Operation {
    /// What it is to this process. One that another process began, and whose end nobody
    /// told, ended with that process: an interruption, and no fault of the chart.
    #[must_use]
    pub fn seen_by(mut self, process: &str) -> Self {
        self.interrupted |= self.process != process;
        self
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
pub enum OperationAction {
    /// First revision of a release.
    Install,
    /// Next revision of a release.
    Upgrade,
    /// Return to an earlier revision.
    Rollback,
    /// Run the chart's tests.
    Test,
    /// Remove the release.
    Uninstall,
    /// Remove a failed install that never was deployed.
    RemoveFailedInstall,
}

/// A run of the chart's tests.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastTest {
    /// Revision of the release that was tested.
    pub revision: i64,
    /// Whether all tests passed.
    pub succeeded: bool,
    /// When the tests ended.
    pub finished_at: Time,
}

/// One observation.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// One of ChartFetched, Deployed, Released, RolledBack, Tested, Ready, Reconciling,
    /// Stalled, FieldsIgnored, Suspended.
    #[serde(rename = "type")]
    pub type_: String,
    /// One of True, False, Unknown.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// The reason in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When anything of this condition changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When its status changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// The types of conditions that are written.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ConditionType {
    /// The chart could be had.
    ChartFetched,
    /// The last install or upgrade went through.
    Deployed,
    /// The release is as this HelmRelease asks.
    Released,
    /// The release was returned to an earlier revision.
    RolledBack,
    /// The chart's tests passed.
    Tested,
    /// All is well (kstatus).
    Ready,
    /// Work is going on (kstatus).
    Reconciling,
    /// Somebody has to change something (kstatus).
    Stalled,
    /// Something that the HelmRelease asks for has no effect.
    FieldsIgnored,
    /// Nothing is done for it, because an annotation says so.
    Suspended,
}

impl ConditionType {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::ChartFetched,
        Self::Deployed,
        Self::Released,
        Self::RolledBack,
        Self::Tested,
        Self::Ready,
        Self::Reconciling,
        Self::Stalled,
        Self::FieldsIgnored,
        Self::Suspended,
    ];

    /// The type as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ChartFetched => "ChartFetched",
            Self::Deployed => "Deployed",
            Self::Released => "Released",
            Self::RolledBack => "RolledBack",
            Self::Tested => "Tested",
            Self::Ready => "Ready",
            Self::Reconciling => "Reconciling",
            Self::Stalled => "Stalled",
            Self::FieldsIgnored => "FieldsIgnored",
            Self::Suspended => "Suspended",
        }
    }
}

/// What is being done, or was done last.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
pub enum Phase {
    /// The chart is there.
    ChartFetched,
    /// The chart can't be had.
    ChartFetchFailed,
    /// An install is running.
    Installing,
    /// An upgrade is running.
    Upgrading,
    /// The install or upgrade went through.
    Deployed,
    /// The install or upgrade failed.
    DeployFailed,
    /// The tests are running.
    Testing,
    /// The tests failed.
    TestFailed,
    /// The tests passed.
    Tested,
    /// The release is as asked.
    Succeeded,
    /// The release can't be made as asked.
    Failed,
    /// A rollback is running.
    RollingBack,
    /// The release was rolled back.
    RolledBack,
    /// The rollback failed.
    RollbackFailed,
}

impl Phase {
    /// The phase as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ChartFetched => "ChartFetched",
            Self::ChartFetchFailed => "ChartFetchFailed",
            Self::Installing => "Installing",
            Self::Upgrading => "Upgrading",
            Self::Deployed => "Deployed",
            Self::DeployFailed => "DeployFailed",
            Self::Testing => "Testing",
            Self::TestFailed => "TestFailed",
            Self::Tested => "Tested",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::RollingBack => "RollingBack",
            Self::RolledBack => "RolledBack",
            Self::RollbackFailed => "RollbackFailed",
        }
    }
}

/// A phase that another version wrote is read as none: status is ours to write again.
fn known_phase<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Phase>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| serde_json::from_value(serde_json::Value::String(text)).ok()))
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde calls"
)]
fn is_false(value: &bool) -> bool {
    !value
}
