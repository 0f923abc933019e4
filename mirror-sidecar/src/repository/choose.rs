//! Which version of a chart a HelmRelease gets. Pure: of the index, of what is asked for, and
//! of what is held.

use semver::Version;
use tandem_shared::manifest::Reason;

use super::Entry;
use crate::range::{self, Range};

/// Versions that are named to somebody who asked for one that isn't there.
const NAMED: usize = 5;

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// The word for machines.
    pub reason: Reason,
    /// What is there instead, and what to do.
    pub message: String,
}

/// The entry that `asked` means: the one with exactly that version, else the newest one that
/// fits. A range never moves back: `held`, which was chosen before, stays until there is a
/// newer one.
///
/// # Errors
/// Says what is there instead.
pub fn choose<'a>(
    entries: &'a [Entry],
    asked: &str,
    held: Option<&str>,
) -> Result<&'a Entry, Miss> {
    let named = |text: &str| entries.iter().find(|entry| entry.version == text);
    if let Some(entry) = named(asked).filter(|_| !asked.is_empty()) {
        return Ok(entry);
    }
    let range = Range::parse(asked).map_err(|error| Miss {
        reason: Reason::InvalidVersion,
        message: error.to_string(),
    })?;
    let fitting = entries.iter().filter(|entry| range.fits(&entry.parsed));
    let best = newest(fitting);
    let held = held.and_then(|text| Some((text, range::exact(text)?)));
    let held = held.filter(|(_, version)| range.fits(version));
    match (best, held) {
        (Some(best), None) => Ok(best),
        (Some(best), Some((_, version))) if is_newer(&best.parsed, &version) => Ok(best),
        (best, Some((text, version))) => match (named(text), best) {
            (Some(entry), _) => Ok(entry),
            (None, Some(best)) if best.parsed.cmp_precedence(&version).is_eq() => Ok(best),
            _ => Err(vanished(text, asked, best)),
        },
        (None, None) => Err(none(entries, asked)),
    }
}

fn is_newer(one: &Version, other: &Version) -> bool {
    one.cmp_precedence(other).is_gt()
}

/// The newest; of those that differ in nothing that orders versions, the first in the index.
fn newest<'a>(entries: impl Iterator<Item = &'a Entry>) -> Option<&'a Entry> {
    entries.reduce(|best, entry| {
        if is_newer(&entry.parsed, &best.parsed) {
            entry
        } else {
            best
        }
    })
}

fn vanished(held: &str, asked: &str, best: Option<&Entry>) -> Miss {
    let rest = match best {
        Some(best) => format!(
            "the newest that is left of {asked:?} is {}, which is older, and nothing moves back by itself; publish {held} again, or write version {}",
            best.version, best.version
        ),
        None => format!("nothing else fits {asked:?}; publish it again, or write another version"),
    };
    Miss {
        reason: Reason::VersionNotFound,
        message: format!("version {held} is gone; what was fetched of it stays; {rest}"),
    }
}

