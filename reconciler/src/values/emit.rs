//! JSON that a YAML reader reads alike.
//!
//! Helm reads everything as YAML, which is no superset of JSON in practice: some characters
//! are refused or changed unless escaped, surrogate pairs and `\/` are no escapes, and a key
//! has a longest length.

use serde_json::{Map, Value};

use super::ValuesError;

/// Longest key with quotes and escapes that a YAML reader takes for a key.
const MAX_KEY: usize = 1024;
/// Characters of a path in an error.
const MAX_PATH: usize = 100;

/// The values as one line of JSON, keys in order.
pub(super) fn json(values: &Map<String, Value>) -> Result<String, ValuesError> {
    let mut out = String::new();
    map(values, &mut out, &mut Vec::new())?;
    Ok(out)
}

fn map<'a>(
    values: &'a Map<String, Value>,
    out: &mut String,
    path: &mut Vec<&'a str>,
) -> Result<(), ValuesError> {
    // Whether a map keeps its order or sorts it is a matter of features far away.
    let mut entries: Vec<_> = values.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    out.push('{');
    for (index, (key, item)) in entries.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        let start = out.len();
        string(key, out);
        let length = out.get(start..).unwrap_or_default().chars().count();
        if length > MAX_KEY {
            let path: String = path.join(".").chars().take(MAX_PATH).collect();
            return Err(ValuesError::KeyTooLong { path, length });
        }
        out.push(':');
        path.push(key);
        value(item, out, path)?;
        path.pop();
    }
    out.push('}');
    Ok(())
}

fn value<'a>(
    item: &'a Value,
    out: &mut String,
    path: &mut Vec<&'a str>,
) -> Result<(), ValuesError> {
    match item {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) => string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                value(item, out, path)?;
            }
            out.push(']');
        }
        Value::Object(entries) => map(entries, out, path)?,
    }
    Ok(())
}

fn string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{0}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn emitted(value: &Value) -> String {
        json(value.as_object().unwrap()).unwrap()
    }

    #[test]
    fn exactly_what_yaml_cannot_carry_raw_is_escaped() {
        let mut escaped = Vec::new();
        for character in '\u{0}'..=char::MAX {
            let text = emitted(&json!({ "k": character.to_string() }));
            if text != format!("{{\"k\":\"{character}\"}}") {
                escaped.push(u32::from(character));
            }
        }
        let expected: Vec<u32> = (0..0x20)
            .chain([0x22, 0x5c])
            .chain(0x7f..0xa0)
            .chain([0x2028, 0x2029, 0xfeff, 0xfffe, 0xffff])
            .collect();
        assert_eq!(escaped, expected);
    }

    #[test]
    fn it_is_json() {
        let values = json!({
            "s": "l1\n l2\n\t\"\\/\u{7f}\u{85}\u{2028}\u{feff}😀", "o": "0777", "y": "yes",
            "n": 12345678, "f": 1.5, "e": 1e300, "big": u64::MAX, "neg": i64::MIN,
            "l": [null, true, {}, []], "": {"": ""},
        });
        assert_eq!(
            serde_json::from_str::<Value>(&emitted(&values)).unwrap(),
            values
        );
    }

    #[test]
    fn our_own_reader_reads_it_as_yaml() {
        let values = json!({
            "s": "l1\n l2\n\t\"\\/\u{7f}\u{85}\u{2028}\u{feff}😀\u{0}", "sha": "123e456",
            "n": 12345678, "f": 1.5, "e": 1e300, "big": u64::MAX, "on": "off",
            "l": [null, true, {}, []], "<<": {"": "~"},
        });
        assert_eq!(
            super::super::read_yaml(emitted(&values).as_bytes()).unwrap(),
            values
        );
    }

    #[test]
    fn keys_beyond_what_yaml_takes_are_refused_in_words() {
        let fits = "k".repeat(MAX_KEY - 2);
        assert!(json(json!({"a": {fits: 1}}).as_object().unwrap()).is_ok());
        for long in ["k".repeat(MAX_KEY - 1), "\"".repeat(MAX_KEY / 2)] {
            let error = json(json!({"a": [{"b": {long: 1}}]}).as_object().unwrap()).unwrap_err();
            assert!(error.to_string().contains("under \"a.b\""), "{error}");
        }
    }
}
