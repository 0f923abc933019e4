//! A case's world, its neighbour, and what befalls the two processes.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde_json::{Value, json};
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Upstream};
use tandem_tests::kubernetes::{HelmRelease, HelmReleases, JobEnd, end_jobs, from_git};
use tandem_tests::pair::Extra;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

/// Nothing polls: what happens, happens because something asked for it.
pub(crate) const NEVER: &str = "--git-poll-interval=24h";

/// What becomes of both processes in the middle of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Undisturbed,
    /// Ended by SIGTERM, started again.
    Restarted,
    /// Ended by SIGKILL with all their children, started again.
    Killed,
}

/// A world in which a case is replayed, with an unrelated HelmRelease on another
/// repository that must go on whatever happens.
pub(crate) struct Replay {
    pub(crate) world: World,
    pub(crate) fate: Fate,
    neighbour: Upstream,
    pushes: u32,
    strikes: u32,
}

impl Replay {
    pub(crate) async fn start(case: &str, fate: Fate) -> Self {
        let reconciler = Extra::args([NEVER]);
        Self::with(case, fate, &Extra::default(), &reconciler).await
    }

    /// A world whose sidecar drops at once what nothing asks for any more.
    pub(crate) async fn with_brief_grace(case: &str, fate: Fate) -> Self {
        let sidecar = Extra::args(["--grace=1s", "--rescan-interval=1s"]);
        Self::with(case, fate, &sidecar, &Extra::args([NEVER])).await
    }

    /// A world in which no HelmRelease is looked at again by itself.
    pub(crate) async fn without_resync(case: &str, fate: Fate) -> Self {
        Self::resyncing(case, fate, "24h").await
    }

    /// A world in which every HelmRelease is looked at again and again.
    pub(crate) async fn with_resync(case: &str, fate: Fate) -> Self {
        Self::resyncing(case, fate, "1s").await
    }

    async fn resyncing(case: &str, fate: Fate, every: &str) -> Self {
        let resync = format!("--charts-sync-interval={every}");
        let reconciler = Extra::args([NEVER.to_owned(), resync]);
        Self::with(case, fate, &Extra::default(), &reconciler).await
    }

    /// A world with a pair of the case's own flags.
    pub(crate) async fn with(case: &str, fate: Fate, sidecar: &Extra, reconciler: &Extra) -> Self {
        let mut world = World::empty(&case.replace('_', "-")).await.unwrap();
        world.start_pair(sidecar, reconciler).await.unwrap();
        let neighbour = repository(&world, "neighbour", "push 0");
        world
            .releases
            .apply("neighbour", &app(&neighbour.file_url(), "neighbour"))
            .await
            .unwrap();
        let mut replay = Self {
            world,
            fate,
            neighbour,
            pushes: 0,
            strikes: 0,
        };
        replay.neighbour_goes_on().await;
        replay
    }

    /// In the middle of the case: what its fate is.
    pub(crate) async fn strike(&mut self) {
        self.strike_while(async {}).await;
    }

    /// The same, and `happens` happens while both processes are away.
    pub(crate) async fn strike_while(&mut self, happens: impl Future<Output = ()>) {
        self.strikes += 1;
        match self.fate {
            Fate::Undisturbed => return happens.await,
            Fate::Restarted => {
                self.world.reconciler_mut().unwrap().terminate().unwrap();
                self.world.sidecar_mut().unwrap().terminate().unwrap();
            }
            Fate::Killed => {
                self.world.reconciler_mut().unwrap().kill().unwrap();
                self.world.sidecar_mut().unwrap().kill().unwrap();
            }
        }
        happens.await;
        self.world.sidecar_mut().unwrap().restart().unwrap();
        self.world.reconciler_mut().unwrap().restart().unwrap();
        self.world.sidecar().unwrap().ready().await.unwrap();
        self.world.reconciler().unwrap().ready().await.unwrap();
    }

    /// Its fate in the middle of what a process that is to end still brings to its end, if it
    /// `finishes` in time.
    pub(crate) async fn strike_while_it(&mut self, finishes: impl Future<Output = ()>) {
        match self.fate {
            Fate::Undisturbed | Fate::Killed => {
                self.strike().await;
                finishes.await;
            }
            Fate::Restarted => {
                self.world.reconciler_mut().unwrap().ask_to_end().unwrap();
                finishes.await;
                self.strike().await;
            }
        }
    }

    /// A push to the neighbour is released.
    pub(crate) async fn neighbour_goes_on(&mut self) {
        self.pushes += 1;
        let marker = format!("push {}", self.pushes);
        let commit = push(&self.neighbour, &marker);
        self.world.sync().await.unwrap();
        let released = self.world.releases.released_from("neighbour", &commit);
        released.await.unwrap();
        self.world
            .releases
            .marker("neighbour", &marker)
            .await
            .unwrap();
    }

    /// What is asked of `server` from now on waits for [`Replay::goes_on`].
    pub(crate) fn holds(server: &HttpServer) {
        server.clear();
        server.set(|knobs| knobs.stall = true);
    }

