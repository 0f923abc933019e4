//! The driver of one pass.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use kube::ResourceExt;
use tandem_shared::artifact::Digest;
use tandem_shared::lock::Guard;
use tokio::sync::{OwnedSemaphorePermit, SemaphorePermit, watch};
use tracing::{debug, info, warn};

use super::artifacts::Opened;
use super::facts::{self, Asked, Wanted};
use super::former::Formers;
use super::fresh::Fresh;
use super::gather::{Gathered, gather};
use super::layers::LayersError;
use super::plan::{Action, Decision, Failures, Need, Observed, Reason, TestResult, needs, plan};
use super::report::ReportError;
use super::snapshot::{Snapshot, SourceView};
use super::{Again, Context, Finished, Trouble};
use crate::crd::{FormerRelease, HelmRelease, HelmReleaseStatus, Target};
use crate::metrics::Stage;
use crate::status::{self, Draft, ObstacleKind, Subject};
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
    /// Another HelmRelease has the name now.
    pub(super) replaced: bool,
    pub(super) chart: Option<(String, Digest)>,
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

    async fn decide(
        &mut self,
        gathered: &Gathered,
        release: &HelmRelease,
    ) -> Result<(Decision, Option<Opened>), Trouble> {
        let begun = Instant::now();
        let mut observed = self.observe();
        let mut opened = None;
        while let Some(need) = needs(&observed, &gathered.desired) {
            if self.fresh.is_none() {
                // The watch doesn't tell enough; whether helm is needed isn't known yet.
                self.freshen(false).await?;
                observed = self.observe();
                continue;
            }
            if let (Need::Content(_), None, Some(material)) = (need, &opened, &gathered.material) {
                opened = Some(self.open(material, None).await?);
            }
            let Some(fresh) = &mut self.fresh else { break };
            let directory = opened.as_ref().map(Opened::chart);
            let wanted = directory.as_deref().zip(gathered.material.as_ref());
            let wanted = wanted.map(|(chart, material)| Wanted {
                chart,
                values: &material.values,
                reset_values: release.spec.reset_values(),
            });
            let asked = Asked {
                store: self.ctx.engine.store(),
                objects: self.ctx.engine.objects(),
                client: &self.ctx.client,
                followed: self.ctx.namespace.as_deref(),
                target: &self.target,
                history: &fresh.history,
            };
            facts::learn(need, asked, wanted, &mut fresh.facts)
                .await
                .map_err(|error| Trouble::new("StorageFailed", error))?;
            observed.facts = fresh.facts.clone();
        }
        let decision = plan(&observed, &gathered.desired);
        self.ctx.metrics.stage(Stage::plan, begun.elapsed());
        Ok((decision, opened))
    }

    pub(super) fn observe(&self) -> Observed {
        let status = &self.draft.status;
        let mut observed = Observed {
            now: Timestamp::now(),
            operation: status
                .operation
                .clone()
                .map(|operation| operation.seen_by(&self.ctx.process)),
            last_test: status.last_test.as_ref().map(|test| TestResult {
                revision: test.revision,
                succeeded: test.succeeded,
            }),
            tried: status.has_tried(),
            on_trial: status.last_attempted_revision.is_some() && status.revision.is_none(),
            failures: self.failures.clone(),
            owner: self.snapshot.owner.clone(),
            ..Observed::default()
        };
        match (&self.fresh, &self.snapshot.history) {
            (Some(fresh), _) => {
                observed.history = fresh.history.clone();
                observed.facts = fresh.facts.clone();
                observed.child_alive = fresh.lock.is_none();
                observed.namespace = fresh.namespace;
                observed.definition_deleting = fresh.definition_deleting;
                observed.terminating = fresh.terminating.clone();
            }
            (None, Some(known)) => observed.history = known.clone(),
            (None, None) => {}
        }
        observed
    }

    fn settle(&mut self, gathered: &Gathered, decision: &Decision) {
        let obstacle = gathered.obstacle.as_ref();
        let fetching = obstacle.is_some_and(|obstacle| obstacle.kind == ObstacleKind::Fetching);
        // Most charts are there in a moment; only a longer wait is worth telling.
        if fetching && !self.snapshot.long_awaited {
            self.action = None;
        } else {
            self.with_subject(|draft, subject| status::settled(draft, subject, decision, obstacle));
        }
        self.finished.again = match decision.until {
            Some(until) => Again::At(until),
            None if fetching => Again::Awaiting,
            None if gathered.retry => Again::Backoff,
            None => Again::Resync,
        };
    }

    /// A HelmRelease that can't be read: nothing of it is known but its metadata.
    async fn unreadable(&mut self) -> Result<Next, Trouble> {
        let entry = self.snapshot.entry.clone();
        let SourceView::Unclear(unclear) = &self.snapshot.source else {
            return Ok(Next::End);
        };
        if entry.is_deleting() && entry.is_abandoning() {
            return self.finalizer(false).await.map(|()| Next::End);
        }
        let message = unclear.to_string();
        self.action = Some("Refuse");
        self.with_subject(|draft, subject| status::refuse(draft, subject, "InvalidSpec", &message));
        Ok(Next::End)
    }

    async fn let_go(&mut self, decision: &Decision) -> Result<Next, Trouble> {
        if !matches!(
            decision.reason,
            Reason::DefinitionDeleted | Reason::Abandoned
        ) {
            match self.remove_formers().await {
                Formers::Gone => {}
                Formers::Ending => return Ok(Next::End),
                Formers::Left(why) => {
                    status::retrying(&mut self.draft, "FormerRelease", &why);
                    return Ok(Next::End);
                }
            }
        }
        let entry = self.snapshot.entry.clone();
        if entry.has_finalizer() {
            self.finalizer(false).await?;
            info!(helmrelease = %entry.key, release = %self.target, action = "RemoveFinalizer", "{}", decision.message);
        }
        if self.lock().is_some() {
            self.remove_lock(&self.target);
        }
        self.finished.again = Again::Resync;
        Ok(Next::End)
    }

    /// Makes our finalizer hold the HelmRelease, or let it go.
    pub(super) async fn finalizer(&mut self, hold: bool) -> Result<(), Trouble> {
        match self
            .ctx
            .reporter
            .finalizer(&self.snapshot.entry, hold)
            .await
        {
            Ok(()) => Ok(()),
            Err(ReportError::Gone(_)) if !hold => Ok(()),
            Err(error) => Err(Trouble::new("ApiFailed", error)),
        }
    }

    fn not_gathered(&mut self, error: &LayersError) -> Trouble {
        if let LayersError::Artifact(artifact) = error
            && let Some(digest) = artifact.rejected()
            && let SourceView::Wants(wants) = &self.snapshot.source
        {
            let files = wants.files.values();
            let files = files.map(|(want, view)| (&wants.name, want, view));
            let urls = wants.urls.values();
            let urls = urls.map(|file| (&file.source, &file.key, &file.view));
            for (source, want, view) in files.chain(urls) {
                if view.good().is_some_and(|good| good.artifact == *digest) {
                    self.finished
                        .rejected
                        .push((source.clone(), want.clone(), digest.clone()));
                }
            }
        }
        Trouble::new("GatherFailed", error)
    }

    /// Writes into the draft.
    pub(super) fn with_subject(&mut self, write: impl FnOnce(&mut Draft, &Subject<'_>)) {
        let ignore_test_failures = self
            .snapshot
            .entry
            .release()
            .is_some_and(|release| release.spec.test().ignore_failures());
        let subject = Subject {
            generation: self.snapshot.entry.generation(),
            target: &self.target,
            chart: self.chart.as_ref().map(|(revision, _)| revision.as_str()),
            ignore_test_failures,
        };
        self.draft.tick(Timestamp::now());
        write(&mut self.draft, &subject);
    }
}
