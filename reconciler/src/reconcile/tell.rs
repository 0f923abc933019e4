//! How a pass tells what became of it.

use std::sync::Arc;
use std::time::Instant;

use tandem_shared::decision;
use tandem_shared::version::Document;
use tracing::warn;

use super::Again;
use super::pass::Pass;
use super::plan::{Reason, whole_seconds};
use super::report::ReportError;
use super::snapshot::SourceView;
use crate::crd::ConditionType;
use crate::demand::SourceWish;
use crate::metrics::Stage;
use crate::status::{self, Obstacle};
use crate::storage::History;

impl Pass<'_> {
    /// Writes the draft to the API.
    pub(super) async fn save(&mut self) -> Result<(), ReportError> {
        let key = &self.snapshot.entry.key;
        if let Some(version) = self
            .ctx
            .reporter
            .status(key, &self.saved, &self.draft.status)
            .await?
        {
            self.saved = self.draft.status.clone();
            self.finished.written = Some((Arc::new(self.saved.clone()), version));
        }
        Ok(())
    }

    /// Tells everybody what became of it.
    pub(super) async fn report(&mut self) {
        let begun = Instant::now();
        // The next one need not wait until this is written.
        self.place = None;
        self.turn = None;
        let entry = self.snapshot.entry.clone();
        if self.replaced {
            return;
        }
        if let Some(release) = entry.release() {
            status::ignored(&mut self.draft, release, self.ctx.engine.major());
        }
        if !entry.is_suspended() {
            status::resumed(&mut self.draft);
        }
        if !self.is_fetching() {
            let requested = entry.requested_at().cloned();
            self.draft.status.last_handled_reconcile_at = requested;
        }
        // First: whoever reads of it in the API finds it on the volume, too.
        if let Some(action) = self.action
            && (!entry.is_deleting() || entry.has_finalizer())
        {
            let decision = self.decision(action);
            let reporter = self.ctx.reporter.clone();
            tokio::task::block_in_place(|| reporter.decision(&decision));
        }
        match self.save().await {
            Ok(()) => {
                self.ctx.metrics.conditions(&self.target, &self.saved);
                if let Some(told) =
                    status::event(&self.before, &self.saved, &self.target, self.ran.as_deref())
                {
                    if told.warning && !self.logged {
                        warn!(helmrelease = %entry.key, release = %self.target, reason = %told.action, "{}", told.note);
                    }
                    self.ctx.reporter.event(&entry, &told).await;
                }
            }
            // Its last step was to let it go.
            Err(ReportError::Gone(_)) => {}
            Err(error) => {
                warn!(helmrelease = %entry.key, "{error}");
                self.finished.again = Again::Backoff;
            }
        }
        self.finished.failures = self.failures.clone();
        self.ctx.metrics.stage(Stage::report, begun.elapsed());
        let failed = self
            .saved
            .condition(ConditionType::Ready)
            .is_some_and(|ready| ready.status == "False");
        self.ctx
            .metrics
            .action("sync", !failed, &self.target, self.began.elapsed());
    }

    /// Whether nothing could be decided for want of the source's answer.
    fn is_fetching(&self) -> bool {
        let reason = self.decided.as_ref().map(|decided| decided.reason);
        reason == Some(Reason::Blocked(Obstacle::FETCHING))
    }

    pub(super) fn decision(&self, action: &str) -> decision::Decision {
        let entry = &self.snapshot.entry;
        let ready = self.draft.status.condition(ConditionType::Ready);
        let is_ready = ready.is_some_and(|ready| ready.status == "True");
        let text = |text: Option<&String>| text.cloned().unwrap_or_default();
        let reason = self.decided.as_ref().map(|decided| decided.reason);
        let known =
            ready.filter(|ready| ready.status != "Unknown" && reason != Some(Reason::Suspended));
        let (reason, message) = match (known, &self.decided) {
            (Some(ready), _) => (text(ready.reason.as_ref()), text(ready.message.as_ref())),
            (None, Some(decided)) => (decided.reason.as_str().to_owned(), decided.message.clone()),
            (None, None) => (String::new(), String::new()),
        };
        let history = self
            .fresh
            .as_ref()
            .map(|fresh| &fresh.history)
            .or(self.snapshot.history.as_ref());
        let wish = entry.wish.as_ref().ok();
        let chart = wish.map(|wish| &wish.chart);
        let others = self
            .decided
            .as_ref()
            .is_some_and(|decided| decided.reason == Reason::OwnedByOther);
        decision::Decision {
            schema: decision::Decision::current_schema(),
            helm_release: entry.key.to_ref(),
            generation: entry.generation(),
            release: decision::ObjectRef {
                namespace: self.target.namespace.clone(),
                name: self.target.name.clone(),
            },
            source: chart.map(|chart| chart.name.to_string()),
            wants: chart.map(SourceWish::keys).unwrap_or_default(),
            values_sources: values_sources(&self.snapshot.source),
            artifact: self.chart.as_ref().map(|chart| chart.artifact.clone()),
            chart_revision: self.chart.as_ref().map(|chart| chart.revision.clone()),
            verified_by: self
                .chart
                .as_ref()
                .and_then(|chart| chart.verified_by.clone()),
            released: self.draft.status.revision.clone(),
            action: action.to_owned(),
            reason,
            message,
            ready: is_ready,
            revision: history
                .filter(|_| !others)
                .and_then(History::last)
                .and_then(|last| u32::try_from(last.revision).ok()),
            failures: self.failures.most(),
            next_attempt: self
                .decided
                .as_ref()
                // What is only looked for every few seconds has no time worth writing down.
                .filter(|decided| {
                    matches!(decided.reason, Reason::Backoff | Reason::ForeignOperation)
                })
                .and_then(|decided| decided.until)
                .filter(|_| !is_ready)
                .map(whole_seconds),
            at: self.draft.now(),
        }
    }
}

/// The values files that don't move with the chart, and what there is of them.
fn values_sources(source: &SourceView) -> Vec<decision::ValuesSource> {
    let SourceView::Wants(wants) = source else {
        return Vec::new();
    };
    let apart = wants
        .files
        .iter()
        .filter(|(_, file)| !file.place.with_chart);
    let told = apart.map(|(name, file)| decision::ValuesSource {
        file: name.to_string(),
        source: file.place.source.to_string(),
        want: file.place.key.clone(),
        commit: file.view.good().and_then(|good| good.commit.clone()),
        artifact: file.view.good().map(|good| good.artifact.clone()),
    });
    told.collect()
}
