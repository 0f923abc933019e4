#![allow(clippy::unwrap_used, clippy::panic)]

use super::table::{Label, Situation, now, table, wanted, when};
use super::{
    Action, ActionKind, Facts, Failures, Need, Reason, RecordFacts, needs, plan, table_page,
};
use crate::crd::OperationAction;
use crate::storage::RecordState;

#[test]
fn every_row_leads_to_its_action() {
    let mut wrong = Vec::new();
    for row in table() {
        let decision = plan(&row.observed, &row.desired);
        if (decision.action.kind(), decision.reason) != (row.action, row.reason) {
            wrong.push(format!(
                "{}: {:?} {:?}, not {:?} {:?} ({})",
                row.situation,
                row.action,
                row.reason,
                decision.action,
                decision.reason,
                decision.message
            ));
        }
        if let Some(need) = needs(&row.observed, &row.desired) {
            wrong.push(format!("{}: needs {need}", row.situation));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_two_rows_are_the_same_situation() {
    let rows = table();
    let distinct: std::collections::BTreeSet<_> = rows.iter().map(|row| row.situation).collect();
    assert_eq!(distinct.len(), rows.len());
}

#[test]
fn every_row_stands_on_the_page() {
    let page = table_page();
    for row in table() {
        let line = page
            .lines()
            .find(|line| line.starts_with(&format!("| {} |", row.situation)))
            .unwrap_or_else(|| panic!("{}", row.situation));
        let cells: Vec<_> = line.split(" | ").collect();
        assert_eq!(cells.len(), 6, "{line}");
        assert!(cells[3].starts_with(row.action.as_str()), "{line}");
        assert_eq!(cells[4], row.reason.as_str());
    }
    for line in page.lines().filter(|line| line.starts_with("- [")) {
        let title = line.trim_start_matches("- [").split(']').next().unwrap();
        assert!(page.contains(&format!("\n## {title}\n")), "{line}");
    }
}

#[test]
fn every_action_has_a_row() {
    let rows = table();
    for kind in [
        ActionKind::Nothing,
        ActionKind::Wait,
        ActionKind::Refuse,
        ActionKind::Install,
        ActionKind::Upgrade,
        ActionKind::Rollback,
        ActionKind::Test,
        ActionKind::MarkFailed,
        ActionKind::MarkDeployed,
        ActionKind::PatchLabel,
        ActionKind::Uninstall,
        ActionKind::RemoveFinalizer,
    ] {
        assert!(rows.iter().any(|row| row.action == kind), "{kind:?}");
    }
}

/// Everything that costs a read is asked for, one thing after the other, and then decided.
#[test]
fn what_a_row_needs_is_asked_for() {
    for row in table() {
        let mut observed = row.observed.clone();
        observed.facts = Facts::default();
        let mut asked = 0;
        while let Some(need) = needs(&observed, &row.desired) {
            assert_eq!(
                plan(&observed, &row.desired).action,
                Action::Wait,
                "{}",
                row.situation
            );
            let known = &row.observed.facts;
            match need {
                Need::Record(revision) => {
                    let facts = known.records.get(&revision).copied();
                    observed.facts.records.insert(revision, facts.unwrap());
                }
                Need::Content(revision) => {
                    let same = known.same_content.get(&revision).copied();
                    observed.facts.same_content.insert(revision, same.unwrap());
                }
                Need::Preexisting(revision) => {
                    let objects = known.preexisting.get(&revision).cloned();
                    observed
                        .facts
                        .preexisting
                        .insert(revision, objects.unwrap());
                }
                Need::Holder(revision) => {
                    let holder = known.holders.get(&revision).cloned();
                    observed.facts.holders.insert(revision, holder.unwrap());
                }
            }
            asked += 1;
            assert!(asked < 10, "{}: never satisfied", row.situation);
        }
        let decision = plan(&observed, &row.desired);
        assert_eq!(decision.action.kind(), row.action, "{}", row.situation);
    }
}

fn action(situation: &Situation) -> Action {
    plan(&situation.observed, &situation.desired).action
}

#[test]
fn revisions_are_named() {
    use RecordState::{Deployed, Failed, Superseded, Uninstalled};
    let none = when("none");
    assert_eq!(
        action(&none),
        Action::Install {
            revision: 1,
            replace: false
        }
    );
    let kept = when("kept").records(&[(7, Uninstalled, Label::Other)]);
    assert_eq!(
        action(&kept),
        Action::Install {
            revision: 8,
            replace: true
        }
    );
    let gaps = when("gaps").records(&[(3, Superseded, Label::Other), (9, Deployed, Label::Other)]);
    assert_eq!(action(&gaps), Action::Upgrade { revision: 10 });
    let back = when("back")
        .records(&[
            (3, Deployed, Label::Other),
            (5, Failed, Label::Other),
            (9, Failed, Label::Wanted),
        ])
        .rollback();
    assert_eq!(
        action(&back),
        Action::Rollback {
            to: 3,
            revision: 10
        }
    );
}

#[test]
fn a_wait_for_time_says_until_when() {
    for row in table() {
        let decision = plan(&row.observed, &row.desired);
        let waits = decision.action == Action::Wait
            && !matches!(decision.reason, super::Reason::Blocked(_));
        // Somebody has to make the namespace, and nobody tells us when.
        let looks = decision.reason == super::Reason::NamespaceMissing;
        assert_eq!(
            decision.until.is_some(),
            waits || looks,
            "{}",
            row.situation
        );
        assert!(
            decision.until.is_none_or(|until| until > now()),
            "{}",
            row.situation
        );
        assert!(!decision.message.is_empty());
    }
}

#[test]
fn failures_count_per_kind_and_want() {
    let wanted = wanted();
    let mut situation = when("x").failed_before(OperationAction::Upgrade);
    let failures = &mut situation.observed.failures;
    assert_eq!(
        failures.attempts(OperationAction::Install, Some(&wanted), 1),
        2
    );
    assert_eq!(
        failures.attempts(OperationAction::Install, Some(&wanted), 2),
        0
    );
    assert_eq!(failures.attempts(OperationAction::Install, None, 1), 0);
    assert_eq!(
        failures.attempts(OperationAction::Rollback, Some(&wanted), 1),
        0
    );
    failures.succeeded(OperationAction::Rollback);
    assert_eq!(
        failures.attempts(OperationAction::Upgrade, Some(&wanted), 1),
        2
    );
    failures.succeeded(OperationAction::Upgrade);
    assert_eq!(*failures, Failures::default());
}

/// Every state, label, predecessor and circumstance: what must never happen, never does.
#[test]
fn what_must_never_happen_never_does() {
    use RecordState::{
        Deployed, Failed, PendingInstall, PendingRollback, PendingUpgrade, Superseded, Uninstalled,
        Uninstalling, Unknown,
    };
    let states = [
        PendingInstall,
        PendingUpgrade,
        PendingRollback,
        Deployed,
        Failed,
        Uninstalling,
        Uninstalled,
        Superseded,
        Unknown,
    ];
    let labels = [
        Label::Wanted,
        Label::Other,
        Label::OtherOf(1),
        Label::WantedOf(1),
        Label::OldScheme,
        Label::None,
    ];
    let mut seen = 0;
    for state in &states {
        for label in labels {
            for before in [None, Some(Superseded), Some(Deployed), Some(Failed)] {
                for switches in 0..256_u32 {
                    check(state, label, before.as_ref(), switches);
                    seen += 1;
                }
            }
        }
    }
    assert_eq!(seen, 9 * 6 * 4 * 256);
}

fn check(state: &RecordState, label: Label, before: Option<&RecordState>, switches: u32) {
    let switch = |bit: u32| switches & (1 << bit) != 0;
    let mut records = Vec::new();
    if let Some(before) = before {
        records.push((1, before.clone(), Label::Other));
    }
    let revision = i64::from(before.is_some()) + 1;
    records.push((revision, state.clone(), label));
    let mut situation = when("swept").records(&records);
    for known in 1..=revision {
        situation = situation.same_content(known, switch(0));
        let facts = RecordFacts {
            described_failed: switch(1),
            is_rollback: false,
        };
        situation.observed.facts.records.insert(known, facts);
        situation
            .observed
            .facts
            .preexisting
            .insert(known, Vec::new());
    }
    situation = if switch(6) {
        situation.held_elsewhere(revision)
    } else {
        situation.held_by_nobody(revision)
    };
    if switch(2) {
        situation = situation.test().tested(revision, switch(1));
    }
    if switch(3) {
        situation = situation.rollback();
    }
    if switch(4) {
        situation = situation.deleting();
    }
    situation.observed.child_alive = switch(5);
    situation.observed.tried |= switch(7);

    let decision = plan(&situation.observed, &situation.desired);
    let context = format!("{state:?} after {before:?}, {switches:08b}: {decision:?}");
    let history = &situation.observed.history;
    match decision.action {
        Action::Uninstall { failed_install, .. } => {
            let failed_first_test = revision == 1 && switch(2) && !switch(1);
            let allowed = switch(4) || failed_first_test || !history.ever_deployed();
            assert!(allowed, "uninstalls what was deployed: {context}");
            assert_eq!(failed_install, !switch(4), "{context}");
        }
        Action::Install { .. } => assert_eq!(*state, RecordState::Uninstalled, "{context}"),
        Action::Upgrade { .. } => {
            assert!(
                matches!(
                    state,
                    RecordState::Deployed | RecordState::Failed | RecordState::Superseded
                ),
                "{context}"
            );
        }
        Action::Rollback { to, .. } => {
            let target = history
                .records()
                .iter()
                .find(|record| record.revision == to);
            let good = target.is_some_and(|target| target.state != RecordState::Failed);
            assert!(good, "rolls back to nothing good: {context}");
        }
        Action::MarkFailed { .. } | Action::MarkDeployed { .. } => {
            assert!(
                state.is_pending() || *state == RecordState::Unknown,
                "{context}"
            );
        }
        _ => {}
    }
    let changed_by_others = matches!(label, Label::OldScheme | Label::None);
    if switch(6) && changed_by_others && *state != RecordState::Uninstalled {
        let harmless = matches!(
            decision.action,
            Action::Refuse | Action::RemoveFinalizer | Action::Wait
        );
        assert!(harmless, "touches what another HelmRelease has: {context}");
    }
    if switch(5) {
        assert_eq!(
            decision.action,
            Action::Wait,
            "acts beside a living child: {context}"
        );
    }
}

#[test]
fn only_what_is_tried_again_is_nothing_else() {
    let rows = table();
    for row in &rows {
        let decision = plan(&row.observed, &row.desired);
        if decision.action.kind() == ActionKind::Upgrade {
            let again = matches!(decision.reason, Reason::Retry | Reason::Interrupted);
            assert_ne!(
                decision.reason.is_of_something_else(),
                again,
                "{}",
                row.situation
            );
        }
    }
}
