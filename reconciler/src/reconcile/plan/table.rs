//! The table of the plan, row by row: a situation, and the one action that it leads to.
//!
//! Rows are data, so that a test can check every one against [`plan`](super::plan), and a
//! document can be made of them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{
    ActionKind, Blocked, Desired, Failure, Observed, Owner, Present, Reason, RecordFacts, Row,
    TestResult, Want,
};
use crate::crd::{Operation, OperationAction, Target};
use crate::identity::{Identity, Inputs, Stamp};
use crate::storage::{History, RecordMeta, RecordState};

use ActionKind::{
    Install, MarkDeployed, MarkFailed, Nothing, PatchLabel, Refuse, RemoveFinalizer, Rollback,
    Test, Uninstall, Upgrade, Wait,
};
use RecordState::{
    Deployed, Failed, PendingInstall, PendingRollback, PendingUpgrade, Superseded, Uninstalled,
    Uninstalling, Unknown,
};

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
        secret: format!("sh.helm.release.v1.app.v{revision}"),
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
    fn touched(mut self, minutes: i64, records: &[(i64, RecordState, Label)]) -> Self {
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

    fn abandoned(mut self) -> Self {
        self.desired.want = Want::Absent { abandon: true };
        self
    }

    fn blocked(mut self, refuse: bool) -> Self {
        let message = "the chart can't be had".to_owned();
        self.desired.want = Want::Blocked(Blocked {
            reason: "ChartUnavailable",
            message,
            refuse,
        });
        self
    }

    fn child_alive(mut self) -> Self {
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

    fn interrupted(mut self) -> Self {
        if let Some(operation) = &mut self.observed.operation {
            operation.interrupted = true;
        }
        self
    }

    fn newer_epoch(mut self) -> Self {
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

    fn may_retry(mut self) -> Self {
        self.desired.rollback.may_retry = true;
        self
    }

    pub(super) fn test(mut self) -> Self {
        self.desired.test.enable = true;
        self
    }

    fn ignoring_test_failures(mut self) -> Self {
        self.desired.test.ignore_failures = true;
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

    fn new_generation(mut self) -> Self {
        self.desired.generation = 2;
        self
    }

    pub(super) fn same_content(mut self, revision: i64, same: bool) -> Self {
        self.observed.facts.same_content.insert(revision, same);
        self
    }

    fn preexisting(mut self, revision: i64, objects: &[&str]) -> Self {
        let objects = objects.iter().map(|object| (*object).to_owned()).collect();
        self.observed.facts.preexisting.insert(revision, objects);
        self
    }

    fn read(mut self, revision: i64, described_failed: bool, rollback_to: Option<i64>) -> Self {
        let facts = RecordFacts {
            described_failed,
            rollback_to,
        };
        self.observed.facts.records.insert(revision, facts);
        self
    }

    fn owned_by_other(mut self) -> Self {
        self.observed.owner = Owner::Other("demo/older".to_owned());
        self
    }

    fn namespace_terminating(mut self) -> Self {
        self.observed.namespace_terminating = true;
        self
    }

    fn definition_deleting(mut self) -> Self {
        self.observed.definition_deleting = true;
        self
    }

    fn terminating(mut self) -> Self {
        self.observed.terminating = vec!["ConfigMap app".to_owned()];
        self
    }

    fn leads_to(self, action: ActionKind, reason: Reason) -> Row {
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
#[must_use]
pub fn table() -> Vec<Row> {
    let mut rows = gates();
    rows.extend(deleting());
    rows.extend(without_release());
    rows.extend(dead_or_alive());
    rows.extend(uninstalling());
    rows.extend(failed());
    rows.extend(deployed());
    rows.extend(rolled_back());
    rows.extend(tests());
    rows.extend(blocked());
    rows
}

fn gates() -> Vec<Row> {
    let deployed = [(1, Deployed, Label::Wanted)];
    vec![
        when("the definition of HelmRelease is being deleted")
            .records(&deployed)
            .deleting()
            .definition_deleting()
            .leads_to(RemoveFinalizer, Reason::DefinitionDeleted),
        when("the definition of HelmRelease is being deleted, this HelmRelease not yet")
            .records(&deployed)
            .definition_deleting()
            .leads_to(RemoveFinalizer, Reason::DefinitionDeleted),
        when("deleting, annotated to abandon the release")
            .records(&deployed)
            .abandoned()
            .leads_to(RemoveFinalizer, Reason::Abandoned),
        when("another HelmRelease owns the release")
            .records(&deployed)
            .owned_by_other()
            .leads_to(Refuse, Reason::OwnedByOther),
        when("deleting, and another HelmRelease owns the release")
            .records(&deployed)
            .owned_by_other()
            .deleting()
            .leads_to(RemoveFinalizer, Reason::OwnedByOther),
        when("a child of ours lives")
            .records(&[(1, Deployed, Label::Other)])
            .child_alive()
            .leads_to(Wait, Reason::OperationRunning),
        when("deleting, and a child of ours lives")
            .records(&[(1, PendingInstall, Label::Wanted)])
            .operation(OperationAction::Install, 1)
            .child_alive()
            .deleting()
            .leads_to(Wait, Reason::OperationRunning),
    ]
}

fn deleting() -> Vec<Row> {
    vec![
        when("deleting, no record")
            .deleting()
            .leads_to(RemoveFinalizer, Reason::Deleted),
        when("deleting, uninstalled, history kept")
            .records(&[(1, Uninstalled, Label::Wanted)])
            .deleting()
            .leads_to(RemoveFinalizer, Reason::Deleted),
        when("deleting, deployed")
            .records(&[(1, Deployed, Label::Wanted)])
            .deleting()
            .leads_to(Uninstall, Reason::Deleted),
        when("deleting, deployed by somebody else")
            .records(&[(1, Deployed, Label::None)])
            .deleting()
            .leads_to(Uninstall, Reason::Deleted),
        when("deleting, failed")
            .records(&[(1, Superseded, Label::Other), (2, Failed, Label::Wanted)])
            .deleting()
            .leads_to(Uninstall, Reason::Deleted),
        when("deleting, superseded")
            .records(&[(1, Superseded, Label::Wanted)])
            .deleting()
            .leads_to(Uninstall, Reason::Deleted),
        when("deleting, our uninstall died")
            .touched(0, &[(1, Uninstalling, Label::Wanted)])
            .operation(OperationAction::Uninstall, 1)
            .deleting()
            .leads_to(Uninstall, Reason::Deleted),
        when("deleting, somebody else may be uninstalling")
            .touched(5, &[(1, Uninstalling, Label::Wanted)])
            .deleting()
            .leads_to(Wait, Reason::ForeignOperation),
        when("deleting, our upgrade died")
            .touched(
                0,
                &[
                    (1, Deployed, Label::Other),
                    (2, PendingUpgrade, Label::Wanted),
                ],
            )
            .operation(OperationAction::Upgrade, 2)
            .deleting()
            .leads_to(Uninstall, Reason::Deleted),
        when("deleting, somebody else may be upgrading")
            .touched(
                5,
                &[
                    (1, Deployed, Label::Other),
                    (2, PendingUpgrade, Label::OtherOf(1)),
                ],
            )
            .deleting()
            .leads_to(Wait, Reason::ForeignOperation),
        when("deleting, somebody else's upgrade is stale")
            .touched(
                16,
                &[
                    (1, Deployed, Label::Other),
                    (2, PendingUpgrade, Label::OtherOf(1)),
                ],
            )
            .deleting()
            .leads_to(Uninstall, Reason::Deleted),
        when("deleting, the uninstall failed lately")
            .records(&[(1, Deployed, Label::Wanted)])
            .failed_before(OperationAction::Uninstall)
            .deleting()
            .leads_to(Wait, Reason::Backoff),
        when("deleting, the upgrade failed lately")
            .records(&[(1, Deployed, Label::Other), (2, Failed, Label::Wanted)])
            .failed_before(OperationAction::Upgrade)
            .deleting()
            .leads_to(Uninstall, Reason::Deleted),
        when("deleting, a state of another helm")
            .records(&[(1, RecordState::Other("frozen".to_owned()), Label::None)])
            .deleting()
            .leads_to(Uninstall, Reason::Deleted),
    ]
}

fn without_release() -> Vec<Row> {
    vec![
        when("no record").leads_to(Install, Reason::NotInstalled),
        when("no record, the namespace terminates")
            .namespace_terminating()
            .leads_to(Wait, Reason::NamespaceTerminating),
        when("no record, objects of an earlier release terminate")
            .terminating()
            .leads_to(Wait, Reason::ObjectsTerminating),
        when("no record, the install failed lately")
            .failed_before(OperationAction::Install)
            .leads_to(Wait, Reason::Backoff),
        when("no record, the install failed lately, the HelmRelease was edited since")
            .failed_before(OperationAction::Install)
            .new_generation()
            .leads_to(Install, Reason::NotInstalled),
        when("uninstalled, history kept")
            .records(&[
                (1, Superseded, Label::Other),
                (2, Uninstalled, Label::Other),
            ])
            .leads_to(Install, Reason::NotInstalled),
    ]
}

fn dead_or_alive() -> Vec<Row> {
    let upgrading = [
        (1, Deployed, Label::Other),
        (2, PendingUpgrade, Label::Wanted),
    ];
    let done = [
        (1, Superseded, Label::Other),
        (2, PendingUpgrade, Label::Wanted),
    ];
    let returning = [
        (1, Deployed, Label::Other),
        (2, Failed, Label::Wanted),
        (3, PendingRollback, Label::OtherOf(1)),
    ];
    vec![
        when("our install died")
            .touched(0, &[(1, PendingInstall, Label::Wanted)])
            .operation(OperationAction::Install, 1)
            .leads_to(MarkFailed, Reason::OperationDied),
        when("our upgrade died")
            .touched(0, &upgrading)
            .operation(OperationAction::Upgrade, 2)
            .leads_to(MarkFailed, Reason::OperationDied),
        when("our upgrade died after its last change")
            .touched(0, &done)
            .operation(OperationAction::Upgrade, 2)
            .leads_to(MarkDeployed, Reason::OperationFinished),
        when("our rollback died")
            .touched(0, &returning)
            .operation(OperationAction::Rollback, 3)
            .leads_to(MarkFailed, Reason::OperationDied),
        when("our rollback died after its last change")
            .touched(
                0,
                &[
                    (2, Superseded, Label::Wanted),
                    (3, PendingRollback, Label::OtherOf(1)),
                ],
            )
            .operation(OperationAction::Rollback, 3)
            .leads_to(MarkDeployed, Reason::OperationFinished),
        when("our install over a kept history died")
            .touched(
                0,
                &[
                    (1, Superseded, Label::Other),
                    (2, PendingInstall, Label::Wanted),
                ],
            )
            .operation(OperationAction::Install, 2)
            .leads_to(MarkFailed, Reason::OperationDied),
        when("somebody else may be installing")
            .touched(14, &[(1, PendingInstall, Label::None)])
            .leads_to(Wait, Reason::ForeignOperation),
        when("somebody else's install is stale")
            .touched(15, &[(1, PendingInstall, Label::None)])
            .leads_to(MarkFailed, Reason::OperationDied),
        when("somebody else may be upgrading")
            .touched(
                14,
                &[
                    (1, Deployed, Label::Wanted),
                    (2, PendingUpgrade, Label::WantedOf(1)),
                ],
            )
            .leads_to(Wait, Reason::ForeignOperation),
        when("somebody else's upgrade is stale")
            .touched(
                15,
                &[
                    (1, Deployed, Label::Wanted),
                    (2, PendingUpgrade, Label::WantedOf(1)),
                ],
            )
            .leads_to(MarkFailed, Reason::OperationDied),
        when("somebody else's upgrade is stale, and was done")
            .touched(
                15,
                &[
                    (1, Superseded, Label::None),
                    (2, PendingUpgrade, Label::None),
                ],
            )
            .leads_to(MarkDeployed, Reason::OperationFinished),
        when("somebody else may be rolling back")
            .touched(14, &returning)
            .leads_to(Wait, Reason::ForeignOperation),
        when("a pending upgrade, but our operation was another revision's")
            .touched(1, &upgrading)
            .operation(OperationAction::Upgrade, 1)
            .leads_to(Wait, Reason::ForeignOperation),
        when("a pending upgrade, but our operation was of another kind")
            .touched(1, &upgrading)
            .operation(OperationAction::Rollback, 2)
            .leads_to(Wait, Reason::ForeignOperation),
        when("a pending upgrade of a process that holds a newer Lease")
            .touched(1, &upgrading)
            .operation(OperationAction::Upgrade, 2)
            .newer_epoch()
            .leads_to(Wait, Reason::ForeignOperation),
        when("an older pending record below a deployed one")
            .records(&[
                (1, PendingUpgrade, Label::Other),
                (2, Deployed, Label::Wanted),
            ])
            .leads_to(Nothing, Reason::InSync),
        when("Helm's own unknown state, lately")
            .touched(1, &[(1, Unknown, Label::None)])
            .leads_to(Wait, Reason::ForeignOperation),
        when("Helm's own unknown state, long ago")
            .records(&[(1, Unknown, Label::None)])
            .leads_to(MarkFailed, Reason::OperationDied),
        when("a state of another helm")
            .records(&[(1, RecordState::Other("frozen".to_owned()), Label::None)])
            .leads_to(Refuse, Reason::UnknownState),
    ]
}

fn uninstalling() -> Vec<Row> {
    vec![
        when("somebody else may be uninstalling")
            .touched(
                5,
                &[
                    (1, Superseded, Label::Other),
                    (2, Uninstalling, Label::Wanted),
                ],
            )
            .leads_to(Wait, Reason::ForeignOperation),
        when("our uninstall died, the HelmRelease is there again")
            .touched(
                0,
                &[
                    (1, Superseded, Label::Other),
                    (2, Uninstalling, Label::Wanted),
                ],
            )
            .operation(OperationAction::Uninstall, 2)
            .read(1, false, None)
            .leads_to(Rollback, Reason::UninstallUnfinished),
        when("our uninstall of a first revision died, the HelmRelease is there again")
            .touched(0, &[(1, Uninstalling, Label::Wanted)])
            .operation(OperationAction::Uninstall, 1)
            .leads_to(Rollback, Reason::UninstallUnfinished),
        when("somebody else's uninstall is stale")
            .records(&[(1, Uninstalling, Label::None)])
            .leads_to(Rollback, Reason::UninstallUnfinished),
        when("our removal of a failed install died")
            .touched(0, &[(1, Uninstalling, Label::Wanted)])
            .operation(OperationAction::RemoveFailedInstall, 1)
            .leads_to(Uninstall, Reason::UninstallUnfinished),
        when("our removal of a failed install failed lately")
            .touched(0, &[(1, Uninstalling, Label::Wanted)])
            .operation(OperationAction::RemoveFailedInstall, 1)
            .failed_before(OperationAction::RemoveFailedInstall)
            .leads_to(Wait, Reason::Backoff),
    ]
}

fn failed() -> Vec<Row> {
    let first = [(1, Failed, Label::Wanted)];
    let upgrade = [(1, Deployed, Label::Other), (2, Failed, Label::Wanted)];
    vec![
        when("our first install failed")
            .records(&first)
            .preexisting(1, &[])
            .failed_before(OperationAction::Install)
            .leads_to(Uninstall, Reason::InstallFailed),
        when("our first install failed, and something else is wanted by now")
            .records(&[(1, Failed, Label::Other)])
            .preexisting(1, &[])
            .leads_to(Uninstall, Reason::InstallFailed),
        when("our first install failed, and its removal lately, too")
            .records(&first)
            .preexisting(1, &[])
            .failed_before(OperationAction::RemoveFailedInstall)
            .leads_to(Wait, Reason::Backoff),
        when("our first install failed over an object that was there before")
            .records(&first)
            .preexisting(1, &["ConfigMap app"])
            .leads_to(Upgrade, Reason::Retry),
        when("our first install failed over an object that was there before, lately")
            .records(&first)
            .preexisting(1, &["ConfigMap app"])
            .failed_before(OperationAction::Install)
            .leads_to(Wait, Reason::Backoff),
        when("somebody else's first install failed")
            .records(&[(1, Failed, Label::None)])
            .leads_to(Upgrade, Reason::Adopting),
        when("a failed release with a pruned history")
            .records(&[(4, Failed, Label::Wanted)])
            .leads_to(Upgrade, Reason::Retry),
        when("the upgrade failed")
            .records(&upgrade)
            .leads_to(Upgrade, Reason::Retry),
        when("the upgrade failed lately")
            .records(&upgrade)
            .failed_before(OperationAction::Upgrade)
            .leads_to(Wait, Reason::Backoff),
        when("the upgrade failed lately, the HelmRelease was edited since")
            .records(&upgrade)
            .failed_before(OperationAction::Upgrade)
            .new_generation()
            .leads_to(Upgrade, Reason::Retry),
        when("the upgrade failed, something else is wanted by now")
            .records(&[(1, Deployed, Label::Other), (2, Failed, Label::Other)])
            .leads_to(Upgrade, Reason::Changed),
        when("the upgrade was interrupted")
            .records(&upgrade)
            .operation(OperationAction::Upgrade, 2)
            .interrupted()
            .rollback()
            .leads_to(Upgrade, Reason::Interrupted),
        when("somebody else's upgrade failed")
            .records(&[
                (1, Deployed, Label::Wanted),
                (2, Failed, Label::WantedOf(1)),
            ])
            .read(2, true, None)
            .leads_to(Upgrade, Reason::Adopting),
        when("the upgrade failed, rollback enabled")
            .records(&upgrade)
            .failed_before(OperationAction::Upgrade)
            .rollback()
            .leads_to(Rollback, Reason::UpgradeFailed),
        when("the upgrade failed, rollback enabled, the last good revision is superseded")
            .records(&[
                (1, Superseded, Label::Other),
                (2, Superseded, Label::Other),
                (3, Failed, Label::Wanted),
            ])
            .read(2, true, None)
            .read(1, false, None)
            .rollback()
            .leads_to(Rollback, Reason::UpgradeFailed),
        when("the upgrade failed, rollback enabled, nothing good is left")
            .records(&[(2, Superseded, Label::Other), (3, Failed, Label::Wanted)])
            .read(2, true, None)
            .rollback()
            .leads_to(Upgrade, Reason::Retry),
        when("the upgrade failed, rollback enabled, and failed lately before it began")
            .records(&upgrade)
            .failed_before(OperationAction::Rollback)
            .rollback()
            .leads_to(Wait, Reason::Backoff),
        when("the last record is superseded")
            .records(&[(1, Superseded, Label::Wanted)])
            .leads_to(Upgrade, Reason::ChangedByOthers),
        when("the upgrade failed, the namespace terminates")
            .records(&upgrade)
            .namespace_terminating()
            .leads_to(Wait, Reason::NamespaceTerminating),
    ]
}

fn deployed() -> Vec<Row> {
    vec![
        when("deployed as wanted")
            .records(&[(1, Deployed, Label::Wanted)])
            .leads_to(Nothing, Reason::InSync),
        when("deployed as wanted, an earlier revision is deployed, too")
            .records(&[(1, Deployed, Label::Other), (2, Deployed, Label::Wanted)])
            .leads_to(Nothing, Reason::InSync),
        when("something else is deployed")
            .records(&[(1, Deployed, Label::Other)])
            .leads_to(Upgrade, Reason::Changed),
        when("something else is deployed, the upgrade failed lately before any record")
            .records(&[(1, Deployed, Label::Other)])
            .failed_before(OperationAction::Upgrade)
            .leads_to(Wait, Reason::Backoff),
        when("deployed by somebody else, with the same content")
            .records(&[(1, Deployed, Label::None)])
            .same_content(1, true)
            .leads_to(PatchLabel, Reason::Adopted),
        when("deployed by somebody else, with other content")
            .records(&[(1, Deployed, Label::None)])
            .same_content(1, false)
            .leads_to(Upgrade, Reason::Adopting),
        when("deployed under another scheme, with the same content")
            .records(&[(1, Deployed, Label::OldScheme)])
            .same_content(1, true)
            .leads_to(PatchLabel, Reason::Adopted),
        when("deployed under another scheme, with other content")
            .records(&[(1, Deployed, Label::OldScheme)])
            .same_content(1, false)
            .leads_to(Upgrade, Reason::Adopting),
        when("upgraded by somebody else, with other content")
            .records(&[
                (1, Superseded, Label::Wanted),
                (2, Deployed, Label::WantedOf(1)),
            ])
            .read(1, false, None)
            .read(2, false, None)
            .same_content(2, false)
            .leads_to(Upgrade, Reason::ChangedByOthers),
        when("upgraded by somebody else, with the same content")
            .records(&[
                (1, Superseded, Label::Wanted),
                (2, Deployed, Label::WantedOf(1)),
            ])
            .read(1, false, None)
            .read(2, false, None)
            .same_content(2, true)
            .leads_to(PatchLabel, Reason::Adopted),
        when("rolled back by somebody else, though what was wanted was good")
            .records(&[
                (1, Superseded, Label::Other),
                (2, Superseded, Label::Wanted),
                (3, Deployed, Label::OtherOf(1)),
            ])
            .read(2, false, None)
            .read(3, false, Some(1))
            .same_content(3, false)
            .leads_to(Upgrade, Reason::ChangedByOthers),
    ]
}

fn rolled_back() -> Vec<Row> {
    let records = [
        (1, Superseded, Label::Other),
        (2, Failed, Label::Wanted),
        (3, Deployed, Label::OtherOf(1)),
    ];
    vec![
        when("rolled back by us, no retry")
            .records(&records)
            .operation(OperationAction::Rollback, 3)
            .rollback()
            .leads_to(Nothing, Reason::RolledBack),
        when("rolled back by somebody else after a failure, no retry")
            .records(&records)
            .read(3, false, Some(1))
            .leads_to(Nothing, Reason::RolledBack),
        when("rolled back to a revision without a label, no retry")
            .records(&[
                (1, Superseded, Label::None),
                (2, Failed, Label::Wanted),
                (3, Deployed, Label::None),
            ])
            .read(3, false, Some(1))
            .rollback()
            .leads_to(Nothing, Reason::RolledBack),
        when("rolled back, retries left")
            .records(&records)
            .read(3, false, Some(1))
            .rollback()
            .may_retry()
            .leads_to(Upgrade, Reason::Retry),
        when("rolled back, retries left, the upgrade failed lately")
            .records(&records)
            .read(3, false, Some(1))
            .failed_before(OperationAction::Upgrade)
            .rollback()
            .may_retry()
            .leads_to(Wait, Reason::Backoff),
        when("rolled back, something else is wanted by now")
            .records(&[
                (1, Superseded, Label::Other),
                (2, Failed, Label::Other),
                (3, Deployed, Label::OtherOf(1)),
            ])
            .same_content(3, false)
            .leads_to(Upgrade, Reason::ChangedByOthers),
        when("rolled back, what it returned to is wanted by now")
            .records(&[
                (1, Superseded, Label::Wanted),
                (2, Failed, Label::Other),
                (3, Deployed, Label::WantedOf(1)),
            ])
            .same_content(3, true)
            .leads_to(PatchLabel, Reason::Adopted),
        when("the rollback failed")
            .records(&[
                (1, Deployed, Label::Other),
                (2, Superseded, Label::Wanted),
                (3, Failed, Label::OtherOf(1)),
            ])
            .read(2, true, None)
            .read(3, true, Some(1))
            .rollback()
            .leads_to(Rollback, Reason::UpgradeFailed),
        when("the rollback failed lately")
            .records(&[
                (1, Deployed, Label::Other),
                (2, Superseded, Label::Wanted),
                (3, Failed, Label::OtherOf(1)),
            ])
            .read(2, true, None)
            .read(3, true, Some(1))
            .failed_before(OperationAction::Rollback)
            .rollback()
            .leads_to(Wait, Reason::Backoff),
        when("the rollback failed, something else is wanted by now")
            .records(&[
                (1, Deployed, Label::Other),
                (2, Superseded, Label::Other),
                (3, Failed, Label::OtherOf(1)),
            ])
            .rollback()
            .leads_to(Upgrade, Reason::Adopting),
    ]
}

fn tests() -> Vec<Row> {
    let first = [(1, Deployed, Label::Wanted)];
    let second = [(1, Superseded, Label::Other), (2, Deployed, Label::Wanted)];
    vec![
        when("deployed, not tested")
            .records(&first)
            .test()
            .leads_to(Test, Reason::NotTested),
        when("deployed, an earlier revision was tested")
            .records(&second)
            .test()
            .tested(1, true)
            .leads_to(Test, Reason::NotTested),
        when("deployed, the tests could not be run lately")
            .records(&first)
            .test()
            .failed_before(OperationAction::Test)
            .leads_to(Wait, Reason::Backoff),
        when("deployed, tested")
            .records(&first)
            .test()
            .tested(1, true)
            .leads_to(Nothing, Reason::InSync),
        when("deployed, the tests failed, which is ignored")
            .records(&first)
            .test()
            .tested(1, false)
            .ignoring_test_failures()
            .leads_to(Nothing, Reason::InSync),
        when("deployed, the tests failed, tests are no longer enabled")
            .records(&first)
            .tested(1, false)
            .leads_to(Nothing, Reason::InSync),
        when("first revision, the tests failed")
            .records(&first)
            .test()
            .tested(1, false)
            .leads_to(Uninstall, Reason::TestFailed),
        when("later revision, the tests failed")
            .records(&second)
            .test()
            .tested(2, false)
            .leads_to(Nothing, Reason::TestFailed),
        when("later revision, the tests failed, rollback enabled")
            .records(&second)
            .test()
            .tested(2, false)
            .read(1, false, None)
            .rollback()
            .leads_to(Rollback, Reason::TestFailed),
        when("later revision, the tests failed, rollback enabled, nothing good is left")
            .records(&second)
            .test()
            .tested(2, false)
            .read(1, true, None)
            .rollback()
            .leads_to(Nothing, Reason::TestFailed),
        when("rolled back after failed tests, no retry")
            .records(&[
                (1, Superseded, Label::Other),
                (2, Superseded, Label::Wanted),
                (3, Deployed, Label::OtherOf(1)),
            ])
            .test()
            .tested(2, false)
            .read(2, false, None)
            .read(3, false, Some(1))
            .rollback()
            .leads_to(Nothing, Reason::RolledBack),
        when("something else is deployed, not tested")
            .records(&[(1, Deployed, Label::Other)])
            .test()
            .leads_to(Upgrade, Reason::Changed),
    ]
}

fn blocked() -> Vec<Row> {
    let reason = Reason::Blocked("ChartUnavailable");
    vec![
        when("the chart can't be had, no record")
            .blocked(false)
            .leads_to(Wait, reason),
        when("the HelmRelease is wrong, no record")
            .blocked(true)
            .leads_to(Refuse, reason),
        when("the chart can't be had, deployed")
            .records(&[(1, Deployed, Label::Wanted)])
            .blocked(false)
            .leads_to(Wait, reason),
        when("the chart can't be had, our first install failed")
            .records(&[(1, Failed, Label::Wanted)])
            .blocked(false)
            .leads_to(Wait, reason),
        when("the chart can't be had, our upgrade died")
            .touched(
                0,
                &[
                    (1, Deployed, Label::Other),
                    (2, PendingUpgrade, Label::Wanted),
                ],
            )
            .operation(OperationAction::Upgrade, 2)
            .blocked(false)
            .leads_to(MarkFailed, Reason::OperationDied),
        when("the chart can't be had, somebody else's uninstall is stale")
            .records(&[(1, Uninstalling, Label::None)])
            .blocked(false)
            .leads_to(Rollback, Reason::UninstallUnfinished),
    ]
}
