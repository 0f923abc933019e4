//! Git servers as they are out there: old, plain, large.

use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::pair::Extra;
use tandem_tests::requests::{chart, git, good, manifest, request};
use tandem_tests::{charts, guard};

use crate::common::{start, upstream};

#[tokio::test]
async fn servers_that_give_no_commit_by_its_id_serve_all_refs() {
    let (upstreams, upstream, first) = upstream();
    upstream.push_tag("v1.0.0").unwrap();
    let files = charts::config_map("charts/app", "two");
    upstream.write_all(&files).unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    upstream.run_bare(&["update-server-info"]).unwrap();
    let (volume, _role) = start(&Extra::default()).await;
    for plain in [true, false] {
        let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
        server.set(|knobs| (knobs.dumb, knobs.old) = (plain, !plain));
        let source = git(&server.url("charts"));
        let refs = [
            ("branch", "main", &second),
            ("head", "", &second),
            ("tag", "v1.0.0", &first),
            ("range", "semver:^1", &first),
            ("commit", first.as_str(), &first),
            ("short", &first[..9], &first),
        ];
        let wants = refs.map(|(key, reference, _)| chart(key, reference, "charts/app"));
        volume.ask(&request(&source, wants)).unwrap();
        for (key, _, commit) in refs {
            good(&volume, &source, key, commit).await.unwrap();
        }
        let served = volume.manifest(&source).unwrap().unwrap();
        assert_eq!(served.refs["HEAD"].full_name, "refs/heads/main");
        assert_eq!(served.refs["semver:^1"].full_name, "refs/tags/v1.0.0");
    }
}

#[tokio::test]
async fn of_many_refs_only_those_that_are_wanted_are_asked_for() {
    let (upstreams, upstream, commit) = upstream();
    let mut packed = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    for number in 0..50_000 {
        packed.push_str(&format!("{commit} refs/heads/topic-{number:05}\n"));
    }
    guard::write(&upstream.bare().join("packed-refs"), packed).unwrap();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let source = git(&server.url("charts"));
    let (volume, _role) = start(&Extra::default()).await;
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &commit).await.unwrap();

    server.clear();
    asked.refresh = "again".into();
    volume.ask(&asked).unwrap();
    manifest(&volume, &source, "a poll", |one| {
        one.handled_refresh == "again"
    })
    .await
    .unwrap();
    let requests = server.requests();
    let question = requests
        .iter()
        .map(|one| String::from_utf8_lossy(&one.body))
        .find(|body| body.contains("command=ls-refs"))
        .expect("a question for refs");
    let prefixes: Vec<&str> = question
        .lines()
        .filter_map(|line| line.split("ref-prefix ").nth(1))
        .collect();
    assert_eq!(prefixes, ["refs/heads/main", "refs/main", "refs/tags/main"]);
    let answered: usize = requests.iter().map(|one| one.answered).sum();
    assert!(answered < 2048, "{answered} bytes for an unchanged poll");
}
