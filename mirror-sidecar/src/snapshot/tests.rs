#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::collections::BTreeMap;

use tandem_shared::artifact::Limits;
use tandem_shared::manifest::Reason;
use tandem_shared::request::WantKind;

use super::{Plan, Snapshot, plan};
use crate::testing::{Sidecar, Upstream, chart, good, problem, reason, want};

const CHART: &str = "apiVersion: v2\nname: app\nversion: 0.1.0\n";

/// The content of the chart at `path`.
fn content(upstream: &Upstream, path: &str) -> BTreeMap<String, String> {
    upstream.publish();
    let mut sidecar = Sidecar::new(&upstream.url(), vec![chart("main", path)]);
    let manifest = sidecar.poll();
    sidecar.content(good(&manifest, &format!("main:{path}")))
}

fn refusal(upstream: &Upstream, path: &str) -> (Reason, String) {
    upstream.publish();
    let mut sidecar = Sidecar::new(&upstream.url(), vec![chart("main", path)]);
    let manifest = sidecar.poll();
    let problem = problem(&manifest, &format!("main:{path}"));
    (problem.reason.clone(), problem.message.clone())
}

#[test]
fn every_spelling_of_a_path_is_the_same_chart() {
    let upstream = Upstream::new();
    upstream.write("Chart.yaml", CHART);
    upstream.chart("charts/app", "x");
    upstream.publish();
    let spellings = [
        "charts/app",
        "charts/app/",
        "/charts/app",
        "./charts/app",
        "charts/./app",
        "charts/x/../app",
    ];
    let roots = [".", "/", "./"];
    let mut sidecar = Sidecar::new(
        &upstream.url(),
        spellings
            .iter()
            .chain(&roots)
            .map(|path| chart("main", path))
            .collect(),
    );
    let manifest = sidecar.poll();
    for same in [spellings.as_slice(), roots.as_slice()] {
        let digests: Vec<_> = same
            .iter()
            .map(|path| &good(&manifest, &format!("main:{path}")).artifact)
            .collect();
        assert!(digests.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn links_within_the_repository_become_what_they_lead_to() {
    let upstream = Upstream::new();
    upstream.write("charts/app/Chart.yaml", CHART);
    upstream.write("shared/cm.yaml", "shared");
    upstream.write("shared/deep/x", "deep");
    upstream.link("charts/app/templates/cm.yaml", "../../../shared/cm.yaml");
    upstream.link("charts/app/files", "../../linked");
    upstream.link("linked", "shared/deep");
    upstream.link("charts/current", "app");
    let content = content(&upstream, "charts/current");
    assert_eq!(content["templates/cm.yaml"], "shared");
    assert_eq!(content["files/x"], "deep");
}

#[test]
fn links_that_lead_out_nowhere_or_in_a_circle_are_refused_by_name() {
    for (target, said) in [
        ("/etc/passwd", "out of the repository"),
        ("../../../../etc/passwd", "out of the repository"),
        ("nothing", "where nothing is"),
        ("self", "in a circle"),
        ("../..", "in a circle"),
        (".", "in a circle"),
    ] {
        let upstream = Upstream::new();
        upstream.write("charts/app/Chart.yaml", CHART);
        upstream.link("charts/app/self", target);
        let (reason, message) = refusal(&upstream, "charts/app");
        assert_eq!(reason, Reason::InvalidLink, "{target}: {message}");
        assert!(
            message.contains(said) && message.contains("charts/app/self"),
            "{target}: {message}"
        );
    }
}

#[test]
fn links_that_no_system_would_follow_lead_nowhere() {
    for (target, said) in [
        ("a\0b".to_owned(), "where nothing is"),
        ("x/".repeat(5000), "more than 4096 bytes"),
    ] {
        let upstream = Upstream::new();
        upstream.write("charts/app/Chart.yaml", CHART);
        upstream.git(&["add", "--all"]);
        let link = upstream.object("blob", &target);
        let entry = format!("120000,{link},charts/app/self");
        upstream.git(&["update-index", "--add", "--cacheinfo", &entry]);
        upstream.git(&["commit", "--quiet", "--message", "a link"]);
        upstream.push("HEAD:refs/heads/main");
        let mut sidecar = Sidecar::new(&upstream.url(), vec![chart("main", "charts/app")]);
        let manifest = sidecar.poll();
        let problem = problem(&manifest, "main:charts/app");
        assert_eq!(problem.reason, Reason::InvalidLink);
        assert!(problem.message.contains(said), "{}", problem.message);
    }
    // The same in a dependency's address.
    let upstream = Upstream::new();
    let dependency = "dependencies: [{name: x, version: 1.x, repository: \"file://../y\\0z\"}]\n";
    upstream.write("app/Chart.yaml", &format!("{CHART}{dependency}"));
    let (reason, message) = refusal(&upstream, "app");
    assert_eq!(reason, Reason::InvalidChart);
    assert!(message.contains("control characters"), "{message}");
}

#[test]
fn links_to_links_to_links_have_an_end() {
    let upstream = Upstream::new();
    upstream.write("app/Chart.yaml", CHART);
    upstream.write("app/x/y", "");
    let far = "x/../".repeat(800);
    upstream.link("app/l0", "Chart.yaml");
    for at in 1..30 {
        upstream.link(&format!("app/l{at}"), &format!("{far}l{}", at - 1));
    }
    let (reason, message) = refusal(&upstream, "app");
    assert_eq!(reason, Reason::InvalidLink, "{message}");
    assert!(message.contains("more than 500000 folders"), "{message}");
}

#[test]
fn what_is_no_chart_is_refused_by_name() {
    let upstream = Upstream::new();
    upstream.write("a/values.yaml", "");
    upstream.write("b/chart.yaml", CHART);
    upstream.write("c/Chart.yaml", "name: [");
    upstream.write("d/Chart.yaml", CHART);
    upstream.write(
        "d/files/x.bin",
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    );
    for (path, reason, said) in [
        ("a", Reason::InvalidChart, "no Chart.yaml in"),
        ("b", Reason::InvalidChart, "\"chart.yaml\""),
        ("c", Reason::InvalidChart, "c/Chart.yaml"),
        ("d", Reason::LfsPointer, "d/files/x.bin"),
    ] {
        let (found, message) = refusal(&upstream, path);
        assert_eq!(found, reason, "{path}: {message}");
        assert!(message.contains(said), "{path}: {message}");
    }
}

#[test]
fn a_tree_that_is_too_large_is_refused_before_it_is_read() {
    let upstream = Upstream::new();
    upstream.write("a/Chart.yaml", CHART);
    upstream.write("a/blob", &"x".repeat(3000));
    upstream.write("b/Chart.yaml", CHART);
    for file in 0..20 {
        upstream.write(&format!("b/{file}"), "x");
    }
    upstream.publish();
    let wants = vec![chart("main", "a"), chart("main", "b")];
    let mut sidecar = Sidecar::with_arguments(
        &upstream.url(),
        wants,
        &["--max-chart-bytes", "2000", "--max-chart-files", "10"],
    );
    let manifest = sidecar.poll();
    assert_eq!(reason(&manifest, "main:a"), Reason::TooLarge);
    assert!(problem(&manifest, "main:a").message.contains("a/blob"));
    assert_eq!(reason(&manifest, "main:b"), Reason::TooLarge);
}

#[test]
fn siblings_are_copied_depth_first() {
    let upstream = Upstream::new();
    upstream.write("charts/umb/Chart.yaml", "apiVersion: v2\nname: umb\nversion: 0.1.0\ndependencies:\n- {name: lib, version: ^0.1.0, repository: file://../lib}\n");
    upstream.write("charts/umb/charts/lib-0.0.9.tgz", "old");
    upstream.write("charts/umb/charts/lib/stale", "old");
    upstream.write(
        "charts/lib/Chart.yaml",
        "apiVersion: v1\nname: lib\nversion: 0.1.0\n",
    );
    upstream.write(
        "charts/lib/requirements.yaml",
        "dependencies:\n- {name: base, version: 0.1.x, repository: 'file://../base/'}\n",
    );
    upstream.chart("charts/base", "base");
    // Packed, a chart below another loses what its own file names.
    upstream.write("charts/base/.helmignore", "*.md\n.helmignore\n");
    upstream.write("charts/base/README.md", "x");
    upstream.publish();
    let mut sidecar = Sidecar::new(&upstream.url(), vec![chart("main", "charts/umb")]);
    let before = sidecar.poll();
    let first = good(&before, "main:charts/umb");
    let content = sidecar.content(first);
    let files: Vec<&str> = content.keys().map(String::as_str).collect();
    assert_eq!(
        files,
        [
            "Chart.yaml",
            "charts/lib/Chart.yaml",
            "charts/lib/charts/base/Chart.yaml",
            "charts/lib/charts/base/templates/cm.yaml",
            "charts/lib/requirements.yaml"
        ]
    );
    assert_eq!(first.resolved[0].version, "0.1.0");
    // A change far below is a change of the chart.
    upstream.chart("charts/base", "changed");
    upstream.publish();
    let after = sidecar.poll();
    assert_ne!(good(&after, "main:charts/umb").artifact, first.artifact);
}

#[test]
fn dependencies_that_can_not_be_had_are_refused_by_name() {
    let upstream = Upstream::new();
    let umbrella = |dependency: &str| {
        upstream.write(
            "umb/Chart.yaml",
            &format!("apiVersion: v2\nname: umb\nversion: 0.1.0\ndependencies:\n- {dependency}\n"),
        );
    };
    upstream.chart("lib", "x");
    for (dependency, said) in [
        (
            "{name: lib, version: ^1, repository: file://../lib}",
            "has version 0.1.0",
        ),
        (
            "{name: other, version: '*', repository: file://../lib}",
            "is called \"lib\"",
        ),
        (
            "{name: lib, version: '*', repository: file://../gone}",
            "gone",
        ),
        (
            "{name: lib, version: '*', repository: file:///etc}",
            "no path from the chart's folder",
        ),
        (
            "{name: lib, version: '*', repository: file://../../..}",
            "out of the repository",
        ),
        (
            "{name: umb, version: '*', repository: file://.}",
            "depends on the chart that depends on it",
        ),
        (
            "{name: lib, version: '*', repository: 's3://me:secret@charts.test'}",
            "s3://charts.test: repositories at s3:// aren't asked",
        ),
        ("{name: lib, version: '*'}", "isn't in charts/"),
    ] {
        umbrella(dependency);
        let (reason, message) = refusal(&upstream, "umb");
        assert_eq!(reason, Reason::DependencyFailed, "{dependency}: {message}");
        assert!(
            message.contains(said) && !message.contains("secret"),
            "{dependency}: {message}"
        );
    }
    umbrella("{name: ../x, version: '*'}");
    assert_eq!(refusal(&upstream, "umb").0, Reason::InvalidChart);
    // What lies in charts/ is taken as it is, and nothing is asked of whom it isn't wanted of.
    umbrella("{name: lib, version: '*', repository: https://charts.test}");
    upstream.write("umb/charts/lib-1.0.0.tgz", "packed");
    assert_eq!(content(&upstream, "umb")["charts/lib-1.0.0.tgz"], "packed");
    upstream.git(&["rm", "--quiet", "--cached", "umb/charts/lib-1.0.0.tgz"]);
    std::fs::remove_dir_all(upstream.bare().with_file_name("work").join("umb/charts")).unwrap();
    upstream.publish();
    let mut skipping = chart("main", "umb");
    skipping.spec.skip_dependencies = true;
    let mut sidecar = Sidecar::new(&upstream.url(), vec![skipping]);
    good(&sidecar.poll(), "main:umb");
}

/// What goes into the chart at `path` of what is committed last.
fn planned(upstream: &Upstream, path: &str) -> Plan {
    let commit = upstream.publish();
    let repository = git2::Repository::open_bare(upstream.bare()).unwrap();
    let commit = git2::Oid::from_str(&commit).unwrap();
    let snapshot = Snapshot::of(&repository, commit).unwrap();
    plan(&snapshot, &chart("main", path).spec, Limits::default()).unwrap()
}

#[test]
fn what_has_to_be_downloaded_is_told_with_its_lock_for_every_chart() {
    let upstream = Upstream::new();
    upstream.write("umb/Chart.yaml", "apiVersion: v2\nname: umb\nversion: 0.1.0\ndependencies:\n- {name: sib, version: '*', repository: 'file://../sib'}\n- {name: lib, version: ^1, repository: 'https://h/charts', alias: one}\n- {name: lib, version: ^1, repository: 'https://h/charts', alias: two, condition: two.on}\n");
    upstream.write("umb/Chart.lock", "dependencies:\n- {name: lib, version: 1.2.0, repository: 'https://h/charts/'}\ndigest: x\n");
    upstream.write(
        "sib/Chart.yaml",
        "apiVersion: v1\nname: sib\nversion: 0.1.0\n",
    );
    upstream.write(
        "sib/requirements.yaml",
        "dependencies:\n- {name: base, version: 2.x, repository: 'oci://h/charts'}\n",
    );
    let lock = |version: &str| {
        let text = format!(
            "dependencies:\n- {{name: base, version: {version}, repository: 'oci://h/charts'}}\n"
        );
        upstream.write("sib/requirements.lock", &text);
    };
    lock("2.0.1");
    let before = planned(&upstream, "umb");
    let told: Vec<_> = before
        .remote
        .iter()
        .map(|one| {
            (
                one.below.as_str(),
                one.chart.as_str(),
                one.name.as_str(),
                one.wanted(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("", "umb", "lib", "1.2.0"),
            ("charts/sib/", "sib", "base", "2.0.1")
        ]
    );
    // A lock that no longer fits is passed over.
    lock("3.0.0");
    let after = planned(&upstream, "umb");
    assert_eq!(after.remote[1].wanted(), "2.x");
    assert_ne!(after.inputs(), before.inputs());
}

#[test]
fn what_lies_in_charts_stays_while_it_fits() {
    let upstream = Upstream::new();
    let umbrella = |versions: &[&str]| {
        let mut text = "apiVersion: v2\nname: umb\nversion: 0.1.0\ndependencies:\n".to_owned();
        for version in versions {
            text += &format!("- {{name: lib, version: {version}, repository: 'https://h'}}\n");
        }
        upstream.write("umb/Chart.yaml", &text);
    };
    upstream.write("umb/charts/lib-1.0.0.tgz", "packed");
    upstream.write(
        "umb/charts/any/Chart.yaml",
        "apiVersion: v2\nname: lib\nversion: 2.0.0\n",
    );
    upstream.write("umb/charts/any/values.yaml", "a: 1\n");
    let names = |versions: &[&str]| {
        umbrella(versions);
        let plan = planned(&upstream, "umb");
        let files: Vec<String> = plan
            .files
            .into_keys()
            .filter(|path| path.starts_with("charts/"))
            .collect();
        (plan.remote.len(), files.join(" "))
    };
    let (packed, unpacked) = (
        "charts/lib-1.0.0.tgz",
        "charts/any/Chart.yaml charts/any/values.yaml",
    );
    assert_eq!(names(&["^1"]), (0, format!("{unpacked} {packed}")));
    assert_eq!(names(&["^1", "^2"]), (0, format!("{unpacked} {packed}")));
    // What fits nothing makes room, and nothing else does.
    assert_eq!(names(&["^3"]), (1, String::new()));
    assert_eq!(names(&["^1", "^3"]), (1, packed.to_owned()));
    assert_eq!(names(&["^2", "^3"]), (1, unpacked.to_owned()));
}

#[test]
fn what_a_chart_leaves_out_of_itself_is_not_left_out_of_its_dependencies() {
    let upstream = Upstream::new();
    upstream.write("umb/Chart.yaml", "apiVersion: v2\nname: umb\nversion: 0.1.0\ndependencies:\n- {name: lib, version: '*', repository: 'file://../lib'}\n");
    upstream.write("umb/.helmignore", "files/\n");
    upstream.write("umb/files/own", "left out");
    upstream.chart("lib", "x");
    upstream.write("lib/files/its", "kept");
    let content = content(&upstream, "umb");
    assert_eq!(content["charts/lib/files/its"], "kept");
    // Helm would apply it to everything below the chart.
    assert!(!content.contains_key("files/own") && !content.contains_key(".helmignore"));
}

#[test]
fn siblings_of_one_name_lie_beside_each_other() {
    let upstream = Upstream::new();
    let on = |first: &str, second: &str| {
        let entry = |path: &str, alias: &str| {
            format!(
                "- {{name: lib, version: '*', repository: 'file://../{path}', alias: {alias}}}\n"
            )
        };
        let dependencies = entry(first, "one") + &entry(second, "two");
        upstream.write(
            "umb/Chart.yaml",
            &format!("apiVersion: v2\nname: umb\nversion: 0.1.0\ndependencies:\n{dependencies}"),
        );
    };
    for (path, version) in [("lib1", "1.0.0"), ("lib2", "2.0.0"), ("same", "2.0.0")] {
        upstream.write(
            &format!("{path}/Chart.yaml"),
            &format!("apiVersion: v2\nname: lib\nversion: {version}\n"),
        );
        upstream.write(&format!("{path}/files/of-{path}"), path);
    }
    // Something vendored, which is of use to nobody.
    upstream.write(
        "umb/charts/lib/Chart.yaml",
        "apiVersion: v2\nname: lib\nversion: 1.0.0\n",
    );
    let folders = || {
        let content = content(&upstream, "umb");
        let files = content.keys().filter(|path| path.contains("/of-"));
        let files: Vec<&str> = files.map(String::as_str).collect();
        files.join(" ")
    };
    on("lib1", "lib2");
    assert_eq!(
        folders(),
        "charts/lib-1.0.0/files/of-lib1 charts/lib-2.0.0/files/of-lib2"
    );
    // Of one version there is one, as with helm.
    on("lib2", "same");
    assert_eq!(folders(), "charts/lib/files/of-same");
    // What is vendored for another of that name stays, however many are put in.
    let vendored = "- {name: lib, version: ^1, alias: one}\n";
    let sibling = |path: &str| {
        format!("- {{name: lib, version: ^2, repository: 'file://../{path}', alias: {path}}}\n")
    };
    for (siblings, last) in [
        (sibling("lib2"), "lib2"),
        (sibling("lib2") + &sibling("same"), "same"),
    ] {
        upstream.write(
            "umb/Chart.yaml",
            &format!(
                "apiVersion: v2\nname: umb\nversion: 0.1.0\ndependencies:\n{vendored}{siblings}"
            ),
        );
        let content = content(&upstream, "umb");
        assert_eq!(content[&format!("charts/lib-2.0.0/files/of-{last}")], last);
        assert!(content["charts/lib/Chart.yaml"].contains("1.0.0"));
    }
}

#[test]
fn what_lies_in_charts_is_known_by_what_is_in_it() {
    let upstream = Upstream::new();
    let pack = |file: &str, name: &str| {
        upstream.chart(&format!("packed/{name}"), "x");
        let tree = upstream.bare().with_file_name("work/packed");
        let archive = upstream.bare().with_file_name("work/umb/charts").join(file);
        let packed = std::process::Command::new("tar")
            .arg("-czf")
            .arg(archive)
            .arg("-C")
            .arg(tree)
            .arg(name)
            .status();
        assert!(packed.unwrap().success());
    };
    upstream.write("umb/Chart.yaml", "apiVersion: v2\nname: umb\nversion: 0.1.0\ndependencies:\n- {name: lib, version: 0.x}\n- {name: other, version: 0.x, repository: 'https://h'}\n");
    upstream.write("umb/charts/broken.tgz", "no archive");
    pack("a.tgz", "lib");
    pack("other.tgz", "other");
    let plan = planned(&upstream, "umb");
    assert_eq!(plan.remote, []);
    assert!(plan.files.contains_key("charts/a.tgz"));
}

#[test]
fn requirements_take_the_place_of_what_any_chart_says() {
    let upstream = Upstream::new();
    upstream.write("umb/Chart.yaml", "apiVersion: v2\nname: umb\nversion: 0.1.0\ndependencies:\n- {name: gone, version: '*', repository: 'file://../gone'}\n");
    upstream.write(
        "umb/requirements.yaml",
        "dependencies:\n- {name: lib, version: '*', repository: 'file://../lib'}\n",
    );
    upstream.chart("lib", "x");
    let content = content(&upstream, "umb");
    assert_eq!(content["charts/lib/templates/cm.yaml"], "x");
}

#[test]
fn submodules_attributes_and_modes_are_passed_over() {
    let upstream = Upstream::new();
    let commit = {
        upstream.write("app/Chart.yaml", CHART);
        upstream.commit()
    };
    upstream.write(
        "app/.gitattributes",
        "x export-ignore\n*.txt eol=crlf ident\n",
    );
    upstream.write("app/x", "$Id$");
    upstream.write("app/t.txt", "$Id$\n");
    upstream.git(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("160000,{commit},app/sub"),
    ]);
    let content = content(&upstream, "app");
    assert_eq!(
        (content["x"].as_str(), content["t.txt"].as_str()),
        ("$Id$", "$Id$\n")
    );
    assert!(!content.contains_key("sub"));
}

#[test]
fn trees_that_would_never_end_are_refused() {
    let upstream = Upstream::new();
    // Each folder leads twice to the next one: 2^30 files, and no circle.
    upstream.write("bomb/Chart.yaml", CHART);
    for level in 0..30 {
        for link in ["a", "b"] {
            upstream.link(
                &format!("level/{level}/{link}"),
                &format!("../{}", level + 1),
            );
        }
    }
    upstream.write("level/30/x", "x");
    upstream.link("bomb/files", "../level/0");
    // Each chart depends twice on the next one.
    for level in 0..12 {
        let next = level + 1;
        let dependency = |folder: &str| {
            format!("- {{name: c{next}, version: '*', repository: 'file://../{folder}{next}'}}\n")
        };
        upstream.write(
            &format!("c{level}/Chart.yaml"),
            &format!(
                "apiVersion: v2\nname: c{level}\nversion: 0.1.0\ndependencies:\n{}{}",
                dependency("c"),
                dependency("./c")
            ),
        );
    }
    upstream.write(
        "c12/Chart.yaml",
        "apiVersion: v2\nname: c12\nversion: 0.1.0\n",
    );
    // Deeper than any path may be.
    upstream.write("deep/Chart.yaml", CHART);
    upstream.write(&format!("deep/{}x", "d/".repeat(600)), "x");
    assert_eq!(refusal(&upstream, "bomb").0, Reason::TooLarge);
    let (found, message) = refusal(&upstream, "c0");
    assert_eq!(found, Reason::DependencyFailed, "{message}");
    assert!(
        message.contains("charts would have to be copied"),
        "{message}"
    );
    assert_eq!(refusal(&upstream, "deep").0, Reason::InvalidPath);
}

#[test]
fn a_change_elsewhere_exports_nothing() {
    let upstream = Upstream::new();
    upstream.chart("app", "x");
    upstream.publish();
    let mut sidecar = Sidecar::new(
        &upstream.url(),
        vec![
            chart("main", "app"),
            want(WantKind::File, Some("main"), "app/templates/cm.yaml"),
        ],
    );
    let before = sidecar.poll();
    upstream.write("elsewhere", "y");
    upstream.publish();
    let after = sidecar.poll();
    assert_eq!(after.results, before.results);
    let text = sidecar.context.metrics.text().unwrap();
    assert!(
        text.contains("artifacts_total{outcome=\"written\"} 2"),
        "{text}"
    );
    assert!(
        text.contains("artifacts_total{outcome=\"unchanged\"} 2"),
        "{text}"
    );
}
