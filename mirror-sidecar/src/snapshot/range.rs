//! Version ranges as charts write them (`^1.2`, `>=1 <2 || 3.x`, `1.0 - 2.0`).
//! Cargo's ranges, which the semver crate reads, mean something else: `1.2` is
//! exact here, blanks join, and there are alternatives.

use semver::{BuildMetadata, Prerelease, Version};

/// Whether `version` is within `range`. An empty range takes everything.
/// Pre-releases only fit ranges that name one.
///
/// # Errors
/// Says what can't be read.
pub(super) fn matches(range: &str, version: &str) -> Result<bool, String> {
    let version = exact(version).ok_or_else(|| format!("{version:?} is no semantic version"))?;
    let mut any = false;
    for alternative in range.split("||") {
        any |=
            all(alternative, &version).ok_or_else(|| format!("{range:?} is no version range"))?;
    }
    Ok(any)
}

fn all(text: &str, version: &Version) -> Option<bool> {
    if let Some((low, high)) = text.split_once(" - ") {
        return Some(one(">=", low.trim(), version)? && one("<=", high.trim(), version)?);
    }
    let mut words = text
        .split([',', ' ', '\t'])
        .filter(|word| !word.is_empty())
        .peekable();
    if words.peek().is_none() {
        return one("", "*", version);
    }
    let mut fits = true;
    while let Some(word) = words.next() {
        let at = word
            .find(|c: char| !"=!<>~^".contains(c))
            .unwrap_or(word.len());
        let (operator, mut rest) = word.split_at(at);
        if rest.is_empty() {
            rest = words.next()?;
        }
        fits &= one(operator, rest, version)?;
    }
    Some(fits)
}

/// A version of which the last parts may be missing or `x`.
struct Partial {
    version: Version,
    parts: usize,
}

fn one(operator: &str, text: &str, version: &Version) -> Option<bool> {
    let Partial {
        version: base,
        parts,
    } = partial(text)?;
    let top = base.pre.is_empty();
    if !version.pre.is_empty() && top && operator != "!=" {
        return Some(false);
    }
    let next = |part: usize| match part {
        0 => None,
        1 => Some(Version::new(base.major + 1, 0, 0)),
        2 => Some(Version::new(base.major, base.minor + 1, 0)),
        _ => Some(Version::new(base.major, base.minor, base.patch + 1)),
    };
    // From the base to the next one of that part.
    let within = |part: usize| *version >= base && next(part).is_none_or(|end| *version < end);
    Some(match operator {
        "" | "=" | "==" if parts == 3 => version.cmp_precedence(&base).is_eq(),
        "" | "=" | "==" => within(parts),
        "!=" if parts == 3 => version.cmp_precedence(&base).is_ne(),
        "!=" => !within(parts),
        ">" if parts == 3 => *version > base,
        ">" => next(parts).is_some_and(|end| *version >= end),
        "<" => *version < base,
        ">=" | "=>" => *version >= base,
        "<=" | "=<" if parts == 3 => *version <= base,
        "<=" | "=<" => next(parts).is_none_or(|end| *version < end),
        "~" | "~>" => within(parts.min(2)),
        // The first part that isn't zero stays; what isn't written doesn't count.
        "^" if base.major > 0 || parts < 2 => within(parts.min(1)),
        "^" if base.minor > 0 || parts < 3 => within(2),
        "^" => within(3),
        _ => return None,
    })
}

fn partial(text: &str) -> Option<Partial> {
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let (text, build) = text.split_once('+').unwrap_or((text, ""));
    let (core, pre) = text.split_once('-').unwrap_or((text, ""));
    let mut numbers = [0_u64; 3];
    let mut parts = 0;
    let mut open = false;
    for (at, part) in core.split('.').enumerate() {
        if matches!(part, "x" | "X" | "*") {
            open = true;
        } else if !open {
            *numbers.get_mut(at)? = part.parse().ok()?;
            parts = at + 1;
        }
    }
    let version = Version {
        major: numbers[0],
        minor: numbers[1],
        patch: numbers[2],
        pre: Prerelease::new(pre).ok()?,
        build: BuildMetadata::new(build).ok()?,
    };
    Some(Partial { version, parts })
}

/// A chart's own version; missing parts are zero, as Helm reads it.
fn exact(text: &str) -> Option<Version> {
    let Partial { version, parts } = partial(text)?;
    (parts > 0).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_mean_what_helm_means() {
        let cases = [
            ("", "1.0.0", true),
            ("*", "1.0.0", true),
            ("*", "1.0.0-rc1", false),
            (">=0.0.0-0", "1.0.0-rc1", true),
            ("1.2.3", "1.2.3", true),
            ("1.2.3", "1.2.4", false),
            ("v1.2.3", "1.2.3", true),
            ("=1.2.3", "1.2.3+b", true),
            ("1.2", "1.2.9", true),
            ("1.2", "1.3.0", false),
            ("1", "1.9.0", true),
            ("1.x", "2.0.0", false),
            ("^1.2.3", "1.9.0", true),
            ("^1.2.3", "2.0.0", false),
            ("^0.2.3", "0.2.9", true),
            ("^0.2.3", "0.3.0", false),
            ("^0.0.3", "0.0.4", false),
            ("^0", "0.9.0", true),
            ("^1", "1.4.0", true),
            ("~1.2.3", "1.2.9", true),
            ("~1.2.3", "1.3.0", false),
            ("~1", "1.9.0", true),
            ("~1.2", "1.3.0", false),
            (">=1.0.0 <2.0.0", "1.5.0", true),
            (">= 1.0, < 2", "2.0.0", false),
            ("1.0 - 2.0", "2.0.5", true),
            ("1.0 - 2.0.0", "2.0.5", false),
            ("1.x || 3.x", "3.1.0", true),
            ("1.x || 3.x", "2.1.0", false),
            ("!=1.0.0", "1.0.0", false),
            ("!=1.x", "2.0.0", true),
            (">1", "1.5.0", false),
            (">1", "2.0.0", true),
            ("<=1", "1.5.0", true),
            ("<=1", "2.0.0", false),
            ("1.0.0-rc1", "1.0.0-rc1", true),
            ("^1.0.0-rc1", "1.0.0-rc2", true),
            ("0.1.0", "0.1", true),
        ];
        for (range, version, expected) in cases {
            assert_eq!(
                matches(range, version),
                Ok(expected),
                "{version} in {range:?}"
            );
        }
        for (range, version) in [
            ("latest", "1.0.0"),
            ("1.0.0", "new"),
            (">", "1.0.0"),
            ("1.2.3.4", "1.0.0"),
        ] {
            assert!(matches(range, version).is_err(), "{version} in {range:?}");
        }
    }
}
