//! HelmReleases → requests. Pure: the same HelmReleases give the same files, whatever
//! happened before, so that nothing is ever forgotten in one.

mod files;
mod git;
mod repository;
mod requests;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use tandem_shared::credentials::Values as Secrets;
use tandem_shared::request::Want;
use tandem_shared::source::{Source, SourceName};
use thiserror::Error;

pub use self::requests::{Extras, OWNER, Part, requests};
use crate::config::SourceDefaults;
use crate::crd::{ChartSource, HelmRelease, InvalidSpec};

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
        ChartSource::Git(chart) => git::wish(release, &chart, &files, defaults),
        ChartSource::Repository(chart) => match files.into_iter().next() {
            Some((path, _)) => return Err(WishError::ChartFile(path)),
            None => (repository::wish(release, &chart), BTreeMap::new()),
        },
    };
    Ok(Wish {
        chart,
        files,
        urls: files::url_wishes(release),
    })
}
