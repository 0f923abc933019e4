//! The only file that runs the git program.
//!
//! Every call is hermetic: no system or user configuration, no hooks, no
//! helpers, no prompts, no maintenance behind our back, only the one transport
//! that the address names. Proxies and certificate locations of the process
//! are the exception: they belong to the machine.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret;
use tandem_shared::child::{self, Cancel, ChildError, Limits, Outcome};
use tandem_shared::lock::Guard;

use crate::address::{Address, Scheme};
use crate::askpass;
use crate::config::Config;
use crate::credentials::Access;
use crate::metrics::{GitCommand, Metrics};

/// Bytes of a listing that are kept: some 400,000 refs.
pub(crate) const OUTPUT: usize = 32 * 1024 * 1024;

/// Variables of this process that git gets too.
const PASSED: &[&str] = &[
    "PATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NSS_WRAPPER_PASSWD",
    "NSS_WRAPPER_GROUP",
    "GIT_EXEC_PATH",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
];

/// Settings of every call, beside those of the transport.
const SETTINGS: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    // A mirror that a power failure spoilt is made anew; what was made of it is synced.
    ("core.fsync", "none"),
    ("core.askPass", ""),
    ("credential.helper", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("transfer.bundleURI", "false"),
    ("transfer.fsckObjects", "true"),
    // Old and harmless: well-known repositories have them in their history.
    ("fetch.fsck.badTimezone", "ignore"),
    ("fetch.fsck.missingSpaceBeforeDate", "ignore"),
    ("fetch.fsck.zeroPaddedFilemode", "ignore"),
    ("protocol.version", "2"),
    ("protocol.allow", "never"),
];

/// The git program and how this process runs it.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
    askpass: PathBuf,
    cancel: Cancel,
    metrics: Arc<Metrics>,
}

/// One call.
#[derive(Debug)]
pub struct Call<'a> {
    /// What is asked of git, for the metrics.
    pub command: GitCommand,
    /// The repository, if the call needs one.
    pub repository: Option<&'a Path>,
    /// The remote side, if there is one.
    pub remote: Option<(&'a Address, &'a Access)>,
    /// Held until the child is gone.
    pub lock: Option<&'a Guard>,
    /// Wall-clock time, at most.
    pub deadline: Duration,
}

impl Git {
    /// Runs git as `config` says, until `cancel`.
    #[must_use]
    pub fn new(config: &Config, cancel: Cancel, metrics: Arc<Metrics>) -> Self {
        Self {
            program: config.git.clone(),
            askpass: config.askpass.clone(),
            cancel,
            metrics,
        }
    }

    /// Whether this process is ending.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Runs git with `arguments` and `input`, to its end or the deadline's.
    /// Blocks the thread.
    ///
    /// # Errors
    /// If git can't be started. How it ended is in the outcome.
    pub fn run(
        &self,
        call: &Call<'_>,
        arguments: &[&str],
        input: &[u8],
    ) -> Result<Outcome, ChildError> {
        let mut command = Command::new(&self.program);
        if let Some(repository) = call.repository {
            let mut argument = OsString::from("--git-dir=");
            argument.push(repository);
            command.arg(argument);
        }
        command.args(arguments);
        self.converse(call, command, &[input])
    }

