//! Who sends deliveries, and how each of them signs and names what it sends. Pure.

use axum::http::HeaderMap;

use super::signature::{Proof, Refusal};

/// A forge, or whoever signs as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiver {
    /// GitHub, of its cloud and of one's own.
    GitHub,
    /// GitLab.
    GitLab,
    /// Bitbucket Cloud and Data Center.
    Bitbucket,
    /// Gitea, Forgejo, Gogs.
    Gitea,
    /// Whoever else.
    Generic,
}

/// What a delivery is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Refs of a repository changed.
    Push,
    /// What the body says.
    Named,
    /// The sender tries whether it is heard.
    Ping,
    /// Something that is of no interest here.
    Other,
    /// It doesn't say.
    Unknown,
}

/// Where Gitea and its kin put signatures, the first that is there counts.
const GITEA_SIGNATURES: [(&str, bool); 4] = [
    ("X-Gitea-Signature", true),
    ("X-Forgejo-Signature", true),
    ("X-Gogs-Signature", true),
    ("X-Hub-Signature-256", false),
];

const GITEA_EVENTS: [&str; 3] = ["X-Gitea-Event", "X-Forgejo-Event", "X-Gogs-Event"];

impl Receiver {
    /// By what the last part of a path says.
    #[must_use]
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "github" => Some(Self::GitHub),
            "gitlab" => Some(Self::GitLab),
            "bitbucket" => Some(Self::Bitbucket),
            "gitea" | "forgejo" | "gogs" => Some(Self::Gitea),
            "generic" => Some(Self::Generic),
            _ => None,
        }
    }

    /// As metrics and logs call it.
    #[must_use]
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
            Self::Bitbucket => "bitbucket",
            Self::Gitea => "gitea",
            Self::Generic => "generic",
        }
    }

    /// What a delivery proves itself with.
    ///
    /// # Errors
    /// If that is nothing, or nothing that proves anything.
    pub(super) fn proof(self, headers: &HeaderMap) -> Result<Proof, Refusal> {
        let header = |name: &str| headers.get(name).map(|value| value.as_bytes());
        let signed_in = |name: &'static str| match header(name) {
            Some(text) => Proof::hmac(name, text, false),
            None => Err(Refusal::Unsigned(name)),
        };
        match self {
            Self::GitHub => match (signed_in("X-Hub-Signature-256"), header("X-Hub-Signature")) {
                (Err(Refusal::Unsigned(name)), Some(_)) => Err(Refusal::Sha1(name)),
                (proof, _) => proof,
            },
            Self::GitLab => match header("X-Gitlab-Token") {
                Some(token) => Ok(Proof::Token(token.to_vec())),
                None => Err(Refusal::Unsigned("X-Gitlab-Token")),
            },
            Self::Bitbucket => signed_in("X-Hub-Signature"),
            Self::Gitea => {
                let mut signatures = GITEA_SIGNATURES.into_iter();
                let found = signatures.find_map(|(name, bare)| Some((name, bare, header(name)?)));
                match found {
                    Some((name, bare, text)) => Proof::hmac(name, text, bare),
                    None => Err(Refusal::Unsigned("X-Gitea-Signature")),
                }
            }
            Self::Generic => signed_in("X-Signature"),
        }
    }

    /// What a delivery is about, by its headers.
    #[must_use]
    pub(super) fn event(self, headers: &HeaderMap) -> Event {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let event = match self {
            Self::GitHub => header("X-GitHub-Event"),
            Self::GitLab => header("X-Gitlab-Event"),
            Self::Bitbucket => header("X-Event-Key"),
            Self::Gitea => GITEA_EVENTS.into_iter().find_map(header),
            Self::Generic => return Event::Push,
        };
        let Some(event) = event else {
            return Event::Unknown;
        };
        match (self, event) {
            (Self::GitHub, "ping") | (Self::Bitbucket, "diagnostics:ping") => Event::Ping,
            (Self::GitHub | Self::Gitea, "push" | "create" | "delete")
            | (Self::GitLab, "Push Hook" | "Tag Push Hook")
            | (Self::Bitbucket, "repo:push" | "repo:refs_changed" | "mirror:repo_synchronized") => {
                Event::Push
            }
            (Self::GitLab, "System Hook") => Event::Named,
            _ => Event::Other,
        }
    }

    /// Whether this is the trial of a connection that its sender never signs.
    #[must_use]
    pub(super) fn is_unsigned_ping(self, headers: &HeaderMap) -> bool {
        self == Self::Bitbucket
            && self.event(headers) == Event::Ping
            && !headers.contains_key("X-Hub-Signature")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use axum::http::HeaderName;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                let name: HeaderName = name.parse().unwrap();
                (name, value.parse().unwrap())
            })
            .collect()
    }

    fn is_good(proof: &Result<Proof, Refusal>) -> bool {
        matches!(proof, Ok(Proof::Hmac(_)))
    }

    #[test]
    fn each_signs_in_headers_of_its_own() {
        let hex = "ab".repeat(32);
        let (signed, bare) = (format!("sha256={hex}"), hex.as_str());
        for (receiver, header, value, good) in [
            ("github", "X-Hub-Signature-256", signed.as_str(), true),
            ("github", "X-Hub-Signature-256", bare, false),
            ("github", "X-Signature", &signed, false),
            ("bitbucket", "X-Hub-Signature", &signed, true),
            ("bitbucket", "X-Hub-Signature-256", &signed, false),
            ("gitea", "X-Gitea-Signature", bare, true),
            ("forgejo", "X-Forgejo-Signature", bare, true),
            ("gogs", "X-Gogs-Signature", bare, true),
            ("gitea", "X-Hub-Signature-256", &signed, true),
            ("gitea", "X-Hub-Signature", &signed, false),
            ("generic", "X-Signature", &signed, true),
            ("generic", "X-Hub-Signature-256", &signed, false),
        ] {
            let proof = Receiver::named(receiver)
                .unwrap()
                .proof(&headers(&[(header, value)]));
            assert_eq!(is_good(&proof), good, "{receiver} {header}: {proof:?}");
        }
        let gitlab = Receiver::GitLab;
        assert_eq!(
            gitlab.proof(&headers(&[("x-gitlab-token", "t")])),
            Ok(Proof::Token(b"t".to_vec()))
        );
        for receiver in ["github", "gitlab", "bitbucket", "gitea", "generic"] {
            let proof = Receiver::named(receiver).unwrap().proof(&HeaderMap::new());
            assert!(matches!(proof, Err(Refusal::Unsigned(_))), "{receiver}");
        }
        // Older signatures are no reason to believe anything, alone or beside others.
        let sha1 = ("X-Hub-Signature", "sha1=00");
        for receiver in [Receiver::GitHub, Receiver::Bitbucket] {
            let proof = receiver.proof(&headers(&[sha1]));
            assert!(matches!(proof, Err(Refusal::Sha1(_))), "{proof:?}");
        }
        let both = headers(&[sha1, ("X-Hub-Signature-256", &signed)]);
        assert!(is_good(&Receiver::GitHub.proof(&both)));
        assert_eq!(Receiver::named("svn"), None);
    }

    #[test]
    fn pushes_count_pings_are_answered_and_the_rest_is_passed_over() {
        for (receiver, header, value, event) in [
            (Receiver::GitHub, "X-GitHub-Event", "push", Event::Push),
            (Receiver::GitHub, "X-GitHub-Event", "create", Event::Push),
            (Receiver::GitHub, "X-GitHub-Event", "ping", Event::Ping),
            (Receiver::GitHub, "X-GitHub-Event", "issues", Event::Other),
            (Receiver::GitHub, "X-Gitlab-Event", "push", Event::Unknown),
            (Receiver::GitLab, "X-Gitlab-Event", "Push Hook", Event::Push),
            (
                Receiver::GitLab,
                "X-Gitlab-Event",
                "Tag Push Hook",
                Event::Push,
            ),
            (
                Receiver::GitLab,
                "X-Gitlab-Event",
                "System Hook",
                Event::Named,
            ),
            (
                Receiver::GitLab,
                "X-Gitlab-Event",
                "Note Hook",
                Event::Other,
            ),
            (Receiver::Bitbucket, "X-Event-Key", "repo:push", Event::Push),
            (
                Receiver::Bitbucket,
                "X-Event-Key",
                "repo:refs_changed",
                Event::Push,
            ),
            (
                Receiver::Bitbucket,
                "X-Event-Key",
                "diagnostics:ping",
                Event::Ping,
            ),
            (
                Receiver::Bitbucket,
                "X-Event-Key",
                "pr:opened",
                Event::Other,
            ),
            (Receiver::Gitea, "X-Gitea-Event", "push", Event::Push),
            (Receiver::Gitea, "X-Forgejo-Event", "push", Event::Push),
            (Receiver::Gitea, "X-Gogs-Event", "push", Event::Push),
            (Receiver::Gitea, "X-Gitea-Event", "issues", Event::Other),
            (Receiver::Generic, "X-Anything", "at all", Event::Push),
        ] {
            assert_eq!(
                receiver.event(&headers(&[(header, value)])),
                event,
                "{receiver:?} {header} {value}"
            );
        }
        let ping = headers(&[("X-Event-Key", "diagnostics:ping")]);
        assert!(Receiver::Bitbucket.is_unsigned_ping(&ping));
        assert!(!Receiver::Bitbucket.is_unsigned_ping(&headers(&[("X-Event-Key", "repo:push")])));
        let github = headers(&[("X-GitHub-Event", "ping")]);
        assert!(!Receiver::GitHub.is_unsigned_ping(&github));
    }
}