    pub(crate) fn goes_on(server: &HttpServer) {
        server.set(|knobs| knobs.stall = false);
    }

    /// `name` was installed and upgraded in place, `revisions` revisions in all, of which
    /// none failed.
    pub(crate) fn has_revisions(&self, name: &str, revisions: u32) {
        let history = self.world.helm.history(&self.world.namespace, name);
        let history = history.unwrap();
        let found: Vec<_> = history
            .iter()
            .map(|one| (one.revision, one.status.as_str()))
            .collect();
        let expected: Vec<_> = (1..=revisions)
            .map(|one| match one == revisions {
                true => (one, "deployed"),
                false => (one, "superseded"),
            })
            .collect();
        assert_eq!(found, expected, "{name}: {history:?}");
    }

    /// The identity of the release's ConfigMap: another one after an uninstall.
    pub(crate) async fn uid(&self, name: &str) -> String {
        let maps: Api<ConfigMap> =
            Api::namespaced(self.world.client.clone(), &self.world.namespace);
        maps.get(name).await.unwrap().metadata.uid.unwrap()
    }

    /// What holds at the end of every case: it was disturbed if it was to be, and the
    /// neighbour goes on, by an upgrade for each push and none besides.
    pub(crate) async fn ends_well(mut self) {
        assert!(self.strikes > 0, "nothing befell this case in its middle");
        self.neighbour_goes_on().await;
        let history = self
            .world
            .helm
            .history(&self.world.namespace, "neighbour")
            .unwrap();
        let last = history.last().unwrap();
        assert_eq!(last.status, "deployed", "{history:?}");
        assert!(last.revision <= self.pushes + 1, "{history:?}");
    }
}

/// A repository with the chart `charts/app` on main.
pub(crate) fn repository(world: &World, name: &str, marker: &str) -> Upstream {
    let upstream = world.upstreams.create(name).unwrap();
    push(&upstream, marker);
    upstream
}

/// Changes the chart's marker on main; gives the commit.
pub(crate) fn push(upstream: &Upstream, marker: &str) -> String {
    upstream
        .write_all(&charts::config_map("charts/app", marker))
        .unwrap();
    upstream
        .push("main", &format!("Change app to {marker}"))
        .unwrap()
}

/// A HelmRelease of `charts/app` on main whose release bears its own name.
pub(crate) fn app(url: &str, name: &str) -> Value {
    let mut spec = from_git(url, "main", "charts/app");
    spec["releaseName"] = json!(name);
    spec
}

impl Replay {
    /// `name` is released from `commit` and shows `marker`.
    pub(crate) async fn live(&self, name: &str, commit: &str, marker: &str) -> HelmRelease {
        let releases = &self.world.releases;
        let found = releases.released_from(name, commit).await.unwrap();
        self.live_marker(name, marker).await;
        found
    }

    /// `name` shows `marker`.
    pub(crate) async fn live_marker(&self, name: &str, marker: &str) {
        self.world.releases.marker(name, marker).await.unwrap();
    }

    /// The state of every revision of a release, from the first one on.
    pub(crate) fn states(&self, release: &str) -> Vec<String> {
        let world = &self.world;
        world.helm.states(&world.namespace, release).unwrap()
    }

    /// How often the reconciler, since its last start, did this to a release.
    pub(crate) async fn did(&self, action: &str, release: &str) -> f64 {
        let metrics = self.world.reconciler().unwrap().metrics().await;
        metrics.unwrap().actions(action, release)
    }

    /// The reconciler has looked at these releases since its last start, and found nothing
    /// to do.
    pub(crate) async fn lets_alone(&self, names: &[&str]) {
        for name in names {
            until(format!("a look at {name}"), LONG, || async {
                let looks = self.did("sync", name).await;
                Ok(Look::when(looks > 0.0, looks))
            })
            .await
            .unwrap();
        }
        let metrics = self.world.reconciler().unwrap().metrics().await.unwrap();
        for name in names.iter().filter(|_| self.fate != Fate::Undisturbed) {
            for action in ["install", "upgrade", "rollback", "uninstall", "mark"] {
                assert_eq!(metrics.actions(action, name), 0.0, "{action} of {name}");
            }
        }
    }

    /// Ends Jobs by their names, as a node would, until the HelmRelease is so.
    pub(crate) async fn end_jobs(
        &self,
        how: impl Fn(&str) -> Option<JobEnd>,
        name: &str,
        holds: impl Fn(&HelmRelease) -> bool,
    ) {
        end_jobs_of(&self.world.client, &self.world.releases, how, name, holds).await;
    }
}

/// As [`Replay::end_jobs`].
pub(crate) async fn end_jobs_of(
    client: &Client,
    releases: &HelmReleases,
    how: impl Fn(&str) -> Option<JobEnd>,
    name: &str,
    holds: impl Fn(&HelmRelease) -> bool,
) {
    let enough = || async { Ok(holds(&releases.get(name).await?)) };
    end_jobs(client, releases.namespace(), how, enough)
        .await
        .unwrap();
}
