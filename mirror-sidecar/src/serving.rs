//! The manifest of one source: in memory, and as it was last published.
//!
//! Only what means something to a reader raises the sequence. When the remote
//! last answered is shown as well, but a check alone writes it at most every
//! ten minutes: each write wakes the reconciler.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tandem_shared::layout::Served;
use tandem_shared::manifest::{Failure, Manifest, Reason, SourceState};
use tandem_shared::observe::{self, ObserveError};
use tandem_shared::publish::{self, PublishError};
use tandem_shared::source::Source;
use tandem_shared::version::Document;

/// Results that finish within this time of a publish wait for the next.
const COALESCE: Duration = Duration::from_millis(100);
/// How old the published number of failed attempts may get.
const ATTEMPTS_AGE: Duration = Duration::from_secs(20);
/// How old the published time of the last answer may get.
const CHECKED_AT_AGE: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);

/// The manifest of one source.
#[derive(Debug)]
pub struct Serving {
    path: PathBuf,
    manifest: Manifest,
    published: Option<Manifest>,
    published_at: Option<Instant>,
}

impl Serving {
    /// Takes up what a predecessor served of `source`, or begins anew.
    #[must_use]
    pub fn take_up(served: &Served, source: &Source) -> Self {
        let path = served.manifest(&source.name());
        let found = match observe::manifest(&path, source) {
            Ok(observed) => Some(observed.document),
            Err(ObserveError::Missing(_)) => None,
            Err(error) => {
                tracing::warn!(source = %source.name(), %error, "a manifest that isn't read is begun anew");
                None
            }
        };
        let manifest = found.clone().unwrap_or_else(|| begin(source));
        Self {
            path,
            manifest,
            published: found,
            published_at: None,
        }
    }

    /// What is served.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What shall be served, for changes. They are published by [`Serving::publish`].
    pub fn edit(&mut self) -> &mut Manifest {
        &mut self.manifest
    }

    /// Records that the source can't be checked.
    pub fn fail(&mut self, reason: Reason, message: String, next: Duration, now: Timestamp) {
        let before = self.manifest.failure.take();
        let attempts = before
            .as_ref()
            .map_or(0, |failure| failure.attempts)
            .saturating_add(1);
        let since = before.map_or(now, |failure| failure.since);
        let next_attempt = now.checked_add(next).unwrap_or(now);
        self.manifest.state = SourceState::Failing;
        self.manifest.failure = Some(Failure {
            reason,
            message,
            since,
            attempts,
            next_attempt,
        });
    }

    /// Records when what has a problem is looked at again.
    pub fn looked_at_again(&mut self, next: Duration, now: Timestamp) {
        for result in self.manifest.results.values_mut() {
            let next_attempt = now.checked_add(next).unwrap_or(now);
            result.next_attempt = result.problem.as_ref().map(|_| next_attempt);
        }
    }

    /// Whether attempts were made of which people don't know yet. Those that
    /// follow one another quickly are told together.
    fn tells_of_attempts(&self, published: &Manifest) -> bool {
        let attempts = |manifest: &Manifest| -> Vec<Option<Timestamp>> {
            let results = manifest.results.values();
            results.map(|result| result.next_attempt).collect()
        };
        let made = published.failure != self.manifest.failure
            || attempts(published) != attempts(&self.manifest);
        made && self
            .published_at
            .is_none_or(|at| at.elapsed() >= ATTEMPTS_AGE)
    }

    /// Publishes, unless that was done a moment ago; then the next call does.
    ///
    /// # Errors
    /// If the volume refuses.
    pub fn publish_soon(&mut self, now: Timestamp) -> Result<bool, PublishError> {
        if self.published_at.is_some_and(|at| at.elapsed() < COALESCE) {
            return Ok(false);
        }
        self.publish(now)
    }

    /// Publishes what changed. Says whether a file was written.
    ///
    /// # Errors
    /// If the volume refuses; what is there stays.
    pub fn publish(&mut self, now: Timestamp) -> Result<bool, PublishError> {
        match &self.published {
            Some(published) => {
                let means_something = timeless(published) != timeless(&self.manifest);
                if means_something {
                    self.manifest.sequence = published.sequence.wrapping_add(1);
                    self.manifest.changed_at = Some(now);
                } else if !is_stale(published, &self.manifest)
                    && !self.tells_of_attempts(published)
                    // Whoever empties a volume by hand takes the manifests, too.
                    && self.path.exists()
                {
                    return Ok(false);
                }
            }
            None => self.manifest.changed_at = Some(now),
        }
        let written = publish::json(&self.path, &self.manifest)?;
        self.published = Some(self.manifest.clone());
        self.published_at = Some(Instant::now());
        Ok(written)
    }
}

