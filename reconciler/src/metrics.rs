//! What is counted. Names of helm-operator's metrics are kept where they mean the same.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::crd::{HelmReleaseStatus, Target};

/// helm-operator's buckets in seconds, and finer ones below.
const ACTION_BUCKETS: [f64; 14] = [
    0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 1800.0,
];
/// Stages besides helm itself take milliseconds.
const STAGE_BUCKETS: [f64; 11] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0, 300.0,
];

/// What an action took, of which release.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ActionLabels {
    action: &'static str,
    success: &'static str,
    target_namespace: String,
    release_name: String,
}

/// A condition of which release.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ConditionLabels {
    target_namespace: String,
    release_name: String,
    condition: String,
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
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TriggerLabels {
    kind: Trigger,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    kind: Written,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: &'static str,
}

/// All metrics of this process.
pub struct Metrics {
    registry: Registry,
    /// HelmReleases that are looked after.
    pub releases: Gauge,
    /// HelmReleases that wait for their turn.
    pub queue: Gauge,
    /// Manifests read from the volume.
    pub manifests: Counter,
    /// Requests written to the volume.
    pub requests: Counter,
    /// From a chart's publication to the start of the helm child that releases it, seconds.
    pub publish_to_helm: Histogram,
    conditions: Family<ConditionLabels, Gauge>,
    actions: Family<ActionLabels, Histogram, fn() -> Histogram>,
    stages: Family<StageLabels, Histogram, fn() -> Histogram>,
    triggers: Family<TriggerLabels, Counter>,
    writes: Family<WriteLabels, Counter>,
    children: Family<VerbLabels, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            releases: Gauge::default(),
            queue: Gauge::default(),
            manifests: Counter::default(),
            requests: Counter::default(),
            publish_to_helm: action_histogram(),
            conditions: Family::default(),
            actions: Family::new_with_constructor(action_histogram),
            stages: Family::new_with_constructor(|| Histogram::new(STAGE_BUCKETS)),
            triggers: Family::default(),
            writes: Family::default(),
            children: Family::default(),
        };
        metrics.register();
        metrics
    }
}

fn action_histogram() -> Histogram {
    Histogram::new(ACTION_BUCKETS)
}

impl Metrics {
    fn register(&mut self) {
        let upstream = self.registry.sub_registry_with_prefix("flux_helm_operator");
        upstream.register(
            "release_count",
            "HelmReleases that are looked after",
            self.releases.clone(),
        );
        upstream.register(
            "release_queue_length_count",
            "HelmReleases that wait for their turn",
            self.queue.clone(),
        );
        upstream.register(
            "release_condition_info",
            "Conditions of releases: 1 true, 0 unknown, -1 false",
            self.conditions.clone(),
        );
        upstream.register(
            "release_action_duration_seconds",
            "Time that an action took; `sync` is the whole of one HelmRelease's synchronisation",
            self.actions.clone(),
        );
        let ours = self.registry.sub_registry_with_prefix("tandem");
        ours.register(
            "stage_duration_seconds",
            "Time that a stage of one pass took",
            self.stages.clone(),
        );
        ours.register(
            "helm_children",
            "Helm programs started, by what they do",
            self.children.clone(),
        );
        ours.register(
            "api_writes",
            "Writes to the Kubernetes API, by what is written",
            self.writes.clone(),
        );
        ours.register(
            "manifests_read",
            "Manifests read from the volume",
            self.manifests.clone(),
        );
        ours.register(
            "requests_written",
            "Requests written to the volume",
            self.requests.clone(),
        );
        ours.register(
            "triggers",
            "What woke the reconciler, one for each HelmRelease that it touched",
            self.triggers.clone(),
        );
        ours.register(
            "publish_to_helm_seconds",
            "From a chart's publication on the volume to the start of the helm program that releases it",
            self.publish_to_helm.clone(),
        );
    }

    /// The metrics in OpenMetrics' text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }

