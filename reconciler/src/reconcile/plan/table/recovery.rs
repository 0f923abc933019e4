//! Operations that may be running, or died.

use super::{Label, Row, when};
use crate::crd::OperationAction;
use crate::reconcile::plan::ActionKind::{
    MarkDeployed, MarkFailed, Nothing, Refuse, Rollback, Uninstall, Wait,
};
use crate::reconcile::plan::Reason;
use crate::storage::RecordState;
use crate::storage::RecordState::{
    Deployed, Failed, PendingInstall, PendingRollback, PendingUpgrade, Superseded, Uninstalling,
    Unknown,
};

pub(super) fn dead_or_alive() -> Vec<Row> {
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
            .held_by_nobody(1)
            .leads_to(Wait, Reason::ForeignOperation),
        when("somebody else's install is stale")
            .touched(15, &[(1, PendingInstall, Label::None)])
            .held_by_nobody(1)
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
            .held_by_nobody(2)
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
            .held_by_nobody(1)
            .leads_to(Wait, Reason::ForeignOperation),
        when("Helm's own unknown state, long ago")
            .records(&[(1, Unknown, Label::None)])
            .held_by_nobody(1)
            .leads_to(MarkFailed, Reason::OperationDied),
        when("a state of another helm")
            .records(&[(1, RecordState::Other("frozen".to_owned()), Label::None)])
            .held_by_nobody(1)
            .leads_to(Refuse, Reason::UnknownState),
    ]
}

pub(super) fn uninstalling() -> Vec<Row> {
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
            .read(1, false, false)
            .leads_to(Rollback, Reason::UninstallUnfinished),
        when("our uninstall of a first revision died, the HelmRelease is there again")
            .touched(0, &[(1, Uninstalling, Label::Wanted)])
            .operation(OperationAction::Uninstall, 1)
            .leads_to(Rollback, Reason::UninstallUnfinished),
        when("somebody else's uninstall is stale")
            .records(&[(1, Uninstalling, Label::None)])
            .held_by_nobody(1)
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
