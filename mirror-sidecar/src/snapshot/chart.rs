//! What a chart says about itself.

use serde::{Deserialize, Deserializer};
use tandem_shared::manifest::ChartName;

use super::SnapshotError;

/// Bytes of a version or range, at most.
const TEXT: usize = 256;

/// What `Chart.yaml` says, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChartFile {
    /// Its name and version.
    pub name: ChartName,
    /// What it depends on.
    pub dependencies: Vec<Dependency>,
}

/// One entry of `dependencies`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Dependency {
    /// The chart's name.
    #[serde(default, deserialize_with = "text")]
    pub name: String,
    /// A version or a range.
    #[serde(default, deserialize_with = "text")]
    pub version: String,
    /// Where it comes from; empty: it lies in `charts/`.
    #[serde(default, deserialize_with = "text")]
    pub repository: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(default, deserialize_with = "text")]
    name: String,
    #[serde(default, deserialize_with = "text")]
    version: String,
    #[serde(default)]
    dependencies: Option<Vec<Dependency>>,
}

#[derive(Deserialize)]
struct RawRequirements {
    #[serde(default, deserialize_with = "said")]
    dependencies: Option<Vec<Dependency>>,
}

/// That there are none, if the key stands there without a value: to Helm that isn't the same
/// as no key.
fn said<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Dependency>>, D::Error> {
    let said: Option<Vec<Dependency>> = Option::deserialize(from)?;
    Ok(Some(said.unwrap_or_default()))
}

/// A text; nothing, if the key stands there without a value.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Reads `Chart.yaml`.
///
/// # Errors
/// If it isn't YAML of that shape, or its name can't be a chart's.
pub(crate) fn read(content: &[u8], path: &str) -> Result<ChartFile, SnapshotError> {
    let bad = |why: String| SnapshotError::BadChart {
        path: path.to_owned(),
        why,
    };
    let raw: Raw = yaml(content).map_err(bad)?;
    if raw.name.is_empty() {
        return Err(bad("it has no `name`".to_owned()));
    }
    if raw.version.is_empty() {
        return Err(bad("it has no `version`".to_owned()));
    }
    if !is_name(&raw.name) {
        return Err(bad(format!(
            "its name {:?} isn't one for a chart: letters, digits, `-`, `_` and `.` only",
            raw.name
        )));
    }
    if raw.version.len() > TEXT {
        return Err(bad(format!("its version has more than {TEXT} bytes")));
    }
    let dependencies = raw.dependencies.unwrap_or_default();
    check(&dependencies).map_err(bad)?;
    Ok(ChartFile {
        name: ChartName {
            name: raw.name,
            version: raw.version,
        },
        dependencies,
    })
}

/// Reads `requirements.yaml`, where charts of the old kind have what they depend on, and locks
/// of both kinds. None if it says nothing of dependencies.
///
/// # Errors
/// If it isn't YAML of that shape.
pub(crate) fn read_requirements(
    content: &[u8],
    path: &str,
) -> Result<Option<Vec<Dependency>>, SnapshotError> {
    let bad = |why| SnapshotError::BadChart {
        path: path.to_owned(),
        why,
    };
    let raw: RawRequirements = yaml(content).map_err(bad)?;
    check(raw.dependencies.as_deref().unwrap_or_default()).map_err(bad)?;
    Ok(raw.dependencies)
}

/// What a dependency says ends up in messages and manifests.
fn check(dependencies: &[Dependency]) -> Result<(), String> {
    for dependency in dependencies {
        let Dependency {
            name,
            version,
            repository,
        } = dependency;
        if !is_name(name) {
            let shown: String = name.chars().take(80).collect();
            return Err(format!(
                "its dependency {shown:?} has no name that a chart can have"
            ));
        }
        if [version, repository]
            .iter()
            .any(|text| text.chars().any(char::is_control))
        {
            return Err(format!(
                "its dependency {name:?} has control characters in its version or repository"
            ));
        }
        if version.len() > TEXT || repository.len() > 4 * TEXT {
            return Err(format!(
                "its dependency {name:?} has a version or repository that is too long"
            ));
        }
    }
    Ok(())
}

fn yaml<T: for<'de> Deserialize<'de>>(content: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(content).map_err(|_| "it isn't UTF-8 text".to_owned())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // As Helm reads it: of a key that is there twice, the last one counts.
    let options =
        serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let said = error.to_string();
        said.lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(300)
            .collect()
    })
}

/// Whether a chart may be called so: its name becomes a folder's.
#[must_use]
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 250
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_says_name_version_and_dependencies() {
        let text = "apiVersion: v2\nname: web\nversion: 1.2.3\nappVersion: 1.0\nkeywords: [a]\ndependencies:\n- name: lib\n  version: ^1\n  repository: file://../lib\n  condition: lib.enabled\n- {name: in-tree, version: '1'}\n";
        let chart = read(text.as_bytes(), "Chart.yaml").unwrap();
        assert_eq!(
            (chart.name.name.as_str(), chart.name.version.as_str()),
            ("web", "1.2.3")
        );
        assert_eq!(chart.dependencies.len(), 2);
        assert_eq!(chart.dependencies[1].repository, "");
    }

    #[test]
    fn of_a_key_that_is_there_twice_the_last_counts() {
        let text = b"name: a\nversion: 1.0.0\nversion: 2.0.0\n";
        assert_eq!(read(text, "Chart.yaml").unwrap().name.version, "2.0.0");
    }

    #[test]
    fn a_version_that_looks_like_a_number_is_text() {
        assert_eq!(
            read(b"name: a\nversion: 1.10\n", "Chart.yaml")
                .unwrap()
                .name
                .version,
            "1.10"
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, expected) in [
            ("name: a\n", "no `version`"),
            ("version: 1.0.0\n", "no `name`"),
            ("name: ../../etc\nversion: 1.0.0\n", "isn't one for a chart"),
            ("name: ..\nversion: 1.0.0\n", "isn't one for a chart"),
            ("[", "Chart.yaml"),
            ("just text", "Chart.yaml"),
            ("", "Chart.yaml"),
        ] {
            let error = read(text.as_bytes(), "charts/a/Chart.yaml")
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(
            read(b"\xff\xfe", "Chart.yaml")
                .unwrap_err()
                .to_string()
                .contains("UTF-8")
        );
    }

    #[test]
    fn keys_may_stand_there_without_a_value() {
        let text = "apiVersion:\nname: a\nversion: 1.0.0\ndependencies:\n- {name: lib, version: , repository: }\n- name: x\n  repository: ~\n";
        let chart = read(text.as_bytes(), "Chart.yaml").unwrap();
        for dependency in chart.dependencies {
            assert_eq!((&*dependency.version, &*dependency.repository), ("", ""));
        }
    }

    /// As helm 3 and 4 take them: none is said to be asked for, or nothing is said.
    #[test]
    fn requirements_may_be_empty() {
        for (text, said) in [
            ("dependencies: []\n", true),
            ("dependencies:\n", true),
            ("{}\n", false),
            ("", false),
        ] {
            let read = read_requirements(text.as_bytes(), "r").unwrap();
            assert_eq!(read, said.then(Vec::new), "{text}");
        }
    }
}
