//! The same files give the same bytes; other bytes are never believed.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests set up what the product must not do by itself"
)]

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tandem_shared::artifact::{Digest, ExtractError, Limits, PackError, Packer, extract};

/// Paths and contents.
type Files<'a> = &'a [(&'a str, &'a [u8])];

fn packed(files: Files<'_>) -> (Digest, Vec<u8>) {
    let mut packer = Packer::new(Limits::default());
    for (path, content) in files {
        packer.file(path, content.to_vec()).unwrap();
    }
    let mut bytes = Vec::new();
    let (digest, size) = packer.pack(&mut bytes).unwrap();
    assert_eq!(size, bytes.len() as u64);
    (digest, bytes)
}

/// Writes `bytes` as an artifact file, and gives it with a folder to be made.
fn stored(bytes: &[u8]) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("a.tar");
    std::fs::write(&file, bytes).unwrap();
    let folder = root.path().join("out");
    (root, file, folder)
}

/// Never change these: they are what volumes and release labels out there hold.
/// Other rules need another version (`t2`) beside them.
#[test]
fn golden_vectors() {
    let long = "d/".repeat(80) + "file";
    let vectors: [(Files<'_>, &str); 4] = [
        (
            &[],
            "t1:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",
        ),
        (
            &[("Chart.yaml", b"name: a\nversion: 1.0.0\n")],
            GOLDEN_CHART,
        ),
        (
            &[
                ("templates/cm.yaml", b"x"),
                ("Chart.yaml", b"y"),
                ("templates/a/b.yaml", b""),
            ],
            GOLDEN_TREE,
        ),
        (&[(&long, b"deep"), ("\u{e4}.txt", b"umlaut")], GOLDEN_LONG),
    ];
    for (files, expected) in vectors {
        assert_eq!(packed(files).0.to_string(), expected, "{files:?}");
    }
}

const GOLDEN_CHART: &str = "t1:2c61d5eaff67992d3cf36b6886adf07c679c849950cd787b66227819a650efc3";
const GOLDEN_TREE: &str = "t1:64c7113ea29b5d4493007f3da3fc7619c9aa38d59e1afabf357797f937491be8";
const GOLDEN_LONG: &str = "t1:18d256d17ed3caa3ccf244cb3e1dffbcb58231fecf65f43784ea5b2db8d59fa7";

#[test]
fn what_was_packed_comes_out_private_and_timeless() {
    let long = "very/long/".repeat(20) + "path.yaml";
    let (digest, bytes) = packed(&[
        ("Chart.yaml", b"name: a"),
        ("templates/cm.yaml", b"hello"),
        (&long, b"deep"),
    ]);
    let (_root, file, folder) = stored(&bytes);
    extract(&file, &digest, &folder, Limits::default()).unwrap();
    assert_eq!(
        std::fs::read(folder.join("templates/cm.yaml")).unwrap(),
        b"hello"
    );
    assert_eq!(std::fs::read(folder.join(long)).unwrap(), b"deep");
    let metadata = std::fs::metadata(folder.join("Chart.yaml")).unwrap();
    assert_eq!(
        (metadata.permissions().mode() & 0o777, metadata.mtime()),
        (0o600, 0)
    );
    assert_eq!(
        std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn a_tampered_artifact_is_refused_and_leaves_nothing() {
    let (digest, bytes) = packed(&[("Chart.yaml", b"name: a"), ("values.yaml", &[b'v'; 2000])]);
    let at = |needle: &[u8]| {
        bytes
            .windows(needle.len())
            .position(|window| window == needle)
            .unwrap()
    };
    let mut content = bytes.clone();
    content[at(b"name: a")] ^= 1;
    let mut appended = bytes.clone();
    appended.extend_from_slice(&[0; 512]);
    let truncated = bytes[..at(b"vvvv") + 100].to_vec();
    for (what, tampered) in [
        ("content", content),
        ("appended", appended),
        ("truncated", truncated),
    ] {
        let (_root, file, folder) = stored(&tampered);
        let error = extract(&file, &digest, &folder, Limits::default()).unwrap_err();
        assert!(error.is_rejection(), "{what}: {error}");
        assert!(!folder.exists(), "{what}");
    }
}

#[test]
fn a_swapped_link_is_refused() {
    let (digest, bytes) = packed(&[("Chart.yaml", b"name: a")]);
    let (root, file, folder) = stored(&bytes);
    let link = root.path().join("link.tar");
    symlink(&file, &link).unwrap();
    let error = extract(&link, &digest, &folder, Limits::default()).unwrap_err();
    assert!(matches!(error, ExtractError::Unreadable(_)), "{error}");
    assert!(
        error.to_string().contains("link.tar is no regular file"),
        "{error}"
    );
}

#[test]
fn an_artifact_of_links_or_escapes_is_refused() {
    let entry = |path: &str, kind: tar::EntryType, link: &str| {
        let mut header = tar::Header::new_gnu();
        // Written raw: the library itself would refuse such a path.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_size(0);
        if !link.is_empty() {
            header.set_link_name(link).unwrap();
        }
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, std::io::empty()).unwrap();
        builder.into_inner().unwrap()
    };
    let evil = [
        entry("values.yaml", tar::EntryType::Symlink, "/etc/passwd"),
        entry("values.yaml", tar::EntryType::Link, "Chart.yaml"),
        entry("pipe", tar::EntryType::Fifo, ""),
        entry("../out.yaml", tar::EntryType::Regular, ""),
        entry("/etc/x", tar::EntryType::Regular, ""),
        entry("a/../../x", tar::EntryType::Regular, ""),
    ];
    for bytes in evil {
        let digest = sha256(&bytes);
        let (root, file, folder) = stored(&bytes);
        let error = extract(&file, &digest, &folder, Limits::default()).unwrap_err();
        assert!(matches!(error, ExtractError::Refused { .. }), "{error}");
        assert_eq!(
            std::fs::read_dir(root.path()).unwrap().count(),
            1,
            "{error}"
        );
    }
}

fn sha256(bytes: &[u8]) -> Digest {
    use sha2::Digest as _;
    format!(
        "t1:{}",
        data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(bytes))
    )
    .parse()
    .unwrap()
}

#[test]
fn limits_hold_on_both_sides() {
    let small = Limits {
        bytes: 10,
        entries: 2,
    };
    let mut packer = Packer::new(small);
    assert!(matches!(
        packer.file("a", vec![0; 11]),
        Err(PackError::TooLarge { .. })
    ));
    let (digest, bytes) = packed(&[("a", &[0; 11])]);
    let (_root, file, folder) = stored(&bytes);
    assert!(matches!(
        extract(&file, &digest, &folder, small),
        Err(ExtractError::Refused { .. })
    ));
    let (digest, bytes) = packed(&[("a", b""), ("b", b""), ("c", b"")]);
    let (_root, file, folder) = stored(&bytes);
    assert!(matches!(
        extract(&file, &digest, &folder, small),
        Err(ExtractError::Refused { .. })
    ));
}

#[test]
fn paths_that_leave_or_clash_are_refused() {
    let mut packer = Packer::new(Limits::default());
    for bad in ["", "/a", "a//b", "./a", "a/..", "../a", "a\nb"] {
        assert!(
            matches!(packer.file(bad, vec![]), Err(PackError::Path(_))),
            "{bad:?}"
        );
    }
    packer.file("a", vec![]).unwrap();
    assert!(matches!(packer.file("a", vec![]), Err(PackError::Clash(_))));
    packer.file("a/b", vec![]).unwrap();
    assert!(matches!(
        packer.pack(std::io::sink()),
        Err(PackError::Clash(_))
    ));
}

#[test]
fn digests_read_as_they_are_written() {
    let (digest, _) = packed(&[]);
    assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
    assert_eq!(Digest::from_file_name(&digest.file_name()), Some(digest));
    for bad in [
        "",
        "t1",
        "t1:",
        "x1:00",
        "t1:../../etc/passwd",
        &format!("t1:{}", "A".repeat(64)),
        &format!("t:{}", "a".repeat(64)),
    ] {
        assert!(bad.parse::<Digest>().is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn any_tree_comes_back(files in proptest::collection::btree_map("[a-c]{1,3}(/[d-f]{1,4}){0,4}", proptest::collection::vec(any::<u8>(), 0..600), 0..12)) {
        let mut packer = Packer::new(Limits::default());
        for (path, content) in &files {
            packer.file(path, content.clone()).unwrap();
        }
        let mut bytes = Vec::new();
        // A file where a folder is needed is refused; everything else works.
        if let Ok((digest, _)) = packer.pack(&mut bytes) {
            let (_root, file, folder) = stored(&bytes);
            extract(&file, &digest, &folder, Limits::default()).unwrap();
            for (path, content) in &files {
                prop_assert_eq!(&std::fs::read(folder.join(path)).unwrap(), content);
            }
        }
    }
}

#[test]
fn the_sum_on_the_volume_checks_with_ordinary_tools() {
    let (digest, bytes) = packed(&[("Chart.yaml", b"name: a")]);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let sum = std::process::Command::new("sha256sum")
        .arg(file.path())
        .output()
        .unwrap();
    assert!(
        String::from_utf8(sum.stdout)
            .unwrap()
            .starts_with(digest.hex())
    );
    assert!(
        Path::new(&digest.file_name())
            .extension()
            .is_some_and(|extension| extension == "tar")
    );
}
