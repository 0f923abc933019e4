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
use super::path::{self, shown};
use super::planner;
use super::remote::Remote;
use super::tree::{Found, Leaf, Node, Snapshot};

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
            planner::chart(snapshot, &folder, limits, spec.skip_dependencies)
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

pub(super) fn find_chart(
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
