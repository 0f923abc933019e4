//! The driver of one pass.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use kube::ResourceExt;
use tandem_shared::lock::Guard;
use tokio::sync::{OwnedSemaphorePermit, SemaphorePermit, watch};
use tracing::{debug, warn};

use super::fresh::Fresh;
use super::gather::{Found, gather};
use super::plan::{Action, Decision, Failures, Reason};
use super::snapshot::Snapshot;
use super::{Again, Context, Finished, Trouble};
use crate::crd::{FormerRelease, HelmReleaseStatus, Target};
use crate::metrics::Stage;
use crate::status::{self, Draft, Subject};
use crate::storage::History;

/// Actions of one pass, at most: a plan that goes round in circles gets a breather.
const MAX_STEPS: usize = 12;

/// Brings one HelmRelease forward as far as that is possible now. `inputs` tells the newest
/// of what concerns it, also while the pass is under way.
pub async fn run(ctx: Arc<Context>, inputs: watch::Receiver<Arc<Snapshot>>) -> Finished {
    let Ok(looking) = ctx.gather_slots.acquire().await else {
        return Finished::default();
    };
    let mut pass = Pass::new(&ctx, inputs, looking);
    // Boxed: what waits for its turn above is small, and most of them wait at a start.
    Box::pin(pass.run()).await;
    pass.finished
}

/// One pass under way.
pub(super) struct Pass<'a> {
    pub(super) ctx: &'a Context,
    pub(super) inputs: watch::Receiver<Arc<Snapshot>>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) target: Target,
    pub(super) failures: Failures,
    pub(super) draft: Draft,
    /// What the pass did to the release with success, last.
    pub(super) ran: Option<String>,
    pub(super) began: Instant,
    /// What went wrong is in the log already.
    pub(super) logged: bool,
    pub(super) finished: Finished,
    /// The status before the pass.
    pub(super) before: Arc<HelmReleaseStatus>,
    /// The status as the API has it.
    pub(super) saved: HelmReleaseStatus,
    /// What is only asked for when something is to be done.
    pub(super) fresh: Option<Fresh>,
    /// While it only looks.
    pub(super) looking: Option<SemaphorePermit<'a>>,
    /// Once helm is to be run.
    pub(super) turn: Option<SemaphorePermit<'a>>,
    /// For the next helm child.
    pub(super) place: Option<OwnedSemaphorePermit>,
    pub(super) decided: Option<Decision>,
    /// The name of what was decided, also without a plan.
    pub(super) action: Option<&'static str>,
    /// Objects couldn't be annotated, and whether that may pass by itself.
    pub(super) unannotated: Option<bool>,
    /// The revision whose objects are annotated once nobody waits to be released.
    pub(super) owed: Option<i64>,
    /// Another HelmRelease has the name now.
    pub(super) replaced: bool,
    pub(super) chart: Option<Found>,
}

/// What comes after a step.
pub(super) enum Next {
    /// Another step.
    Step,
    /// The end of the pass.
    End,
}

impl<'a> Pass<'a> {
    fn new(
        ctx: &'a Context,
        mut inputs: watch::Receiver<Arc<Snapshot>>,
        looking: SemaphorePermit<'a>,
    ) -> Self {
        let snapshot = inputs.borrow_and_update().clone();
        let key = &snapshot.entry.key;
        let mut draft = Draft::new(&snapshot.status, Timestamp::now());
        if let Some(target) = &snapshot.entry.target {
            draft.forget_others(target);
            // Whose it is now, remains theirs.
            let taken =
                |former: &FormerRelease| snapshot.former_owners.contains_key(&former.target());
            draft.status.former_releases.retain(|former| !taken(former));
        }
        let target = snapshot.entry.target.clone().unwrap_or_else(|| Target {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        });
        Self {
            ctx,
            target,
            failures: snapshot.failures.clone(),
            draft,
            before: snapshot.status.clone(),
            saved: (*snapshot.status).clone(),
            ran: None,
            began: Instant::now(),
            logged: false,
            finished: Finished::default(),
            fresh: None,
            looking: Some(looking),
            turn: None,
            place: None,
            decided: None,
            action: None,
            unannotated: None,
            owed: None,
            replaced: false,
            chart: None,
            snapshot,
            inputs,
        }
    }

    async fn run(&mut self) {
        let mut end = Err(Trouble::new(
            "Unsettled",
            "the plan found no end; it is made anew later",
        ));
        for _ in 0..MAX_STEPS {
            end = match self.step().await {
                Ok(Next::Step) => continue,
                other => other.map(|_| ()),
            };
            break;
        }
        if let Err(trouble) = end {
            warn!(helmrelease = %self.key(), release = %self.target, reason = trouble.reason, "{}", trouble.message);
            self.logged = true;
            self.action.get_or_insert("Wait");
            let message = trouble.message.clone();
            self.with_subject(|draft, subject| {
                status::troubled(draft, subject, trouble.reason, &message)
            });
            self.finished.again = Again::Backoff;
        }
        self.report().await;
        self.annotate_late().await;
    }

