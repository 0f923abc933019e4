//! Dependencies that have to be downloaded, from real repositories by the real helm.

use std::process::Command;

use tandem_shared::manifest::{Good, Manifest, Reason};
use tandem_shared::request::{Request, Resolution};
use tandem_shared::source::Source;
use tandem_tests::charts::Files;
use tandem_tests::git::{HttpServer, Scheme, Upstream, Upstreams};
use tandem_tests::helm_repository::HelmRepository;
use tandem_tests::pair::Extra;
use tandem_tests::requests::{chart, content, git, good, manifest, problem, request};
use tandem_tests::volume::Volume;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::{charts, guard, programs};

use crate::common::start;

/// Started with the real helm, trusting this authority alone.
pub(crate) fn extra(server: &HttpServer) -> Extra {
    let helm = programs::helm().unwrap().program;
    Extra::args([format!("--helm={}", helm.display())])
        .env("SSL_CERT_FILE", server.authority().display().to_string())
        .env("SSL_CERT_DIR", "")
        .env("GIT_SSL_CAINFO", "")
        .env("GIT_SSL_CAPATH", "")
}

/// A chart in git that depends on others.
pub(crate) fn umbrella(path: &str, dependencies: &str, marker: &str) -> Files {
    let mut files = charts::config_map(path, marker);
    files[0].1 += &format!("dependencies:\n{dependencies}");
    files
}

fn library(marker: &str) -> Files {
    charts::config_map("lib", marker)
}

struct Scene {
    upstreams: Upstreams,
    upstream: Upstream,
    server: HttpServer,
}

impl Scene {
    fn new() -> Self {
        let upstreams = Upstreams::new().unwrap();
        let upstream = upstreams.create("charts").unwrap();
        let server = HttpServer::start(&upstreams, Scheme::Https).unwrap();
        Self {
            upstreams,
            upstream,
            server,
        }
    }

    fn push(&self, files: &[Files]) -> String {
        for files in files {
            self.upstream.write_all(files).unwrap();
        }
        self.upstream.push("main", "A change").unwrap()
    }

    fn source(&self) -> Source {
        git(&self.upstream.file_url())
    }
}

/// Asks for a look at the remote, and waits for its whole answer.
pub(crate) async fn look(volume: &Volume, asked: &mut Request, token: &str) -> Manifest {
    asked.refresh = token.to_owned();
    volume.ask(asked).unwrap();
    manifest(volume, &asked.source, token, |one| {
        one.handled_refresh == token
    })
    .await
    .unwrap()
}

pub(crate) fn of<'a>(manifest: &'a Manifest, key: &str) -> &'a Good {
    manifest.results[key].good.as_ref().unwrap()
}

pub(crate) fn versions(good: &Good) -> Vec<&str> {
    let versions = good.resolved.iter().map(|one| one.version.as_str());
    versions.collect()
}

