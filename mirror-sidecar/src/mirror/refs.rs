//! What people write as a ref, and what it stands for. Pure functions.
//!
//! Forty hex digits are always a commit. `refs/…` is that ref. Any other name
//! is looked for below `refs/`, then as a tag, then as a branch: the order of
//! git itself (gitrevisions(7)), and so of helm-operator. Four to 39 hex
//! digits are a commit if no ref has that name. `semver:…` is a range of tags.

use std::collections::{BTreeMap, BTreeSet};

use tandem_shared::names::sha256_hex;

use super::tags::{self, Standing};

/// What `HEAD` is asked and recorded as.
pub const HEAD: &str = "HEAD";
/// Where the mirror keeps what it holds.
pub const NAMESPACE: &str = "refs/tandem/";

/// A ref as a want names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The branch that the remote's HEAD names.
    Head,
    /// A commit by its whole id.
    Commit(String),
    /// The first of these that exists; if none does and `short` is there, a
    /// commit whose id begins so.
    Names {
        /// Full names, in order.
        candidates: Vec<String>,
        /// The beginning of a commit id.
        short: Option<String>,
    },
    /// The newest tag within this range of versions.
    Range(String),
    /// No ref could be called so; if it begins as a range does, why it is none.
    Impossible(Option<String>),
}

impl Asked {
    /// Reads a ref as people write it.
    #[must_use]
    pub fn read(name: &str) -> Self {
        if let Some(range) = name.strip_prefix(tags::SCHEME) {
            return match tags::read(range) {
                Ok(range) => Self::Range(range),
                Err(why) => Self::Impossible(Some(why)),
            };
        }
        let hex = name.bytes().all(|c| c.is_ascii_hexdigit());
        match name {
            HEAD => Self::Head,
            _ if hex && name.len() == 40 => Self::Commit(name.to_ascii_lowercase()),
            _ if !is_ref_name(name) => Self::Impossible(None),
            _ if name.starts_with("refs/") => Self::Names {
                candidates: vec![name.to_owned()],
                short: None,
            },
            _ => Self::Names {
                candidates: ["refs/", "refs/tags/", "refs/heads/"]
                    .map(|prefix| format!("{prefix}{name}"))
                    .into(),
                short: (hex && (4..40).contains(&name.len())).then(|| name.to_ascii_lowercase()),
            },
        }
    }
}

/// What a listing is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// Refs by their full names.
    pub names: BTreeSet<String>,
    /// Also every tag that is a version.
    pub tags: bool,
}

impl Question {
    /// All that is needed to look these up.
    pub fn about<'a>(asked: impl IntoIterator<Item = &'a Asked>) -> Self {
        let mut question = Self::default();
        for one in asked {
            match one {
                Asked::Head => {
                    question.names.insert(HEAD.to_owned());
                }
                Asked::Names { candidates, .. } => question.names.extend(candidates.clone()),
                Asked::Range(_) => question.tags = true,
                Asked::Commit(_) | Asked::Impossible(_) => {}
            }
        }
        question
    }

    /// Whether there is nothing to ask.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.tags
    }

    /// Whether it is about this ref. A remote may tell of more than it was asked for.
    #[must_use]
    pub fn is_about(&self, name: &str) -> bool {
        self.names.contains(name) || (self.tags && tags::version_of(name).is_some())
    }
}

/// git's own rules for the name of a ref.
fn is_ref_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 1024
        && name != "@"
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && !name.starts_with('-')
        && name
            .split('/')
            .all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"))
        && !name
            .chars()
            .any(|c| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\'))
}

/// What the commit of a submodule is held as. No ref has a colon in its name,
/// so nobody asks for one that is called so.
#[must_use]
pub fn submodule(commit: &str) -> String {
    format!("submodule:{commit}")
}

/// Where the mirror keeps the commit of an asked name: never under the name
/// itself, since `feature` and `feature/x` may follow one another.
#[must_use]
pub fn held_as(asked: &str) -> String {
    format!("{NAMESPACE}{}", sha256_hex(&[asked.as_bytes()]))
}

