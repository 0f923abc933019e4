//! Where the parts of a repository are. Pure functions.

use std::collections::BTreeSet;

use url::{Origin, Url};

use super::RepositoryError;
use crate::address::{Address, Scheme};
use crate::web;

/// Bytes of a chart's name, at most.
const NAME: usize = 250;

/// Whether an index may list a chart under that name.
#[must_use]
pub fn is_chart_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME && !name.chars().any(char::is_control)
}

/// Where the index of the repository at `url` is. A query stays.
///
/// # Errors
/// If `url` is none.
pub fn index_url(url: &str) -> Result<String, RepositoryError> {
    relative(url, "index.yaml").map(Url::into)
}

/// Where `reference` leads from a repository's URL, which is a folder whether or not it
/// ends with a slash.
fn relative(repository: &str, reference: &str) -> Result<Url, RepositoryError> {
    let no_url = || {
        let shown = tandem_shared::source::redact_url(reference);
        RepositoryError::NoUrl(
            shown
                .chars()
                .filter(|c| !c.is_control())
                .take(200)
                .collect(),
        )
    };
    let mut base = Url::parse(repository).map_err(|_| no_url())?;
    if !base.path().ends_with('/') {
        let folder = format!("{}/", base.path());
        base.set_path(&folder);
    }
    let mut to = base.join(reference).map_err(|_| no_url())?;
    // A key that stands there opens the whole repository, and nobody else's.
    if to.query().is_none() && to.origin() == base.origin() {
        to.set_query(base.query());
    }
    to.set_fragment(None);
    Ok(to)
}

/// The server of the archive that an index calls `reference`.
#[must_use]
pub fn server_of(repository: &str, reference: &str) -> Option<String> {
    let to = relative(repository, reference).ok()?;
    // For registries, of whose scheme nobody defines an origin.
    match to.origin() {
        origin @ Origin::Tuple(..) => Some(origin.ascii_serialization()),
        Origin::Opaque(_) => Some(to.as_str().split('/').take(3).collect::<Vec<_>>().join("/")),
    }
}

/// Where an archive is.
#[derive(Clone, Debug)]
pub(super) struct ArchivePlace {
    /// Its address.
    pub(super) address: Address,
    /// Whether the repository's own credential may go there.
    pub(super) own: bool,
}

/// Where the archive is that the index calls `reference`.
///
/// # Errors
/// If it leads to where nobody may be led.
pub(super) fn archive(
    repository: &str,
    reference: &str,
    has_digest: bool,
    allowed: &BTreeSet<Scheme>,
) -> Result<ArchivePlace, RepositoryError> {
    let base = Url::parse(repository)
        .map_err(|_| RepositoryError::NoUrl("nothing that can be read".to_owned()))?;
    let to = relative(repository, reference)?;
    // What it relates to has no login; of a foreign one it is the index's own word.
    let address = web::parse(to.as_str(), allowed)?;
    let own = to.origin() == base.origin();
    if base.scheme() == "https" && to.scheme() == "http" && !has_digest {
        let origin = to.origin().ascii_serialization();
        return Err(RepositoryError::Downgrade(origin));
    }
    Ok(ArchivePlace { address, own })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> BTreeSet<Scheme> {
        [Scheme::Http, Scheme::Https].into()
    }

    #[test]
    fn the_index_lies_in_the_repository_with_or_without_a_slash() {
        for (url, index) in [
            ("https://h", "https://h/index.yaml"),
            ("https://h/", "https://h/index.yaml"),
            ("https://h/charts", "https://h/charts/index.yaml"),
            ("https://h/charts/", "https://h/charts/index.yaml"),
            ("https://h/a%2Fb", "https://h/a%2Fb/index.yaml"),
            ("https://h/c?key=a%2Fb", "https://h/c/index.yaml?key=a%2Fb"),
        ] {
            assert_eq!(index_url(url).unwrap(), index, "{url}");
        }
        assert!(index_url("charts").is_err());
    }

    #[test]
    fn archives_lie_in_the_repository_unless_the_index_says_where() {
        for (reference, url, own) in [
            ("web-1.0.0.tgz", "https://h/charts/web-1.0.0.tgz?k=1", true),
            ("a/web.tgz", "https://h/charts/a/web.tgz?k=1", true),
            ("./web.tgz", "https://h/charts/web.tgz?k=1", true),
            ("../web.tgz", "https://h/web.tgz?k=1", true),
            ("/web.tgz", "https://h/web.tgz?k=1", true),
            ("web.tgz?t=2#part", "https://h/charts/web.tgz?t=2", true),
            ("https://h/x/web.tgz", "https://h/x/web.tgz?k=1", true),
            ("https://o/web.tgz", "https://o/web.tgz", false),
            ("//o/web.tgz", "https://o/web.tgz", false),
            ("https://h:8443/web.tgz", "https://h:8443/web.tgz", false),
            ("http://h/web.tgz", "http://h/web.tgz", false),
        ] {
            let place = archive("https://h/charts?k=1", reference, true, &both()).unwrap();
            assert_eq!((place.address.url.as_str(), place.own), (url, own));
        }
    }

    #[test]
    fn an_index_leads_nobody_astray() {
        let place = |reference: &str, digest| {
            archive("https://h/charts", reference, digest, &both()).map(|_| ())
        };
        for bad in ["file:///etc/passwd", "ftp://h/x", "data:,x", "javascript:x"] {
            assert!(place(bad, true).is_err(), "{bad}");
        }
        let error = place("http://o/web.tgz", false).unwrap_err();
        assert!(error.to_string().contains("in the clear"), "{error}");
        let secure = [Scheme::Https].into();
        assert!(archive("https://h", "http://h/x", true, &secure).is_err());
    }
}
