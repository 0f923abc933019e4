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
    /// The remote can't give a part of the history, only all of it.
    NoShallow,
    /// The local repository is broken.
    Corrupt,
    /// A lock that a killed child left.
    Locked,
}

/// Phrases, the reason that they stand for, and what to do with it. The first
/// one that is found counts, so what is more precise stands before what git
/// adds to any failure ("make sure the repository exists").
const PHRASES: &[(&str, Reason, Meaning)] = &[
    ("no space left on device", Reason::Volume, Meaning::Failure),
    ("disk quota exceeded", Reason::Volume, Meaning::Failure),
    ("read-only file system", Reason::Volume, Meaning::Failure),
    (".lock': file exists", Reason::Internal, Meaning::Locked),
    (
        "mismatched object format",
        Reason::Unsupported,
        Meaning::Failure,
    ),
    ("not our ref", Reason::RefNotFound, Meaning::Refused),
    ("unadvertised object", Reason::RefNotFound, Meaning::Refused),
    (
        "couldn't find remote ref",
        Reason::RefNotFound,
        Meaning::Refused,
    ),
    (
        "remote did not send all necessary objects",
        Reason::RefNotFound,
        Meaning::Refused,
    ),
    (
        "does not support shallow",
        Reason::Remote,
        Meaning::NoShallow,
    ),
    (
        "server does not support shallow",
        Reason::Remote,
        Meaning::NoShallow,
    ),
    ("loose object", Reason::MirrorCorrupt, Meaning::Corrupt),
    ("object file", Reason::MirrorCorrupt, Meaning::Corrupt),
    ("bad object", Reason::MirrorCorrupt, Meaning::Corrupt),
    (
        "does not match index",
        Reason::MirrorCorrupt,
        Meaning::Corrupt,
    ),
    ("bad tree object", Reason::MirrorCorrupt, Meaning::Corrupt),
    (
        "unable to read tree",
        Reason::MirrorCorrupt,
        Meaning::Corrupt,
    ),
    (
        "not a git repository:",
        Reason::MirrorCorrupt,
        Meaning::Corrupt,
    ),
    (
        "could not parse commit",
        Reason::MirrorCorrupt,
        Meaning::Corrupt,
    ),
    (
        "shallow file has changed",
        Reason::Internal,
        Meaning::Locked,
    ),
    (
        "unable to read askpass response",
        Reason::AuthenticationFailed,
        Meaning::Failure,
    ),
    (
        "could not resolve proxy",
        Reason::UnknownHost,
        Meaning::Failure,
    ),
    (
        "could not resolve host",
        Reason::UnknownHost,
        Meaning::Failure,
    ),
    (
        "name or service not known",
        Reason::UnknownHost,
        Meaning::Failure,
    ),
    (
        "temporary failure in name resolution",
        Reason::UnknownHost,
        Meaning::Failure,
    ),
    (
        "no address associated with hostname",
        Reason::UnknownHost,
        Meaning::Failure,
    ),
    ("unable to look up", Reason::UnknownHost, Meaning::Failure),
    (
        "host key verification failed",
        Reason::HostNotTrusted,
        Meaning::Failure,
    ),
    (
        "remote host identification has changed",
        Reason::HostNotTrusted,
        Meaning::Failure,
    ),
    (
        "ssl certificate problem",
        Reason::HostNotTrusted,
        Meaning::Failure,
    ),
    (
        "certificate verification failed",
        Reason::HostNotTrusted,
        Meaning::Failure,
    ),
    (
        "error setting certificate",
        Reason::HostNotTrusted,
        Meaning::Failure,
    ),
    (
        "no alternative certificate subject name",
        Reason::HostNotTrusted,
        Meaning::Failure,
    ),
    (
        "certificate subject name",
        Reason::HostNotTrusted,
        Meaning::Failure,
    ),
    (
        "permission denied (",
        Reason::AuthenticationFailed,
        Meaning::Failure,
    ),
    (
        "authentication failed",
        Reason::AuthenticationFailed,
        Meaning::Failure,
    ),
    (
        "could not read username",
        Reason::AuthenticationFailed,
        Meaning::Failure,
    ),
    (
        "could not read password",
        Reason::AuthenticationFailed,
        Meaning::Failure,
    ),
    (
        "terminal prompts disabled",
        Reason::AuthenticationFailed,
        Meaning::Failure,
    ),
    (
        "returned error: 401",
        Reason::AuthenticationFailed,
        Meaning::Failure,
    ),
    (
        "returned error: 403",
        Reason::AuthenticationFailed,
        Meaning::Failure,
    ),
    (
        "invalid format",
        Reason::AuthenticationFailed,
        Meaning::Failure,
    ),
    (
        "error in libcrypto",
        Reason::AuthenticationFailed,
        Meaning::Failure,
    ),
    (
        "too many authentication failures",
        Reason::AuthenticationFailed,
        Meaning::Failure,
    ),
    (
        "returned error: 404",
        Reason::RepositoryNotFound,
        Meaning::Failure,
    ),
    (
        "returned error: 410",
        Reason::RepositoryNotFound,
        Meaning::Failure,
    ),
    (
        "repository not found",
        Reason::RepositoryNotFound,
        Meaning::Failure,
    ),
    ("' not found", Reason::RepositoryNotFound, Meaning::Failure),
    // What git says of a path that isn't there on some servers.
    (
        "dubious ownership",
        Reason::RepositoryNotFound,
        Meaning::Failure,
    ),
    (
        "does not appear to be a git repository",
        Reason::RepositoryNotFound,
        Meaning::Failure,
    ),
    (
        "is this a git repository?",
        Reason::RepositoryNotFound,
        Meaning::Failure,
    ),
    (
        "repository not exported",
        Reason::RepositoryNotFound,
        Meaning::Failure,
    ),
    (
        "no such repository",
        Reason::RepositoryNotFound,
        Meaning::Failure,
    ),
    ("returned error: 5", Reason::Unreachable, Meaning::Failure),
    ("returned error: 429", Reason::Unreachable, Meaning::Failure),
    ("connection refused", Reason::Unreachable, Meaning::Failure),
    ("connection reset", Reason::Unreachable, Meaning::Failure),
    ("connection closed", Reason::Unreachable, Meaning::Failure),
    (
        "connection timed out",
        Reason::Unreachable,
        Meaning::Failure,
    ),
    ("operation timed out", Reason::Unreachable, Meaning::Failure),
    ("failed to connect", Reason::Unreachable, Meaning::Failure),
    ("couldn't connect", Reason::Unreachable, Meaning::Failure),
    ("no route to host", Reason::Unreachable, Meaning::Failure),
    (
        "network is unreachable",
        Reason::Unreachable,
        Meaning::Failure,
    ),
    (
        "empty reply from server",
        Reason::Unreachable,
        Meaning::Failure,
    ),
    ("ssl_error_syscall", Reason::Unreachable, Meaning::Failure),
    ("tls connect error", Reason::Unreachable, Meaning::Failure),
    ("remote end hung up", Reason::Unreachable, Meaning::Failure),
    (
        "unexpected disconnect",
        Reason::Unreachable,
        Meaning::Failure,
    ),
    ("early eof", Reason::Unreachable, Meaning::Failure),
    ("rpc failed", Reason::Unreachable, Meaning::Failure),
    ("transport '", Reason::InvalidUrl, Meaning::Failure),
];

/// What a failed call means, in one word for machines and one for us.
#[must_use]
pub fn classify(outcome: &Outcome) -> (Reason, Meaning) {
    if outcome.end == End::TimedOut {
        return (Reason::Timeout, Meaning::Failure);
    }
    let text = outcome.stderr.to_lowercase();
    PHRASES
        .iter()
        .find(|(phrase, ..)| text.contains(phrase))
        .map_or(
            (Reason::Remote, Meaning::Failure),
            |(_, reason, meaning)| (reason.clone(), *meaning),
        )
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
        Reason::Remote if stderr.contains("returned error: 30") => {
            "The address leads elsewhere: use the final one"
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
