//! Whether a record that carries no label of ours holds just what is wanted.
//!
//! Asked once, when a release is taken over (from helm-operator, from a person, or from an
//! earlier way of ours to compute identities). Helm's record doesn't hold subcharts, so that
//! a chart with any can't be proved the same: it is upgraded once.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use data_encoding::BASE64;
use serde_json::{Map, Number, Value};

use crate::storage::Record;
use crate::values::{merge, read_yaml};

/// Directories deeper than this aren't looked into.
const MAX_DEPTH: usize = 32;

/// Whether the record's chart and values are those of `chart` (a directory) and `values`.
/// With `reset` false, values that the record holds beyond `values` would be kept anyway.
///
/// # Errors
/// If the chart can't be read.
pub fn same(
    record: &Record,
    chart: &Path,
    values: &Map<String, Value>,
    reset: bool,
) -> io::Result<bool> {
    Ok(same_values(record.config(), values, reset) && same_chart(record.chart(), chart)?)
}

fn same_values(recorded: Map<String, Value>, values: &Map<String, Value>, reset: bool) -> bool {
    let wanted = if reset {
        values.clone()
    } else {
        let mut kept = recorded.clone();
        merge(&mut kept, values.clone());
        kept
    };
    as_floats(Value::Object(recorded)) == as_floats(Value::Object(wanted))
}

fn same_chart(recorded: &Value, directory: &Path) -> io::Result<bool> {
    let mut files = BTreeMap::new();
    if !collect(directory, "", &mut files, 0)? {
        return Ok(false);
    }
    let yaml = |file: Option<Vec<u8>>| file.map_or(Some(Value::Null), |text| read_yaml(&text).ok());
    let Some(metadata) = yaml(files.remove("Chart.yaml")) else {
        return Ok(false);
    };
    let Some(defaults) = yaml(files.remove("values.yaml")) else {
        return Ok(false);
    };
    let same_metadata = ["name", "version", "appVersion"].into_iter().all(|field| {
        let recorded = recorded.pointer(&format!("/metadata/{field}"));
        same_word(recorded.unwrap_or(&Value::Null), &metadata[field])
    });
    let recorded_defaults = recorded.get("values").cloned().unwrap_or_default();
    let same_schema = recorded
        .get("schema")
        .and_then(Value::as_str)
        .unwrap_or_default()
        == files
            .remove("values.schema.json")
            .map_or(String::new(), |file| BASE64.encode(&file));
    // A lock pins dependencies, and a chart with any isn't compared.
    files.remove("Chart.lock");
    Ok(same_metadata
        && same_schema
        && as_floats(empty_if_null(recorded_defaults)) == as_floats(empty_if_null(defaults))
        && files == recorded_files(recorded))
}

/// Templates and other files of the record, by name.
fn recorded_files(chart: &Value) -> BTreeMap<String, Vec<u8>> {
    let lists = ["templates", "files"]
        .into_iter()
        .filter_map(|list| chart.get(list)?.as_array());
    let files = lists.flatten().filter_map(|file| {
        let name = file.get("name")?.as_str()?.to_owned();
        let data = file.get("data").and_then(Value::as_str).unwrap_or_default();
        Some((name, BASE64.decode(data.as_bytes()).ok()?))
    });
    files.filter(|(name, _)| name != "Chart.lock").collect()
}

/// Reads a chart's files, as far as helm does by itself; false if there are subcharts.
fn collect(
    directory: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, Vec<u8>>,
    depth: usize,
) -> io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if name == "charts" || depth > MAX_DEPTH {
            return Ok(false);
        }
        if entry.file_type()?.is_dir() {
            if !collect(&entry.path(), &format!("{name}/"), files, depth + 1)? {
                return Ok(false);
            }
        } else if !name.starts_with("templates/.") {
            files.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(true)
}

/// Helm reads a version that looks like a number as text.
fn same_word(recorded: &Value, written: &Value) -> bool {
    match (recorded, written) {
        (Value::Null, Value::String(word)) | (Value::String(word), Value::Null) => word.is_empty(),
        (Value::String(word), Value::Number(number)) => word.parse().ok() == number.as_f64(),
        (recorded, written) => recorded == written,
    }
}

