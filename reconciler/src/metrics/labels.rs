//! By what metrics are told apart.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};

use crate::crd::Target;

/// What an action took, of which release.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ActionLabels {
    action: &'static str,
    success: &'static str,
    target_namespace: String,
    release_name: String,
}

impl ActionLabels {
    pub(super) fn new(action: &'static str, success: bool, target: &Target) -> Self {
        Self {
            action,
            success: word(success),
            target_namespace: target.namespace.clone(),
            release_name: target.name.clone(),
        }
    }
}

/// A whole synchronisation, of which release, as helm-operator labelled it first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SyncLabels {
    success: &'static str,
    namespace: String,
    release_name: String,
}

impl SyncLabels {
    pub(super) fn new(success: bool, target: &Target) -> Self {
        Self {
            success: word(success),
            namespace: target.namespace.clone(),
            release_name: target.name.clone(),
        }
    }
}

/// What an action took, of which release, as helm-operator labelled it first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PhaseLabels {
    action: &'static str,
    success: &'static str,
    namespace: String,
    release_name: String,
}

impl PhaseLabels {
    pub(super) fn new(action: &'static str, success: bool, target: &Target) -> Self {
        Self {
            action,
            success: word(success),
            namespace: target.namespace.clone(),
            release_name: target.name.clone(),
        }
    }
}

/// A condition of which release.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ConditionLabels {
    target_namespace: String,
    release_name: String,
    condition: String,
}

impl ConditionLabels {
    pub(super) fn new(target: &Target, condition: &str) -> Self {
        Self {
            target_namespace: target.namespace.clone(),
            release_name: target.name.clone(),
            condition: condition.to_owned(),
        }
    }
}

/// A step of one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "the names are the labels' values")]
pub enum Stage {
    /// Inputs are collected and values composed.
    gather,
    /// The chart is opened.
    extract,
    /// The next action is decided.
    plan,
    /// The action is carried out.
    release,
    /// Status, event and decision are written.
    report,
}

/// What woke us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "the names are the labels' values")]
pub enum Trigger {
    /// A HelmRelease changed.
    helmrelease,
    /// Helm's records changed.
    storage,
    /// A manifest changed what is served.
    manifest,
    /// A credential was read.
    credential,
    /// A ConfigMap or Secret changed that it names.
    reference,
    /// The slow look at everything.
    resync,
    /// The time for another try came.
    timer,
}

/// What is written to the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "the names are the labels' values")]
pub enum Written {
    /// A HelmRelease's status.
    status,
    /// A HelmRelease's finalizer.
    finalizer,
    /// An event.
    event,
    /// One of Helm's records.
    record,
    /// The annotation of a released object.
    annotation,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StageLabels {
    pub(super) stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TriggerLabels {
    pub(super) kind: Trigger,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WriteLabels {
    pub(super) kind: Written,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct VerbLabels {
    pub(super) verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WebhookLabels {
    pub(super) receiver: &'static str,
    pub(super) outcome: &'static str,
}

fn word(success: bool) -> &'static str {
    if success { "true" } else { "false" }
}
