//! What the sidecar counts.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tandem_shared::child::{End, Outcome};
use tandem_shared::manifest::SourceState;
use tandem_shared::source::SourceName;

/// Seconds that exchanges are sorted by.
const SECONDS: [f64; 10] = [0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0];

/// What git is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GitCommand {
    /// Asking a remote for its refs.
    List,
    /// Bringing objects in.
    Fetch,
    /// Looking at local objects.
    Read,
    /// Repacking and pruning.
    Repack,
}

impl GitCommand {
    /// Whether it speaks to a remote.
    #[must_use]
    pub fn is_exchange(self) -> bool {
        matches!(self, Self::List | Self::Fetch)
    }

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Fetch => "fetch",
            Self::Read => "read",
            Self::Repack => "repack",
        }
    }
}

/// One label with a word from a fixed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Word(&'static str);

impl EncodeLabelValue for Word {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Exchange {
    kind: Word,
    outcome: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    outcome: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BySource {
    source: String,
}

/// How a chart or file was dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Built {
    /// A new artifact was written.
    Written,
    /// Exported, and found to be what was there already.
    Same,
    /// Nothing that goes into it changed, so nothing was exported.
    Unchanged,
    /// It can't be had.
    Failed,
}

/// All counters, and the registry that shows them.
pub struct Metrics {
    registry: Registry,
    exchanges: Family<Exchange, Counter>,
    children: Family<Exchange, Counter>,
    seconds: Family<Kind, Histogram>,
    artifacts: Family<Ended, Counter>,
    checks: Family<Ended, Counter>,
    manifests: Counter,
    removed: Family<Kind, Counter>,
    up: Family<BySource, Gauge>,
    checked: Family<BySource, Gauge>,
    /// Bytes of the sidecar's mount.
    pub volume_bytes: Gauge,
    /// Sources that are wanted.
    pub sources: Gauge,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("tandem_mirror");
        let metrics = Self {
            exchanges: Family::default(),
            children: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            artifacts: Family::default(),
            checks: Family::default(),
            manifests: Counter::default(),
            removed: Family::default(),
            up: Family::default(),
            checked: Family::default(),
            volume_bytes: Gauge::default(),
            sources: Gauge::default(),
            registry: Registry::default(),
        };
        registry.register(
            "exchanges",
            "Exchanges with remotes, by kind (list and fetch of git, get of a URL, index and archive of a Helm repository, digest, tags, manifest and blob of a registry, dependency by helm) and outcome",
            metrics.exchanges.clone(),
        );
        registry.register(
            "git_children",
            "git programs run, by command and outcome",
            metrics.children.clone(),
        );
        registry.register_with_unit(
            "exchange",
            "How long exchanges with remotes took",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        registry.register(
            "artifacts",
            "Charts and files dealt with: written, same, unchanged or failed",
            metrics.artifacts.clone(),
        );
        registry.register(
            "checks",
            "Checks of sources, by outcome",
            metrics.checks.clone(),
        );
        registry.register(
            "manifests_published",
            "Manifest files written",
            metrics.manifests.clone(),
        );
        registry.register(
            "removed",
            "What nothing asked for any more and was dropped, by kind",
            metrics.removed.clone(),
        );
        registry.register(
            "source_up",
            "1 if the last check of the source went well, else 0",
            metrics.up.clone(),
        );
        registry.register(
            "source_checked_timestamp_seconds",
            "When the source's remote last answered, in Unix time",
            metrics.checked.clone(),
        );
        registry.register_with_unit(
            "volume",
            "What lies on the sidecar's mount",
            Unit::Bytes,
            metrics.volume_bytes.clone(),
        );
        registry.register(
            "sources",
            "Sources that are wanted",
            metrics.sources.clone(),
        );
        Self {
            registry,
            ..metrics
        }
    }
}

impl Metrics {
    /// Counts a git child that ended.
    pub fn git_ended(&self, command: GitCommand, outcome: &Outcome) {
        let word = match outcome.end {
            End::Exited(0) => "success",
            End::Exited(_) => "failure",
            End::TimedOut => "timeout",
            End::Cancelled => "cancelled",
        };
        let kind = Word(command.as_str());
        let labels = Exchange {
            kind,
            outcome: Word(word),
        };
        self.children.get_or_create(&labels).inc();
        if command.is_exchange() {
            self.exchanges.get_or_create(&labels).inc();
            self.seconds
                .get_or_create(&Kind { kind })
                .observe(outcome.took.as_secs_f64());
        }
    }

    /// Counts a request over HTTP: for a `list` of refs, for a file behind a URL (`get`), for the `index` or an
    /// `archive` of a Helm repository, or for the `digest` of a tag, the `tags`, a `manifest`
    /// or a `blob` of a registry, or of a `dependency` by helm: `success`, `unchanged`,
    /// `timeout` or `failure`.
    pub fn got(&self, kind: &'static str, outcome: &'static str, took: Duration) {
        let kind = Word(kind);
        let labels = Exchange {
            kind,
            outcome: Word(outcome),
        };
        self.exchanges.get_or_create(&labels).inc();
        self.seconds
            .get_or_create(&Kind { kind })
            .observe(took.as_secs_f64());
    }

    /// Counts a chart or file that was dealt with.
    pub fn built(&self, built: Built) {
        let word = match built {
            Built::Written => "written",
            Built::Same => "same",
            Built::Unchanged => "unchanged",
            Built::Failed => "failed",
        };
        self.artifacts
            .get_or_create(&Ended {
                outcome: Word(word),
            })
            .inc();
    }

    /// Counts a check that ended, and shows how its source is.
    pub fn checked(&self, source: &SourceName, state: &SourceState, at: Option<i64>) {
        let well = *state == SourceState::Ready;
        self.checks
            .get_or_create(&Ended {
                outcome: Word(if well { "success" } else { "failure" }),
            })
            .inc();
        let labels = BySource {
            source: source.to_string(),
        };
        self.up.get_or_create(&labels).set(i64::from(well));
        if let Some(at) = at {
            self.checked.get_or_create(&labels).set(at);
        }
    }

    /// Counts a manifest that was written.
    pub fn manifest_published(&self) {
        self.manifests.inc();
    }

    /// Counts what was dropped: `mirror`, `manifest` or `artifact`.
    pub fn removed(&self, kind: &'static str) {
        self.removed.get_or_create(&Kind { kind: Word(kind) }).inc();
    }

    /// Forgets a source that nothing asks for.
    pub fn forget(&self, source: &SourceName) {
        let labels = BySource {
            source: source.to_string(),
        };
        self.up.remove(&labels);
        self.checked.remove(&labels);
    }

    /// Everything, as OpenMetrics text.
    ///
    /// # Errors
    /// If it can't be put into words; that would be a fault of ours.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_shown() {
        let metrics = Metrics::default();
        metrics.built(Built::Written);
        metrics.manifest_published();
        let text = metrics.text().unwrap();
        assert!(
            text.contains("tandem_mirror_artifacts_total{outcome=\"written\"} 1"),
            "{text}"
        );
        assert!(
            text.contains("tandem_mirror_manifests_published_total 1"),
            "{text}"
        );
    }
}
