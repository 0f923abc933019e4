//! A release that is wanted, by the state of its last record.

use super::{Label, Row, when};
use crate::crd::OperationAction;
use crate::reconcile::plan::ActionKind::{
    Install, Nothing, PatchLabel, Refuse, Rollback, Uninstall, Upgrade, Wait,
};
use crate::reconcile::plan::{Namespace, Reason};
use crate::storage::RecordState::{Deployed, Failed, Superseded, Uninstalled};

pub(super) fn without_release() -> Vec<Row> {
    vec![
        when("no record").leads_to(Install, Reason::NotInstalled),
        when("no record, there is no namespace")
            .namespace(Namespace::Missing)
            .leads_to(Refuse, Reason::NamespaceMissing),
        when("no record, the namespace terminates")
            .namespace(Namespace::Terminating)
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

pub(super) fn failed() -> Vec<Row> {
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
            .held_by_nobody(1)
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
        when("the upgrade was interrupted twice, by the end of our process")
            .records(&[
                (1, Deployed, Label::Other),
                (2, Failed, Label::Wanted),
                (3, Failed, Label::Wanted),
            ])
            .operation(OperationAction::Upgrade, 3)
            .interrupted()
            .rollback()
            .leads_to(Upgrade, Reason::Interrupted),
        when("the upgrade failed after one that was interrupted")
            .records(&[
                (1, Deployed, Label::Other),
                (2, Failed, Label::Wanted),
                (3, Failed, Label::Wanted),
            ])
            .failed_before(OperationAction::Upgrade)
            .rollback()
            .leads_to(Rollback, Reason::UpgradeFailed),
        when("somebody else's upgrade failed")
            .records(&[
                (1, Deployed, Label::Wanted),
                (2, Failed, Label::WantedOf(1)),
            ])
            .read(2, true, false)
            .leads_to(Upgrade, Reason::Changed),
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
            .read(2, true, false)
            .read(1, false, false)
            .rollback()
            .leads_to(Rollback, Reason::UpgradeFailed),
        when("the upgrade failed, rollback enabled, nothing good is left")
            .records(&[(2, Superseded, Label::Other), (3, Failed, Label::Wanted)])
            .read(2, true, false)
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
            .namespace(Namespace::Terminating)
            .leads_to(Wait, Reason::NamespaceTerminating),
    ]
}

pub(super) fn deployed() -> Vec<Row> {
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
            .held_by_nobody(1)
            .leads_to(PatchLabel, Reason::Adopted),
        when("deployed by somebody else, with other content")
            .records(&[(1, Deployed, Label::None)])
            .same_content(1, false)
            .held_by_nobody(1)
            .leads_to(Upgrade, Reason::Adopting),
        when("deployed under another scheme, with the same content")
            .records(&[(1, Deployed, Label::OldScheme)])
            .same_content(1, true)
            .held_by_nobody(1)
            .leads_to(PatchLabel, Reason::Adopted),
        when("deployed under another scheme, with other content")
            .records(&[(1, Deployed, Label::OldScheme)])
            .same_content(1, false)
            .held_by_nobody(1)
            .leads_to(Upgrade, Reason::Adopting),
        when("upgraded by somebody else, with other content")
            .records(&[
                (1, Superseded, Label::Wanted),
                (2, Deployed, Label::WantedOf(1)),
            ])
            .read(1, false, false)
            .read(2, false, false)
            .same_content(2, false)
            .leads_to(Upgrade, Reason::ChangedByOthers),
        when("upgraded by somebody else, with the same content")
            .records(&[
                (1, Superseded, Label::Wanted),
                (2, Deployed, Label::WantedOf(1)),
            ])
            .read(1, false, false)
            .read(2, false, false)
            .same_content(2, true)
            .leads_to(PatchLabel, Reason::Adopted),
        when("rolled back by somebody else, though what was wanted was good")
            .records(&[
                (1, Superseded, Label::Other),
                (2, Superseded, Label::Wanted),
                (3, Deployed, Label::OtherOf(1)),
            ])
            .read(2, false, false)
            .read(3, false, true)
            .same_content(3, false)
            .leads_to(Upgrade, Reason::ChangedByOthers),
    ]
}