fn none(entries: &[Entry], asked: &str) -> Miss {
    let mut all: Vec<&Entry> = entries.iter().collect();
    all.sort_by(|one, other| other.parsed.cmp(&one.parsed));
    all.dedup_by(|one, other| one.version == other.version);
    let names: Vec<&str> = all
        .iter()
        .take(NAMED)
        .map(|entry| entry.version.as_str())
        .collect();
    let there = match (names.len(), all.len()) {
        (0, _) => "it has none at all that can be read".to_owned(),
        (shown, count) if shown < count => {
            format!("the newest of {count} are {}", names.join(", "))
        }
        _ => format!("there are {}", names.join(", ")),
    };
    let hint = if all.iter().all(|entry| !entry.parsed.pre.is_empty()) && !all.is_empty() {
        "; they are pre-releases, which only a range takes that names one, such as >=0.0.0-0"
    } else {
        ""
    };
    Miss {
        reason: Reason::VersionNotFound,
        message: format!("no version fits {asked:?}; {there}{hint}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(versions: &[&str]) -> Vec<Entry> {
        versions
            .iter()
            .map(|text| Entry::new(text).unwrap())
            .collect()
    }

    fn chosen(versions: &[&str], asked: &str, held: Option<&str>) -> Result<String, Reason> {
        choose(&entries(versions), asked, held)
            .map(|entry| entry.version.clone())
            .map_err(|miss| miss.reason)
    }

    #[test]
    fn the_exact_version_else_the_newest_that_fits() {
        let all = [
            "1.0.0",
            "1.2.0",
            "1.10.0",
            "2.0.0-rc.1",
            "v0.9.0",
            "0.9.1+b2",
            "0.9.1+b1",
        ];
        for (asked, expected) in [
            ("1.2.0", "1.2.0"),
            ("v1.2.0", "1.2.0"),
            ("0.9.0", "v0.9.0"),
            ("v0.9.0", "v0.9.0"),
            ("0.9.1+b1", "0.9.1+b1"),
            ("0.9.1", "0.9.1+b2"),
            ("", "1.10.0"),
            ("*", "1.10.0"),
            ("1.x", "1.10.0"),
            ("~1.2", "1.2.0"),
            ("<1.0.0", "0.9.1+b2"),
            (">0.0.0-0", "2.0.0-rc.1"),
            ("2.0.0-rc.1", "2.0.0-rc.1"),
        ] {
            assert_eq!(
                chosen(&all, asked, None).as_deref(),
                Ok(expected),
                "{asked}"
            );
        }
        assert_eq!(chosen(&all, "3.x", None), Err(Reason::VersionNotFound));
        assert_eq!(chosen(&all, "latest", None), Err(Reason::InvalidVersion));
        assert_eq!(chosen(&[], "", None), Err(Reason::VersionNotFound));
    }

    #[test]
    fn a_range_moves_only_to_what_is_newer() {
        for (versions, held, expected) in [
            // Newer: it moves.
            (&["1.2.0", "1.1.0"][..], "1.1.0", Ok("1.2.0")),
            // The same.
            (&["1.2.0", "1.1.0"], "1.2.0", Ok("1.2.0")),
            // Gone, and only older ones are left: it doesn't move.
            (&["1.1.0"], "1.2.0", Err(Reason::VersionNotFound)),
            (&[], "1.2.0", Err(Reason::VersionNotFound)),
            // Gone, and there is a newer one.
            (&["1.3.0"], "1.2.0", Ok("1.3.0")),
            // What was held no longer fits: the range was edited.
            (&["1.1.0", "2.1.0"], "2.0.0", Ok("1.1.0")),
            (&["1.1.0"], "no version", Ok("1.1.0")),
            // Other builds of one version are no newer ones.
            (&["1.2.0+b2", "1.2.0+b1"], "1.2.0+b1", Ok("1.2.0+b1")),
            (&["1.2.0+b2"], "1.2.0+b1", Ok("1.2.0+b2")),
        ] {
            let found = chosen(versions, "1.x", Some(held));
            assert_eq!(
                found.as_deref(),
                expected.as_ref().map(|v| *v),
                "{versions:?} {held}"
            );
        }
        // An exact version is what it is.
        assert_eq!(
            chosen(&["1.0.0", "1.1.0"], "1.0.0", Some("1.1.0")).as_deref(),
            Ok("1.0.0")
        );
        let gone = choose(&entries(&["1.1.0"]), "1.2.0", Some("1.2.0")).unwrap_err();
        assert!(gone.message.contains("1.2.0 is gone"), "{gone:?}");
    }

    #[test]
    fn a_miss_names_what_is_there() {
        let miss = |versions: &[&str], asked: &str| {
            choose(&entries(versions), asked, None).unwrap_err().message
        };
        let many = miss(
            &["1.0.0", "1.2.0", "1.10.0", "0.9.0", "1.9.0", "1.1.0"],
            "2.x",
        );
        assert!(
            many.contains("of 6 are 1.10.0, 1.9.0, 1.2.0, 1.1.0, 1.0.0"),
            "{many}"
        );
        let few = miss(&["1.0.0-a", "1.0.0-b"], "1.x");
        assert!(
            few.contains("there are 1.0.0-b, 1.0.0-a") && few.contains(">=0.0.0-0"),
            "{few}"
        );
        let back = choose(&entries(&["1.1.0"]), "1.x", Some("1.2.0"))
            .unwrap_err()
            .message;
        assert!(
            back.contains("1.2.0 is gone") && back.contains("write version 1.1.0"),
            "{back}"
        );
    }
}