    /// Looks, decides, and does one thing.
    async fn step(&mut self) -> Result<Next, Trouble> {
        if self.ctx.stopping.is_cancelled() {
            return Ok(Next::End);
        }
        if !self.look() {
            return Ok(Next::End);
        }
        let snapshot = self.snapshot.clone();
        let Some(release) = snapshot.entry.release() else {
            return self.unreadable().await;
        };
        if self.fresh.is_none() && snapshot.history.is_none() {
            // Nobody follows its records: there is no telling without asking.
            return self.freshen(false).await;
        }
        let known = self.fresh.as_ref().map(|fresh| &fresh.history);
        let known = known.or(snapshot.history.as_ref());
        if known.is_some_and(|known| status::missed_rollback(&self.draft.status, known)) {
            self.with_subject(status::tell_missed_rollback);
        }
        let begun = Instant::now();
        let rollbacks = self.draft.status.rollback_count.unwrap_or_default();
        let gathered = gather(
            &self.ctx.client,
            &self.ctx.artifacts,
            &snapshot,
            release,
            rollbacks,
        )
        .await;
        self.ctx.metrics.stage(Stage::gather, begun.elapsed());
        let gathered = gathered.map_err(|error| self.not_gathered(&error))?;
        self.chart.clone_from(&gathered.chart);

        let (decision, opened) = self.decide(&gathered, release).await?;
        debug!(helmrelease = %self.key(), release = %self.target, action = decision.action.kind().as_str(), reason = decision.reason.as_str(), fresh = self.fresh.is_some(), "{}", decision.message);
        self.action = Some(decision.action.kind().as_str());
        self.decided = Some(decision.clone());
        if matches!(
            decision.action,
            Action::Nothing | Action::Wait | Action::Refuse
        ) {
            self.settle(&gathered, &decision);
            self.annotate(decision.reason).await;
            if decision.reason == Reason::InSync {
                // What stands is no worse for it: the log and the list in the status tell.
                self.remove_formers().await;
            }
            return Ok(Next::End);
        }
        let runs_helm = decision.action.runs_helm();
        if self.fresh.is_none() || runs_helm && self.turn.is_none() {
            // Whatever was collected is old by the time that it is our turn.
            drop((gathered, opened));
            return self.freshen(runs_helm).await;
        }
        if decision.action == Action::RemoveFinalizer {
            return self.let_go(&decision).await;
        }
        self.act(&gathered, release, &decision, opened).await
    }

    /// Goes on with the records after an action.
    pub(super) fn saw_history(&mut self, history: History) {
        if let Some(fresh) = &mut self.fresh {
            fresh.replace(history);
        }
        self.saw_record();
    }

    pub(super) fn saw_record(&mut self) {
        let last = self.fresh.as_ref().and_then(|fresh| fresh.history.last());
        let version = last.map(|last| last.resource_version.clone());
        self.finished.seen_record = Some(version.unwrap_or_default());
    }

    pub(super) fn history(&self) -> History {
        let fresh = self.fresh.as_ref();
        fresh.map(|fresh| fresh.history.clone()).unwrap_or_default()
    }

    pub(super) fn lock(&self) -> Option<Arc<Guard>> {
        self.fresh.as_ref()?.lock.clone()
    }

    /// Takes the newest of what concerns the HelmRelease. A release of another name, or a
    /// HelmRelease that only bears the name of the one that is gone, is another pass.
    pub(super) fn look(&mut self) -> bool {
        let snapshot = self.inputs.borrow_and_update().clone();
        let (old, new) = (&self.snapshot.entry, &snapshot.entry);
        self.replaced = old.object.uid() != new.object.uid();
        let same = !self.replaced && old.target == new.target;
        if same {
            self.snapshot = snapshot;
        }
        same
    }

    pub(super) fn key(&self) -> String {
        self.snapshot.entry.key.to_string()
    }

    /// Writes into the draft.
    pub(super) fn with_subject(&mut self, write: impl FnOnce(&mut Draft, &Subject<'_>)) {
        let ignore_test_failures = self
            .snapshot
            .entry
            .release()
            .is_some_and(|release| release.spec.test().ignore_failures());
        let wish = self.snapshot.entry.wish.as_ref().ok();
        let origin = wish.map(|wish| wish.chart.origin());
        let subject = Subject {
            generation: self.snapshot.entry.generation(),
            target: &self.target,
            chart: self.chart.as_ref().map(|chart| chart.revision.as_str()),
            origin: origin.as_deref(),
            dependencies: self
                .chart
                .as_ref()
                .and_then(|chart| chart.dependencies.as_ref()),
            ignore_test_failures,
        };
        self.draft.tick(Timestamp::now());
        write(&mut self.draft, &subject);
    }
}
