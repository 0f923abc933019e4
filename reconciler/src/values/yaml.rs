//! Reads a YAML text as helm does: the first document, YAML 1.1 words, merge keys, and the
//! last of equal keys.

use std::collections::HashMap;

use data_encoding::BASE64;
use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::{Map, Value};

use super::scalar::{Scalar, resolve};

/// Deepest nesting: deeper values can't be carried as JSON either.
const MAX_DEPTH: usize = 100;
/// Most nodes with aliases expanded: a few lines can ask for billions.
const MAX_NODES: usize = 1_000_000;
/// Most bytes of a text; an object of the API holds less.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// A text that isn't YAML, or asks for too much. Never quotes the text.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum YamlError {
    /// Not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// Longer than anything sane.
    #[error("it has more than {} MiB", MAX_BYTES / 1024 / 1024)]
    TooLong,
    /// Wrong at this place.
    #[error("line {line}, column {column}: {what}")]
    At {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        what: &'static str,
    },
}

/// The first document of the text; null if there is none.
pub(super) fn read(text: &[u8]) -> Result<Value, YamlError> {
    if text.len() > MAX_BYTES {
        return Err(YamlError::TooLong);
    }
    let text = std::str::from_utf8(text).map_err(|_| YamlError::NotUtf8)?;
    let mut options = Options::default();
    options.set_emit_comments(false);
    let parser = Parser::new_from_str_with_options(text, options);
    let mut reader = Reader {
        events: parser,
        anchors: HashMap::new(),
        nodes: 0,
    };
    reader.document()
}

