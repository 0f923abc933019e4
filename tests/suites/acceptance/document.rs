//! The documents.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/acceptance/documents")
}

/// The text of a document.
pub(crate) fn text(name: &str) -> String {
    let file = folder().join(format!("{name}.yaml"));
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The document as Kubernetes reads it. Its YAML is older than ours: `yes` and `off` are
/// words for booleans there.
pub(crate) fn read(name: &str) -> Value {
    let mut document: Value = serde_saphyr::from_str(&text(name)).unwrap();
    if name == "types" {
        let values = &mut document["spec"]["values"];
        values["truth"] = json!(true);
        values["falsehood"] = json!(false);
    }
    document
}

/// The names of all documents.
pub(crate) fn names() -> BTreeSet<String> {
    let files = std::fs::read_dir(folder()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names
        .map(|name| name.strip_suffix(".yaml").unwrap_or(&name).to_owned())
        .collect()
}
