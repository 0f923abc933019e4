//! Keeps the contents of Secrets out of everything that is stored or shown.
//!
//! Helm quotes values in its errors; whatever a child prints goes through a [`Mask`]
//! before it reaches a log, a status, an event or a file.

use data_encoding::BASE64;
use serde_json::Value;

/// Shorter leaves are left alone unless they stand alone: masking every `1` or `on` would
/// make messages unreadable and tell more than it hides.
const MIN_CHARS: usize = 4;

const MASKED: &str = "***";

/// The secrets of one release.
#[derive(Clone, Default)]
pub struct Mask {
    /// Longest first, so that a secret within another doesn't leave the rest of it.
    secrets: Vec<String>,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Mask({} secrets)", self.secrets.len())
    }
}

impl Mask {
    /// Masks every leaf of these values, and the base64 of each.
    #[must_use]
    pub fn of<'a>(secret_values: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut mask = Self::default();
        mask.extend(secret_values);
        mask
    }

    /// Masks every leaf of these values, too.
    pub fn extend<'a>(&mut self, secret_values: impl IntoIterator<Item = &'a Value>) {
        for value in secret_values {
            collect(value, &mut self.secrets);
        }
        self.secrets
            .sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        self.secrets.dedup();
    }

    /// The text without secrets.
    #[must_use]
    pub fn apply(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for secret in &self.secrets {
            if masked.contains(secret.as_str()) {
                masked = masked.replace(secret.as_str(), MASKED);
            }
        }
        masked
    }
}

fn collect(value: &Value, secrets: &mut Vec<String>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => {
            let text = number.to_string();
            if text.len() >= MIN_CHARS {
                for form in as_go_prints(number) {
                    add(&form, secrets);
                }
            }
            add(&text, secrets);
        }
        Value::String(text) => add(text, secrets),
        Value::Array(items) => items.iter().for_each(|item| collect(item, secrets)),
        Value::Object(map) => map.values().for_each(|item| collect(item, secrets)),
    }
}

/// A template has every number as a float, and prints a large one with an exponent.
fn as_go_prints(number: &serde_json::Number) -> Vec<String> {
    let Some(float) = number.as_f64() else {
        return Vec::new();
    };
    let exponential = format!("{float:e}");
    let with_exponent = exponential.split_once('e').map(|(digits, exponent)| {
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        format!("{digits}e{sign}{exponent:0>2}")
    });
    with_exponent
        .into_iter()
        .chain([float.to_string()])
        .collect()
}

fn add(leaf: &str, secrets: &mut Vec<String>) {
    // Helm prints a text with several lines as it is, quoted, as JSON, or line by line.
    let quoted = leaf.escape_default().to_string();
    let json = serde_json::to_string(leaf).unwrap_or_default();
    let json = json.trim_matches('"').to_owned();
    // Go's JSON is fit for HTML.
    let html = json
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026");
    let forms = [leaf.to_owned(), leaf.trim().to_owned(), quoted, json, html];
    let lines = leaf.lines().map(|line| line.trim().to_owned());
    for form in forms.into_iter().chain(lines) {
        if form.chars().count() >= MIN_CHARS {
            for engine in [
                &BASE64,
                &data_encoding::BASE64URL,
                &data_encoding::BASE64_NOPAD,
            ] {
                secrets.push(engine.encode(form.as_bytes()));
            }
            secrets.push(form);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mask(value: &Value) -> Mask {
        Mask::of([value])
    }

    #[test]
    fn leaves_are_masked_plain_and_in_base64() {
        let mask = mask(&json!({"db": {"password": "hunter2secret", "ports": [54321]}}));
        let encoded = BASE64.encode(b"hunter2secret");
        let text = format!("a hunter2secret b {encoded} c 54321 password");
        assert_eq!(mask.apply(&text), "a *** b *** c *** password");
    }

    #[test]
    fn numbers_are_masked_as_go_prints_them() {
        let mask = mask(&json!([8675309123_u64, 12345678.0, -0.00002345]));
        for text in [
            "8675309123",
            "8.675309123e+09",
            "12345678",
            "1.2345678e+07",
            "-2.345e-05",
        ] {
            assert_eq!(mask.apply(text), "***", "{text}");
        }
    }

    #[test]
    fn the_longest_secret_goes_first() {
        let mask = mask(&json!(["secret", "secretly-hidden"]));
        assert_eq!(mask.apply("secretly-hidden and secret"), "*** and ***");
    }

    #[test]
    fn short_leaves_and_flags_are_left_alone() {
        let mask = mask(&json!({"a": "on", "b": true, "c": 1, "d": null, "e": "", "f": "  "}));
        assert_eq!(mask.apply("turn on 1 true null"), "turn on 1 true null");
    }

    #[test]
    fn every_line_and_every_quoting_of_a_key_file_is_masked() {
        let key = "-----BEGIN KEY-----\nabcdefgh\nijklmnop\n-----END KEY-----\n";
        let mask = mask(&json!({ "key": key }));
        for form in [
            key.to_owned(),
            format!("{key:?}"),
            serde_json::to_string(key).unwrap_or_default(),
            "  abcdefgh".to_owned(),
            BASE64.encode(key.as_bytes()),
        ] {
            let masked = mask.apply(&form);
            assert!(!masked.contains("abcdefgh"), "{masked}");
            assert!(!masked.contains(&BASE64.encode(b"abcdefgh")), "{masked}");
        }
    }

    #[test]
    fn json_as_go_writes_it_is_masked() {
        let mask = mask(&json!("a<b>&c\"d"));
        assert_eq!(mask.apply(r#"x a\u003cb\u003e\u0026c\"d y"#), "x *** y");
    }

    #[test]
    fn debug_output_has_no_secrets() {
        assert_eq!(format!("{:?}", Mask::default()), "Mask(0 secrets)");
        assert!(!format!("{:?}", mask(&json!("hunter2secret"))).contains("hunter2"));
    }

    #[test]
    fn more_secrets_can_be_added() {
        let mut mask = mask(&json!("short"));
        mask.extend([&json!("shorter-no-more")]);
        assert_eq!(mask.apply("shorter-no-more, short"), "***, ***");
    }
}
