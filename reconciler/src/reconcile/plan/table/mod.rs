//! The table of the plan, row by row: a situation, and the one action that it leads to.
//!
//! Rows are data: a test checks every one against [`plan`](super::plan()), and
//! [`page`](super::page) shows them to people.

mod gates;
mod recovery;
mod releases;
mod rollbacks;
mod situation;

pub(super) use situation::{Label, MISSING, Row, WRONG, wanted, when};
#[cfg(test)]
pub(super) use situation::{Situation, now};

/// Rows that belong to one state of a release.
pub(super) struct Group {
    /// The state, in few words.
    pub(super) title: &'static str,
    /// What its rows have in common.
    pub(super) about: &'static str,
    pub(super) rows: Vec<Row>,
}

/// All rows, in the order of the decision.
pub(super) fn groups() -> Vec<Group> {
    let group = |title, about, rows| Group { title, about, rows };
    vec![
        group(
            "Before anything else",
            "This decides whatever Helm's records say.",
            gates::gates(),
        ),
        group(
            "The HelmRelease is being deleted",
            "Its finalizer holds it until the release is gone.",
            gates::deleting(),
        ),
        group(
            "Another HelmRelease's objects",
            "A release that this HelmRelease didn't have so far, or that bears no label of ours \
             by now, may be that of a HelmRelease outside of `--allow-namespace`. Its objects \
             are annotated for it, and it is there and asks for that release.",
            gates::held(),
        ),
        group(
            "No release",
            "There is no record, or the last one says that the release was uninstalled.",
            releases::without_release(),
        ),
        group(
            "An operation is pending",
            "The last record says that an operation is under way. One of ours is dead: were \
             it alive, it would hold the release lock. Somebody else's is given time first.",
            recovery::dead_or_alive(),
        ),
        group(
            "Being uninstalled, but wanted",
            "What is left of the release is brought back, or, if it was never good, removed.",
            recovery::uninstalling(),
        ),
        group(
            "Failed or superseded",
            "No revision is in force, or the newest one isn't.",
            releases::failed(),
        ),
        group(
            "Deployed",
            "The last record is in force. Is it what is wanted?",
            releases::deployed(),
        ),
        group(
            "Rolled back",
            "A revision that failed is followed by a return to an older one, or by the attempt.",
            rollbacks::rolled_back(),
        ),
        group(
            "Tests of the chart",
            "The release is there, and its tests decide what becomes of it.",
            rollbacks::tests(),
        ),
        group(
            "The chart can't be had",
            "Nothing new can be made. What died is recovered nevertheless, and what is there \
             is never removed. Reason and message are those of the chart or the HelmRelease; \
             here, two of many.",
            gates::blocked(),
        ),
    ]
}

/// The rows of all groups.
#[cfg(test)]
pub(super) fn table() -> Vec<Row> {
    groups().into_iter().flat_map(|group| group.rows).collect()
}