fn begin(source: &Source) -> Manifest {
    Manifest {
        schema: Manifest::current_schema(),
        name: source.name().to_string(),
        source: source.redacted(),
        epoch: data_encoding::HEXLOWER.encode(&rand::random::<[u8; 8]>()),
        sequence: 1,
        observed_request: None,
        handled_refresh: String::new(),
        state: SourceState::Pending,
        checked_at: None,
        interval_seconds: None,
        changed_at: None,
        refs: std::collections::BTreeMap::new(),
        results: std::collections::BTreeMap::new(),
        failure: None,
    }
}

/// `manifest` without what a mere check changes.
fn timeless(manifest: &Manifest) -> Manifest {
    let mut manifest = manifest.clone();
    manifest.sequence = 0;
    manifest.checked_at = None;
    manifest.changed_at = None;
    if let Some(failure) = &mut manifest.failure {
        failure.attempts = 0;
        failure.next_attempt = Timestamp::UNIX_EPOCH;
    }
    for result in manifest.results.values_mut() {
        // That there is one counts; when it is does not.
        result.next_attempt = result.next_attempt.map(|_| Timestamp::UNIX_EPOCH);
    }
    manifest
}

fn is_stale(published: &Manifest, manifest: &Manifest) -> bool {
    match (published.checked_at, manifest.checked_at) {
        (Some(before), Some(now)) => now.duration_since(before) >= CHECKED_AT_AGE,
        (before, now) => before != now,
    }
}

#[cfg(test)]
mod tests {
    use tandem_shared::layout::Volume;
    use tandem_shared::manifest::Problem;
    use tandem_shared::publish::Audience;
    use tandem_shared::source::SourceKind;

    use super::*;

    #[test]
    fn a_mere_check_writes_nothing_and_a_change_raises_the_sequence() {
        let folder = tempfile::tempdir().unwrap();
        let served = Volume::at(folder.path()).served;
        publish::folder(&served.manifests(), Audience::Group).unwrap();
        let source = Source {
            kind: SourceKind::Git,
            url: "https://u:p@h/r".into(),
            credential: None,
        };
        let mut serving = Serving::take_up(&served, &source);
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let minutes = |count: i64| start + jiff::SignedDuration::from_mins(count);

        serving.edit().checked_at = Some(start);
        assert!(serving.publish(start).unwrap());
        let first = serving.manifest().sequence;
        serving.edit().checked_at = Some(minutes(9));
        assert!(!serving.publish(minutes(9)).unwrap());
        serving.edit().checked_at = Some(minutes(10));
        assert!(serving.publish(minutes(10)).unwrap());
        assert_eq!(serving.manifest().sequence, first);

        serving.fail(
            Reason::Unreachable,
            "gone".into(),
            Duration::from_secs(5),
            minutes(11),
        );
        assert!(serving.publish(minutes(11)).unwrap());
        assert_eq!(serving.manifest().sequence, first + 1);
        serving.fail(
            Reason::Unreachable,
            "gone".into(),
            Duration::from_secs(9),
            minutes(12),
        );
        assert!(!serving.publish(minutes(12)).unwrap());
        serving.published_at = None;
        assert!(serving.publish(minutes(12)).unwrap());
        let failure = serving.manifest().failure.clone().unwrap();
        assert_eq!(
            (serving.manifest().sequence, failure.attempts, failure.since),
            (first + 1, 2, minutes(11))
        );

        // A successor goes on where we ended; the password is nowhere.
        let again = Serving::take_up(&served, &source);
        assert_eq!(again.manifest(), serving.manifest());
        assert_eq!(again.manifest().source.url, "https://h/r");
    }

    #[test]
    fn a_want_with_a_problem_tells_when_it_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let served = Volume::at(folder.path()).served;
        publish::folder(&served.manifests(), Audience::Group).unwrap();
        let source = Source {
            kind: SourceKind::Git,
            url: "https://h/r".into(),
            credential: None,
        };
        let mut serving = Serving::take_up(&served, &source);
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let minutes = |count: i64| start + jiff::SignedDuration::from_mins(count);
        let result = serving.edit().results.entry("k".into()).or_default();
        result.problem = Some(Problem {
            reason: Reason::PathNotFound,
            message: "no such path".into(),
            since: start,
            commit: None,
        });
        assert!(serving.publish(start).unwrap());
        let next = |serving: &Serving| serving.manifest().results["k"].next_attempt;

        // The first time is told at once, a later one with what else is told by and by.
        serving.looked_at_again(Duration::from_secs(300), start);
        assert!(serving.publish(start).unwrap());
        let sequence = serving.manifest().sequence;
        serving.looked_at_again(Duration::from_secs(300), minutes(5));
        assert!(!serving.publish(minutes(5)).unwrap());
        serving.published_at = None;
        assert!(serving.publish(minutes(5)).unwrap());
        assert_eq!(next(&serving), Some(minutes(10)));
        assert_eq!(serving.manifest().sequence, sequence);

        let result = serving.edit().results.entry("k".into()).or_default();
        result.problem = None;
        serving.looked_at_again(Duration::from_secs(300), minutes(10));
        assert!(serving.publish(minutes(10)).unwrap());
        assert_eq!(next(&serving), None);
    }
}
