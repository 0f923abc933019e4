//! Archives that an index says to lie in a registry: pulled as anybody may. The repository's
//! credential is for the repository.

use std::time::Duration;

use super::download::Download;
use super::{Entry, RepositoryError};
use crate::credentials::Access;
use crate::oci::{OciError, Registry, Tokens, place};
use crate::web::Web;

/// Whether `reference` leads into a registry.
pub(super) fn is_in_registry(reference: &str) -> bool {
    let scheme = reference.get(..6);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("oci://"))
}

/// Gets the archive at `oci://host/path/name:tag`. Without a tag, that of the entry's version.
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
    let (registry, name, tag) = parts(reference);
    let place = place::parse(registry, asked.allowed, asked.plain)?;
    let repository = place.repository(name)?;
    let trust = Access {
        ca: asked.access.ca.clone(),
        ..Access::default()
    };
    let mut registry = Registry {
        web,
        place: &place,
        trust: &trust,
        proof: &Access::default(),
        allowed: asked.allowed,
        timeout,
        tokens: &mut Tokens::default(),
    };
    let tag = tag.map_or_else(|| place::tag_of(&entry.version), ToOwned::to_owned);
    let digest = registry.digest(&repository, &tag)?;
    let manifest = registry.manifest(&repository, &digest)?;
    Ok(registry.blob(&repository, &manifest.archive, asked.limits.bytes)?)
}

/// The registry with the path in it, the chart's name, and the tag.
fn parts(reference: &str) -> (&str, &str, Option<&str>) {
    let (registry, last) = reference.rsplit_once('/').unwrap_or((reference, ""));
    match last.split_once(':') {
        Some((name, tag)) => (registry, name, Some(tag)),
        None => (registry, last, None),
    }
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
    fn a_reference_is_a_registry_a_name_and_mostly_a_tag() {
        for (reference, registry, name, tag) in [
            (
                "oci://r/charts/web:1.0.0",
                "oci://r/charts",
                "web",
                Some("1.0.0"),
            ),
            (
                "oci://r:5000/web:1.0.0_b1",
                "oci://r:5000",
                "web",
                Some("1.0.0_b1"),
            ),
            ("OCI://r:5000/a/web", "OCI://r:5000/a", "web", None),
        ] {
            assert!(is_in_registry(reference));
            assert_eq!(parts(reference), (registry, name, tag));
        }
        assert!(!is_in_registry("https://r/web:1") && !is_in_registry("web"));
    }
}
