//! An overview as text for people.

use comfy_table::{Table, presets};

use super::{Overview, Row};

/// Characters of a commit that people can tell apart.
const SHORT: usize = 10;

/// The table, and below it what is wrong, in full.
pub(super) fn table(overview: &Overview) -> String {
    let mut text = String::new();
    for role in &overview.roles {
        let state = if role.alive { "running" } else { "not running" };
        let version = role.version.as_deref().unwrap_or("no version");
        let since = role
            .started_at
            .map(|at| format!(", started {at}"))
            .unwrap_or_default();
        text.push_str(&format!("{:<14}  {state} ({version}{since})\n", role.role));
    }
    text.push('\n');
    if overview.rows.is_empty() {
        text.push_str("Nothing is wanted.\n");
    } else {
        text.push_str(&rows(&overview.rows));
        text.push('\n');
    }
    let wrong: Vec<String> = overview
        .rows
        .iter()
        .filter(|row| !row.well)
        .map(|row| format!("{}: {}: {}", name(row), row.reason, row.message))
        .chain(overview.problems.iter().cloned())
        .collect();
    if !wrong.is_empty() {
        text.push('\n');
    }
    for line in wrong {
        text.push_str(&format!("! {}\n", line.replace('\n', "\n  ")));
    }
    text
}

fn rows(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "HELMRELEASE",
        "SOURCE",
        "REF",
        "COMMIT",
        "CHART",
        "RELEASED",
        "RELEASE",
        "REV",
        "STATE",
    ]);
    for row in rows {
        let chart = match (&row.path, &row.chart) {
            (Some(path), Some(chart)) => format!("{path} ({chart})"),
            (path, chart) => or_dash(path.as_ref().or(chart.as_ref())),
        };
        table.add_row([
            name(row),
            or_dash(row.url.as_ref()),
            or_dash(row.reference.as_ref()),
            short(row.commit.as_deref()),
            chart,
            short(row.released.as_deref()),
            or_dash(row.release.as_ref()),
            row.revision
                .map_or_else(|| "-".to_owned(), |revision| revision.to_string()),
            if row.well {
                "ok".to_owned()
            } else {
                row.reason.clone()
            },
        ]);
    }
    // No trailing space: lines are compared and pasted.
    table
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect::<String>()
        .trim_end()
        .to_owned()
}

fn name(row: &Row) -> String {
    row.helm_release
        .clone()
        .unwrap_or_else(|| "(by hand)".to_owned())
}

fn or_dash(text: Option<&String>) -> String {
    text.filter(|text| !text.is_empty())
        .cloned()
        .unwrap_or_else(|| "-".to_owned())
}

fn short(revision: Option<&str>) -> String {
    match revision {
        Some(commit) if commit.len() == 40 => commit.chars().take(SHORT).collect(),
        Some(version) if !version.is_empty() => version.to_owned(),
        _ => "-".to_owned(),
    }
}
