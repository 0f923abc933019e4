//! Version ranges as charts write them (`^1.2`, `>=1 <2 || 3.x`, `1.0 - 2.0`), read as Helm
//! reads them. Cargo's ranges, which the semver crate reads, mean something else: `1.2` is
//! a whole line of versions here, blanks join, and there are alternatives.

use semver::{BuildMetadata, Prerelease, Version};
use thiserror::Error;

/// Bytes of a range, at most.
const BYTES: usize = 512;

/// A text that is no range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} is no version and no range of versions; write 1.2.3, ^1.2, ~1.2.3, 1.x, or >=1.2 <2"
)]
pub struct RangeError(String);

/// What versions may be: one of several lists of comparisons, of which all hold.
#[derive(Clone, Debug)]
pub struct Range {
    alternatives: Vec<Vec<Comparison>>,
}

impl Range {
    /// Reads a range. An empty one takes everything that is no pre-release.
    ///
    /// # Errors
    /// Repeats what can't be read.
    pub fn parse(text: &str) -> Result<Self, RangeError> {
        let shown = || RangeError(text.chars().filter(|c| !c.is_control()).take(80).collect());
        if text.len() > BYTES {
            return Err(shown());
        }
        let alternatives = text.split("||").map(comparisons).collect::<Option<_>>();
        let alternatives = alternatives.ok_or_else(shown)?;
        Ok(Self { alternatives })
    }

    /// Whether `version` is within it. A pre-release only is if an alternative names one.
    #[must_use]
    pub fn fits(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|all| {
            let pre = all.iter().any(|one| !one.base.pre.is_empty());
            (pre || version.pre.is_empty()) && all.iter().all(|one| one.holds(version))
        })
    }
}

/// Whether `version` is within `range`.
///
/// # Errors
/// Says what can't be read.
pub fn matches(range: &str, version: &str) -> Result<bool, String> {
    let version = exact(version).ok_or_else(|| format!("{version:?} is no semantic version"))?;
    let range = Range::parse(range).map_err(|error| error.to_string())?;
    Ok(range.fits(&version))
}

/// A version of a chart or a tag. A `v` before it and missing parts are forgiven.
#[must_use]
pub fn exact(text: &str) -> Option<Version> {
    let Partial {
        version,
        parts,
        open,
    } = partial(text)?;
    (parts > 0 && !open).then_some(version)
}

#[derive(Clone, Debug)]
struct Comparison {
    operator: Operator,
    base: Version,
    /// How many parts of the version are written.
    parts: usize,
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    Same,
    Other,
    Above,
    Below,
    From,
    UpTo,
    Tilde,
    Caret,
}

fn comparisons(text: &str) -> Option<Vec<Comparison>> {
    let words = text.split([',', ' ', '\t', '\n', '\r']);
    let mut words = words.filter(|word| !word.is_empty()).peekable();
    if words.peek().is_none() {
        return Some(vec![comparison(Operator::Same, "*")?]);
    }
    let mut all = Vec::new();
    while let Some(word) = words.next() {
        let at = word.find(|c: char| !"=!<>~^".contains(c));
        let (operator, mut rest) = word.split_at(at.unwrap_or(word.len()));
        let written = operator;
        let operator = match operator {
            "" | "=" | "==" => Operator::Same,
            "!=" => Operator::Other,
            ">" => Operator::Above,
            "<" => Operator::Below,
            ">=" | "=>" => Operator::From,
            "<=" | "=<" => Operator::UpTo,
            "~" | "~>" => Operator::Tilde,
            "^" => Operator::Caret,
            _ => return None,
        };
        if rest.is_empty() {
            rest = words.next()?;
        }
        if words.next_if_eq(&"-").is_none() {
            all.push(comparison(operator, rest)?);
        } else if written.is_empty() {
            all.push(comparison(Operator::From, rest)?);
            all.push(comparison(Operator::UpTo, words.next()?)?);
        } else {
            return None;
        }
    }
    Some(all)
}

