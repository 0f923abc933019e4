//! What goes into an artifact, before anything of it is read: a list of paths
//! and objects. Equal lists are equal artifacts, so the list's digest is what
//! decides whether there is anything to export.

use std::collections::BTreeMap;

use git2::Oid;
use tandem_shared::artifact::Limits;
use tandem_shared::manifest::ChartName;
use tandem_shared::names::sha256_hex;
use tandem_shared::request::{ResolvedDependency, WantKind, WantSpec};

use super::SnapshotError;
use super::chart::{self, ChartFile, Dependency};
use super::ignore::Rules;
use super::path::{self, shown};
use super::remote::{self, Remote, Vendored};
use super::tree::{Found, Leaf, Node, Snapshot};
use crate::range;

/// Charts within charts, at most.
const DEPTH: usize = 16;
/// Siblings that are copied into one chart, counted as often as they are.
const SIBLINGS: usize = 500;

/// What goes into one artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Path in the artifact → where it comes from.
    pub files: BTreeMap<String, Leaf>,
    /// The chart's name and version; none for a file.
    pub chart: Option<ChartName>,
    /// Siblings that were copied in.
    pub resolved: Vec<ResolvedDependency>,
    /// What has to be downloaded besides.
    pub remote: Vec<Remote>,
    /// The folder's own object, if everything comes from below it: the same
    /// object then means the same artifact, without a walk.
    pub self_contained: Option<Oid>,
}

impl Plan {
    /// Names everything of the tree that goes in, and so all that is asked for besides.
    #[must_use]
    pub fn inputs(&self) -> String {
        let files = self.files.iter();
        let mut lines: Vec<String> = files
            .map(|(path, leaf)| format!("{} {path}", leaf.id))
            .collect();
        // A lock that is left out of the chart counts, too.
        let locked = self.remote.iter().filter_map(|one| one.locked.as_ref());
        lines.extend(locked.map(|version| format!("locked {version}")));
        let parts: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
        format!("i1:{}", sha256_hex(&parts))
    }
}

/// Names everything that goes in: what a plan's [`Plan::inputs`] names, and what the remote
/// dependencies stand for.
#[must_use]
pub fn all_inputs(identity: &str, resolved: &[ResolvedDependency]) -> String {
    if resolved.is_empty() {
        return identity.to_owned();
    }
    let digests = resolved.iter().filter_map(|one| one.digest.as_deref());
    let parts: Vec<&[u8]> = [identity]
        .into_iter()
        .chain(digests)
        .map(str::as_bytes)
        .collect();
    format!("i2:{}", sha256_hex(&parts))
}

/// What goes into the artifact of `spec` at this commit.
///
/// # Errors
/// Says what is missing or may not be.
pub fn plan(
    snapshot: &Snapshot<'_>,
    spec: &WantSpec,
    limits: Limits,
) -> Result<Plan, SnapshotError> {
    let parts = path::parts(&spec.path)?;
    match &spec.kind {
        WantKind::Chart => {
            let folder = find_chart(snapshot, &[], &shown(&parts))?;
            let mut planner = Planner {
                snapshot,
                limits,
                skip: spec.skip_dependencies,
                stack: Vec::new(),
                siblings: 0,
            };
            planner.chart(&folder, false)
        }
        WantKind::File => file(snapshot, &parts),
        WantKind::Other(word) => Err(SnapshotError::Kind(
            word.chars().filter(|c| !c.is_control()).take(40).collect(),
        )),
    }
}

/// The object of the chart's folder: what [`Plan::self_contained`] compares with.
///
/// # Errors
/// If nothing is there.
pub fn folder_of(snapshot: &Snapshot<'_>, spec: &WantSpec) -> Result<Option<Oid>, SnapshotError> {
    let parts = path::parts(&spec.path)?;
    Ok(match snapshot.find(&[], &shown(&parts), "folder")?.node {
        Node::Folder(id) | Node::File(id) => Some(id),
        Node::Submodule => None,
    })
}

