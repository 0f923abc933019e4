//! Carries out what [`plan`](super::plan) decided: helm children and writes to Helm's own
//! records, and nothing else.
//!
//! What became of an action is read from Helm's record afterwards, never from an exit code:
//! a child may be killed after its last write, or fail after it.

mod annotate;
mod arguments;
mod deadline;
mod job;
mod leftovers;
mod message;
mod outcome;
mod remains;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use tandem_shared::child::{self, Cancel};
use tandem_shared::lock::Guard;

use self::outcome::{end_of, judge};
use self::remains::Remains;
use super::objects::{Objects, ObjectsError, Seen, objects_of, secrets_of};
use super::plan::Action;
use crate::crd::Target;
use crate::helm::{Helm, HelmError, Major, Run};
use crate::identity::{Comparison, Identity};
use crate::mask::Mask;
use crate::storage::{History, MARKED_FAILED, Record, RecordMeta, RecordState, Store, StoreError};

pub use annotate::Annotations;
pub use job::{Chart, Job};
pub use outcome::{End, Outcome};

/// Performs actions on releases.
#[derive(Clone)]
pub struct Engine {
    helm: Arc<Helm>,
    store: Store,
    remains: Remains,
}

/// An action that couldn't even be tried. Every one of them is worth another try.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// Helm's records can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Helm can't be run.
    #[error(transparent)]
    Helm(#[from] HelmError),
    /// Objects can't be looked up.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// The job lacks what its action needs, or the record isn't there: a mistake of ours.
    #[error("can't {action} release {target}: {what}")]
    Incomplete {
        /// The action.
        action: &'static str,
        /// The release.
        target: String,
        /// What is missing.
        what: &'static str,
    },
    /// The thread that waited for the child is gone.
    #[error("the thread that runs helm ended: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

impl Engine {
    /// Performs with this helm, on records that this store reads and writes.
    #[must_use]
    pub fn new(helm: Arc<Helm>, store: Store) -> Self {
        let remains = Remains::new(Objects::new(store.client().clone()));
        Self {
            helm,
            store,
            remains,
        }
    }

    /// The major version of helm.
    #[must_use]
    pub fn major(&self) -> Major {
        self.helm.version().major()
    }

    /// Helm's records.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Looks up objects that releases name.
    #[must_use]
    pub fn objects(&self) -> &Objects {
        self.remains.objects()
    }

    /// Objects that an uninstall of ours left terminating and that are so still, for
    /// [`Observed::terminating`](super::plan::Observed::terminating). Costs nothing where
    /// there are none.
    ///
    /// # Errors
    /// If the API can't be asked.
    pub async fn terminating(&self, target: &Target) -> Result<Vec<String>, ReleaseError> {
        Ok(self.remains.terminating(target).await?)
    }

    /// Performs one action to its end. `cancel` interrupts an install or upgrade; the other
    /// actions leave more behind when interrupted than when they run to their deadline, so
    /// for them it is the caller's not to cancel, but at the end of the process.
    ///
    /// The lock comes back with the outcome, or is released with an error.
    ///
    /// # Errors
    /// If the action couldn't be tried, or its record can't be read afterwards. A failed
    /// action is no error but an [`Outcome`].
    pub async fn perform(&self, job: Job, cancel: Cancel) -> Result<Outcome, ReleaseError> {
        let begun = Instant::now();
        match &job.action {
            Action::MarkFailed { revision } => {
                let why = format!("{MARKED_FAILED}: the operation ended without a result");
                self.mark(&job, *revision, RecordState::Failed, &why, begun)
                    .await
            }
            Action::MarkDeployed { revision } => {
                let why = "Marked as deployed: the operation ended after its last change";
                self.mark(&job, *revision, RecordState::Deployed, why, begun)
                    .await
            }
            Action::PatchLabel { revision } => self.label(&job, *revision, begun).await,
            Action::Install { .. }
            | Action::Upgrade { .. }
            | Action::Rollback { .. }
            | Action::Test { .. }
            | Action::Uninstall { .. } => self.run(job, cancel).await,
            Action::Nothing | Action::Wait | Action::Refuse | Action::RemoveFinalizer => {
                Err(job.incomplete("there is nothing to perform"))
            }
        }
    }

    async fn mark(
        &self,
        job: &Job,
        revision: i64,
        state: RecordState,
        why: &str,
        begun: Instant,
    ) -> Result<Outcome, ReleaseError> {
        let expected = job.record(revision)?;
        self.store
            .rewrite(&job.target, expected, state, why)
            .await?;
        self.settled(job, why, begun).await
    }

    async fn label(
        &self,
        job: &Job,
        revision: i64,
        begun: Instant,
    ) -> Result<Outcome, ReleaseError> {
        let identity = job.identity()?;
        self.store
            .patch_label(&job.target, job.record(revision)?, identity)
            .await?;
        self.settled(job, "The release was taken over as it is", begun)
            .await
    }

    /// The outcome of a write that went through.
    async fn settled(
        &self,
        job: &Job,
        message: &str,
        begun: Instant,
    ) -> Result<Outcome, ReleaseError> {
        Ok(Outcome {
            end: End::Succeeded,
            message: message.to_owned(),
            history: self.store.history(&job.target).await?,
            test: None,
            annotations: Annotations::default(),
            took: begun.elapsed(),
        })
    }

    async fn run(&self, job: Job, cancel: Cancel) -> Result<Outcome, ReleaseError> {
        let last = match job.history.last() {
            Some(last) => Some(self.store.record(&job.target, last.revision).await?),
            None => None,
        };
        let arguments = arguments::of(&job, self.major(), last.as_ref())?;
        let hooks = last.as_ref().map_or(0, |last| last.hooks().len());
        let doubtful = is_doubtful(&job.action, last.as_ref());
        let named = match (&job.action, &last) {
            (Action::Uninstall { .. }, Some(last)) => objects_of(last.manifest()),
            _ => Vec::new(),
        };
        let bearing = annotate::bearing(&job, last.as_ref());
        drop(last);
        let target = job.target.clone();
        let suspects = leftovers::suspects(&job.action, &job.history);
        let since = leftovers::made_since(&job.action, &job.history, &suspects);
        let suspects = leftovers::named(&self.store, &target, &suspects).await?;
        let (job, run) = self.child(job, arguments, hooks, cancel).await?;
        let run = run?;
        if run.end != child::End::Exited(0) {
            self.remains.remember(&target, named).await;
        }
        let history = self.store.history(&target).await?;
        let tested = self.tested(&job, &history).await?;
        let end = end_of(&job.action, run.end, &history, tested);
        let mask = self.mask(&job, end, &history).await?;
        let mut outcome = judge(&job.action, end, &run, &mask, history, tested);
        if made(&job.action).is_some() && outcome.end == End::Succeeded {
            self.annotate_made(&job, bearing, doubtful, &mut outcome)
                .await?;
        }
        if !suspects.is_empty() && outcome.end == End::Succeeded {
            let (store, objects) = (&self.store, self.objects());
            let after = &outcome.history;
            let removed =
                leftovers::remove(store, objects, &target, suspects, since, after).await?;
            if !removed.is_empty() {
                outcome
                    .message
                    .push_str("; removed what failed revisions had left: ");
                outcome.message.push_str(&removed.join(", "));
            }
        }
        Ok(outcome)
    }

    /// What is secret in helm's words about a failure: what was handed in, and what the
    /// Secrets hold that the records before and after name.
    async fn mask(&self, job: &Job, end: End, after: &History) -> Result<Mask, ReleaseError> {
        let mut mask = job.mask.clone();
        if end == End::Succeeded {
            return Ok(mask);
        }
        let last = |history: &History| history.last().map(|last| last.revision);
        let returned_to = match job.action {
            Action::Rollback { to, .. } => Some(to),
            _ => None,
        };
        let revisions = [last(&job.history), last(after), returned_to];
        for revision in revisions.into_iter().flatten().collect::<BTreeSet<_>>() {
            match self.store.record(&job.target, revision).await {
                Ok(record) => mask.extend(&secrets_of(record.manifest())),
                // It was pruned, or uninstalled.
                Err(StoreError::Gone { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(mask)
    }

    /// Helm takes an object that is still being removed for one that is there: the release
    /// is recorded as deployed, and then the object vanishes. Such a revision is no success,
    /// and gets the label of nothing, so that an upgrade follows.
    async fn doubt(
        &self,
        job: &Job,
        record: &RecordMeta,
        seen: &[Seen],
        outcome: &mut Outcome,
    ) -> Result<(), ReleaseError> {
        let vanishing: Vec<String> = seen
            .iter()
            .filter(|seen| seen.terminating)
            .map(|seen| seen.object.to_string())
            .collect();
        if vanishing.is_empty() {
            return Ok(());
        }
        self.store
            .patch_label(&job.target, record, &Identity::none())
            .await?;
        outcome.end = End::Failed;
        outcome.annotations = Annotations::Untried;
        outcome.message = format!(
            "of an earlier release, and still being removed: {}; the release is upgraded once \
             they are gone",
            vanishing.join(", ")
        );
        outcome.history = self.store.history(&job.target).await?;
        Ok(())
    }

    /// Runs the child on a thread of its own: the kernel ties the child's life to it.
    async fn child(
        &self,
        mut job: Job,
        arguments: Vec<String>,
        hooks: usize,
        cancel: Cancel,
    ) -> Result<(Job, Result<Run, HelmError>), ReleaseError> {
        let helm = Arc::clone(&self.helm);
        Ok(tokio::task::spawn_blocking(move || {
            let deadline = deadline::of(&job, hooks);
            let stdin = job.stdin().as_bytes();
            let lock: Option<&Guard> = job.lock.as_deref();
            let run = helm.run(&arguments, stdin, deadline, lock, &cancel);
            job.place = None;
            (job, run)
        })
        .await?)
    }

    /// What the tests of the tested revision came to, from its record.
    async fn tested(&self, job: &Job, history: &History) -> Result<Option<bool>, ReleaseError> {
        let Action::Test { revision } = job.action else {
            return Ok(None);
        };
        if history
            .records()
            .iter()
            .all(|record| record.revision != revision)
        {
            return Ok(None);
        }
        Ok(self
            .store
            .record(&job.target, revision)
            .await?
            .tests_succeeded())
    }
}

/// The revision that an action makes.
fn made(action: &Action) -> Option<i64> {
    match action {
        Action::Install { revision, .. }
        | Action::Upgrade { revision }
        | Action::Rollback { revision, .. } => Some(*revision),
        _ => None,
    }
}

/// Whether objects may be there that are being removed: at an install, and after one that
/// met such.
fn is_doubtful(action: &Action, last: Option<&Record>) -> bool {
    match action {
        Action::Install { .. } => true,
        Action::Upgrade { .. } => last.is_some_and(|last| {
            let nothing = [Identity::none()];
            last.meta.stamp.compare(last.meta.revision, &nothing) == Comparison::Same
        }),
        _ => false,
    }
}
