//! A child ends when it should, with all that it started.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests set up what the product must not do by itself"
)]

use std::process::Command;
use std::time::{Duration, Instant};

use tandem_shared::child::{self, Cancel, End, Limits, Outcome};

fn sh(script: &str, input: &[u8], deadline: Duration, cancel: &Cancel) -> Outcome {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    child::run(
        command,
        input,
        None,
        &Limits {
            deadline,
            output: 4096,
        },
        cancel,
    )
    .unwrap()
}

const LONG: Duration = Duration::from_secs(60);

fn never() -> Cancel {
    Cancel::new().unwrap()
}

#[test]
fn input_and_outputs_pass() {
    let outcome = sh("cat; echo oops >&2; exit 3", b"hello", LONG, &never());
    assert_eq!(
        (
            outcome.end,
            outcome.stdout.as_slice(),
            outcome.stderr.as_str()
        ),
        (End::Exited(3), b"hello".as_slice(), "oops")
    );
}

#[test]
fn a_conversation_goes_in_turns() {
    // `read` of a shell takes a byte at a time; this reader takes all it gets.
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "dd bs=4096 count=1 2>/dev/null; dd bs=4096 count=1 2>/dev/null",
    ]);
    let limits = Limits {
        deadline: LONG,
        output: 4096,
    };
    let parts: [&[u8]; 2] = [b"first ", b"second"];
    let outcome = child::converse(command, &parts, None, &limits, &never()).unwrap();
    assert_eq!(outcome.stdout, b"first second");
}

#[test]
fn large_input_and_output_do_not_block_each_other() {
    let input = vec![b'x'; 1 << 20];
    let outcome = sh("cat", &input, LONG, &never());
    assert!(outcome.success());
    assert_eq!(outcome.stdout, vec![b'x'; 4096]);
    assert!(outcome.truncated);
    // One that doesn't read its input ends all the same.
    assert!(sh("exit 0", &input, LONG, &never()).success());
}

#[test]
fn of_errors_the_end_is_kept() {
    let outcome = sh(
        "i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done",
        b"",
        LONG,
        &never(),
    );
    assert!(outcome.stderr.starts_with("… "), "{}", outcome.stderr);
    assert!(outcome.stderr.ends_with("line 1999"));
}

#[test]
fn the_deadline_ends_the_whole_group() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let script = format!("sleep 600 & echo $! > {}; wait", pid_file.display());
    let outcome = sh(&script, b"", Duration::from_millis(300), &never());
    assert_eq!(outcome.end, End::TimedOut);
    let pid = std::fs::read_to_string(pid_file).unwrap();
    assert!(ends(pid.trim()), "the grandchild {pid} lives on");
}

/// Whether the process ends: a killed one takes a moment. A zombie that waits
/// for its reaper counts as gone.
fn ends(pid: &str) -> bool {
    let begun = Instant::now();
    let running = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status
            .lines()
            .any(|line| line.starts_with("State:") && !line.contains('Z'))
    };
    while running() {
        if begun.elapsed() > LONG {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

#[test]
fn a_cancelled_child_ends_as_cancelled() {
    let cancel = never();
    let other = cancel.clone();
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let script = format!("touch {}; sleep 600", ready.display());
    let canceller = std::thread::spawn(move || {
        while !ready.exists() {
            std::thread::yield_now();
        }
        other.cancel();
    });
    assert_eq!(sh(&script, b"", LONG, &cancel).end, End::Cancelled);
    canceller.join().unwrap();
    // What is no longer wanted isn't begun either, beyond its first breath.
    assert_eq!(sh("sleep 600", b"", LONG, &cancel).end, End::Cancelled);
}

#[test]
fn what_a_child_leaves_in_the_background_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let outcome = sh(
        &format!("sleep 600 & echo $! > {}", pid_file.display()),
        b"",
        LONG,
        &never(),
    );
    assert!(outcome.success());
    let pid = std::fs::read_to_string(pid_file).unwrap();
    assert!(ends(pid.trim()), "the grandchild {pid} lives on");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let error = child::run(
        Command::new("no-such-program"),
        b"",
        None,
        &Limits {
            deadline: LONG,
            output: 1,
        },
        &never(),
    )
    .unwrap_err();
    assert!(error.to_string().contains("no-such-program"), "{error}");
}

#[test]
fn a_confined_child_writes_no_large_file_and_takes_no_more_memory() {
    let folder = tempfile::tempdir().unwrap();
    let run = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(folder.path());
        child::confine(&mut command, 64 * 1024, 64 * 1024 * 1024);
        let limits = Limits {
            deadline: LONG,
            output: 4096,
        };
        child::run(command, b"", None, &limits, &never()).unwrap()
    };
    let outcome = run("dd if=/dev/zero of=small bs=1024 count=64 2>&1");
    assert!(outcome.success(), "{outcome:?}");
    let outcome = run("exec dd if=/dev/zero of=large bs=1024 count=65");
    assert!(!outcome.success(), "{outcome:?}");
    let large = std::fs::metadata(folder.path().join("large")).unwrap();
    assert_eq!(large.len(), 64 * 1024);
    // One block of that size is what it copies with.
    let outcome = run("exec dd if=/dev/zero of=/dev/null bs=128M count=1");
    assert!(!outcome.success(), "{outcome:?}");
}