fn file(snapshot: &Snapshot<'_>, parts: &[String]) -> Result<Plan, SnapshotError> {
    let path = shown(parts);
    let wrong = |is| SnapshotError::WrongKind {
        path: path.clone(),
        is,
        expected: "file",
    };
    let Some(name) = parts.last() else {
        return Err(wrong("folder"));
    };
    let found = snapshot.find(&[], &path, "file")?;
    match found.node {
        Node::Folder(_) => Err(wrong("folder")),
        Node::Submodule => Err(submodule(path, &found)),
        Node::File(id) => {
            let leaf = Leaf {
                path: name.clone(),
                origin: shown(&found.path),
                id,
            };
            Ok(Plan {
                files: [(name.clone(), leaf)].into(),
                chart: None,
                resolved: Vec::new(),
                remote: Vec::new(),
                self_contained: Some(id),
            })
        }
    }
}

fn submodule(asked: String, found: &Found) -> SnapshotError {
    let path = shown(&found.path);
    SnapshotError::Submodule { asked, path }
}

fn find_chart(
    snapshot: &Snapshot<'_>,
    from: &[String],
    path: &str,
) -> Result<Found, SnapshotError> {
    let found = snapshot.find(from, path, "folder")?;
    let is = match found.node {
        Node::Folder(_) => return Ok(found),
        Node::File(_) => "file",
        Node::Submodule => return Err(submodule(path.to_owned(), &found)),
    };
    Err(SnapshotError::WrongKind {
        path: path.to_owned(),
        is,
        expected: "chart folder",
    })
}

