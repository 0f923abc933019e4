//! `.helmignore`: what Helm leaves out when it packs a chart.
//!
//! Helm itself applies a chart's file when it loads the artifact, but never
//! one of a chart below it: it expects those packed. So a sibling that is
//! copied in loses here what packing it would have cost it. The rules are
//! Helm's own and not git's: the first one that fits decides, and a negative
//! one leaves out whatever it does *not* fit.

/// The rules of one `.helmignore`.
pub(super) struct Rules {
    rules: Vec<Rule>,
}

struct Rule {
    pattern: Vec<char>,
    negative: bool,
    folders_only: bool,
    whole_path: bool,
}

impl Rules {
    /// Reads the rules.
    ///
    /// # Errors
    /// Says which rule Helm doesn't take.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for line in text.trim_start_matches('\u{feff}').lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') || line == "!" || line == "/" {
                continue;
            }
            if line.contains("**") {
                return Err(format!(
                    "the rule {line:?} has `**`, which Helm doesn't take"
                ));
            }
            rules.push(Rule::read(line));
        }
        // Helm's own one: hidden files in templates/ are never rendered.
        rules.push(Rule::read("templates/.?*"));
        Ok(Self { rules })
    }

    /// Whether the file at `path`, or a folder that it is in, is left out.
    pub(super) fn leave_out(&self, path: &str) -> bool {
        let folders = path.match_indices('/').map(|(at, _)| &path[..at]);
        folders
            .map(|folder| (folder, true))
            .chain([(path, false)])
            .any(|(path, is_folder)| self.ignores(path, is_folder))
    }

    fn ignores(&self, path: &str, is_folder: bool) -> bool {
        for rule in &self.rules {
            let kind_fits = !rule.folders_only || is_folder;
            let fits = kind_fits && rule.fits(path);
            if fits != rule.negative {
                return true;
            }
        }
        false
    }
}

impl Rule {
    fn read(line: &str) -> Self {
        let (negative, line) = line
            .strip_prefix('!')
            .map_or((false, line), |rest| (true, rest));
        let (folders_only, line) = line
            .strip_suffix('/')
            .map_or((false, line), |rest| (true, rest));
        let (rooted, line) = line
            .strip_prefix('/')
            .map_or((false, line), |rest| (true, rest));
        Self {
            pattern: line.chars().collect(),
            negative,
            folders_only,
            whole_path: rooted || line.contains('/'),
        }
    }

    fn fits(&self, path: &str) -> bool {
        let text = if self.whole_path {
            path
        } else {
            path.rsplit('/').next().unwrap_or(path)
        };
        let text: Vec<char> = text.chars().collect();
        fits(&self.pattern, &text)
    }
}

/// Shell patterns as Go's `filepath.Match` reads them: `*` and `?` don't pass
/// a slash, so each part of a path is matched by itself.
fn fits(pattern: &[char], text: &[char]) -> bool {
    let (patterns, texts) = (pattern.split(|c| *c == '/'), text.split(|c| *c == '/'));
    patterns.clone().count() == texts.clone().count()
        && patterns
            .zip(texts)
            .all(|(pattern, text)| part_fits(pattern, text))
}

/// Never goes back further than to the last `*`, so that no pattern takes long.
fn part_fits(mut pattern: &[char], mut text: &[char]) -> bool {
    let mut last_star: Option<(&[char], &[char])> = None;
    loop {
        if let ['*', rest @ ..] = pattern {
            last_star = Some((rest, text));
            pattern = rest;
            continue;
        }
        let step = match text.split_first() {
            None if pattern.is_empty() => return true,
            None => None,
            Some((c, after)) => one_fits(pattern, *c).map(|rest| (rest, after)),
        };
        (pattern, text) = match (step, last_star) {
            (Some(step), _) => step,
            // The star takes one more.
            (None, Some((rest, [_, from @ ..]))) => {
                last_star = Some((rest, from));
                (rest, from)
            }
            (None, _) => return false,
        };
    }
}

/// What is left of the pattern, if its first part fits `c`.
fn one_fits(pattern: &[char], c: char) -> Option<&[char]> {
    let (fits, rest) = match pattern {
        ['?', rest @ ..] => (true, rest),
        ['[', rest @ ..] => {
            let (ranges, negative, rest) = class(rest)?;
            (
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != negative,
                rest,
            )
        }
        ['\\', literal, rest @ ..] | [literal, rest @ ..] => (*literal == c, rest),
        [] => return None,
    };
    fits.then_some(rest)
}

type Class<'a> = (Vec<(char, char)>, bool, &'a [char]);

/// What stands between `[` and `]`; nothing if it doesn't end.
fn class(pattern: &[char]) -> Option<Class<'_>> {
    let (negative, mut rest) = match pattern.split_first()? {
        ('^', rest) => (true, rest),
        _ => (false, pattern),
    };
    let mut ranges = Vec::new();
    loop {
        let (low, after) = match rest.split_first()? {
            (']', after) if !ranges.is_empty() => return Some((ranges, negative, after)),
            ('\\', after) => after.split_first()?,
            (_, _) => rest.split_first()?,
        };
        rest = after;
        let mut high = low;
        if let ['-', bound, after @ ..] = rest
            && *bound != ']'
        {
            (high, rest) = (bound, after);
        }
        ranges.push((*low, *high));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_helms() {
        let rules =
            Rules::read("# comment\n*.md\nci/\n/top.txt\ndocs/*.txt\n[a-c]?z\n\\*star\n").unwrap();
        for (path, left_out) in [
            ("README.md", true),
            ("deep/er/x.md", true),
            ("ci/values.yaml", true),
            ("x/ci/y", true),
            ("ci", false),
            ("top.txt", true),
            ("x/top.txt", false),
            ("docs/a.txt", true),
            ("docs/x/a.txt", false),
            ("x/docs/a.txt", false),
            ("bxz", true),
            ("dxz", false),
            ("*star", true),
            ("astar", false),
            ("values.yaml", false),
            ("templates/.hidden", true),
            ("templates/cm.yaml", false),
            ("Chart.yaml", false),
        ] {
            assert_eq!(rules.leave_out(path), left_out, "{path}");
        }
    }

    #[test]
    fn a_negative_rule_leaves_out_what_it_does_not_fit() {
        let rules = Rules::read("!*.yaml").unwrap();
        assert!(rules.leave_out("x.txt"));
        assert!(!rules.leave_out("x.yaml"));
    }

    #[test]
    fn no_pattern_takes_long() {
        let rules = Rules::read(&format!("{}b", "*a".repeat(60))).unwrap();
        assert!(!rules.leave_out(&"a".repeat(250)));
    }

    #[test]
    fn what_helm_does_not_take_is_refused() {
        assert!(Rules::read("a/**/b").is_err());
        // A class that doesn't end fits nothing.
        assert!(!Rules::read("[a").unwrap().leave_out("a"));
    }
}
