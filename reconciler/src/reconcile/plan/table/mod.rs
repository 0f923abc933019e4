//! The table of the plan, row by row: a situation, and the one action that it leads to.
//!
//! Rows are data: a test checks every one against [`plan`](super::plan).

mod gates;
mod recovery;
mod releases;
mod rollbacks;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{
    ActionKind, Blocked, Desired, Failure, Namespace, Observed, Owner, Present, Reason,
    RecordFacts, TestResult, Want,
};
use crate::crd::{Operation, OperationAction, Target};
use crate::identity::{Identity, Inputs, Stamp};
use crate::storage::{History, RecordMeta, RecordState};

/// What a record's label says.
#[derive(Clone, Copy)]
pub(super) enum Label {
    /// Ours, of what is wanted.
    Wanted,
    /// Ours, of something else.
    Other,
    /// Ours, of what is wanted, but written for this other revision.
    WantedOf(i64),
    /// Ours, of something else, and written for this other revision.
    OtherOf(i64),
    /// Of another scheme.
    OldScheme,
    /// None: somebody else's.
    None,
}

/// One row: a situation, and the action that it leads to.
#[derive(Clone)]
pub(super) struct Row {
    /// The situation, in words.
    pub(super) situation: &'static str,
    /// The same as data: what was seen,
    pub(super) observed: Observed,
    /// and what is wanted.
    pub(super) desired: Desired,
    pub(super) action: ActionKind,
    pub(super) reason: Reason,
}

/// A situation under construction: at first, nothing was ever released and something is
/// wanted.
pub(super) struct Situation {
    text: &'static str,
    pub(super) observed: Observed,
    pub(super) desired: Desired,
}

/// The moment of every situation.
pub(super) fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
        .saturating_add(SignedDuration::from_hours(24))
        .unwrap_or_default()
}

fn ago(minutes: i64) -> Timestamp {
    now()
        .saturating_sub(SignedDuration::from_mins(minutes))
        .unwrap_or_default()
}

fn identity(artifact: &str) -> Identity {
    let target = Target {
        namespace: "demo".to_owned(),
        name: "app".to_owned(),
    };
    Identity::of(&Inputs {
        artifact,
        values: "{}",
        reset_values: true,
        force_upgrade: false,
        disable_openapi_validation: false,
        target: &target,
    })
}

/// The identity that is wanted in every situation.
pub(super) fn wanted() -> Identity {
    identity("wanted")
}

pub(super) fn record(revision: i64, state: RecordState, label: Label, touched: i64) -> RecordMeta {
    let known = |identity, revision| Stamp::Known { identity, revision };
    RecordMeta {
        revision,
        state,
        stamp: match label {
            Label::Wanted => known(wanted(), revision),
            Label::Other => known(identity("other"), revision),
            Label::WantedOf(of) => known(wanted(), of),
            Label::OtherOf(of) => known(identity("other"), of),
            Label::OldScheme => Stamp::OtherScheme,
            Label::None => Stamp::Missing,
        },
        touched: ago(touched),
        created: ago(60 * 12),
        resource_version: revision.to_string(),
    }
}

pub(super) fn when(text: &'static str) -> Situation {
    let present = Present {
        identities: vec![wanted()],
    };
    Situation {
        text,
        observed: Observed {
            now: now(),
            ..Observed::default()
        },
        desired: Desired {
            want: Want::Present(present),
            generation: 1,
            timeout: Duration::from_secs(300),
            rollback: super::RollbackPolicy::default(),
            test: super::TestPolicy::default(),
        },
    }
}

impl Situation {
    /// Records that were last written an hour ago.
    pub(super) fn records(self, records: &[(i64, RecordState, Label)]) -> Self {
        self.touched(60, records)
    }

    /// Records that were last written this many minutes ago.
    pub(super) fn touched(mut self, minutes: i64, records: &[(i64, RecordState, Label)]) -> Self {
        let records = records.iter();
        self.observed.history = History::new(
            records
                .map(|(revision, state, label)| record(*revision, state.clone(), *label, minutes))
                .collect(),
        );
        self
    }

    pub(super) fn deleting(mut self) -> Self {
        self.desired.want = Want::Absent { abandon: false };
        self
    }

