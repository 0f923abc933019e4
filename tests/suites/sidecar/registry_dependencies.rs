//! Dependencies in OCI registries: a real registry, pushed to and asked by the real helm.

use tandem_shared::manifest::Reason;
use tandem_shared::request::{Request, Resolution};
use tandem_shared::source::Source;
use tandem_tests::charts::{self, Files};
use tandem_tests::git::{HttpServer, Scheme, Upstream, Upstreams};
use tandem_tests::helm_repository::HelmRepository;
use tandem_tests::pair::Extra;
use tandem_tests::programs;
use tandem_tests::registry::{Access, PASSWORD, Registry, USER, digest};
use tandem_tests::requests::{chart, content, git, good, problem, request};

use crate::common::{Mounted, start};
use crate::dependencies::{look, nothing_staged, of, umbrella, versions};

/// Started with the real helm, and let in by this registry: in the clear, or by its own
/// authority alone.
fn extra(registry: &Registry) -> Extra {
    let helm = format!("--helm={}", programs::helm().unwrap().program.display());
    match registry.authority() {
        None => Extra::args([helm, format!("--plain-http-registries={}", registry.host())]),
        Some(authority) => Extra::args([helm])
            .env("SSL_CERT_FILE", authority.display().to_string())
            .env("SSL_CERT_DIR", "")
            .env("GIT_SSL_CAINFO", "")
            .env("GIT_SSL_CAPATH", ""),
    }
}

/// What a chart says of its one dependency.
fn on_lib(registry: &Registry, version: &str) -> String {
    let url = registry.url("charts");
    format!("- {{name: lib, version: {version}, repository: '{url}'}}\n")
}

/// A chart that depends on such a version of `lib`.
fn on(registry: &Registry, path: &str, version: &str, marker: &str) -> Files {
    umbrella(path, &on_lib(registry, version), marker)
}

fn in_git(files: &[Files]) -> (Upstreams, Upstream, Source, String) {
    let upstreams = Upstreams::new().unwrap();
    let upstream = upstreams.create("charts").unwrap();
    let commit = push(&upstream, files);
    let source = git(&upstream.file_url());
    (upstreams, upstream, source, commit)
}

fn push(upstream: &Upstream, files: &[Files]) -> String {
    for files in files {
        upstream.write_all(files).unwrap();
    }
    upstream.push("main", "A change").unwrap()
}

#[tokio::test]
async fn a_range_a_version_and_a_lock_are_what_helm_pushed_and_stay_it() {
    the_same_of(Registry::start(Access::Open).unwrap()).await;
    the_same_of(Registry::start_secure(Access::Token).unwrap()).await;
}

