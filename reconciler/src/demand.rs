//! HelmReleases → requests. Pure: the same HelmReleases give the same files, whatever
//! happened before, so that nothing is ever forgotten in one.

use std::collections::{BTreeMap, BTreeSet};

use tandem_shared::artifact::{Digest, is_sound_path};
use tandem_shared::credentials::Values as Secrets;
use tandem_shared::names;
use tandem_shared::request::{self, Prefer, Request, Want, WantKind, WantSpec};
use tandem_shared::source::{CredentialRef, Source, SourceKind, SourceName, redact_url};
use tandem_shared::version::Document;
use thiserror::Error;
use url::Url;

use crate::config::SourceDefaults;
use crate::crd::{ChartSource, GitChart, HelmRelease, InvalidSpec, RepositoryChart};

/// The word by which the reconciler knows its own request files.
pub const OWNER: &str = "tandem-reconciler";

/// What one HelmRelease wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Of the source of its chart: the chart's want first, then values files that lie beside it.
    pub chart: SourceWish,
    /// Keys of the wants of the values files in the chart's repository, by their path as
    /// the HelmRelease writes it.
    pub files: BTreeMap<String, String>,
    /// Of values files behind URLs, each of them a source, by the URL as the HelmRelease
    /// writes it.
    pub urls: BTreeMap<String, SourceWish>,
}

/// What one HelmRelease wants of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceWish {
    /// The source, its URL without a password.
    pub source: Source,
    /// The name of the source on the volume.
    pub name: SourceName,
    /// The user and password that stood in the URL itself.
    pub embedded: Option<Secrets>,
    /// All wants.
    pub wants: Vec<Want>,
}

impl Wish {
    /// All sources, that of the chart first.
    pub fn sources(&self) -> impl Iterator<Item = &SourceWish> {
        std::iter::once(&self.chart).chain(self.urls.values())
    }
}

impl SourceWish {
    /// The key of the first want: of the chart, or of the one file.
    #[must_use]
    pub fn key(&self) -> &str {
        self.wants.first().map_or("", |want| want.key.as_str())
    }

    /// The keys of all wants.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.wants.iter().map(|want| want.key.clone()).collect()
    }
}

/// A HelmRelease whose source can't be asked for anything.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WishError {
    /// Something is wrong with the HelmRelease by itself.
    #[error(transparent)]
    Spec(#[from] InvalidSpec),
    /// A file of the repository is wanted, of a chart that is in none.
    #[error(
        "valuesFrom names the chart file {0:?}, but the chart comes from a Helm repository; chartFileRef works with chart.git only"
    )]
    ChartFile(String),
}

impl WishError {
    /// Whether it is the chart's source that can't be made out.
    #[must_use]
    pub fn is_chart_source(&self) -> bool {
        matches!(self, Self::Spec(InvalidSpec::NoChartSource))
    }
}

/// What `release` wants.
///
/// # Errors
/// Says what is wrong with it.
pub fn wish(release: &HelmRelease, defaults: &SourceDefaults) -> Result<Wish, WishError> {
    release.validate()?;
    let files: Vec<(String, bool)> = release
        .spec
        .values_sources()
        .iter()
        .filter_map(|source| {
            source
                .chart_file_ref
                .as_ref()
                .map(|file| (file.path.clone(), source.is_optional()))
        })
        .collect();
    let (chart, files) = match release.chart_source()? {
        ChartSource::Git(chart) => git_wish(release, &chart, &files, defaults),
        ChartSource::Repository(chart) => match files.into_iter().next() {
            Some((path, _)) => return Err(WishError::ChartFile(path)),
            None => (repository_wish(release, &chart), BTreeMap::new()),
        },
    };
    Ok(Wish {
        chart,
        files,
        urls: url_wishes(release),
    })
}

