//! Kills, broken files and a volume that is full.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme};
use tandem_tests::mounts::{self, Mount};
use tandem_tests::pair::{Extra, sidecar};
use tandem_tests::requests::{chart, content, git, good, request};
use tandem_tests::volume::Volume;
use tandem_tests::wait::{LONG, Look, until};

use crate::common::{blob, start, upstream};

#[tokio::test]
async fn killed_in_the_middle_of_a_fetch_it_goes_on_where_it_was() {
    let (upstreams, upstream, first) = upstream();
    let server = HttpServer::start(&upstreams, Scheme::Http).unwrap();
    let (volume, mut role) = start(&Extra::default()).await;
    let source = git(&server.url("charts"));
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    volume.ask(&asked).unwrap();
    let held = good(&volume, &source, "app", &first).await.unwrap();

    let mut commit = String::new();
    for round in 0..4 {
        upstream
            .write_all(&charts::config_map("charts/app", &format!("round {round}")))
            .unwrap();
        upstream
            .write("charts/app/files/large", blob(round))
            .unwrap();
        commit = upstream.push("main", &format!("Round {round}")).unwrap();
        server.set(|knobs| knobs.drip = Some(Duration::from_millis(5)));
        server.clear();
        asked.refresh = format!("round {round}");
        volume.ask(&asked).unwrap();
        until("the fetch to be answered", LONG, || async {
            let fetching = server.requests().iter().any(|one| {
                String::from_utf8_lossy(&one.body).contains("command=fetch") && one.answered > 0
            });
            Ok(Look::when(fetching, "no fetch"))
        })
        .await
        .unwrap();
        // As a kubelet ends a container, or as the kernel kills one process.
        if round % 2 == 0 {
            role.kill()
        } else {
            role.kill_alone()
        }
        .unwrap();
        assert_eq!(
            content(&volume, &held.artifact).unwrap(),
            content(
                &volume,
                &volume.manifest(&source).unwrap().unwrap().results["app"]
                    .good
                    .as_ref()
                    .unwrap()
                    .artifact
            )
            .unwrap(),
            "the manifest still serves what was good"
        );
        role.restart().unwrap();
    }
    // What a kill can leave in a mirror, all at once.
    let mirror = volume.layout().served.mirror(&source.name());
    for left in [
        "shallow.lock",
        "config.lock",
        "objects/pack/tmp_pack_killed",
    ] {
        fs::write(mirror.join(left), "").unwrap();
    }
    role.kill().unwrap();
    role.restart().unwrap();
    server.set(|knobs| knobs.drip = None);
    asked.refresh = "at last".into();
    volume.ask(&asked).unwrap();
    good(&volume, &source, "app", &commit).await.unwrap();
    until("nothing left over", LONG, || async {
        let left: Vec<PathBuf> = ["shallow.lock", "objects/pack/tmp_pack_killed"]
            .iter()
            .map(|name| mirror.join(name))
            .filter(|path| path.exists())
            .collect();
        Ok(Look::when(left.is_empty(), format!("{left:?}")))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_broken_mirror_and_a_tampered_artifact_are_made_anew() {
    let (_upstreams, upstream, first) = upstream();
    let (volume, mut role) = start(&Extra::default()).await;
    let source = git(&upstream.file_url());
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    volume.ask(&asked).unwrap();
    let held = good(&volume, &source, "app", &first).await.unwrap();

    // Every object of the mirror becomes unreadable.
    let mirror = volume.layout().served.mirror(&source.name());
    spoil(&mirror.join("objects"));
    upstream
        .write_all(&charts::config_map("charts/app", "two"))
        .unwrap();
    let second = upstream.push("main", "Change app").unwrap();
    asked.refresh = "1".into();
    volume.ask(&asked).unwrap();
    content(&volume, &held.artifact).unwrap();
    let good_now = good(&volume, &source, "app", &second).await.unwrap();

    // The reconciler reports an artifact that isn't what its name says.
    let path = volume.layout().served.artifact(&good_now.artifact);
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    fs::write(&path, "tampered").unwrap();
    content(&volume, &good_now.artifact).unwrap_err();
    asked.wants[0].rejected.insert(good_now.artifact.clone());
    volume.ask(&asked).unwrap();
    until("a whole artifact", LONG, || async {
        Ok(Look::when(
            content(&volume, &good_now.artifact).is_ok(),
            "still tampered",
        ))
    })
    .await
    .unwrap();

    // A lost artifact is made anew after a restart, too.
    fs::remove_file(&path).unwrap();
    role.kill().unwrap();
    role.restart().unwrap();
    until("the artifact to return", LONG, || async {
        Ok(Look::when(
            content(&volume, &good_now.artifact).is_ok(),
            "not there",
        ))
    })
    .await
    .unwrap();
}

fn spoil(folder: &std::path::Path) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            spoil(&path);
        } else {
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640))
                .unwrap();
            fs::write(&path, "spoilt").unwrap();
        }
    }
}

#[tokio::test]
async fn a_second_sidecar_on_the_volume_is_refused_in_words() {
    let (volume, mut role) = start(&Extra::default()).await;
    let refused = sidecar(&volume, &Extra::args(["--lock-wait=1s"]))
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("mirror-sidecar.lock") || refused.contains("another"),
        "{refused}"
    );
    assert!(role.is_running().unwrap());
    role.terminate().unwrap();
    sidecar(&volume, &Extra::default())
        .unwrap()
        .ready()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_full_volume_loses_nothing_and_recovers() {
    let (_upstreams, upstream, first) = upstream();
    let volume = Volume::new().unwrap();
    let served = volume.layout().served.root().to_owned();
    let Some(mount) = mounts::available() else {
        return;
    };
    let full = Mount::Sized {
        path: served,
        bytes: 1024 * 1024,
    };
    let mut role = sidecar(&volume, &Extra::default().inside(mount, full)).unwrap();
    role.ready().await.unwrap();
    // The mount is seen by that process alone: look through its eyes.
    let seen = volume.through(role.pid());
    let source = git(&upstream.file_url());
    let mut asked = request(&source, [chart("app", "main", "charts/app")]);
    volume.ask(&asked).unwrap();
    let held = good(&seen, &source, "app", &first).await.unwrap();

    upstream
        .write(
            "charts/app/files/large",
            (0..200).flat_map(blob).collect::<Vec<u8>>(),
        )
        .unwrap();
    upstream.push("main", "Grow").unwrap();
    asked.refresh = "1".into();
    volume.ask(&asked).unwrap();
    until("words about the volume", LONG, || async {
        let log = role.log();
        Ok(Look::when(
            log.contains("No space left") || log.to_lowercase().contains("full"),
            log,
        ))
    })
    .await
    .unwrap();
    content(&seen, &held.artifact).unwrap();
    assert!(role.is_running().unwrap());

    // Upstream shrinks again: nothing has to be restarted or removed by hand.
    upstream
        .run(&["rm", "--quiet", "charts/app/files/large"])
        .unwrap();
    upstream
        .write_all(&charts::config_map("charts/app", "small"))
        .unwrap();
    let third = upstream.push_orphan("main", "Shrink").unwrap();
    asked.refresh = "2".into();
    volume.ask(&asked).unwrap();
    good(&seen, &source, "app", &third).await.unwrap();
}
