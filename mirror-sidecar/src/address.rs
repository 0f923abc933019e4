//! Addresses of git repositories: which are accepted, and what git is given.
//! (Those of files behind URLs are read by [`crate::web`].)
//!
//! A HelmRelease names the address, so it is no friend's word: schemes come
//! from an allow-list, nothing may look like an option or carry a control
//! character, and a password that stands in it is taken out before git sees it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use secrecy::SecretString;
use tandem_shared::source::redact_url;
use thiserror::Error;
use url::Url;

use crate::web::literal;

/// How a repository is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// A folder of this machine.
    File,
    /// git's own protocol, unencrypted.
    Git,
    /// HTTP.
    Http,
    /// HTTP over TLS.
    Https,
    /// ssh, also as `user@host:path`.
    Ssh,
}

impl Scheme {
    /// The word before `://`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Git => "git",
            Self::Http => "http",
            Self::Https => "https",
            Self::Ssh => "ssh",
        }
    }

    /// Whether user name and password may be asked for.
    #[must_use]
    pub fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

impl FromStr for Scheme {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        [Self::File, Self::Git, Self::Http, Self::Https, Self::Ssh]
            .into_iter()
            .find(|scheme| scheme.as_str().eq_ignore_ascii_case(word))
            .ok_or(())
    }
}

/// An address that is accepted.
#[derive(Clone, Debug)]
pub struct Address {
    /// How it is reached.
    pub scheme: Scheme,
    /// What git is given: no user name and password for HTTP, no password for ssh.
    pub url: String,
    /// `scheme://host:port` as git writes it in its questions.
    pub origin: String,
    /// The folder, for `file://`.
    pub folder: Option<PathBuf>,
    /// Where it leads, for ssh.
    pub ssh: Option<SshTarget>,
    /// User name and password that stood in it.
    pub userinfo: Option<(String, SecretString)>,
}

/// Where an ssh address leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshTarget {
    /// `user@host`, or the host alone.
    pub destination: String,
    /// The port, if it isn't the usual one.
    pub port: Option<String>,
    /// The repository's path on that host.
    pub path: String,
}

impl Address {
    /// The host that it names, without port and brackets; empty for a folder.
    #[must_use]
    pub fn host(&self) -> &str {
        let authority = self.origin.split_once("://").map_or("", |(_, rest)| rest);
        let host = authority.rsplit('@').next().unwrap_or_default();
        match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((inner, _)) => inner,
            None => host.split(':').next().unwrap_or_default(),
        }
    }
}

/// Why an address isn't accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Empty, an option, or with characters that no address has.
    #[error("the git URL {0:?} isn't accepted: {1}")]
    Malformed(String, &'static str),
    /// A scheme that isn't on the list.
    #[error("the git URL {0:?} isn't accepted: write {1}, or host:path for ssh")]
    Scheme(String, String),
    /// An address where nobody may be led.
    #[error("the git URL {0:?} isn't accepted: {1}")]
    Place(String, String),
    /// A `file://` address into Tandem's own folders.
    #[error(
        "the git URL {0:?} isn't accepted: it lies in Tandem's own volume, which holds other sources' mirrors"
    )]
    OwnVolume(String),
}

