//! The archive of one version: got, compared with what the index says, unpacked.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use tandem_shared::artifact::Limits;
use tandem_shared::source::redact_url;

use super::place::{self, ArchivePlace};
use super::{Entry, RepositoryError, pull};
use crate::address::Scheme;
use crate::archive::{self, Unpacked};
use crate::credentials::Access;
use crate::range;
use crate::web::{Answer, Asked, Web};

/// What archives are said to be.
const ACCEPT: &str = "application/gzip, application/octet-stream, */*";

/// What an archive is asked with.
#[derive(Clone, Copy, Debug)]
pub struct Download<'a> {
    /// The repository's URL, without user and password.
    pub repository: &'a str,
    /// What opens the repository. It goes to its own origin alone.
    pub access: &'a Access,
    /// Schemes that are asked at all.
    pub allowed: &'a BTreeSet<Scheme>,
    /// Registries that are asked in the clear.
    pub plain: &'a BTreeSet<String>,
    /// For all URLs of the archive together.
    pub timeout: Duration,
    /// What a chart may amount to, packed and unpacked.
    pub limits: Limits,
}

impl Download<'_> {
    fn get(
        &self,
        web: &Web,
        place: &ArchivePlace,
        timeout: Duration,
    ) -> Result<Vec<u8>, RepositoryError> {
        let foreign = Access {
            basic: place.address.userinfo.clone(),
            ca: self.access.ca.clone(),
            ..Access::default()
        };
        let access = if place.own { self.access } else { &foreign };
        let asked = Asked {
            accept: Some(ACCEPT),
            ..Asked::plain(
                &place.address.url,
                access,
                self.allowed,
                timeout,
                self.limits.bytes,
            )
        };
        let mut content = Vec::new();
        // Servers call the packing of an archive its encoding. It comes as it is all the same.
        match web.get(asked, &mut content)? {
            Answer::Unchanged | Answer::New(_) => Ok(content),
        }
    }
}

/// Gets the chart `name` in the version of `entry`, and the SHA-256 of its archive in hex.
///
/// # Errors
/// Says of the first URL why it gives none; the others were tried as well.
pub fn download(
    web: &Web,
    asked: Download<'_>,
    name: &str,
    entry: &Entry,
) -> Result<(Unpacked, String), RepositoryError> {
    let end = Instant::now() + asked.timeout;
    let mut first = None;
    for reference in &entry.urls {
        let left = end.saturating_duration_since(Instant::now());
        match one(web, asked, name, entry, reference, left) {
            Ok(found) => return Ok(found),
            Err(error) => first = first.or(Some(error)),
        }
        if end <= Instant::now() {
            break;
        }
    }
    Err(first.unwrap_or_else(|| RepositoryError::NoUrl(String::new())))
}

fn one(
    web: &Web,
    asked: Download<'_>,
    name: &str,
    entry: &Entry,
    reference: &str,
    timeout: Duration,
) -> Result<(Unpacked, String), RepositoryError> {
    let reference = reference.trim();
    let (shown, got) = if pull::is_in_registry(reference) {
        let got = pull::pull(web, &asked, entry, reference, timeout);
        (redact_url(reference), got)
    } else {
        let has_digest = entry.digest.is_some();
        let place = place::archive(asked.repository, reference, has_digest, asked.allowed)?;
        (
            redact_url(&place.address.url),
            asked.get(web, &place, timeout),
        )
    };
    let shown: String = shown
        .chars()
        .filter(|c| !c.is_control())
        .take(200)
        .collect();
    let at = |error: RepositoryError| RepositoryError::At(shown.clone(), Box::new(error));
    let content = got.map_err(at)?;
    let found = data_encoding::HEXLOWER.encode(&Sha256::digest(&content));
    if let Some(listed) = entry.digest.as_ref().filter(|listed| **listed != found) {
        return Err(at(RepositoryError::DigestMismatch {
            listed: listed.clone(),
            found,
        }));
    }
    let unpacked = archive::unpack(content.as_slice(), asked.limits)
        .map_err(|error| at(RepositoryError::Archive(error)))?;
    let chart = &unpacked.chart.name;
    // The same version may be written with a `v` here and without one there.
    let same = range::exact(&chart.version).is_some_and(|version| version == entry.parsed);
    if chart.name != name || !same {
        return Err(at(RepositoryError::OtherChart {
            found: chart.name.clone(),
            version: chart.version.clone(),
            listed: name.to_owned(),
            listed_version: entry.version.clone(),
        }));
    }
    Ok((unpacked, found))
}