fn git_wish(
    release: &HelmRelease,
    chart: &GitChart,
    files: &[(String, bool)],
    defaults: &SourceDefaults,
) -> (SourceWish, BTreeMap<String, String>) {
    let reference = chart.git_ref.clone().or_else(|| defaults.reference.clone());
    let spec = |kind, path, skip_dependencies| WantSpec {
        kind,
        reference: reference.clone(),
        version: None,
        path,
        skip_dependencies,
    };
    let chart_path = clean(&chart.path);
    let skip = chart.skip_dependencies || defaults.skip_dependencies;
    let chart_want = spec(WantKind::Chart, chart_path.clone(), skip);
    let mut group: BTreeSet<WantSpec> = [chart_want.clone()].into();
    // A file that need not be there must not hold the chart back: it moves by itself.
    let mut alone = BTreeSet::new();
    let mut paths = BTreeMap::new();
    for (path, optional) in files {
        let want = spec(
            WantKind::File,
            clean(&format!("{chart_path}/{path}")),
            false,
        );
        paths.insert(path.clone(), want.clone());
        if *optional {
            alone.insert(want)
        } else {
            group.insert(want)
        };
    }
    alone.retain(|want| !group.contains(want));
    let mut wants = request::group(group);
    wants.extend(
        alone
            .into_iter()
            .flat_map(|want| request::group([want].into())),
    );
    wants.sort_by_key(|want| want.spec != chart_want);
    let prefer = preferred_commit(release, reference.as_deref());
    for want in &mut wants {
        want.prefer.commit.clone_from(&prefer);
    }
    let key_of = |spec: &WantSpec| {
        wants
            .iter()
            .find(|want| want.spec == *spec)
            .map(|want| want.key.clone())
    };
    let files = paths
        .iter()
        .filter_map(|(path, spec)| Some((path.clone(), key_of(spec)?)))
        .collect();
    let wish = of_source(
        SourceKind::Git,
        &chart.url,
        chart.secret.clone(),
        &embedded_name(release),
        &release.own_namespace(),
        wants,
    );
    (wish, files)
}

fn repository_wish(release: &HelmRelease, chart: &RepositoryChart) -> SourceWish {
    let oci = chart
        .url
        .get(..6)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("oci://"));
    let kind = if oci {
        SourceKind::Oci
    } else {
        SourceKind::Helm
    };
    let spec = WantSpec {
        kind: WantKind::Chart,
        reference: None,
        version: Some(chart.version.clone()),
        path: chart.name.clone(),
        skip_dependencies: false,
    };
    of_source(
        kind,
        &chart.url,
        chart.secret.clone(),
        &embedded_name(release),
        &release.own_namespace(),
        request::group([spec].into()),
    )
}

/// Each URL is a source of its own, with one file.
fn url_wishes(release: &HelmRelease) -> BTreeMap<String, SourceWish> {
    let mut wishes: BTreeMap<String, SourceWish> = BTreeMap::new();
    for source in release.spec.values_sources() {
        let Some(external) = source.external_source_ref else {
            continue;
        };
        let spec = WantSpec {
            kind: WantKind::File,
            reference: None,
            version: None,
            path: file_name(&external.url),
            skip_dependencies: false,
        };
        // The chart's URL may have a password, too, and each of several URLs its own.
        let bare = split_password(&external.url).0;
        let own = names::short_hex(&[bare.as_bytes()]);
        let wish = of_source(
            SourceKind::Http,
            &external.url,
            None,
            &format!("{}:{own}", embedded_name(release)),
            &release.own_namespace(),
            request::group([spec].into()),
        );
        // One URL with two passwords is one source: the first one counts.
        let before = wishes.values().find(|before| before.name == wish.name);
        let wish = before.cloned().unwrap_or(wish);
        wishes.insert(external.url, wish);
    }
    wishes
}

/// The last part of a URL's path, or what a values file is usually called.
fn file_name(url: &str) -> String {
    let url = Url::parse(url).ok();
    let last = url
        .as_ref()
        .and_then(|url| url.path_segments()?.next_back())
        .filter(|name| is_sound_path(name));
    last.unwrap_or("values.yaml").to_owned()
}

