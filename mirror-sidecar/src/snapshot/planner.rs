//! Plans a chart: its own files, siblings that are copied in, and what has to be downloaded.

use std::collections::{BTreeMap, BTreeSet};

use tandem_shared::artifact::Limits;
use tandem_shared::request::ResolvedDependency;

use super::SnapshotError;
use super::chart::{ChartFile, Dependency};
use super::describe::{self, Odd};
use super::path::shown;
use super::plan::{Plan, find_chart};
use super::remote::{self, Remote, Vendored};
use super::tree::{Found, Leaf, Node, Snapshot};
use crate::range;

/// Charts within charts, at most.
const DEPTH: usize = 16;
/// Siblings that are copied into one chart, counted as often as they are.
const SIBLINGS: usize = 500;
/// What the repository of a sibling begins with.
const SIBLING: &str = "file://";

type Files = BTreeMap<String, Leaf>;

/// Plans the chart in `folder`, without its dependencies if they are to be skipped.
///
/// # Errors
/// Says what is missing or may not be.
pub(super) fn chart(
    snapshot: &Snapshot<'_>,
    folder: &Found,
    limits: Limits,
    skip: bool,
) -> Result<Plan, SnapshotError> {
    let mut planner = Planner {
        snapshot,
        limits,
        skip,
        stack: Vec::new(),
        copied: 0,
        odd: Odd::new(limits),
    };
    planner.chart(folder, false)
}

struct Planner<'s, 'r> {
    snapshot: &'s Snapshot<'r>,
    limits: Limits,
    skip: bool,
    /// Where the charts that we are within really are.
    stack: Vec<Vec<String>>,
    /// Siblings that were copied so far.
    copied: usize,
    odd: Odd,
}

impl Planner<'_, '_> {
    /// Plans the chart in a folder, `packed` as Helm packs one below another.
    fn chart(&mut self, folder: &Found, packed: bool) -> Result<Plan, SnapshotError> {
        let own = shown(&folder.path);
        let leaves = self.snapshot.walk(folder, self.limits)?;
        let below = if folder.path.is_empty() {
            String::new()
        } else {
            format!("{own}/")
        };
        let inside = leaves.iter().all(|leaf| leaf.origin.starts_with(&below));
        let mut files: Files = leaves
            .into_iter()
            .map(|leaf| (leaf.path.clone(), leaf))
            .collect();
        if packed {
            describe::leave_out(self.snapshot, &mut files)?;
        }
        let chart = describe::chart(self.snapshot, &files, &own)?;
        let mut plan = Plan {
            files,
            chart: Some(chart.name.clone()),
            resolved: Vec::new(),
            remote: Vec::new(),
            self_contained: match folder.node {
                Node::Folder(id) if inside => Some(id),
                _ => None,
            },
        };
        if self.skip {
            return Ok(plan);
        }
        let all = describe::dependencies(self.snapshot, &plan.files, &chart)?;
        self.stack.push(folder.path.clone());
        let siblings = self.siblings(&all, folder, &chart)?;
        self.stack.pop();
        plan.remote = self.remote(&all, &plan.files, &chart)?;
        let puts_in = !siblings.is_empty() || !plan.remote.is_empty();
        if puts_in && !packed {
            // Else it would be applied to what is put in, which Helm packs before.
            describe::leave_out(self.snapshot, &mut plan.files)?;
            plan.files.remove(".helmignore");
        }
        self.clear_the_way(&mut plan, &all)?;
        let apart = apart(&siblings, &plan.files);
        for (dependency, sibling) in siblings {
            plan.self_contained = None;
            put_in(&mut plan, dependency, sibling, &apart);
            if plan.files.len() > self.limits.entries {
                return Err(SnapshotError::too_large(&own, self.limits));
            }
        }
        Ok(plan)
    }

