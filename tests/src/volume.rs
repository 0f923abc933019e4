//! The volume as an operator sees it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use tandem_shared::decision::Decision;
use tandem_shared::layout;
use tandem_shared::manifest::Manifest;
use tandem_shared::request::Request;
use tandem_shared::source::Source;

use crate::guard;

/// A volume of two plain folders and the credentials beside it.
#[derive(Clone, Debug)]
pub struct Volume {
    root: PathBuf,
    layout: layout::Volume,
}

impl Volume {
    /// An empty volume, made as a kubelet makes it: the mounts exist.
    pub fn new() -> Result<Self> {
        let volume = Self::at(&guard::folder("volume")?);
        for folder in [
            volume.layout.wanted.root(),
            volume.layout.served.root(),
            &volume.credentials(),
        ] {
            fs::create_dir_all(folder)?;
        }
        Ok(volume)
    }

    /// The volume in an existing folder.
    pub fn at(root: &Path) -> Self {
        let data = root.join("volume");
        Self {
            layout: layout::Volume::at(&data),
            root: root.to_owned(),
        }
    }

    /// The volume as the process `pid` sees it, with what is mounted for it alone.
    pub fn through(&self, pid: u32) -> Self {
        let below = self.root.strip_prefix("/").unwrap_or(&self.root);
        Self::at(
            &Path::new("/proc")
                .join(pid.to_string())
                .join("root")
                .join(below),
        )
    }

    /// What `--volume` takes.
    pub fn path(&self) -> PathBuf {
        self.root.join("volume")
    }

    /// What `--credentials` takes.
    pub fn credentials(&self) -> PathBuf {
        self.root.join("credentials")
    }

    /// Where its files lie.
    pub fn layout(&self) -> &layout::Volume {
        &self.layout
    }

    /// All requests.
    pub fn requests(&self) -> Result<Vec<Request>> {
        documents(&self.layout.wanted.requests())
    }

    /// All ref manifests.
    pub fn manifests(&self) -> Result<Vec<Manifest>> {
        documents(&self.layout.served.manifests())
    }

    /// All decisions.
    pub fn decisions(&self) -> Result<Vec<Decision>> {
        documents(&self.layout.wanted.releases())
    }

    /// The ref manifest of one source, if there is one.
    pub fn manifest(&self, source: &Source) -> Result<Option<Manifest>> {
        document(&self.layout.served.manifest(&source.name()))
    }

    /// The last decision about one HelmRelease, if there is one.
    pub fn decision(&self, namespace: &str, name: &str) -> Result<Option<Decision>> {
        document(&self.layout.wanted.release(namespace, name))
    }

    /// The file names of all artifacts.
    pub fn artifacts(&self) -> Result<Vec<String>> {
        names(&self.layout.served.artifacts(), ".tar")
    }

    /// The folder names of all mirrors.
    pub fn mirrors(&self) -> Result<Vec<String>> {
        names(&self.layout.served.mirrors(), ".git")
    }

    /// Writes a request as a person would: by any means, here a rename.
    pub fn ask(&self, request: &Request) -> Result<()> {
        let path = self.layout.wanted.request(&request.source.name());
        let aside = path.with_extension("by-hand");
        guard::write(&aside, serde_json::to_vec_pretty(request)?)?;
        fs::rename(&aside, &path)?;
        Ok(())
    }

    /// Takes a request back.
    pub fn withdraw(&self, source: &Source) -> Result<()> {
        let path = self.layout.wanted.request(&source.name());
        fs::remove_file(&path).with_context(|| path.display().to_string())
    }

    /// Every file of the volume and the credentials, as text, for a search for
    /// what must not be there. Mirrors hold git's own packed data.
    pub fn find(&self, needle: &str) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut folders = vec![self.path()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)?.flatten() {
                let path = entry.path();
                if entry.file_type()?.is_dir() {
                    folders.push(path);
                } else if contains(&fs::read(&path).unwrap_or_default(), needle.as_bytes()) {
                    found.push(path);
                }
            }
        }
        Ok(found)
    }
}

fn contains(text: &[u8], needle: &[u8]) -> bool {
    text.windows(needle.len()).any(|window| window == needle)
}

fn names(folder: &Path, ending: &str) -> Result<Vec<String>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(ending) && !name.starts_with('.'))
        .collect();
    names.sort();
    Ok(names)
}

fn documents<T: DeserializeOwned>(folder: &Path) -> Result<Vec<T>> {
    // A file may go between the listing and the reading.
    names(folder, ".json")?
        .into_iter()
        .filter_map(|name| document(&folder.join(name)).transpose())
        .collect()
}

fn document<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => {
            let read = serde_json::from_slice(&bytes)
                .with_context(|| format!("{} is broken", path.display()))?;
            Ok(Some(read))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}