fn comparison(operator: Operator, text: &str) -> Option<Comparison> {
    let Partial { version, parts, .. } = partial(text)?;
    Some(Comparison {
        operator,
        base: version,
        parts,
    })
}

impl Comparison {
    fn holds(&self, version: &Version) -> bool {
        let base = &self.base;
        let order = version.cmp_precedence(base);
        let whole = self.parts == 3;
        // The first of its parts are those of the base, and it isn't below it.
        let within = |parts| order.is_ge() && shares(version, base, parts);
        let next = |parts| order.is_gt() && !shares(version, base, parts);
        match self.operator {
            Operator::Same if whole => order.is_eq(),
            Operator::Same => within(self.parts),
            Operator::Other if whole => order.is_ne(),
            Operator::Other => !shares(version, base, self.parts),
            Operator::Above if whole => order.is_gt(),
            Operator::Above => next(self.parts),
            Operator::Below => order.is_lt(),
            Operator::From => order.is_ge(),
            Operator::UpTo if whole => order.is_le(),
            Operator::UpTo => order.is_le() || shares(version, base, self.parts),
            // Helm takes ~0.0.0 for everything from there on.
            Operator::Tilde if whole && (base.major, base.minor, base.patch) == (0, 0, 0) => {
                order.is_ge()
            }
            Operator::Tilde => within(self.parts.min(2)),
            // The first part that isn't zero stays; what isn't written doesn't count.
            Operator::Caret if base.major > 0 || self.parts < 2 => within(self.parts.min(1)),
            Operator::Caret if base.minor > 0 || self.parts < 3 => within(2),
            Operator::Caret => within(3),
        }
    }
}

/// Whether two versions have the first so many parts in common.
fn shares(one: &Version, other: &Version, parts: usize) -> bool {
    let pairs = [
        (one.major, other.major),
        (one.minor, other.minor),
        (one.patch, other.patch),
    ];
    pairs.iter().take(parts).all(|(one, other)| one == other)
}

/// A version of which the last parts may be missing or `x`.
struct Partial {
    version: Version,
    parts: usize,
    /// An `x` stands in it.
    open: bool,
}

fn partial(text: &str) -> Option<Partial> {
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let (text, build) = text.split_once('+').unwrap_or((text, ""));
    let (core, pre) = text.split_once('-').unwrap_or((text, ""));
    let mut numbers = [0_u64; 3];
    let mut parts = 0;
    let mut open = false;
    for (at, part) in core.split('.').enumerate() {
        let number = numbers.get_mut(at)?;
        if matches!(part, "x" | "X" | "*") {
            open = true;
        } else if !open {
            let digits = part.bytes().all(|c| c.is_ascii_digit());
            *number = part.parse().ok().filter(|_| digits)?;
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
    Some(Partial {
        version,
        parts,
        open,
    })
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
            // A range that names a pre-release takes them at its other end, too.
            (">=1.0.0-0 <2.0.0", "1.5.0-rc1", true),
            (">=1.0.0-0 <2", "2.0.0-rc1", true),
            ("^1.0.0-0", "2.0.0-rc1", false),
            ("~1.2.3-0", "1.3.0-rc1", false),
            (">=1 || >=0.0.0-0", "0.1.0-a", true),
            (">0.0.0-0", "0.0.1-alpha", true),
            ("!=1.0.0", "2.0.0-rc1", false),
            ("1.0 - 2.0, !=1.5.0", "1.5.0", false),
            ("1.0 - 2.0, !=1.5.0", "1.6.0", true),
            ("~0.0.0", "7.1.0", true),
            ("18446744073709551615.x", "18446744073709551615.1.0", true),
            ("^18446744073709551615", "1.0.0", false),
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
            ("1.x.x.x", "1.0.0"),
            (">=1.2.3<2", "1.0.0"),
            (">1 - 2", "1.0.0"),
            ("1 -", "1.0.0"),
            ("+1.2", "1.0.0"),
            ("=>>1", "1.0.0"),
            ("1.0.0", "1.x"),
        ] {
            assert!(matches(range, version).is_err(), "{version} in {range:?}");
        }
    }
}
