//! What is counted. Names of helm-operator's metrics are kept where they mean the same.

mod labels;

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::crd::{ConditionType, HelmReleaseStatus, Target};
use labels::{
    ActionLabels, ConditionLabels, PhaseLabels, StageLabels, SyncLabels, TriggerLabels, VerbLabels,
    WebhookLabels, WriteLabels,
};

pub use labels::{Stage, Trigger, Written};

/// helm-operator's buckets in seconds.
const UPSTREAM_BUCKETS: [f64; 10] = [
    1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 1800.0,
];
/// The same, and finer ones below.
const ACTION_BUCKETS: [f64; 14] = [
    0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 1800.0,
];
/// Stages besides helm itself take milliseconds.
const STAGE_BUCKETS: [f64; 11] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0, 300.0,
];

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
    git_ready: Gauge,
    conditions: Family<ConditionLabels, Gauge>,
    actions: Family<ActionLabels, Histogram, fn() -> Histogram>,
    phases: Family<PhaseLabels, Histogram, fn() -> Histogram>,
    syncs: Family<SyncLabels, Histogram, fn() -> Histogram>,
    stages: Family<StageLabels, Histogram, fn() -> Histogram>,
    triggers: Family<TriggerLabels, Counter>,
    writes: Family<WriteLabels, Counter>,
    children: Family<VerbLabels, Counter>,
    webhooks: Family<WebhookLabels, Counter>,
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
            git_ready: Gauge::default(),
            conditions: Family::default(),
            actions: Family::new_with_constructor(action_histogram),
            phases: Family::new_with_constructor(upstream_histogram),
            syncs: Family::new_with_constructor(upstream_histogram),
            stages: Family::new_with_constructor(|| Histogram::new(STAGE_BUCKETS)),
            triggers: Family::default(),
            writes: Family::default(),
            children: Family::default(),
            webhooks: Family::default(),
        };
        metrics.register();
        metrics
    }
}

fn action_histogram() -> Histogram {
    Histogram::new(ACTION_BUCKETS)
}

fn upstream_histogram() -> Histogram {
    Histogram::new(UPSTREAM_BUCKETS)
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
        // Deprecated by helm-operator; dashboards that were made before still ask for them.
        upstream.register(
            "release_phase_duration_seconds",
            "Time that an action took; release_action_duration_seconds tells more",
            self.phases.clone(),
        );
        upstream.register(
            "release_duration_seconds",
            "Time that one HelmRelease's synchronisation took; release_action_duration_seconds tells more",
            self.syncs.clone(),
        );
        self.registry.sub_registry_with_prefix("flux").register(
            "git_ready",
            "Whether every git source that is asked answered at its last check",
            self.git_ready.clone(),
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
            "webhooks",
            "Webhooks that were delivered, by who sends such and what became of them",
            self.webhooks.clone(),
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
        let took = took.as_secs_f64();
        let labels = ActionLabels::new(action, success, target);
        self.actions.get_or_create(&labels).observe(took);
        if action == SYNC {
            let labels = SyncLabels::new(success, target);
            self.syncs.get_or_create(&labels).observe(took);
        } else {
            let labels = PhaseLabels::new(action, success, target);
            self.phases.get_or_create(&labels).observe(took);
        }
    }

    /// How git sources are, all in one.
    pub fn git_ready(&self, ready: bool) {
        self.git_ready.set(ready.into());
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

    /// Released objects were annotated.
    pub fn annotated(&self, objects: u64) {
        if objects > 0 {
            let kind = Written::annotation;
            let writes = self.writes.get_or_create(&WriteLabels { kind });
            writes.inc_by(objects);
        }
    }

    /// A helm child is started.
    pub fn child(&self, verb: &'static str) {
        self.children.get_or_create(&VerbLabels { verb }).inc();
    }

    /// A webhook was answered.
    pub fn webhook(&self, receiver: &'static str, outcome: &'static str) {
        let labels = WebhookLabels { receiver, outcome };
        self.webhooks.get_or_create(&labels).inc();
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
                .get_or_create(&ConditionLabels::new(target, &condition.type_))
                .set(value);
        }
        for gone in ConditionType::ALL.map(ConditionType::as_str) {
            if !status
                .conditions
                .iter()
                .flatten()
                .any(|condition| condition.type_ == gone)
            {
                self.conditions.remove(&ConditionLabels::new(target, gone));
            }
        }
    }

    /// Forgets a release that nobody asks for any more.
    pub fn forget(&self, target: &Target) {
        for condition in ConditionType::ALL.map(ConditionType::as_str) {
            self.conditions
                .remove(&ConditionLabels::new(target, condition));
        }
        for success in [true, false] {
            for action in ACTIONS {
                self.actions
                    .remove(&ActionLabels::new(action, success, target));
                self.phases
                    .remove(&PhaseLabels::new(action, success, target));
            }
            self.syncs.remove(&SyncLabels::new(success, target));
        }
    }
}

/// The whole of one HelmRelease's synchronisation, as an action.
const SYNC: &str = "sync";

/// Names of actions, as helm-operator has them; `mark` is ours.
pub const ACTIONS: [&str; 7] = [
    SYNC,
    "install",
    "upgrade",
    "rollback",
    "uninstall",
    "test",
    "mark",
];

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
        metrics.action("install", false, &target, Duration::from_secs(7));
        metrics.stage(Stage::gather, Duration::from_millis(1));
        metrics.git_ready(true);
        metrics.child("install");
        metrics.wrote(Written::status);
        metrics.trigger(Trigger::manifest);
        metrics.webhook("github", "accepted");
        let text = metrics.text();
        for line in [
            "flux_helm_operator_release_count 0",
            "flux_git_ready 1",
            "flux_helm_operator_release_queue_length_count 0",
            r#"flux_helm_operator_release_action_duration_seconds_bucket{le="0.1",action="sync",success="true",target_namespace="demo",release_name="web"} 1"#,
            r#"flux_helm_operator_release_duration_seconds_bucket{le="1.0",success="true",namespace="demo",release_name="web"} 1"#,
            r#"flux_helm_operator_release_phase_duration_seconds_sum{action="install",success="false",namespace="demo",release_name="web"} 7.0"#,
            r#"tandem_stage_duration_seconds_count{stage="gather"} 1"#,
            r#"tandem_helm_children_total{verb="install"} 1"#,
            r#"tandem_api_writes_total{kind="status"} 1"#,
            r#"tandem_triggers_total{kind="manifest"} 1"#,
            r#"tandem_webhooks_total{receiver="github",outcome="accepted"} 1"#,
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
