//! Rollbacks and tests.

use super::{Label, Row, when};
use crate::crd::OperationAction;
use crate::reconcile::plan::ActionKind::{
    Nothing, PatchLabel, Rollback, Test, Uninstall, Upgrade, Wait,
};
use crate::reconcile::plan::Reason;
use crate::storage::RecordState::{Deployed, Failed, Superseded};

pub(super) fn rolled_back() -> Vec<Row> {
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
            .read(3, false, true)
            .leads_to(Nothing, Reason::RolledBack),
        when("rolled back to a revision without a label, no retry")
            .records(&[
                (1, Superseded, Label::None),
                (2, Failed, Label::Wanted),
                (3, Deployed, Label::None),
            ])
            .read(3, false, true)
            .rollback()
            .held_by_nobody(3)
            .leads_to(Nothing, Reason::RolledBack),
        when("rolled back, retries left")
            .records(&records)
            .read(3, false, true)
            .rollback()
            .may_retry()
            .leads_to(Upgrade, Reason::Retry),
        when("rolled back, retries left, the upgrade failed lately")
            .records(&records)
            .read(3, false, true)
            .failed_before(OperationAction::Upgrade)
            .rollback()
            .may_retry()
            .leads_to(Wait, Reason::Backoff),
        when("rolled back by us, something else is wanted by now")
            .records(&[
                (1, Superseded, Label::Other),
                (2, Failed, Label::Other),
                (3, Deployed, Label::OtherOf(1)),
            ])
            .operation(OperationAction::Rollback, 3)
            .same_content(3, false)
            .leads_to(Upgrade, Reason::Changed),
        when("rolled back by somebody else, something else is wanted by now")
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
            .read(2, true, false)
            .read(3, true, true)
            .rollback()
            .leads_to(Rollback, Reason::UpgradeFailed),
        when("the rollback failed twice")
            .records(&[
                (1, Deployed, Label::Other),
                (2, Superseded, Label::Wanted),
                (3, Failed, Label::OtherOf(1)),
                (4, Failed, Label::OtherOf(1)),
            ])
            .read(2, true, false)
            .read(3, true, true)
            .read(4, true, true)
            .rollback()
            .leads_to(Rollback, Reason::UpgradeFailed),
        when("rolled back at the second try, no retry")
            .records(&[
                (1, Superseded, Label::Other),
                (2, Superseded, Label::Wanted),
                (3, Superseded, Label::OtherOf(1)),
                (4, Deployed, Label::OtherOf(1)),
            ])
            .read(2, true, false)
            .read(3, true, true)
            .read(4, false, true)
            .rollback()
            .leads_to(Nothing, Reason::RolledBack),
        when("the rollback failed lately")
            .records(&[
                (1, Deployed, Label::Other),
                (2, Superseded, Label::Wanted),
                (3, Failed, Label::OtherOf(1)),
            ])
            .read(2, true, false)
            .read(3, true, true)
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
            .leads_to(Upgrade, Reason::Changed),
    ]
}

pub(super) fn tests() -> Vec<Row> {
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
        when("first revision that we made, the tests failed")
            .records(&first)
            .test()
            .on_trial()
            .tested(1, false)
            .leads_to(Uninstall, Reason::TestFailed),
        when("first revision, good before or taken over, the tests failed")
            .records(&first)
            .test()
            .tested(1, false)
            .rollback()
            .leads_to(Nothing, Reason::TestFailed),
        when("later revision, the tests failed")
            .records(&second)
            .test()
            .tested(2, false)
            .leads_to(Nothing, Reason::TestFailed),
        when("later revision, the tests failed, rollback enabled")
            .records(&second)
            .test()
            .tested(2, false)
            .read(1, false, false)
            .rollback()
            .leads_to(Rollback, Reason::TestFailed),
        when("later revision, the tests failed, rollback enabled, nothing good is left")
            .records(&second)
            .test()
            .tested(2, false)
            .read(1, true, false)
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
            .read(2, false, false)
            .read(3, false, true)
            .rollback()
            .leads_to(Nothing, Reason::RolledBack),
        when("something else is deployed, not tested")
            .records(&[(1, Deployed, Label::Other)])
            .test()
            .leads_to(Upgrade, Reason::Changed),
    ]
}