struct Planner<'s, 'r> {
    snapshot: &'s Snapshot<'r>,
    limits: Limits,
    skip: bool,
    /// Where the charts that we are within really are.
    stack: Vec<Vec<String>>,
    siblings: usize,
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
        let mut inside = leaves.iter().all(|leaf| leaf.origin.starts_with(&below));
        let mut files: BTreeMap<String, Leaf> = leaves
            .into_iter()
            .map(|leaf| (leaf.path.clone(), leaf))
            .collect();
        if packed {
            self.leave_out(&mut files)?;
        }
        let chart = self.read(&files, &own)?;
        let mut resolved = Vec::new();
        let mut remote = Vec::new();
        if !self.skip {
            self.stack.push(folder.path.clone());
            let all = self.dependencies(&files, &chart)?;
            let lock = self.lock(&files, &chart)?;
            let mut siblings = Vec::new();
            for dependency in &all {
                let fail = |why: String| SnapshotError::Dependency {
                    name: dependency.name.clone(),
                    chart: chart.name.name.clone(),
                    why,
                };
                if let Some(path) = dependency.repository.strip_prefix("file://") {
                    let plan = self.sibling(dependency, path, folder, &chart)?;
                    siblings.push((dependency, plan));
                    continue;
                }
                let vendored = self.vendored(&files, &dependency.name)?;
                if dependency.repository.is_empty() {
                    if vendored.is_empty() {
                        let why = "it names no repository and isn't in charts/; commit it there";
                        return Err(fail(why.to_owned()));
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
            let puts_in = !siblings.is_empty() || !remote.is_empty();
            if puts_in && !packed {
                // Else it would be applied to what is put in, which Helm packs before.
                self.leave_out(&mut files)?;
                files.remove(".helmignore");
            }
            for one in &remote {
                let asked: Vec<&Dependency> =
                    all.iter().filter(|other| other.name == one.name).collect();
                let of_no_use =
                    |vendored: &Vendored| !asked.iter().any(|other| vendored.fits(other));
                for vendored in self
                    .vendored(&files, &one.name)?
                    .iter()
                    .filter(|one| of_no_use(one))
                {
                    remove(&mut files, &vendored.path);
                }
            }
            for (dependency, sibling) in siblings {
                inside = false;
                let prefix = put(&mut files, &dependency.name, sibling.files);
                remote.extend(sibling.remote.into_iter().map(|one| Remote {
                    below: format!("{prefix}{}", one.below),
                    ..one
                }));
                let version = sibling.chart.map(|chart| chart.version).unwrap_or_default();
                resolved.push(ResolvedDependency {
                    name: dependency.name.clone(),
                    version,
                    repository: dependency.repository.clone(),
                    digest: None,
                });
                if files.len() > self.limits.entries {
                    return Err(SnapshotError::too_large(&own, self.limits));
                }
            }
            self.stack.pop();
        }
        let self_contained = match folder.node {
            Node::Folder(id) if inside => Some(id),
            _ => None,
        };
        Ok(Plan {
            files,
            chart: Some(chart.name),
            resolved,
            remote,
            self_contained,
        })
    }

    /// Takes out of a chart's files what its own `.helmignore` names.
    fn leave_out(&self, files: &mut BTreeMap<String, Leaf>) -> Result<(), SnapshotError> {
        let Some(leaf) = files.get(".helmignore") else {
            return Ok(());
        };
        let text = String::from_utf8_lossy(&self.small(leaf)?).into_owned();
        let rules = Rules::read(&text).map_err(|why| SnapshotError::BadChart {
            path: leaf.origin.clone(),
            why,
        })?;
        files.retain(|path, _| path == "Chart.yaml" || !rules.leave_out(path));
        Ok(())
    }

    fn read(&self, files: &BTreeMap<String, Leaf>, own: &str) -> Result<ChartFile, SnapshotError> {
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
        chart::read(&self.small(leaf)?, &leaf.origin)
    }

    /// The dependencies of both kinds of charts.
    fn dependencies(
        &self,
        files: &BTreeMap<String, Leaf>,
        chart: &ChartFile,
    ) -> Result<Vec<Dependency>, SnapshotError> {
        let mut all = chart.dependencies.clone();
        if chart.api_version != "v2"
            && let Some(leaf) = files.get("requirements.yaml")
        {
            all.extend(chart::read_requirements(&self.small(leaf)?, &leaf.origin)?);
        }
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
    fn lock(
        &self,
        files: &BTreeMap<String, Leaf>,
        chart: &ChartFile,
    ) -> Result<Vec<Dependency>, SnapshotError> {
        let names: &[&str] = match chart.api_version.as_str() {
            "v2" => &["Chart.lock"],
            _ => &["requirements.lock", "Chart.lock"],
        };
        let Some(leaf) = names.iter().find_map(|name| files.get(*name)) else {
            return Ok(Vec::new());
        };
        chart::read_requirements(&self.small(leaf)?, &leaf.origin)
    }

    /// The charts of that name in `charts/`, packed and unpacked.
    fn vendored(
        &self,
        files: &BTreeMap<String, Leaf>,
        name: &str,
    ) -> Result<Vec<Vendored>, SnapshotError> {
        let mut found = remote::archives(files, name);
        for (path, leaf) in remote::unpacked(files) {
            let called = path.trim_end_matches('/').strip_prefix("charts/") == Some(name);
            match chart::read(&self.small(leaf)?, &leaf.origin) {
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

    /// The sibling to copy in.
    fn sibling(
        &mut self,
        dependency: &Dependency,
        path: &str,
        folder: &Found,
        chart: &ChartFile,
    ) -> Result<Plan, SnapshotError> {
        let fail = |why: String| SnapshotError::Dependency {
            name: dependency.name.clone(),
            chart: chart.name.name.clone(),
            why,
        };
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
        self.siblings += 1;
        if self.siblings > SIBLINGS {
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

    /// A file that describes a chart, which is never large.
    fn small(&self, leaf: &Leaf) -> Result<Vec<u8>, SnapshotError> {
        if self.snapshot.size(leaf.id)? > 1024 * 1024 {
            let why = "it has more than 1 MiB".to_owned();
            return Err(SnapshotError::BadChart {
                path: leaf.origin.clone(),
                why,
            });
        }
        Ok(self.snapshot.blob(leaf.id)?.content().to_vec())
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

/// Puts a sibling's files in place of what the tree has of that chart, and says where.
fn put(files: &mut BTreeMap<String, Leaf>, name: &str, sibling: BTreeMap<String, Leaf>) -> String {
    let prefix = format!("charts/{name}/");
    remove(files, &prefix);
    for archive in remote::archives(files, name) {
        remove(files, &archive.path);
    }
    for (path, leaf) in sibling {
        let path = format!("{prefix}{path}");
        files.insert(path.clone(), Leaf { path, ..leaf });
    }
    prefix
}
