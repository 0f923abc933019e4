//! What the records tell of what happened.

use super::{Need, Observed, Present};
use crate::crd::OperationAction;
use crate::identity::Comparison;
use crate::storage::{RecordMeta, RecordState};

/// The newest revision before the last that was good: one still marked deployed, else one
/// that was superseded without ever having been described as failed.
pub(super) fn good_revision(observed: &Observed, last: &RecordMeta) -> Result<Option<i64>, Need> {
    let earlier = || {
        let records = observed.history.records().iter().rev();
        records.filter(|record| record.revision < last.revision)
    };
    if let Some(deployed) = earlier().find(|record| record.state == RecordState::Deployed) {
        return Ok(Some(deployed.revision));
    }
    for record in earlier().filter(|record| record.state == RecordState::Superseded) {
        let facts = observed.facts.records.get(&record.revision);
        if !facts.ok_or(Need::Record(record.revision))?.described_failed {
            return Ok(Some(record.revision));
        }
    }
    Ok(None)
}

/// Whether the last record returned from a revision that is wanted and failed, whoever
/// made it and at whichever try.
pub(super) fn rolled_back(
    observed: &Observed,
    present: &Present,
    last: &RecordMeta,
) -> Result<bool, Need> {
    let wanted = &present.identities;
    let facts = |revision: i64| {
        observed
            .facts
            .records
            .get(&revision)
            .ok_or(Need::Record(revision))
    };
    if last.stamp.compare(last.revision, wanted) != Comparison::Unknown {
        return Ok(false);
    }
    let earlier = || observed.history.records().iter().rev().skip(1);
    let compare = |record: &RecordMeta| record.stamp.compare(record.revision, wanted);
    // The newest that tells what it holds; what lies between may be earlier tries to return.
    let left = earlier().find(|record| compare(record) != Comparison::Unknown);
    let Some(left) = left.filter(|left| compare(left) == Comparison::Same) else {
        return Ok(false);
    };
    if !returned_by_us(observed, last) && !facts(last.revision)?.is_rollback {
        return Ok(false);
    }
    for between in earlier().take_while(|record| record.revision > left.revision) {
        if !facts(between.revision)?.is_rollback {
            return Ok(false);
        }
    }
    let failed_test = observed
        .last_test
        .is_some_and(|test| test.revision == left.revision && !test.succeeded);
    // A failed rollback marks what it left superseded; its description stays.
    Ok(left.state == RecordState::Failed || failed_test || facts(left.revision)?.described_failed)
}

/// Whether the last record is a rollback that we made.
pub(super) fn returned_by_us(observed: &Observed, last: &RecordMeta) -> bool {
    observed.operation.as_ref().is_some_and(|operation| {
        operation.action == OperationAction::Rollback && operation.revision == last.revision
    })
}