/// What the remote listed, by full name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Object ids. Of an annotated tag it is the tag's own.
    pub ids: BTreeMap<String, String>,
    /// What annotated tags lead to in the end.
    pub peeled: BTreeMap<String, String>,
    /// The branch that HEAD names.
    pub head: Option<String>,
}

impl Listing {
    /// The commit that a ref leads to, as far as the remote told.
    #[must_use]
    pub fn commit(&self, name: &str) -> Option<&str> {
        let id = self.peeled.get(name).or_else(|| self.ids.get(name))?;
        Some(id)
    }
}

/// A listing that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListingError {
    /// Ids of 64 digits.
    Sha256,
    /// Something else.
    Malformed(String),
}

/// Reads what `git ls-remote --symref` printed, keeping what `question` is
/// about alone: its patterns match the ends of names.
///
/// # Errors
/// If a line is none of a listing.
pub fn parse(text: &str, question: &Question) -> Result<Listing, ListingError> {
    let mut listing = Listing::default();
    for line in text.lines() {
        let malformed = || ListingError::Malformed(line.chars().take(120).collect());
        let (id, name) = line.split_once('\t').ok_or_else(malformed)?;
        if let Some(target) = id.strip_prefix("ref: ") {
            if name == HEAD {
                listing.head = Some(target.to_owned());
            }
            continue;
        }
        if !id.bytes().all(|c| c.is_ascii_hexdigit()) {
            return Err(malformed());
        }
        match id.len() {
            40 => {}
            64 => return Err(ListingError::Sha256),
            _ => return Err(malformed()),
        }
        match name.strip_suffix("^{}") {
            Some(tag) if question.is_about(tag) => {
                listing.peeled.insert(tag.to_owned(), id.to_owned());
            }
            None if question.is_about(name) => {
                listing.ids.insert(name.to_owned(), id.to_owned());
            }
            _ => {}
        }
    }
    Ok(listing)
}

/// What an asked name stands for in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// This ref, at this object.
    Ref {
        /// Its full name.
        full_name: String,
        /// The object that it names.
        id: String,
    },
    /// This commit, whatever the listing says.
    Commit(String),
    /// A commit whose id begins so.
    Short(String),
    /// What a range stood for: a tag that isn't there any more, while nothing
    /// newer is.
    Gone {
        /// The tag's full name.
        full_name: String,
        /// The commit that it led to.
        id: String,
    },
    /// Nothing.
    Nothing,
}

