//! The table of the plan as a page for people: the rows that the tests assert, and the
//! words that the plan has for each.

use std::fmt::Write;

use jiff::{SignedDuration, Timestamp};

use super::steps::whole_seconds;
use super::table::{Group, Row, groups, wanted};
use super::{Decision, Desired, Want, plan};
use crate::identity::Stamp;
use crate::storage::{RecordMeta, RecordState};

const INTRODUCTION: &str = "\
# What the reconciler does when

This page is written by `cargo generate` from the rows that the tests of `plan` assert, and \
CI fails when the two differ. Change a row in `reconciler/src/reconcile/plan/table`, not here.

Find the state of the release (`helm history RELEASE -n NAMESPACE`), then the row. What is \
done is logged with its reason and message. What is waited for or refused stands, with them, \
in the HelmRelease's condition `Ready` and in `wanted/releases/<namespace>.<name>.json` on the \
volume; with `Backoff`, what failed stands there instead.

- **Records** are Helm's, oldest first: revision, status, and in brackets what our label on \
the record says. *wanted*: it holds what is wanted. *other*: we made it, of something else. \
*copied from 1*: the label was written for revision 1, so this one is a rollback or somebody \
else's. *old label*: another version of the label. *no label*: we didn't make it.
- **Wanted** is what the HelmRelease asks for: the release, or that it is gone; then what is \
enabled beside it.
- **Decision** is one action; with *Wait*, when it is looked at again at the latest. An \
action changes the records, and then the row of the new ones counts: with rollback enabled, a \
failed upgrade is followed by *Rollback*, and the rollback by *Nothing*.
";

/// The page, the same for the same rows and plan.
#[must_use]
pub fn table_page() -> String {
    let groups = groups();
    let mut page = format!("{INTRODUCTION}\n");
    for group in &groups {
        line(
            &mut page,
            format_args!("- [{}](#{})", group.title, anchor(group.title)),
        );
    }
    for group in &groups {
        write_group(&mut page, group);
    }
    page
}

fn write_group(page: &mut String, group: &Group) {
    line(page, format_args!("\n## {}\n", group.title));
    line(page, format_args!("{}\n", group.about));
    line(
        page,
        format_args!("| situation | records | wanted | decision | reason | message |"),
    );
    line(page, format_args!("|---|---|---|---|---|---|"));
    for row in &group.rows {
        let decision = plan(&row.observed, &row.desired);
        let cells = [
            row.situation.to_owned(),
            records(row),
            want(&row.desired),
            action(row, &decision),
            row.reason.as_str().to_owned(),
            message(&decision),
        ];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        line(page, format_args!("| {} |", cells.join(" | ")));
    }
}

/// Writing to a string can't fail.
fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = writeln!(page, "{text}");
}

/// The name that a heading has in links.
fn anchor(title: &str) -> String {
    let kept = title.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        letter if letter.is_alphanumeric() => Some(letter.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

fn records(row: &Row) -> String {
    let records = row.observed.history.records();
    if records.is_empty() {
        return "none".to_owned();
    }
    let each = records
        .iter()
        .map(|record| describe(record, row.observed.now));
    each.collect::<Vec<_>>().join(", ")
}

fn describe(record: &RecordMeta, now: Timestamp) -> String {
    let label = match &record.stamp {
        Stamp::Known { identity, revision } => {
            let of = if *identity == wanted() {
                "wanted"
            } else {
                "other"
            };
            if *revision == record.revision {
                of.to_owned()
            } else {
                format!("{of}, copied from {revision}")
            }
        }
        Stamp::OtherScheme => "old label".to_owned(),
        Stamp::Missing => "no label".to_owned(),
    };
    let settled = record.state.is_settled() && record.state != RecordState::Unknown;
    let age = now.duration_since(record.touched);
    let age = match age.is_zero() {
        _ if settled => String::new(),
        true => ", written just now".to_owned(),
        false => format!(", written {} ago", span(age)),
    };
    format!("{} {} ({label}{age})", record.revision, record.state)
}

fn want(desired: &Desired) -> String {
    let what = match &desired.want {
        Want::Present(_) => "the release",
        Want::Blocked(blocked) if blocked.refuse => "can't be said: the HelmRelease is wrong",
        Want::Blocked(_) => "can't be had: the chart isn't there",
        Want::Suspended => "that nothing is done",
        Want::Absent { abandon: false } => "that it is gone",
        Want::Absent { abandon: true } => "that it is left alone",
    };
    let beside = [
        (desired.rollback.enable, "rollback"),
        (desired.rollback.may_retry, "retries left"),
        (desired.test.enable, "tests"),
        (desired.test.ignore_failures, "their failures ignored"),
    ];
    let beside = beside.iter().filter(|(set, _)| *set).map(|(_, word)| *word);
    std::iter::once(what)
        .chain(beside)
        .collect::<Vec<_>>()
        .join(", ")
}

fn action(row: &Row, decision: &Decision) -> String {
    let action = row.action.as_str();
    match decision.until {
        Some(until) => format!(
            "{action} ({})",
            span(until.duration_since(row.observed.now))
        ),
        None => action.to_owned(),
    }
}

/// The message, without the time that a row's made-up clock gives.
fn message(decision: &Decision) -> String {
    match decision.until {
        Some(until) => decision
            .message
            .replace(&whole_seconds(until).to_string(), "`TIME`"),
        None => decision.message.clone(),
    }
}

fn span(duration: SignedDuration) -> String {
    match duration.as_secs() {
        seconds if seconds % 60 == 0 && seconds > 0 => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}