    /// Puts `request` to the remote's upload-pack, as git's own commands do,
    /// and then says `farewell` where that is needed; nothing if only those
    /// commands know the way.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub fn ask_upload_pack(
        &self,
        call: &Call<'_>,
        request: &[u8],
        farewell: &[u8],
    ) -> Result<Option<Outcome>, ChildError> {
        let Some((address, access)) = call.remote else {
            return Ok(None);
        };
        let mut command = Command::new(&self.program);
        let whole = [request, farewell].concat();
        let outcome = match (address.scheme, &address.folder, &address.ssh) {
            (Scheme::Http | Scheme::Https, ..) => {
                let helper = format!("remote-{}", address.scheme.as_str());
                command.args([&helper, &address.url, &address.url]);
                // It reads ahead, so the request waits until it is connected.
                self.converse(
                    call,
                    command,
                    &[b"stateless-connect git-upload-pack\n", request],
                )?
            }
            (Scheme::File, Some(folder), _) => {
                command
                    .arg("upload-pack")
                    .arg(folder)
                    .env("GIT_PROTOCOL", "version=2");
                self.converse(call, command, &[&whole])?
            }
            (Scheme::Ssh, _, Some(target)) => {
                let mut command = Command::new("ssh");
                command
                    .args(ssh_options(access))
                    .args(["-o", "SendEnv=GIT_PROTOCOL"]);
                if let Some(port) = &target.port {
                    command.args(["-p", port]);
                }
                command
                    .args(["--", &target.destination])
                    .arg(format!("git-upload-pack {}", quoted(&target.path)));
                command.env("GIT_PROTOCOL", "version=2");
                self.converse(call, command, &[&whole])?
            }
            _ => return Ok(None),
        };
        Ok(Some(outcome))
    }

    /// Counts an exchange that needed no git, by how it ended.
    pub fn asked(&self, command: GitCommand, outcome: &'static str, took: Duration) {
        self.metrics.got(command.as_str(), outcome, took);
    }

    /// Runs `command` in a world without surprises.
    fn converse(
        &self,
        call: &Call<'_>,
        mut command: Command,
        parts: &[&[u8]],
    ) -> Result<Outcome, ChildError> {
        let own: Vec<(OsString, OsString)> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        command.env_clear().envs(own).current_dir("/");
        for name in PASSED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // Whom the rest of the sidecar trusts, git trusts, too.
        for (ours, its) in [
            ("SSL_CERT_FILE", "GIT_SSL_CAINFO"),
            ("SSL_CERT_DIR", "GIT_SSL_CAPATH"),
        ] {
            let of = |name| std::env::var_os(name).filter(|value| !value.is_empty());
            if let (None, Some(value)) = (std::env::var_os(its), of(ours)) {
                command.env(its, value);
            }
        }
        command
            .env("LC_ALL", "C")
            .env("HOME", "/nonexistent")
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_NO_LAZY_FETCH", "1");
        let mut settings: Vec<(String, String)> = SETTINGS
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        // Kept open until the child has ended.
        let mut global = None;
        if let Some((address, access)) = call.remote {
            settings.push((
                format!("protocol.{}.allow", address.scheme.as_str()),
                "always".to_owned(),
            ));
            global = self.reach(&mut command, &mut settings, address, access);
        }
        command.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (at, (key, value)) in settings.iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{at}"), key)
                .env(format!("GIT_CONFIG_VALUE_{at}"), value);
        }
        let limits = Limits {
            deadline: call.deadline,
            output: OUTPUT,
        };
        let outcome = child::converse(command, parts, call.lock, &limits, &self.cancel);
        drop(global);
        if let Ok(outcome) = &outcome {
            self.metrics.git_ended(call.command, outcome);
        }
        outcome
    }

    /// What the transport needs: secrets by environment, trust by files.
    fn reach(
        &self,
        command: &mut Command,
        settings: &mut Vec<(String, String)>,
        address: &Address,
        access: &Access,
    ) -> Option<File> {
        match address.scheme {
            Scheme::Http | Scheme::Https => {
                if let Some(ca) = &access.ca {
                    command.env("GIT_SSL_CAINFO", ca);
                }
                if let Some(client) = &access.client {
                    let mut setting = |key: &str, path: &Path| {
                        let key = format!("http.{}/.{key}", address.origin);
                        settings.push((key, path.display().to_string()));
                    };
                    setting("sslCert", &client.certificate);
                    setting("sslKey", &client.key);
                }
                if let Some((username, password)) = &access.basic {
                    command
                        .env("GIT_ASKPASS", &self.askpass)
                        .env(askpass::ORIGIN, &address.origin)
                        .env(askpass::USERNAME, username)
                        .env(askpass::PASSWORD, password.expose_secret());
                }
                if let Some(token) = &access.bearer {
                    let header = format!("Authorization: Bearer {}", token.expose_secret());
                    settings.push((format!("http.{}/.extraHeader", address.origin), header));
                }
                if access.bearer.is_some() || access.client.is_some() {
                    // They would follow a redirect to any other host.
                    settings.push(("http.followRedirects".to_owned(), "false".to_owned()));
                }
                None
            }
            Scheme::Ssh => {
                command
                    .env("GIT_SSH_COMMAND", ssh_command(access))
                    .env("GIT_SSH_VARIANT", "ssh");
                None
            }
            Scheme::File => {
                let global = trusted_folder(address.folder.as_deref()?).ok()?;
                command.env(
                    "GIT_CONFIG_GLOBAL",
                    format!("/proc/{}/fd/{}", std::process::id(), global.as_raw_fd()),
                );
                Some(global)
            }
            Scheme::Git => None,
        }
    }
}

/// git serves a folder of another user only if told so by a file: the settings
/// in the environment don't reach the serving side. Exactly this one is told.
fn trusted_folder(folder: &Path) -> std::io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create(
        "gitconfig",
        rustix::fs::MemfdFlags::CLOEXEC,
    )?);
    let quoted = folder
        .to_string_lossy()
        .replace('\\', "\\\\")
        .replace('"', "\\\"");
    write!(
        file,
        "[safe]\n\tdirectory = \"{quoted}\"\n\tdirectory = \"{quoted}/.git\"\n"
    )?;
    Ok(file)
}

/// How ssh is run: nothing of this user, no agent, no questions, no host unseen.
fn ssh_options(access: &Access) -> Vec<String> {
    let mut options: Vec<String> = vec!["-F".to_owned(), "/dev/null".to_owned()];
    let mut option = |text: String| options.extend(["-o".to_owned(), text]);
    for fixed in [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        "UpdateHostKeys=no",
        "GlobalKnownHostsFile=/dev/null",
        "ControlMaster=no",
        "ControlPath=none",
        "ForwardAgent=no",
        "ConnectTimeout=15",
        "ServerAliveInterval=15",
        "IdentityAgent=none",
        "IdentitiesOnly=yes",
        "PreferredAuthentications=publickey",
    ] {
        option(fixed.to_owned());
    }
    if let Some(path) = &access.known_hosts {
        // ssh splits this value at blanks.
        option(format!("UserKnownHostsFile=\"{}\"", path.display()));
    }
    let identity = access.identity.as_ref().map_or("none".to_owned(), |key| {
        format!("\"{}\"", key.path().display())
    });
    option(format!("IdentityFile={identity}"));
    options
}

fn ssh_command(access: &Access) -> String {
    let words: Vec<String> = ssh_options(access)
        .iter()
        .map(|word| quoted(word))
        .collect();
    format!("ssh {}", words.join(" "))
}

fn quoted(text: &str) -> String {
    // As git quotes for the shell on the other side.
    format!("'{}'", text.replace('\'', "'\\''").replace('!', "'\\!'"))
}
