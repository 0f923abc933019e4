//! The pair's side: new releases, a push, a rest.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use serde::Serialize;
use serde_json::json;
use tandem_tests::cluster::Cluster;
use tandem_tests::git::Upstream;
use tandem_tests::helm::Helm;
use tandem_tests::kubernetes::{HelmRelease, HelmReleases, from_git};
use tandem_tests::pair::{self, Extra};
use tandem_tests::probe::ChildProbe;
use tandem_tests::progress::Step;
use tandem_tests::volume::Volume;
use tandem_tests::{charts, procfs};

use crate::args::{Args, chart_path, release};
use crate::measure::{Phase, Running};

/// HelmReleases that are applied at the same time.
const APPLY: usize = 8;

/// The chart that the push changes.
const CHANGED: u32 = 0;

/// The longest that a phase may take.
const LIMIT: Duration = Duration::from_secs(1800);

/// What the pair cost.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Pair {
    /// Resident bytes before there is any HelmRelease.
    pub(crate) sidecar_empty: u64,
    pub(crate) reconciler_empty: u64,
    pub(crate) converge: Phase,
    /// From then until every object names its HelmRelease: what is put off while others wait
    /// to be released.
    pub(crate) annotate: Phase,
    pub(crate) push: Phase,
    /// Releases of the chart that the push changed.
    pub(crate) upgraded: u32,
    /// From the sync-git call to the first helm.
    pub(crate) helm_started_milliseconds: u64,
    /// From the sync-git call until every affected release was live.
    pub(crate) live_milliseconds: u64,
    pub(crate) idle: Phase,
}

pub(crate) struct Bench<'a> {
    pub(crate) args: &'a Args,
    pub(crate) cluster: &'a Cluster,
    pub(crate) helm: &'a Helm,
    pub(crate) upstream: &'a Upstream,
    pub(crate) url: String,
    pub(crate) releases: HelmReleases,
}

impl Bench<'_> {
    pub(crate) async fn run(&self) -> Result<Pair> {
        let volume = Volume::new()?;
        let extra = Extra::args([
            format!("--allow-namespace={}", self.releases.namespace()),
            format!("--workers={}", self.args.parallel),
            format!("--git-poll-interval={}", self.args.poll),
        ]);
        let sidecar = pair::sidecar(&volume, &Extra::default())?;
        let reconciler = pair::reconciler(
            &volume,
            self.cluster.kubeconfig(),
            self.helm.program(),
            &extra,
        )?;
        sidecar.ready().await?;
        reconciler.ready().await?;
        let resident = |pid| procfs::memory(pid, "VmRSS").unwrap_or_default();
        let (sidecar_empty, reconciler_empty) =
            (resident(sidecar.pid()), resident(reconciler.pid()));

        self.warm_up().await?;
        let step = Step::start(format!("pair: {} new HelmReleases", self.args.releases));
        let phase = Running::begin("converge", &sidecar, &reconciler).await?;
        self.apply().await?;
        self.all("released", self.args.releases, |one| {
            one.condition("Released")
                .is_some_and(|condition| condition.0 == "True")
        })
        .await?;
        let converge = phase.end(&sidecar, &reconciler).await?;
        step.done(format!("{:.1} s", converge.seconds));

        let step = Step::start("every object names its HelmRelease");
        let phase = Running::begin("annotate", &sidecar, &reconciler).await?;
        self.all("annotated", self.args.releases, |one| {
            !one.status("annotatedRevision").is_null()
        })
        .await?;
        let annotate = phase.end(&sidecar, &reconciler).await?;
        step.done(format!("{:.1} s", annotate.seconds));

        let step = Step::start(format!("push of one chart of {}", self.args.charts));
        self.upstream
            .write_all(&charts::application(&chart_path(CHANGED), "second"))?;
        let commit = self.upstream.push("main", "Change one chart")?;
        let upgraded = (0..self.args.releases)
            .filter(|number| number % self.args.charts == CHANGED)
            .count();
        let upgraded = u32::try_from(upgraded)?;
        let phase = Running::begin("push", &sidecar, &reconciler).await?;
        let probe = ChildProbe::start(reconciler.pid(), "helm");
        let called = Instant::now();
        reconciler.sync_git().await?;
        self.all("live at the new commit", upgraded, |one| {
            one.status("revision") == commit.as_str()
        })
        .await?;
        let live = called.elapsed();
        let started = probe
            .finish()
            .context("no helm was seen to start")?
            .duration_since(called);
        let push = phase.end(&sidecar, &reconciler).await?;
        step.done(format!(
            "{} releases in {:.1} s",
            upgraded,
            live.as_secs_f64()
        ));

        let step = Step::start(format!("idle for {} s", self.args.idle));
        let phase = Running::begin("idle", &sidecar, &reconciler).await?;
        tokio::time::sleep(Duration::from_secs(self.args.idle)).await;
        let idle = phase.end(&sidecar, &reconciler).await?;
        step.done("");
        ensure!(
            push.helm == u64::from(upgraded),
            "the push started {} helm, not {upgraded}",
            push.helm
        );
        Ok(Pair {
            sidecar_empty,
            reconciler_empty,
            converge,
            annotate,
            push,
            upgraded,
            helm_started_milliseconds: u64::try_from(started.as_millis())?,
            live_milliseconds: u64::try_from(live.as_millis())?,
            idle,
        })
    }

    /// The API server's first watch of a kind takes a second, its first helm longer: the loop
    /// doesn't pay for that, either.
    async fn warm_up(&self) -> Result<()> {
        let name = "warm-up";
        self.releases.apply(name, &json!({ "chart": {} })).await?;
        self.releases
            .wait(name, "heard of", HelmRelease::is_observed)
            .await?;
        self.releases.delete(name).await?;
        self.releases.gone(name).await
    }

    async fn apply(&self) -> Result<()> {
        let applied = futures::stream::iter(0..self.args.releases).map(|number| async move {
            let name = release(number);
            let mut spec = from_git(&self.url, "main", &chart_path(number % self.args.charts));
            spec["releaseName"] = json!(name);
            self.releases.apply(&name, &spec).await
        });
        applied.buffer_unordered(APPLY).try_collect().await
    }

    async fn all(
        &self,
        what: &str,
        wanted: u32,
        holds: impl Fn(&HelmRelease) -> bool,
    ) -> Result<()> {
        self.releases
            .follow(what, wanted as usize, LIMIT, holds)
            .await
    }
}
