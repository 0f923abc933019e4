//! Names of refs and files as people give them, and refs that change their meaning.

use tandem_shared::manifest::Reason;
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::pair::Extra;
use tandem_tests::requests::{chart, content, git, good, manifest, problem, request};

use crate::common::{start, upstream};

#[tokio::test]
async fn without_a_ref_the_branch_that_the_remote_names_is_followed() {
    let (_upstreams, upstream, first) = upstream();
    let files = charts::config_map("charts/app", "trunk");
    upstream.write_all(&files).unwrap();
    let trunk = upstream.push("trunk", "Begin a trunk").unwrap();
    let (volume, _role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    let mut asked = request(&source, [chart("app", "", "charts/app")]);
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &first).await.unwrap();
    let named = |one: &tandem_shared::manifest::Manifest| one.refs["HEAD"].full_name.clone();
    let served = volume.manifest(&source).unwrap().unwrap();
    assert_eq!(named(&served), "refs/heads/main");

    // The remote's default branch becomes another one.
    let head = |branch: &str| {
        let args = ["symbolic-ref", "HEAD", branch];
        upstream.run_bare(&args).unwrap();
    };
    head("refs/heads/trunk");
    asked.refresh = "trunk".into();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &trunk).await.unwrap();
    let served = volume.manifest(&source).unwrap().unwrap();
    assert_eq!(named(&served), "refs/heads/trunk");

    // It names a branch that isn't there: what was good stays, and a ref would help.
    head("refs/heads/nowhere");
    asked.refresh = "nowhere".into();
    volume.ask(&asked).unwrap();
    let message = problem(&volume, &source, "app", &Reason::RefNotFound)
        .await
        .unwrap();
    assert!(message.contains("name a ref"), "{message}");
    let served = volume.manifest(&source).unwrap().unwrap();
    let kept = served.results["app"].good.as_ref().unwrap();
    assert_eq!(kept.commit.as_ref(), Some(&trunk));
}

#[tokio::test]
async fn a_tag_is_meant_before_a_branch_of_its_name_and_is_followed_when_it_moves() {
    let (_upstreams, upstream, first) = upstream();
    upstream.push_tag("both").unwrap();
    upstream.push("both", "A branch of that name").unwrap();
    let (volume, _role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    let mut asked = request(&source, [chart("app", "both", "charts/app")]);
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &first).await.unwrap();

    // Pushes to the branch, and polls, don't make it another one.
    let change = |marker: &str| {
        let files = charts::config_map("charts/app", marker);
        upstream.write_all(&files).unwrap();
        upstream.push("both", marker).unwrap()
    };
    for turn in 0..3 {
        change(&format!("branch {turn}"));
        asked.refresh = format!("branch {turn}");
        volume.ask(&asked).unwrap();
        let served = manifest(&volume, &source, "a poll", |one| {
            one.handled_refresh == asked.refresh
        })
        .await
        .unwrap();
        assert_eq!(served.refs["both"].full_name, "refs/tags/both");
        assert_eq!(served.refs["both"].commit, first);
    }

    // The tag is moved.
    let args = ["tag", "--force", "--annotate", "--message", "moved", "both"];
    upstream.run(&args).unwrap();
    let args = ["push", "--quiet", "--force", "origin", "refs/tags/both"];
    upstream.run(&args).unwrap();
    let moved = upstream.head().unwrap();
    asked.refresh = "moved".into();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &moved).await.unwrap();

    // It goes, and the branch is what is left of that name; it returns, and is meant again.
    upstream
        .run(&["push", "--quiet", "origin", ":refs/tags/both"])
        .unwrap();
    let last = change("branch alone");
    asked.refresh = "gone".into();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &last).await.unwrap();
    upstream
        .run(&["push", "--quiet", "origin", "refs/tags/both"])
        .unwrap();
    asked.refresh = "back".into();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &moved).await.unwrap();
}

#[tokio::test]
async fn odd_names_of_refs_folders_and_files_are_names() {
    let (upstreams, upstream, _) = upstream();
    let folder = "charts/grün & \"quoted\" 'app'";
    let files = charts::config_map(folder, "odd");
    upstream.write_all(&files).unwrap();
    upstream
        .write(
            &format!("{folder}/Chart.yaml"),
            charts::metadata("app", "0.1.0"),
        )
        .unwrap();
    let odd = [
        "a b.txt",
        " leading",
        "ünïcödé.txt",
        "日本.txt",
        "\"double\" 'single'",
        "back\\slash",
        "-dash",
        "star*?[x]",
        "%2e%2e",
        "$HOME`id`",
        ".hidden",
    ];
    for name in odd {
        let path = format!("{folder}/files/{name}");
        upstream.write(&path, name).unwrap();
    }
    let files = charts::config_map("charts/newline", "newline");
    upstream.write_all(&files).unwrap();
    upstream.write("charts/newline/files/a\nb", "x").unwrap();
    let branch = "we$ird;'n\"ame%20&ü`id`";
    let commit = upstream.push(branch, "Odd names").unwrap();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let (volume, _role) = start(&Extra::default()).await;
    for url in [upstream.file_url(), server.url("charts")] {
        let source = git(&url);
        let wants = [
            chart("odd", branch, folder),
            chart("newline", branch, "charts/newline"),
        ];
        volume.ask(&request(&source, wants)).unwrap();
        let good = good(&volume, &source, "odd", &commit).await.unwrap();
        let files = content(&volume, &good.artifact).unwrap();
        for name in odd {
            let path = format!("files/{name}");
            assert_eq!(
                files.get(&path).map(String::as_str),
                Some(name),
                "{files:?}"
            );
        }
        let message = problem(&volume, &source, "newline", &Reason::InvalidPath)
            .await
            .unwrap();
        assert!(message.contains("files/a"), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
}
