//! What goes wrong seldom: the reasons that no other file here brings about.

use tandem_shared::manifest::Reason;
use tandem_tests::pair::{Extra, sidecar};
use tandem_tests::requests::{chart, failure, git, good, problem, request};
use tandem_tests::volume::Volume;
use tandem_tests::{charts, guard};

use crate::common::{start, upstream};

#[tokio::test]
async fn a_short_id_of_several_commits_is_told_from_a_longer_one() {
    let (_upstreams, upstream, _) = upstream();
    // Of so many commits some begin alike in four digits: a chance of 1 in 10^13 that none do.
    let log: String = (0..2_000).fold(String::new(), |log, number| {
        let mark = format!("mark :{}\n", number + 1);
        let from = match number {
            0 => "from refs/heads/main^0\n".to_owned(),
            _ => format!("from :{number}\n"),
        };
        let who = format!(
            "committer T <t@test.invalid> {} +0000",
            1_700_000_000 + number
        );
        log + "commit refs/heads/many\n" + &mark + &who + "\ndata 1\nm" + &from
    });
    let marks = guard::folder("import").unwrap().join("stream");
    guard::write(&marks, log + "done\n").unwrap();
    let import = format!(
        "alias.import-stream=!git fast-import --quiet --done < '{}'",
        marks.display()
    );
    upstream
        .run_bare(&["-c", &import, "import-stream"])
        .unwrap();
    let all = upstream.run_bare(&["rev-list", "--all"]).unwrap();
    let mut ids: Vec<&str> = all.lines().collect();
    ids.sort_unstable();
    let two = ids.windows(2).find(|two| two[0][..4] == two[1][..4]);
    let [one, other] = two.unwrap() else {
        unreachable!()
    };
    let alike = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b);
    let alike = alike.count();

    let (volume, _role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    let wants = [
        chart("short", &one[..4], "charts/app"),
        chart("longer", &one[..=alike], "charts/app"),
    ];
    volume.ask(&request(&source, wants)).unwrap();
    let told = problem(&volume, &source, "short", &Reason::RefAmbiguous)
        .await
        .unwrap();
    assert!(
        told.contains(&one[..4]) && told.contains("more digits"),
        "{told}"
    );
    good(&volume, &source, "longer", one).await.unwrap();
}

#[tokio::test]
async fn a_chart_over_the_limits_keeps_what_was_good() {
    let (_upstreams, upstream, first) = upstream();
    let limits = Extra::args(["--max-chart-bytes=100000", "--max-chart-files=20"]);
    let (volume, _role) = start(&limits).await;
    let source = git(&upstream.file_url());
    let wants = [
        chart("app", "main", "charts/app"),
        chart("other", "main", "charts/other"),
    ];
    let mut asked = request(&source, wants);
    volume.ask(&asked).unwrap();
    let held = good(&volume, &source, "app", &first).await.unwrap();
    good(&volume, &source, "other", &first).await.unwrap();

    upstream
        .write("charts/app/files/large", vec![b'x'; 200_000])
        .unwrap();
    for number in 0..30 {
        let path = format!("charts/other/files/{number}");
        upstream.write(&path, "x").unwrap();
    }
    upstream.push("main", "Grow").unwrap();
    asked.refresh = "grown".to_owned();
    volume.ask(&asked).unwrap();
    for (key, flag) in [("app", "--max-chart-bytes"), ("other", "--max-chart-files")] {
        let told = problem(&volume, &source, key, &Reason::TooLarge)
            .await
            .unwrap();
        assert!(told.contains(flag), "{told}");
    }
    let served = volume.manifest(&source).unwrap().unwrap();
    let app = served.results["app"].good.as_ref().unwrap();
    assert_eq!(app.artifact, held.artifact);

    upstream
        .run(&["rm", "-r", "--quiet", "charts/app/files"])
        .unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let third = upstream.push("main", "Shrink").unwrap();
    asked.refresh = "shrunk".to_owned();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &third).await.unwrap();
}

#[tokio::test]
async fn a_volume_over_its_limit_brings_nothing_more() {
    let (_upstreams, upstream, first) = upstream();
    let volume = Volume::new().unwrap();
    let source = git(&upstream.file_url());
    let mut role = sidecar(&volume, &Extra::default()).unwrap();
    role.ready().await.unwrap();
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    volume.ask(&asked).unwrap();
    let held = good(&volume, &source, "app", &first).await.unwrap();
    role.terminate().unwrap();

    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    let limit = Extra::args(["--volume-limit=1000"]);
    let mut role = sidecar(&volume, &limit).unwrap();
    role.ready().await.unwrap();
    asked.refresh = "limited".to_owned();
    volume.ask(&asked).unwrap();
    let told = failure(&volume, &source, &[Reason::Volume]).await.unwrap();
    assert!(told.contains("--volume-limit"), "{told}");
    let served = volume.manifest(&source).unwrap().unwrap();
    let app = served.results["app"].good.as_ref().unwrap();
    assert_eq!(app.artifact, held.artifact);
    role.terminate().unwrap();

    let role = sidecar(&volume, &Extra::default()).unwrap();
    role.ready().await.unwrap();
    asked.refresh = "free".to_owned();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &second).await.unwrap();
}

#[tokio::test]
async fn a_git_that_goes_away_is_named_and_taken_when_it_is_back() {
    let (_upstreams, upstream, commit) = upstream();
    let real = std::process::Command::new("sh")
        .args(["-c", "command -v git"])
        .output()
        .unwrap();
    let real = String::from_utf8(real.stdout).unwrap();
    let link = guard::folder("programs").unwrap().join("git");
    std::os::unix::fs::symlink(real.trim(), &link).unwrap();
    let extra = Extra::args([format!("--git={}", link.display())]);
    let (volume, _role) = start(&extra).await;
    let aside = link.with_extension("aside");
    std::fs::rename(&link, &aside).unwrap();
    let source = git(&upstream.file_url());
    let asked = request(&source, [chart("app", "main", "charts/app")]);
    volume.ask(&asked).unwrap();
    let told = failure(&volume, &source, &[Reason::Internal])
        .await
        .unwrap();
    let named = told.contains(&link.display().to_string());
    assert!(named && told.contains("see --git"), "{told}");
    std::fs::rename(&aside, &link).unwrap();
    good(&volume, &source, "app", &commit).await.unwrap();
}