/// Reads an address. `forbidden` are folders that no `file://` address may lead into.
///
/// # Errors
/// Says why it isn't accepted, without what is secret in it.
pub fn parse(
    url: &str,
    allowed: &BTreeSet<Scheme>,
    forbidden: &[&Path],
) -> Result<Address, AddressError> {
    let shown = redact_url(url);
    let malformed = |why| AddressError::Malformed(shown.clone(), why);
    if url.is_empty() {
        return Err(malformed("it is empty"));
    }
    if url.starts_with('-') {
        return Err(malformed("it begins with a dash, as an option does"));
    }
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(malformed("it holds blanks or control characters"));
    }
    if url.len() > 2048 {
        return Err(malformed("it is longer than 2,048 bytes"));
    }
    let refused = || {
        let words: Vec<String> = allowed
            .iter()
            .map(|scheme| format!("{}://…", scheme.as_str()))
            .collect();
        AddressError::Scheme(shown.clone(), words.join(", "))
    };
    let address = match url.split_once("://") {
        Some((word, rest)) => {
            with_scheme(Scheme::from_str(word).map_err(|()| refused())?, rest).map_err(malformed)?
        }
        None => scp_like(url).ok_or_else(refused)?,
    };
    if !allowed.contains(&address.scheme) {
        return Err(refused());
    }
    if address.scheme.is_http() {
        let url = Url::parse(&address.url).map_err(|_| malformed("its host is none"))?;
        literal(&url).map_err(|error| AddressError::Place(shown.clone(), error.to_string()))?;
    }
    if let Some(folder) = &address.folder {
        // There a path means something else to each who reads it.
        if folder.starts_with("/proc") || folder.starts_with("/dev") {
            return Err(malformed("no repository lies there"));
        }
        // git tries these one after the other.
        let tried = ["", ".git", "/.git", ".git/.git"].map(|end| {
            let mut path = folder.clone().into_os_string();
            path.push(end);
            PathBuf::from(path)
        });
        let own = |root: &&Path| {
            let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
            tried.iter().any(|path| {
                let real = path.canonicalize();
                real.as_ref().unwrap_or(path).starts_with(&root)
            })
        };
        if forbidden.iter().any(own) {
            return Err(AddressError::OwnVolume(shown));
        }
    }
    Ok(address)
}

fn with_scheme(scheme: Scheme, rest: &str) -> Result<Address, &'static str> {
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    if scheme == Scheme::File {
        if !authority.is_empty() && authority != "localhost" {
            return Err("after file:// there must be an absolute path: file:///srv/repo.git");
        }
        let decoded = decode(path);
        if decoded.split('/').any(|part| part == "..") || !decoded.starts_with('/') {
            return Err("after file:// there must be an absolute path without `..`");
        }
        let url = format!("file://{path}");
        return Ok(Address {
            scheme,
            url,
            origin: "file://".to_owned(),
            folder: Some(decoded.into()),
            ssh: None,
            userinfo: None,
        });
    }
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if !is_host(host) {
        return Err("its host is none");
    }
    if path.starts_with("/-") || user.is_some_and(|user| user.starts_with('-')) {
        return Err("a part of it begins with a dash, as an option does");
    }
    if path.len() < 2 {
        return Err("it names no repository after the host");
    }
    let word = scheme.as_str();
    let origin = format!("{word}://{host}");
    let (url, userinfo) = match user {
        None => (format!("{origin}{path}"), None),
        Some(user) if scheme == Scheme::Ssh => {
            let login = user.split(':').next().unwrap_or_default();
            (format!("{word}://{login}@{host}{path}"), None)
        }
        Some(user) => {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            (
                format!("{origin}{path}"),
                Some((decode(name), SecretString::from(decode(password)))),
            )
        }
    };
    let ssh = (scheme == Scheme::Ssh).then(|| {
        let login = user.and_then(|user| user.split(':').next()).map(decode);
        // `/~user/…` is below that user's home, as git has it.
        let path = decode(path);
        ssh_target(
            login.as_deref(),
            host,
            path.strip_prefix('/')
                .filter(|path| path.starts_with('~'))
                .unwrap_or(&path),
        )
    });
    if ssh
        .as_ref()
        .is_some_and(|target| target.destination.starts_with('-'))
    {
        return Err("a part of it begins with a dash, as an option does");
    }
    Ok(Address {
        scheme,
        url,
        origin,
        folder: None,
        ssh,
        userinfo,
    })
}

