//! The values of a release: gathered texts in, one JSON text for helm out.
//!
//! Pure: what a ConfigMap, Secret or file says is handed in as a [`Layer`].

mod emit;
mod scalar;
mod yaml;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::mask::Mask;

pub use yaml::YamlError;

/// One source of values, as it was found.
#[derive(Clone)]
pub struct Layer {
    /// What it is, for people: `key "values.yaml" of ConfigMap demo/common`.
    pub origin: String,
    /// The release goes on without it if it is missing or not a map in YAML.
    pub optional: bool,
    /// It is of a Secret: its leaves are masked wherever helm's output is shown.
    pub secret: bool,
    /// What was found.
    pub content: Content,
}

/// What was found of a source of values.
#[derive(Clone)]
pub enum Content {
    /// A YAML text.
    Text(Vec<u8>),
    /// Nothing: the object, key or file is missing, for this reason.
    Missing(String),
}

impl std::fmt::Debug for Layer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match &self.content {
            Content::Text(bytes) => format!("{} bytes", bytes.len()),
            Content::Missing(reason) => format!("missing: {reason}"),
        };
        write!(formatter, "Layer({}: {what})", self.origin)
    }
}

/// The values of a release.
#[derive(Clone)]
pub struct Values {
    text: Arc<str>,
    map: Map<String, Value>,
    mask: Mask,
}

impl std::fmt::Debug for Values {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Values({} bytes)", self.text.len())
    }
}

/// Values that helm can't be given.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ValuesError {
    /// A source that isn't optional is missing.
    #[error("could not find {origin}: {reason}; create it, or mark it optional")]
    Missing {
        /// The source.
        origin: String,
        /// Why.
        reason: String,
    },
    /// A source that isn't optional is no YAML.
    #[error("{origin} is not valid YAML: {error}")]
    Yaml {
        /// The source.
        origin: String,
        /// What is wrong, without quoting it.
        error: YamlError,
    },
    /// A source that isn't optional, or `spec.values`, is YAML but no map.
    #[error("{origin} must be a map of values, but is {found}")]
    NotAMap {
        /// The source.
        origin: String,
        /// What it is.
        found: &'static str,
    },
    /// A key that YAML can't carry.
    #[error(
        "the values have a key of {length} characters under {path:?}; helm reads keys of at \
         most 1,024 characters, quotes and escapes included"
    )]
    KeyTooLong {
        /// Where, cut to a readable length.
        path: String,
        /// Its length as written.
        length: usize,
    },
}

impl Values {
    /// Merges the layers in their order, the later over the earlier, and `inline` over all.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn compose(layers: &[Layer], inline: Option<&Value>) -> Result<Self, ValuesError> {
        let mut map = Map::new();
        let mut secrets = Vec::new();
        for layer in layers {
            match layer.read() {
                Ok(values) => {
                    if layer.secret {
                        secrets.push(Value::Object(values.clone()));
                    }
                    merge(&mut map, values);
                }
                Err(_) if layer.optional => {}
                Err(error) => return Err(error),
            }
        }
        match inline {
            None | Some(Value::Null) => {}
            Some(Value::Object(values)) => merge(&mut map, values.clone()),
            Some(other) => {
                let origin = "spec.values".to_owned();
                return Err(ValuesError::NotAMap {
                    origin,
                    found: kind(other),
                });
            }
        }
        let text = emit::json(&map)?.into();
        Ok(Self {
            text,
            map,
            mask: Mask::of(&secrets),
        })
    }

    /// The values as helm gets them on standard input: JSON that YAML reads alike, the same
    /// text for the same values.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The merged values.
    #[must_use]
    pub fn map(&self) -> &Map<String, Value> {
        &self.map
    }

    /// Masks what came from Secrets.
    #[must_use]
    pub fn mask(&self) -> &Mask {
        &self.mask
    }
}

impl Layer {
    fn read(&self) -> Result<Map<String, Value>, ValuesError> {
        let origin = || self.origin.clone();
        let bytes = match &self.content {
            Content::Text(bytes) => bytes,
            Content::Missing(reason) => {
                return Err(ValuesError::Missing {
                    origin: origin(),
                    reason: reason.clone(),
                });
            }
        };
        match yaml::read(bytes).map_err(|error| ValuesError::Yaml {
            origin: origin(),
            error,
        })? {
            Value::Null => Ok(Map::new()),
            Value::Object(map) => Ok(map),
            other => Err(ValuesError::NotAMap {
                origin: origin(),
                found: kind(&other),
            }),
        }
    }
}

