//! Carries out one planned action within a pass, and watches what is wanted meanwhile.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tandem_shared::child::Cancel;
use tracing::{info, warn};

use super::Trouble;
use super::artifacts::Opened;
use super::backoff;
use super::gather::{Gathered, Material, gather};
use super::pass::{Next, Pass};
use super::plan::{Action, Decision, Failure, Want};
use super::release::{Chart, End, Job, Outcome, ReleaseError};
use super::turn::Place;
use crate::crd::{HelmRelease, Operation, OperationAction};
use crate::identity::Identity;
use crate::mask::Mask;
use crate::metrics::{Stage, Written};
use crate::status;
use crate::storage::StoreError;

impl Pass<'_> {
    /// Carries out one action.
    pub(super) async fn act(
        &mut self,
        gathered: &Gathered,
        release: &HelmRelease,
        decision: &Decision,
        opened: Option<Opened>,
    ) -> Result<Next, Trouble> {
        let material = gathered.material.as_ref();
        let operation = operation(&decision.action);
        let opened = match (operation, material) {
            (Some(OperationAction::Install | OperationAction::Upgrade), Some(material)) => {
                Some(self.open(material, opened).await?)
            }
            _ => None,
        };
        if !self.snapshot.entry.is_deleting() {
            self.finalizer(true).await?;
        }
        if operation.is_some() {
            match self.take_place().await {
                Place::Taken => {}
                Place::Late => {
                    drop(opened);
                    return self.freshen(true).await;
                }
                Place::Ending => return Ok(Next::End),
            }
        }
        if let Some((action, revision)) = operation.zip(revision(&decision.action)) {
            let record = Operation {
                action,
                revision,
                process: self.ctx.process.clone(),
                epoch: 0,
                started_at: Time(Timestamp::now()),
                interrupted: false,
            };
            let before = self.draft.status.last_attempted_revision.clone();
            if decision.reason.is_of_something_else() {
                status::begun_anew(&mut self.draft);
            }
            self.with_subject(|draft, subject| status::started(draft, subject, &record));
            // Before the child: whatever becomes of us, it is known whose it is.
            self.save()
                .await
                .map_err(|error| Trouble::new("ApiFailed", error))?;
            self.ctx.metrics.child(verb(action));
            // Only of what is new: a chart may have been there long before it was asked for.
            if let Some(material) = material
                && action == OperationAction::Upgrade
                && before.as_ref() != Some(&material.revision)
            {
                self.published(material);
            }
        }
        let key = self.key();
        info!(
            helmrelease = %key,
            release = %self.target,
            action = decision.action.kind().as_str(),
            reason = decision.reason.as_str(),
            commit = material.map(|material| material.revision.as_str()),
            "running {}: {}",
            operation.map_or("a change of Helm's record", verb),
            decision.message,
        );
        let job = Job {
            action: decision.action.clone(),
            target: self.target.clone(),
            history: self.history(),
            spec: std::sync::Arc::new(release.spec.clone()),
            chart: opened
                .as_ref()
                .zip(material)
                .map(|(opened, material)| Chart {
                    directory: opened.chart(),
                    revision: material.revision.clone(),
                }),
            values: material.map(|material| material.values.text().clone()),
            identity: material.and_then(|material| material.identities.first().cloned()),
            owner: self.snapshot.entry.key.clone(),
            annotated: self.draft.status.annotated_revision,
            others_wait: self.others_wait(),
            mask: material.map_or_else(Mask::default, |material| material.values.mask().clone()),
            lock: self.lock(),
            place: self.place.take(),
        };
        let interruptible = matches!(
            operation,
            Some(OperationAction::Install | OperationAction::Upgrade)
        );
        let identities = material
            .map(|material| material.identities.clone())
            .unwrap_or_default();
        let begun = Instant::now();
        let ended = self.supervise(job, interruptible, &identities).await;
        self.ctx.metrics.stage(Stage::release, begun.elapsed());
        let outcome = match ended {
            Ok(outcome) => outcome,
            // Somebody else was faster; what they did is looked at anew.
            Err(ReleaseError::Store(StoreError::Changed { .. } | StoreError::Gone { .. })) => {
                return self.freshen(false).await;
            }
            Err(error) => return Err(Trouble::new("ReleaseFailed", error)),
        };
        match operation {
            Some(action) => self.ended(action, &outcome, gathered, release),
            None => {
                self.ctx.metrics.wrote(Written::record);
                self.ctx.metrics.action(
                    "mark",
                    outcome.end == End::Succeeded,
                    &self.target,
                    outcome.took,
                );
                if matches!(decision.action, Action::PatchLabel { .. }) {
                    // Somebody else made it, under whatever number.
                    self.draft.status.annotated_revision = None;
                    self.ran = Some("the release was taken over as it is".to_owned());
                }
            }
        }
        self.note_annotations(outcome.annotations);
        self.saw_history(outcome.history);
        Ok(Next::Step)
    }

    pub(super) async fn open(
        &mut self,
        material: &Material,
        opened: Option<Opened>,
    ) -> Result<Opened, Trouble> {
        if let Some(opened) = opened {
            return Ok(opened);
        }
        let begun = Instant::now();
        let opened = self.ctx.artifacts.chart(material.artifact()).await;
        self.ctx.metrics.stage(Stage::extract, begun.elapsed());
        let (source, want) = material.want.clone();
        match opened {
            Ok(opened) => {
                self.finished.accepted.push((source, want));
                Ok(opened)
            }
            Err(error) => {
                if let Some(digest) = error.rejected() {
                    self.finished.rejected.push((source, want, digest.clone()));
                }
                Err(Trouble::new("ArtifactFailed", error))
            }
        }
    }

    fn published(&self, material: &Material) {
        let waited = Timestamp::now().duration_since(material.chart.since);
        if waited > SignedDuration::ZERO {
            self.ctx
                .metrics
                .publish_to_helm
                .observe(waited.as_secs_f64());
        }
    }

    /// Runs the job to its end; an install or upgrade is interrupted once something else is
    /// wanted, or the process is to end.
    async fn supervise(
        &mut self,
        job: Job,
        interruptible: bool,
        identities: &[Identity],
    ) -> Result<Outcome, ReleaseError> {
        let cancel = Cancel::new().map_err(crate::helm::HelmError::from)?;
        let ctx = self.ctx;
        let mut run = std::pin::pin!(ctx.engine.perform(job, cancel.clone()));
        let mut inputs = self.inputs.clone();
        let mut told = true;
        loop {
            let open = interruptible && !cancel.is_cancelled();
            tokio::select! {
                outcome = &mut run => return outcome,
                changed = inputs.changed(), if open && told => {
                    told = changed.is_ok();
                    let snapshot = inputs.borrow_and_update().clone();
                    if !told || self.wants_other(&snapshot, identities).await {
                        self.interrupt("what is wanted has changed").await;
                        cancel.cancel();
                    }
                }
                () = ctx.stopping.cancelled(), if open => {
                    self.interrupt("the process is to end").await;
                    cancel.cancel();
                }
                () = ctx.ending.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
            }
        }
    }

    /// Recorded first, so that it counts as no failure whatever becomes of us.
    async fn interrupt(&mut self, why: &str) {
        info!(helmrelease = %self.key(), release = %self.target, "interrupting helm: {why}");
        if let Some(operation) = &mut self.draft.status.operation {
            operation.interrupted = true;
        }
        if let Err(error) = self.save().await {
            warn!(helmrelease = %self.key(), "{error}");
        }
    }

    async fn wants_other(
        &self,
        snapshot: &super::snapshot::Snapshot,
        identities: &[Identity],
    ) -> bool {
        let entry = &snapshot.entry;
        if entry.is_deleting() || entry.target.as_ref() != Some(&self.target) {
            return true;
        }
        let Some(release) = entry.release() else {
            return false;
        };
        match gather(&self.ctx.client, &self.ctx.artifacts, snapshot, release, 0).await {
            Ok(Gathered { desired, .. }) => match desired.want {
                Want::Present(present) => !present
                    .identities
                    .iter()
                    .any(|wanted| identities.contains(wanted)),
                Want::Absent { .. } => true,
                // What runs is better than nothing.
                Want::Blocked(_) | Want::Suspended => false,
            },
            Err(_) => false,
        }
    }

    fn ended(
        &mut self,
        action: OperationAction,
        outcome: &Outcome,
        gathered: &Gathered,
        release: &HelmRelease,
    ) {
        let success = outcome.end == End::Succeeded;
        self.ctx
            .metrics
            .action(verb(action), success, &self.target, outcome.took);
        self.with_subject(|draft, subject| status::ended(draft, subject, action, outcome));
        let (key, release_name) = (self.key(), &self.target);
        let took = format!("{:.1} s", outcome.took.as_secs_f64());
        let ignored = action == OperationAction::Test && release.spec.test().ignore_failures();
        match outcome.end {
            End::Succeeded => {
                info!(helmrelease = %key, release = %release_name, action = verb(action), took, "{}", outcome.message);
                self.ran = Some(outcome.message.clone());
            }
            End::Interrupted => {
                info!(helmrelease = %key, release = %release_name, action = verb(action), took, "{}", outcome.message)
            }
            End::Failed if ignored => {
                let message = status::ignored_test_failure(&outcome.message);
                warn!(helmrelease = %key, release = %release_name, action = verb(action), took, "{message}")
            }
            End::Failed => {
                warn!(helmrelease = %key, release = %release_name, action = verb(action), took, "{}", outcome.message)
            }
        }
        let releases = matches!(action, OperationAction::Install | OperationAction::Upgrade);
        match outcome.end {
            // A release that has to pass its tests hasn't succeeded yet.
            End::Succeeded if releases && release.spec.test().enable() => {}
            End::Succeeded if action == OperationAction::Test => {
                self.failures.succeeded(OperationAction::Upgrade)
            }
            End::Succeeded => self.failures.succeeded(action),
            End::Interrupted => {}
            // They were run, and that is all that is asked of them.
            End::Failed if ignored && outcome.test.is_some() => {
                self.logged = true;
                self.failures.succeeded(OperationAction::Upgrade);
            }
            End::Failed => {
                self.logged = true;
                self.failed(action, gathered);
                if action == OperationAction::Test && !ignored {
                    self.failed(OperationAction::Upgrade, gathered);
                }
            }
        }
    }

    fn failed(&mut self, action: OperationAction, gathered: &Gathered) {
        let wanted = gathered
            .material
            .as_ref()
            .and_then(|material| material.identities.first());
        let removes = matches!(
            action,
            OperationAction::Uninstall | OperationAction::RemoveFailedInstall
        );
        let identity = wanted.filter(|_| !removes);
        let generation = gathered.desired.generation;
        let attempts = self
            .failures
            .attempts(action, identity, generation)
            .saturating_add(1);
        let wait = SignedDuration::try_from(backoff::delay(attempts, rand::random()))
            .unwrap_or(SignedDuration::ZERO);
        self.failures.failed(Failure {
            action,
            identity: identity.cloned(),
            generation,
            attempts,
            not_before: Timestamp::now()
                .saturating_add(wait)
                .unwrap_or(Timestamp::MAX),
        });
    }
}

fn operation(action: &Action) -> Option<OperationAction> {
    match action {
        Action::Install { .. } => Some(OperationAction::Install),
        Action::Upgrade { .. } => Some(OperationAction::Upgrade),
        Action::Rollback { .. } => Some(OperationAction::Rollback),
        Action::Test { .. } => Some(OperationAction::Test),
        Action::Uninstall {
            failed_install: true,
            ..
        } => Some(OperationAction::RemoveFailedInstall),
        Action::Uninstall { .. } => Some(OperationAction::Uninstall),
        _ => None,
    }
}

fn revision(action: &Action) -> Option<i64> {
    match action {
        Action::Install { revision, .. }
        | Action::Upgrade { revision }
        | Action::Rollback { revision, .. }
        | Action::Test { revision }
        | Action::Uninstall { revision, .. } => Some(*revision),
        _ => None,
    }
}

/// As logs, messages and metrics say it.
fn verb(action: OperationAction) -> &'static str {
    match action {
        OperationAction::Install => "install",
        OperationAction::Upgrade => "upgrade",
        OperationAction::Rollback => "rollback",
        OperationAction::Test => "test",
        OperationAction::Uninstall | OperationAction::RemoveFailedInstall => "uninstall",
    }
}
