//! What a source's exchange may use to prove who asks, and whom it trusts.
//!
//! Everything secret goes to git through the environment of that one child,
//! or through a file in memory that is gone with this process. Nothing of it
//! is in an argument, a URL or a file on a disk.

mod app;
mod client;
mod docker;
mod netrc;

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use tandem_shared::credentials::{self, CredentialError, Values};
use tandem_shared::manifest::Reason;
use tandem_shared::request::Request;
use tandem_shared::source::SourceKind;
use thiserror::Error;

use crate::address::{Address, Scheme};
use crate::config::Config;
pub use app::{App, AppError, Installation};
pub use client::{ClientCertificate, ClientError};
pub use docker::{DockerError, Keyring};
pub use netrc::{Netrc, NetrcError};

/// What one exchange may use.
#[derive(Debug, Default)]
pub struct Access {
    /// User name and password for HTTP.
    pub basic: Option<(String, SecretString)>,
    /// A token that is sent as `Authorization: Bearer`.
    pub bearer: Option<SecretString>,
    /// A token that a registry's server of tokens takes instead of a password.
    pub identity_token: Option<SecretString>,
    /// What opens which repositories of registries, where nothing opens all of them.
    pub keyring: Option<Keyring>,
    /// The GitHub App whose token is the password, once [`crate::github`] has got it.
    pub app: Option<App>,
    /// The private key for ssh, as a file.
    pub identity: Option<KeyFile>,
    /// The host keys that are trusted.
    pub known_hosts: Option<PathBuf>,
    /// Certificates that are trusted besides the system's.
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to a server that asks for one.
    pub client: Option<ClientCertificate>,
}

/// Why there is no access.
#[derive(Debug, Error)]
pub enum AccessError {
    /// The credential isn't there. Never a reason to ask without it.
    #[error("{0}; nothing is asked anonymously instead")]
    Missing(String),
    /// It holds nothing that fits.
    #[error("the credential of {address} has none of the keys that {scheme} takes: {keys}")]
    Unfit {
        /// The source's address, redacted.
        address: String,
        /// Its scheme.
        scheme: &'static str,
        /// The keys that would do.
        keys: &'static str,
    },
    /// A value isn't text.
    #[error("the value of the credential's key `{0}` isn't UTF-8 text")]
    NotText(String),
    /// A client certificate that is none.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A GitHub App that is none, or that of another host.
    #[error(transparent)]
    App(#[from] AppError),
    /// The operator's netrc file isn't of use.
    #[error("{} that --netrc-file names: {why}; http sources without a credential of their own are not asked until it is mended", path.display())]
    Netrc {
        /// Where it lies.
        path: PathBuf,
        /// What is wrong with it.
        why: NetrcError,
    },
    /// A docker configuration that has nothing for the registry.
    #[error(transparent)]
    Docker(#[from] DockerError),
    /// ssh without anything to check the host's key against.
    #[error(
        "no host keys are known for ssh: put `known_hosts` into the credential or start with --ssh-known-hosts-file; hosts are never trusted unseen"
    )]
    NoKnownHosts,
    /// The volume refuses.
    #[error(transparent)]
    Volume(CredentialError),
    /// The key can't be handed to ssh.
    #[error("can't hand the private key to ssh: {0}")]
    Key(std::io::Error),
}

impl AccessError {
    /// The word for machines.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Missing(_) | Self::Netrc { .. } => Reason::CredentialMissing,
            Self::Unfit { .. }
            | Self::NotText(_)
            | Self::Client(_)
            | Self::Docker(_)
            | Self::App(_) => Reason::AuthenticationFailed,
            Self::NoKnownHosts => Reason::HostNotTrusted,
            Self::Volume(_) => Reason::Volume,
            Self::Key(_) => Reason::Internal,
        }
    }
}

/// A private key in memory that ssh can open by a path. ssh refuses a key of
/// ours that others may read, and the credentials volume is for a group; and
/// it closes what it inherits, so the path leads through this process.
#[derive(Debug)]
pub struct KeyFile {
    _file: File,
    path: PathBuf,
}

