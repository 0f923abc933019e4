//! For whom an object was released: an annotation on it names the HelmRelease, as
//! helm-operator's does.
//!
//! `status.annotatedRevision` remembers the revision whose objects all bear it. It is written
//! with the status at the end of a pass, so that whatever ends a pass before that leaves the
//! objects owed, and the next pass annotates them.

use tracing::warn;

use super::Again;
use super::pass::Pass;
use super::plan::Reason;
use super::release::Annotations;
use super::report::ReportError;
use crate::releases::Key;
use crate::storage::RecordState;

/// What separates namespace and name in the annotation's value.
const KIND: &str = ":helmrelease/";

/// The annotation's value for a HelmRelease.
pub(super) fn value(owner: &Key) -> String {
    format!("{}{KIND}{}", owner.namespace, owner.name)
}

/// The HelmRelease that the annotation's value names, if it does.
pub(super) fn parse(value: &str) -> Option<Key> {
    let (namespace, name) = value.split_once(KIND)?;
    let word = |word: &str| !word.is_empty() && !word.contains(['/', ':']);
    (word(namespace) && word(name)).then(|| Key {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

impl Pass<'_> {
    /// Annotates the objects of what stands, unless they are known to be annotated. What was
    /// tried in this pass isn't tried again in it.
    pub(super) async fn annotate(&mut self, decided: Reason) {
        // Of anything else, nobody said that it is this HelmRelease's.
        if !matches!(
            decided,
            Reason::InSync | Reason::RolledBack | Reason::TestFailed
        ) {
            return;
        }
        if self.unannotated.is_none() {
            let history = self.observe().history;
            let last = history.last();
            let Some(last) = last.filter(|last| last.state == RecordState::Deployed) else {
                return;
            };
            if self.draft.status.annotated_revision == Some(last.revision) {
                return;
            }
            if self.others_wait() {
                // Releases come first.
                self.owed = Some(last.revision);
                return;
            }
            self.annotate_all(last.revision).await;
        }
        if self.unannotated == Some(true) {
            self.again(Again::Backoff);
        }
    }

    async fn annotate_all(&mut self, revision: i64) {
        let owner = &self.snapshot.entry.key;
        let engine = &self.ctx.engine;
        let annotations = engine.annotate(&self.target, revision, owner).await;
        self.note_annotations(annotations);
    }

    /// Annotates what was put off while others waited, after the report, once nobody waits any
    /// more. If something changes meanwhile, that is left to the pass that follows.
    pub(super) async fn annotate_late(&mut self) {
        let Some(revision) = self.owed.take() else {
            return;
        };
        self.looking = None;
        let _alone = tokio::select! {
            _ = self.inputs.changed() => return,
            () = self.ctx.stopping.cancelled() => return,
            alone = self.ctx.queue.after_all() => alone,
        };
        self.annotate_all(revision).await;
        if self.unannotated == Some(true) {
            self.again(Again::Backoff);
        }
        match self.save().await {
            Ok(()) | Err(ReportError::Gone(_)) => {}
            Err(error) => {
                warn!(helmrelease = %self.key(), "{error}");
                self.again(Again::Backoff);
            }
        }
    }

    /// Takes note of what came of annotating. The release is none the worse if it failed.
    pub(super) fn note_annotations(&mut self, annotations: Annotations) {
        match annotations {
            Annotations::Untried => {}
            Annotations::All { revision, written } => {
                self.ctx.metrics.annotated(written);
                self.draft.status.annotated_revision = Some(revision);
            }
            Annotations::Partly {
                written,
                why,
                may_pass,
            } => {
                self.ctx.metrics.annotated(written);
                self.unannotated = Some(may_pass);
                warn!(helmrelease = %self.key(), release = %self.target, "not every object is annotated with its HelmRelease, which is tried again: {why}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_value_is_the_one_of_helm_operator() {
        let key = Key {
            namespace: "demo".into(),
            name: "web.v1".into(),
        };
        assert_eq!(value(&key), "demo:helmrelease/web.v1");
        assert_eq!(parse(&value(&key)), Some(key));
    }

    #[test]
    fn what_names_no_helmrelease_is_nobodys() {
        for value in [
            "",
            "demo",
            "demo:helmrelease/",
            ":helmrelease/web",
            "demo:deployment/web",
            "demo:helmrelease/web/x",
            "a:b:helmrelease/web",
        ] {
            assert_eq!(parse(value), None, "{value}");
        }
    }
}
