//! Joins what the files of a volume say. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use tandem_shared::decision::Decision;
use tandem_shared::manifest::{Manifest, WantResult};
use tandem_shared::request::Want;
use tandem_shared::source::{SourceKind, SourceName, redact_url};

use super::Contents;

/// Everything that `reconciler status` tells. Free of credentials.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// Whether all of it is well.
    pub well: bool,
    /// Who works on the volume.
    pub roles: Vec<Role>,
    /// One for each HelmRelease, and one for each want that none of them has.
    pub rows: Vec<Row>,
    /// What is wrong otherwise.
    pub problems: Vec<String>,
}

/// One of the two processes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Role {
    /// `reconciler` or `mirror-sidecar`.
    pub role: String,
    /// Whether it runs now: it holds its lock.
    pub alive: bool,
    /// Its version, if it ever ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When it last started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
}

/// From a source to a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The HelmRelease, `namespace/name`; absent for a want of a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm_release: Option<String>,
    /// The name of the source on the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Its address, without a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The ref or range that is asked for.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What the ref stands for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The path (or name) of the chart in the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `name-version` of the chart, once it is had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<String>,
    /// The commit or version of the chart that is live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released: Option<String>,
    /// The Helm release, `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Its revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<u32>,
    /// When the source last answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<Timestamp>,
    /// Since when there is this content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// While the chart has a problem: when it is looked at again, at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<Timestamp>,
    /// Whether it is as it should be.
    pub well: bool,
    /// What was decided or is wrong, in a word.
    pub reason: String,
    /// The same in a sentence.
    pub message: String,
}

/// Joins what there is.
#[must_use]
pub fn overview(contents: &Contents) -> Overview {
    let mut told = BTreeSet::new();
    let mut rows: Vec<Row> = Vec::new();
    for decision in &contents.decisions {
        let name = decision.source.as_deref().and_then(SourceName::parse);
        let key = decision.wants.first();
        if let (Some(name), Some(key)) = (&name, key) {
            told.insert((name.clone(), key.clone()));
        }
        rows.push(of_decision(
            contents,
            decision,
            name.as_ref(),
            key.map(String::as_str),
        ));
    }
    for (name, request) in &contents.requests {
        for want in &request.wants {
            // A values file is told of with its chart.
            if want.used_by.is_empty() && !told.contains(&(name.clone(), want.key.clone())) {
                rows.push(of_want(contents, name, want));
            }
        }
    }
    rows.extend(undecided(contents));
    let mut problems = contents.problems.clone();
    for (name, manifest) in &contents.manifests {
        if let Some(failure) = manifest
            .failure
            .as_ref()
            .filter(|_| contents.requests.contains_key(name))
        {
            problems.push(format!(
                "{}: {}: {} (since {}, {} attempts, the next at {})",
                redact_url(&manifest.source.url),
                failure.reason,
                failure.message,
                failure.since,
                failure.attempts,
                failure.next_attempt,
            ));
        }
    }
    for role in contents.roles.iter().filter(|role| !role.alive) {
        problems.push(match role.started_at {
            Some(at) => format!("{} is not running; it last started at {at}", role.role),
            None => format!("{} never ran on this volume", role.role),
        });
    }
    let well = problems.is_empty() && rows.iter().all(|row| row.well);
    Overview {
        well,
        roles: contents.roles.clone(),
        rows,
        problems,
    }
}

/// HelmReleases that ask for something and about which nothing was decided yet.
fn undecided(contents: &Contents) -> Vec<Row> {
    let decided: BTreeSet<String> = contents.decisions.iter().map(named).collect();
    let mut waiting = BTreeMap::new();
    for (name, request) in &contents.requests {
        for want in &request.wants {
            for user in want.used_by.iter().filter(|user| !decided.contains(*user)) {
                waiting.entry(user).or_insert((name, want));
            }
        }
    }
    let row = |(user, (name, want)): (&String, (&SourceName, &Want))| {
        let mut row = of_want(contents, name, want);
        row.helm_release = Some(user.clone());
        if std::mem::take(&mut row.well) {
            row.reason = "Waiting".to_owned();
            row.message = "it is served, and nothing was decided yet".to_owned();
        }
        row
    };
    waiting.into_iter().map(row).collect()
}

fn named(decision: &Decision) -> String {
    let of = &decision.helm_release;
    format!("{}/{}", of.namespace, of.name)
}

fn of_decision(
    contents: &Contents,
    decision: &Decision,
    name: Option<&SourceName>,
    key: Option<&str>,
) -> Row {
    let mut row = Row {
        helm_release: Some(named(decision)),
        released: decision.released.clone(),
        release: Some(format!(
            "{}/{}",
            decision.release.namespace, decision.release.name
        )),
        revision: decision.revision,
        well: decision.ready,
        reason: decision.reason.clone(),
        message: decision.message.clone(),
        ..Row::default()
    };
    if let Some(name) = name {
        of_source(contents, name, key, &mut row);
    }
    row
}

fn of_want(contents: &Contents, name: &SourceName, want: &Want) -> Row {
    let mut row = Row {
        reason: "Waiting".to_owned(),
        message: "it is being worked on".to_owned(),
        ..Row::default()
    };
    let result = of_source(contents, name, Some(&want.key), &mut row);
    match result.map(|result| (&result.good, &result.problem)) {
        Some((_, Some(problem))) => {
            row.reason = problem.reason.to_string();
            row.message = match row.next_attempt {
                Some(at) => format!("{} (looked at again by {at})", problem.message),
                None => problem.message.clone(),
            };
        }
        Some((Some(good), None)) => {
            row.well = true;
            row.reason = "Served".to_owned();
            row.message = good.artifact.to_string();
        }
        _ => {}
    }
    row
}

/// Fills in what requests and manifests tell of a want.
fn of_source<'a>(
    contents: &'a Contents,
    name: &SourceName,
    key: Option<&str>,
    row: &mut Row,
) -> Option<&'a WantResult> {
    let request = contents.requests.get(name);
    let manifest = contents.manifests.get(name);
    row.source = Some(name.to_string());
    let source = request
        .map(|request| &request.source)
        .or(manifest.map(|manifest| &manifest.source));
    row.url = source.map(|source| redact_url(&source.url));
    let want = request.and_then(|request| {
        request
            .wants
            .iter()
            .find(|want| Some(want.key.as_str()) == key)
    });
    if let Some(want) = want {
        let asked = want
            .spec
            .version
            .clone()
            .or_else(|| want.spec.reference.clone());
        let asked = asked.unwrap_or_else(|| "HEAD".to_owned());
        row.commit = manifest.and_then(|manifest| commit_of(manifest, &asked));
        // A URL has no refs.
        row.reference = source
            .is_none_or(|source| source.kind != SourceKind::Http)
            .then_some(asked);
        row.path = Some(want.spec.path.clone());
    }
    let manifest = manifest?;
    row.checked_at = manifest.checked_at;
    let result = manifest.results.get(key?)?;
    row.next_attempt = result.next_attempt;
    if let Some(good) = &result.good {
        row.changed_at = Some(good.since);
        row.chart = good
            .chart
            .as_ref()
            .map(|chart| format!("{}-{}", chart.name, chart.version));
    }
    Some(result)
}

fn commit_of(manifest: &Manifest, asked: &str) -> Option<String> {
    manifest.refs.get(asked).map(|found| found.commit.clone())
}
