//! Removes the releases that a HelmRelease had under other names, or in other namespaces.
//! Only once the present one stands, or the HelmRelease goes: what is live is no worse off
//! meanwhile. And only what is its own beyond doubt; the rest stays, and the log says so.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tandem_shared::child::Cancel;
use tandem_shared::publish;
use tracing::{info, warn};

use super::fresh::Fresh;
use super::objects::{Seen, objects_of};
use super::pass::Pass;
use super::plan::{
    Action, Decision, Desired, Facts, Observed, RollbackPolicy, TestPolicy, Want, plan,
};
use super::release::{End, Job};
use super::turn::Place;
use super::{Again, Trouble};
use crate::crd::{FormerRelease, Operation, OperationAction, Target};
use crate::identity::Stamp;
use crate::mask::Mask;
use crate::storage::{History, RecordState};

/// Steps to the end of one release, at most.
const MAX_STEPS: usize = 6;

/// What became of all of them.
pub(super) enum Formers {
    /// None is left.
    Gone,
    /// One is left, and why.
    Left(String),
    /// Something else is wanted by now, or the process is to end.
    Ending,
}

/// What became of a former release.
enum Left {
    /// It is gone, or isn't ours to remove.
    Nothing,
    /// It is there still, and why.
    It(Decision),
    /// Something else is wanted by now, or the process is to end.
    Ending,
}

