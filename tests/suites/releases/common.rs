//! What every test of the pair begins with.

use serde_json::{Value, json};
use tandem_tests::charts;
use tandem_tests::git::Upstream;
use tandem_tests::kubernetes::from_git;
use tandem_tests::world::World;

pub(crate) fn upstream(world: &World, name: &str, marker: &str) -> (Upstream, String) {
    let upstream = world.upstreams.create(name).unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", marker))
        .unwrap();
    let commit = upstream.push("main", "Add app").unwrap();
    (upstream, commit)
}

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

/// A release of another repository, which must go on whatever happens.
pub(crate) struct Neighbour {
    upstream: Upstream,
    pushes: u32,
}

impl Neighbour {
    pub(crate) async fn new(world: &World) -> Self {
        let (upstream, commit) = upstream(world, "neighbour", "one");
        world
            .releases
            .apply("neighbour", &app(&upstream.file_url(), "neighbour"))
            .await
            .unwrap();
        world
            .releases
            .released_from("neighbour", &commit)
            .await
            .unwrap();
        Self {
            upstream,
            pushes: 0,
        }
    }

    pub(crate) async fn goes_on(&mut self, world: &mut World) {
        self.pushes += 1;
        let marker = format!("push {}", self.pushes);
        self.upstream
            .write_all(&charts::config_map("charts/app", &marker))
            .unwrap();
        let commit = self.upstream.push("main", &marker).unwrap();
        world.sync().await.unwrap();
        world
            .releases
            .released_from("neighbour", &commit)
            .await
            .unwrap();
    }
}