impl KeyFile {
    fn new(content: &[u8]) -> std::io::Result<Self> {
        let memory = rustix::fs::memfd_create("identity", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut file = File::from(memory);
        rustix::fs::fchmod(&file, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
        file.write_all(content)?;
        // Secrets lose their last newline easily; OpenSSH then finds "invalid format".
        if !content.ends_with(b"\n") {
            file.write_all(b"\n")?;
        }
        let path = PathBuf::from(format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            file.as_raw_fd()
        ));
        Ok(Self { _file: file, path })
    }

    /// Where ssh finds it, as long as this lives.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// What `request` may use to reach `address`.
///
/// # Errors
/// If it names a credential that isn't there or doesn't fit.
pub fn access(
    config: &Config,
    request: &Request,
    address: &Address,
) -> Result<Access, AccessError> {
    let mut access = match (&request.source.credential, &request.credential_id) {
        (None, None) => Access::default(),
        (Some(reference), None) => {
            let text = format!(
                "the request names the Secret {}/{}, whose content the reconciler hasn't handed over yet",
                reference.namespace, reference.name
            );
            return Err(AccessError::Missing(text));
        }
        (_, Some(id)) => named(config, id, &request.source.kind, address)?,
    };
    if access.basic.is_none() && access.bearer.is_none() && address.scheme.is_http() {
        access.basic.clone_from(&address.userinfo);
    }
    let names_none = request.source.credential.is_none() && request.credential_id.is_none();
    if access.basic.is_none()
        && names_none
        && address.scheme.is_http()
        && let Some(path) = &config.netrc
    {
        let netrc = Netrc::read(path).map_err(|why| AccessError::Netrc {
            path: path.clone(),
            why,
        })?;
        access.basic = netrc.login(address.host());
    }
    if address.scheme == Scheme::Ssh {
        if access.identity.is_none()
            && let Some(path) = &config.ssh_key
        {
            let content = std::fs::read(path).map_err(AccessError::Key)?;
            access.identity = Some(KeyFile::new(&content).map_err(AccessError::Key)?);
        }
        if access.known_hosts.is_none() {
            access.known_hosts.clone_from(&config.known_hosts);
        }
        if access.known_hosts.is_none() {
            return Err(AccessError::NoKnownHosts);
        }
    }
    Ok(access)
}

fn named(
    config: &Config,
    id: &str,
    kind: &SourceKind,
    address: &Address,
) -> Result<Access, AccessError> {
    let Some(root) = &config.credentials else {
        return Err(AccessError::Missing(format!(
            "the request names the credential {id}, and this process was started without --credentials"
        )));
    };
    let values = credentials::load(root, id).map_err(|error| match error {
        missing @ CredentialError::Missing(_) => AccessError::Missing(missing.to_string()),
        other => AccessError::Volume(other),
    })?;
    let path = |key: &str| match values.contains_key(key) {
        true => credentials::file(root, id, key)
            .map(Some)
            .map_err(AccessError::Volume),
        false => Ok(None),
    };
    let mut access = Access {
        known_hosts: path("known_hosts")?,
        ..Access::default()
    };
    access.ca = match path("ca.crt")? {
        None => path("caFile")?,
        found => found,
    };
    if let Some(names) = client::keys(&values)? {
        let file = |key| credentials::file(root, id, key).map_err(AccessError::Volume);
        access.client = Some(ClientCertificate {
            certificate: file(names.0)?,
            key: file(names.1)?,
            identity: client::identity(&values, names)?,
        });
    }
    access.bearer = text(&values, "bearerToken")?.map(SecretString::from);
    let username = text(&values, "username")?;
    if let Some(password) = text(&values, "password")? {
        // Hosts that take a token as password take any name with it.
        access.basic = Some((
            username.unwrap_or_else(|| "git".to_owned()),
            SecretString::from(password),
        ));
    }
    let proven = access.basic.is_some() || access.bearer.is_some();
    if *kind == SourceKind::Oci && !proven {
        access.keyring = docker::read(&values)?;
    }
    if *kind == SourceKind::Git && address.scheme.is_http() {
        access.app = App::of(&values, address, &config.schemes)?;
    }
    if let Some(key) = values
        .get("identity")
        .or_else(|| values.get("ssh-privatekey"))
    {
        access.identity = Some(KeyFile::new(key).map_err(AccessError::Key)?);
    }
    let unfit = |keys| AccessError::Unfit {
        address: tandem_shared::source::redact_url(&address.url),
        scheme: address.scheme.as_str(),
        keys,
    };
    match address.scheme {
        Scheme::Http | Scheme::Https
            if access.basic.is_none()
                && access.bearer.is_none()
                && access.client.is_none()
                && access.keyring.is_none()
                && access.app.is_none()
                && access.ca.is_none() =>
        {
            Err(unfit(match kind {
                SourceKind::Oci => {
                    ".dockerconfigjson, username and password, bearerToken, tls.crt and tls.key, or ca.crt"
                }
                _ => "username and password, bearerToken, tls.crt and tls.key, or ca.crt",
            }))
        }
        Scheme::Ssh if access.identity.is_none() => Err(unfit("identity, and known_hosts")),
        _ => Ok(access),
    }
}

fn text(values: &Values, key: &str) -> Result<Option<String>, AccessError> {
    let Some(value) = values.get(key) else {
        return Ok(None);
    };
    match std::str::from_utf8(value) {
        // An editor's newline at the end is no part of a password.
        Ok(text) => Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned())),
        Err(_) => Err(AccessError::NotText(key.to_owned())),
    }
}