impl Pass<'_> {
    /// Removes all of them that can be removed now. One that can't be is tried again.
    pub(super) async fn remove_formers(&mut self) -> Formers {
        let formers = self.draft.status.former_releases.clone();
        if formers.is_empty() {
            return Formers::Gone;
        }
        // An uninstall may take minutes; what stands already is told before.
        if let Err(error) = self.save().await {
            warn!(helmrelease = %self.key(), "{error}");
        }
        let mut result = Formers::Gone;
        for former in formers {
            let target = former.target();
            let left = match self.remove_former(&former).await {
                Ok(Left::Nothing) => {
                    if !self.snapshot.former_owners.contains_key(&target) {
                        self.ctx.metrics.forget(&target);
                    }
                    self.draft
                        .status
                        .former_releases
                        .retain(|left| left.target() != target);
                    continue;
                }
                Ok(Left::Ending) => return Formers::Ending,
                Ok(Left::It(decision)) => {
                    self.again(decision.until.map_or(Again::Backoff, Again::At));
                    decision.message
                }
                Err(trouble) => {
                    warn!(helmrelease = %self.key(), release = %target, reason = trouble.reason, "the former release can't be removed: {}", trouble.message);
                    self.again(Again::Backoff);
                    trouble.message
                }
            };
            result = Formers::Left(format!(
                "the former release {target} is still there: {left}"
            ));
        }
        result
    }

    /// The one that waits longer than others must not make them wait.
    pub(super) fn again(&mut self, again: Again) {
        self.finished.again = match (self.finished.again, again) {
            (Again::Backoff, _) => Again::Backoff,
            (Again::At(one), Again::At(other)) => Again::At(one.min(other)),
            (_, again) => again,
        };
    }

    async fn remove_former(&mut self, former: &FormerRelease) -> Result<Left, Trouble> {
        let target = former.target();
        for _ in 0..MAX_STEPS {
            // Both may have changed while a place was waited for.
            if !self.look() {
                return Ok(Left::Ending);
            }
            // Said before anything is asked: whatever can't be asked must not hold it up.
            let taken = self.snapshot.former_owners.get(&target);
            if taken.is_some() || self.snapshot.entry.is_annotated_to_abandon() {
                let why = match taken {
                    Some(owner) => format!("it belongs to HelmRelease {owner}"),
                    None => "an annotation leaves it in the cluster".to_owned(),
                };
                info!(helmrelease = %self.key(), release = %target, "done with the former release: {why}");
                return Ok(Left::Nothing);
            }
            let fresh = Fresh::ask(self.ctx, &target, self.snapshot.entry.is_deleting()).await?;
            let next = plan(&self.seen(former, &fresh), &self.absence());
            let gone = match &next.action {
                Action::RemoveFinalizer => Some(next.message.clone()),
                Action::Uninstall { .. } if self.place.is_none() => {
                    // What was listed before the wait is listed again after it.
                    drop(fresh);
                    if !self.take_turn().await || matches!(self.take_place().await, Place::Ending) {
                        return Ok(Left::Ending);
                    }
                    continue;
                }
                Action::Uninstall { .. } => self.is_not_ours(former, &fresh.history).await?,
                _ => return Ok(Left::It(next)),
            };
            if let Some(why) = gone {
                info!(helmrelease = %self.key(), release = %target, "done with the former release: {why}");
                if fresh.lock.is_some() {
                    self.remove_lock(&target);
                }
                return Ok(Left::Nothing);
            }
            self.uninstall_former(&target, fresh, &next).await?;
        }
        Err(Trouble::new("Unsettled", "its uninstall found no end"))
    }

    fn seen(&self, former: &FormerRelease, fresh: &Fresh) -> Observed {
        let listed = self.draft.status.former_releases.iter();
        let operation = listed
            .filter(|listed| listed.target() == former.target())
            .find_map(|listed| listed.operation.clone());
        Observed {
            now: Timestamp::now(),
            history: fresh.history.clone(),
            child_alive: fresh.lock.is_none(),
            namespace: fresh.namespace,
            definition_deleting: fresh.definition_deleting,
            operation,
            tried: true,
            facts: Facts {
                // Judged after the wait for a place.
                holders: fresh
                    .history
                    .last()
                    .map(|last| (last.revision, None))
                    .into_iter()
                    .collect(),
                ..Facts::default()
            },
            ..Observed::default()
        }
    }

    /// Why the release is somebody else's by now, or has been all the time, if it is.
    async fn is_not_ours(
        &self,
        former: &FormerRelease,
        history: &History,
    ) -> Result<Option<String>, Trouble> {
        let target = former.target();
        let failed = |error: &dyn std::fmt::Display| Trouble::new("StorageFailed", error);
        let Some(last) = history.last() else {
            return Ok(None);
        };
        let theirs = history.records().iter().any(|record| {
            let stands = [RecordState::Deployed, RecordState::Superseded];
            record.stamp == Stamp::Missing && stands.contains(&record.state)
        });
        if former.revision.is_none() && theirs || last.stamp == Stamp::Missing {
            return Ok(Some("somebody else made it, so it stays".to_owned()));
        }
        let engine = &self.ctx.engine;
        let record = engine.store().record(&target, last.revision).await;
        let record = record.map_err(|error| failed(&error))?;
        let of_this_revision = matches!(
            last.stamp,
            Stamp::Known { revision, .. } if revision == last.revision
        );
        // helm hands our label on, to whatever is made of the release.
        if !of_this_revision && !record.is_rollback() {
            return Ok(Some("somebody else changed it, so it stays".to_owned()));
        }
        let named = objects_of(record.manifest());
        let seen = engine.objects().look(&named, &target.namespace).await;
        let seen = seen.map_err(|error| failed(&error))?;
        let key = &self.snapshot.entry.key;
        let other = seen
            .iter()
            .filter(|seen| !seen.belongs_to_another(&target))
            .filter_map(Seen::antecedent)
            .find(|owner| owner != key);
        if let Some(owner) = other {
            return Ok(Some(format!(
                "its objects are annotated for HelmRelease {owner}, so it stays"
            )));
        }
        let taken: Vec<String> = seen
            .iter()
            .filter(|seen| seen.belongs_to_another(&target))
            .filter(|seen| !seen.terminating && !seen.is_kept())
            .map(|seen| seen.object.to_string())
            .collect();
        if taken.is_empty() {
            return Ok(None);
        }
        // Some helm would remove them nevertheless.
        Err(Trouble::new(
            "ObjectsTaken",
            format!(
                "others have objects of it now: {}; remove the release by hand, or its records",
                taken.join(", ")
            ),
        ))
    }

    async fn uninstall_former(
        &mut self,
        former: &Target,
        fresh: Fresh,
        decision: &Decision,
    ) -> Result<(), Trouble> {
        let revision = fresh.history.last().map_or(0, |last| last.revision);
        let Some(release) = self.snapshot.entry.release().cloned() else {
            return Ok(());
        };
        info!(helmrelease = %self.key(), release = %former, action = "Uninstall", "running uninstall: its HelmRelease asks for {} now", self.target);
        let started_at = Time(self.draft.now());
        let listed = self.draft.status.former_releases.iter_mut();
        for listed in listed.filter(|listed| listed.target() == *former) {
            listed.operation = Some(Operation {
                action: OperationAction::Uninstall,
                revision,
                process: self.ctx.process.clone(),
                epoch: 0,
                started_at: started_at.clone(),
                interrupted: false,
            });
        }
        // Before the child: whatever becomes of us, it is known whose it is.
        self.save()
            .await
            .map_err(|error| Trouble::new("ApiFailed", error))?;
        self.ctx.metrics.child("uninstall");
        let job = Job {
            action: decision.action.clone(),
            target: former.clone(),
            history: fresh.history,
            spec: std::sync::Arc::new(release.spec),
            chart: None,
            values: None,
            identity: None,
            owner: self.snapshot.entry.key.clone(),
            annotated: None,
            others_wait: false,
            mask: Mask::default(),
            lock: fresh.lock,
            place: self.place.take(),
        };
        let cancel = Cancel::new().map_err(|error| Trouble::new("ReleaseFailed", error))?;
        let mut run = std::pin::pin!(self.ctx.engine.perform(job, cancel.clone()));
        let ended = loop {
            tokio::select! {
                ended = &mut run => break ended,
                () = self.ctx.ending.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
            }
        };
        let outcome = ended.map_err(|error| Trouble::new("ReleaseFailed", error))?;
        match outcome.end {
            End::Succeeded => Ok(()),
            _ => Err(Trouble::new("UninstallFailed", outcome.message)),
        }
    }

    /// Nobody else takes this lock while we have it; its file is of no more use.
    pub(super) fn remove_lock(&self, target: &Target) {
        let path = self
            .ctx
            .wanted
            .release_lock(&target.namespace, &target.name);
        if let Err(error) = publish::remove(&path) {
            warn!(helmrelease = %self.key(), "{error}");
        }
    }

    fn absence(&self) -> Desired {
        let entry = &self.snapshot.entry;
        let release = entry.release();
        Desired {
            want: Want::Absent {
                abandon: entry.is_deleting() && !entry.has_finalizer(),
            },
            generation: entry.generation(),
            timeout: release
                .map(|release| release.spec.timeout())
                .unwrap_or_default(),
            rollback: RollbackPolicy::default(),
            test: TestPolicy::default(),
        }
    }
}
