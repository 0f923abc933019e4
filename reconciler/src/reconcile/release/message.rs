//! What helm said, made fit for a condition.

use crate::mask::Mask;

/// Characters of a message, at most: it is stored in status, events and files.
const MAX_CHARS: usize = 1024;

/// What helm begins an error with, and whoever tells of it has said already.
const SAID: [&str; 2] = ["INSTALLATION FAILED: ", "UPGRADE FAILED: "];

/// Helm's last error, without secrets, bounded, in one line: a log line and a column of
/// kubectl are no more. Empty if it said nothing.
pub(super) fn of(stderr: &str, mask: &Mask) -> String {
    // Masked before it is cut: half a secret would go unnoticed.
    let masked = mask.apply(stderr);
    let error = one_line(last_error(&masked));
    let error = SAID
        .iter()
        .find_map(|said| error.strip_prefix(said))
        .unwrap_or(&error);
    if error.chars().count() <= MAX_CHARS {
        return error.to_owned();
    }
    let mut cut: String = error.chars().take(MAX_CHARS - 1).collect();
    cut.push('…');
    cut
}

/// From the last line on that begins an error; everything if none does.
fn last_error(text: &str) -> &str {
    const START: &str = "Error: ";
    let line = match text.rfind(&format!("\n{START}")) {
        Some(newline) => text.get(newline + 1..).unwrap_or_default(),
        None => text,
    };
    line.strip_prefix(START).unwrap_or(line)
}

fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut joined = String::with_capacity(text.len());
    for line in lines {
        let separator = match joined.chars().last() {
            None => "",
            Some(':' | ';' | ',') => " ",
            Some(_) => "; ",
        };
        joined.push_str(separator);
        joined.push_str(line);
    }
    joined
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_error_is_told() {
        let stderr = "level=WARN msg=\"x\"\nError: UPGRADE FAILED: no\nmore\n";
        assert_eq!(of(stderr, &Mask::default()), "no; more");
        let nested = "Error: INSTALLATION FAILED: template: Error: inner";
        assert_eq!(of(nested, &Mask::default()), "template: Error: inner");
        let listed = "Error: these failed:\n- a\n\n- b\n";
        assert_eq!(of(listed, &Mask::default()), "these failed: - a; - b");
        assert_eq!(of("killed\n", &Mask::default()), "killed");
        assert_eq!(of("", &Mask::default()), "");
    }

    #[test]
    fn a_secret_at_the_cut_is_masked_whole() {
        let mask = Mask::of([&json!("hunter2hunter2")]);
        for padding in MAX_CHARS - 20..MAX_CHARS + 2 {
            let stderr = format!("Error: {} hunter2hunter2 tail", "x".repeat(padding));
            let message = of(&stderr, &mask);
            assert!(message.chars().count() <= MAX_CHARS);
            assert!(!message.contains("hun"), "{padding}");
        }
    }
}