/// The reference of the credential that stands in a URL. No Secret has a colon in its
/// name, so it is nobody else's.
fn embedded_name(release: &HelmRelease) -> String {
    format!("helmrelease:{}", kube::ResourceExt::name_any(release))
}

fn of_source(
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

/// The commit that a short commit id stood for when it was released last.
fn preferred_commit(release: &HelmRelease, reference: Option<&str>) -> Option<String> {
    let reference = reference?;
    let hex = |text: &str| text.bytes().all(|c| c.is_ascii_hexdigit());
    let last = release.status.as_ref()?.last_attempted_revision.as_ref()?;
    let short = (4..40).contains(&reference.len()) && hex(reference);
    let continues =
        last.len() == 40 && hex(last) && last.starts_with(&reference.to_ascii_lowercase());
    (short && continues).then(|| last.clone())
}

/// A path from the root of the repository, without `.`, empty parts and what `..` undoes.
/// One that leads out of the repository stays as it is: the sidecar refuses it, by name.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => return path.to_owned(),
            ".." => {}
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    }
}

/// Takes user and password out of a URL. The user of ssh is a login name and stays; a
/// password that its scheme has no use for goes nowhere.
fn split_password(text: &str) -> (String, Option<Secrets>) {
    let mut url = match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => url,
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

/// One HelmRelease's part in one source.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// `namespace/name` of the HelmRelease.
    pub helm_release: &'a str,
    /// What it wants of it.
    pub wish: &'a SourceWish,
    /// The id of its credential, if it has one.
    pub credential: Option<&'a str>,
}

/// What requests hold besides what HelmReleases say.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// The last refresh token, by source.
    pub refresh: BTreeMap<SourceName, String>,
    /// Artifacts that were found to be other than their name says, by source and want.
    pub rejected: BTreeMap<(SourceName, String), BTreeSet<Digest>>,
}

/// All requests that `parts` amount to.
#[must_use]
pub fn requests<'a>(
    parts: impl IntoIterator<Item = Part<'a>>,
    extras: &Extras,
    defaults: &SourceDefaults,
) -> BTreeMap<SourceName, Request> {
    let mut drafts: BTreeMap<SourceName, (Request, BTreeMap<String, Want>)> = BTreeMap::new();
    for part in parts {
        let name = &part.wish.name;
        let (_, wants) = drafts.entry(name.clone()).or_insert_with(|| {
            let request = Request {
                schema: Request::current_schema(),
                source: part.wish.source.clone(),
                owner: OWNER.to_owned(),
                credential_id: part.credential.map(ToOwned::to_owned),
                interval_seconds: defaults.interval.as_secs().max(1),
                timeout_seconds: defaults.timeout.as_secs().max(1),
                refresh: extras.refresh.get(name).cloned().unwrap_or_default(),
                wants: Vec::new(),
            };
            (request, BTreeMap::new())
        });
        for want in &part.wish.wants {
            let all = wants.entry(want.key.clone()).or_insert_with(|| Want {
                prefer: Prefer::default(),
                ..want.clone()
            });
            all.used_by.push(part.helm_release.to_owned());
            if all.prefer.is_empty()
                || (!want.prefer.is_empty() && want.prefer.commit < all.prefer.commit)
            {
                all.prefer = want.prefer.clone();
            }
        }
    }
    drafts
        .into_iter()
        .map(|(name, (mut request, wants))| {
            request.wants = wants.into_values().collect();
            for want in &mut request.wants {
                want.used_by.sort();
                want.used_by.dedup();
                if let Some(rejected) = extras.rejected.get(&(name.clone(), want.key.clone())) {
                    want.rejected.clone_from(rejected);
                }
            }
            (name, request)
        })
        .collect()
}

#[cfg(test)]
#[path = "demand_tests.rs"]
mod tests;
