//! How a pass ends without an action on its release.

use tracing::info;

use super::former::Formers;
use super::gather::Gathered;
use super::layers::LayersError;
use super::pass::{Next, Pass};
use super::plan::{Decision, Reason};
use super::report::ReportError;
use super::snapshot::{FileView, SourceView};
use super::{Again, Trouble};
use crate::status::{self, ObstacleKind};

impl Pass<'_> {
    /// Nothing is to be done, for now or for good.
    pub(super) fn settle(&mut self, gathered: &Gathered, decision: &Decision) {
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
    pub(super) async fn unreadable(&mut self) -> Result<Next, Trouble> {
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

    /// The HelmRelease may go, and its former releases first.
    pub(super) async fn let_go(&mut self, decision: &Decision) -> Result<Next, Trouble> {
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

    /// Notes which artifacts aren't what their names say.
    pub(super) fn not_gathered(&mut self, error: &LayersError) -> Trouble {
        if let LayersError::Artifact(artifact) = error
            && let Some(digest) = artifact.rejected()
            && let SourceView::Wants(wants) = &self.snapshot.source
        {
            for FileView { place, view } in wants.files.values() {
                if view.good().is_some_and(|good| good.artifact == *digest) {
                    self.finished.rejected.push((
                        place.source.clone(),
                        place.key.clone(),
                        digest.clone(),
                    ));
                }
            }
        }
        Trouble::new("GatherFailed", error)
    }
}
