//! Which source a URL and a Secret amount to, and what becomes of a password in a URL.

use kube::ResourceExt;
use tandem_shared::credentials::Values as Secrets;
use tandem_shared::request::Want;
use tandem_shared::source::{CredentialRef, Source, SourceKind, redact_url};
use url::Url;

use super::SourceWish;
use crate::crd::{ChartSource, FileRef, HelmRelease};

/// The reference of the credential that stands in a URL. No Secret has a colon in its
/// name, so it is nobody else's.
pub(super) fn embedded_name(release: &HelmRelease) -> String {
    format!("helmrelease:{}", release.name_any())
}

/// The wish for `wants` of the source at `url`.
pub(super) fn of_source(
    kind: SourceKind,
    url: &str,
    secret: Option<(String, String)>,
    embedded_name: &str,
    own_namespace: &str,
    wants: Vec<Want>,
) -> SourceWish {
    let (url, embedded) = split_password(url);
    let credential = match (secret, &embedded) {
        (Some((namespace, name)), _) => Some(CredentialRef { namespace, name }),
        (None, Some(_)) => Some(CredentialRef {
            namespace: own_namespace.to_owned(),
            name: embedded_name.to_owned(),
        }),
        (None, None) => None,
    };
    // A Secret that is named wins over what stands in the URL.
    let embedded = embedded.filter(|_| credential.as_ref().is_some_and(|c| c.name.contains(':')));
    let source = Source {
        kind,
        url,
        credential,
    };
    SourceWish {
        name: source.name(),
        source,
        embedded,
        wants,
    }
}

/// The URLs that a HelmRelease writes.
pub(super) fn urls(release: &HelmRelease, chart: &ChartSource) -> Vec<String> {
    let of_chart = match chart {
        ChartSource::Git(chart) => &chart.url,
        ChartSource::Repository(chart) => &chart.url,
    };
    let own = release.own_namespace();
    let files = release.spec.values_sources();
    let files = files.iter().filter_map(|source| match source.file(&own)? {
        FileRef::Url(url) | FileRef::Git { url, .. } => Some(url),
        FileRef::Chart(_) => None,
    });
    std::iter::once(of_chart.clone()).chain(files).collect()
}

/// Whether nobody can tell where a password ends that seems to stand in a URL.
pub(super) fn is_muddled(url: &str) -> bool {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    let web = |scheme: &str| {
        let mut all = ["http", "https", "oci"].into_iter();
        all.any(|one| scheme.eq_ignore_ascii_case(one))
    };
    scheme.is_some_and(web) && url.contains('@') && Url::parse(url).is_err()
}

/// Takes user and password out of a URL. The user of ssh is a login name and stays; a
/// password that its scheme has no use for goes nowhere.
pub(super) fn split_password(text: &str) -> (String, Option<Secrets>) {
    let mut url = match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https" | "oci") => url,
        _ if text.contains('@') => return (redact_url(text), None),
        _ => return (text.to_owned(), None),
    };
    if url.username().is_empty() && url.password().is_none() {
        return (text.to_owned(), None);
    }
    let decode = |text: &str| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
    let secrets = Secrets::from([
        ("username".to_owned(), decode(url.username())),
        (
            "password".to_owned(),
            decode(url.password().unwrap_or_default()),
        ),
    ]);
    if url.set_username("").is_err() || url.set_password(None).is_err() {
        return (text.to_owned(), None);
    }
    // Cut out of the text itself: a parsed URL is spelled anew, and its spelling is part
    // of the identity of the source.
    let bare = text.split_once("://").and_then(|(scheme, rest)| {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let at = rest.get(..end)?.rfind('@')?;
        Some(format!("{scheme}://{}", rest.get(at + 1..)?))
    });
    (bare.unwrap_or_else(|| url.to_string()), Some(secrets))
}
