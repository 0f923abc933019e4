//! What helm said, made fit for a condition.

use crate::mask::Mask;

/// Characters of a message, at most: it is stored in status, events and files.
const MAX_CHARS: usize = 1024;

/// Helm's last error, without secrets, bounded. Empty if it said nothing.
pub(super) fn of(stderr: &str, mask: &Mask) -> String {
    // Masked before it is cut: half a secret would go unnoticed.
    let masked = mask.apply(stderr);
    let error = last_error(&masked);
    let error = error.trim();
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_error_is_told() {
        let stderr = "level=WARN msg=\"x\"\nError: UPGRADE FAILED: no\nmore\n";
        assert_eq!(of(stderr, &Mask::default()), "UPGRADE FAILED: no\nmore");
        let nested = "Error: INSTALLATION FAILED: template: Error: inner";
        assert_eq!(
            of(nested, &Mask::default()),
            "INSTALLATION FAILED: template: Error: inner"
        );
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
