//! The sidecar, asked by request files as a person writes them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tandem_shared::manifest::Manifest;
use tandem_shared::request::{Request, Want};
use tandem_shared::source::Source;
use tandem_tests::pair::{Extra, Role, sidecar};
use tandem_tests::requests::{git, request};
use tandem_tests::volume::Volume;
use tandem_tests::wait::LONG;

use super::figures::{Taken, folder_bytes};
use super::wire::Wire;

/// From one look at the manifest to the next: small beside what is measured.
const LOOK: Duration = Duration::from_micros(500);

/// A running sidecar and its volume.
pub(crate) struct Follower {
    volume: Volume,
    pub(crate) role: Role,
    tokens: u32,
}

impl Follower {
    pub(crate) async fn start() -> Result<Self> {
        let volume = Volume::new()?;
        let role = sidecar(&volume, &Extra::args(["--grace=1h"]))?;
        role.ready().await?;
        Ok(Self {
            volume,
            role,
            tokens: 0,
        })
    }

    /// Asks for `wants`, and for a look at the source at once; ends when that is done and
    /// every want has what was asked for.
    pub(crate) async fn look(
        &mut self,
        wire: &Wire,
        name: &str,
        wants: Vec<Want>,
        commit: Option<&str>,
    ) -> Result<Taken> {
        let source = git(&wire.url(name));
        self.tokens += 1;
        let asked = Request {
            refresh: self.tokens.to_string(),
            ..request(&source, wants)
        };
        let (before, begun) = (wire.received(), Instant::now());
        self.volume.ask(&asked)?;
        self.until(&source, &asked, commit).await?;
        Ok(Taken {
            seconds: begun.elapsed().as_secs_f64(),
            received: wire.received() - before,
            disk: self.mirror_bytes(wire, name),
        })
    }

    /// Bytes of a source's mirror.
    pub(crate) fn mirror_bytes(&self, wire: &Wire, name: &str) -> u64 {
        let served = &self.volume.layout().served;
        folder_bytes(&served.mirror(&git(&wire.url(name)).name()))
    }

    /// Mirrors on the volume.
    pub(crate) fn mirrors(&self) -> Result<usize> {
        Ok(std::fs::read_dir(self.volume.layout().served.mirrors())?.count())
    }

    async fn until(&self, source: &Source, asked: &Request, commit: Option<&str>) -> Result<()> {
        let begun = Instant::now();
        loop {
            let found = self.volume.manifest(source)?;
            if found
                .as_ref()
                .is_some_and(|found| answers(found, asked, commit))
            {
                return Ok(());
            }
            if begun.elapsed() > LONG {
                bail!("{} has no good manifest: {found:#?}", source.url);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Whether a manifest answers a request in full, the first want from `commit`.
fn answers(manifest: &Manifest, asked: &Request, commit: Option<&str>) -> bool {
    let good = |want: &Want| {
        let result = manifest.results.get(&want.key)?;
        result.problem.is_none().then_some(result.good.as_ref()?)
    };
    let all = asked.wants.iter().all(|want| good(want).is_some());
    let at = |commit: &str| manifest.refs.values().any(|one| one.commit == commit);
    manifest.handled_refresh == asked.refresh && all && commit.is_none_or(at)
}

/// Peak resident bytes of a process since its start.
pub(crate) fn peak(role: &Role) -> Result<u64> {
    tandem_tests::procfs::memory(role.pid(), "VmHWM").context("the sidecar has ended")
}
