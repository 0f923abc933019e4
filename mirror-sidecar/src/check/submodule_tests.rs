//! Submodules, of real repositories.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::fs;

use tandem_shared::manifest::Reason;
use tandem_shared::request::{Want, WantKind};

use crate::testing::{Sidecar, Upstream, chart, good, problem, reason, want};

fn following(mut want: Want) -> Want {
    want.spec.submodules = true;
    want
}

/// Puts submodules into the next commit: path, address, commit.
fn put(upstream: &Upstream, submodules: &[(&str, &str, &str)]) {
    let text: String = submodules
        .iter()
        .map(|(path, url, _)| format!("[submodule \"{path}\"]\n\tpath = {path}\n\turl = {url}\n"))
        .collect();
    upstream.write(".gitmodules", &text);
    upstream.git(&["add", "--all"]);
    for (path, _, commit) in submodules {
        let entry = format!("160000,{commit},{path}");
        upstream.git(&["update-index", "--add", "--cacheinfo", &entry]);
    }
}

/// Commits what is in the index, with nothing else.
fn publish(upstream: &Upstream) -> String {
    upstream.git(&["commit", "--quiet", "--message", "submodules"]);
    upstream.push("HEAD:refs/heads/main");
    upstream.git(&["rev-parse", "HEAD"])
}

fn held(sidecar: &Sidecar) -> BTreeSet<String> {
    let mirror = git2::Repository::open_bare(sidecar.mirror()).unwrap();
    let references = mirror.references().unwrap();
    references
        .map(|one| one.unwrap().peel_to_commit().unwrap().id().to_string())
        .collect()
}

#[test]
fn a_chart_may_lie_in_submodules_within_submodules() {
    let inner = Upstream::new();
    inner.chart("charts/app", "inner one");
    let inner_one = inner.publish();
    let outer = Upstream::new();
    outer.write("x", "x");
    put(&outer, &[("deep", &inner.url(), &inner_one)]);
    let outer_one = publish(&outer);
    let upstream = Upstream::new();
    put(&upstream, &[("sub", &outer.url(), &outer_one)]);
    publish(&upstream);

    let path = "sub/deep/charts/app";
    let mut sidecar = Sidecar::new(
        &upstream.url(),
        vec![
            following(chart("main", path)),
            following(want(
                WantKind::File,
                Some("main"),
                "sub/deep/charts/app/Chart.yaml",
            )),
        ],
    );
    let key = format!("main:{path}");
    let before = sidecar.poll();
    assert_eq!(
        sidecar.content(good(&before, &key))["templates/cm.yaml"],
        "inner one"
    );
    good(&before, "main:sub/deep/charts/app/Chart.yaml");
    let fetches = sidecar.children("fetch");
    assert_eq!(fetches, 3, "each repository is asked once");
    assert_eq!(held(&sidecar).len(), 3);

    // Nothing is fetched again, whatever process comes.
    sidecar.poll();
    sidecar.restart();
    assert_eq!(sidecar.poll(), before);
    assert_eq!(sidecar.children("fetch"), fetches);
    assert_eq!(held(&sidecar).len(), 3);

    // A push into a submodule counts once the commit that names it moves.
    inner.chart("charts/app", "inner two");
    let inner_two = inner.publish();
    assert_eq!(sidecar.poll(), before);
    put(&outer, &[("deep", &inner.url(), &inner_two)]);
    let outer_two = publish(&outer);
    put(&upstream, &[("sub", &outer.url(), &outer_two)]);
    let second = publish(&upstream);
    let after = sidecar.poll();
    assert_eq!(good(&after, &key).commit.as_ref(), Some(&second));
    assert_eq!(
        sidecar.content(good(&after, &key))["templates/cm.yaml"],
        "inner two"
    );
    assert_eq!(
        held(&sidecar),
        [inner_two, outer_two, second.clone()].into(),
        "what was left behind goes"
    );

    // Only the way to it changes: the chart stays what it is.
    outer.write("x", "y");
    outer.git(&["add", "x"]);
    let outer_three = publish(&outer);
    put(&upstream, &[("sub", &outer.url(), &outer_three)]);
    publish(&upstream);
    let third = sidecar.poll();
    assert_eq!(good(&third, &key), good(&after, &key));
    assert!(held(&sidecar).contains(&outer_three));

    // Nobody wants it any more.
    sidecar.request.wants = vec![chart("main", path)];
    assert_eq!(reason(&sidecar.poll(), &key), Reason::PathNotFound);
    assert_eq!(held(&sidecar).len(), 1);
}

