//! What the volume says about one want, for the HelmRelease that has it. Pure.

use tandem_shared::manifest::{Failure, Good, Manifest, Reason};
use tandem_shared::verify::Verify;

/// Failed checks in a row before those who have a good chart are told: a host that is away
/// for a moment is no news to them.
pub const PERSISTENT: u32 = 3;

/// What the volume says about one want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantView {
    /// Nothing yet: it is being worked on.
    Pending(String),
    /// It can't be had.
    Problem(Trouble),
    /// It can be had.
    Good {
        /// What there is.
        good: Box<Good>,
        /// What is wrong with its newest form, or with the source, nevertheless.
        trouble: Option<Trouble>,
    },
}

/// What is wrong with a want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
    /// It is of the source as a whole, which answered before: what there is may still be
    /// the newest.
    pub source: bool,
    /// It may well pass in a moment: a source that has only just stopped to answer.
    pub passing: bool,
}

impl Trouble {
    /// Whether it lies between the two processes, so that it says nothing about what is
    /// wanted: not whether it is there, and not whether one can do without it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        matches!(
            self.reason,
            "ManifestRefused"
                | "RequestRefused"
                | "CredentialMissing"
                | "Unsupported"
                | "Volume"
                | "Internal"
        )
    }
}

impl WantView {
    /// The good result, if there is one.
    #[must_use]
    pub fn good(&self) -> Option<&Good> {
        match self {
            Self::Good { good, .. } => Some(good),
            _ => None,
        }
    }

    /// What is wrong, if anything is.
    #[must_use]
    pub fn trouble(&self) -> Option<&Trouble> {
        match self {
            Self::Good { trouble, .. } => trouble.as_ref(),
            Self::Problem(trouble) => Some(trouble),
            Self::Pending(_) => None,
        }
    }
}

/// The reason of a want that isn't signed as was asked for.
pub const UNVERIFIED: &str = "Unverified";
/// The reason of a want that another one of its group holds back.
pub const HELD_BACK: &str = "GroupHeldBack";

/// What `manifest` (or why there is none) says about the want `key`.
#[must_use]
pub fn view(manifest: Result<&Manifest, &Unread>, key: &str) -> WantView {
    let manifest = match manifest {
        Ok(manifest) => manifest,
        Err(Unread::Absent) => {
            return WantView::Pending(
                "the mirror-sidecar has not answered yet; if that lasts, see whether it runs"
                    .to_owned(),
            );
        }
        Err(Unread::Refused(why)) => {
            return WantView::Problem(Trouble {
                reason: "ManifestRefused",
                message: why.clone(),
                source: false,
                passing: false,
            });
        }
    };
    let result = manifest.results.get(key);
    let of_source = manifest.failure.as_ref().map(|failure| Trouble {
        reason: word(&failure.reason),
        message: failure.message.clone(),
        source: true,
        passing: is_silence(&failure.reason) && !persists(failure),
    });
    let of_want = result
        .and_then(|result| result.problem.as_ref())
        .map(|problem| Trouble {
            reason: word(&problem.reason),
            message: problem.message.clone(),
            source: false,
            passing: false,
        });
    let persists = manifest.failure.as_ref().is_some_and(persists);
    match result.and_then(|result| result.good.as_ref()) {
        Some(good) => WantView::Good {
            good: Box::new(good.clone()),
            trouble: of_want.or(of_source.filter(|_| persists)),
        },
        None => match of_want.or(of_source) {
            Some(trouble) => WantView::Problem(trouble),
            None => WantView::Pending("the chart is being fetched".to_owned()),
        },
    }
}

/// The same, if it is signed as `verify` asks. A sidecar of a version that verifies nothing
/// reads over that wish, and says nothing about signers.
#[must_use]
pub fn signed(view: WantView, verify: Option<&Verify>) -> WantView {
    let is_signed = |good: &Good, verify: &Verify| {
        let by = good.verified_by.as_ref();
        by.is_some_and(|by| by.satisfies(&verify.mode))
    };
    match (&view, verify) {
        (WantView::Good { good, .. }, Some(verify)) if !is_signed(good, verify) => {
            WantView::Problem(Trouble {
                reason: UNVERIFIED,
                message: "the mirror-sidecar serves this without saying who signed it, so it \
                          isn't released; run a mirror-sidecar that verifies signatures"
                    .to_owned(),
                source: false,
                passing: false,
            })
        }
        _ => view,
    }
}

/// Whether a failure is news to those who have a good chart. What asking again doesn't mend is
/// tried once a poll, so that it would be told hours later.
fn persists(failure: &Failure) -> bool {
    let lasting = matches!(
        failure.reason,
        Reason::AuthenticationFailed | Reason::InvalidUrl | Reason::Unsupported
    );
    lasting || failure.attempts >= PERSISTENT
}

/// Whether nothing was said, rather than no.
fn is_silence(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Unreachable | Reason::UnknownHost | Reason::Timeout | Reason::Remote
    )
}

/// Why there is no manifest to look into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// There is none yet.
    Absent,
    /// There is one, which isn't believed.
    Refused(String),
}

