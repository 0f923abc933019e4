//! One action with everything that it needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tandem_shared::lock::Guard;
use tokio::sync::OwnedSemaphorePermit;

use super::ReleaseError;
use crate::crd::{HelmReleaseSpec, Target};
use crate::identity::Identity;
use crate::mask::Mask;
use crate::reconcile::plan::Action;
use crate::releases::Key;
use crate::storage::{History, RecordMeta};

/// One action with everything that it needs.
#[derive(Debug)]
pub struct Job {
    /// What to do.
    pub action: Action,
    /// The release.
    pub target: Target,
    /// The records that the plan was made on.
    pub history: History,
    /// How to do it.
    pub spec: Arc<HelmReleaseSpec>,
    /// The chart, for an install or upgrade.
    pub chart: Option<Chart>,
    /// The composed values as helm gets them, for an install or upgrade.
    pub values: Option<Arc<str>>,
    /// What the release is made from, for an install, an upgrade or a label.
    pub identity: Option<Identity>,
    /// Whom the release is made for; its objects are annotated with it.
    pub owner: Key,
    /// The revision whose objects are known to be annotated, if one is.
    pub annotated: Option<i64>,
    /// Others wait to be released: what can be done later is left for later.
    pub others_wait: bool,
    /// The secrets among the values.
    pub mask: Mask,
    /// The release lock; the child inherits it. It is held for as long as the job lives.
    pub lock: Option<Arc<Guard>>,
    /// The place among the helm children; it is free again as soon as the child has ended.
    pub place: Option<OwnedSemaphorePermit>,
}

/// A chart, extracted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Chart {
    /// Directory that holds its `Chart.yaml`; absolute, and nobody else's.
    pub directory: PathBuf,
    /// The commit or version that it is of, for Helm's history.
    pub revision: String,
}

impl Job {
    pub(super) fn record(&self, revision: i64) -> Result<&RecordMeta, ReleaseError> {
        let mut records = self.history.records().iter();
        records
            .find(|record| record.revision == revision)
            .ok_or_else(|| self.incomplete("its record was not seen"))
    }

    pub(super) fn identity(&self) -> Result<&Identity, ReleaseError> {
        self.identity
            .as_ref()
            .ok_or_else(|| self.incomplete("its identity is not known"))
    }

    pub(super) fn chart_directory(&self) -> Result<&Path, ReleaseError> {
        let chart = self
            .chart
            .as_ref()
            .ok_or_else(|| self.incomplete("its chart is missing"))?;
        Ok(&chart.directory)
    }

    /// The values; an action that needs none gets an empty standard input.
    pub(super) fn stdin(&self) -> &str {
        match self.action {
            Action::Install { .. } | Action::Upgrade { .. } => {
                self.values.as_deref().unwrap_or("{}")
            }
            _ => "",
        }
    }

    /// What Helm's history says of a revision that succeeded.
    pub(super) fn description(&self, what: &str) -> String {
        match &self.chart {
            Some(chart) => format!("{what}: {}", chart.revision),
            None => what.to_owned(),
        }
    }

    pub(super) fn incomplete(&self, what: &'static str) -> ReleaseError {
        ReleaseError::Incomplete {
            action: self.action.kind().as_str(),
            target: self.target.to_string(),
            what,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;
    use crate::identity::Inputs;

    /// A job with a spec of these fields beside its chart.
    pub(in crate::reconcile::release) fn job(action: Action, spec: Value) -> Job {
        let target = Target {
            namespace: "demo".into(),
            name: "app".into(),
        };
        let identity = Identity::of(&Inputs {
            artifact: "t1:00",
            values: "{}",
            reset_values: true,
            force_upgrade: false,
            disable_openapi_validation: false,
            target: &target,
        });
        let mut whole = json!({"chart": {"git": "g", "path": "p"}});
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        Job {
            action,
            target,
            history: History::default(),
            spec: Arc::new(serde_json::from_value(whole).unwrap()),
            chart: Some(Chart {
                directory: "/private/chart".into(),
                revision: "0123abc".into(),
            }),
            values: Some(r#"{"password":"hunter2"}"#.into()),
            identity: Some(identity),
            owner: Key {
                namespace: "demo".into(),
                name: "app".into(),
            },
            annotated: None,
            others_wait: false,
            mask: Mask::default(),
            lock: None,
            place: None,
        }
    }
}
