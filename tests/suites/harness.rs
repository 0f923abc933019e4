//! The harness itself: what it says is running is running, real and reachable.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use tandem_tests::charts;
use tandem_tests::cluster::{self, Cluster};
use tandem_tests::daemon::{Daemon, Recipe};
use tandem_tests::git::{GitDaemon, HttpServer, Scheme, SshServer, Upstream, Upstreams, git};
use tandem_tests::helm::Helm;
use tandem_tests::kubernetes::{HelmReleases, complete_jobs};
use tandem_tests::mounts::{self, Mount};
use tandem_tests::registry::{self, Access, Registry};
use tandem_tests::wait::{LONG, Look, until, until_blocking};
use tandem_tests::{guard, procfs};

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("marker".to_owned(), "one".to_owned())])),
        ..ConfigMap::default()
    }
}

#[tokio::test]
async fn a_namespace_is_made_used_and_really_deleted() {
    let cluster = Cluster::shared().unwrap();
    let namespace = cluster.namespace("harness").await.unwrap();
    let client = cluster.client().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    maps.create(&PostParams::default(), &config_map("kept"))
        .await
        .unwrap();
    assert_eq!(
        maps.get("kept").await.unwrap().data,
        config_map("kept").data
    );

    let namespaces: Api<Namespace> = Api::all(client);
    namespaces
        .delete(&namespace, &DeleteParams::default())
        .await
        .unwrap();
    until("the namespace to be gone", LONG, || async {
        Ok(Look::when(
            namespaces.get_opt(&namespace).await?.is_none(),
            "still there",
        ))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_service_account_may_do_what_it_was_granted_and_nothing_else() {
    let cluster = Cluster::shared().unwrap();
    let namespace = cluster.namespace("harness").await.unwrap();
    let admin = cluster.client().await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(admin, &namespace);
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some("poor".to_owned()),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
    accounts
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    let kubeconfig = cluster
        .service_account_kubeconfig(&namespace, "poor")
        .await
        .unwrap();
    let maps: Api<ConfigMap> =
        Api::namespaced(cluster::client(&kubeconfig).await.unwrap(), &namespace);
    match maps
        .create(&PostParams::default(), &config_map("refused"))
        .await
    {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 403, "{status:?}");
            assert!(
                status
                    .message
                    .contains(&format!("system:serviceaccount:{namespace}:poor")),
                "{status:?}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn helm_installs_upgrades_and_tells_what_it_holds() {
    let cluster = Cluster::shared().unwrap();
    let namespace = cluster.namespace("harness").await.unwrap();
    let folder = guard::folder("chart").unwrap();
    for (path, content) in charts::config_map("app", "one") {
        guard::write(&folder.join(path), content).unwrap();
    }
    let chart = folder.join("app").display().to_string();
    let helm = Helm::new(cluster.kubeconfig()).unwrap();
    assert!(helm.history(&namespace, "first").unwrap().is_empty());
    helm.ok(
        &namespace,
        &["install", "first", &chart, "--set-string", "a=1"],
    )
    .unwrap();
    let releases = HelmReleases::new(cluster.client().await.unwrap(), &namespace);
    releases.marker("first", "one").await.unwrap();
    assert_eq!(
        helm.values(&namespace, "first").unwrap(),
        serde_json::json!({"a": "1"})
    );

    guard::write(
        &folder.join("app/templates/bad.yaml"),
        "kind: ConfigMap\napiVersion: v1\nmetadata: {name: No_Name}\n",
    )
    .unwrap();
    helm.ok(&namespace, &["upgrade", "first", &chart])
        .unwrap_err();
    let revisions = helm.revisions(&namespace, "first").unwrap();
    assert_eq!(
        revisions,
        [(1, "deployed".to_owned()), (2, "failed".to_owned())]
    );
    assert_eq!(helm.list(&namespace).unwrap(), ["first"]);
    let records = releases.records("first").await.unwrap();
    assert_eq!(
        records
            .iter()
            .map(|labels| labels["status"].as_str())
            .collect::<Vec<_>>(),
        ["deployed", "failed"]
    );
}

#[tokio::test]
async fn a_hook_ends_when_its_job_is_completed() {
    let cluster = Cluster::shared().unwrap();
    let namespace = cluster.namespace("harness").await.unwrap();
    let client = cluster.client().await.unwrap();
    let folder = guard::folder("chart").unwrap();
    for (path, content) in charts::config_map("app", "one") {
        guard::write(&folder.join(path), content).unwrap();
    }
    guard::write(
        &folder.join("app/templates/hook.yaml"),
        charts::hook("slow", "pre-install", ""),
    )
    .unwrap();
    let helm = Helm::new(cluster.kubeconfig()).unwrap();
    let chart = folder.join("app").display().to_string();
    let mut child = helm
        .command(&namespace, &["install", "hooked", &chart])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let releases = HelmReleases::new(client.clone(), &namespace);
    until("the pending record", LONG, || async {
        let records = releases.records("hooked").await?;
        Ok(Look::when(
            records.iter().any(|one| one["status"] == "pending-install"),
            format!("{records:?}"),
        ))
    })
    .await
    .unwrap();
    assert!(child.try_wait().unwrap().is_none());
    complete_jobs(&client, &namespace, || async {
        Ok(releases
            .records("hooked")
            .await?
            .iter()
            .any(|one| one["status"] == "deployed"))
    })
    .await
    .unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_mount_is_seen_by_its_process_alone() {
    let Some(mount) = mounts::available() else {
        return;
    };
    let folder = guard::folder("mount").unwrap();
    guard::write(&folder.join("below"), "x").unwrap();
    let logs = guard::folder("logs").unwrap();
    let mut recipe = Recipe::new(
        "mounted",
        Path::new("sh"),
        ["-c", "touch \"$0/on-it\"; echo tried $?; sleep 300"],
    );
    recipe.args.push(folder.display().to_string());
    for (kind, status) in [
        (
            Mount::Sized {
                path: folder.clone(),
                bytes: 65536,
            },
            "tried 0",
        ),
        (
            Mount::ReadOnly {
                path: folder.clone(),
            },
            "tried 1",
        ),
    ] {
        let mut recipe = recipe.clone();
        mount.wrap(&mut recipe, &kind);
        recipe.name = status.replace(' ', "-");
        let daemon = Daemon::start(&recipe, &logs).unwrap();
        until_blocking("the attempt", LONG, || {
            Ok(Look::when(daemon.log().contains("tried"), daemon.log()))
        })
        .unwrap();
        assert!(daemon.log().contains(status), "{}", daemon.log());
        let seen = Path::new("/proc")
            .join(daemon.pid().to_string())
            .join("root")
            .join(folder.strip_prefix("/").unwrap());
        assert_eq!(seen.join("on-it").exists(), status == "tried 0");
        assert!(!folder.join("on-it").exists());
    }
}

fn repository() -> (Upstreams, Upstream, String) {
    let upstreams = Upstreams::new().unwrap();
    let upstream = upstreams.create("charts").unwrap();
    upstream
        .write("charts/app/Chart.yaml", "name: app\n")
        .unwrap();
    let commit = upstream.push("main", "Add app").unwrap();
    (upstreams, upstream, commit)
}

/// Clones and gives what was checked out, or what git said instead.
fn clone(url: &str, configure: impl FnOnce(&mut Command)) -> Result<String, String> {
    let target = guard::folder("clone").unwrap();
    let mut command = git().unwrap();
    command
        .args(["-c", "protocol.version=2", "clone", "--quiet", url])
        .arg(&target);
    configure(&mut command);
    let output = command.output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let head = git()
        .unwrap()
        .arg("-C")
        .arg(&target)
        .args(["rev-parse", "HEAD"])
        .output()
        .unwrap();
    assert!(target.join("charts/app/Chart.yaml").is_file());
    Ok(String::from_utf8(head.stdout).unwrap().trim().to_owned())
}

#[test]
fn clones_come_from_a_path_and_from_the_git_daemon() {
    let (upstreams, upstream, commit) = repository();
    assert_eq!(clone(&upstream.file_url(), |_| ()), Ok(commit.clone()));
    let mut daemon = GitDaemon::start(&upstreams).unwrap();
    assert_eq!(clone(&daemon.url("charts"), |_| ()), Ok(commit));
    daemon.stop().unwrap();
    clone(&daemon.url("charts"), |_| ()).unwrap_err();
}

#[test]
fn clones_come_over_http_in_protocol_version_two() {
    let (upstreams, upstream, commit) = repository();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    assert_eq!(clone(&server.url("charts"), |_| ()), Ok(commit));
    let requests = server.requests();
    assert!(
        requests.iter().all(|one| one.protocol == "version=2"),
        "{requests:?}"
    );
    assert!(
        requests
            .iter()
            .any(|one| one.method == "POST" && one.answered > 0),
        "{requests:?}"
    );

    // A second commit, a tag and a forced branch are served too.
    upstream.write("charts/app/values.yaml", "a: 1\n").unwrap();
    upstream.push("main", "Add values").unwrap();
    upstream.push_tag("v1").unwrap();
    let orphan = upstream.push_orphan("main", "Start over").unwrap();
    assert_eq!(clone(&server.url("charts"), |_| ()), Ok(orphan));
    clone(&server.url("nowhere"), |_| ()).unwrap_err();
}

#[test]
fn https_needs_the_authority_and_the_password() {
    let (upstreams, _, commit) = repository();
    let server = HttpServer::start(&upstreams, Scheme::Https).unwrap();
    let url = server.url("charts");
    let trusting = |command: &mut Command| {
        command.env("GIT_SSL_CAINFO", server.authority());
    };
    let stranger = clone(&url, |_| ()).unwrap_err();
    assert!(stranger.contains("certificate"), "{stranger}");
    assert_eq!(clone(&url, trusting), Ok(commit.clone()));

    server.set(|knobs| knobs.login = Some(("ada".into(), "s3cret".into())));
    let refused = clone(&url, trusting).unwrap_err();
    assert!(refused.contains("could not read Username"), "{refused}");
    let with_login = url.replace("https://", "https://ada:s3cret@");
    assert_eq!(clone(&with_login, trusting), Ok(commit));
}

#[test]
fn the_knobs_of_the_http_server_turn() {
    let (upstreams, _, commit) = repository();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let other = HttpServer::start(&upstreams, Scheme::Http).unwrap();

    server.set(|knobs| knobs.status = Some(503));
    assert!(
        clone(&server.url("charts"), |_| ())
            .unwrap_err()
            .contains("503")
    );

    server.set(|knobs| {
        knobs.status = None;
        knobs.redirect = Some(other.base());
    });
    assert_eq!(clone(&server.url("charts"), |_| ()), Ok(commit.clone()));
    assert!(!other.requests().is_empty());

    server.set(|knobs| {
        knobs.redirect = None;
        knobs.drip = Some(Duration::from_millis(1));
    });
    assert_eq!(clone(&server.url("charts"), |_| ()), Ok(commit));

    // A stalled server holds a client until that one is killed.
    server.set(|knobs| knobs.stall = true);
    server.clear();
    let mut child = git()
        .unwrap()
        .args(["ls-remote", &server.url("charts")])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until_blocking("the request", LONG, || {
        Ok(Look::when(!server.requests().is_empty(), "none"))
    })
    .unwrap();
    assert!(child.try_wait().unwrap().is_none());
    assert_eq!(server.requests()[0].status, None);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn ssh_needs_the_right_host_key() {
    let (upstreams, _, commit) = repository();
    let server = SshServer::start(&upstreams).unwrap();
    let with = |known_hosts: &Path| {
        let ssh = server.command(known_hosts);
        clone(&server.url("charts"), move |command| {
            command.env("GIT_SSH_COMMAND", ssh);
        })
    };
    assert_eq!(with(&server.known_hosts()), Ok(commit));
    let refused = with(&server.wrong_known_hosts().unwrap()).unwrap_err();
    assert!(
        refused.contains("Host key verification failed"),
        "{refused}"
    );
}

#[test]
fn a_killed_daemon_takes_its_children_with_it() {
    let logs = guard::folder("logs").unwrap();
    // The grandchild moves to a process group of its own, as git and helm do.
    let script = "set -m; sleep 300 & echo started; wait";
    let mut daemon =
        Daemon::start(&Recipe::new("nest", Path::new("sh"), ["-c", script]), &logs).unwrap();
    let session = daemon.pid();
    until_blocking("the grandchild", LONG, || {
        let sleeps = procfs::session(session)
            .iter()
            .any(|one| one.name == "sleep");
        Ok(Look::when(sleeps, daemon.log()))
    })
    .unwrap();
    daemon.kill_alone().unwrap();
    assert!(
        procfs::session(session)
            .iter()
            .any(|one| one.name == "sleep"),
        "killed alone"
    );
    daemon.kill().unwrap();
    assert!(procfs::session(session).is_empty());
    assert!(daemon.log().contains("started"));
}

#[test]
fn a_program_that_ends_or_panics_by_itself_fails_its_test() {
    let logs = guard::folder("logs").unwrap();
    let start = |name: &str, script: &str| {
        let recipe = Recipe::new(name, Path::new("sh"), ["-c", script]);
        Daemon::start(&recipe, &logs).unwrap()
    };
    let dropped = |daemon: Daemon| {
        let drop = std::panic::AssertUnwindSafe(|| drop(daemon));
        std::panic::catch_unwind(drop)
            .map_err(|why| why.downcast_ref::<String>().cloned().unwrap_or_default())
    };
    let ends = start("ends", "exit 3");
    until_blocking("its end", LONG, || {
        let ended = procfs::process(ends.pid()).is_none_or(|one| one.state == 'Z');
        Ok(Look::when(ended, "it lives"))
    })
    .unwrap();
    let why = dropped(ends).unwrap_err();
    assert!(why.contains("ends ended by itself"), "{why}");

    let panics = start(
        "panics",
        "echo thread main panicked at x.rs; exec sleep 300",
    );
    until_blocking("its word", LONG, || {
        Ok(Look::when(panics.log().contains("x.rs"), panics.log()))
    })
    .unwrap();
    let why = dropped(panics).unwrap_err();
    assert!(why.contains("panics panicked"), "{why}");

    let mut told_to = start("told-to", "exec sleep 300");
    told_to.terminate(LONG).unwrap();
    dropped(told_to).unwrap();
}

/// Names the file that the killed process tells its own by.
const VICTIM: &str = "TANDEM_TEST_VICTIM";

/// What the next test does in a process of its own, which it then kills.
fn victim(told: &Path) {
    let logs = guard::folder("logs").unwrap();
    let daemon = Daemon::start(&Recipe::new("sleep", Path::new("sleep"), ["300"]), &logs).unwrap();
    guard::write(told, format!("{} {}", daemon.pid(), logs.display())).unwrap();
    std::thread::sleep(Duration::from_secs(300));
}

#[test]
fn nothing_outlives_a_killed_process() {
    if let Some(told) = std::env::var_os(VICTIM) {
        return victim(Path::new(&told));
    }
    let told = guard::folder("victim").unwrap().join("told");
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "nothing_outlives_a_killed_process"])
        .env(VICTIM, &told)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let (pid, logs) = until_blocking("the victim's word", LONG, || {
        let text = fs::read_to_string(&told).unwrap_or_default();
        let found = text
            .split_once(' ')
            .map(|(pid, logs)| (pid.parse::<u32>().unwrap(), logs.to_owned()));
        Ok(Look::from_option(found, text))
    })
    .unwrap();
    assert_eq!(procfs::process(pid).unwrap().name, "sleep");
    victim.kill().unwrap();
    victim.wait().unwrap();
    until_blocking("the end of what it left", LONG, || {
        let alive = procfs::process(pid).is_some_and(|one| one.state != 'Z');
        Ok(Look::when(
            !alive && !Path::new(&logs).exists(),
            format!("alive: {alive}"),
        ))
    })
    .unwrap();
}

/// helm, who pulls a chart with the arguments given.
fn pull(registry: &Registry, chart: &str, args: &[&str]) -> Result<(), String> {
    let home = guard::folder("pull").unwrap();
    let output = Command::new(tandem_tests::programs::helm().unwrap().program)
        .args(["pull", &registry.url(chart)])
        .args(args)
        .env("HOME", &home)
        .current_dir(&home)
        .output()
        .unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn registries_let_in_whom_they_should() {
    let login = |password| ["--username", registry::USER, "--password", password];
    for access in [Access::Open, Access::Password, Access::Token] {
        let mut registry = Registry::start(access).unwrap();
        let digest = registry.push("charts", "web", "1.0.0", "one").unwrap();
        assert_eq!(digest.len(), 71, "{digest}");
        registry
            .push("public/charts", "web", "1.0.0", "one")
            .unwrap();
        let with = |args: &[&'static str]| [&["--plain-http"], args].concat();
        pull(&registry, "charts/web", &with(&login(registry::PASSWORD))).unwrap();
        let open = access == Access::Open;
        let stranger = pull(&registry, "charts/web", &with(&[]));
        assert_eq!(stranger.is_ok(), open, "{access:?}: {stranger:?}");
        let wrong = pull(&registry, "charts/web", &with(&login("wrong")));
        assert_eq!(wrong.is_ok(), open, "{access:?}: {wrong:?}");
        let public = pull(&registry, "public/charts/web", &with(&[]));
        assert_eq!(public.is_ok(), access != Access::Password, "{public:?}");
        let pulled = |path: &str| {
            let answered = registry.answered();
            let mut is = answered.iter().filter(|one| one.method == "GET");
            is.any(|one| one.path.contains(path) && one.status == 200)
        };
        assert!(pulled("/v2/charts/web/blobs/"), "{:?}", registry.answered());
        // What was pushed, and the address, stay over a restart.
        let before = registry.host();
        registry.stop().unwrap();
        registry.resume().unwrap();
        assert_eq!(registry.host(), before);
        pull(&registry, "charts/web", &with(&login(registry::PASSWORD))).unwrap();
    }
    let secure = Registry::start_secure(Access::Token).unwrap();
    secure.push("charts", "web", "1.0.0", "one").unwrap();
    let authority = secure.authority().unwrap().display().to_string();
    let args = [
        &["--ca-file", authority.as_str()],
        &login(registry::PASSWORD)[..],
    ]
    .concat();
    pull(&secure, "charts/web", &args).unwrap();
    pull(&secure, "charts/web", &login(registry::PASSWORD)).unwrap_err();
}