impl Access {
    /// Parts what is said by a request itself to prove who asks from all the rest: whom to
    /// trust, and what the connection proves.
    #[must_use]
    pub fn part(mut self) -> (Self, Self) {
        let proof = Self {
            basic: self.basic.take(),
            bearer: self.bearer.take(),
            identity_token: self.identity_token.take(),
            keyring: self.keyring.take(),
            ..Self::default()
        };
        (proof, self)
    }

    /// What is said by a request to prove who asks for a repository of the registry at `host`.
    ///
    /// # Errors
    /// If a docker configuration has nothing of use for it.
    pub fn proof_for(&self, host: &str, repository: &str) -> Result<Self, DockerError> {
        let Some(keyring) = &self.keyring else {
            return Ok(Self {
                basic: self.basic.clone(),
                bearer: self.bearer.clone(),
                identity_token: self.identity_token.clone(),
                ..Self::default()
            });
        };
        let found = keyring.find(host, repository)?;
        Ok(Self {
            basic: found.basic,
            bearer: found.bearer,
            identity_token: found.identity,
            ..Self::default()
        })
    }

    /// Whether a request says the same of who asks as one with `other`.
    #[must_use]
    pub fn proves_as(&self, other: &Self) -> bool {
        let basic = |access: &Self| {
            let pair = access.basic.as_ref();
            pair.map(|(user, password)| (user.clone(), password.expose_secret().to_owned()))
        };
        let token = |token: &Option<SecretString>| {
            token.as_ref().map(|token| token.expose_secret().to_owned())
        };
        basic(self) == basic(other)
            && token(&self.bearer) == token(&other.bearer)
            && token(&self.identity_token) == token(&other.identity_token)
    }

    /// `text` with every secret of this access cut out of it.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let secrets = [
            self.basic.as_ref().map(|(_, password)| password),
            self.bearer.as_ref(),
            self.identity_token.as_ref(),
        ];
        for secret in secrets.into_iter().flatten() {
            let secret = secret.expose_secret();
            // Shorter than this it would cut up ordinary words, and protect nothing.
            if secret.len() < 4 {
                continue;
            }
            text = text.replace(secret, "***").replace(&encode(secret), "***");
        }
        text
    }
}

/// As a secret looks inside a URL.
fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn secrets_are_cut_out_in_every_spelling() {
        let access = Access {
            basic: Some(("me".into(), SecretString::from("s3cr/t".to_owned()))),
            bearer: Some(SecretString::from("tok-1234".to_owned())),
            ..Access::default()
        };
        let text = access.redact("https://me:s3cr/t@h https://me:s3cr%2Ft@h Bearer tok-1234");
        assert_eq!(text, "https://me:***@h https://me:***@h Bearer ***");
        assert!(!format!("{access:?}").contains("s3cr"));
    }

    #[test]
    fn a_key_is_readable_for_us_alone_and_ends_with_a_newline() {
        let key = KeyFile::new(b"key").unwrap();
        assert_eq!(std::fs::read(key.path()).unwrap(), b"key\n");
        assert_eq!(
            std::fs::metadata(key.path()).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}
