//! Removes the releases that a HelmRelease had under other names, or in other namespaces.
//! Only once the present one stands, or the HelmRelease goes: what is live is no worse off
//! meanwhile.

use jiff::Timestamp;
use tandem_shared::child::Cancel;
use tracing::{info, warn};

use super::fresh::Fresh;
use super::pass::Pass;
use super::plan::{
    Action, Decision, Desired, Observed, Owner, RollbackPolicy, TestPolicy, Want, plan,
};
use super::release::{End, Job};
use super::turn::Place;
use super::{Again, Trouble};
use crate::crd::{OperationAction, Target};
use crate::mask::Mask;

/// Steps to the end of one release, at most.
const MAX_STEPS: usize = 6;

/// What became of a former release.
enum Left {
    /// It is gone, or isn't ours to remove.
    Nothing,
    /// It is there still, and why.
    It(Decision),
    /// The process is to end.
    Ending,
}

impl Pass<'_> {
    /// Removes all of them that can be removed now; whether none is left. One that can't be
    /// is no fault of the present release: it is tried again, and says so in the log.
    pub(super) async fn remove_formers(&mut self) -> bool {
        let formers = self.draft.status.formers(&self.target);
        if formers.is_empty() {
            return true;
        }
        // An uninstall may take minutes; what stands already is told before.
        if let Err(error) = self.save().await {
            warn!(helmrelease = %self.key(), "{error}");
        }
        let mut left = Vec::new();
        for former in formers {
            match self.remove_former(&former).await {
                Ok(Left::Nothing) => self.ctx.metrics.forget(&former),
                Ok(Left::Ending) => left.push(former),
                Ok(Left::It(decision)) => {
                    info!(helmrelease = %self.key(), release = %former, action = "Wait", reason = decision.reason.as_str(), "the former release stays for now: {}", decision.message);
                    self.finished.again = decision.until.map_or(Again::Backoff, Again::At);
                    left.push(former);
                }
                Err(trouble) => {
                    warn!(helmrelease = %self.key(), release = %former, reason = trouble.reason, "the former release can't be removed: {}", trouble.message);
                    self.finished.again = Again::Backoff;
                    left.push(former);
                }
            }
        }
        self.draft.keep_formers(&left);
        left.is_empty()
    }

    async fn remove_former(&mut self, former: &Target) -> Result<Left, Trouble> {
        let desired = self.absence();
        let mut decision = None;
        for _ in 0..MAX_STEPS {
            let fresh = Fresh::ask(self.ctx, former, false).await?;
            let owner = self.snapshot.former_owners.get(former);
            let observed = Observed {
                now: Timestamp::now(),
                history: fresh.history.clone(),
                child_alive: fresh.lock.is_none(),
                namespace: fresh.namespace,
                failures: self.failures.clone(),
                owner: owner.map_or(Owner::Ours, |owner| Owner::Other(owner.clone())),
                ..Observed::default()
            };
            let next = plan(&observed, &desired);
            match &next.action {
                Action::RemoveFinalizer => {
                    info!(helmrelease = %self.key(), release = %former, reason = next.reason.as_str(), "done with the former release: {}", next.message);
                    return Ok(Left::Nothing);
                }
                Action::Uninstall { .. } => {}
                _ => return Ok(Left::It(next)),
            }
            if self.place.is_none() {
                // What was listed before the wait is listed again after it.
                drop(fresh);
                if !self.take_turn().await || matches!(self.take_place().await, Place::Ending) {
                    return Ok(Left::Ending);
                }
                continue;
            }
            self.uninstall_former(former, fresh, &next).await?;
            decision = Some(next);
        }
        let why = decision.map_or_else(String::new, |decision| decision.message);
        Err(Trouble::new(
            "Unsettled",
            format!("it is still there: {why}"),
        ))
    }

    async fn uninstall_former(
        &mut self,
        former: &Target,
        fresh: Fresh,
        decision: &Decision,
    ) -> Result<(), Trouble> {
        let Some(release) = self.snapshot.entry.release().cloned() else {
            return Ok(());
        };
        info!(helmrelease = %self.key(), release = %former, action = "Uninstall", "running uninstall: its HelmRelease asks for {} now", self.target);
        self.ctx.metrics.child("uninstall");
        let job = Job {
            action: decision.action.clone(),
            target: former.clone(),
            history: fresh.history,
            spec: std::sync::Arc::new(release.spec),
            chart: None,
            values: None,
            identity: None,
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
        if outcome.end == End::Succeeded {
            self.failures.succeeded(OperationAction::Uninstall);
            return Ok(());
        }
        self.count_failure(
            OperationAction::Uninstall,
            None,
            self.snapshot.entry.generation(),
        );
        Err(Trouble::new("UninstallFailed", outcome.message))
    }

    fn absence(&self) -> Desired {
        let entry = &self.snapshot.entry;
        let release = entry.release();
        Desired {
            want: Want::Absent {
                abandon: entry.is_abandoning(),
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