/// `user@host:path`. A slash before the colon makes it a path, and a second
/// colon right behind the first one a call of a transport helper.
fn scp_like(url: &str) -> Option<Address> {
    let from = url.find('@').map_or(0, |at| at + 1);
    let end = match url[from..].starts_with('[') {
        true => from + url[from..].find(']').map_or(0, |at| at + 1),
        false => 0,
    };
    let colon = end + url[end..].find(':')?;
    let (target, path) = (&url[..colon], &url[colon + 1..]);
    let host = target.rsplit('@').next().unwrap_or_default();
    let sound = !target.contains('/')
        && !target.starts_with('-')
        && is_host(host)
        && !path.is_empty()
        && !path.starts_with(['-', ':']);
    sound.then(|| Address {
        scheme: Scheme::Ssh,
        url: url.to_owned(),
        origin: format!("ssh://{host}"),
        folder: None,
        ssh: Some(ssh_target(
            target.rsplit_once('@').map(|(user, _)| user),
            host,
            path,
        )),
        userinfo: None,
    })
}

fn ssh_target(user: Option<&str>, host: &str, path: &str) -> SshTarget {
    let (bare, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        // `[::1]:22`, and `[host:22]` in front of a path.
        Some((inner, rest)) => match (inner.split_once(':'), rest.strip_prefix(':')) {
            (Some((name, port)), None) if !port.contains(':') => (name, Some(port)),
            (_, port) => (inner, port),
        },
        None => host
            .split_once(':')
            .map_or((host, None), |(name, port)| (name, Some(port))),
    };
    SshTarget {
        destination: user.map_or(bare.to_owned(), |user| format!("{user}@{bare}")),
        port: port.filter(|port| !port.is_empty()).map(str::to_owned),
        path: path.to_owned(),
    }
}

/// A name or number of a host, with or without a port.
fn is_host(host: &str) -> bool {
    !host.is_empty()
        && !host.starts_with(['-', ':'])
        && !host.starts_with("[-")
        && host.chars().all(|c| {
            c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']' | '%')
        })
}

