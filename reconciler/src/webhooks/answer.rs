//! What a delivery is answered, in a status, in words, and as it is counted. Pure.

use axum::http::StatusCode;

use super::push::PushError;
use super::signature::Refusal;
use super::{MOST_BYTES, PATIENCE};

/// What a delivery is answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// So many sources are checked.
    Asked(usize),
    /// Nobody wants anything of that repository.
    NoSource,
    /// A trial is well.
    Ping,
    /// A trial came through, and says nothing about the secret.
    UnsignedPing,
    /// Something else than a push.
    Ignored,
    /// It isn't said what it is about.
    NoEvent,
    /// There is nothing to believe it by.
    NoSecret,
    /// It isn't believed.
    Refused(Refusal),
    /// It is too large.
    TooLarge,
    /// It didn't come in time, or broke off.
    Incomplete,
    /// It can't be understood.
    Unclear(PushError),
    /// Others have to be heard first.
    Busy,
    /// Not all HelmReleases are known yet.
    NotReady,
}

impl Answer {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Asked(_) => StatusCode::ACCEPTED,
            Self::NoSource | Self::Ping | Self::UnsignedPing | Self::Ignored => StatusCode::OK,
            Self::NoSecret => StatusCode::FORBIDDEN,
            Self::Refused(_) => StatusCode::UNAUTHORIZED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Incomplete => StatusCode::REQUEST_TIMEOUT,
            Self::Unclear(_) | Self::NoEvent => StatusCode::BAD_REQUEST,
            Self::Busy | Self::NotReady => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// A label's value.
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Self::Asked(_) => "accepted",
            Self::NoSource => "no_source",
            Self::Ping | Self::UnsignedPing => "ping",
            Self::Ignored => "ignored",
            Self::NoSecret => "no_secret",
            Self::Refused(_) => "unauthorized",
            Self::TooLarge => "too_large",
            Self::Incomplete => "incomplete",
            Self::Unclear(_) | Self::NoEvent => "unclear",
            Self::Busy | Self::NotReady => "unavailable",
        }
    }

    /// For whoever looks at what the sender was told. What is configured here is nobody's
    /// business who hasn't proved to know the secret.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Asked(1) => "1 source is checked".to_owned(),
            Self::Asked(sources) => format!("{sources} sources are checked"),
            Self::NoSource => {
                "no source of that repository is wanted by any HelmRelease".to_owned()
            }
            Self::Ping => "heard, and the secret is right".to_owned(),
            Self::UnsignedPing => {
                "heard; a trial isn't signed, so the secret is untried".to_owned()
            }
            Self::Ignored => "only pushes are of interest here".to_owned(),
            Self::NoEvent => {
                "the header that names the event is missing; is this the receiver of your forge?"
                    .to_owned()
            }
            // Names of files stay here; the log has them.
            Self::NoSecret => {
                "no secret is set here, so nothing can be believed; see the log of the reconciler"
                    .to_owned()
            }
            Self::Refused(refusal) => refusal.to_string(),
            Self::TooLarge => format!(
                "more than {} MiB are not read; the next poll finds what was pushed",
                MOST_BYTES / (1024 * 1024)
            ),
            Self::Incomplete => {
                format!("the body was not complete within {} s", PATIENCE.as_secs())
            }
            Self::Unclear(error) => error.to_string(),
            Self::Busy => "too much to hear at the moment; send it again".to_owned(),
            Self::NotReady => "not ready yet; send it again".to_owned(),
        }
    }
}
