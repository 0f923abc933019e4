//! Removes objects that only failed revisions named.
//!
//! Helm compares a new revision with the last one that succeeded. What a failed one made in
//! between, and the new one doesn't name, is nobody's: it outlives even an uninstall.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::ReleaseError;
use crate::crd::Target;
use crate::reconcile::objects::{ObjectRef, Objects, objects_of};
use crate::reconcile::plan::Action;
use crate::storage::{History, RecordMeta, RecordState, Store, StoreError};

/// The records whose objects may be left once `action` is done: the failed ones since the
/// last success, and, where nothing is to stay, that success too.
pub(super) fn suspects(action: &Action, before: &History) -> Vec<i64> {
    let failed = |record: &&RecordMeta| record.state == RecordState::Failed;
    let newest_first = || before.records().iter().rev();
    let since = newest_first().take_while(failed);
    let mut revisions: Vec<i64> = since.map(|record| record.revision).collect();
    match action {
        Action::Upgrade { .. } => revisions,
        // Helm removes what the newest record names; if that one succeeded, it is enough.
        Action::Uninstall { .. } if !revisions.is_empty() => {
            let success = newest_first().find(|record| !failed(record));
            revisions.extend(success.map(|record| record.revision));
            revisions
        }
        _ => Vec::new(),
    }
}

/// The objects that these records name.
pub(super) async fn named(
    store: &Store,
    target: &Target,
    revisions: &[i64],
) -> Result<BTreeSet<ObjectRef>, StoreError> {
    let mut named = BTreeSet::new();
    for revision in revisions {
        match store.record(target, *revision).await {
            Ok(record) => named.extend(objects_of(record.manifest())),
            // Pruned meanwhile: what it named isn't known any more.
            Err(StoreError::Gone { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(named)
}

/// Since when what an upgrade leaves behind was made: what is older than the first of the
/// failed revisions was there before it, and isn't ours to remove. An uninstall leaves
/// nothing.
pub(super) fn made_since(action: &Action, before: &History, suspects: &[i64]) -> Option<Timestamp> {
    let records = before.records().iter();
    match action {
        Action::Upgrade { .. } => records
            .filter(|record| suspects.contains(&record.revision))
            .map(|record| record.created)
            .min(),
        _ => None,
    }
}

/// Removes those of the objects, made since then, that the newest record doesn't name and
/// that still are of this release; tells which.
pub(super) async fn remove(
    store: &Store,
    objects: &Objects,
    target: &Target,
    suspects: BTreeSet<ObjectRef>,
    since: Option<Timestamp>,
    after: &History,
) -> Result<Vec<String>, ReleaseError> {
    let kept = match after.last() {
        Some(last) => named(store, target, &[last.revision]).await?,
        None => BTreeSet::new(),
    };
    let left = unnamed(suspects, &kept, target);
    let mut removed = Vec::new();
    for seen in objects.look(&left, &target.namespace).await? {
        let older = since.is_some() && seen.created < since;
        if !older && !seen.terminating && seen.belongs_to(target) && !seen.is_kept() {
            objects.remove(&seen, &target.namespace).await?;
            removed.push(seen.object.to_string());
        }
    }
    Ok(removed)
}

/// The suspects that aren't kept. An object is the same under another version of its API,
/// and with its namespace written or not.
pub(super) fn unnamed(
    suspects: BTreeSet<ObjectRef>,
    kept: &BTreeSet<ObjectRef>,
    target: &Target,
) -> Vec<ObjectRef> {
    let identity = |object: &ObjectRef| {
        let group = object
            .api_version
            .rsplit_once('/')
            .map_or("", |(group, _)| group)
            .to_owned();
        let namespace = match object.namespace.as_str() {
            "" => target.namespace.clone(),
            written => written.to_owned(),
        };
        (group, object.kind.clone(), namespace, object.name.clone())
    };
    let kept: BTreeSet<_> = kept.iter().map(identity).collect();
    suspects
        .into_iter()
        .filter(|object| !kept.contains(&identity(object)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Stamp;
    use RecordState::{Deployed, Failed, Superseded};

    fn history(states: &[RecordState]) -> History {
        let record = |(index, state): (usize, &RecordState)| RecordMeta {
            revision: i64::try_from(index).unwrap_or_default() + 1,
            state: state.clone(),
            stamp: Stamp::Missing,
            touched: Timestamp::UNIX_EPOCH,
            created: Timestamp::UNIX_EPOCH,
            resource_version: String::new(),
        };
        History::new(states.iter().enumerate().map(record).collect())
    }

    #[test]
    fn only_what_failed_since_the_last_success_is_suspected() {
        let upgrade = Action::Upgrade { revision: 9 };
        let uninstall = Action::Uninstall {
            revision: 9,
            no_hooks: false,
            failed_install: false,
        };
        let rollback = Action::Rollback { to: 1, revision: 9 };
        let failed_twice = [Superseded, Failed, Deployed, Failed, Failed];
        for (action, states, expected) in [
            (&upgrade, &failed_twice[..], vec![5, 4]),
            (&upgrade, &failed_twice[..3], vec![]),
            (&upgrade, &[Failed, Failed], vec![2, 1]),
            (&uninstall, &failed_twice, vec![5, 4, 3]),
            (&uninstall, &failed_twice[..3], vec![]),
            (&uninstall, &[Failed], vec![1]),
            // Helm compares a rollback with the failed revision itself.
            (&rollback, &failed_twice, vec![]),
        ] {
            assert_eq!(
                suspects(action, &history(states)),
                expected,
                "{action:?} {states:?}"
            );
        }
    }

    #[test]
    fn what_the_new_revision_names_is_no_suspect() {
        let object = |api_version: &str, namespace: &str, name: &str| ObjectRef {
            api_version: api_version.into(),
            kind: "Job".into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        let target = Target {
            namespace: "demo".into(),
            name: "app".into(),
        };
        let suspects = [
            object("batch/v1", "", "a"),
            object("batch/v1", "demo", "b"),
            object("batch/v1", "other", "c"),
            object("v1", "", "d"),
        ];
        let kept = [
            object("batch/v1beta1", "demo", "a"),
            object("batch/v1", "", "b"),
            object("batch/v1", "", "c"),
            object("batch/v1", "", "d"),
        ];
        let left = unnamed(suspects.into(), &kept.into(), &target);
        let left: Vec<_> = left.iter().map(|object| object.name.as_str()).collect();
        assert_eq!(left, ["c", "d"]);
    }
}