/// Undoes percent-encoding, as git does before it opens a path.
pub(crate) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match hex {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]
    use secrecy::ExposeSecret;

    use super::*;

    fn all() -> BTreeSet<Scheme> {
        [
            Scheme::File,
            Scheme::Git,
            Scheme::Http,
            Scheme::Https,
            Scheme::Ssh,
        ]
        .into()
    }

    fn read(url: &str) -> Result<Address, AddressError> {
        parse(url, &all(), &[Path::new("/volume")])
    }

    #[test]
    fn no_way_leads_into_the_own_volume() {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("volume");
        std::fs::create_dir_all(volume.join("mirrors/x.git")).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&volume, &link).unwrap();
        let read = |path: &str| parse(&format!("file://{path}"), &all(), &[&volume]);
        for way in [&volume, &link] {
            for end in ["mirrors/x.git", "mirrors/x"] {
                let way = way.join(end).display().to_string();
                let error = read(&way).unwrap_err();
                assert!(
                    matches!(error, AddressError::OwnVolume(_)),
                    "{way}: {error}"
                );
            }
        }
        for way in ["/proc/self/cwd/x", "/proc/1/root/x", "/dev/fd/3"] {
            read(way).unwrap_err();
        }
        read(&folder.path().join("other").display().to_string()).unwrap();
    }

    #[test]
    fn what_only_git_can_read_is_refused() {
        for url in ["http://[fe80::1%25lo]:8080/x.git", "http://[fe80::1]/x.git"] {
            read(url).unwrap_err();
        }
    }

    #[test]
    fn what_people_write_is_accepted() {
        let cases = [
            (
                "file:///srv/r.git",
                Scheme::File,
                "file:///srv/r.git",
                "file://",
            ),
            (
                "https://h.test:8443/Org/R.git",
                Scheme::Https,
                "https://h.test:8443/Org/R.git",
                "https://h.test:8443",
            ),
            ("http://h/r", Scheme::Http, "http://h/r", "http://h"),
            ("git://h/r", Scheme::Git, "git://h/r", "git://h"),
            (
                "ssh://git@h:2222/r.git",
                Scheme::Ssh,
                "ssh://git@h:2222/r.git",
                "ssh://git@h:2222",
            ),
            (
                "ssh://git:pw@h/r.git",
                Scheme::Ssh,
                "ssh://git@h/r.git",
                "ssh://h",
            ),
            (
                "git@github.com:org/r.git",
                Scheme::Ssh,
                "git@github.com:org/r.git",
                "ssh://github.com",
            ),
            ("[::1]:r.git", Scheme::Ssh, "[::1]:r.git", "ssh://[::1]"),
        ];
        for (url, scheme, given, origin) in cases {
            let address = read(url).unwrap();
            assert_eq!(
                (address.scheme, address.url.as_str()),
                (scheme, given),
                "{url}"
            );
            assert_eq!(
                address.origin.replace("git@", ""),
                origin.replace("git@", ""),
                "{url}"
            );
        }
    }

    #[test]
    fn ssh_is_told_where_to_go() {
        for (url, destination, port, path) in [
            ("git@h:org/r.git", "git@h", None, "org/r.git"),
            ("h:/srv/r.git", "h", None, "/srv/r.git"),
            (
                "ssh://git@h:2222/srv/r.git",
                "git@h",
                Some("2222"),
                "/srv/r.git",
            ),
            ("ssh://git:pw@h/~me/r%20x.git", "git@h", None, "~me/r x.git"),
            ("ssh://[::1]:22/r", "::1", Some("22"), "/r"),
            ("git@[::1]:r", "git@::1", None, "r"),
            ("[h:2222]:r", "h", Some("2222"), "r"),
        ] {
            let target = read(url).unwrap().ssh.unwrap();
            let found = (
                target.destination.as_str(),
                target.port.as_deref(),
                target.path.as_str(),
            );
            assert_eq!(found, (destination, port, path), "{url}");
        }
        assert!(read("ssh://%2DoProxyCommand=x@h/r").is_err());
    }

    #[test]
    fn the_host_stands_alone() {
        for (url, host) in [
            ("https://me:pw@H.test:8443/r", "H.test"),
            ("https://[::1]:8443/r", "::1"),
            ("http://h/@other/r", "h"),
            ("ssh://git@h:2222/r", "h"),
            ("git@h:r", "h"),
            ("file:///r", ""),
        ] {
            assert_eq!(read(url).unwrap().host(), host, "{url}");
        }
    }

    #[test]
    fn a_password_in_the_address_is_taken_out() {
        let address = read("https://me:p%40ss@h.test/r.git").unwrap();
        assert_eq!(address.url, "https://h.test/r.git");
        let (name, password) = address.userinfo.unwrap();
        assert_eq!((name.as_str(), password.expose_secret()), ("me", "p@ss"));
    }

    #[test]
    fn what_could_do_harm_is_refused() {
        let bad = [
            "",
            "-oProxyCommand=x",
            "ssh://-oProxyCommand=x/r",
            "ssh://-u@h/r",
            "git@-h:r",
            "git@h:-r",
            "https://h/-r",
            "ext::sh -c x",
            "ext::x",
            "fd::7",
            "/srv/r.git",
            "./r",
            "https://h/r\nx",
            "https://h/r x",
            "https://",
            "https://h",
            "file://h/r",
            "file:///a/../volume/x",
            "file:///a/%2e%2e/volume/x",
            "ftp://h/r",
            "file:///volume/served/mirrors/x.git",
        ];
        for url in [
            "http://169.254.169.254/latest.git",
            "https://[fd00:ec2::254]/r.git",
            "http://0xa9fea9fe/r.git",
        ] {
            let error = read(url).unwrap_err().to_string();
            assert!(error.contains("never asked"), "{url}: {error}");
        }
        for url in bad {
            assert!(read(url).is_err(), "{url}");
        }
        let error = parse("file:///r", &[Scheme::Https].into(), &[]).unwrap_err();
        assert!(error.to_string().contains("https://"), "{error}");
    }

    #[test]
    fn a_refusal_never_shows_a_password() {
        for url in [
            "ftp://me:secret@h/r",
            "https://me:secret@/r",
            "ssh://me:secret@-h/r",
        ] {
            let error = read(url).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
