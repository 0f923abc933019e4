//! Puts the parts together, starts them, and ends them in order.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tandem_shared::clock;
use tandem_shared::credentials::Store;
use tandem_shared::layout::Wanted;
use tandem_shared::lock::{self, Guard, LockError};
use tandem_shared::publish::{self, Audience};
use tandem_shared::version::{Contract, Document};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::{Config, absolute};
use crate::controller::{Controller, Inputs, Settings};
use crate::credentials::Credentials;
use crate::events::Events;
use crate::helm::{Cluster, Helm};
use crate::http::{self, Readiness};
use crate::metrics::Metrics;
use crate::reconcile::artifacts::Artifacts;
use crate::reconcile::release::Engine;
use crate::reconcile::report::Reporter;
use crate::reconcile::{Context, Queue};
use crate::references::Followed;
use crate::{storage, triggers, watches, webhooks};

/// How long a predecessor that is about to end is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(30);
/// How long a rollback, uninstall or test may go on once the process is to end. The pod's
/// grace period has to be longer.
const END_WAIT: Duration = Duration::from_secs(20);
/// How long the API may say nothing in answer to a call.
const SILENCE: Duration = Duration::from_secs(60);
/// Passes that may hold values in memory at the same time, besides those that have their turn.
const GATHER_SLOTS: usize = 16;
/// Passes with their turn for each helm child: while one runs helm, another gets ready, or
/// looks at what became of it.
const TURNS: usize = 2;
/// Events and wishes that wait to be heard.
const BACKLOG: usize = 256;

/// Reconciles until `shutdown`.
///
/// # Errors
/// If it can't be started, in words: another reconciler on the volume, no helm, no way to
/// the cluster, an address that is taken.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
    let listener = http::listen(config.listen).await?;
    let webhooks = match &config.webhooks {
        Some(webhooks) => Some((
            http::listen(webhooks.listen).await?,
            webhooks.secret_file.clone(),
        )),
        None => None,
    };
    let role = {
        let wanted = config.volume.wanted.clone();
        spawn_blocking(move || take_mount(&wanted)).await??
    };
    let _work = Private::make(&config.work)?;
    let credentials = match &config.credentials {
        Some(root) => Some(Store::open(root).context("can't use the credentials volume")?),
        None => None,
    };
    let cluster = cluster(config.kubeconfig.clone());
    let (client, watching) = clients(&cluster).await?;
    let helm = {
        let (program, work) = (config.helm.clone(), config.work.clone());
        spawn_blocking(move || Helm::detect(&program, cluster, &work)).await??
    };
    info!(
        listen = %listener.local_addr()?,
        version = env!("CARGO_PKG_VERSION"),
        helm = %helm.version(),
        volume = %config.volume.wanted.root().parent().unwrap_or(Path::new("")).display(),
        "serving"
    );

    let metrics = Arc::new(Metrics::default());
    let (ready, is_ready) = watch::channel(Readiness::default());
    let (syncs, heard_syncs) = mpsc::channel(BACKLOG);
    let (stop, ending, end) = (
        CancellationToken::new(),
        CancellationToken::new(),
        CancellationToken::new(),
    );
    let process = format!("{}-{:08x}", hostname(), rand::random::<u32>());
    let events = Events::new(client.clone(), &process);
    let context = Arc::new(Context {
        engine: Engine::new(Arc::new(helm), storage::Store::new(client.clone())),
        artifacts: Artifacts::new(config.volume.served.clone(), config.work.clone()),
        reporter: Reporter::new(
            client.clone(),
            events,
            config.volume.wanted.clone(),
            metrics.clone(),
        ),
        wanted: config.volume.wanted.clone(),
        metrics: metrics.clone(),
        gather_slots: Semaphore::new(GATHER_SLOTS),
        queue: Queue::default(),
        turns: Semaphore::new(config.workers * TURNS),
        places: Arc::new(Semaphore::new(config.workers)),
        process,
        stopping: stop.clone(),
        ending: ending.clone(),
        client: client.clone(),
        namespace: config.namespace.clone(),
    });

    let mut tasks = JoinSet::new();
    let (helm_releases, heard_releases) = mpsc::channel(BACKLOG);
    let (records, heard_records) = mpsc::channel(BACKLOG);
    let (looks, heard_looks) = mpsc::channel(BACKLOG);
    tasks.spawn(watches::helm_releases(
        watching.clone(),
        config.namespace.clone(),
        helm_releases,
    ));
    tasks.spawn(watches::release_records(
        watching.clone(),
        config.namespace.clone(),
        records,
    ));
    let (followed, is_followed) = watch::channel(Followed::default());
    let (references, heard_references) = mpsc::channel(BACKLOG);
    tasks.spawn(watches::config_maps(
        watching.clone(),
        config.namespace.clone(),
        is_followed.clone(),
        references.clone(),
    ));
    tasks.spawn(watches::secrets(
        watching,
        config.namespace.clone(),
        is_followed,
        references,
    ));
    tasks.spawn(triggers::watch_manifests(
        config.volume.served.manifests(),
        looks,
    ));
    if let Some((listener, secret_file)) = webhooks {
        // Not `listen`, which is the address of everything else.
        info!(receivers = %listener.local_addr()?, "receiving webhooks");
        let shared = webhooks::Shared {
            metrics: metrics.clone(),
            ready: is_ready.clone(),
            syncs: syncs.clone(),
            secret_file,
        };
        tasks.spawn(webhooks::serve(listener, shared, stop.clone()));
    }
    let shared = http::Shared {
        metrics,
        ready: is_ready,
        syncs,
    };
    let mut server = tokio::spawn(http::serve(listener, shared, end.clone()));

    let settings = Settings {
        volume: config.volume.clone(),
        sources: config.sources.clone(),
        resync: config.resync,
        namespace: config.namespace.clone(),
        hears_pushes: config.webhooks.is_some(),
    };
    let inputs = Inputs {
        helm_releases: heard_releases,
        records: heard_records,
        references: heard_references,
        looks: heard_looks,
        syncs: heard_syncs,
    };
    let controller = Controller::new(
        context,
        settings,
        Credentials::new(credentials),
        ready,
        followed,
    )?;
    let mut controller = tokio::spawn(controller.run(inputs, stop.clone()));

    tokio::select! {
        () = shutdown => info!("ending: helm installs and upgrades are interrupted, anything else may take {} s", END_WAIT.as_secs()),
        ended = &mut controller => bail!("the controller ended by itself: {ended:?}"),
        ended = &mut server => bail!("nothing serves HTTP any more: {ended:?}"),
    }
    stop.cancel();
    let done = tokio::select! {
        done = &mut controller => done,
        () = tokio::time::sleep(END_WAIT) => {
            warn!("helm still runs; it is interrupted now");
            ending.cancel();
            controller.await
        }
    };
    end.cancel();
    tasks.abort_all();
    // Only now may a successor begin.
    drop(role);
    done.context("the controller ended unexpectedly")
}

