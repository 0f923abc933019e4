#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use tandem_shared::manifest::Reason;
use tar::{Builder, Header};

use super::*;

const LIMITS: Limits = Limits {
    bytes: 10_000,
    entries: 20,
};
const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.2.3\n";

/// Entries by name (as it is, whatever it holds) and kind; of files the content.
fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (name, kind, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        header.set_mtime(7);
        if header.as_gnu_mut().unwrap().name.len() > name.len() {
            // Past the builder's own checks: nobody who attacks uses them.
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            if *kind == EntryType::Symlink || *kind == EntryType::Link {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
            tar.append(&header, *content).unwrap();
        } else {
            tar.append_data(&mut header, name, *content).unwrap();
        }
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn files(entries: &[(&str, &str)]) -> Vec<u8> {
    let all: Vec<_> = entries
        .iter()
        .map(|(name, content)| (*name, EntryType::Regular, content.as_bytes()))
        .collect();
    archive(&all)
}

fn refused(archive: &[u8]) -> ArchiveError {
    unpack(archive, LIMITS).unwrap_err()
}

#[test]
fn a_chart_comes_without_the_folder_that_it_was_packed_in() {
    let long = format!("web/{}", "x".repeat(180));
    let packed = archive(&[
        ("web/", EntryType::Directory, b""),
        ("web/Chart.yaml", EntryType::Regular, CHART.as_bytes()),
        ("web/templates/./a.yaml", EntryType::Regular, b"a"),
        (&long, EntryType::Regular, b"long"),
        ("web\\templates\\b.yaml", EntryType::Regular, b"b"),
        ("web/charts/lib/Chart.yaml", EntryType::Regular, b"old"),
        ("web/charts/lib/Chart.yaml", EntryType::Regular, b"lib"),
    ]);
    let unpacked = unpack(packed.as_slice(), LIMITS).unwrap();
    assert_eq!(unpacked.chart.name.name, "web");
    assert_eq!(unpacked.chart.name.version, "1.2.3");
    let expected = [
        ("Chart.yaml", CHART),
        ("charts/lib/Chart.yaml", "lib"),
        ("templates/a.yaml", "a"),
        ("templates/b.yaml", "b"),
        (&long[4..], "long"),
    ];
    let expected = expected.map(|(path, content)| (path.to_owned(), content.as_bytes().to_vec()));
    assert_eq!(unpacked.files, BTreeMap::from(expected));
}

#[test]
fn the_same_files_are_the_same_artifact_however_they_were_packed() {
    let one = files(&[("web/Chart.yaml", CHART), ("web/values.yaml", "a: 1")]);
    let other = files(&[("x/values.yaml", "a: 1"), ("x/Chart.yaml", CHART)]);
    assert_ne!(one, other);
    let [one, other] = [one, other].map(|packed| {
        let unpacked = unpack(packed.as_slice(), LIMITS).unwrap();
        let packer = unpacked.packer(LIMITS).unwrap();
        packer.pack(std::io::sink()).unwrap()
    });
    assert_eq!(one, other);
}

#[test]
fn nothing_leads_out_of_the_chart() {
    for name in [
        "web/../../etc/passwd",
        "web/templates/../../x",
        "/etc/passwd",
        "C:\\x",
        "Chart.yaml",
        "web/\u{7}x",
        "web/.",
    ] {
        let error = refused(&files(&[("web/Chart.yaml", CHART), (name, "x")]));
        assert_eq!(error.reason(), Reason::InvalidPath, "{name}: {error}");
    }
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Fifo,
        EntryType::Char,
        EntryType::Block,
    ] {
        let error = refused(&archive(&[("web/x", kind, b"")]));
        assert_eq!(error.reason(), Reason::InvalidLink, "{kind:?}: {error}");
    }
}

#[test]
fn what_it_grows_to_has_an_end() {
    let many: Vec<String> = (0..21).map(|at| format!("web/{at}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(refused(&files(&many)).reason(), Reason::TooLarge);
    let large = "x".repeat(10_001);
    let error = refused(&files(&[("web/Chart.yaml", CHART), ("web/x", &large)]));
    assert_eq!(error.reason(), Reason::TooLarge, "{error}");
    assert!(error.to_string().contains("--max-chart-bytes"), "{error}");
    // Bytes that belong to no file: a name of 100 MB, and one that ends nowhere.
    for size in [100_000_000_u64, u64::MAX / 4] {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::GNULongName);
        header.set_size(size);
        header.set_path("././@LongLink").unwrap();
        header.set_cksum();
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(header.as_bytes()).unwrap();
        for _ in 0..100 {
            packed.write_all(&[b'x'; 10_000]).unwrap();
        }
        let error = refused(&packed.finish().unwrap());
        assert_eq!(error.reason(), Reason::TooLarge, "{error}");
    }
}

#[test]
fn what_is_no_chart_is_said_in_words() {
    let page = refused(b"<!DOCTYPE html>\n<title>Login</title>");
    assert!(page.to_string().contains("DOCTYPE"), "{page}");
    assert_eq!(page.reason(), Reason::InvalidChart);
    assert!(matches!(refused(b""), ArchiveError::NotGzip(_)));

    let whole = files(&[("web/Chart.yaml", CHART)]);
    let half = refused(&whole[..whole.len() / 2]);
    assert!(matches!(half, ArchiveError::Broken(_)), "{half}");
    let mut bad = whole;
    let at = bad.len() / 2;
    bad[at] ^= 0xff;
    assert_eq!(refused(&bad).reason(), Reason::InvalidChart);

    let none = refused(&files(&[("web/chart.yaml", CHART)]));
    assert!(matches!(none, ArchiveError::NoChart(1)), "{none}");
    let empty = refused(&archive(&[]));
    assert!(matches!(empty, ArchiveError::NoChart(0)), "{empty}");
    let odd = refused(&files(&[("web/Chart.yaml", "name: ../x\nversion: 1\n")]));
    assert_eq!(odd.reason(), Reason::InvalidChart, "{odd}");
    let clash = files(&[
        ("web/Chart.yaml", CHART),
        ("web/a", "file"),
        ("web/a/b", "below a file"),
    ]);
    let clash = unpack(clash.as_slice(), LIMITS)
        .unwrap()
        .packer(LIMITS)
        .unwrap();
    let error = clash.pack(std::io::sink()).unwrap_err().to_string();
    assert!(error.contains("want the path"), "{error}");
}

#[test]
fn what_was_left_out_when_it_was_packed_is_not_left_out_of_charts_within() {
    let alone = [("web/Chart.yaml", CHART), ("web/.helmignore", "files/\n")];
    let within = [alone[0], alone[1], ("web/charts/lib/files/x", "x")];
    let ignore = |entries: &[(&str, &str)]| {
        let unpacked = unpack(files(entries).as_slice(), LIMITS).unwrap();
        let packer = unpacked.packer(LIMITS).unwrap();
        packer.get(".helmignore").is_some()
    };
    // The file itself stays where it has nothing to do: a release that was made of the same
    // archive has it, too.
    assert!(ignore(&alone) && !ignore(&within));
}

#[test]
fn what_an_archive_is_costs_no_more_than_to_read_so_far() {
    let filler = "x".repeat(6_000);
    let first = files(&[("web/Chart.yaml", CHART), ("web/more", &filler)]);
    let last = files(&[("web/more", &filler), ("web/Chart.yaml", CHART)]);
    let mut left = LIMITS.bytes;
    for _ in 0..3 {
        let chart = described(first.as_slice(), LIMITS, &mut left).unwrap();
        assert_eq!(chart.name.version, "1.2.3");
    }
    assert!(left > 6_000, "{left}");
    described(last.as_slice(), LIMITS, &mut left).unwrap();
    for archive in [last, first] {
        let error = described(archive.as_slice(), LIMITS, &mut left).unwrap_err();
        assert!(matches!(error, ArchiveError::TooLarge(_)), "{error:?}");
        left = 0;
    }
    let none = files(&[("web/values.yaml", "a: 1")]);
    let mut left = LIMITS.bytes;
    let error = described(none.as_slice(), LIMITS, &mut left).unwrap_err();
    assert!(matches!(error, ArchiveError::NoChart(1)), "{error:?}");
}