    /// An action of helm-operator's list, or `sync`, ended.
    pub fn action(&self, action: &'static str, success: bool, target: &Target, took: Duration) {
        let labels = action_labels(action, success, target);
        self.actions
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    /// A stage ended.
    pub fn stage(&self, stage: Stage, took: Duration) {
        self.stages
            .get_or_create(&StageLabels { stage })
            .observe(took.as_secs_f64());
    }

    /// A HelmRelease is to be looked at because of this.
    pub fn trigger(&self, kind: Trigger) {
        self.triggers.get_or_create(&TriggerLabels { kind }).inc();
    }

    /// Something was written to the API.
    pub fn wrote(&self, kind: Written) {
        self.writes.get_or_create(&WriteLabels { kind }).inc();
    }

    /// A helm child is started.
    pub fn child(&self, verb: &'static str) {
        self.children.get_or_create(&VerbLabels { verb }).inc();
    }

    /// Tells a release's conditions.
    pub fn conditions(&self, target: &Target, status: &HelmReleaseStatus) {
        for condition in status.conditions.iter().flatten() {
            let value = match condition.status.as_str() {
                "True" => 1,
                "False" => -1,
                _ => 0,
            };
            self.conditions
                .get_or_create(&condition_labels(target, &condition.type_))
                .set(value);
        }
        for gone in CONDITIONS {
            if !status
                .conditions
                .iter()
                .flatten()
                .any(|condition| condition.type_ == gone)
            {
                self.conditions.remove(&condition_labels(target, gone));
            }
        }
    }

    /// Forgets a release that nobody asks for any more.
    pub fn forget(&self, target: &Target) {
        for condition in CONDITIONS {
            self.conditions.remove(&condition_labels(target, condition));
        }
        for action in ACTIONS {
            for success in [true, false] {
                self.actions.remove(&action_labels(action, success, target));
            }
        }
    }
}

/// Names of actions, as helm-operator has them; `mark` is ours.
pub const ACTIONS: [&str; 7] = [
    "sync",
    "install",
    "upgrade",
    "rollback",
    "uninstall",
    "test",
    "mark",
];

const CONDITIONS: [&str; 8] = [
    "ChartFetched",
    "Deployed",
    "Released",
    "RolledBack",
    "Tested",
    "Ready",
    "Reconciling",
    "Stalled",
];

fn action_labels(action: &'static str, success: bool, target: &Target) -> ActionLabels {
    ActionLabels {
        action,
        success: if success { "true" } else { "false" },
        target_namespace: target.namespace.clone(),
        release_name: target.name.clone(),
    }
}

fn condition_labels(target: &Target, condition: &str) -> ConditionLabels {
    ConditionLabels {
        target_namespace: target.namespace.clone(),
        release_name: target.name.clone(),
        condition: condition.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_dashboards_know() {
        let metrics = Metrics::default();
        let target = Target {
            namespace: "demo".into(),
            name: "web".into(),
        };
        metrics.action("sync", true, &target, Duration::from_millis(70));
        metrics.stage(Stage::gather, Duration::from_millis(1));
        metrics.child("install");
        metrics.wrote(Written::status);
        metrics.trigger(Trigger::manifest);
        let text = metrics.text();
        for line in [
            "flux_helm_operator_release_count 0",
            "flux_helm_operator_release_queue_length_count 0",
            r#"flux_helm_operator_release_action_duration_seconds_bucket{le="0.1",action="sync",success="true",target_namespace="demo",release_name="web"} 1"#,
            r#"tandem_stage_duration_seconds_count{stage="gather"} 1"#,
            r#"tandem_helm_children_total{verb="install"} 1"#,
            r#"tandem_api_writes_total{kind="status"} 1"#,
            r#"tandem_triggers_total{kind="manifest"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        metrics.forget(&target);
        assert!(
            !metrics.text().contains("release_name"),
            "{}",
            metrics.text()
        );
    }
}
