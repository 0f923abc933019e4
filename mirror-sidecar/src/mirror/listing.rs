//! What the remote's refs stand for, asked in the cheapest way that it is known to answer.
//!
//! The first time git's own helper asks, since it knows all about proxies, logins and
//! redirects. A server that speaks version 2 over HTTP without any of its detours is then
//! asked by this process itself: one request instead of two, and no process at all. Whatever
//! else it answers, git asks again, and what git says counts.

use std::collections::BTreeSet;
use std::time::Instant;

use super::classify::Meaning;
use super::lsrefs::{self, Answer};
use super::refs::{self, Listing, ListingError, Question};
use super::{Mirror, MirrorError, Remote};
use crate::address::Scheme;
use crate::git::{Call, OUTPUT};
use crate::metrics::GitCommand;
use crate::web::{self, Asked, Method, Web, WebError};

/// What a server sends that answers.
const RESULT: &str = "application/x-git-upload-pack-result";

/// How a remote is asked for its refs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// By git's helper; a server that answers may then be asked directly.
    #[default]
    Unknown,
    /// By this process.
    Direct,
    /// By git's helper, for good: it goes a way that is git's own.
    Helper,
    /// By `git ls-remote`, since it can only be asked for everything.
    Old,
}

/// What this process asks with.
#[derive(Clone, Copy, Debug)]
pub struct Direct<'a> {
    /// The HTTP client.
    pub web: &'a Web,
    /// Schemes that are accepted.
    pub schemes: &'a BTreeSet<Scheme>,
}

impl Mirror<'_> {
    /// Asks the remote what refs stand for, in one exchange. `manner` remembers what is
    /// known of the remote.
    ///
    /// # Errors
    /// If the remote can't be asked.
    pub fn list(
        &self,
        direct: Direct<'_>,
        question: &Question,
        manner: &mut Manner,
    ) -> Result<Listing, MirrorError> {
        // What the remote is if git's helper gets an answer.
        let mut learnt = match manner {
            Manner::Helper => Manner::Helper,
            _ if is_plain(self.remote) => Manner::Direct,
            _ => Manner::Helper,
        };
        if *manner == Manner::Direct {
            match self.list_directly(direct, question) {
                Ok(listing) => return Ok(listing),
                Err(error) => {
                    tracing::debug!(%error, "the remote doesn't answer this process, so git asks");
                    // Who can't be asked at all is asked by git alone until it answers.
                    *manner = Manner::Unknown;
                    match error {
                        // git would wait as long again.
                        WebError::Timeout(_) => return Err(self.unasked(&error)),
                        WebError::Unreachable(_)
                        | WebError::UnknownHost(_)
                        | WebError::Status(429 | 500..) => {}
                        _ => learnt = Manner::Helper,
                    }
                }
            }
        }
        if *manner != Manner::Old {
            if let Some(listing) = self.list_by_helper(question)? {
                *manner = learnt;
                return Ok(listing);
            }
            *manner = Manner::Old;
        }
        let mut arguments = vec![
            "ls-remote",
            "--quiet",
            "--symref",
            "--",
            self.remote.address.url.as_str(),
        ];
        arguments.extend(question.names.iter().map(String::as_str));
        if question.tags {
            arguments.push("refs/tags/*");
        }
        let outcome = self.run(GitCommand::List, &arguments, b"")?;
        if outcome.truncated {
            return Err(MirrorError::Listing("it is larger than 32 MiB".to_owned()));
        }
        let text = String::from_utf8_lossy(&outcome.stdout);
        refs::parse(&text, question).map_err(|error| self.unreadable(error))
    }

    /// The listing, or nothing if the remote doesn't speak protocol v2.
    fn list_by_helper(&self, question: &Question) -> Result<Option<Listing>, MirrorError> {
        let call = Call {
            repository: None,
            ..self.call(GitCommand::List)
        };
        let request = lsrefs::request(question);
        let asked = self
            .git
            .ask_upload_pack(&call, &request, lsrefs::FAREWELL)?;
        let Some(outcome) = asked else {
            return Ok(None);
        };
        match lsrefs::parse(&outcome.stdout, question) {
            Ok(Answer::Refs(listing)) => Ok(Some(listing)),
            Ok(Answer::Old) => Ok(None),
            Ok(Answer::Incomplete) if outcome.success() => {
                Err(MirrorError::Listing("it ends in the middle".to_owned()))
            }
            Ok(Answer::Incomplete) => Err(self.failure(&outcome)),
            Err(error) => Err(self.unreadable(error)),
        }
    }

    /// The listing, by one request. It goes to the remote's own origin alone.
    fn list_directly(&self, direct: Direct<'_>, question: &Question) -> Result<Listing, WebError> {
        let Remote {
            address,
            access,
            timeout,
        } = self.remote;
        let url = format!("{}/git-upload-pack", address.url.trim_end_matches('/'));
        let request = lsrefs::request(question);
        let asked = Asked {
            method: Method::Packets(&request),
            accept: Some(RESULT),
            ..Asked::plain(&url, access, direct.schemes, timeout, OUTPUT as u64)
        };
        let begun = Instant::now();
        let mut sent = Vec::new();
        let answer = direct.web.get(asked, &mut sent);
        let refs = answer.and_then(|answer| match answer {
            web::Answer::New(head) if head.header("content-type") == Some(RESULT) => {
                head.as_it_is()?;
                match lsrefs::refs(&sent, question) {
                    Ok(Answer::Refs(listing)) => Ok(listing),
                    _ => Err(WebError::Protocol("no list of refs".to_owned())),
                }
            }
            _ => Err(WebError::Protocol("no answer to git".to_owned())),
        });
        let word = match &refs {
            Ok(_) => "success",
            Err(WebError::Timeout(_)) => "timeout",
            Err(_) => "failure",
        };
        self.git.asked(GitCommand::List, word, begun.elapsed());
        refs
    }

    fn unasked(&self, error: &WebError) -> MirrorError {
        MirrorError::Git {
            reason: error.reason(),
            meaning: Meaning::Failure,
            message: self.remote.redact(&error.to_string()),
        }
    }

    fn unreadable(&self, error: ListingError) -> MirrorError {
        match error {
            ListingError::Sha256 => MirrorError::Sha256,
            ListingError::Malformed(line) => MirrorError::Listing(self.remote.redact(&line)),
        }
    }
}

/// Whether a remote's address leads to the service by its path alone.
fn is_plain(remote: Remote<'_>) -> bool {
    remote.address.scheme.is_http() && !remote.address.url.contains(['?', '#'])
}
