//! Annotates the objects of a revision with the HelmRelease that it was released for.

use std::collections::BTreeSet;

use super::leftovers::unnamed;
use super::{Engine, Job, Outcome, ReleaseError, made};
use crate::crd::Target;
use crate::identity::Stamp;
use crate::reconcile::objects::{Annotated, ObjectRef, objects_of};
use crate::reconcile::plan::Action;
use crate::releases::Key;
use crate::storage::Record;

/// What came of annotating the objects of a revision.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Annotations {
    /// It wasn't tried.
    #[default]
    Untried,
    /// All of them bear the annotation.
    All {
        /// The revision.
        revision: i64,
        /// Objects that it was written to.
        written: u64,
    },
    /// Some don't.
    Partly {
        /// Objects that it was written to.
        written: u64,
        /// One of the others, why, and how many more there are.
        why: String,
        /// It may work at another time, without anybody's doing.
        may_pass: bool,
    },
}

impl Annotations {
    fn new(revision: i64, annotated: &Annotated) -> Self {
        let written = u64::try_from(annotated.seen.len()).unwrap_or(u64::MAX);
        let Some((_, first)) = annotated.left.first() else {
            return Self::All { revision, written };
        };
        Self::Partly {
            written,
            why: match annotated.left.len() - 1 {
                0 => first.to_string(),
                more => format!("{first} (and {more} more)"),
            },
            may_pass: annotated.left.iter().any(|(_, error)| error.may_pass()),
        }
    }

    /// Nothing is known of the objects.
    fn unknown(error: &impl std::fmt::Display) -> Self {
        Self::Partly {
            written: 0,
            why: error.to_string(),
            may_pass: true,
        }
    }
}

/// The objects that bear the annotation before an action, and afterwards, too: those of a
/// revision that is known to bear it, unless they are replaced. `None` if that can't be told.
pub(super) fn bearing(job: &Job, last: Option<&Record>) -> Option<BTreeSet<ObjectRef>> {
    // Somebody else's may have the number of one that was annotated.
    let ours = |last: &&Record| matches!(last.meta.stamp, Stamp::Known { .. });
    let last = last.filter(|last| job.annotated == Some(last.meta.revision));
    let last = last.filter(ours)?;
    let keeps = matches!(job.action, Action::Upgrade { .. }) && !job.spec.force_upgrade();
    keeps.then(|| objects_of(last.manifest()).into_iter().collect())
}

impl Engine {
    /// Annotates all objects of a revision.
    pub async fn annotate(&self, target: &Target, revision: i64, owner: &Key) -> Annotations {
        match self.store.record(target, revision).await {
            Ok(record) => {
                let named = objects_of(record.manifest());
                let objects = self.objects();
                let annotated = objects.annotate(&named, &target.namespace, owner).await;
                Annotations::new(revision, &annotated)
            }
            Err(error) => Annotations::unknown(&error),
        }
    }

    /// Annotates the objects of what an action made, but for those that bear the annotation
    /// already. Where there is doubt, that is also the look at them, and only then its
    /// failure is one of the action.
    pub(super) async fn annotate_made(
        &self,
        job: &Job,
        bearing: Option<BTreeSet<ObjectRef>>,
        doubtful: bool,
        outcome: &mut Outcome,
    ) -> Result<(), ReleaseError> {
        let Some(last) = outcome.history.last() else {
            return Ok(());
        };
        let revision = last.revision;
        if made(&job.action) != Some(revision) && !doubtful {
            // Somebody else was faster; what stands in the end is annotated then.
            return Ok(());
        }
        // An upgrade has few to write to, and nobody would know later which.
        let later = job.others_wait && bearing.is_none();
        if later && !doubtful {
            return Ok(());
        }
        let record = match self.store.record(&job.target, revision).await {
            Ok(record) => record,
            Err(error) if doubtful => return Err(error.into()),
            Err(error) => {
                outcome.annotations = Annotations::unknown(&error);
                return Ok(());
            }
        };
        let named = objects_of(record.manifest());
        let meta = record.meta;
        let named = match bearing {
            Some(bearing) => unnamed(named.into_iter().collect(), &bearing, &job.target),
            None => named,
        };
        let (objects, namespace) = (self.objects(), &job.target.namespace);
        let (mut seen, unseen) = if later {
            (Vec::new(), named)
        } else {
            let annotated = objects.annotate(&named, namespace, &job.owner).await;
            outcome.annotations = Annotations::new(revision, &annotated);
            let left = annotated.left.into_iter().map(|(left, _)| left);
            (annotated.seen, left.collect())
        };
        if doubtful {
            seen.extend(objects.look(&unseen, namespace).await?);
            self.doubt(job, &meta, &seen, outcome).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::reconcile::release::job::tests::job;
    use crate::storage::tests::record;

    /// Whether the objects of revision 2 are known to bear the annotation.
    fn is_known(action: Action, spec: serde_json::Value, annotated: Option<i64>) -> bool {
        let job = Job {
            annotated,
            ..job(action, spec)
        };
        let mut last = strangers();
        last.meta.stamp = Stamp::Known {
            identity: job.identity.clone().unwrap(),
            revision: 2,
        };
        bearing(&job, Some(&last)).is_some_and(|known| known.len() == 1)
    }

    /// Revision 2, with no label of ours.
    fn strangers() -> Record {
        let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n";
        record(json!({ "manifest": manifest }))
    }

    #[test]
    fn an_upgrade_leaves_alone_what_is_annotated() {
        let upgrade = || Action::Upgrade { revision: 3 };
        assert!(is_known(upgrade(), json!({}), Some(2)));
        assert!(!is_known(upgrade(), json!({}), Some(1)));
        assert!(!is_known(upgrade(), json!({}), None));
        assert!(!is_known(upgrade(), json!({"forceUpgrade": true}), Some(2)));
        let back = Action::Rollback { to: 1, revision: 3 };
        assert!(!is_known(back, json!({}), Some(2)));
        assert!(bearing(&job(upgrade(), json!({})), None).is_none());
        let job = Job {
            annotated: Some(2),
            ..job(upgrade(), json!({}))
        };
        assert!(bearing(&job, Some(&strangers())).is_none());
    }
}
