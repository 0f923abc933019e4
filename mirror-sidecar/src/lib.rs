//! `mirror-sidecar`: brings charts from git and Helm repositories and OCI registries,
//! and values files from URLs, onto the volume.
//!
//! `mirror -> snapshot -> publish ┃volume┃ trigger -> gather -> plan -> release -> report`
//!
//! It reads requests, keeps one bare mirror per repository, and serves
//! one manifest per source and one tar per chart. It knows no Kubernetes, and
//! nobody waits for it: whatever it says, it says by a file on the volume.
//!
//! | module | what it settles |
//! |---|---|
//! | [`args`], [`config`] | how it is started, and what that amounts to |
//! | [`schedule`] | which source is looked at, and when |
//! | [`check`] | one look at one source, from its request to its manifest |
//! | [`address`], [`credentials`] | what is reached, and with which proof |
//! | [`git`], [`askpass`] | how the git program is run, and what it may know |
//! | [`github`] | tokens of GitHub Apps |
//! | [`mirror`] | one bare repository: listing, fetching, keeping it small |
//! | [`web`] | one GET of what is behind a URL |
//! | [`repository`] | a Helm repository: its index, a version, an archive |
//! | [`oci`] | an OCI registry: tags, digests, tokens, an archive |
//! | [`snapshot`] | a chart or file at a commit, as an artifact |
//! | [`dependencies`] | what charts depend on and isn't in the tree, brought by helm |
//! | [`archive`] | a packed chart, unpacked |
//! | [`verify`] | whether something is signed, and by whom |
//! | [`range`] | versions, and ranges of them |
//! | [`serving`], [`inventory`], [`janitor`] | what is served, what is named, what may go |
//! | [`http`], [`health`], [`metrics`] | what operators see |

pub mod address;
pub mod archive;
pub mod args;
pub mod askpass;
pub mod check;
pub mod config;
pub mod credentials;
pub mod dependencies;
pub mod git;
pub mod github;
pub mod health;
pub mod http;
pub mod inventory;
pub mod janitor;
pub mod logging;
pub mod metrics;
pub mod mirror;
pub mod oci;
pub mod places;
pub mod range;
pub mod repository;
#[cfg(test)]
mod run_tests;
pub mod schedule;
pub mod serving;
pub mod signals;
pub mod snapshot;
mod start;
#[cfg(test)]
mod testing;
pub mod verify;
pub mod web;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tandem_shared::child::Cancel;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use check::Context;
use config::Config;
use dependencies::Dependencies;
use git::Git;
use github::Tokens;
use health::Health;
use http::Shown;
use inventory::Inventory;
use metrics::Metrics;
use places::Places;
use web::Web;

/// Threads for what blocks for a moment only (the volume).
const SPARE_THREADS: usize = 32;

/// What everything runs on: two threads for what waits, one for each source that is asked or
/// worked on, and some more for what else blocks. They are made when they are needed.
///
/// # Errors
/// If the system has no threads to give.
pub fn runtime(config: &Config) -> std::io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(SPARE_THREADS.saturating_add(places::threads(config.concurrent)))
        .enable_all()
        .build()
}

/// How long HTTP requests under way are waited for at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs until `shutdown`.
///
/// # Errors
/// If it can't begin: another sidecar lives on the volume, the volume can't be
/// written, or the address is taken. Once it has begun, nothing ends it.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|error| anyhow!("can't listen on {}: {error}; see --listen", config.listen))?;
    let mut shutdown = std::pin::pin!(shutdown);
    let health = Arc::new(Health::default());
    let metrics = Arc::new(Metrics::default());
    let cancel = Cancel::new().map_err(|error| anyhow!("can't make a pipe: {error}"))?;
    let git = Git::new(&config, cancel.clone(), Arc::clone(&metrics));
    let beginning = {
        let (config, git) = (config.clone(), git.clone());
        tokio::task::spawn_blocking(move || {
            let version = start::git_version(&git)?;
            tracing::debug!(%version, "git is there");
            start::begin(&config, Inventory::default())
        })
    };
    let (role, inventory) = tokio::select! {
        begun = beginning => begun??,
        () = &mut shutdown => return Ok(()),
    };
    if let Err(why) = start::find_helm(&config.helm) {
        tracing::warn!(
            "{why}; charts from git whose dependencies have to be downloaded aren't served before there is one, all others are: put helm 4 (or 3 from 3.14 on) into this program's image, or say with --helm where it is"
        );
    }
    tracing::info!(listen = %listener.local_addr()?, volume = %config.root.display(), version = env!("CARGO_PKG_VERSION"), "started");

    let (stop, stopped) = watch::channel(false);
    let ended = |mut stopped: watch::Receiver<bool>| async move {
        // A dropped sender means the end as well.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    let shown = Shown {
        health: Arc::clone(&health),
        metrics: Arc::clone(&metrics),
    };
    let served = tokio::spawn(http::serve(listener, shown, ended(stopped.clone())));
    let dependencies = Dependencies::new(&config, cancel.clone(), Arc::clone(&metrics));
    let context = Arc::new(Context {
        places: Places::new(config.concurrent),
        config,
        git,
        metrics,
        inventory,
        health,
        web: Web::default(),
        tokens: Tokens::default(),
        dependencies,
    });
    let ending = Arc::clone(&context);
    let mut schedule = std::pin::pin!(schedule::run(context, ended(stopped)));
    tokio::select! {
        () = &mut shutdown => {}
        () = &mut schedule => {}
    }
    tracing::info!("ending");
    // Children are asked to end, and killed ten seconds later.
    cancel.cancel();
    ending.web.end();
    stop.send_replace(true);
    schedule.await;
    let _ = tokio::task::spawn_blocking(move || ending.dependencies.end()).await;
    // Somebody who is still reading doesn't keep us.
    if let Ok(served) = tokio::time::timeout(FAREWELL, served).await {
        served??;
    }
    drop(role);
    Ok(())
}
