//! What happens: releases appear, a commit is pushed, one release follows.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use tandem_tests::kubernetes::{HelmRelease, from_git};
use tandem_tests::probe::ChildProbe;
use tandem_tests::progress::Step;

use crate::args::Args;
use crate::show;
use crate::stage::{CHARTS, Repository, Stage};

/// The chart that the demo's commit touches.
const CHANGED: &str = "api";

/// How often the stage is looked at for changes of the reader's making.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) async fn tell(stage: &mut Stage, args: &Args) -> Result<()> {
    match stage.repository.take() {
        Some(repository) => {
            let told = own_repository(stage, &repository).await;
            // Back before the outcome is looked at: the server lives in it.
            stage.repository = Some(repository);
            told?;
        }
        None => given_repository(stage, args).await?,
    }
    show::releases(stage).await?;
    show::status(stage)?;
    show::where_to_look(stage)?;
    if args.once {
        return show::line(
            "\nThat was all of `--once`: it goes now. Without it there is time to look.",
        );
    }
    show::line("\nRunning until Ctrl-C; what becomes of the three HelmReleases is told here.")?;
    watch(stage).await
}

async fn own_repository(stage: &mut Stage, repository: &Repository) -> Result<()> {
    let step = Step::start("three HelmReleases, one for each chart");
    for chart in CHARTS {
        let mut spec = from_git(&repository.url(), "main", &format!("charts/{chart}"));
        spec["releaseName"] = json!(chart);
        stage.apply(chart, &spec).await?;
    }
    for chart in CHARTS {
        step.say(format!("waiting for {chart}"));
        stage.releases.released(chart).await?;
    }
    step.done("released");
    let before = revisions(stage)?;

    let step = Step::start(format!("a commit that touches the chart {CHANGED} alone"));
    repository
        .upstream
        .write_all(&tandem_tests::charts::application(
            &format!("charts/{CHANGED}"),
            "second",
        ))?;
    let commit = repository
        .upstream
        .push("main", &format!("Change {CHANGED}"))?;
    let probe = ChildProbe::start(stage.reconciler.pid(), "helm");
    let pushed = Instant::now();
    stage.reconciler.sync_git().await?;
    let live = stage
        .releases
        .released_from(CHANGED, &commit)
        .await
        .map(|_| pushed.elapsed());
    let started = probe.finish();
    let live = live?;
    step.done(format!("{} live", commit.get(..10).unwrap_or_default()));

    let after = revisions(stage)?;
    for chart in CHARTS {
        let expected = before[chart] + u32::from(chart == CHANGED);
        ensure!(
            after[chart] == expected,
            "{chart} is at revision {}, not {expected}",
            after[chart]
        );
    }
    let started = started
        .context("no helm was seen to start for the push")?
        .duration_since(pushed);
    show::line(format!(
        "\n  sync-git call to helm started: {} ms, to released: {} ms. Only {CHANGED} was upgraded.",
        started.as_millis(),
        live.as_millis()
    ))
}

async fn given_repository(stage: &mut Stage, args: &Args) -> Result<()> {
    let (url, path) = args
        .git
        .as_deref()
        .zip(args.path.as_deref())
        .context("--git needs --path")?;
    let step = Step::start(format!("{path} of {url}"));
    let mut chart = json!({ "git": url, "path": path });
    if let Some(reference) = &args.reference {
        chart["ref"] = json!(reference);
    }
    stage
        .apply("own", &json!({ "chart": chart, "releaseName": "own" }))
        .await?;
    // `Released` is False only once something has really failed.
    let judged = |found: &HelmRelease| {
        found.is_observed()
            && found
                .condition("Released")
                .is_some_and(|one| one.0 != "Unknown")
    };
    let found = stage
        .releases
        .wait("own", "released or refused", judged)
        .await?;
    if let Some((_, reason, message)) = found.condition("Released").filter(|one| one.0 != "True") {
        bail!("{reason}: {message}");
    }
    step.done("released");
    Ok(())
}

fn revisions(stage: &Stage) -> Result<BTreeMap<String, u32>> {
    let mut found = BTreeMap::new();
    for name in stage.names() {
        let history = stage.helm.history(stage.releases.namespace(), name)?;
        found.insert(name.clone(), history.last().map_or(0, |last| last.revision));
    }
    Ok(found)
}

/// Says what changes while the reader plays.
async fn watch(stage: &Stage) -> Result<()> {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    loop {
        for name in stage.names() {
            let Ok(found) = stage.releases.get(name).await else {
                continue;
            };
            let text = |field: &str| found.status(field).as_str().unwrap_or("-").to_owned();
            let message = found
                .condition("Ready")
                .map(|one| one.2.to_owned())
                .unwrap_or_default();
            let now = format!(
                "{} at {}: {message}",
                text("phase"),
                text("revision").get(..10).unwrap_or("-")
            );
            if seen
                .insert(name.clone(), now.clone())
                .is_some_and(|before| before != now)
            {
                show::line(format!("{name}: {now}"))?;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