/// Looks an asked name up in a listing. Only of a range it counts what it stood for `before`.
#[must_use]
pub fn resolve(asked: &Asked, listing: &Listing, before: Option<&Standing>) -> Found {
    match asked {
        Asked::Commit(id) => Found::Commit(id.clone()),
        Asked::Impossible(_) => Found::Nothing,
        Asked::Range(range) => tags::choose(range, listing, before),
        Asked::Head => listing
            .ids
            .get(HEAD)
            .map_or(Found::Nothing, |id| Found::Ref {
                full_name: listing
                    .head
                    .clone()
                    .filter(|name| is_ref_name(name))
                    .unwrap_or_else(|| HEAD.to_owned()),
                id: id.clone(),
            }),
        Asked::Names { candidates, short } => candidates
            .iter()
            .find_map(|name| {
                listing.ids.get(name).map(|id| Found::Ref {
                    full_name: name.clone(),
                    id: id.clone(),
                })
            })
            .or_else(|| short.clone().map(Found::Short))
            .unwrap_or(Found::Nothing),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn look(asked: &str, refs: &[(&str, &str)]) -> Found {
        let asked = Asked::read(asked);
        let text: String = refs
            .iter()
            .map(|(name, id)| format!("{id}\t{name}\n"))
            .collect();
        let listing = parse(&text, &Question::about([&asked])).unwrap();
        resolve(&asked, &listing, None)
    }

    fn is(full_name: &str, id: &str) -> Found {
        Found::Ref {
            full_name: full_name.into(),
            id: id.into(),
        }
    }

    #[test]
    fn a_name_is_any_ref_then_a_tag_then_a_branch() {
        let both = [("refs/heads/v1", A), ("refs/tags/v1", B)];
        assert_eq!(look("v1", &both), is("refs/tags/v1", B));
        assert_eq!(look("v1", &both[..1]), is("refs/heads/v1", A));
        assert_eq!(look("heads/v1", &both), is("refs/heads/v1", A));
        assert_eq!(look("refs/tags/v1", &both), is("refs/tags/v1", B));
        assert_eq!(look("tags/v1", &both), is("refs/tags/v1", B));
        assert_eq!(
            look("pull/7/head", &[("refs/pull/7/head", A)]),
            is("refs/pull/7/head", A)
        );
        assert_eq!(look("v2", &both), Found::Nothing);
    }

    #[test]
    fn ends_of_other_names_are_not_meant() {
        assert_eq!(
            look(
                "main",
                &[("refs/heads/refs/heads/main", A), ("refs/heads/x/main", B)]
            ),
            Found::Nothing
        );
    }

    #[test]
    fn hex_is_a_commit_unless_a_ref_has_that_name() {
        assert_eq!(look(A, &[("refs/heads/main", B)]), Found::Commit(A.into()));
        assert_eq!(look(&A.to_uppercase(), &[]), Found::Commit(A.into()));
        assert_eq!(look("ABCD", &[]), Found::Short("abcd".into()));
        assert_eq!(
            look("abcd", &[("refs/heads/abcd", B)]),
            is("refs/heads/abcd", B)
        );
        assert_eq!(look("abc", &[]), Found::Nothing);
    }

    #[test]
    fn head_knows_its_branch() {
        let wanted = Question::about([&Asked::Head]);
        let listing = parse(
            &format!("ref: refs/heads/trunk\tHEAD\n{A}\tHEAD\n"),
            &wanted,
        )
        .unwrap();
        assert_eq!(
            resolve(&Asked::Head, &listing, None),
            is("refs/heads/trunk", A)
        );
        let nothing = resolve(&Asked::Head, &Listing::default(), None);
        assert_eq!(nothing, Found::Nothing);
    }

    #[test]
    fn what_no_ref_can_be_called_is_never_asked_for() {
        for bad in [
            "",
            "-x",
            "a b",
            "a..b",
            "a\nb",
            "a~1",
            "a^{}",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a.lock",
            "@",
            "a@{1}",
            "refs/heads/*",
        ] {
            assert_eq!(Asked::read(bad), Asked::Impossible(None), "{bad:?}");
        }
    }

    #[test]
    fn a_range_asks_for_tags_and_for_nothing_else() {
        let asked = Asked::read("semver:^1");
        let question = Question::about([&asked]);
        assert!(question.names.is_empty() && question.tags && !question.is_empty());
        assert!(!Question::about([&Asked::read("main")]).tags);
        let text = format!(
            "{A}\trefs/tags/v1.0.0\n{B}\trefs/tags/v1.0.0^{{}}\n{A}\trefs/tags/latest\n{A}\trefs/heads/v1.2.0\n{A}\trefs/x/refs/tags/v1.3.0\n"
        );
        let listing = parse(&text, &question).unwrap();
        assert_eq!(listing.ids.keys().collect::<Vec<_>>(), ["refs/tags/v1.0.0"]);
        assert_eq!(listing.commit("refs/tags/v1.0.0"), Some(B));
        assert_eq!(resolve(&asked, &listing, None), is("refs/tags/v1.0.0", A));
        let bad = Asked::read("semver:latest");
        assert!(matches!(&bad, Asked::Impossible(Some(why)) if why.contains("latest")));
        assert!(Question::about([&bad]).is_empty());
    }

    #[test]
    fn other_listings_are_refused() {
        assert_eq!(
            parse(&format!("{A}{}\tHEAD", &A[..24]), &Question::default()),
            Err(ListingError::Sha256)
        );
        assert!(matches!(
            parse("<html>", &Question::default()),
            Err(ListingError::Malformed(_))
        ));
    }
}