/// A reason as a word that conditions can carry for ever.
fn word(reason: &Reason) -> &'static str {
    match reason {
        Reason::InvalidUrl => "InvalidUrl",
        Reason::UnknownHost => "UnknownHost",
        Reason::Unreachable => "Unreachable",
        Reason::Timeout => "Timeout",
        Reason::AuthenticationFailed => "AuthenticationFailed",
        Reason::HostNotTrusted => "HostNotTrusted",
        Reason::CredentialMissing => "CredentialMissing",
        Reason::RepositoryNotFound => "RepositoryNotFound",
        Reason::RefNotFound => "RefNotFound",
        Reason::RefAmbiguous => "RefAmbiguous",
        Reason::ChartNotFound => "ChartNotFound",
        Reason::VersionNotFound => "VersionNotFound",
        Reason::InvalidVersion => "InvalidVersion",
        Reason::DigestMismatch => "DigestMismatch",
        Reason::PathNotFound => "PathNotFound",
        Reason::InvalidPath => "InvalidPath",
        Reason::InvalidChart => "InvalidChart",
        Reason::InvalidLink => "InvalidLink",
        Reason::LfsPointer => "LfsPointer",
        Reason::InvalidFile => "InvalidFile",
        Reason::TooLarge => "TooLarge",
        Reason::DependencyFailed => "DependencyFailed",
        Reason::Unverified => "Unverified",
        Reason::GroupHeldBack => HELD_BACK,
        Reason::Unsupported => "Unsupported",
        Reason::Volume => "Volume",
        Reason::MirrorCorrupt => "MirrorCorrupt",
        Reason::Remote => "Remote",
        Reason::Internal => "Internal",
        Reason::Other(_) => "ChartFetchFailed",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use serde_json::json;

    use super::*;

    fn manifest(result: serde_json::Value, attempts: u32) -> Manifest {
        let failure = (attempts > 0).then(|| {
            json!({"reason": "UnknownHost", "message": "no such host", "since": "2026-01-01T00:00:00Z",
                   "attempts": attempts, "nextAttempt": "2026-01-01T00:00:00Z"})
        });
        serde_json::from_value(json!({
            "schema": "tandem.manifest/v1", "name": "n", "source": {"kind": "git", "url": "file:///r"},
            "epoch": "e", "sequence": 1, "state": "ready", "results": {"k": result}, "failure": failure,
        }))
        .unwrap()
    }

    fn good() -> serde_json::Value {
        json!({"commit": "c", "artifact": format!("t1:{}", "1".repeat(64)), "inputs": "i", "size": 1, "since": "2026-01-01T00:00:00Z"})
    }

    fn problem() -> serde_json::Value {
        json!({"reason": "PathNotFound", "message": "no such path", "since": "2026-01-01T00:00:00Z"})
    }

    fn trouble(view: &WantView) -> Option<&'static str> {
        view.trouble().map(|trouble| trouble.reason)
    }

    #[test]
    fn what_nobody_is_said_to_have_signed_is_not_released() {
        let verify: Verify = serde_json::from_value(
            json!({"mode": "Tag", "keys": {"namespace": "n", "name": "keys"}}),
        )
        .unwrap();
        for (by, is_signed) in [
            (json!({}), false),
            (json!({"commit": "ssh SHA256:x"}), false),
            (json!({"tag": "ssh SHA256:x"}), true),
        ] {
            let mut good = good();
            good["verifiedBy"] = by.clone();
            let manifest = manifest(json!({"good": good}), 0);
            let seen = view(Ok(&manifest), "k");
            let judged = signed(seen.clone(), Some(&verify));
            assert_eq!(judged.good().is_some(), is_signed, "{by}");
            assert_eq!(trouble(&judged), (!is_signed).then_some("Unverified"));
            assert_eq!(signed(seen.clone(), None), seen);
        }
        let old = view(Ok(&manifest(json!({"good": good()}), 0)), "k");
        assert_eq!(trouble(&signed(old, Some(&verify))), Some(UNVERIFIED));
        let none = view(Ok(&manifest(json!({}), 0)), "k");
        assert_eq!(signed(none.clone(), Some(&verify)), none);
    }

    #[test]
    fn what_is_good_stays_beside_what_is_wrong() {
        for (result, attempts, has_good, reason) in [
            (json!({}), 0, false, None),
            (json!({"good": good()}), 0, true, None),
            (
                json!({"good": good(), "problem": problem()}),
                0,
                true,
                Some("PathNotFound"),
            ),
            (
                json!({"problem": problem()}),
                1,
                false,
                Some("PathNotFound"),
            ),
            (json!({}), 1, false, Some("UnknownHost")),
            (json!({"good": good()}), 1, true, None),
            (json!({"good": good()}), 3, true, Some("UnknownHost")),
        ] {
            let manifest = manifest(result.clone(), attempts);
            let seen = view(Ok(&manifest), "k");
            assert_eq!(seen.good().is_some(), has_good, "{result}");
            assert_eq!(trouble(&seen), reason, "{result} {attempts}");
        }
        let mut refused = manifest(json!({"good": good()}), 1);
        refused.failure.as_mut().unwrap().reason = Reason::AuthenticationFailed;
        let seen = view(Ok(&refused), "k");
        assert!(seen.good().is_some());
        assert_eq!(trouble(&seen), Some("AuthenticationFailed"));
        assert!(matches!(
            view(Ok(&manifest(json!({}), 0)), "other"),
            WantView::Pending(_)
        ));
        assert!(matches!(
            view(Err(&Unread::Absent), "k"),
            WantView::Pending(_)
        ));
        let refused = Unread::Refused("another version".into());
        assert_eq!(trouble(&view(Err(&refused), "k")), Some("ManifestRefused"));
    }
}
