//! One test's world: a namespace of the shared cluster, upstream repositories,
//! a volume, and a pair that looks at that namespace alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use kube::Client;
use tandem_shared::source::SourceName;

use crate::cluster::Cluster;
use crate::git::Upstreams;
use crate::helm::Helm;
use crate::kubernetes::{HelmReleases, install_crd};
use crate::mounts::{self, Mount};
use crate::pair::{self, Extra, Role};
use crate::volume::Volume;
use crate::wait::{LONG, Look, until};

/// Seconds of poll interval that no test lives to see: what happens, happens
/// because something asked for it.
const NEVER: &str = "--git-poll-interval=24h";

const NO_SIDECAR: &str = "no mirror-sidecar was started";
const NO_RECONCILER: &str = "no reconciler was started";

/// A namespace and everything that works on it.
pub struct World {
    /// The cluster, shared with the other tests of this binary.
    pub cluster: Arc<Cluster>,
    /// A client with the administrator's rights.
    pub client: Client,
    /// The world's namespace.
    pub namespace: String,
    /// The HelmReleases of that namespace.
    pub releases: HelmReleases,
    /// helm at a terminal.
    pub helm: Helm,
    /// Repositories to serve.
    pub upstreams: Upstreams,
    /// The volume between the two processes.
    pub volume: Volume,
    sidecar: Option<Role>,
    reconciler: Option<Role>,
}

impl World {
    /// A world without processes.
    pub async fn empty(prefix: &str) -> Result<Self> {
        Self::with_helm(prefix, None).await
    }

    /// A world whose pair is up and polls nothing by itself.
    pub async fn start(prefix: &str) -> Result<Self> {
        let mut world = Self::empty(prefix).await?;
        world
            .start_pair(&Extra::default(), &Extra::args([NEVER]))
            .await?;
        Ok(world)
    }

    /// A world whose pair polls nothing by itself, and looks again at every HelmRelease in
    /// this interval.
    pub async fn resyncing(prefix: &str, every: &str) -> Result<Self> {
        let mut world = Self::empty(prefix).await?;
        let args = [NEVER.to_owned(), format!("--charts-sync-interval={every}")];
        world
            .start_pair(&Extra::default(), &Extra::args(args))
            .await?;
        Ok(world)
    }

    /// A world without processes, with a helm of the test's own choice.
    pub async fn with_helm(prefix: &str, helm: Option<std::path::PathBuf>) -> Result<Self> {
        let cluster = Cluster::shared()?;
        let client = cluster.client().await?;
        install_crd(&client).await?;
        let namespace = cluster.namespace(prefix).await?;
        let helm = match helm {
            Some(program) => Helm::with(program, cluster.kubeconfig())?,
            None => Helm::new(cluster.kubeconfig())?,
        };
        Ok(Self {
            releases: HelmReleases::new(client.clone(), &namespace),
            cluster,
            client,
            namespace,
            helm,
            upstreams: Upstreams::new()?,
            volume: Volume::new()?,
            sidecar: None,
            reconciler: None,
        })
    }

    /// Starts both processes and waits until they are ready.
    pub async fn start_pair(&mut self, sidecar: &Extra, reconciler: &Extra) -> Result<()> {
        self.start_sidecar(sidecar)?;
        self.start_reconciler(reconciler)?;
        self.sidecar()?.ready().await?;
        self.reconciler()?.ready().await
    }

    /// Starts mirror-sidecar, which can only read the reconciler's half of the
    /// volume, as in a pod.
    pub fn start_sidecar(&mut self, extra: &Extra) -> Result<()> {
        let extra = self.kept_from(self.volume.layout().wanted.root(), extra);
        self.sidecar = Some(pair::sidecar(&self.volume, &extra)?);
        Ok(())
    }

    /// Starts reconciler, which can only read the sidecar's half of the volume,
    /// as in a pod.
    pub fn start_reconciler(&mut self, extra: &Extra) -> Result<()> {
        let mut extra = self.kept_from(self.volume.layout().served.root(), extra);
        extra
            .args
            .push(format!("--allow-namespace={}", self.namespace));
        self.reconciler = Some(pair::reconciler(
            &self.volume,
            self.cluster.kubeconfig(),
            self.helm.program(),
            &extra,
        )?);
        Ok(())
    }

    fn kept_from(&self, other: &Path, extra: &Extra) -> Extra {
        match mounts::available() {
            Some(able) => extra.clone().inside(
                able,
                Mount::ReadOnly {
                    path: other.to_owned(),
                },
            ),
            None => extra.clone(),
        }
    }

    /// mirror-sidecar, which has been started.
    pub fn sidecar(&self) -> Result<&Role> {
        self.sidecar.as_ref().context(NO_SIDECAR)
    }

    /// mirror-sidecar, to kill or to start again.
    pub fn sidecar_mut(&mut self) -> Result<&mut Role> {
        self.sidecar.as_mut().context(NO_SIDECAR)
    }

    /// reconciler, which has been started.
    pub fn reconciler(&self) -> Result<&Role> {
        self.reconciler.as_ref().context(NO_RECONCILER)
    }

    /// reconciler, to kill or to start again.
    pub fn reconciler_mut(&mut self) -> Result<&mut Role> {
        self.reconciler.as_mut().context(NO_RECONCILER)
    }

    /// Tells the pair, as a webhook would, that there
    /// is something new.
    pub async fn sync(&self) -> Result<()> {
        self.reconciler()?.sync_git().await
    }

    /// The same, and waits until every source has answered to it.
    pub async fn sync_answered(&self) -> Result<()> {
        let tokens = || -> Result<BTreeMap<SourceName, String>> {
            let requests = self.volume.requests()?.into_iter();
            Ok(requests
                .map(|one| (one.source.name(), one.refresh))
                .collect())
        };
        let before = tokens()?;
        self.sync().await?;
        until("every source to be looked at", LONG, || async {
            let asked = tokens()?;
            let new = before
                .iter()
                .all(|(name, old)| asked.get(name) != Some(old));
            let manifests = self.volume.manifests()?;
            let handled = asked.iter().all(|(name, token)| {
                let mut all = manifests.iter();
                all.any(|one| one.source.name() == *name && one.handled_refresh == *token)
            });
            let seen = format!("{before:?}, then {asked:?}: {manifests:?}");
            Ok(Look::when(new && handled, seen))
        })
        .await
    }

    /// Empties the volume and the credentials, as the end of a pod does. Nothing may run.
    pub fn lose_volumes(&self) -> Result<()> {
        let layout = self.volume.layout();
        for folder in [
            layout.wanted.root(),
            layout.served.root(),
            &self.volume.credentials(),
        ] {
            std::fs::remove_dir_all(folder)?;
            std::fs::create_dir_all(folder)?;
        }
        Ok(())
    }
}
