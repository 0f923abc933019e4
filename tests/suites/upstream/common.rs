//! What the cases have in common.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tandem_tests::charts;
use tandem_tests::git::Upstream;
use tandem_tests::kubernetes::from_git;
use tandem_tests::world::World;

/// A repository with the chart `charts/app`, and the commit that added it.
pub(crate) fn upstream(world: &World) -> (Upstream, String) {
    let upstream = world.upstreams.create("charts").unwrap();
    upstream
        .write_all(&charts::application("charts/app", "one"))
        .unwrap();
    let commit = upstream.push("main", "Add app").unwrap();
    (upstream, commit)
}

/// A HelmRelease of `charts/app` on main, whose release is named `name`.
pub(crate) fn app(upstream: &Upstream, name: &str) -> Value {
    let mut spec = from_git(&upstream.file_url(), "main", "charts/app");
    spec["releaseName"] = json!(name);
    spec
}

/// Tells how often helm was run, and asserts that it was no more than that.
#[allow(clippy::print_stdout)] // Shown with --nocapture.
pub(crate) async fn ran(world: &World, wanted: &[(&str, f64)]) {
    let metrics = world.reconciler().unwrap().metrics().await.unwrap();
    let runs = metrics.helm_runs();
    println!("{}: helm was run for {runs:?}", world.namespace);
    assert_eq!(runs, BTreeMap::from_iter(wanted.iter().copied()));
}

/// The state of every revision of `web`, from the first one on.
pub(crate) fn states(world: &World) -> Vec<String> {
    world.helm.states(&world.namespace, "web").unwrap()
}
