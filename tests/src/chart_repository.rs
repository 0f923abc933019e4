//! A Helm repository: charts that helm packs, and the index that it makes of them, as plain
//! files of a server.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::git::HttpServer;
use crate::{charts, guard, programs};

/// A repository on a server.
pub struct ChartRepository<'a> {
    server: &'a HttpServer,
    name: String,
    folder: PathBuf,
}

impl<'a> ChartRepository<'a> {
    /// An empty one.
    pub fn new(server: &'a HttpServer, name: &str) -> Result<Self> {
        let folder = guard::folder("chart-repository")?;
        let repository = Self {
            server,
            name: name.to_owned(),
            folder,
        };
        repository.index()?;
        Ok(repository)
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.server.file_url(&self.name)
    }

    /// Packs and publishes a chart of that name and version, in place of one that was there.
    pub fn publish(&self, name: &str, version: &str, files: &charts::Files) -> Result<()> {
        let source = guard::folder("packed-chart")?;
        let described = format!("{name}/Chart.yaml");
        let metadata = (described.clone(), charts::metadata(name, version));
        let others = files.iter().filter(|(path, _)| *path != described);
        for (path, content) in others.chain([&metadata]) {
            guard::write(&source.join(path), content)?;
        }
        self.helm(
            &["package", "--destination"],
            &[&self.folder, &source.join(name)],
        )?;
        let archive = format!("{name}-{version}.tgz");
        let content = fs::read(self.folder.join(&archive))?;
        self.server
            .put_file(&format!("{}/{archive}", self.name), content);
        self.index()
    }

    /// Publishes the index, changed by `change`.
    pub fn publish_index(&self, change: impl Fn(String) -> String) -> Result<()> {
        let index = fs::read_to_string(self.folder.join("index.yaml"))?;
        let name = format!("{}/index.yaml", self.name);
        self.server.put_file(&name, change(index));
        Ok(())
    }

    /// How often the archive of a chart was sent.
    pub fn downloads(&self, name: &str, version: &str) -> usize {
        let end = format!("/{}/{name}-{version}.tgz", self.name);
        let sent = |request: &crate::git::Request| {
            request.path.ends_with(&end) && request.status == Some(200)
        };
        self.server
            .requests()
            .iter()
            .filter(|one| sent(one))
            .count()
    }

    fn index(&self) -> Result<()> {
        self.helm(&["repo", "index"], &[&self.folder])?;
        self.publish_index(|index| index)
    }

    fn helm(&self, words: &[&str], paths: &[&PathBuf]) -> Result<()> {
        let output = Command::new(programs::helm()?.program)
            .args(words)
            .args(paths)
            .env("HOME", &self.folder)
            .output()
            .context("helm did not start")?;
        ensure!(
            output.status.success(),
            "helm {words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}