/// Makes our mount ours: its folders, the lock of the one live reconciler, and what a killed
/// predecessor left half written.
fn take_mount(wanted: &Wanted) -> anyhow::Result<Guard> {
    for folder in wanted.folders() {
        publish::folder(&folder, Audience::Group)?;
    }
    let role = match lock::acquire_within(&wanted.role_lock(), LOCK_WAIT) {
        Err(error @ LockError::Held { .. }) => {
            bail!(
                "{error}: another reconciler lives on this volume; each needs a volume of its own"
            )
        }
        other => other?,
    };
    for folder in wanted.folders() {
        publish::sweep(&folder)?;
    }
    let contract = Contract {
        schema: Contract::current_schema(),
        writer: "reconciler".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: clock::now(),
    };
    publish::json(&wanted.contract(), &contract)?;
    Ok(role)
}

/// An empty folder that nobody else can look into; it goes with the process.
struct Private(PathBuf);

impl Private {
    /// The role's lock is held: what is in it is of a dead predecessor.
    fn make(folder: &Path) -> anyhow::Result<Self> {
        publish::remove_folder(folder)?;
        let made = std::fs::DirBuilder::new()
            .recursive(false)
            .mode(0o700)
            .create(folder);
        made.with_context(|| {
            format!(
                "can't make the private folder {}; name another with --work-dir",
                folder.display()
            )
        })?;
        Ok(Self(folder.to_owned()))
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        if let Err(error) = publish::remove_folder(&self.0) {
            warn!("{error}");
        }
    }
}

/// The kubeconfig that was named, else the usual ones, else what a pod has.
fn cluster(named: Option<PathBuf>) -> Cluster {
    let of_environment = || {
        std::env::var_os("KUBECONFIG")
            .map(PathBuf::from)
            .filter(|path| !path.as_os_str().is_empty())
    };
    let of_home = || {
        std::env::home_dir()
            .map(|home| home.join(".kube/config"))
            .filter(|path| path.is_file())
    };
    match named.or_else(of_environment).or_else(of_home) {
        Some(path) => Cluster::Kubeconfig(absolute(&path)),
        None => Cluster::InCluster,
    }
}

/// A client for calls, which are given up when nothing is heard, and one for watches, which
/// end by themselves.
async fn clients(cluster: &Cluster) -> anyhow::Result<(Client, Client)> {
    let config = match cluster {
        Cluster::Kubeconfig(path) => {
            // Its errors tell their causes themselves, some of them twice.
            let wrong = |error: String| anyhow!("can't use the kubeconfig {}: {error}", path.display());
            let read = Kubeconfig::read_from(path).map_err(|error| wrong(error.to_string()))?;
            kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
                .await
                .map_err(|error| wrong(error.to_string()))?
        }
        Cluster::InCluster => kube::Config::incluster()
            .context("there is no kubeconfig and this is no pod with a service account token; name a kubeconfig with --kubeconfig")?,
    };
    let mut calling = config.clone();
    calling.read_timeout = Some(SILENCE);
    let client = |config| Client::try_from(config).context("can't make a client for the cluster");
    Ok((client(calling)?, client(config)?))
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "reconciler".to_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_find_a_kubeconfig_that_was_named_relative_to_us() {
        let found = cluster(Some("k".into()));
        assert_eq!(found, Cluster::Kubeconfig(absolute(Path::new("k"))));
        assert_ne!(found, Cluster::Kubeconfig("k".into()));
    }
}
