//! What the files of a chart say of it: its name, what it depends on, what is in `charts/`,
//! what is to be left out.

use std::collections::BTreeMap;

use git2::Oid;
use tandem_shared::artifact::Limits;
use tandem_shared::manifest::ChartName;

use super::SnapshotError;
use super::chart::{self, ChartFile, Dependency};
use super::ignore::Rules;
use super::remote::{self, Vendored};
use super::tree::{Leaf, Snapshot};
use crate::archive;

/// Takes out of a chart's files what its own `.helmignore` names.
pub(super) fn leave_out(
    snapshot: &Snapshot<'_>,
    files: &mut BTreeMap<String, Leaf>,
) -> Result<(), SnapshotError> {
    let Some(leaf) = files.get(".helmignore") else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(&small(snapshot, leaf)?).into_owned();
    let rules = Rules::read(&text).map_err(|why| SnapshotError::BadChart {
        path: leaf.origin.clone(),
        why,
    })?;
    files.retain(|path, _| path == "Chart.yaml" || !rules.leave_out(path));
    Ok(())
}

/// What the chart says of itself.
pub(super) fn chart(
    snapshot: &Snapshot<'_>,
    files: &BTreeMap<String, Leaf>,
    own: &str,
) -> Result<ChartFile, SnapshotError> {
    let Some(leaf) = files.get("Chart.yaml") else {
        let near = files.keys().find(|path| {
            path.eq_ignore_ascii_case("chart.yaml") || path.eq_ignore_ascii_case("chart.yml")
        });
        let hint = near.map_or(String::new(), |near| {
            format!("; there is a {near:?}, but Helm wants exactly this spelling")
        });
        return Err(SnapshotError::NoChart {
            path: own.to_owned(),
            hint,
        });
    };
    chart::read(&small(snapshot, leaf)?, &leaf.origin)
}

/// What a chart depends on. As Helm reads it, `requirements.yaml` takes the place of what
/// `Chart.yaml` says, whatever kind of chart it is.
pub(super) fn dependencies(
    snapshot: &Snapshot<'_>,
    files: &BTreeMap<String, Leaf>,
    chart: &ChartFile,
) -> Result<Vec<Dependency>, SnapshotError> {
    let required = match files.get("requirements.yaml") {
        Some(leaf) => chart::read_requirements(&small(snapshot, leaf)?, &leaf.origin)?,
        None => None,
    };
    let mut all = required.unwrap_or_else(|| chart.dependencies.clone());
    // The same chart may be there several times under different aliases.
    let mut seen = Vec::new();
    all.retain(|dependency| {
        let new = !seen.contains(dependency);
        if new {
            seen.push(dependency.clone());
        }
        new
    });
    Ok(all)
}

/// The chart's lock, if it has one.
pub(super) fn lock(
    snapshot: &Snapshot<'_>,
    files: &BTreeMap<String, Leaf>,
) -> Result<Vec<Dependency>, SnapshotError> {
    let names = ["requirements.lock", "Chart.lock"];
    let Some(leaf) = names.iter().find_map(|name| files.get(*name)) else {
        return Ok(Vec::new());
    };
    let locked = chart::read_requirements(&small(snapshot, leaf)?, &leaf.origin)?;
    Ok(locked.unwrap_or_default())
}

/// What archives are that aren't named as Helm names them, each looked into once, and no
/// further than all in all is allowed.
pub(super) struct Odd {
    known: BTreeMap<Oid, Option<ChartName>>,
    limits: Limits,
    /// Bytes that may still be read.
    left: u64,
}

impl Odd {
    /// None is known; to find out, as much is read as one chart may have.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            known: BTreeMap::new(),
            limits,
            left: limits.bytes,
        }
    }

    /// Which chart is in an archive. Helm goes by that, and will say what is wrong with it.
    fn chart_in(
        &mut self,
        snapshot: &Snapshot<'_>,
        id: Oid,
    ) -> Result<Option<&ChartName>, SnapshotError> {
        if !self.known.contains_key(&id) {
            let blob = snapshot.blob(id)?;
            let described = archive::described(blob.content(), self.limits, &mut self.left);
            self.known
                .insert(id, described.ok().map(|chart| chart.name));
        }
        Ok(self.known.get(&id).and_then(Option::as_ref))
    }
}

/// The charts of that name in `charts/`, packed and unpacked.
pub(super) fn vendored(
    snapshot: &Snapshot<'_>,
    files: &BTreeMap<String, Leaf>,
    name: &str,
    odd: &mut Odd,
) -> Result<Vec<Vendored>, SnapshotError> {
    let mut found = remote::archives(files, name);
    for leaf in remote::oddly_named(files) {
        if let Some(chart) = odd
            .chart_in(snapshot, leaf.id)?
            .filter(|it| it.name == name)
        {
            found.push(Vendored {
                path: leaf.path.clone(),
                version: Some(chart.version.clone()),
            });
        }
    }
    for (path, leaf) in remote::unpacked(files) {
        let called = path.trim_end_matches('/').strip_prefix("charts/") == Some(name);
        match chart::read(&small(snapshot, leaf)?, &leaf.origin) {
            Ok(chart) if chart.name.name == name => found.push(Vendored {
                path,
                version: Some(chart.name.version),
            }),
            // Helm will say what is wrong with it.
            Err(_) if called => found.push(Vendored {
                path,
                version: None,
            }),
            _ => {}
        }
    }
    Ok(found)
}

/// A file that describes a chart, which is never large.
fn small(snapshot: &Snapshot<'_>, leaf: &Leaf) -> Result<Vec<u8>, SnapshotError> {
    if snapshot.size(leaf.id)? > 1024 * 1024 {
        let why = "it has more than 1 MiB".to_owned();
        return Err(SnapshotError::BadChart {
            path: leaf.origin.clone(),
            why,
        });
    }
    Ok(snapshot.blob(leaf.id)?.content().to_vec())
}
