//! What git's words mean. One pure function, tested on real messages.

use tandem_shared::child::{End, Outcome};
use tandem_shared::manifest::Reason;

/// Characters of a message that are kept.
const MESSAGE: usize = 600;

/// What a failed call amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A failure that is told as it is.
    Failure,
    /// The remote won't give one of the ids: to be asked for in another way.
    Refused,
    /// What the remote gives breaks git's rules, or is broken where it lies.
    Unsound,
    /// The remote can't give a part of the history, only all of it.
    NoShallow,
    /// The local repository is broken.
    Corrupt,
    /// A lock that a killed child left.
    Locked,
    /// The repository has moved, and git may not follow.
    Redirected,
}

/// What phrases stand for, and what to do about it. The first one that is found
/// counts, so what is more precise stands before what git
/// adds to any failure ("make sure the repository exists").
const PHRASES: &[(Reason, Meaning, &[&str])] = &[
    (
        Reason::Internal,
        Meaning::Failure,
        &["no user exists for uid"],
    ),
    (
        Reason::Volume,
        Meaning::Failure,
        &[
            "no space left on device",
            "disk quota exceeded",
            "read-only file system",
        ],
    ),
    (Reason::Remote, Meaning::Unsound, &["fsck error"]),
    (Reason::Internal, Meaning::Locked, &[".lock': file exists"]),
    (
        Reason::Unsupported,
        Meaning::Failure,
        &["mismatched object format"],
    ),
    (
        Reason::RefNotFound,
        Meaning::Refused,
        &[
            "not our ref",
            "unadvertised object",
            "couldn't find remote ref",
            "remote did not send all necessary objects",
        ],
    ),
    (
        Reason::Remote,
        Meaning::NoShallow,
        &[
            "does not support shallow",
            "server does not support shallow",
        ],
    ),
    (
        Reason::MirrorCorrupt,
        Meaning::Corrupt,
        &[
            "loose object",
            "object file",
            "bad object",
            "does not match index",
            "bad tree object",
            "unable to read tree",
            "not a git repository:",
            "could not parse commit",
        ],
    ),
    (
        Reason::Internal,
        Meaning::Locked,
        &["shallow file has changed"],
    ),
    (
        Reason::UnknownHost,
        Meaning::Failure,
        &[
            "could not resolve proxy",
            "could not resolve host",
            "name or service not known",
            "temporary failure in name resolution",
            "no address associated with hostname",
            "unable to look up",
        ],
    ),
    (
        Reason::HostNotTrusted,
        Meaning::Failure,
        &[
            "host key verification failed",
            "remote host identification has changed",
            "ssl certificate problem",
            "certificate verification failed",
            "error setting certificate",
            "no alternative certificate subject name",
            "certificate subject name",
        ],
    ),
    (
        Reason::AuthenticationFailed,
        Meaning::Failure,
        &[
            "permission denied (",
            "authentication failed",
            "could not read username",
            "could not read password",
            "terminal prompts disabled",
            "returned error: 401",
            "returned error: 403",
            "invalid format",
            "error in libcrypto",
            "too many authentication failures",
            // What a server says of a client's certificate, or of there being none.
            "alert certificate required",
            "certificate is required",
            "alert bad certificate",
            "alert unknown ca",
            "tls fatal alert has been received",
        ],
    ),
    (Reason::Remote, Meaning::Redirected, &["returned error: 30"]),
    (
        Reason::RepositoryNotFound,
        Meaning::Failure,
        &[
            "returned error: 404",
            "returned error: 410",
            "repository not found",
            "' not found",
            "dubious ownership",
            "does not appear to be a git repository",
            "is this a git repository?",
            "repository not exported",
            "no such repository",
        ],
    ),
    (
        Reason::Unreachable,
        Meaning::Failure,
        &[
            "returned error: 5",
            "returned error: 429",
            "connection refused",
            "connection reset",
            "connection closed",
            "connection timed out",
            "operation timed out",
            "failed to connect",
            "couldn't connect",
            "no route to host",
            "network is unreachable",
            "empty reply from server",
            "is not connected",
            "ssl_error_syscall",
            "tls connect error",
            "remote end hung up",
            "unexpected disconnect",
            "early eof",
            "rpc failed",
        ],
    ),
    (Reason::InvalidUrl, Meaning::Failure, &["transport '"]),
];

