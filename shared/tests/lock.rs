//! Two processes contend for each lock; one is killed while its child lives;
//! the other gets the lock when the child is gone, and not before.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests set up what the product must not do by itself"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tandem_shared::child::{self, Cancel, Limits};
use tandem_shared::layout::Volume;
use tandem_shared::lock::{self, LockError};
use tandem_shared::source::{Source, SourceKind};

fn every_lock(volume: &Volume) -> Vec<PathBuf> {
    let source = Source {
        kind: SourceKind::Git,
        url: "file:///r.git".into(),
        credential: None,
    }
    .name();
    vec![
        volume.wanted.role_lock(),
        volume.served.role_lock(),
        volume.served.mirror_lock(&source),
        volume.wanted.release_lock("demo", "web"),
    ]
}

fn volume() -> (tempfile::TempDir, Volume) {
    let root = tempfile::tempdir().unwrap();
    let volume = Volume::at(root.path());
    for folder in volume
        .wanted
        .folders()
        .iter()
        .chain(&volume.served.folders())
    {
        std::fs::create_dir_all(folder).unwrap();
    }
    (root, volume)
}

/// Starts this test as a process that takes the lock, then runs a child that
/// inherits it and copies its standard input until that ends.
fn holder(lock: &Path, fifo: &Path) -> (Child, String) {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process_that_holds", "--nocapture"])
        .env("HOLD", lock)
        .env("HOLD_FIFO", fifo)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    while !line.contains("held") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the holder ended");
    }
    (process, line)
}

#[test]
fn process_that_holds() {
    let (Ok(path), Ok(fifo)) = (std::env::var("HOLD"), std::env::var("HOLD_FIFO")) else {
        return;
    };
    let guard = lock::try_acquire(Path::new(&path)).unwrap();
    // The child shields itself from the parent-death signal: the lock has to
    // outlive a parent whose child takes its time to end.
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "trap '' TERM; echo held > \"$0.ready\"; read line < \"$0\"",
        &fifo,
    ]);
    std::thread::spawn(move || {
        while !Path::new(&format!("{fifo}.ready")).exists() {
            std::thread::yield_now();
        }
        println!("held");
        std::io::stdout().flush().unwrap();
    });
    let limits = Limits {
        deadline: Duration::from_secs(60),
        output: 1024,
    };
    child::run(command, b"", Some(&guard), &limits, &Cancel::new().unwrap()).unwrap();
}

#[test]
fn a_lock_outlives_its_holder_until_the_child_is_gone() {
    let (root, volume) = volume();
    for path in every_lock(&volume) {
        let fifo = root.path().join(format!(
            "fifo-{}",
            path.file_name().unwrap().to_string_lossy()
        ));
        assert!(
            Command::new("mkfifo")
                .arg(&fifo)
                .status()
                .unwrap()
                .success()
        );
        let (mut process, _) = holder(&path, &fifo);

        assert!(matches!(
            lock::try_acquire(&path),
            Err(LockError::Held { .. })
        ));
        assert!(lock::is_held(&path).unwrap());
        process.kill().unwrap();
        process.wait().unwrap();
        // The parent is gone, its child isn't.
        assert!(matches!(
            lock::acquire_within(&path, Duration::from_millis(200)),
            Err(LockError::Held { .. })
        ));

        std::fs::write(&fifo, "end\n").unwrap();
        let guard = lock::acquire_within(&path, Duration::from_secs(30)).unwrap();
        assert!(lock::is_held(&path).unwrap());
        drop(guard);
        assert!(!lock::is_held(&path).unwrap());
    }
}

#[test]
fn a_lock_file_that_was_replaced_is_locked_anew() {
    let (_root, volume) = volume();
    let path = volume.wanted.role_lock();
    let first = lock::try_acquire(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // The old descriptor holds a file that nobody can find any more.
    let second = lock::try_acquire(&path).unwrap();
    assert!(matches!(
        lock::try_acquire(&path),
        Err(LockError::Held { .. })
    ));
    drop((first, second));
}

#[test]
fn a_bounded_wait_ends_in_words() {
    let (_root, volume) = volume();
    let path = volume.wanted.role_lock();
    let _guard = lock::try_acquire(&path).unwrap();
    let error = lock::acquire_within(&path, Duration::from_millis(60))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("reconciler.lock is held by another process, still after"),
        "{error}"
    );
    assert!(!lock::is_held(Path::new("/nowhere/x.lock")).unwrap());
}
