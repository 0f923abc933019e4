#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Parser;
use tandem_shared::layout::Volume;
use tandem_shared::manifest::{Manifest, SourceState};
use tandem_shared::observe;
use tandem_shared::publish::{self, Audience};
use tandem_shared::request::{Request, Want};
use tandem_shared::source::{Source, SourceKind};
use tandem_shared::version::Document;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::args::Args;
use crate::config::Config;
use crate::testing::{Upstream, chart, want};

/// Longer than anything takes that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running sidecar.
struct Running {
    volume: Volume,
    end: Option<oneshot::Sender<()>>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Running {
    fn start(root: &Path, arguments: &[&str]) -> Self {
        let volume = Volume::at(root);
        publish::folder(&volume.wanted.requests(), Audience::Group).unwrap();
        let fixed = [
            "mirror-sidecar",
            "--volume",
            root.to_str().unwrap(),
            "--listen",
            "127.0.0.1:0",
            "--lock-wait",
            "0",
        ];
        let config = Config::try_from(Args::parse_from(fixed.iter().chain(arguments))).unwrap();
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(crate::run(config, async { ended.await.unwrap_or(()) }));
        Self {
            volume,
            end: Some(end),
            task,
        }
    }

    fn ask(&self, url: &str, wants: Vec<Want>) -> Source {
        let source = Source {
            kind: SourceKind::Git,
            url: url.to_owned(),
            credential: None,
        };
        let request = Request {
            schema: Request::current_schema(),
            source: source.clone(),
            owner: String::new(),
            credential_id: None,
            interval_seconds: 3600,
            timeout_seconds: 30,
            refresh: String::new(),
            wants,
        };
        publish::json(&self.volume.wanted.request(&source.name()), &request).unwrap();
        source
    }

    fn manifest(&self, source: &Source) -> Option<Manifest> {
        observe::manifest(&self.volume.served.manifest(&source.name()), source)
            .ok()
            .map(|observed| observed.document)
    }

    async fn until(&self, what: &str, fits: impl Fn() -> bool) {
        let begun = Instant::now();
        while !fits() {
            assert!(begun.elapsed() < PATIENCE, "never: {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn until_served(&self, source: &Source, key: &str) -> Manifest {
        let good = |manifest: Manifest| {
            manifest
                .results
                .get(key)
                .is_some_and(|result| result.good.is_some())
        };
        self.until("served", || self.manifest(source).is_some_and(good))
            .await;
        self.manifest(source).unwrap()
    }

    async fn end(mut self) {
        self.end.take().unwrap().send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_comes_and_what_is_not_goes_after_the_grace() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let folder = tempfile::tempdir().unwrap();
    // The rescan is too rare to help: what happens, happens by hints.
    let sidecar = Running::start(
        folder.path(),
        &["--grace", "600ms", "--rescan-interval", "1h"],
    );
    sidecar
        .until("started", || sidecar.volume.served.contract().exists())
        .await;
    let source = sidecar.ask(&upstream.url(), vec![chart("main", "c")]);
    let manifest = sidecar.until_served(&source, "main:c").await;
    let artifact = sidecar
        .volume
        .served
        .artifact(&manifest.results["main:c"].good.as_ref().unwrap().artifact);
    sidecar.ask(
        &upstream.url(),
        vec![want(
            tandem_shared::request::WantKind::File,
            Some("main"),
            "c/Chart.yaml",
        )],
    );
    sidecar.until_served(&source, "main:c/Chart.yaml").await;
    // Nothing names it any more.
    sidecar
        .until("the chart's artifact gone", || !artifact.exists())
        .await;
    publish::remove(&sidecar.volume.wanted.request(&source.name())).unwrap();
    let served = &sidecar.volume.served;
    sidecar
        .until("everything gone", || {
            let left = crate::janitor::survey(served);
            left.sources.is_empty() && left.artifacts.is_empty()
        })
        .await;
    // And all of it comes back when it is asked for again.
    sidecar.ask(&upstream.url(), vec![chart("main", "c")]);
    sidecar.until_served(&source, "main:c").await;
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_returns_within_the_grace_finds_everything() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let folder = tempfile::tempdir().unwrap();
    let sidecar = Running::start(folder.path(), &[]);
    let source = sidecar.ask(&upstream.url(), vec![chart("main", "c")]);
    let before = sidecar.until_served(&source, "main:c").await;
    sidecar
        .until("ready", || {
            sidecar
                .manifest(&source)
                .is_some_and(|manifest| manifest.state == SourceState::Ready)
        })
        .await;
    publish::remove(&sidecar.volume.wanted.request(&source.name())).unwrap();
    sidecar.end().await;
    // A new process, an empty list, and then the request again.
    let sidecar = Running::start(folder.path(), &[]);
    sidecar.ask(
        &upstream.url(),
        vec![chart("main", "c"), chart("main", ".")],
    );
    sidecar
        .until("looked at", || {
            sidecar
                .manifest(&source)
                .is_some_and(|manifest| manifest.results.contains_key("main:."))
        })
        .await;
    let after = sidecar.manifest(&source).unwrap();
    assert_eq!(
        (after.epoch, &after.results["main:c"]),
        (before.epoch, &before.results["main:c"])
    );
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_delays_nobody() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let folder = tempfile::tempdir().unwrap();
    let sidecar = Running::start(folder.path(), &["--max-concurrent", "2"]);
    // More of them than are worked on at a time.
    let mut hanging = Vec::new();
    for number in 0..5 {
        let url = format!("git://{}/{number}.git", silent.local_addr().unwrap());
        let source = sidecar.ask(&url, vec![chart("main", "c")]);
        hanging.push((source, silent.accept().await.unwrap()));
    }
    let source = sidecar.ask(&upstream.url(), vec![chart("main", "c")]);
    sidecar.until_served(&source, "main:c").await;
    for (source, _connection) in &hanging {
        assert_eq!(
            sidecar.manifest(source).map(|manifest| manifest.state),
            Some(SourceState::Pending)
        );
    }
    // The end doesn't wait for it either: git is asked to end.
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_one_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let sidecar = Running::start(folder.path(), &[]);
    sidecar
        .until("started", || sidecar.volume.served.contract().exists())
        .await;
    let error = Running::start(folder.path(), &[])
        .task
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        error.to_string().contains("another mirror-sidecar lives"),
        "{error}"
    );
    sidecar.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_emptied_by_hand_is_filled_again() {
    let upstream = Upstream::new();
    upstream.chart("c", "one");
    upstream.publish();
    let folder = tempfile::tempdir().unwrap();
    let sidecar = Running::start(folder.path(), &["--rescan-interval", "1s"]);
    let asked = |refresh: &str| {
        let source = sidecar.ask(&upstream.url(), vec![chart("main", "c")]);
        let path = sidecar.volume.wanted.request(&source.name());
        let mut request = observe::request(&path, &source.name()).unwrap().document;
        request.refresh = refresh.to_owned();
        publish::json(&path, &request).unwrap();
        source
    };
    let source = asked("1");
    sidecar.until_served(&source, "main:c").await;
    let served = &sidecar.volume.served;
    for folder in served.folders() {
        if folder != served.root() {
            // The sidecar may be at work in it.
            sidecar
                .until("removed", || publish::remove_folder(&folder).is_ok())
                .await;
        }
    }
    sidecar
        .until("folders", || {
            served.folders().iter().all(|folder| folder.is_dir())
        })
        .await;
    asked("2");
    let manifest = sidecar.until_served(&source, "main:c").await;
    let artifact = &manifest.results["main:c"].good.as_ref().unwrap().artifact;
    sidecar
        .until("the artifact", || served.artifact(artifact).exists())
        .await;
    sidecar.end().await;
}