/// What a failed call means, in one word for machines and one for us.
#[must_use]
pub fn classify(outcome: &Outcome) -> (Reason, Meaning) {
    if outcome.end == End::TimedOut {
        return (Reason::Timeout, Meaning::Failure);
    }
    let text = outcome.stderr.to_lowercase();
    // First what git itself says: a broken repository on the other side isn't ours.
    let own: String = text
        .lines()
        .filter(|line| !line.starts_with("remote: "))
        .collect();
    find(&own)
        .or_else(|| find(&text).map(of_the_remote))
        .unwrap_or((Reason::Remote, Meaning::Failure))
}

/// What it means here that the remote says so of itself: its disk and its objects aren't ours.
fn of_the_remote((reason, meaning): (Reason, Meaning)) -> (Reason, Meaning) {
    match (&reason, meaning) {
        (_, Meaning::Corrupt) => (Reason::Remote, Meaning::Unsound),
        (Reason::Volume | Reason::Internal, _) => (Reason::Remote, Meaning::Failure),
        _ => (reason, meaning),
    }
}

fn find(text: &str) -> Option<(Reason, Meaning)> {
    let (reason, meaning, _) = PHRASES
        .iter()
        .find(|(_, _, phrases)| phrases.iter().any(|phrase| text.contains(phrase)))?;
    Some((reason.clone(), *meaning))
}

/// What is told about a failed call: git's own words, the telling lines first,
/// and what to do about it.
#[must_use]
pub fn describe(outcome: &Outcome, reason: &Reason) -> String {
    let mut told = String::new();
    match outcome.end {
        End::TimedOut => {
            told = format!(
                "git was ended after {} s, the time that one exchange may take",
                outcome.took.as_secs()
            );
        }
        End::Cancelled => "git was ended, since this process ends".clone_into(&mut told),
        End::Exited(code) => {
            let noise =
                |line: &&str| !line.is_empty() && !NOISE.iter().any(|noise| line.contains(noise));
            for line in outcome.stderr.lines().map(str::trim).filter(noise) {
                if !told.is_empty() {
                    told.push_str("; ");
                }
                told.push_str(
                    line.trim_start_matches("fatal: ")
                        .trim_start_matches("error: "),
                );
            }
            if told.is_empty() {
                told = format!("git ended with {code} and said nothing");
            }
        }
    }
    if told.chars().count() > MESSAGE {
        told = told.chars().take(MESSAGE).chain(['…']).collect();
    }
    let advice = advice(reason, &outcome.stderr);
    if advice.is_empty() {
        told
    } else {
        format!("{}. {advice}", told.trim_end_matches('.'))
    }
}

/// Lines that git adds to any failure.
const NOISE: &[&str] = &[
    "Could not read from remote repository.",
    "Please make sure you have the correct access rights",
    "and the repository exists.",
    "@@@@@@@@",
    "Warning: Permanently added",
    "warning: ",
    "@    WARNING: ",
    "IT IS POSSIBLE THAT SOMEONE",
    "Someone could be eavesdropping",
    "It is also possible that a host key",
    "To add an exception for this directory",
    "git config --global --add safe.directory",
    "unable to read askpass response",
];

