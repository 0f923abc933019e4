//! A situation as data, put together in words.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::crd::{Operation, OperationAction, Target};
use crate::identity::{Identity, Inputs, Stamp};
use crate::reconcile::plan::{
    ActionKind, Blocked, Desired, Failure, Namespace, Observed, Owner, Present, Reason,
    RecordFacts, RollbackPolicy, TestPolicy, TestResult, Want,
};
use crate::storage::{History, RecordMeta, RecordState};

/// Reasons of gather, by way of example.
pub(crate) const WRONG: &str = "InvalidSpec";
pub(crate) const MISSING: &str = "RefNotFound";

/// What a record's label says.
#[derive(Clone, Copy)]
pub(crate) enum Label {
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
pub(crate) struct Row {
    /// The situation, in words.
    pub(crate) situation: &'static str,
    /// The same as data: what was seen,
    pub(crate) observed: Observed,
    /// and what is wanted.
    pub(crate) desired: Desired,
    pub(crate) action: ActionKind,
    pub(crate) reason: Reason,
}

/// A situation under construction: at first, nothing was ever released and something is
/// wanted.
pub(crate) struct Situation {
    text: &'static str,
    pub(crate) observed: Observed,
    pub(crate) desired: Desired,
}

/// The moment of every situation.
pub(crate) fn now() -> Timestamp {
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
pub(crate) fn wanted() -> Identity {
    identity("wanted")
}

pub(crate) fn record(revision: i64, state: RecordState, label: Label, touched: i64) -> RecordMeta {
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

pub(crate) fn when(text: &'static str) -> Situation {
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
            rollback: RollbackPolicy::default(),
            test: TestPolicy::default(),
        },
    }
}

impl Situation {
    /// Records that were last written an hour ago.
    pub(crate) fn records(self, records: &[(i64, RecordState, Label)]) -> Self {
        self.touched(60, records)
    }

    /// Records that were last written this many minutes ago.
    /// What bears a label of ours as it is now was tried by this HelmRelease, unless it is
    /// said to be new to it.
    pub(crate) fn touched(mut self, minutes: i64, records: &[(i64, RecordState, Label)]) -> Self {
        let ours = |label: &Label| !matches!(label, Label::OldScheme | Label::None);
        self.observed.tried |= records.last().is_some_and(|(_, _, label)| ours(label));
        let records = records.iter();
        self.observed.history = History::new(
            records
                .map(|(revision, state, label)| record(*revision, state.clone(), *label, minutes))
                .collect(),
        );
        self
    }

    pub(crate) fn deleting(mut self) -> Self {
        self.desired.want = Want::Absent { abandon: false };
        self
    }

    pub(crate) fn abandoned(mut self) -> Self {
        self.desired.want = Want::Absent { abandon: true };
        self
    }

    pub(crate) fn suspended(mut self) -> Self {
        self.desired.want = Want::Suspended;
        self
    }

    pub(crate) fn blocked(mut self, refuse: bool) -> Self {
        let (reason, message) = if refuse {
            (WRONG, "spec.helmVersion \"v2\" is not supported")
        } else {
            (MISSING, "there is no ref \"main\"")
        };
        self.desired.want = Want::Blocked(Blocked {
            reason,
            message: message.to_owned(),
            refuse,
        });
        self
    }

    pub(crate) fn child_alive(mut self) -> Self {
        self.observed.child_alive = true;
        self
    }

    pub(crate) fn operation(mut self, action: OperationAction, revision: i64) -> Self {
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

    pub(crate) fn interrupted(mut self) -> Self {
        if let Some(operation) = &mut self.observed.operation {
            operation.interrupted = true;
        }
        self
    }

    pub(crate) fn newer_epoch(mut self) -> Self {
        self.observed.epoch = 1;
        if let Some(operation) = &mut self.observed.operation {
            operation.epoch = 2;
        }
        self
    }

    pub(crate) fn rollback(mut self) -> Self {
        self.desired.rollback.enable = true;
        self
    }

    pub(crate) fn may_retry(mut self) -> Self {
        self.desired.rollback.may_retry = true;
        self
    }

    pub(crate) fn test(mut self) -> Self {
        self.desired.test.enable = true;
        self
    }

    pub(crate) fn ignoring_test_failures(mut self) -> Self {
        self.desired.test.ignore_failures = true;
        self
    }

    pub(crate) fn on_trial(mut self) -> Self {
        self.observed.on_trial = true;
        self
    }

    pub(crate) fn tested(mut self, revision: i64, succeeded: bool) -> Self {
        self.observed.last_test = Some(TestResult {
            revision,
            succeeded,
        });
        self
    }

    pub(crate) fn failed_before(mut self, action: OperationAction) -> Self {
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

    pub(crate) fn new_generation(mut self) -> Self {
        self.desired.generation = 2;
        self
    }

    pub(crate) fn same_content(mut self, revision: i64, same: bool) -> Self {
        self.observed.facts.same_content.insert(revision, same);
        self
    }

    pub(crate) fn preexisting(mut self, revision: i64, objects: &[&str]) -> Self {
        let objects = objects.iter().map(|object| (*object).to_owned()).collect();
        self.observed.facts.preexisting.insert(revision, objects);
        self
    }

    pub(crate) fn read(mut self, revision: i64, described_failed: bool, is_rollback: bool) -> Self {
        let facts = RecordFacts {
            described_failed,
            is_rollback,
        };
        self.observed.facts.records.insert(revision, facts);
        self
    }

    pub(crate) fn tried(mut self) -> Self {
        self.observed.tried = true;
        self
    }

    /// This HelmRelease never had the release.
    pub(crate) fn new_to_it(mut self) -> Self {
        self.observed.tried = false;
        self
    }

    /// No other HelmRelease has the objects of this revision.
    pub(crate) fn held_by_nobody(mut self, revision: i64) -> Self {
        self.observed.facts.holders.insert(revision, None);
        self
    }

    /// A HelmRelease that is followed elsewhere has them.
    pub(crate) fn held_elsewhere(mut self, revision: i64) -> Self {
        let holder = Some("other/older".to_owned());
        self.observed.facts.holders.insert(revision, holder);
        self
    }

    pub(crate) fn owned_by_other(mut self) -> Self {
        self.observed.owner = Owner::Other("demo/older".to_owned());
        self
    }

    pub(crate) fn namespace(mut self, namespace: Namespace) -> Self {
        self.observed.namespace = namespace;
        self
    }

    pub(crate) fn definition_deleting(mut self) -> Self {
        self.observed.definition_deleting = true;
        self
    }

    pub(crate) fn terminating(mut self) -> Self {
        self.observed.terminating = vec!["ConfigMap app".to_owned()];
        self
    }

    pub(crate) fn leads_to(self, action: ActionKind, reason: Reason) -> Row {
        Row {
            situation: self.text,
            observed: self.observed,
            desired: self.desired,
            action,
            reason,
        }
    }
}
