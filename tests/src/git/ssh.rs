//! Git over ssh: a server with a host key that lets one client key in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Upstreams;
use crate::daemon::{Daemon, Recipe};
use crate::guard;
use crate::programs;
use crate::wait::{LONG, Look, until_blocking};

/// A running ssh server over a folder of repositories.
pub struct SshServer {
    _daemon: Daemon,
    port: u16,
    folder: PathBuf,
}

impl SshServer {
    /// Makes a host key and a client key, and starts the server.
    pub fn start(upstreams: &Upstreams) -> Result<Self> {
        let folder = guard::folder("ssh")?;
        let host_key = key(&folder, "host")?;
        let client_key = key(&folder, "identity")?;
        let program = programs::git_ssh()?;
        let port_file = folder.join("port");
        let args = [
            format!("--root={}", upstreams.root().display()),
            format!("--host-key={}", host_key.display()),
            format!("--client-key={}.pub", client_key.display()),
            format!("--port-file={}", port_file.display()),
        ];
        let mut recipe = Recipe::new(
            "git-ssh",
            &program.program,
            program.first.into_iter().chain(args),
        );
        for (name, value) in super::environment() {
            recipe = recipe.env(name, value);
        }
        let mut daemon = Daemon::start(&recipe, &folder)?;
        let port = until_blocking("the ssh server to listen", LONG, || {
            if let Some(status) = daemon.exited()? {
                bail!("the ssh server ended with {status}: {}", daemon.log());
            }
            let written = fs::read_to_string(&port_file).ok();
            Ok(Look::from_option(
                written.and_then(|text| text.trim().parse().ok()),
                "no port file",
            ))
        })?;
        let server = Self {
            _daemon: daemon,
            port,
            folder,
        };
        let public = fs::read_to_string(host_key.with_extension("pub"))?;
        guard::write(
            &server.known_hosts(),
            format!("[127.0.0.1]:{port} {public}"),
        )?;
        Ok(server)
    }

    /// The `ssh://` address of `<name>.git`.
    pub fn url(&self, name: &str) -> String {
        format!("ssh://git@127.0.0.1:{}/{name}.git", self.port)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The private key that may log in.
    pub fn identity(&self) -> PathBuf {
        self.folder.join("identity")
    }

    /// A `known_hosts` file with the server's key.
    pub fn known_hosts(&self) -> PathBuf {
        self.folder.join("known_hosts")
    }

    /// A `known_hosts` file with another key for the same address.
    pub fn wrong_known_hosts(&self) -> Result<PathBuf> {
        let path = self.folder.join("wrong_known_hosts");
        let other = key(&self.folder, "other")?;
        let public = fs::read_to_string(other.with_extension("pub"))?;
        guard::write(&path, format!("[127.0.0.1]:{} {public}", self.port))?;
        Ok(path)
    }

    /// What `GIT_SSH_COMMAND` must be to log in.
    pub fn command(&self, known_hosts: &Path) -> String {
        format!(
            "ssh -F none -o IdentitiesOnly=yes -o IdentityAgent=none -o StrictHostKeyChecking=yes -o BatchMode=yes \
             -o UserKnownHostsFile='{}' -i '{}'",
            known_hosts.display(),
            self.identity().display()
        )
    }
}

/// A new key in a folder, with its public part beside it.
pub(super) fn key(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    let output = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "tandem-test", "-f"])
        .arg(&path)
        .output()
        .context(
            "ssh-keygen did not start: install the OpenSSH client, which git needs for ssh too",
        )?;
    if !output.status.success() {
        bail!("ssh-keygen: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(path)
}