/// Waits until nothing is left of any work on dependencies.
pub(crate) async fn nothing_staged(volume: &Volume) {
    until("an empty staging folder", LONG, || async {
        let left = std::fs::read_dir(volume.layout().served.staging())?.count();
        Ok(Look::when(left == 0, left))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn one_download_serves_many_and_stays_what_it_was_until_the_chart_changes() {
    let scene = Scene::new();
    let repository = HelmRepository::new(&scene.server, "stable").unwrap();
    repository
        .publish_files("lib", "1.0.0", &library("one"))
        .unwrap();
    let on_lib = format!(
        "- {{name: lib, version: ^1.0.0, repository: {}}}\n",
        repository.url()
    );
    let first = scene.push(&[umbrella("a", &on_lib, "one"), umbrella("b", &on_lib, "one")]);
    let (volume, mut role) = start(&extra(&scene.server)).await;
    let source = scene.source();
    let mut asked = request(&source, [chart("a", "main", "a"), chart("b", "main", "b")]);
    let before = look(&volume, &mut asked, "first").await;
    for key in ["a", "b"] {
        let found = of(&before, key);
        assert_eq!(found.commit.as_ref(), Some(&first));
        assert_eq!(versions(found), ["1.0.0"]);
        let files = content(&volume, &found.artifact).unwrap();
        assert!(files["charts/lib/templates/cm.yaml"].contains("one"));
    }
    assert_eq!(repository.downloads("lib", "1.0.0"), 1);
    nothing_staged(&volume).await;

    // A newer one within the range moves nothing: not at polls, not by a restart.
    repository
        .publish_files("lib", "1.1.0", &library("newer"))
        .unwrap();
    for round in 0..10 {
        let now = look(&volume, &mut asked, &format!("idle {round}")).await;
        assert_eq!(now.results, before.results);
    }
    role.terminate().unwrap();
    role.restart().unwrap();
    role.ready().await.unwrap();
    let now = look(&volume, &mut asked, "restarted").await;
    assert_eq!(now.results, before.results);
    assert_eq!(repository.downloads("lib", "1.1.0"), 0);

    // The chart that changes is resolved anew, and it alone.
    let second = scene.push(&[umbrella("a", &on_lib, "two")]);
    let now = look(&volume, &mut asked, "changed").await;
    assert_eq!(of(&now, "a").commit.as_ref(), Some(&second));
    assert_eq!(versions(of(&now, "a")), ["1.1.0"]);
    assert_eq!(of(&now, "b"), of(&before, "b"));

    // A lost volume resolves to what is preferred, with the same artifact.
    let held = of(&now, "b");
    let (fresh, _role) = start(&extra(&scene.server)).await;
    asked.wants.retain(|want| want.key == "b");
    let anew = look(&fresh, &mut asked, "without preference").await;
    assert_eq!(versions(of(&anew, "b")), ["1.1.0"]);
    let (fresh, _role) = start(&extra(&scene.server)).await;
    asked.wants[0].prefer.dependencies = vec![Resolution {
        chart: held.resolved_for.clone().unwrap(),
        dependencies: held.resolved.clone(),
    }];
    let same = look(&fresh, &mut asked, "preferred").await;
    assert_eq!(of(&same, "b").artifact, held.artifact);
    assert_eq!(of(&same, "b").resolved, held.resolved);
}

#[tokio::test]
async fn an_outage_keeps_what_is_good_delays_nobody_and_ends_by_itself() {
    let scene = Scene::new();
    let repository = HelmRepository::new(&scene.server, "stable").unwrap();
    repository
        .publish_files("lib", "1.0.0", &library("one"))
        .unwrap();
    let on_lib = format!(
        "- {{name: lib, version: ^1.0.0, repository: {}}}\n",
        repository.url()
    );
    let app = |marker| umbrella("app", &on_lib, marker);
    scene.push(&[app("one"), charts::config_map("other", "one")]);
    let (volume, _role) = start(&extra(&scene.server)).await;
    let source = scene.source();
    let wants = [chart("app", "main", "app"), chart("other", "main", "other")];
    let mut asked = request(&source, wants);
    let before = look(&volume, &mut asked, "first").await;

    scene.server.set(|knobs| knobs.status = Some(503));
    let second = scene.push(&[app("two"), charts::config_map("other", "two")]);
    asked.refresh = "down".to_owned();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "other", &second).await.unwrap();
    let told = problem(&volume, &source, "app", &Reason::DependencyFailed)
        .await
        .unwrap();
    for word in ["\"lib\"", "^1.0.0", &repository.url(), "503"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    let failing = volume.manifest(&source).unwrap().unwrap();
    assert_eq!(of(&failing, "app"), of(&before, "app"));

    // One that hangs delays nobody either.
    scene.server.set(|knobs| {
        knobs.status = None;
        knobs.stall = true;
    });
    scene.server.stalled().await.unwrap();
    let third = scene.push(&[charts::config_map("other", "three")]);
    asked.refresh = "hangs".to_owned();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "other", &third).await.unwrap();

    // Nobody asks for it again, and nothing is polled for a day.
    scene.server.set(|knobs| knobs.stall = false);
    // It is made of the newest commit that there is by then.
    let found = good(&volume, &source, "app", &third).await.unwrap();
    assert_eq!(versions(&found), ["1.0.0"]);
    nothing_staged(&volume).await;
}

#[tokio::test]
async fn a_killed_sidecar_or_helm_leaves_nothing_behind() {
    let scene = Scene::new();
    let repository = HelmRepository::new(&scene.server, "stable").unwrap();
    repository
        .publish_files("lib", "1.0.0", &library("one"))
        .unwrap();
    let on_lib = format!(
        "- {{name: lib, version: ^1.0.0, repository: {}}}\n",
        repository.url()
    );
    let first = scene.push(&[umbrella("app", &on_lib, "one")]);
    scene
        .server
        .set(|knobs| knobs.stall_only = Some(".tgz".to_owned()));
    let (volume, mut role) = start(&extra(&scene.server)).await;
    let source = scene.source();
    let mut asked = request(&source, [chart("app", "main", "app")]);
    // Enough for helm to come so far that it asks.
    asked.timeout_seconds = 10;
    volume.ask(&asked).unwrap();
    // It is killed by its deadline.
    let told = problem(&volume, &source, "app", &Reason::DependencyFailed)
        .await
        .unwrap();
    assert!(told.contains("wasn't there after 10 s"), "{told}");
    let archives = || {
        let all = scene.server.requests();
        all.iter().filter(|one| one.path.ends_with(".tgz")).count()
    };
    let known = archives();
    assert!(known > 0);
    asked.timeout_seconds = 600;
    asked.refresh = "try now".to_owned();
    volume.ask(&asked).unwrap();
    until("another request", LONG, || async {
        let now = archives();
        Ok(Look::when(now > known, now))
    })
    .await
    .unwrap();
    role.kill_alone().unwrap();
    scene.server.set(|knobs| knobs.stall_only = None);
    role.restart().unwrap();
    role.ready().await.unwrap();
    good(&volume, &source, "app", &first).await.unwrap();
    nothing_staged(&volume).await;
}

#[tokio::test]
async fn an_archive_that_is_not_the_one_is_refused_by_both_digests() {
    let scene = Scene::new();
    let repository = HelmRepository::new(&scene.server, "stable").unwrap();
    repository
        .publish_files("lib", "1.0.0", &library("one"))
        .unwrap();
    let on_lib = format!(
        "- {{name: lib, version: 1.0.0, repository: {}}}\n",
        repository.url()
    );
    let first = scene.push(&[umbrella("app", &on_lib, "one")]);
    let source = scene.source();
    let mut asked = request(&source, [chart("app", "main", "app")]);

    // Not what the index says.
    let listed = "0".repeat(64);
    let lying = |index: String| {
        let lines = index.lines().map(|line| match line.split_once("digest: ") {
            Some((before, _)) => format!("{before}digest: \"{listed}\"\n"),
            None => format!("{line}\n"),
        });
        lines.collect::<String>()
    };
    repository.put("index.yaml", lying(repository.index_text().unwrap()));
    let (volume, _role) = start(&extra(&scene.server)).await;
    volume.ask(&asked).unwrap();
    let told = problem(&volume, &source, "app", &Reason::DependencyFailed)
        .await
        .unwrap();
    assert!(told.contains(&listed), "{told}");
    repository.put("index.yaml", repository.index_text().unwrap());
    asked.wants[0].spec.path = "./app".to_owned();
    volume.ask(&asked).unwrap();
    // A fault that lasts is looked at again at the next poll, or when something changes.
    let second = scene.push(&[umbrella("app", &on_lib, "mended")]);
    let mended = look(&volume, &mut asked, "mended").await;
    assert_eq!(of(&mended, "app").commit.as_ref(), Some(&second));
    assert_ne!(first, second);

    // Not what it was resolved to before a volume was lost.
    repository
        .publish_files("lib", "1.0.0", &library("published again"))
        .unwrap();
    let held = of(&mended, "app").clone();
    let before = held.resolved[0].digest.clone().unwrap();
    asked.wants[0].prefer.dependencies = vec![Resolution {
        chart: held.resolved_for.clone().unwrap(),
        dependencies: held.resolved.clone(),
    }];
    let (fresh, _role) = start(&extra(&scene.server)).await;
    fresh.ask(&asked).unwrap();
    let told = problem(&fresh, &source, "app", &Reason::DependencyFailed)
        .await
        .unwrap();
    assert!(
        told.contains(&before) && told.contains("change the chart"),
        "{told}"
    );
    // A change of the chart is what lets it go.
    let third = scene.push(&[umbrella("app", &on_lib, "three")]);
    let now = look(&fresh, &mut asked, "three").await;
    assert_eq!(of(&now, "app").commit.as_ref(), Some(&third));
    assert_ne!(of(&now, "app").resolved[0].digest, Some(before));
}

/// What helm renders of an artifact.
fn rendered(volume: &Volume, good: &Good, helm: &std::path::Path) -> String {
    let folder = guard::folder("rendered").unwrap();
    for (path, text) in content(volume, &good.artifact).unwrap() {
        guard::write(&folder.join("chart").join(path), &text).unwrap();
    }
    let output = Command::new(helm)
        .args(["template", "r"])
        .arg(folder.join("chart"))
        .env("HOME", &folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn locks_aliases_conditions_and_old_charts_are_what_helm_takes_them_for() {
    both_helms_take_them(&programs::helm().unwrap().program).await;
    both_helms_take_them(&programs::helm3().unwrap().program).await;
}

async fn both_helms_take_them(helm: &std::path::Path) {
    let scene = Scene::new();
    let repository = HelmRepository::new(&scene.server, "stable").unwrap();
    for version in ["1.0.0", "1.1.0", "2.0.0"] {
        let named = |name: &str| {
            let mut files = charts::config_map(name, &format!("{name} {version}"));
            // Two of one name would be one object.
            files.iter_mut().for_each(|(_, text)| {
                *text = text.replace("{{ .Release.Name }}", "{{ .Chart.Name }}");
            });
            files
        };
        repository
            .publish_files("lib", version, &named("lib"))
            .unwrap();
        repository
            .publish_files("spare", version, &named("spare"))
            .unwrap();
    }
    let url = repository.url();
    let dependencies = format!(
        "- {{name: lib, version: 1.x, repository: {url}, alias: one}}\n\
         - {{name: lib, version: 1.x, repository: {url}/, alias: two}}\n\
         - {{name: lib, version: '>=2', repository: {url}}}\n\
         - {{name: spare, version: ^1, repository: {url}, condition: spare.enabled}}\n"
    );
    let mut newer = umbrella("newer", &dependencies, "newer");
    newer[1].1 += "spare: {enabled: false}\n";
    newer.push((
        "newer/Chart.lock".to_owned(),
        format!(
            "dependencies:\n- {{name: lib, version: 1.0.0, repository: {url}}}\ndigest: sha256:x\n"
        ),
    ));
    let mut older = charts::config_map("older", "older");
    older[0].1 = older[0].1.replace("apiVersion: v2", "apiVersion: v1");
    let on = |version: &str| {
        format!("dependencies:\n- {{name: lib, version: {version}, repository: {url}}}\n")
    };
    older.push(("older/requirements.yaml".to_owned(), on("^1")));
    older.push(("older/requirements.lock".to_owned(), on("1.1.0")));
    let first = scene.push(&[newer, older]);
    let mut extra = extra(&scene.server);
    extra.args = vec![format!("--helm={}", helm.display())];
    let (volume, _role) = start(&extra).await;
    let source = scene.source();
    let mut skipping = chart("skipping", "main", "older");
    skipping.spec.skip_dependencies = true;
    let wants = [
        chart("newer", "main", "newer"),
        chart("older", "main", "older"),
        skipping,
    ];
    let mut asked = request(&source, wants);
    let found = look(&volume, &mut asked, "first").await;
    let newer = of(&found, "newer");
    assert_eq!(newer.commit.as_ref(), Some(&first));
    assert_eq!(versions(newer), ["1.0.0", "2.0.0", "1.1.0"]);
    assert_eq!(repository.downloads("lib", "1.0.0"), 1);
    let text = rendered(&volume, newer, helm);
    for (marker, times) in [("lib 1.0.0", 2), ("lib 2.0.0", 1), ("spare 1.1.0", 0)] {
        assert_eq!(text.matches(marker).count(), times, "{marker}: {text}");
    }
    assert_eq!(versions(of(&found, "older")), ["1.1.0"]);
    let text = rendered(&volume, of(&found, "older"), helm);
    assert_eq!(text.matches("lib 1.1.0").count(), 1, "{text}");
    let files = content(&volume, &of(&found, "skipping").artifact).unwrap();
    assert!(!files.keys().any(|path| path.starts_with("charts/")));
}

#[tokio::test]
async fn without_helm_only_what_needs_it_fails_and_no_login_is_shown() {
    let scene = Scene::new();
    let repository = HelmRepository::new(&scene.server, "private").unwrap();
    repository
        .publish_files("lib", "1.0.0", &library("one"))
        .unwrap();
    let login = ("me".to_owned(), "s3cret-word".to_owned());
    let url = repository
        .url()
        .replace("https://", "https://me:s3cret-word@");
    let on_lib = format!("- {{name: lib, version: ^1, repository: '{url}'}}\n");
    let first = scene.push(&[
        umbrella("app", &on_lib, "one"),
        charts::config_map("other", "one"),
    ]);
    scene.server.set(|knobs| knobs.login = Some(login));
    let mut nowhere = extra(&scene.server);
    nowhere.args = vec!["--helm=/nowhere/helm".to_owned()];
    let (volume, mut role) = start(&nowhere).await;
    let source = scene.source();
    let wants = [chart("app", "main", "app"), chart("other", "main", "other")];
    let mut asked = request(&source, wants);
    volume.ask(&asked).unwrap();
    good(&volume, &source, "other", &first).await.unwrap();
    let told = problem(&volume, &source, "app", &Reason::DependencyFailed)
        .await
        .unwrap();
    assert!(
        told.contains("/nowhere/helm") && told.contains("--helm"),
        "{told}"
    );
    role.terminate().unwrap();
    let mut log = role.log();
    let warned = |log: &str| log.contains("aren't served before there is one");
    assert!(warned(&log), "{log}");

    let (volume, role) = start(&extra(&scene.server)).await;
    look(&volume, &mut asked, "in").await;
    let found = good(&volume, &source, "app", &first).await.unwrap();
    assert_eq!(found.resolved[0].repository, repository.url());
    // Refused, it is told without the login.
    scene
        .server
        .set(|knobs| knobs.login = Some(("me".to_owned(), "another".to_owned())));
    scene.push(&[umbrella("app", &on_lib.replace("^1", "1.x"), "two")]);
    asked.refresh = "refused".to_owned();
    volume.ask(&asked).unwrap();
    let told = problem(&volume, &source, "app", &Reason::DependencyFailed)
        .await
        .unwrap();
    assert!(told.contains("401"), "{told}");
    assert!(!warned(&role.log()));
    log += &role.log();
    let served = serde_json::to_string(&volume.manifest(&source).unwrap()).unwrap();
    assert!(
        !log.contains("s3cret") && !served.contains("s3cret"),
        "{log}{served}"
    );
}

#[tokio::test]
async fn archives_that_no_chart_has_go_and_nothing_is_brought_into_a_full_volume() {
    let scene = Scene::new();
    let repository = HelmRepository::new(&scene.server, "stable").unwrap();
    repository
        .publish_files("lib", "1.0.0", &library("one"))
        .unwrap();
    repository
        .publish_files("lib", "1.1.0", &library("two"))
        .unwrap();
    let on = |version: &str| {
        format!(
            "- {{name: lib, version: {version}, repository: {}}}\n",
            repository.url()
        )
    };
    scene.push(&[umbrella("app", &on("1.0.0"), "one")]);
    let mut quick = extra(&scene.server);
    quick.args.push("--grace=1s".to_owned());
    let (volume, _role) = start(&quick).await;
    let source = scene.source();
    let mut asked = request(&source, [chart("app", "main", "app")]);
    let before = look(&volume, &mut asked, "first").await;
    let archive = |manifest: &Manifest| {
        let digest = of(manifest, "app").resolved[0].digest.clone().unwrap();
        volume.layout().served.archive(&digest)
    };
    assert!(archive(&before).exists());
    scene.push(&[umbrella("app", &on("1.1.0"), "one")]);
    let after = look(&volume, &mut asked, "second").await;
    until("the older archive is dropped", LONG, || async {
        Ok(Look::when(!archive(&before).exists(), "there"))
    })
    .await
    .unwrap();
    assert!(archive(&after).exists());

    let mut tiny = extra(&scene.server);
    tiny.args.push("--volume-limit=1".to_owned());
    let (volume, _role) = start(&tiny).await;
    let upstream = scene.upstreams.create("tiny").unwrap();
    upstream
        .write_all(&umbrella("app", &on("1.1.0"), "one"))
        .unwrap();
    upstream.push("main", "A chart").unwrap();
    let source = git(&upstream.file_url());
    volume
        .ask(&request(&source, [chart("app", "main", "app")]))
        .unwrap();
    let full = |one: &Manifest| {
        let result = one
            .results
            .get("app")
            .and_then(|result| result.problem.as_ref());
        let failure = one.failure.as_ref().map(|failure| failure.message.as_str());
        let told = result.map(|problem| problem.message.as_str()).or(failure);
        told.is_some_and(|told| told.contains("--volume-limit"))
    };
    manifest(&volume, &source, "a full volume", full)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_lies_behind_one_charts_login_is_given_to_no_other() {
    let scene = Scene::new();
    let repository = HelmRepository::new(&scene.server, "private").unwrap();
    repository
        .publish_files("lib", "1.0.0", &library("secret"))
        .unwrap();
    let login = ("ada".to_owned(), "s3cret-of-ada".to_owned());
    scene.server.set(|knobs| knobs.login = Some(login));
    let asking_for =
        |url: &str| format!("- {{name: lib, version: 1.0.0, repository: \"{url}\"}}\n");
    let open = repository.url();
    let with_login = open.replace("https://", "https://ada:s3cret-of-ada@");
    let first = scene.push(&[umbrella("app", &asking_for(&with_login), "one")]);
    let other = scene.upstreams.create("other").unwrap();
    let files = umbrella("app", &asking_for(&open), "one");
    other.write_all(&files).unwrap();
    other.push("main", "Ask for the same").unwrap();

    let (volume, _role) = start(&extra(&scene.server)).await;
    let source = scene.source();
    let wants = [chart("app", "main", "app")];
    volume.ask(&request(&source, wants.clone())).unwrap();
    good(&volume, &source, "app", &first).await.unwrap();
    let source = git(&other.file_url());
    volume.ask(&request(&source, wants)).unwrap();
    let told = problem(&volume, &source, "app", &Reason::DependencyFailed)
        .await
        .unwrap();
    assert!(told.contains("401"), "{told}");
    let found = volume.manifest(&source).unwrap().unwrap();
    assert_eq!(found.results["app"].good, None);
}
