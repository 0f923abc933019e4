//! What the pages call by name is there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// All Rust text below a folder.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|end| end == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// What stands between each two `mark`s of a text.
fn between(text: &str, mark: char) -> impl Iterator<Item = &str> {
    text.split(mark).skip(1).step_by(2)
}

#[test]
fn the_migration_page_names_tests_rows_and_files_that_exist() {
    let page = fs::read_to_string(root().join("MIGRATION.md")).unwrap();
    let mut code = String::new();
    for folder in [
        "shared/src",
        "shared/tests",
        "mirror-sidecar/src",
        "reconciler/src",
        "reconciler/tests",
        "tests/suites",
    ] {
        sources(&root().join(folder), &mut code);
    }
    let mut named = BTreeSet::new();
    // What shows a claim stands in the last cell of its line, or in brackets.
    for line in page.lines().filter(|line| !line.contains("---")) {
        let cell = line.trim_end_matches('|').rsplit('|').next().unwrap();
        for word in between(cell, '`') {
            let is_test = word.matches('_').count() > 2
                && word
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            let is_metric = word.starts_with("helm_operator_") || word.starts_with("tandem_");
            if is_test && !is_metric {
                assert!(code.contains(&format!("fn {word}(")), "test {word}");
                named.insert(word);
            } else if word.contains('/') && word.ends_with(".rs") {
                assert!(root().join(word).is_file(), "file {word}");
            }
        }
        let rows = ["row \"", "rows \""]
            .iter()
            .find_map(|start| cell.find(start));
        for row in between(&cell[rows.unwrap_or(cell.len())..], '"') {
            assert!(code.contains(&format!("when(\"{row}\")")), "row {row}");
            named.insert(row);
        }
    }
    assert!(named.len() > 40, "only {} are found", named.len());
}

#[test]
fn the_readme_explains_every_reason_of_the_contract() {
    let schema = fs::read_to_string(root().join("shared/schemas/manifest.schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let mut reasons = BTreeSet::new();
    for form in schema["$defs"]["Reason"]["anyOf"].as_array().unwrap() {
        let words = form["enum"].as_array().into_iter().flatten();
        let words = words.chain(form.get("const"));
        reasons.extend(words.filter_map(serde_json::Value::as_str));
    }
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let part = page.split("### What the reasons mean").nth(1).unwrap();
    let part = part.split("\n#").next().unwrap();
    let explained: BTreeSet<&str> = part
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    assert_eq!(explained, reasons);
}
