//! `semver:<range>`: the newest tag within a range of versions. Pure functions.
//!
//! A tag is a version if it is one in full (`1.4.0`, `v1.4.0`, `1.4.0-rc.1`);
//! `v1` and `2024` are not, since they would stand for versions that nobody
//! gave. What a range stands for moves only to a newer version: a tag that is
//! gone takes nobody back to an older one. A tag that was moved is followed,
//! as it is when it is asked for by its name.

use std::collections::BTreeMap;

use semver::Version;

use super::refs::{Found, Listing};
use crate::range::Range;

/// What a ref begins with that is a range of versions. No ref has a colon in its name.
pub const SCHEME: &str = "semver:";
/// Where tags are.
pub const TAGS: &str = "refs/tags/";
/// Bytes of a range, at most.
const RANGE: usize = 256;
/// Tags that are named when none fits.
const SHOWN: usize = 5;

/// What a range stood for until now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The tag, in full, as far as it is known.
    pub tag: Option<String>,
    /// Its commit.
    pub commit: String,
}

/// The range of a ref that is written as one.
///
/// # Errors
/// Says what is wrong with it.
pub fn read(text: &str) -> Result<String, String> {
    let range = text.trim();
    if range.is_empty() {
        return Err("the range after `semver:` is empty; write `semver:*` for any version".into());
    }
    if range.len() > RANGE {
        return Err(format!(
            "the range after `semver:` is longer than {RANGE} bytes"
        ));
    }
    match Range::parse(range) {
        Ok(_) => Ok(range.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The version that a tag is, by its full name.
#[must_use]
pub fn version_of(full_name: &str) -> Option<Version> {
    let name = full_name.strip_prefix(TAGS)?;
    Version::parse(name.strip_prefix('v').unwrap_or(name)).ok()
}

/// What `range` stands for in a listing, after it stood for `before`.
#[must_use]
pub fn choose(range: &str, listing: &Listing, before: Option<&Standing>) -> Found {
    let Ok(range) = Range::parse(range) else {
        return Found::Nothing;
    };
    let versions: BTreeMap<&str, Version> = listing
        .ids
        .keys()
        .filter_map(|name| Some((name.as_str(), version_of(name)?)))
        .collect();
    let newest = versions
        .iter()
        .filter(|(_, version)| range.fits(version))
        // Of `1.0.0` and `v1.0.0`, or of two builds, always the same one.
        .max_by(|a, b| a.1.cmp_precedence(b.1).then_with(|| a.cmp(b)));
    let found = |name: &str| {
        listing.ids.get(name).map(|id| Found::Ref {
            full_name: name.to_owned(),
            id: id.clone(),
        })
    };
    if let Some(before) = before {
        // Of a commit alone, as it is known after a loss, its newest tag is meant.
        let of_commit = || {
            let of = |name: &&str| listing.commit(name) == Some(before.commit.as_str());
            let fitting = versions
                .iter()
                .filter(|(name, version)| of(name) && range.fits(version));
            fitting
                .max_by(|a, b| a.1.cmp_precedence(b.1))
                .map(|(name, _)| (*name).to_owned())
        };
        if let Some(tag) = before.tag.clone().or_else(of_commit)
            && let Some(version) = version_of(&tag).filter(|version| range.fits(version))
            && newest.is_none_or(|(_, newest)| newest.cmp_precedence(&version).is_le())
        {
            return found(&tag).unwrap_or_else(|| Found::Gone {
                full_name: tag,
                id: before.commit.clone(),
            });
        }
    }
    newest.map_or(Found::Nothing, |(name, _)| {
        found(name).unwrap_or(Found::Nothing)
    })
}

/// Why no tag of a listing is within `range`.
#[must_use]
pub fn nothing(range: &str, listing: &Listing) -> String {
    let mut versions: Vec<(Version, &str)> = listing
        .ids
        .keys()
        .filter_map(|name| Some((version_of(name)?, name.strip_prefix(TAGS)?)))
        .collect();
    versions.sort_by(|a, b| b.0.cmp_precedence(&a.0));
    if versions.is_empty() {
        return format!(
            "the remote has no tag that is a version (such as v1.2.3), so none is within {range:?}; push one, or write another ref"
        );
    }
    let newest: Vec<String> = versions
        .iter()
        .take(SHOWN)
        .map(|(_, name)| name.chars().take(60).collect())
        .collect();
    let hint = match versions.iter().all(|(version, _)| !version.pre.is_empty()) {
        true => "; pre-releases only fit a range that names one, such as >=1.0.0-0",
        false => "",
    };
    format!(
        "the remote has no tag within {range:?}; its newest versions are {}{hint}; push one, or write another range",
        newest.join(", ")
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn listing(tags: &[&str]) -> Listing {
        let ids = tags.iter().enumerate().map(|(at, tag)| {
            let name = format!("{TAGS}{tag}");
            (name, format!("{at:040}"))
        });
        Listing {
            ids: ids.collect(),
            ..Listing::default()
        }
    }

    fn chosen(range: &str, tags: &[&str], before: Option<&Standing>) -> String {
        match choose(range, &listing(tags), before) {
            Found::Ref { full_name, .. } => full_name.strip_prefix(TAGS).unwrap().to_owned(),
            Found::Gone { full_name, id } => format!("gone {full_name} {}", &id[..2]),
            other => format!("{other:?}"),
        }
    }

    fn standing(tag: &str) -> Standing {
        Standing {
            tag: Some(format!("{TAGS}{tag}")),
            commit: "c".repeat(40),
        }
    }

    #[test]
    fn the_newest_version_within_the_range_is_meant() {
        let tags = [
            "v1.2.0",
            "v1.10.0",
            "1.9.0",
            "v2.0.0-rc.1",
            "v1",
            "2024",
            "latest",
            "x/v1.99.0",
            "v1.11.0-rc.1",
        ];
        for (range, expected) in [
            ("^1", "v1.10.0"),
            ("~1.9", "1.9.0"),
            ("*", "v1.10.0"),
            ("^1.0.0-0", "v1.11.0-rc.1"),
            (">=1.0.0-0", "v2.0.0-rc.1"),
            (">=1.0.0 <1.10.0", "1.9.0"),
            ("9.x || 1.2.x", "v1.2.0"),
            ("^3", "Nothing"),
        ] {
            assert_eq!(chosen(range, &tags, None), expected, "{range}");
        }
        // Two spellings of one version never change places.
        assert_eq!(chosen("^1", &["1.0.0", "v1.0.0"], None), "v1.0.0");
        let other = standing("1.0.0");
        assert_eq!(chosen("^1", &["1.0.0", "v1.0.0"], Some(&other)), "1.0.0");
    }

    #[test]
    fn only_a_newer_version_moves_it() {
        let at = standing("v1.4.0");
        for (tags, expected) in [
            (vec!["v1.3.0", "v1.4.0"], "v1.4.0"),
            (vec!["v1.4.0", "v1.5.0", "v2.0.0"], "v1.5.0"),
            (vec!["v1.3.0"], "gone refs/tags/v1.4.0 cc"),
            (vec![], "gone refs/tags/v1.4.0 cc"),
            (vec!["v1.4.1"], "v1.4.1"),
        ] {
            assert_eq!(chosen("^1", &tags, Some(&at)), expected, "{tags:?}");
        }
        // Another range is another wish.
        assert_eq!(chosen("~1.3", &["v1.3.0", "v1.4.0"], Some(&at)), "v1.3.0");
        assert_eq!(chosen("^2", &["v1.4.0"], Some(&at)), "Nothing");
    }

    #[test]
    fn after_a_loss_a_commit_leads_to_its_tag() {
        let mut known = listing(&["v1.3.0", "v1.4.0"]);
        known.peeled.insert(format!("{TAGS}v1.3.0"), "c".repeat(40));
        let at = |commit: char| Standing {
            tag: None,
            commit: commit.to_string().repeat(40),
        };
        let full = |found| match found {
            Found::Ref { full_name, .. } => full_name,
            other => format!("{other:?}"),
        };
        // There is a newer one.
        assert_eq!(
            full(choose("^1", &known, Some(&at('c')))),
            "refs/tags/v1.4.0"
        );
        known.ids.remove("refs/tags/v1.4.0");
        assert_eq!(
            full(choose("^1", &known, Some(&at('c')))),
            "refs/tags/v1.3.0"
        );
        // Nobody knows which version that was.
        assert_eq!(
            full(choose("^1", &known, Some(&at('d')))),
            "refs/tags/v1.3.0"
        );
    }

    #[test]
    fn a_range_that_is_none_is_told_of() {
        assert_eq!(read(" ^1.2 "), Ok("^1.2".to_owned()));
        for (bad, word) in [
            ("", "empty"),
            ("  ", "empty"),
            ("latest", "latest"),
            ("1.2.3.4", "1.2.3.4"),
            (&"1 ".repeat(200), "longer"),
        ] {
            assert!(read(bad).unwrap_err().contains(word), "{bad}");
        }
    }

    #[test]
    fn what_there_is_is_told_when_nothing_fits() {
        let told = nothing(
            "^3",
            &listing(&[
                "v1.0.0", "v1.1.0", "v1.2.0", "v1.10.0", "v2.0.0", "v0.1.0", "latest",
            ]),
        );
        assert!(
            told.contains("v2.0.0, v1.10.0, v1.2.0, v1.1.0, v1.0.0;"),
            "{told}"
        );
        let told = nothing("^1", &listing(&["v1.0.0-rc.1"]));
        assert!(
            told.contains("v1.0.0-rc.1") && told.contains("pre-releases"),
            "{told}"
        );
        assert!(nothing("^1", &listing(&["latest"])).contains("no tag that is a version"));
    }
}
