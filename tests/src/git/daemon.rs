//! `git daemon`.

use std::io::Read;
use std::net::TcpStream;
use std::path::PathBuf;

use anyhow::{Result, bail};

use super::{Upstreams, environment};
use crate::cluster::free_ports;
use crate::daemon::{Daemon, Recipe};
use crate::guard;
use crate::wait::{LONG, Look, until_blocking};

/// A running `git daemon` over a folder of repositories.
pub struct GitDaemon {
    daemon: Daemon,
    port: u16,
}

impl GitDaemon {
    /// Starts it and waits until it accepts connections.
    pub fn start(upstreams: &Upstreams) -> Result<Self> {
        let [port] = free_ports()?;
        let mut recipe = Recipe::new(
            "git-daemon",
            &PathBuf::from("git"),
            [
                "daemon".to_owned(),
                "--export-all".into(),
                "--listen=127.0.0.1".into(),
                format!("--port={port}"),
                format!("--base-path={}", upstreams.root().display()),
                "--reuseaddr".into(),
            ],
        );
        for (name, value) in environment() {
            recipe = recipe.env(name, value);
        }
        let mut daemon = Daemon::start(&recipe, &guard::folder("git-daemon")?)?;
        until_blocking("git daemon to listen", LONG, || {
            if let Some(status) = daemon.exited()? {
                bail!("git daemon ended with {status}: {}", daemon.log());
            }
            Ok(Look::when(
                TcpStream::connect(("127.0.0.1", port)).is_ok(),
                "connection refused",
            ))
        })?;
        Ok(Self { daemon, port })
    }

    /// The address of `<name>.git`.
    pub fn url(&self, name: &str) -> String {
        format!("git://127.0.0.1:{}/{name}.git", self.port)
    }

    /// Ends it; its address refuses connections from then on.
    pub fn stop(&mut self) -> Result<()> {
        self.daemon.kill()?;
        until_blocking("git daemon to refuse", LONG, || {
            let refused = TcpStream::connect(("127.0.0.1", self.port))
                .map_or(true, |mut stream| stream.read(&mut [0]).is_err());
            Ok(Look::when(refused, "connected"))
        })
    }
}