    /// What lies elsewhere in the tree and is copied in.
    fn siblings<'d>(
        &mut self,
        all: &'d [Dependency],
        folder: &Found,
        chart: &ChartFile,
    ) -> Result<Vec<(&'d Dependency, Plan)>, SnapshotError> {
        let mut siblings = Vec::new();
        for dependency in all {
            if let Some(path) = dependency.repository.strip_prefix(SIBLING) {
                siblings.push((dependency, self.sibling(dependency, path, folder, chart)?));
            }
        }
        Ok(siblings)
    }

    /// What has to be downloaded, since what lies in `charts/` doesn't fit.
    fn remote(
        &mut self,
        all: &[Dependency],
        files: &Files,
        chart: &ChartFile,
    ) -> Result<Vec<Remote>, SnapshotError> {
        let lock = describe::lock(self.snapshot, files)?;
        let mut remote = Vec::new();
        let elsewhere = |one: &&Dependency| !one.repository.starts_with(SIBLING);
        for dependency in all.iter().filter(elsewhere) {
            let vendored =
                describe::vendored(self.snapshot, files, &dependency.name, &mut self.odd)?;
            if dependency.repository.is_empty() {
                if vendored.is_empty() {
                    let why = "it names no repository and isn't in charts/; commit it there";
                    return Err(fault(dependency, chart, why.to_owned()));
                }
            } else if !vendored.iter().any(|one| one.fits(dependency)) {
                let one = Remote {
                    below: String::new(),
                    chart: chart.name.name.clone(),
                    name: dependency.name.clone(),
                    range: dependency.version.clone(),
                    locked: remote::locked(dependency, &lock),
                    repository: dependency.repository.trim_end_matches('/').to_owned(),
                };
                if !remote.contains(&one) {
                    remote.push(one);
                }
            }
        }
        Ok(remote)
    }

    /// Removes from `charts/` what siblings and downloads take the place of.
    fn clear_the_way(&mut self, plan: &mut Plan, all: &[Dependency]) -> Result<(), SnapshotError> {
        let is_sibling = |one: &&Dependency| one.repository.starts_with(SIBLING);
        let siblings = all.iter().filter(is_sibling).map(|one| &one.name);
        let names = plan.remote.iter().map(|one| &one.name).chain(siblings);
        let names: BTreeSet<String> = names.cloned().collect();
        for name in &names {
            let asked = all
                .iter()
                .filter(|one| one.name == *name && !is_sibling(one));
            let asked: Vec<&Dependency> = asked.collect();
            let of_use = |vendored: &Vendored| asked.iter().any(|other| vendored.fits(other));
            for vendored in describe::vendored(self.snapshot, &plan.files, name, &mut self.odd)? {
                if !of_use(&vendored) {
                    remove(&mut plan.files, &vendored.path);
                }
            }
        }
        Ok(())
    }

    /// The sibling to copy in.
    fn sibling(
        &mut self,
        dependency: &Dependency,
        path: &str,
        folder: &Found,
        chart: &ChartFile,
    ) -> Result<Plan, SnapshotError> {
        let fail = |why| fault(dependency, chart, why);
        if path.starts_with('/') || path.is_empty() {
            return Err(fail(format!(
                "{:?} is no path from the chart's folder; write file://../<folder>",
                dependency.repository
            )));
        }
        if self.stack.len() > DEPTH {
            return Err(fail(format!(
                "charts lie more than {DEPTH} deep in each other"
            )));
        }
        let sibling =
            find_chart(self.snapshot, &folder.path, path).map_err(|error| match error {
                // Not about the sibling: it is looked for once more with what is missing.
                SnapshotError::Absent(_) | SnapshotError::Corrupt(_) => error,
                other => fail(other.to_string()),
            })?;
        self.copied += 1;
        if self.copied > SIBLINGS {
            return Err(fail(format!(
                "more than {SIBLINGS} charts would have to be copied for it"
            )));
        }
        if self.stack.contains(&sibling.path) {
            return Err(fail(
                "it depends on the chart that depends on it".to_owned(),
            ));
        }
        let plan = self.chart(&sibling, true)?;
        let found = plan.chart.clone().unwrap_or_else(|| chart.name.clone());
        if found.name != dependency.name {
            return Err(fail(format!(
                "the chart in {:?} is called {:?}",
                shown(&sibling.path),
                found.name
            )));
        }
        match range::matches(&dependency.version, &found.version) {
            Ok(true) => Ok(plan),
            Ok(false) => Err(fail(format!(
                "the chart in {:?} has version {}, and {:?} is asked for",
                shown(&sibling.path),
                found.version,
                dependency.version
            ))),
            Err(why) => Err(fail(why)),
        }
    }
}

/// Removes a file, or all that is below a folder that is written with a slash at its end.
fn remove(files: &mut BTreeMap<String, Leaf>, path: &str) {
    if path.ends_with('/') {
        files.retain(|file, _| !file.starts_with(path));
    } else {
        files.remove(path);
    }
}

fn fault(dependency: &Dependency, chart: &ChartFile, why: String) -> SnapshotError {
    SnapshotError::Dependency {
        name: dependency.name.clone(),
        chart: chart.name.name.clone(),
        why,
    }
}

/// Names of siblings that can't have `charts/<name>` to themselves: several versions of them
/// are asked for, or another one of that name, which something else needs, is there.
fn apart(siblings: &[(&Dependency, Plan)], files: &Files) -> BTreeSet<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (dependency, sibling) in siblings {
        let of = versions.entry(&dependency.name).or_default();
        of.extend(sibling.chart.as_ref().map(|chart| chart.version.as_str()));
    }
    let taken = |name: &str| files.contains_key(&format!("charts/{name}/Chart.yaml"));
    let apart = versions
        .into_iter()
        .filter(|(name, all)| all.len() > 1 || taken(name));
    apart.map(|(name, _)| name.to_owned()).collect()
}

/// Puts a sibling into `charts/<name>`, with the version where it has to stand `apart`.
/// Helm goes by what is in folders, not by what they are called.
fn put_in(plan: &mut Plan, dependency: &Dependency, sibling: Plan, apart: &BTreeSet<String>) {
    let name = &dependency.name;
    let version = sibling.chart.as_ref().map(|chart| chart.version.clone());
    let version = version.unwrap_or_default();
    let prefix = match apart.contains(name) {
        true => format!("charts/{name}-{version}/"),
        false => format!("charts/{name}/"),
    };
    // Of one that is asked for twice, the last counts, as with Helm.
    remove(&mut plan.files, &prefix);
    for (path, leaf) in sibling.files {
        let path = format!("{prefix}{path}");
        plan.files.insert(path.clone(), Leaf { path, ..leaf });
    }
    plan.remote
        .extend(sibling.remote.into_iter().map(|one| Remote {
            below: format!("{prefix}{}", one.below),
            ..one
        }));
    plan.resolved.push(ResolvedDependency {
        name: dependency.name.clone(),
        version,
        repository: dependency.repository.clone(),
        digest: None,
    });
}
