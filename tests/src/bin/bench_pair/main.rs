//! The pair beside a bare loop of helm, on one control plane, in one run.

mod args;
mod bare;
mod converge;
mod measure;
mod report;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tandem_tests::cluster::{Cluster, Options};
use tandem_tests::command_line::arguments;
use tandem_tests::git::{HttpServer, Scheme, Upstreams};
use tandem_tests::helm::Helm;
use tandem_tests::kubernetes::{HelmReleases, install_crd};
use tandem_tests::progress::Step;
use tandem_tests::{charts, programs};

use args::Args;
use report::Report;

fn main() -> Result<()> {
    let args = Args::parse_from(arguments());
    ensure!(
        args.charts <= args.releases,
        "--charts {} is more than --releases {}",
        args.charts,
        args.releases
    );
    let report = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(run(&args))?;
    report.print()?;
    if let Some(file) = &args.json {
        report
            .save(file)
            .with_context(|| format!("{} can't be written", file.display()))?;
    }
    Ok(())
}

async fn run(args: &Args) -> Result<Report> {
    programs::product()?;
    let helm_version = programs::helm()?.version;
    programs::control_plane()?;
    let step = Step::start("control plane");
    let cluster = Cluster::start(Options::default())?;
    step.done("ready");
    let client = cluster.client().await?;
    install_crd(&client).await?;
    let helm = Helm::new(cluster.kubeconfig())?;

    let upstreams = Upstreams::new()?;
    let upstream = upstreams.create("charts")?;
    for chart in 0..args.charts {
        upstream.write_all(&charts::application(&args::chart_path(chart), "first"))?;
    }
    upstream.push("main", "Add the charts")?;
    let server = HttpServer::start(&upstreams, Scheme::Http)?;

    // Once before and once after: whatever else the machine does changes, and
    // a ratio to one loop alone would measure that.
    let namespace = cluster.namespace("bench-before").await?;
    let before = bare::run(args, &helm, &namespace, upstream.work())?;
    let namespace = cluster.namespace("bench-pair").await?;
    let releases = HelmReleases::new(client, &namespace);
    let bench = converge::Bench {
        args,
        cluster: &cluster,
        helm: &helm,
        upstream: &upstream,
        url: server.url("charts"),
        releases,
    };
    let pair = bench.run().await?;
    let namespace = cluster.namespace("bench-after").await?;
    let after = bare::run(args, &helm, &namespace, upstream.work())?;
    Ok(Report::new(
        args,
        helm_version.to_string(),
        [before, after],
        pair,
    ))
}