fn empty_if_null(value: Value) -> Value {
    if value.is_null() {
        Value::Object(Map::new())
    } else {
        value
    }
}

/// Numbers as Helm records them: `1` and `1.0` are one.
fn as_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => number
            .as_f64()
            .and_then(Number::from_f64)
            .map_or(Value::Null, Value::Number),
        Value::Array(items) => items.into_iter().map(as_floats).collect(),
        Value::Object(map) => map
            .into_iter()
            .map(|(key, item)| (key, as_floats(item)))
            .collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    // Charts of a test are no files of the volume.
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]

    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::storage::tests::record;

    fn chart(files: &[(&str, &str)]) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    const FILES: &[(&str, &str)] = &[
        (
            "Chart.yaml",
            "apiVersion: v2\nname: app\nversion: 0.1.0\nappVersion: 1.0\n",
        ),
        ("values.yaml", "replicas: 1\nlist: [1, 2]\n"),
        ("values.schema.json", "{}"),
        ("templates/cm.yaml", "kind: ConfigMap"),
        ("templates/.hidden", "left out by helm"),
        ("files/x", "x"),
        (".helmignore", "*.bak\n"),
    ];

    fn recorded(config: Value) -> Record {
        let file =
            |name: &str, text: &str| json!({"name": name, "data": BASE64.encode(text.as_bytes())});
        record(json!({
            "info": {},
            "config": config,
            "chart": {
                "metadata": {"name": "app", "version": "0.1.0", "appVersion": "1", "apiVersion": "v2"},
                "values": {"replicas": 1.0, "list": [1, 2]},
                "schema": BASE64.encode(b"{}"),
                "templates": [file("templates/cm.yaml", "kind: ConfigMap")],
                "files": [file(".helmignore", "*.bak\n"), file("files/x", "x")],
            },
        }))
    }

    fn is_same(files: &[(&str, &str)], config: Value, values: Value, reset: bool) -> bool {
        let chart = chart(files);
        same(
            &recorded(config),
            chart.path(),
            values.as_object().unwrap(),
            reset,
        )
        .unwrap()
    }

    #[test]
    fn the_same_chart_and_values_are_known() {
        assert!(is_same(FILES, json!({"a": 1}), json!({"a": 1.0}), true));
        assert!(is_same(FILES, json!(null), json!({}), true));
    }

    #[test]
    fn any_changed_file_is_noticed() {
        for index in 0..FILES.len() {
            let (name, text) = FILES[index];
            let changed = match name {
                "Chart.yaml" => text.replace("0.1.0", "0.1.1"),
                "values.yaml" => text.replace("replicas: 1", "replicas: 2"),
                _ => format!("{text} "),
            };
            let mut files = FILES.to_vec();
            files[index].1 = &changed;
            let left_out_by_helm = name == "templates/.hidden";
            assert_eq!(
                is_same(&files, json!({}), json!({}), true),
                left_out_by_helm,
                "{name}"
            );
            files.remove(index);
            assert_eq!(
                is_same(&files, json!({}), json!({}), true),
                left_out_by_helm,
                "no {name}"
            );
        }
        let more = [FILES, &[("files/y", "y")]].concat();
        assert!(!is_same(&more, json!({}), json!({}), true));
    }

    #[test]
    fn a_chart_with_subcharts_is_never_proved_the_same() {
        let more = [FILES, &[("charts/sub/Chart.yaml", "name: sub")]].concat();
        assert!(!is_same(&more, json!({}), json!({}), true));
    }

    #[test]
    fn kept_values_do_not_count_when_they_are_reused() {
        let (config, values) = (json!({"a": 1, "kept": {"b": 2}}), json!({"a": 1}));
        assert!(!is_same(FILES, config.clone(), values.clone(), true));
        assert!(is_same(FILES, config.clone(), values, false));
        assert!(!is_same(FILES, config, json!({"a": 2}), false));
    }
}