/// As helm merges `-f a -f b`: maps are merged, anything else takes the place of what was
/// there. A null stays, so that it can unset a default of the chart.
pub(crate) fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (Some(old), new) => *old = new,
            (None, new) => {
                into.insert(key, new);
            }
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// Reads a `values.yaml` of a chart as helm does.
///
/// # Errors
/// If it isn't YAML.
pub fn read_yaml(text: &[u8]) -> Result<Value, YamlError> {
    yaml::read(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn layer(text: &str) -> Layer {
        Layer {
            origin: "key \"values.yaml\" of ConfigMap demo/common".into(),
            optional: false,
            secret: false,
            content: Content::Text(text.into()),
        }
    }

    fn missing() -> Layer {
        Layer {
            content: Content::Missing("there is no such ConfigMap".into()),
            ..layer("")
        }
    }

    fn compose(layers: &[Layer], inline: Value) -> Result<Value, ValuesError> {
        Values::compose(layers, Some(&inline)).map(|values| Value::Object(values.map().clone()))
    }

    #[test]
    fn later_layers_win_and_inline_values_most() {
        let layers = [
            layer("a: 1\nm: {p: 1, q: 1}\nl: [1, 2]"),
            layer("a: 2\nm: {q: 2}\nl: [3]"),
        ];
        let inline = json!({"a": 3, "m": {"z": 3}});
        assert_eq!(
            compose(&layers, inline).unwrap(),
            json!({"a": 3, "m": {"p": 1, "q": 2, "z": 3}, "l": [3]})
        );
    }

    #[test]
    fn null_takes_the_place_and_stays() {
        let layers = [
            layer("m: {a: 1, b: 2}\no: {a: 1}"),
            layer("m: {a: null}\no: ~"),
        ];
        let expected = json!({"m": {"a": null, "b": 2}, "o": null});
        assert_eq!(compose(&layers, json!(null)).unwrap(), expected);
        let layers = [layer("o: ~"), layer("o: {a: 1}")];
        assert_eq!(compose(&layers, json!({})).unwrap(), json!({"o": {"a": 1}}));
    }

    #[test]
    fn maps_and_other_things_replace_each_other() {
        let layers = [layer("a: {x: 1}\nb: 1"), layer("a: 1\nb: {x: 1}")];
        assert_eq!(
            compose(&layers, json!({})).unwrap(),
            json!({"a": 1, "b": {"x": 1}})
        );
    }

    #[test]
    fn empty_texts_and_no_values_are_empty_maps() {
        for text in ["", "\n", "# nothing\n", "---\n", "null", "{}"] {
            assert_eq!(
                compose(&[layer(text)], json!(null)).unwrap(),
                json!({}),
                "{text:?}"
            );
        }
        assert_eq!(&**Values::compose(&[], None).unwrap().text(), "{}");
    }

    #[test]
    fn a_missing_source_is_an_error_unless_optional() {
        let error = compose(&[missing()], json!({})).unwrap_err().to_string();
        assert!(
            error.contains("ConfigMap demo/common") && error.contains("optional"),
            "{error}"
        );
        let optional = Layer {
            optional: true,
            ..missing()
        };
        assert_eq!(
            compose(&[optional], json!({"a": 1})).unwrap(),
            json!({"a": 1})
        );
    }

    #[test]
    fn bad_yaml_is_an_error_unless_optional() {
        for text in ["a: [", "- 1", "text", "a: .inf", "{[1]: 2}"] {
            assert!(compose(&[layer(text)], json!({})).is_err(), "{text:?}");
            let optional = Layer {
                optional: true,
                ..layer(text)
            };
            assert_eq!(
                compose(&[optional], json!({})).unwrap(),
                json!({}),
                "{text:?}"
            );
        }
    }

    #[test]
    fn errors_never_quote_a_source() {
        for text in [
            "hunter2: [",
            "- hunter2",
            "hunter2",
            "a: *hunter2",
            "{a: !!int hunter2}",
        ] {
            let error = compose(&[layer(text)], json!({})).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn inline_values_must_be_a_map() {
        for value in [json!([1]), json!("a"), json!(1), json!(true)] {
            let error = compose(&[], value).unwrap_err();
            assert!(
                error.to_string().starts_with("spec.values must be a map"),
                "{error}"
            );
        }
    }

    #[test]
    fn only_secrets_are_masked() {
        let secret = Layer {
            secret: true,
            ..layer("password: hunter2")
        };
        let values = Values::compose(&[secret, layer("host: example.org")], None).unwrap();
        let masked = values.mask().apply("hunter2@example.org");
        assert_eq!(masked, "***@example.org");
        assert!(!format!("{values:?}").contains("hunter2"));
    }

    #[test]
    fn the_text_does_not_depend_on_the_order_of_keys() {
        let one = Values::compose(&[layer("b: 1\na: {d: 1, c: 2}")], None).unwrap();
        let other = Values::compose(&[layer("a: {c: 2, d: 1}\nb: 1")], None).unwrap();
        assert_eq!(one.text(), other.text());
        assert_eq!(&**one.text(), r#"{"a":{"c":2,"d":1},"b":1}"#);
    }
}
