//! Requests as a person writes them, and what the sidecar makes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use tandem_shared::artifact::{self, Digest, Limits};
use tandem_shared::manifest::{Good, Manifest, Reason};
use tandem_shared::request::{Prefer, Request, Want, WantKind, WantSpec};
use tandem_shared::source::{Source, SourceKind};

use crate::guard;
use crate::volume::Volume;
use crate::wait::{LONG, Look, until};

/// A git source without a credential.
pub fn git(url: &str) -> Source {
    Source {
        kind: SourceKind::Git,
        url: url.to_owned(),
        credential: None,
    }
}

/// A file behind a URL, without a credential.
pub fn web(url: &str) -> Source {
    Source {
        kind: SourceKind::Http,
        url: url.to_owned(),
        credential: None,
    }
}

/// A Helm repository, without a credential.
pub fn helm(url: &str) -> Source {
    Source {
        kind: SourceKind::Helm,
        url: url.to_owned(),
        credential: None,
    }
}

/// A chart of a repository in a version or a range of versions, as a want named `key`.
pub fn version(key: &str, chart: &str, version: &str) -> Want {
    let mut want = want(key, WantKind::Chart, "", chart);
    want.spec.version = Some(version.to_owned());
    want
}

/// A chart at a ref, as a want named `key`.
pub fn chart(key: &str, reference: &str, path: &str) -> Want {
    want(key, WantKind::Chart, reference, path)
}

/// A file at a ref, as a want named `key`.
pub fn file(key: &str, reference: &str, path: &str) -> Want {
    want(key, WantKind::File, reference, path)
}

fn want(key: &str, kind: WantKind, reference: &str, path: &str) -> Want {
    let reference = (!reference.is_empty()).then(|| reference.to_owned());
    Want {
        key: key.to_owned(),
        spec: WantSpec {
            kind,
            reference,
            version: None,
            path: path.to_owned(),
            skip_dependencies: false,
            submodules: false,
            verify: None,
        },
        group: String::new(),
        rejected: BTreeSet::new(),
        prefer: Prefer::default(),
        keys_id: None,
        used_by: Vec::new(),
    }
}

/// A request that is polled once a day: what happens, happens because of the
/// request itself.
pub fn request(source: &Source, wants: impl IntoIterator<Item = Want>) -> Request {
    Request {
        schema: "tandem.request/v1".to_owned(),
        source: source.clone(),
        owner: "a person".to_owned(),
        credential_id: None,
        interval_seconds: 24 * 3600,
        timeout_seconds: 60,
        refresh: String::new(),
        wants: wants.into_iter().collect(),
    }
}

/// Waits for a condition on a source's manifest.
///
/// # Errors
/// When it isn't met in time; the manifest stands in the error.
pub async fn manifest(
    volume: &Volume,
    source: &Source,
    what: &str,
    holds: impl Fn(&Manifest) -> bool,
) -> Result<Manifest> {
    manifest_within(volume, source, what, LONG, holds).await
}

/// The same with a deadline of one's own.
///
/// # Errors
/// As [`manifest`].
pub async fn manifest_within(
    volume: &Volume,
    source: &Source,
    what: &str,
    within: Duration,
    holds: impl Fn(&Manifest) -> bool,
) -> Result<Manifest> {
    until(
        format!("the manifest of {}: {what}", source.url),
        within,
        || async {
            let found = volume.manifest(source)?;
            let seen = serde_json::to_string(&found)?;
            Ok(Look::from_option(found.filter(|found| holds(found)), seen))
        },
    )
    .await
}

/// Waits until a want's good result comes from `commit` and has no problem.
///
/// # Errors
/// As [`manifest`].
pub async fn good(volume: &Volume, source: &Source, key: &str, commit: &str) -> Result<Good> {
    let found = manifest(
        volume,
        source,
        &format!("{key} from {commit}"),
        |manifest| {
            manifest.results.get(key).is_some_and(|result| {
                result.problem.is_none()
                    && result
                        .good
                        .as_ref()
                        .is_some_and(|good| good.commit.as_deref() == Some(commit))
            })
        },
    )
    .await?;
    match found
        .results
        .get(key)
        .and_then(|result| result.good.clone())
    {
        Some(good) => Ok(good),
        None => bail!("{key} has no good result"),
    }
}

/// Waits until a want has this problem; gives its message.
///
/// # Errors
/// As [`manifest`].
pub async fn problem(
    volume: &Volume,
    source: &Source,
    key: &str,
    reason: &Reason,
) -> Result<String> {
    let found = manifest(
        volume,
        source,
        &format!("{key} with {reason}"),
        |manifest| {
            manifest
                .results
                .get(key)
                .and_then(|result| result.problem.as_ref())
                .is_some_and(|one| one.reason == *reason)
        },
    )
    .await?;
    Ok(found.results[key]
        .problem
        .as_ref()
        .map(|one| one.message.clone())
        .unwrap_or_default())
}

/// Waits until the whole source fails with one of these reasons; gives the
/// message.
///
/// # Errors
/// As [`manifest`].
pub async fn failure(volume: &Volume, source: &Source, reasons: &[Reason]) -> Result<String> {
    let found = manifest(
        volume,
        source,
        &format!("failing with {reasons:?}"),
        |manifest| {
            manifest
                .failure
                .as_ref()
                .is_some_and(|failure| reasons.contains(&failure.reason))
        },
    )
    .await?;
    Ok(found
        .failure
        .map(|failure| failure.message)
        .unwrap_or_default())
}

/// The files of an artifact, opened as the reconciler opens it.
///
/// # Errors
/// When it isn't there or isn't what its name says.
pub fn content(volume: &Volume, digest: &Digest) -> Result<BTreeMap<String, String>> {
    let folder = guard::folder("artifact")?.join("content");
    artifact::extract(
        &volume.layout().served.artifact(digest),
        digest,
        &folder,
        Limits::default(),
    )?;
    let mut files = BTreeMap::new();
    read(&folder, &folder, &mut files)?;
    Ok(files)
}

fn read(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(root, &path, files)?;
        } else {
            let name = path.strip_prefix(root)?.display().to_string();
            files.insert(
                name,
                String::from_utf8_lossy(&std::fs::read(&path)?).into_owned(),
            );
        }
    }
    Ok(())
}
