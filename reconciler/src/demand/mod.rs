//! HelmReleases → requests. Pure: the same HelmReleases give the same files, whatever
//! happened before, so that nothing is ever forgotten in one.

mod files;
mod git;
mod repository;
mod requests;
mod source;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use tandem_shared::credentials::Values as Secrets;
use tandem_shared::request::Want;
use tandem_shared::source::{Source, SourceName, redact_url};
use thiserror::Error;

use self::files::Files;
pub use self::requests::{Extras, OWNER, Part, requests};
use crate::config::SourceDefaults;
use crate::crd::{ChartSource, FileRef, HelmRelease, HelmReleaseStatus, InvalidSpec};
use crate::credentials::Lent;

/// What one HelmRelease wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Of the source of its chart: the chart's want first, then values files that lie there.
    pub chart: SourceWish,
    /// Of other sources, all of it values files.
    pub others: BTreeMap<SourceName, SourceWish>,
    /// Where each values file is found.
    pub files: BTreeMap<FileRef, FileWish>,
}

/// Where a values file is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileWish {
    /// The source.
    pub source: SourceName,
    /// The key of its want there.
    pub key: String,
    /// It moves with the chart, from one commit, or not at all.
    pub with_chart: bool,
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
        std::iter::once(&self.chart).chain(self.others.values())
    }

    /// What is wanted of one of them.
    #[must_use]
    pub fn source(&self, name: &SourceName) -> Option<&SourceWish> {
        if self.chart.name == *name {
            Some(&self.chart)
        } else {
            self.others.get(name)
        }
    }
}

impl SourceWish {
    /// The Secrets that it needs: the credential of the source, and keys.
    #[must_use]
    pub fn lent(&self) -> BTreeSet<Lent> {
        let credential = self.source.credential.clone().map(Lent::Credential);
        let verify = self
            .wants
            .iter()
            .filter_map(|want| want.spec.verify.as_ref());
        let keys = verify.map(|verify| Lent::Keys(verify.keys.clone()));
        credential.into_iter().chain(keys).collect()
    }

    /// The key of the first want, which is the chart's in its source.
    #[must_use]
    pub fn key(&self) -> &str {
        self.wants.first().map_or("", |want| want.key.as_str())
    }

    /// Where the chart is from, in a word for its status; for the source of a chart.
    #[must_use]
    pub fn origin(&self) -> String {
        let path = self.wants.first().map_or("", |want| &want.spec.path);
        format!("{}/{path}", self.source.url.trim_end_matches('/'))
    }

    /// What `status` says that was tried of it; of another chart it says nothing about this one.
    fn tried<'a>(&self, status: Option<&'a HelmReleaseStatus>) -> Option<&'a String> {
        let status = status?;
        let same = status.last_attempted_chart.as_ref() == Some(&self.origin());
        status.last_attempted_revision.as_ref().filter(|_| same)
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
        "valuesFrom names the chart file {0:?}, but the chart comes from a Helm repository; chartFileRef works with chart.git only, gitFileRef with any chart"
    )]
    ChartFile(String),
    /// A URL of which nobody can tell where its password ends. It isn't asked without it.
    #[error(
        "the URL {0} can't be read as it is written; encode what is special in its user and password (`/` as %2F, `@` as %40), or name a Secret with them instead"
    )]
    Muddled(String),
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
    if defaults.own_namespace_alone {
        release.keeps_to_its_namespace()?;
    }
    let chart_source = release.chart_source()?;
    let mut urls = source::urls(release, &chart_source).into_iter();
    if let Some(url) = urls.find(|url| source::is_muddled(url)) {
        return Err(WishError::Muddled(redact_url(&url)));
    }
    let chart = match chart_source {
        ChartSource::Git(chart) => git::wish(release, &chart, defaults),
        ChartSource::Repository(chart) => repository::wish(release, &chart),
    };
    let Files {
        chart,
        others,
        files,
    } = files::wishes(release, chart, defaults)?;
    Ok(Wish {
        chart,
        others,
        files,
    })
}
