//! What every test of the sidecar begins with.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tandem_shared::source::Source;
use tandem_tests::git::{Upstream, Upstreams};
use tandem_tests::pair::{Extra, Role, sidecar};
use tandem_tests::requests::{chart, git, good, request};
use tandem_tests::volume::Volume;
use tandem_tests::{charts, guard};

pub(crate) fn upstream() -> (Upstreams, Upstream, String) {
    let upstreams = Upstreams::new().unwrap();
    let upstream = upstreams.create("charts").unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "one"))
        .unwrap();
    upstream
        .write_all(&charts::config_map("charts/other", "one"))
        .unwrap();
    upstream.write("env/prod.yaml", "replicas: 3\n").unwrap();
    let commit = upstream.push("main", "Add charts").unwrap();
    (upstreams, upstream, commit)
}

pub(crate) async fn start(extra: &Extra) -> (Volume, Role) {
    let volume = Volume::new().unwrap();
    let role = sidecar(&volume, extra).unwrap();
    role.ready().await.unwrap();
    (volume, role)
}

/// A second repository that must go on whatever happens to the first.
pub(crate) struct Neighbour {
    upstream: Upstream,
    source: Source,
    pushes: u32,
}

impl Neighbour {
    pub(crate) fn new(upstreams: &Upstreams) -> Self {
        let upstream = upstreams.create("neighbour").unwrap();
        let source = git(&upstream.file_url());
        Self {
            upstream,
            source,
            pushes: 0,
        }
    }

    pub(crate) async fn goes_on(&mut self, volume: &Volume) {
        self.pushes += 1;
        let marker = format!("push {}", self.pushes);
        self.upstream
            .write_all(&charts::config_map("app", &marker))
            .unwrap();
        let commit = self.upstream.push("main", &marker).unwrap();
        let mut asked = request(&self.source, [chart("app", "main", "app")]);
        asked.refresh = marker;
        volume.ask(&asked).unwrap();
        good(volume, &self.source, "app", &commit).await.unwrap();
    }
}

/// Bytes that git can't make small, different for each seed.
pub(crate) fn blob(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..20_000)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[0]
        })
        .collect()
}

/// A Secret as a kubelet mounts it: its files lead through a link that is replaced at once.
pub(crate) struct Mounted {
    folder: PathBuf,
    versions: u32,
}

impl Mounted {
    pub(crate) fn new(names: &[&str]) -> Self {
        let mounted = Self {
            folder: guard::folder("mounted").unwrap(),
            versions: 0,
        };
        for name in names {
            symlink(format!("..data/{name}"), mounted.path(name)).unwrap();
        }
        mounted
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn hold(&mut self, files: &[(&str, &str)]) {
        self.versions += 1;
        let version = format!("..{}", self.versions);
        for (name, content) in files {
            guard::write(&self.path(&version).join(name), content).unwrap();
        }
        symlink(&version, self.path("..new")).unwrap();
        std::fs::rename(self.path("..new"), self.path("..data")).unwrap();
    }
}
