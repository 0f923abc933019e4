//! What checks share of sources that give whole charts and files: Helm repositories,
//! registries and URLs.

use std::collections::BTreeSet;

use tandem_shared::artifact::Packer;
use tandem_shared::clock;
use tandem_shared::manifest::{ChartName, Good};
use tandem_shared::observe::Observed;
use tandem_shared::request::{Request, Want};
use tandem_shared::source::SourceName;

use super::build::{MESSAGE, is_there, rejected};
use super::{Context, State};
use crate::credentials::Access;
use crate::metrics::Built;
use crate::snapshot::{self, SnapshotError};

/// What is known of a content beside what it is.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// The version that was chosen.
    pub(super) version: Option<String>,
    /// What the origin calls it.
    pub(super) upstream_digest: Option<String>,
    /// Names everything that went in.
    pub(super) inputs: String,
    /// What a chart calls itself.
    pub(super) chart: Option<ChartName>,
}

/// Keys of wants that have to be looked at, whatever is there of them.
#[derive(Debug, Default)]
pub(super) struct Begun<'a> {
    /// Their artifact was rightly rejected.
    pub(super) bad: BTreeSet<&'a str>,
    /// They ask for something else than before.
    pub(super) changed: BTreeSet<&'a str>,
}

/// Notes what the wants of charts ask for. Nothing if there is nothing to do before the next
/// poll.
pub(super) fn begin<'a>(
    context: &Context,
    state: &mut State,
    observed: &'a Observed<Request>,
    poll: bool,
) -> Option<Begun<'a>> {
    let wants = &observed.document.wants;
    let results = &mut state.serving.edit().results;
    let mut begun = Begun::default();
    for want in wants {
        let result = results.entry(want.key.clone()).or_default();
        let before = result.asked.replace(want.spec.clone());
        // A key that a person chose may come to stand for something else.
        if let Some(before) = before.filter(|before| *before != want.spec) {
            begun.changed.insert(want.key.as_str());
            if before.path != want.spec.path {
                // Its version says nothing about another chart.
                result.good = None;
            }
        }
    }
    if state.rejections.as_ref() != Some(&observed.digest) {
        let rejected = wants
            .iter()
            .filter(|want| rejected(context, state, &[*want]));
        begun.bad.extend(rejected.map(|want| want.key.as_str()));
    }
    if !poll
        && wants
            .iter()
            .all(|want| begun.is_settled(context, state, want))
    {
        state.rejections = Some(observed.digest.clone());
        return None;
    }
    Some(begun)
}

impl Begun<'_> {
    /// Whether there is nothing to do for a want before the next poll.
    pub(super) fn is_settled(&self, context: &Context, state: &State, want: &Want) -> bool {
        let key = want.key.as_str();
        if self.bad.contains(key) || self.changed.contains(key) {
            return false;
        }
        let result = state.serving.manifest().results.get(key);
        result.is_some_and(|result| match &result.good {
            Some(good) => is_there(context, good),
            None => result.problem.is_some(),
        })
    }
}

/// Makes the artifact of what was packed. What is as it was `before` is no news.
///
/// # Errors
/// If it can't be packed, or the volume refuses.
pub(super) fn store(
    context: &Context,
    source: &SourceName,
    packer: Packer,
    origin: Origin,
    before: Option<&Good>,
    rewrite: bool,
) -> Result<(Good, Built), SnapshotError> {
    let hold = context.inventory.hold(source);
    let stored = snapshot::store(packer, &context.config.volume.served, &hold, rewrite)?;
    let same = before.filter(|before| before.artifact == stored.digest);
    let good = Good {
        commit: None,
        version: origin.version,
        upstream_digest: origin.upstream_digest,
        artifact: stored.digest,
        same_as: Vec::new(),
        chart: origin.chart,
        resolved: Vec::new(),
        resolved_for: None,
        verified_by: None,
        inputs: origin.inputs,
        size: stored.size,
        since: same.map_or_else(clock::now, |before| before.since),
    };
    let built = match stored.written {
        true => Built::Written,
        false => Built::Same,
    };
    Ok((good, built))
}

/// A message without what is secret, of a bounded length.
pub(super) fn shown(access: &Access, message: &str) -> String {
    let text = access.redact(message);
    let text = text.chars().filter(|c| !c.is_control());
    text.take(MESSAGE).collect()
}
