//! Any prefix of a publish, killed, leaves the old or the new file, whole.
//!
//! The test runs itself as a child that publishes step by step and dies where
//! it is told to, without a chance to clean up.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests set up what the product must not do by itself"
)]

use std::io::Write;
use std::path::Path;
use std::process::Command;

use tandem_shared::publish::{self, Audience, Staged, TEMPORARY_PREFIX};

const STEPS: usize = 5;
const OLD: &[u8] = b"old and whole";

fn new_content() -> Vec<u8> {
    b"new and whole, ".repeat(100_000)
}

/// The steps of `publish::bytes`, one at a time.
fn publish_until(folder: &Path, last: usize) {
    let die_after = |step| {
        if step == last {
            // Like kill -9: no destructor, no flush.
            std::process::abort();
        }
    };
    let content = new_content();
    let mut staged = Staged::begin(folder).unwrap();
    die_after(0);
    staged.write_all(&content[..content.len() / 2]).unwrap();
    die_after(1);
    staged.write_all(&content[content.len() / 2..]).unwrap();
    die_after(2);
    staged.settle(Audience::Group).unwrap();
    die_after(3);
    staged.commit("file").unwrap();
    die_after(4);
}

#[test]
fn child_that_dies() {
    let (Ok(folder), Ok(last)) = (std::env::var("PUBLISH_IN"), std::env::var("PUBLISH_UNTIL"))
    else {
        return;
    };
    publish_until(Path::new(&folder), last.parse().unwrap());
}

#[test]
fn a_killed_publish_leaves_a_whole_file() {
    let new = new_content();
    for last in 0..STEPS {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        publish::bytes(&file, OLD, Audience::Group).unwrap();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_dies"])
            .env("PUBLISH_IN", folder.path())
            .env("PUBLISH_UNTIL", last.to_string())
            .output()
            .unwrap()
            .status;
        assert!(
            !status.success(),
            "the child should have died after step {last}"
        );
        let expected: &[u8] = if last < STEPS - 1 { OLD } else { &new };
        assert!(
            std::fs::read(&file).unwrap() == expected,
            "after step {last}"
        );

        let temporary = |entry: std::io::Result<std::fs::DirEntry>| {
            let name = entry.unwrap().file_name();
            name.to_string_lossy().starts_with(TEMPORARY_PREFIX)
        };
        let left = std::fs::read_dir(folder.path())
            .unwrap()
            .map(temporary)
            .filter(|temporary| *temporary)
            .count();
        assert_eq!(
            left,
            usize::from(last < STEPS - 1),
            "left after step {last}"
        );
        assert_eq!(publish::sweep(folder.path()).unwrap(), left);
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "swept after step {last}"
        );
        publish::bytes(&file, b"next", Audience::Group).unwrap();
    }
}

#[test]
fn readers_never_see_a_part_while_writers_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    publish::bytes(&file, OLD, Audience::Group).unwrap();
    let new = new_content();
    for round in 0..20_u32 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_publishes_for_ever"])
            .env("PUBLISH_FOR_EVER_IN", folder.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Look at it while it works, then kill it at a moment that nobody chose.
        let mut looks_left = u32::MAX;
        while looks_left > 0 {
            let content = std::fs::read(&file).unwrap();
            assert!(
                content == OLD || content == new,
                "a part of {} bytes",
                content.len()
            );
            if content == new && looks_left == u32::MAX {
                looks_left = 37 * round + 1;
            }
            looks_left -= u32::from(looks_left != u32::MAX);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let content = std::fs::read(&file).unwrap();
        assert!(content == OLD || content == new);
    }
    publish::sweep(folder.path()).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn child_that_publishes_for_ever() {
    let Ok(folder) = std::env::var("PUBLISH_FOR_EVER_IN") else {
        return;
    };
    let file = Path::new(&folder).join("file");
    let new = new_content();
    // Not really for ever: nobody kills it if the test itself is killed.
    for _ in 0..50_000 {
        publish::bytes(&file, &new, Audience::Group).unwrap();
        publish::bytes(&file, OLD, Audience::Group).unwrap();
    }
}

#[test]
fn equal_json_is_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.json");
    assert!(publish::json(&file, &serde_json::json!({"a": 1})).unwrap());
    assert!(!publish::json(&file, &serde_json::json!({"a": 1})).unwrap());
    assert!(publish::json(&file, &serde_json::json!({"a": 2})).unwrap());
}

#[test]
fn what_is_no_file_is_neither_read_nor_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.json");
    // Reading a pipe that nobody writes to would never end.
    assert!(
        Command::new("mkfifo")
            .arg(&file)
            .status()
            .unwrap()
            .success()
    );
    assert!(publish::json(&file, &serde_json::json!({"a": 1})).unwrap());
    assert!(std::fs::symlink_metadata(&file).unwrap().is_file());
}

#[test]
fn modes_let_the_group_read_and_nobody_else() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    for (audience, folder_mode, file_mode) in [
        (Audience::Group, 0o2750, 0o640),
        (Audience::Owner, 0o700, 0o600),
    ] {
        let folder = root.path().join(format!("{audience:?}"));
        publish::folder(&folder, audience).unwrap();
        publish::bytes(&folder.join("f"), b"x", audience).unwrap();
        assert_eq!(mode(&folder), folder_mode);
        assert_eq!(mode(&folder.join("f")), file_mode);
    }
}

#[test]
fn a_refusal_names_the_path() {
    let error = publish::bytes(Path::new("/nowhere/at/all"), b"", Audience::Group).unwrap_err();
    assert!(error.to_string().contains("/nowhere/at"), "{error}");
}

#[test]
fn a_swapped_folder_is_the_new_one() {
    let root = tempfile::tempdir().unwrap();
    let (old, new) = (root.path().join("m.git"), root.path().join("m.new"));
    for (folder, text) in [(&old, "old"), (&new, "new")] {
        publish::folder(folder, Audience::Owner).unwrap();
        publish::bytes(&folder.join("f"), text.as_bytes(), Audience::Owner).unwrap();
    }
    publish::swap_folder(&new, &old).unwrap();
    assert_eq!(std::fs::read_to_string(old.join("f")).unwrap(), "new");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn a_scratch_folder_is_private_and_goes_with_its_work_or_at_the_next_start() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let scratch = publish::Scratch::begin(folder.path()).unwrap();
    let file = scratch.write("chart/Chart.yaml", b"x").unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(scratch.path()) & 0o777, 0o700);
    assert_eq!(mode(&file) & 0o777, 0o600);
    scratch.write("chart/Chart.yaml", b"y").unwrap_err();
    let path = scratch.path().to_owned();
    drop(scratch);
    assert!(!path.exists());
    std::mem::forget(publish::Scratch::begin(folder.path()).unwrap());
    assert_eq!(publish::sweep(folder.path()).unwrap(), 1);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
