//! Reads a volume without a word to anybody who works on it.

use std::collections::BTreeMap;
use std::path::Path;

use tandem_shared::decision::Decision;
use tandem_shared::layout::Volume;
use tandem_shared::lock;
use tandem_shared::manifest::Manifest;
use tandem_shared::observe::{self, ObserveError};
use tandem_shared::request::Request;
use tandem_shared::source::SourceName;
use tandem_shared::version::Contract;

use super::Role;

/// What there is on a volume.
#[derive(Debug, Default)]
pub struct Contents {
    /// All requests.
    pub requests: BTreeMap<SourceName, Request>,
    /// All manifests.
    pub manifests: BTreeMap<SourceName, Manifest>,
    /// All decisions, by name.
    pub decisions: Vec<Decision>,
    /// Who works on it.
    pub roles: Vec<Role>,
    /// What can't be read, and what doesn't belong there.
    pub problems: Vec<String>,
}

/// Reads all of a volume.
///
/// # Errors
/// If there is no volume.
pub fn read(volume: &Volume) -> Result<Contents, ObserveError> {
    let mut contents = Contents::default();
    let requests = observe::list(&volume.wanted.requests())?;
    let problems = &mut contents.problems;
    problems.extend(requests.strays.iter().map(|stray| stray_file(stray)));
    for name in requests.sources {
        match observe::request(&volume.wanted.request(&name), &name) {
            Ok(read) => {
                contents.requests.insert(name, read.document);
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    // Without a sidecar there is no folder of manifests, which is told otherwise.
    let manifests = observe::list(&volume.served.manifests()).unwrap_or_default();
    problems.extend(manifests.strays.iter().map(|stray| stray_file(stray)));
    for name in manifests.sources {
        match observe::load::<Manifest>(&volume.served.manifest(&name)) {
            Ok(read) if read.document.name == name.as_str() => {
                contents.manifests.insert(name, read.document);
            }
            Ok(_) => problems.push(format!(
                "{} speaks of another source",
                volume.served.manifest(&name).display()
            )),
            Err(error) => problems.push(error.to_string()),
        }
    }
    decisions(&volume.wanted.releases(), &mut contents);
    let (wanted, served) = (&volume.wanted, &volume.served);
    for (name, contract, lock) in [
        ("reconciler", wanted.contract(), wanted.role_lock()),
        ("mirror-sidecar", served.contract(), served.role_lock()),
    ] {
        let role = role(name, &contract, &lock, &mut contents.problems);
        contents.roles.push(role);
    }
    Ok(contents)
}

fn decisions(folder: &Path, contents: &mut Contents) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    paths.sort();
    for path in paths {
        match observe::load::<Decision>(&path) {
            Ok(read) => contents.decisions.push(read.document),
            // It went while we looked.
            Err(ObserveError::Missing(_)) => {}
            Err(error) => contents.problems.push(error.to_string()),
        }
    }
}

fn role(name: &str, contract: &Path, lock: &Path, problems: &mut Vec<String>) -> Role {
    let contract = match observe::load::<Contract>(contract) {
        Ok(read) => Some(read.document),
        Err(ObserveError::Missing(_)) => None,
        Err(error) => {
            problems.push(error.to_string());
            None
        }
    };
    let alive = lock::is_held(lock).unwrap_or_else(|error| {
        problems.push(error.to_string());
        false
    });
    Role {
        role: name.to_owned(),
        alive,
        version: contract.as_ref().map(|contract| contract.version.clone()),
        started_at: contract.map(|contract| contract.started_at),
    }
}

fn stray_file(path: &Path) -> String {
    format!(
        "{} is no file of ours; those are named <source>-<32 hex digits>.json",
        path.display()
    )
}
