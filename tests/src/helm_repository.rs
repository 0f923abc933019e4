//! A Helm repository as people make one: charts packed by helm, an index made by helm, and a
//! server of files in front of them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::git::{HttpServer, Request};
use crate::{charts, guard, programs};

const INDEX: &str = "index.yaml";

/// A Helm repository below the plain files of a server.
pub struct HelmRepository<'a> {
    server: &'a HttpServer,
    name: String,
    helm: PathBuf,
    home: PathBuf,
    packed: PathBuf,
}

impl<'a> HelmRepository<'a> {
    /// An empty one; it has no index before something is published.
    ///
    /// # Errors
    /// If there is no helm, or no folder to be had.
    pub fn new(server: &'a HttpServer, name: &str) -> Result<Self> {
        Ok(Self {
            server,
            name: name.to_owned(),
            helm: programs::helm()?.program,
            home: guard::folder("helm-home")?,
            packed: guard::folder("helm-packed")?,
        })
    }

    /// Its address, as a HelmRelease names it.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.file_url(&self.name)
    }

    /// Packs the chart [`charts::config_map`] in a version, in place of one that was there,
    /// and publishes it with an index.
    ///
    /// # Errors
    /// If helm refuses.
    pub fn publish(&self, chart: &str, version: &str, marker: &str) -> Result<()> {
        self.publish_files(chart, version, &charts::config_map(chart, marker))
    }

    /// The same with a chart of one's own, in the folder `chart`.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub fn publish_files(&self, chart: &str, version: &str, files: &charts::Files) -> Result<()> {
        let source = guard::folder("helm-source")?;
        for (path, content) in files {
            guard::write(&source.join(path), content)?;
        }
        let folder = source.join(chart).display().to_string();
        let packed = self.packed.display().to_string();
        self.helm(&[
            "package",
            &folder,
            "--version",
            version,
            "--destination",
            &packed,
        ])?;
        self.index()
    }

    /// Takes a version away, from the index, too.
    ///
    /// # Errors
    /// If it isn't there.
    pub fn withdraw(&self, chart: &str, version: &str) -> Result<()> {
        let archive = archive_name(chart, version);
        std::fs::remove_file(self.packed.join(&archive))?;
        self.index()?;
        self.server.remove_file(&format!("{}/{archive}", self.name));
        Ok(())
    }

    /// The archive of a version as helm packed it.
    ///
    /// # Errors
    /// If it isn't there.
    pub fn archive(&self, chart: &str, version: &str) -> Result<Vec<u8>> {
        Ok(std::fs::read(
            self.packed.join(archive_name(chart, version)),
        )?)
    }

    /// Serves something else under the name of a file, until the next change.
    pub fn put(&self, file: &str, content: impl AsRef<[u8]>) {
        let name = format!("{}/{file}", self.name);
        self.server.put_file(&name, content);
    }

    /// The index as helm made it.
    ///
    /// # Errors
    /// If there is none.
    pub fn index_text(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.packed.join(INDEX))?)
    }

    /// How often the archive of a version was sent.
    #[must_use]
    pub fn downloads(&self, chart: &str, version: &str) -> usize {
        let end = format!("/{}/{}", self.name, archive_name(chart, version));
        let requests = self.server.requests();
        let sent = |one: &&Request| one.path.ends_with(&end) && one.status == Some(200);
        requests.iter().filter(sent).count()
    }

    fn index(&self) -> Result<()> {
        let packed = self.packed.display().to_string();
        self.helm(&["repo", "index", &packed])?;
        for entry in std::fs::read_dir(&self.packed)? {
            let path = entry?.path();
            let file = path.file_name().context("no name")?.to_string_lossy();
            if file != INDEX {
                self.put(&file, std::fs::read(&path)?);
            }
        }
        // What it names is there before it is.
        self.put(INDEX, self.index_text()?);
        Ok(())
    }

    fn helm(&self, args: &[&str]) -> Result<()> {
        let output = Command::new(&self.helm)
            .args(args)
            .env("HOME", &self.home)
            .stdin(Stdio::null())
            .output()
            .context("helm did not start")?;
        ensure!(
            output.status.success(),
            "helm {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

fn archive_name(chart: &str, version: &str) -> String {
    format!("{chart}-{version}.tgz")
}
