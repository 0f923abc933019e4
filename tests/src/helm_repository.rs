//! A Helm repository as people make one: charts packed by helm, an index made by helm, and a
//! server of files in front of them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::git::HttpServer;
use crate::{charts, guard, programs};

/// A Helm repository below the plain files of a server.
pub struct HelmRepository<'a> {
    server: &'a HttpServer,
    name: String,
    helm: PathBuf,
    home: PathBuf,
    sources: PathBuf,
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
            sources: guard::folder("helm-sources")?,
            packed: guard::folder("helm-packed")?,
        })
    }

    /// Its address, as a HelmRelease names it.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.file_url(&self.name)
    }

    /// The path of one of its files, as requests have it.
    #[must_use]
    pub fn path(&self, file: &str) -> String {
        let url = self.server.file_url(&format!("{}/{file}", self.name));
        url.strip_prefix(&self.server.base())
            .unwrap_or(&url)
            .to_owned()
    }

    /// Packs the chart [`charts::config_map`] in a version, and publishes it with an index.
    ///
    /// # Errors
    /// If helm refuses.
    pub fn publish(&self, chart: &str, version: &str, marker: &str) -> Result<()> {
        self.publish_files(&charts::config_map(chart, marker), chart, version)
    }

    /// The same with a chart of one's own, in the folder `chart`.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub fn publish_files(
        &self,
        files: &[(String, String)],
        chart: &str,
        version: &str,
    ) -> Result<()> {
        for (path, content) in files {
            let path = self.sources.join(path);
            std::fs::create_dir_all(path.parent().context("no folder")?)?;
            guard::write(&path, content)?;
        }
        let folder = self.sources.join(chart).display().to_string();
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
        std::fs::remove_file(self.packed.join(format!("{chart}-{version}.tgz")))?;
        self.index()
    }

    /// The archive of a version as helm packed it.
    ///
    /// # Errors
    /// If it isn't there.
    pub fn archive(&self, chart: &str, version: &str) -> Result<Vec<u8>> {
        Ok(std::fs::read(
            self.packed.join(format!("{chart}-{version}.tgz")),
        )?)
    }

    /// Serves something else under the name of a file, until the next change.
    pub fn put(&self, file: &str, content: impl AsRef<[u8]>) {
        let name = format!("{}/{file}", self.name);
        self.server.put_file(&name, content);
    }

    /// The index as it is served.
    ///
    /// # Errors
    /// If there is none.
    pub fn index_text(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.packed.join("index.yaml"))?)
    }

    fn index(&self) -> Result<()> {
        let packed = self.packed.display().to_string();
        self.helm(&["repo", "index", &packed])?;
        self.server.remove_files(&format!("{}/", self.name));
        for entry in std::fs::read_dir(&self.packed)? {
            let path = entry?.path();
            let file = path.file_name().context("no name")?.to_string_lossy();
            self.put(&file, std::fs::read(&path)?);
        }
        Ok(())
    }

    fn helm(&self, args: &[&str]) -> Result<()> {
        let output = Command::new(&self.helm)
            .args(args)
            .env("HOME", &self.home)
            .stdin(Stdio::null())
            .output()?;
        ensure!(
            output.status.success(),
            "helm {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}