    pub(super) fn abandoned(mut self) -> Self {
        self.desired.want = Want::Absent { abandon: true };
        self
    }

    pub(super) fn blocked(mut self, refuse: bool) -> Self {
        let message = "the chart can't be had".to_owned();
        self.desired.want = Want::Blocked(Blocked {
            reason: "ChartUnavailable",
            message,
            refuse,
        });
        self
    }

    pub(super) fn child_alive(mut self) -> Self {
        self.observed.child_alive = true;
        self
    }

    pub(super) fn operation(mut self, action: OperationAction, revision: i64) -> Self {
        self.observed.operation = Some(Operation {
            action,
            revision,
            process: "reconciler-0".to_owned(),
            epoch: 0,
            started_at: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(ago(10)),
            interrupted: false,
        });
        self
    }

    pub(super) fn interrupted(mut self) -> Self {
        if let Some(operation) = &mut self.observed.operation {
            operation.interrupted = true;
        }
        self
    }

    pub(super) fn newer_epoch(mut self) -> Self {
        self.observed.epoch = 1;
        if let Some(operation) = &mut self.observed.operation {
            operation.epoch = 2;
        }
        self
    }

    pub(super) fn rollback(mut self) -> Self {
        self.desired.rollback.enable = true;
        self
    }

    pub(super) fn may_retry(mut self) -> Self {
        self.desired.rollback.may_retry = true;
        self
    }

    pub(super) fn test(mut self) -> Self {
        self.desired.test.enable = true;
        self
    }

    pub(super) fn ignoring_test_failures(mut self) -> Self {
        self.desired.test.ignore_failures = true;
        self
    }

    pub(super) fn on_trial(mut self) -> Self {
        self.observed.on_trial = true;
        self
    }

    pub(super) fn tested(mut self, revision: i64, succeeded: bool) -> Self {
        self.observed.last_test = Some(TestResult {
            revision,
            succeeded,
        });
        self
    }

    pub(super) fn failed_before(mut self, action: OperationAction) -> Self {
        self.observed.failures.failed(Failure {
            action,
            identity: match action {
                OperationAction::Uninstall | OperationAction::RemoveFailedInstall => None,
                _ => Some(wanted()),
            },
            generation: 1,
            attempts: 2,
            not_before: now()
                .saturating_add(SignedDuration::from_mins(1))
                .unwrap_or_default(),
        });
        self
    }

    pub(super) fn new_generation(mut self) -> Self {
        self.desired.generation = 2;
        self
    }

    pub(super) fn same_content(mut self, revision: i64, same: bool) -> Self {
        self.observed.facts.same_content.insert(revision, same);
        self
    }

    pub(super) fn preexisting(mut self, revision: i64, objects: &[&str]) -> Self {
        let objects = objects.iter().map(|object| (*object).to_owned()).collect();
        self.observed.facts.preexisting.insert(revision, objects);
        self
    }

    pub(super) fn read(mut self, revision: i64, described_failed: bool, is_rollback: bool) -> Self {
        let facts = RecordFacts {
            described_failed,
            is_rollback,
        };
        self.observed.facts.records.insert(revision, facts);
        self
    }

    pub(super) fn owned_by_other(mut self) -> Self {
        self.observed.owner = Owner::Other("demo/older".to_owned());
        self
    }

    pub(super) fn namespace(mut self, namespace: Namespace) -> Self {
        self.observed.namespace = namespace;
        self
    }

    pub(super) fn definition_deleting(mut self) -> Self {
        self.observed.definition_deleting = true;
        self
    }

    pub(super) fn terminating(mut self) -> Self {
        self.observed.terminating = vec!["ConfigMap app".to_owned()];
        self
    }

    pub(super) fn leads_to(self, action: ActionKind, reason: Reason) -> Row {
        Row {
            situation: self.text,
            observed: self.observed,
            desired: self.desired,
            action,
            reason,
        }
    }
}

/// All rows, in the order of the decision.
pub(super) fn table() -> Vec<Row> {
    [
        gates::gates(),
        gates::deleting(),
        releases::without_release(),
        recovery::dead_or_alive(),
        recovery::uninstalling(),
        releases::failed(),
        releases::deployed(),
        rollbacks::rolled_back(),
        rollbacks::tests(),
        gates::blocked(),
    ]
    .concat()
}
