//! Why a registry gives no chart, in words and in one word.

use tandem_shared::manifest::Reason;
use thiserror::Error;

use crate::archive::ArchiveError;
use crate::web::WebError;

/// Why a registry gives no chart. Free of secrets.
#[derive(Debug, Error)]
pub enum OciError {
    /// The source's URL isn't accepted.
    #[error("the URL {0:?} isn't accepted: {1}")]
    Url(String, &'static str),
    /// The chart's name is none that a repository can have.
    #[error(
        "no repository of a registry can be called {0:?}; write small letters, digits, and single `.`, `_` and `-` between them"
    )]
    Name(String),
    /// The version is none.
    #[error(
        "{0:?} is no version, range, tag or digest; write 1.2.3, ^1.2, latest, sha256:<64 hex digits>, or 1.2.3@sha256:…"
    )]
    Version(String),
    /// The registry, or where it leads, can't be talked to.
    #[error(transparent)]
    Web(WebError),
    /// There is no such thing.
    #[error("the registry has no {0}; push it, or correct chart.repository, name or version")]
    NotFound(String),
    /// There is no such repository, or no tag in it.
    #[error(
        "the registry has no repository {0}; push the chart, or correct chart.repository or name"
    )]
    NoRepository(String),
    /// Nobody may pull that.
    #[error(
        "the registry doesn't let {0} be pulled ({1}); it may be missing, or need {2}: name a Secret in chart.chartPullSecret"
    )]
    Denied(String, u16, &'static str),
    /// The registry wants a password, and there is none.
    #[error(
        "the registry wants a user and password; name a Secret with them in chart.chartPullSecret"
    )]
    NoLogin,
    /// The user and password, or the token, are wrong.
    #[error("{0} refuses the credential; put the right one into its Secret")]
    Login(String),
    /// The server of tokens can't be talked to.
    #[error("the registry wants a token, and {0} gives none: {1}")]
    Token(String, WebError),
    /// It gives something else.
    #[error("the registry wants a token, and what {0} gives is none: {1}")]
    NoToken(String, String),
    /// The registry asks for a proof in no way that is known.
    #[error(
        "the registry wants a proof of who asks, and says neither Bearer nor Basic in `WWW-Authenticate`"
    )]
    Challenge,
    /// It leads to where no credential may go.
    #[error("the registry wants a token from {0:?}, which isn't asked: {1}")]
    Realm(String, &'static str),
    /// No manifest.
    #[error("the registry's manifest can't be read: {0}")]
    Manifest(String),
    /// A list of manifests.
    #[error(
        "there is an index of several images, and a chart is a single one; push it with `helm push`"
    )]
    Index,
    /// Something else than a chart.
    #[error("what is there is no chart, but of the kind {0:?}; charts are pushed with `helm push`")]
    NotChart(String),
    /// A chart without its archive.
    #[error("the chart's manifest names no archive (a layer of helm's media type)")]
    NoArchive,
    /// A digest that can't be checked.
    #[error("the digest {0:?} is none of the kind sha256, which alone is taken")]
    DigestKind(String),
    /// Something else than what was asked for.
    #[error(
        "what came for {asked} has the digest {found}, so it was changed on its way or is broken in the registry"
    )]
    Digest {
        /// The digest that it should have.
        asked: String,
        /// The one that it has.
        found: String,
    },
    /// The digest is of another version.
    #[error(
        "what has that digest is version {found:?}, and {asked:?} is asked for; correct one of the two"
    )]
    OtherVersion {
        /// Of the chart.
        found: String,
        /// Of the HelmRelease.
        asked: String,
    },
    /// No list of tags.
    #[error("the registry's list of tags can't be read: {0}")]
    Tags(String),
    /// The list of tags finds no end.
    #[error(
        "the registry's list of tags has no end within {within} ({tags} tags so far); name a version without a range"
    )]
    Endless {
        /// How many came.
        tags: usize,
        /// How much of it was waited for.
        within: String,
    },
    /// The next page is elsewhere.
    #[error("the registry's list of tags goes on at another place, which isn't asked")]
    Link,
    /// The archive is no chart.
    #[error("the chart's archive can't be used: {0}")]
    Archive(#[from] ArchiveError),
}

impl OciError {
    /// The word for machines.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Url(..) | Self::Realm(..) => Reason::InvalidUrl,
            Self::Name(_) => Reason::InvalidPath,
            Self::Version(_) => Reason::InvalidVersion,
            Self::Web(error) | Self::Token(_, error) => error.reason(),
            Self::NotFound(_) => Reason::VersionNotFound,
            Self::NoRepository(_) => Reason::ChartNotFound,
            Self::Denied(..) | Self::NoLogin | Self::Login(_) => Reason::AuthenticationFailed,
            Self::Index | Self::NotChart(_) | Self::NoArchive | Self::OtherVersion { .. } => {
                Reason::InvalidChart
            }
            Self::Digest { .. } => Reason::DigestMismatch,
            Self::Archive(error) => error.reason(),
            Self::NoToken(..)
            | Self::Challenge
            | Self::Manifest(_)
            | Self::DigestKind(_)
            | Self::Tags(_)
            | Self::Endless { .. }
            | Self::Link => Reason::Remote,
        }
    }

    /// Whether the same may well go better in a moment, without anybody mending anything.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Web(error) | Self::Token(_, error) => matches!(
                error.reason(),
                Reason::Unreachable | Reason::UnknownHost | Reason::Timeout | Reason::Remote
            ),
            Self::Digest { .. } => true,
            _ => false,
        }
    }

    /// How much of the registry it is about.
    #[must_use]
    pub fn reach(&self) -> Reach {
        match self {
            Self::Url(..) | Self::Realm(..) => Reach::Registry,
            // Some ask for a login for each repository by itself.
            Self::NoLogin | Self::Login(_) => Reach::Perhaps,
            Self::NoToken(..) | Self::Challenge => Reach::Perhaps,
            Self::Web(error) | Self::Token(_, error) => match error {
                // Another server, where it keeps one thing.
                WebError::Behind(..) => Reach::Chart,
                // A server that has had enough of us.
                WebError::Status(429) => Reach::Registry,
                // One that fails, maybe at this alone.
                WebError::Status(code) if *code >= 500 => Reach::Perhaps,
                WebError::Timeout(_) => Reach::Perhaps,
                WebError::Status(_) | WebError::Unauthorized(_) => Reach::Chart,
                error => match error.reason() {
                    Reason::TooLarge | Reason::PathNotFound | Reason::InvalidFile => Reach::Chart,
                    _ => Reach::Registry,
                },
            },
            _ => Reach::Chart,
        }
    }

    /// Whether the registry answered so what it was asked for.
    #[must_use]
    pub fn is_an_answer(&self) -> bool {
        matches!(
            self,
            Self::NotFound(_) | Self::NoRepository(_) | Self::Denied(..)
        )
    }
}

/// How much of a registry a failure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All of it, so nothing else need be asked for now.
    Registry,
    /// All of it, or this chart alone; what others say tells.
    Perhaps,
    /// This chart.
    Chart,
}

impl From<WebError> for OciError {
    fn from(error: WebError) -> Self {
        Self::Web(error)
    }
}
