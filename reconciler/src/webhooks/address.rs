//! Where a repository is, apart from how it is reached: what a forge calls a repository, and
//! what a HelmRelease calls the same one. Pure.

use percent_encoding::percent_decode_str;

/// Longest URL that is looked at.
const MOST_BYTES: usize = 2048;

/// Hosts that forges have for ssh alone, and the hosts that they stand for.
const SSH_HOSTS: [(&str, &str); 3] = [
    ("ssh.github.com", "github.com"),
    ("altssh.gitlab.com", "gitlab.com"),
    ("altssh.bitbucket.org", "bitbucket.org"),
];

/// Where a repository is: host and path, without scheme, user, port, `.git`, and the case of
/// letters. That may take two repositories for one, which costs a check of the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    host: String,
    path: String,
}

impl Address {
    /// Reads `scheme://[user@]host[:port]/path` and `[user@]host:path`. `None` of what names
    /// no host and path: a folder of this machine, or no URL at all.
    #[must_use]
    pub fn of(url: &str) -> Option<Self> {
        let url = url.trim();
        if url.len() > MOST_BYTES {
            return None;
        }
        let (authority, path) = match url.split_once("://") {
            Some((scheme, rest)) => {
                if scheme.eq_ignore_ascii_case("file") {
                    return None;
                }
                rest.split_once('/')?
            }
            None => scp(url)?,
        };
        let host = authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host);
        let host = without_port(host).trim_end_matches('.');
        let host = decoded(host)?;
        let path = decoded(path.split(['?', '#']).next().unwrap_or_default())?;
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        let path = path.trim_end_matches('/');
        if host.is_empty() || path.is_empty() {
            return None;
        }
        let stands_for = SSH_HOSTS.iter().find(|(ssh, _)| *ssh == host);
        Some(Self {
            host: stands_for
                .map_or(host.as_str(), |(_, host)| host)
                .to_owned(),
            path: path.to_owned(),
        })
    }
}

/// git takes `host:path` for ssh if no slash comes before the colon.
fn scp(url: &str) -> Option<(&str, &str)> {
    let after_host = match url.find(']') {
        // An IPv6 address has colons of its own.
        Some(end) if url.contains('[') => end,
        _ => 0,
    };
    let colon = after_host + url.get(after_host..)?.find(':')?;
    let (authority, path) = (url.get(..colon)?, url.get(colon + 1..)?);
    (!authority.contains('/')).then_some((authority, path))
}

fn without_port(host: &str) -> &str {
    match (host.starts_with('['), host.find(']')) {
        (true, Some(end)) => &host[..=end],
        _ => host.split_once(':').map_or(host, |(host, _)| host),
    }
}

fn decoded(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8().ok()?;
    Some(text.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_one_repository_are_one() {
        let one = Address::of("https://git.example.org/team/charts");
        assert!(one.is_some());
        for spelling in [
            "https://git.example.org/team/charts.git",
            "https://git.example.org/team/charts/",
            "https://git.example.org/team/charts.git/",
            "https://git.example.org//team/charts.git?x=1#y",
            "http://GIT.example.org:8080/Team/Charts",
            "https://me:pass@git.example.org./team/charts.git",
            "https://me:p%40ss@git.example.org/team/char%74s.git",
            "ssh://git@git.example.org:2222/team/charts.git",
            "git+ssh://git.example.org/team/charts.git",
            "git://git.example.org/team/charts.git",
            "git@git.example.org:team/charts.git",
            "git@git.example.org:/team/charts",
            "git.example.org:team/charts.git",
            " https://git.example.org/team/charts ",
        ] {
            assert_eq!(Address::of(spelling), one, "{spelling}");
        }
        for other in [
            "https://git.example.org/team/charts2",
            "https://git.example.org/team/charts.gitx",
            "https://git.example.org/charts",
            "https://git.example.org/a/team/charts",
            "https://example.org/team/charts",
            "https://git.example.org.evil/team/charts",
        ] {
            assert!(Address::of(other).is_some());
            assert_ne!(Address::of(other), one, "{other}");
        }
    }

    #[test]
    fn ssh_has_hosts_of_its_own() {
        for (ssh, web) in [
            (
                "ssh://git@ssh.github.com:443/o/r.git",
                "https://github.com/o/r",
            ),
            (
                "ssh://git@altssh.gitlab.com:443/o/r",
                "https://gitlab.com/o/r",
            ),
            (
                "ssh://git@altssh.bitbucket.org:443/o/r",
                "https://bitbucket.org/o/r",
            ),
            (
                "git@[2001:DB8::1]:o/r.git",
                "https://[2001:db8::1]:8443/o/r",
            ),
        ] {
            assert!(Address::of(ssh).is_some());
            assert_eq!(Address::of(ssh), Address::of(web), "{ssh}");
        }
    }

    #[test]
    fn what_names_no_repository_of_a_host_matches_nothing() {
        let long = format!("https://h/{}", "x".repeat(MOST_BYTES));
        for none in [
            "",
            "/",
            ":",
            "x",
            "h:",
            ":p",
            "https://",
            "https://h",
            "https://h/",
            "https://h/.git",
            "https:///path",
            "https://me@/path",
            "file:///srv/charts.git",
            "FILE:///srv/charts.git",
            "/srv/charts.git",
            "./a:b",
            "https://h/%ff",
            "[",
            "]:",
            "[:",
            "é",
            long.as_str(),
        ] {
            assert_eq!(Address::of(none), None, "{none}");
        }
    }
}
