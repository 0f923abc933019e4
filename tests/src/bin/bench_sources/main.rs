//! The sidecar beside plain git, on large repositories, in one run.

mod args;
mod big;
mod figures;
mod floor;
mod follow;
mod report;
mod tags;
mod wire;

use anyhow::Result;
use clap::Parser;
use tandem_shared::request::Want;
use tandem_tests::command_line::arguments;
use tandem_tests::git::{HttpServer, Scheme, Upstream, Upstreams};
use tandem_tests::programs;
use tandem_tests::progress::Step;
use tandem_tests::requests::chart;

use args::Args;
use figures::Beside;
use floor::{Floor, ls_remote};
use follow::{Follower, peak};
use report::{Many, Report};
use tags::Tags;
use wire::Wire;

fn main() -> Result<()> {
    let args = Args::parse_from(arguments());
    let report = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(run(&args))?;
    report.print()?;
    args.json.iter().try_for_each(|file| report.save(file))
}

async fn run(args: &Args) -> Result<Report> {
    programs::product()?;
    let upstreams = Upstreams::new()?;
    let step = Step::start("a large repository");
    let large = big::history(&upstreams, "large", args.commits, args.files, args.refs)?;
    step.done("made");
    let many_refs = big::tags(&upstreams, "many-refs", args.many_refs)?;
    let server = HttpServer::start(&upstreams, Scheme::Http)?;
    let wire = Wire::to(server.port())?;
    let bench = Bench {
        args,
        upstreams,
        wire,
    };
    let mut beside = bench.large(&large).await?;
    beside.push(bench.unchanged("unchanged, many refs", &many_refs).await?);
    let (pushed, fresh) = bench.pushes().await?;
    Ok(Report {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        git: many_refs.run(&["version"])?,
        beside,
        pushed,
        fresh,
        many: bench.many().await?,
        tags: bench.tags().await?,
    })
}

struct Bench<'a> {
    args: &'a Args,
    upstreams: Upstreams,
    wire: Wire,
}

fn app() -> Vec<Want> {
    vec![chart("app", "main", "charts/app")]
}

impl Bench<'_> {
    /// First sight of the large repository, the next commit, and an unchanged look.
    async fn large(&self, large: &Upstream) -> Result<Vec<Beside>> {
        let mut follower = Follower::start().await?;
        let (mut first, mut next) = (Vec::new(), Vec::new());
        let step = Step::start("first sights and next commits");
        for round in 0..self.args.rounds {
            let name = format!("large-{round}");
            big::again(&self.upstreams, large, &name)?;
            let floor = Floor::new()?;
            let head = large.head()?;
            let git = floor.fetch(&self.wire, &name)?;
            let ours = follower.look(&self.wire, &name, app(), Some(&head)).await?;
            first.push((ours, git));
            large.write("src/00/00000.txt", format!("round {round}\n"))?;
            let commit = large.push("main", "Change one file")?;
            let git = floor.fetch(&self.wire, &name)?;
            let ours = follower
                .look(&self.wire, &name, app(), Some(&commit))
                .await?;
            next.push((ours, git));
        }
        step.done("taken");
        Ok(vec![
            Beside::of("first sight", &first),
            Beside::of("next commit", &next),
            self.unchanged("unchanged", large).await?,
        ])
    }

    /// Looks at a repository in which nothing changes.
    async fn unchanged(&self, what: &str, upstream: &Upstream) -> Result<Beside> {
        let mut follower = Follower::start().await?;
        let name = upstream.name();
        follower.look(&self.wire, name, app(), None).await?;
        let mut takes = Vec::new();
        for _ in 0..self.args.rounds {
            let git = ls_remote(&self.wire, name)?;
            let mut ours = follower.look(&self.wire, name, app(), None).await?;
            // git keeps nothing of what it was told.
            ours.disk = 0;
            takes.push((ours, git));
        }
        Ok(Beside::of(what, &takes))
    }

    /// The size of a mirror that followed many pushes, and of a fresh one.
    async fn pushes(&self) -> Result<(u64, u64)> {
        let upstream = big::history(&self.upstreams, "pushed", 200, 1_000, 0)?;
        let mut follower = Follower::start().await?;
        let step = Step::start("pushes");
        for push in 0..self.args.pushes {
            upstream.write("charts/app/values.yaml", format!("push: {push}\n"))?;
            upstream.write(
                &format!("src/{:02}/new.txt", push % 100),
                format!("{push}\n"),
            )?;
            let commit = upstream.push("main", "Change two files")?;
            follower
                .look(&self.wire, "pushed", app(), Some(&commit))
                .await?;
        }
        step.done("followed");
        big::again(&self.upstreams, &upstream, "fresh")?;
        follower.look(&self.wire, "fresh", app(), None).await?;
        Ok((
            follower.mirror_bytes(&self.wire, "pushed"),
            follower.mirror_bytes(&self.wire, "fresh"),
        ))
    }

    /// A range over many tags.
    async fn tags(&self) -> Result<Tags> {
        let step = Step::start("many tags");
        let tags = tags::range(self.args.tags, self.args.rounds).await?;
        step.done("looked through");
        Ok(tags)
    }

    /// Many wants of one repository.
    async fn many(&self) -> Result<Many> {
        let args = self.args;
        big::charts(&self.upstreams, "many", args.charts, args.branches)?;
        let mut follower = Follower::start().await?;
        let wants: Vec<Want> = (0..args.wants)
            .map(|number| {
                let path = big::chart_path(number % args.charts);
                // Each chart at other branches the next time round.
                let branch = (number + number / args.charts) % args.branches;
                chart(&format!("want-{number}"), &big::branch_name(branch), &path)
            })
            .collect();
        let empty = peak(&follower.role)?;
        let step = Step::start("many wants");
        let taken = follower
            .look(&self.wire, "many", wants.clone(), None)
            .await?;
        let first = follower.role.metrics().await?;
        follower.look(&self.wire, "many", wants, None).await?;
        let second = follower.role.metrics().await?;
        step.done("served");
        Ok(Many {
            wants: args.wants,
            branches: args.branches,
            charts: args.charts,
            mirrors: follower.mirrors()?,
            first_polls: first.polls() as u64,
            fetches: first.fetches() as u64,
            idle_polls: (second.polls() - first.polls()) as u64,
            seconds: taken.seconds,
            peak: peak(&follower.role)?,
            empty,
        })
    }
}