async fn the_same_of(registry: Registry) {
    let path = match registry.authority() {
        None => "charts",
        // What everybody may pull, for a token.
        Some(_) => "public/charts",
    };
    let url = registry.url(path);
    let on = |path: &str, version: &str, marker: &str| {
        let asked = format!("- {{name: lib, version: {version}, repository: '{url}'}}\n");
        umbrella(path, &asked, marker)
    };
    for version in ["1.0.0", "1.1.0", "2.0.0", "1.2.0-rc.1"] {
        registry.push(path, "lib", version, version).unwrap();
    }
    let mut locked = on("locked", "^1.0", "one");
    let lock = format!(
        "dependencies:\n- {{name: lib, version: 1.0.0, repository: '{url}'}}\ndigest: sha256:x\n"
    );
    locked.push(("locked/Chart.lock".to_owned(), lock));
    let range = |marker| on("range", "^1.0", marker);
    let charts = [range("one"), on("exact", "1.0.0", "one"), locked];
    let (_upstreams, upstream, source, _) = in_git(&charts);
    let (volume, mut role) = start(&extra(&registry)).await;
    let expected = [("range", "1.1.0"), ("exact", "1.0.0"), ("locked", "1.0.0")];
    let wants = expected.map(|(key, _)| chart(key, "main", key));
    let mut asked = request(&source, wants);
    let before = look(&volume, &mut asked, "first").await;
    for (key, version) in expected {
        assert_eq!(before.results[key].problem, None, "{key}");
        let found = of(&before, key);
        assert_eq!(versions(found), [version], "{key}");
        let files = content(&volume, &found.artifact).unwrap();
        assert!(files["charts/lib/templates/cm.yaml"].contains(&format!("marker: {version}")));
        assert_eq!(found.resolved[0].repository, url);
        let pinned = found.resolved[0].digest.clone().unwrap();
        let archive = std::fs::read(volume.layout().served.archive(&pinned)).unwrap();
        assert_eq!(digest(&archive), format!("sha256:{pinned}"), "{key}");
    }
    nothing_staged(&volume).await;

    // A newer one, and the same one pushed again with another content, move nothing: not at
    // polls, not by a restart, and nobody is asked.
    registry.push(path, "lib", "1.1.0", "again").unwrap();
    registry.push(path, "lib", "1.2.0", "newer").unwrap();
    let answered = registry.answered().len();
    for round in ["idle", "restarted"] {
        let now = look(&volume, &mut asked, round).await;
        assert_eq!(now.results, before.results, "{round}");
        role.terminate().unwrap();
        role.restart().unwrap();
    }
    assert_eq!(registry.answered().split_off(answered), []);

    // Of a lost volume comes what it stood for, as far as the registry still has that.
    let prefer = |asked: &mut Request| {
        for want in &mut asked.wants {
            let held = of(&before, &want.key);
            want.prefer.dependencies = vec![Resolution {
                chart: held.resolved_for.clone().unwrap(),
                dependencies: held.resolved.clone(),
            }];
        }
    };
    prefer(&mut asked);
    let (fresh, _role) = start(&extra(&registry)).await;
    let now = look(&fresh, &mut asked, "lost").await;
    for key in ["exact", "locked"] {
        assert_eq!(of(&now, key).artifact, of(&before, key).artifact, "{key}");
        assert_eq!(of(&now, key).resolved, of(&before, key).resolved, "{key}");
    }
    let told = problem(&fresh, &source, "range", &Reason::DependencyFailed)
        .await
        .unwrap();
    let pinned = of(&before, "range").resolved[0].digest.as_ref().unwrap();
    for words in [pinned.as_str(), "1.1.0", url.as_str(), "change the chart"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    // The chart that changes is resolved anew.
    push(&upstream, &[range("two")]);
    let now = look(&fresh, &mut asked, "changed").await;
    assert_eq!(now.results["range"].problem, None);
    assert_eq!(versions(of(&now, "range")), ["1.2.0"]);
    assert_eq!(of(&now, "exact").artifact, of(&before, "exact").artifact);
}

#[tokio::test]
async fn an_index_may_lead_to_a_registry() {
    let registry = Registry::start_secure(Access::Token).unwrap();
    registry
        .push("public/charts", "lib", "1.0.0", "one")
        .unwrap();
    let server = HttpServer::start(&Upstreams::new().unwrap(), Scheme::Http).unwrap();
    let repository = HelmRepository::new(&server, "charts").unwrap();
    let url = registry.url("public/charts/lib:1.0.0");
    let index = format!("apiVersion: v1\nentries:\n  lib: [{{version: 1.0.0, urls: ['{url}']}}]\n");
    repository.put("index.yaml", index);
    let asked = format!(
        "- {{name: lib, version: 1.x, repository: '{}'}}\n",
        repository.url()
    );
    let (_upstreams, _upstream, source, commit) = in_git(&[umbrella("app", &asked, "one")]);
    let (volume, _role) = start(&extra(&registry)).await;
    let asked = request(&source, [chart("app", "main", "app")]);
    volume.ask(&asked).unwrap();
    let found = good(&volume, &source, "app", &commit).await.unwrap();
    assert_eq!(versions(&found), ["1.0.0"]);
    let files = content(&volume, &found.artifact).unwrap();
    assert!(files["charts/lib/templates/cm.yaml"].contains("marker: one"));
}

#[tokio::test]
async fn a_registry_that_is_away_takes_nothing_away_and_is_asked_again() {
    let mut registry = Registry::start(Access::Open).unwrap();
    registry.push("charts", "lib", "1.0.0", "one").unwrap();
    let app = |registry: &Registry, marker: &str| on(registry, "app", "1.x", marker);
    let other = |marker: &str| charts::config_map("other", marker);
    let (_upstreams, upstream, source, _) = in_git(&[app(&registry, "one"), other("one")]);
    let (volume, _role) = start(&extra(&registry)).await;
    let wants = [chart("app", "main", "app"), chart("other", "main", "other")];
    let mut asked = request(&source, wants);
    let before = look(&volume, &mut asked, "first").await;
    assert_eq!(versions(of(&before, "app")), ["1.0.0"]);

    registry.stop().unwrap();
    let second = push(&upstream, &[app(&registry, "two"), other("two")]);
    asked.refresh = "away".to_owned();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "other", &second).await.unwrap();
    let told = problem(&volume, &source, "app", &Reason::DependencyFailed)
        .await
        .unwrap();
    for words in ["\"lib\"", "\"1.x\"", &registry.url("charts"), "refused"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let failing = volume.manifest(&source).unwrap().unwrap();
    assert_eq!(of(&failing, "app"), of(&before, "app"));

    // Nobody asks for it again, and nothing is polled for a day.
    registry.resume().unwrap();
    let found = good(&volume, &source, "app", &second).await.unwrap();
    assert_eq!(versions(&found), ["1.0.0"]);
    assert_eq!(found.resolved, of(&before, "app").resolved);
    nothing_staged(&volume).await;
}

#[tokio::test]
async fn a_private_registry_is_opened_by_netrc_or_by_its_url_and_the_login_is_shown_nowhere() {
    for access in [Access::Password, Access::Token] {
        let registry = Registry::start(access).unwrap();
        registry.push("charts", "lib", "1.0.0", "one").unwrap();
        let named = format!("oci://{USER}:{PASSWORD}@{}/charts", registry.host());
        let in_url = format!("- {{name: lib, version: 1.0.0, repository: '{named}'}}\n");
        let charts = [
            on(&registry, "app", "^1", "one"),
            umbrella("named", &in_url, "one"),
        ];
        let (_upstreams, _upstream, source, commit) = in_git(&charts);
        let mut mounted = Mounted::new(&[".netrc"]);
        let hold = |mounted: &mut Mounted, login: &str, password: &str| {
            let text = format!("machine 127.0.0.1 login {login} password {password}\n");
            mounted.hold(&[(".netrc", text.as_str())]);
        };
        hold(&mut mounted, USER, "wr0ng-password");
        let mut extra = extra(&registry);
        extra
            .args
            .push(format!("--netrc-file={}", mounted.path(".netrc").display()));
        let (volume, role) = start(&extra).await;
        let wants = [chart("app", "main", "app"), chart("named", "main", "named")];
        let mut asked = request(&source, wants);
        let now = look(&volume, &mut asked, "wrong").await;
        // Its own login goes before that of the file.
        assert_eq!(versions(of(&now, "named")), ["1.0.0"]);
        assert_eq!(
            of(&now, "named").resolved[0].repository,
            registry.url("charts")
        );
        let told = problem(&volume, &source, "app", &Reason::DependencyFailed)
            .await
            .unwrap();
        assert!(told.contains("see whether the repository asks"), "{told}");

        // Mended, it counts as soon as somebody asks for a look.
        hold(&mut mounted, USER, PASSWORD);
        asked.refresh = "mended".to_owned();
        volume.ask(&asked).unwrap();
        let found = good(&volume, &source, "app", &commit).await.unwrap();
        assert_eq!(versions(&found), ["1.0.0"]);
        nothing_staged(&volume).await;

        // The one in a URL stands where somebody wrote it: in the chart.
        let served = &volume.layout().served;
        let chart = [served.mirrors(), served.artifacts()];
        for secret in [PASSWORD, "wr0ng-password"] {
            for path in volume.find(secret).unwrap() {
                let written = chart.iter().any(|folder| path.starts_with(folder));
                assert!(written && secret == PASSWORD, "{}", path.display());
            }
            assert!(!role.log().contains(secret), "{secret}");
        }
    }
}
