//! Wants that move together, or not at all, and what is said when they don't.

use std::collections::BTreeMap;

use git2::Oid;
use jiff::Timestamp;
use tandem_shared::clock;
use tandem_shared::manifest::{Good, Problem, Reason, WantResult};
use tandem_shared::request::{Request, Want};

use super::{Context, State};
use crate::metrics::Built;

/// Why one want can't be had.
pub(super) struct Trouble {
    pub(super) reason: Reason,
    pub(super) message: String,
    pub(super) commit: Option<Oid>,
    /// Whether only another commit or version can mend it.
    pub(super) lasting: bool,
}

/// What came of the want of a versioned chart.
pub(super) type Outcome = Result<(Good, Built), Trouble>;

/// The wants of a request by group. One without a group is one by itself.
pub(super) fn groups(request: &Request) -> BTreeMap<&str, Vec<&Want>> {
    let mut groups: BTreeMap<&str, Vec<&Want>> = BTreeMap::new();
    for want in &request.wants {
        let group = if want.group.is_empty() {
            &want.key
        } else {
            &want.group
        };
        groups.entry(group).or_default().push(want);
    }
    groups
}

/// The groups in the order in which to deal with them where each costs a server's time: what
/// could not be had before comes last, so that it keeps nothing waiting.
pub(super) fn in_turn<'a>(state: &State, request: &'a Request) -> Vec<Vec<&'a Want>> {
    let results = &state.serving.manifest().results;
    let troubled = |want: &&Want| {
        let result = results.get(&want.key);
        result.is_some_and(|result| result.problem.is_some())
    };
    let mut groups: Vec<_> = groups(request).into_values().collect();
    groups.sort_by_key(|wants| wants.iter().any(troubled));
    groups
}

/// What is said of the others of a group of which `want` can't be had.
pub(super) fn held_back(want: &Want, trouble: &Trouble) -> String {
    format!(
        "{:?} of the same HelmRelease can't be had ({}), so nothing of it moves",
        want.spec.path, trouble.reason
    )
}

/// Puts what is wrong with a want beside what is good of it.
pub(super) fn blame(result: &mut WantResult, trouble: Trouble, now: Timestamp) {
    let since = match &result.problem {
        Some(before) if before.reason == trouble.reason => before.since,
        _ => now,
    };
    let commit = trouble.commit.map(|commit| commit.to_string());
    result.problem = Some(Problem {
        reason: trouble.reason,
        message: trouble.message,
        since,
        commit,
    });
}

/// Puts the results of a group of versioned charts into the manifest: all of them, or why
/// none. Notes what may go better in a moment.
pub(super) fn conclude(context: &Context, state: &mut State, outcomes: Vec<(&Want, Outcome)>) {
    let cause = outcomes.iter().find_map(|(want, outcome)| {
        let trouble = outcome.as_ref().err()?;
        Some(held_back(want, trouble))
    });
    let now = clock::now();
    for (want, outcome) in outcomes {
        let results = &mut state.serving.edit().results;
        let result = results.entry(want.key.clone()).or_default();
        let (built, trouble) = match (outcome, &cause) {
            (Ok((good, built)), None) => {
                if built == Built::Written {
                    tracing::info!(source = %state.name, want = %want.key, chart = %want.spec.path, version = good.version.as_deref(), digest = %good.artifact, "built an artifact");
                }
                result.good = Some(good);
                result.problem = None;
                (built, None)
            }
            (Ok(_), Some(message)) => {
                let trouble = Trouble {
                    reason: Reason::GroupHeldBack,
                    message: message.clone(),
                    commit: None,
                    lasting: true,
                };
                (Built::Failed, Some(trouble))
            }
            (Err(trouble), _) => (Built::Failed, Some(trouble)),
        };
        context.metrics.built(built);
        if let Some(trouble) = trouble {
            if !trouble.lasting {
                state.again = Some(trouble.reason.clone());
            }
            blame(result, trouble, now);
        }
    }
}