struct Reader<I> {
    events: I,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

/// A node: as a value, and, if it is a scalar, also as a key.
#[derive(Clone)]
struct Node {
    value: Value,
    key: Option<String>,
    /// An unquoted `<<`.
    merges: bool,
    size: usize,
}

impl<'input, I> Reader<I>
where
    I: Iterator<Item = Result<(Event<'input>, Span), ScanError>>,
{
    fn document(&mut self) -> Result<Value, YamlError> {
        loop {
            match self.next()? {
                None | Some((Event::StreamEnd | Event::DocumentEnd, _)) => return Ok(Value::Null),
                Some((Event::StreamStart | Event::DocumentStart(..), _)) => {}
                Some((event, span)) => return Ok(self.node(event, &span, 0)?.value),
            }
        }
    }

    fn next(&mut self) -> Result<Option<(Event<'input>, Span)>, YamlError> {
        self.events.next().transpose().map_err(|error| {
            let marker = error.marker();
            // The parser's own words may quote the text, which may be secret.
            let what = "this is not valid YAML";
            YamlError::At {
                line: marker.line(),
                column: marker.col() + 1,
                what,
            }
        })
    }

    /// The next event of a collection that isn't finished.
    fn within(&mut self) -> Result<(Event<'input>, Span), YamlError> {
        let end = || YamlError::At {
            line: 0,
            column: 0,
            what: "it ends in the middle",
        };
        self.next()?.ok_or_else(end)
    }

    fn node(&mut self, event: Event<'input>, span: &Span, depth: usize) -> Result<Node, YamlError> {
        if depth > MAX_DEPTH {
            return Err(at(span, "it is nested too deeply"));
        }
        let (anchor, node) = match event {
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                (
                    0,
                    node.ok_or_else(|| at(span, "an alias refers to what contains it"))?,
                )
            }
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, scalar(&text, style, tag.as_deref(), span)?)
            }
            Event::SequenceStart(_, anchor, _) => (anchor, self.sequence(depth)?),
            Event::MappingStart(_, anchor, _) => (anchor, self.mapping(depth)?),
            _ => return Err(at(span, "this is not valid YAML")),
        };
        self.nodes += node.size;
        if self.nodes > MAX_NODES {
            return Err(at(span, "its aliases expand to too much"));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn sequence(&mut self, depth: usize) -> Result<Node, YamlError> {
        let (mut items, mut size) = (Vec::new(), 1);
        loop {
            match self.within()? {
                (Event::SequenceEnd, _) => break,
                (event, span) => {
                    let node = self.node(event, &span, depth + 1)?;
                    size += node.size;
                    items.push(node.value);
                }
            }
        }
        Ok(Node {
            value: Value::Array(items),
            key: None,
            merges: false,
            size,
        })
    }

    fn mapping(&mut self, depth: usize) -> Result<Node, YamlError> {
        let (mut map, mut size) = (Map::new(), 1);
        loop {
            let (event, span) = self.within()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let key = self.node(event, &span, depth + 1)?;
            let (event, value_span) = self.within()?;
            let value = self.node(event, &value_span, depth + 1)?;
            size += key.size + value.size;
            if key.merges {
                merge(&mut map, value.value, &value_span)?;
            } else {
                let key = key
                    .key
                    .ok_or_else(|| at(&span, "this can't be a key of values"))?;
                map.insert(key, value.value);
            }
        }
        Ok(Node {
            value: Value::Object(map),
            key: None,
            merges: false,
            size,
        })
    }
}

/// A merge key takes effect where it stands: over what comes before it, under what follows.
fn merge(map: &mut Map<String, Value>, from: Value, span: &Span) -> Result<(), YamlError> {
    let no_map = || at(span, "only maps can be merged with <<");
    match from {
        Value::Object(entries) => map.extend(entries),
        Value::Array(items) => {
            for item in items.into_iter().rev() {
                let Value::Object(entries) = item else {
                    return Err(no_map());
                };
                map.extend(entries);
            }
        }
        _ => return Err(no_map()),
    }
    Ok(())
}

fn scalar(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    span: &Span,
) -> Result<Node, YamlError> {
    let wrong_tag = || at(span, "this is not what its tag says");
    let plain = style == ScalarStyle::Plain;
    let mut merges = false;
    let scalar = match tag.map(|tag| tag.suffix_in_namespace("tag:yaml.org,2002:")) {
        None if plain => {
            merges = text == "<<";
            resolve(text)
        }
        // A local tag, `!`, or quotes: text it is.
        None | Some(None) => Scalar::Text(text.to_string()),
        Some(Some(kind)) => match (&*kind, resolve(text)) {
            ("null", Scalar::Null) => Scalar::Null,
            ("bool", Scalar::Bool(flag)) => Scalar::Bool(flag),
            ("int", number @ (Scalar::Int(_) | Scalar::Big(_))) => number,
            ("float", Scalar::Float(number)) => Scalar::Float(number),
            #[expect(clippy::cast_precision_loss, reason = "what the tag asks for")]
            ("float", Scalar::Int(number)) => Scalar::Float(number as f64),
            ("null" | "bool" | "int" | "float", _) => return Err(wrong_tag()),
            ("binary", _) => {
                let packed: String = text.chars().filter(|c| !c.is_whitespace()).collect();
                let bytes = BASE64.decode(packed.as_bytes()).map_err(|_| wrong_tag())?;
                Scalar::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
            ("merge", _) => {
                merges = true;
                Scalar::Text(text.to_string())
            }
            _ => Scalar::Text(text.to_string()),
        },
    };
    let key = scalar.clone().key();
    let value = match (scalar.value(), &key) {
        (Some(value), _) => value,
        (None, _) => return Err(at(span, "JSON has no such number")),
    };
    Ok(Node {
        value,
        key,
        merges,
        size: 1,
    })
}

fn at(span: &Span, what: &'static str) -> YamlError {
    YamlError::At {
        line: span.start.line(),
        column: span.start.col() + 1,
        what,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[derive(serde::Deserialize)]
    struct Vector {
        yaml: String,
        /// Left out where the text is refused.
        #[serde(default, deserialize_with = "present")]
        json: Option<Value>,
    }

    fn present<'de, D: serde::Deserializer<'de>>(json: D) -> Result<Option<Value>, D::Error> {
        serde::Deserialize::deserialize(json).map(Some)
    }

    /// Numbers as helm's templates see them: all of double precision.
    fn as_floats(value: Value) -> Value {
        match value {
            Value::Number(number) => number
                .as_f64()
                .and_then(serde_json::Number::from_f64)
                .map_or(Value::Null, Value::Number),
            Value::Array(items) => items.into_iter().map(as_floats).collect(),
            Value::Object(map) => map
                .into_iter()
                .map(|(key, value)| (key, as_floats(value)))
                .collect(),
            other => other,
        }
    }

    /// The vectors are what `sigs.k8s.io/yaml` 1.6.0, which helm uses, makes of each text.
    #[test]
    fn texts_are_read_as_helm_reads_them() {
        let vectors: Vec<Vector> = serde_json::from_str(include_str!("yaml_vectors.json")).unwrap();
        let mut wrong = Vec::new();
        for Vector { yaml, json } in vectors {
            let ours = read(yaml.as_bytes()).ok().map(as_floats);
            let helms = json.map(as_floats);
            if ours != helms {
                wrong.push(format!("{yaml:?}: ours {ours:?}, helm's {helms:?}"));
            }
        }
        assert!(
            wrong.is_empty(),
            "{} differ:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }

    /// YAML 1.2 takes these; helm's reader never sees them, since it gets our JSON.
    #[test]
    fn a_few_texts_are_taken_that_helm_refuses() {
        for text in ["\ta: 1", "a: \"\\/\"", "a: x\u{85}y"] {
            assert!(read(text.as_bytes()).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn integers_stay_integers() {
        let read = |text: &str| read(text.as_bytes()).unwrap().to_string();
        assert_eq!(
            read("[12345678, 9223372036854775807]"),
            "[12345678,9223372036854775807]"
        );
        assert_eq!(read("18446744073709551615"), "18446744073709551615");
    }

    #[test]
    fn what_asks_for_too_much_is_refused() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(read(deep.as_bytes()).is_err());
        let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..10 {
            let alias = format!("*a{}", level - 1);
            let aliases = vec![alias; 10].join(", ");
            laughs.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        let error = read(laughs.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("aliases expand"), "{error}");
        assert_eq!(read(&vec![b' '; MAX_BYTES + 1]), Err(YamlError::TooLong));
        assert_eq!(read(b"a: \xff"), Err(YamlError::NotUtf8));
    }

    #[test]
    fn errors_say_where() {
        let error = read(b"a: 1\nb: {\n").unwrap_err();
        assert!(matches!(error, YamlError::At { line: 2.., .. }), "{error}");
        let error = read(b"a: 1\nb: !!int x\n").unwrap_err();
        assert!(matches!(error, YamlError::At { line: 2, .. }), "{error:?}");
    }
}
