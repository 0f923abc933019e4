//! Archives that an index says to lie in a registry: pulled as anybody may. The repository's
//! credential is for the repository.

use std::time::{Duration, Instant};

use tandem_shared::source::redact_url;

use super::download::Download;
use super::{Entry, RepositoryError};
use crate::credentials::Access;
use crate::oci::{OciError, Registry, Tokens, Wish, place};
use crate::web::Web;

/// Whether `reference` leads into a registry.
pub(super) fn is_in_registry(reference: &str) -> bool {
    let scheme = reference.get(..6);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("oci://"))
}

/// Gets the archive at `oci://host/path/name:tag`, or `…@digest`. Without either, that of the
/// tag of the entry's version.
///
/// # Errors
/// Says why there is none.
pub(super) fn pull(
    web: &Web,
    asked: &Download<'_>,
    entry: &Entry,
    reference: &str,
    timeout: Duration,
) -> Result<Vec<u8>, RepositoryError> {
    let (registry, name, wish) = parts(reference)?;
    let place = place::parse(registry, asked.allowed, asked.plain)?;
    let repository = place.repository(name)?;
    let trust = Access {
        ca: asked.access.ca.clone(),
        ..Access::default()
    };
    let end = Instant::now() + timeout;
    let left = || end.saturating_duration_since(Instant::now());
    let mut registry = Registry {
        web,
        place: &place,
        trust: &trust,
        proof: &Access::default(),
        allowed: asked.allowed,
        timeout,
        tokens: &mut Tokens::default(),
    };
    let digest = match wish {
        Some(Wish::Digest { digest, .. }) => digest,
        Some(Wish::Tag(tag)) => registry.digest(&repository, &tag)?,
        _ => registry.digest(&repository, &place::tag_of(&entry.version))?,
    };
    registry.timeout = left();
    let manifest = registry.manifest(&repository, &digest)?;
    registry.timeout = left();
    Ok(registry.blob(&repository, &manifest.archive, asked.limits.bytes)?)
}

/// The registry with the path in it, the chart's name, and which content of it is meant.
fn parts(reference: &str) -> Result<(&str, &str, Option<Wish>), OciError> {
    let (registry, last) = reference.rsplit_once('/').unwrap_or((reference, ""));
    let Some(at) = last.find([':', '@']) else {
        return Ok((registry, last, None));
    };
    let (name, rest) = last.split_at(at);
    let meant = match place::wish(rest.strip_prefix(':').unwrap_or(rest)) {
        Ok(meant @ (Wish::Tag(_) | Wish::Digest { .. })) => meant,
        // What it says isn't repeated: it may hold a secret.
        Ok(Wish::Range(_)) | Err(_) => {
            let why = "what follows the chart's name is neither a tag nor a digest";
            return Err(OciError::Url(redact_url(reference), why));
        }
    };
    Ok((registry, name, Some(meant)))
}

impl From<OciError> for RepositoryError {
    fn from(error: OciError) -> Self {
        Self::InRegistry(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_a_registry_a_name_and_mostly_a_tag_or_digest() {
        let tag = |tag: &str| Some(Wish::Tag(tag.to_owned()));
        let hex = format!("sha256:{}", "a".repeat(64));
        let digest = |version: Option<&str>| {
            Some(Wish::Digest {
                digest: hex.clone(),
                version: version.map(ToOwned::to_owned),
            })
        };
        for (reference, registry, name, meant) in [
            (
                "oci://r/charts/web:1.0.0",
                "oci://r/charts",
                "web",
                tag("1.0.0"),
            ),
            (
                "oci://r:5000/web:1.0.0_b1",
                "oci://r:5000",
                "web",
                tag("1.0.0_b1"),
            ),
            ("oci://r/web:latest", "oci://r", "web", tag("latest")),
            ("OCI://r:5000/a/web", "OCI://r:5000/a", "web", None),
            (
                &format!("oci://r/web@{hex}"),
                "oci://r",
                "web",
                digest(None),
            ),
            (
                &format!("oci://r/web:1.0.0@{hex}"),
                "oci://r",
                "web",
                digest(Some("1.0.0")),
            ),
        ] {
            assert!(is_in_registry(reference));
            assert_eq!(parts(reference).unwrap(), (registry, name, meant));
        }
        assert!(!is_in_registry("https://r/web:1") && !is_in_registry("web"));
    }

    #[test]
    fn what_is_no_tag_is_refused_and_not_repeated() {
        for bad in [
            "web:1.0.0?sig=SECRET",
            "web:^1",
            "web:",
            "web@sha256:SECRET",
            "web:a b",
        ] {
            let error = parts(&format!("oci://r/charts/{bad}")).unwrap_err();
            assert!(matches!(error, OciError::Url(..)), "{bad}: {error}");
            let told = error.to_string();
            assert!(
                told.contains("oci://r/charts") && !told.contains("sig=SECRET"),
                "{told}"
            );
        }
    }
}
