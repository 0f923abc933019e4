//! What decides before any record does, and what a release that isn't wanted comes to.

use super::{Label, MISSING, Row, WRONG, when};
use crate::crd::OperationAction;
use crate::reconcile::plan::ActionKind::{
    MarkFailed, Nothing, Refuse, RemoveFinalizer, Rollback, Uninstall, Upgrade, Wait,
};
use crate::reconcile::plan::Reason;
use crate::storage::RecordState;
use crate::storage::RecordState::{
    Deployed, Failed, PendingInstall, PendingUpgrade, Superseded, Uninstalled, Uninstalling,
};

pub(super) fn gates() -> Vec<Row> {
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
        when("suspended, deployed")
            .records(&[(1, Deployed, Label::Other)])
            .suspended()
            .leads_to(Nothing, Reason::Suspended),
        when("suspended, somebody's upgrade died")
            .touched(
                60,
                &[
                    (1, Deployed, Label::Other),
                    (2, PendingUpgrade, Label::OtherOf(1)),
                ],
            )
            .suspended()
            .leads_to(Nothing, Reason::Suspended),
        when("suspended, no record")
            .suspended()
            .leads_to(Nothing, Reason::Suspended),
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

pub(super) fn deleting() -> Vec<Row> {
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
        when("deleting, deployed by somebody else, never touched")
            .records(&[(1, Deployed, Label::None)])
            .deleting()
            .leads_to(RemoveFinalizer, Reason::NeverReleased),
        when("deleting, deployed by somebody else in the place of ours")
            .records(&[(1, Deployed, Label::None)])
            .tried()
            .deleting()
            .held_by_nobody(1)
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
            .tried()
            .deleting()
            .held_by_nobody(1)
            .leads_to(Uninstall, Reason::Deleted),
    ]
}

pub(super) fn held() -> Vec<Row> {
    let strangers = [(1, Deployed, Label::None)];
    let just_so = [(1, Deployed, Label::Wanted)];
    let pending = [(1, Deployed, Label::None), (2, PendingUpgrade, Label::None)];
    vec![
        when("deployed for another HelmRelease, by a reconciler that writes no label")
            .records(&strangers)
            .held_elsewhere(1)
            .leads_to(Refuse, Reason::OwnedByOther),
        when("deployed for another HelmRelease, just as wanted")
            .records(&just_so)
            .new_to_it()
            .held_elsewhere(1)
            .leads_to(Refuse, Reason::OwnedByOther),
        when("deployed for a HelmRelease that is gone, just as wanted")
            .records(&just_so)
            .new_to_it()
            .held_by_nobody(1)
            .leads_to(Nothing, Reason::InSync),
        when("deployed for a HelmRelease that is gone, of something else")
            .records(&[(1, Deployed, Label::Other)])
            .new_to_it()
            .held_by_nobody(1)
            .leads_to(Upgrade, Reason::Changed),
        when("another HelmRelease's upgrade failed")
            .records(&[(1, Deployed, Label::None), (2, Failed, Label::None)])
            .held_elsewhere(2)
            .leads_to(Refuse, Reason::OwnedByOther),
        when("another HelmRelease's upgrade is stale")
            .records(&pending)
            .held_elsewhere(2)
            .leads_to(Refuse, Reason::OwnedByOther),
        when("another HelmRelease's upgrade is stale, and the chart can't be had")
            .records(&pending)
            .held_elsewhere(2)
            .blocked(false)
            .leads_to(Refuse, Reason::OwnedByOther),
        when("deployed for another HelmRelease, in the place of ours")
            .records(&strangers)
            .tried()
            .held_elsewhere(1)
            .leads_to(Refuse, Reason::OwnedByOther),
        when("deployed for another HelmRelease, in the place of ours, and deleting")
            .records(&strangers)
            .tried()
            .held_elsewhere(1)
            .deleting()
            .leads_to(RemoveFinalizer, Reason::OwnedByOther),
        when("deployed for another HelmRelease, never touched, and deleting")
            .records(&just_so)
            .new_to_it()
            .held_elsewhere(1)
            .deleting()
            .leads_to(RemoveFinalizer, Reason::OwnedByOther),
        when("bears our label, but that it was tried isn't known any more, and deleting")
            .records(&just_so)
            .new_to_it()
            .held_by_nobody(1)
            .deleting()
            .leads_to(Uninstall, Reason::Deleted),
    ]
}

pub(super) fn blocked() -> Vec<Row> {
    let missing = Reason::Blocked(MISSING);
    vec![
        when("the chart can't be had, no record")
            .blocked(false)
            .leads_to(Wait, missing),
        when("the HelmRelease is wrong, no record")
            .blocked(true)
            .leads_to(Refuse, Reason::Blocked(WRONG)),
        when("the chart can't be had, deployed")
            .records(&[(1, Deployed, Label::Wanted)])
            .blocked(false)
            .leads_to(Wait, missing),
        when("the chart can't be had, our first install failed")
            .records(&[(1, Failed, Label::Wanted)])
            .blocked(false)
            .leads_to(Wait, missing),
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
            .held_by_nobody(1)
            .leads_to(Rollback, Reason::UninstallUnfinished),
    ]
}