#[test]
fn only_what_a_chart_touches_is_fetched() {
    let lib = Upstream::new();
    lib.write("Chart.yaml", "apiVersion: v2\nname: lib\nversion: 1.0.0\n");
    lib.write("templates/lib.yaml", "lib");
    let lib_one = lib.publish();
    let shared = Upstream::new();
    shared.write("cm.yaml", "shared");
    let shared_one = shared.publish();
    let files = Upstream::new();
    files.write("a/b", "files");
    let files_one = files.publish();
    let upstream = Upstream::new();
    upstream.write(
        "app/Chart.yaml",
        "apiVersion: v2\nname: app\nversion: 0.1.0\ndependencies:\n- {name: lib, version: 1.0.0, repository: 'file://../vendor/lib'}\n",
    );
    upstream.link("app/templates/cm.yaml", "../../vendor/shared/cm.yaml");
    put(
        &upstream,
        &[
            ("vendor/lib", &lib.url(), &lib_one),
            ("vendor/shared", &shared.url(), &shared_one),
            ("app/files", &files.url(), &files_one),
            // Nobody has that one.
            (
                "vendor/huge",
                "https://host.invalid/huge.git",
                &"1".repeat(40),
            ),
        ],
    );
    publish(&upstream);
    let mut sidecar = Sidecar::new(&upstream.url(), vec![following(chart("main", "app"))]);
    let manifest = sidecar.poll();
    let content = sidecar.content(good(&manifest, "main:app"));
    for (path, text) in [
        ("charts/lib/templates/lib.yaml", "lib"),
        ("templates/cm.yaml", "shared"),
        ("files/a/b", "files"),
    ] {
        assert_eq!(content[path], text, "{path}");
    }
    assert_eq!(held(&sidecar).len(), 4);

    // Without them: each refusal names the submodule, and says how to have it.
    sidecar.request.wants = vec![
        chart("main", "app"),
        chart("main", "vendor/lib"),
        want(WantKind::File, Some("main"), "vendor/shared/cm.yaml"),
    ];
    let manifest = sidecar.poll();
    for (key, path) in [
        ("main:app", "vendor/shared"),
        ("main:vendor/lib", "vendor/lib"),
        ("main:vendor/shared/cm.yaml", "vendor/shared"),
    ] {
        let problem = problem(&manifest, key);
        assert_eq!(problem.reason, Reason::PathNotFound, "{key}");
        for word in [path, "chart.submodules: true"] {
            assert!(problem.message.contains(word), "{key}: {}", problem.message);
        }
    }
}

