//! What is known of a release, and what the plan makes of it.

use std::time::Instant;

use jiff::Timestamp;

use super::Trouble;
use super::artifacts::Opened;
use super::facts::{self, Asked, Wanted};
use super::gather::Gathered;
use super::pass::Pass;
use super::plan::{Decision, Need, Observed, TestResult, needs, plan};
use crate::crd::HelmRelease;
use crate::metrics::Stage;

impl Pass<'_> {
    /// Decides what to do next, on what is known and what has to be learned for it. What was
    /// opened of the chart meanwhile need not be opened again.
    pub(super) async fn decide(
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

    /// What is known so far.
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
}