fn advice(reason: &Reason, stderr: &str) -> &'static str {
    match reason {
        Reason::UnknownHost => "Check the host's name in the URL, and this container's DNS",
        Reason::Unreachable => {
            "Check that the host is up and that this container may reach it (network policies, proxies)"
        }
        Reason::Timeout => "Check the network, or allow a longer timeout",
        Reason::AuthenticationFailed if stderr.contains(" alert ") => {
            "If the server wants a client certificate, put one that it takes into the Secret that the source names, as tls.crt and tls.key"
        }
        Reason::AuthenticationFailed => {
            "Check the Secret that the source names: user name and password, token, or ssh key"
        }
        Reason::HostNotTrusted => "Check the known_hosts or ca.crt that this source is used with",
        Reason::RepositoryNotFound => {
            "Check the URL; some hosts say so too when a credential is missing or has no access"
        }
        Reason::Volume => {
            "Free space on the volume or give it more, and see that it is mounted read-write"
        }
        Reason::Internal if stderr.contains("No user exists for uid") => {
            "ssh only runs for users that /etc/passwd names: add this container's user to its image"
        }
        Reason::Remote if stderr.contains("returned error: 30") => {
            "The address leads elsewhere: use the final one"
        }
        Reason::Remote if stderr.contains("repository corruption on the remote side") => {
            "`git fsck` there says what is broken; push the ref's commits anew, or mend the repository"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn said(stderr: &str) -> Outcome {
        Outcome {
            end: End::Exited(128),
            stdout: Vec::new(),
            truncated: false,
            stderr: stderr.to_owned(),
            took: Duration::ZERO,
        }
    }

    /// As git 2.39 and OpenSSH 9 really said it.
    #[test]
    fn real_messages_are_understood() {
        let cases = [
            (
                "fatal: unable to access 'http://nope.invalid/r.git/': Could not resolve host: nope.invalid",
                Reason::UnknownHost,
            ),
            (
                "ssh: Could not resolve hostname nope.invalid: Name or service not known\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists.",
                Reason::UnknownHost,
            ),
            (
                "fatal: unable to look up nope.invalid (port 9418) (Name or service not known)",
                Reason::UnknownHost,
            ),
            (
                "fatal: unable to access 'http://127.0.0.1:1/r.git/': Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server",
                Reason::Unreachable,
            ),
            (
                "ssh: connect to host 127.0.0.1 port 1: Connection refused\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists.",
                Reason::Unreachable,
            ),
            (
                "fatal: unable to access 'http://h/r.git/': Empty reply from server",
                Reason::Unreachable,
            ),
            (
                "error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502\nfatal: expected flush after ref listing",
                Reason::Unreachable,
            ),
            (
                "fatal: could not read Username for 'http://127.0.0.1:9': terminal prompts disabled",
                Reason::AuthenticationFailed,
            ),
            (
                "fatal: Authentication failed for 'http://127.0.0.1:9/r.git/'",
                Reason::AuthenticationFailed,
            ),
            (
                "fatal: unable to access 'https://h/r.git/': GnuTLS recv error (-12): A TLS fatal alert has been received.",
                Reason::AuthenticationFailed,
            ),
            (
                "fatal: unable to access 'https://h/r.git/': OpenSSL SSL_read: OpenSSL/3.0.15: error:0A00045C:SSL routines::tlsv13 alert certificate required, errno 0",
                Reason::AuthenticationFailed,
            ),
            (
                "git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists.",
                Reason::AuthenticationFailed,
            ),
            (
                "No ED25519 host key is known for [127.0.0.1]:9 and you have requested strict checking.\nHost key verification failed.\nfatal: Could not read from remote repository.",
                Reason::HostNotTrusted,
            ),
            (
                "fatal: unable to access 'https://h/r.git/': server certificate verification failed. CAfile: none CRLfile: none",
                Reason::HostNotTrusted,
            ),
            (
                "fatal: unable to access 'https://h/r.git/': SSL certificate problem: unable to get local issuer certificate",
                Reason::HostNotTrusted,
            ),
            (
                "fatal: repository 'http://127.0.0.1:9/nope.git/' not found",
                Reason::RepositoryNotFound,
            ),
            (
                "fatal: '/srv/nope.git' does not appear to be a git repository\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists.",
                Reason::RepositoryNotFound,
            ),
            (
                "fatal: http://h/x/info/refs not valid: is this a git repository?",
                Reason::RepositoryNotFound,
            ),
            (
                "fatal: remote error: access denied or repository not exported: /nope.git",
                Reason::RepositoryNotFound,
            ),
            ("fatal: transport 'ftp' not allowed", Reason::InvalidUrl),
            (
                "fatal: write error: No space left on device\nfatal: index-pack failed",
                Reason::Volume,
            ),
            (
                "No user exists for uid 31002\nfatal: Could not read from remote repository.",
                Reason::Internal,
            ),
            ("fatal: something new", Reason::Remote),
        ];
        for (stderr, expected) in cases {
            assert_eq!(
                classify(&said(stderr)),
                (expected, Meaning::Failure),
                "{stderr}"
            );
        }
    }

    /// A tree that is missing on the other side, and a blob that is empty there.
    const BROKEN_THERE: &str = "remote: fatal: bad tree object 27f27fc173b4bc778eec8b86b019a755a12f8dc8        \nremote: aborting due to possible repository corruption on the remote side.\nfatal: protocol error: bad pack header";
    const EMPTY_THERE: &str = "remote: error: object file ./objects/58/7be6b4 is empty        \nerror: git upload-pack: git-pack-objects died with error.\nfatal: git upload-pack: aborting due to possible repository corruption on the remote side.\nremote: fatal: loose object 587be6b4 (stored in ./objects/58/7be6b4) is corrupt        \nfatal: protocol error: bad pack header";

    #[test]
    fn what_the_remote_says_of_itself_is_nothing_of_ours() {
        for there in [
            BROKEN_THERE,
            EMPTY_THERE,
            "remote: fatal: write error: No space left on device\nfatal: protocol error: bad pack header",
            "remote: fatal: Unable to create '/r.git/shallow.lock': File exists.",
        ] {
            let (reason, meaning) = classify(&said(there));
            assert_eq!(reason, Reason::Remote, "{there}");
            assert!(!matches!(meaning, Meaning::Corrupt | Meaning::Locked));
        }
        let told = describe(&said(BROKEN_THERE), &Reason::Remote);
        assert!(
            told.contains("bad tree object") && told.contains("git fsck"),
            "{told}"
        );
    }

    #[test]
    fn what_needs_another_way_is_told_apart() {
        let cases = [
            (
                "fatal: remote error: upload-pack: not our ref 1234",
                Meaning::Refused,
            ),
            (
                "error: Server does not allow request for unadvertised object 1234",
                Meaning::Refused,
            ),
            (
                "fatal: dumb http transport does not support shallow capabilities",
                Meaning::NoShallow,
            ),
            (
                "fatal: Unable to create '/m.git/shallow.lock': File exists.",
                Meaning::Locked,
            ),
            (
                "error: object file objects/aa/bb is empty\nfatal: loose object aabb is corrupt",
                Meaning::Corrupt,
            ),
            ("fatal: not a git repository: '/m.git'", Meaning::Corrupt),
            (BROKEN_THERE, Meaning::Unsound),
            (EMPTY_THERE, Meaning::Unsound),
        ];
        for (stderr, expected) in cases {
            assert_eq!(classify(&said(stderr)).1, expected, "{stderr}");
        }
    }

    #[test]
    fn a_message_is_short_and_helps() {
        let outcome = said(
            "ssh: connect to host h port 1: Connection refused\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists.",
        );
        let text = describe(&outcome, &Reason::Unreachable);
        assert!(
            text.starts_with("ssh: connect to host h port 1: Connection refused. Check"),
            "{text}"
        );
        assert!(describe(&said(&"x".repeat(5000)), &Reason::Remote).len() < 700);
    }
}