#[test]
fn a_submodule_that_can_not_be_had_leaves_what_is_good() {
    let lib = Upstream::new();
    lib.chart("app", "one");
    let one = lib.publish();
    let upstream = Upstream::new();
    put(&upstream, &[("sub", &lib.url(), &one)]);
    publish(&upstream);
    let mut sidecar = Sidecar::new(
        &upstream.url(),
        vec![
            following(chart("main", "sub/app")),
            following(chart("main", "app")),
        ],
    );
    let key = "main:sub/app";
    let before = sidecar.poll();
    good(&before, key);

    let gone = "2".repeat(40);
    let away = format!("file://{}", lib.bare().with_file_name("none.git").display());
    let cases = [
        (lib.url(), gone.as_str(), Reason::RefNotFound, gone.as_str()),
        (away.clone(), &gone, Reason::RepositoryNotFound, &away),
        (
            "https://me:s3cret@host.invalid/x.git?token=s3cret".to_owned(),
            &gone,
            Reason::UnknownHost,
            "https://host.invalid/x.git",
        ),
        ("ext::sh -c id".to_owned(), &gone, Reason::InvalidUrl, "ext"),
        (
            "../../../../../../../../..".to_owned(),
            &gone,
            Reason::InvalidUrl,
            "sub",
        ),
        (
            format!("file://{}/served/mirrors/x.git", sidecar.volume().display()),
            &gone,
            Reason::InvalidUrl,
            "own volume",
        ),
    ];
    for (url, commit, expected, word) in cases {
        put(&upstream, &[("sub", &url, commit)]);
        upstream.chart("app", &url.replace("s3cret", ""));
        upstream.git(&["add", "app"]);
        publish(&upstream);
        let failing = sidecar.poll();
        let problem = problem(&failing, key);
        assert_eq!(problem.reason, expected, "{url}: {}", problem.message);
        for word in [word, "sub"] {
            assert!(problem.message.contains(word), "{url}: {}", problem.message);
        }
        assert!(!problem.message.contains("s3cret"), "{}", problem.message);
        assert_eq!(failing.results[key].good, before.results[key].good);
        assert!(held(&sidecar).contains(&one), "it may be wanted again");
        good(&failing, "main:app");
    }
    // A file that names nobody, and one that nobody can read.
    for text in ["", "[submodule \"x\"]\n\tpath = q\"\n"] {
        upstream.write(".gitmodules", text);
        upstream.git(&["add", ".gitmodules"]);
        publish(&upstream);
        let failing = sidecar.poll();
        let message = &problem(&failing, key).message;
        assert!(message.contains(".gitmodules"), "{message}");
    }
    put(&upstream, &[("sub", &lib.url(), &one)]);
    publish(&upstream);
    assert_eq!(good(&sidecar.poll(), key), good(&before, key));
}

#[test]
fn includes_of_a_gitmodules_are_not_read() {
    let lib = Upstream::new();
    lib.chart("app", "one");
    let one = lib.publish();
    let upstream = Upstream::new();
    let named = upstream.bare().with_file_name("elsewhere");
    let text = format!("[submodule \"sub\"]\n\turl = {}\n", lib.url());
    fs::write(&named, text).unwrap();
    put(&upstream, &[("sub", "x", &one)]);
    let text = format!(
        "[submodule \"sub\"]\n\tpath = sub\n[include]\n\tpath = {}\n",
        named.display()
    );
    upstream.write(".gitmodules", &text);
    upstream.git(&["add", ".gitmodules"]);
    publish(&upstream);
    let mut sidecar = Sidecar::new(&upstream.url(), vec![following(chart("main", "sub/app"))]);
    assert_eq!(reason(&sidecar.poll(), "main:sub/app"), Reason::InvalidUrl);
}

#[test]
fn submodules_without_end_are_refused() {
    let upstream = Upstream::new();
    upstream.chart("app", "one");
    let mut commit = upstream.publish();
    // Each commit of the repository has the one before it as a submodule.
    for _ in 0..10 {
        put(&upstream, &[("sub", &upstream.url(), &commit)]);
        commit = publish(&upstream);
    }
    let path = |depth: usize| format!("{}app", "sub/".repeat(depth));
    let mut sidecar = Sidecar::new(
        &upstream.url(),
        vec![
            following(chart("main", &path(8))),
            following(chart("main", &path(9))),
        ],
    );
    let manifest = sidecar.poll();
    good(&manifest, &format!("main:{}", path(8)));
    let problem = problem(&manifest, &format!("main:{}", path(9)));
    assert_eq!(problem.reason, Reason::TooLarge);
    assert!(problem.message.contains("8 deep"), "{}", problem.message);
}
