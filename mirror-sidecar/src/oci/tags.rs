//! Lists of tags, of which never more than a page is held. Pure functions.

use std::fmt;

use semver::Version;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use url::Url;

use super::OciError;
use crate::range::Range;

/// Bytes of a page, at most. Some registries give all tags at once.
pub(super) const BYTES: u64 = 8 * 1024 * 1024;
/// Bytes of all pages, at most: half a million tags of a hundred characters.
pub(super) const ALL: u64 = 64 * 1024 * 1024;
/// Pages, at most.
pub(super) const PAGES: usize = 1000;
/// Versions that are named where none fits.
const NAMED: usize = 5;
/// Tags that are asked for at once.
pub(super) const TAGS: usize = 1000;

/// Shows each tag of a page (`{"name": …, "tags": […]}`) to `each`; says how many there were.
///
/// # Errors
/// If it is no such page.
pub(super) fn read(page: &[u8], each: &mut dyn FnMut(&str)) -> Result<usize, OciError> {
    let mut count = 0;
    let mut counted = |tag: &str| {
        count += 1;
        each(tag);
    };
    let mut reader = serde_json::Deserializer::from_slice(page);
    let read = Page(&mut counted)
        .deserialize(&mut reader)
        .and_then(|()| reader.end());
    match read {
        Ok(()) => Ok(count),
        Err(error) => Err(OciError::Tags(error.to_string())),
    }
}

struct Page<'a>(&'a mut dyn FnMut(&str));

impl<'de> DeserializeSeed<'de> for Page<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Page<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with tags")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "tags" {
                map.next_value_seed(List(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct List<'a>(&'a mut dyn FnMut(&str));

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        // A repository without tags is `null` to some.
        from.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tags")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(tag) = list.next_element::<std::borrow::Cow<'de, str>>()? {
            (self.0)(&tag);
        }
        Ok(())
    }
}

/// Of all versions that were shown to it, those that a choice is made among.
#[derive(Debug)]
pub(super) struct Sample<'a> {
    range: &'a Range,
    held: Option<&'a str>,
    /// The newest that the range takes.
    best: Option<Version>,
    /// What is held, if it is there.
    same: Option<Version>,
    /// The newest of all, to be named where none fits; the newest last.
    newest: Vec<Version>,
}

impl<'a> Sample<'a> {
    /// Nothing was shown yet.
    #[must_use]
    pub(super) fn of(range: &'a Range, held: Option<&'a str>) -> Self {
        Self {
            range,
            held,
            best: None,
            same: None,
            newest: Vec::new(),
        }
    }

    /// Looks at one more.
    pub(super) fn see(&mut self, version: &Version) {
        let newer = self.best.as_ref().is_none_or(|best| version > best);
        if newer && self.range.fits(version) {
            self.best = Some(version.clone());
        }
        if self.held.is_some_and(|held| held == version.to_string()) {
            self.same = Some(version.clone());
        }
        if let Err(at) = self.newest.binary_search(version) {
            if at > 0 || self.newest.len() < NAMED {
                self.newest.insert(at, version.clone());
            }
            if self.newest.len() > NAMED {
                self.newest.remove(0);
            }
        }
    }

    /// All of them, each once.
    #[must_use]
    pub(super) fn versions(self) -> Vec<Version> {
        let mut all = self.newest;
        all.extend(self.best);
        all.extend(self.same);
        all.sort();
        all.dedup();
        all
    }
}

/// Where the next page is, as a `Link` header of the page at `here` says it. It is at the
/// same registry, or there is none.
///
/// # Errors
/// If it leads elsewhere.
pub(super) fn next(link: Option<&str>, here: &Url) -> Result<Option<Url>, OciError> {
    let Some(link) = link else { return Ok(None) };
    for part in link.split(',') {
        let Some((target, parameters)) = part
            .trim_start()
            .strip_prefix('<')
            .and_then(|rest| rest.split_once('>'))
        else {
            continue;
        };
        let is_next = parameters.split(';').any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = value.trim().trim_matches('"');
            name.trim().eq_ignore_ascii_case("rel") && value.eq_ignore_ascii_case("next")
        });
        if !is_next {
            continue;
        }
        let next = here.join(target).ok();
        return match next.filter(|next| next.origin() == here.origin()) {
            Some(next) => Ok(Some(next)),
            None => Err(OciError::Link),
        };
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn all(page: &str) -> Result<Vec<String>, OciError> {
        let mut all = Vec::new();
        read(page.as_bytes(), &mut |tag| all.push(tag.to_owned())).map(|_| all)
    }

    #[test]
    fn tags_are_read_from_pages_of_every_shape() {
        for (page, expected) in [
            (
                r#"{"name":"a","tags":["1.0.0","x\u002dy"]}"#,
                &["1.0.0", "x-y"][..],
            ),
            (r#"{"tags":[],"later":{"tags":["no"]}}"#, &[]),
            (r#"{"name":"a","tags":null}"#, &[]),
            (r#"{"name":"a"}"#, &[]),
        ] {
            assert_eq!(all(page).unwrap(), expected, "{page}");
        }
        for bad in [
            "",
            "<html>",
            "[]",
            r#"{"tags":[1]}"#,
            r#"{"tags":{}}"#,
            "{} x",
        ] {
            assert!(matches!(all(bad), Err(OciError::Tags(_))), "{bad}");
        }
    }

    #[test]
    fn what_a_choice_is_made_among_is_kept_and_no_more() {
        let sample = |range: &str, held: Option<&str>, tags: &[&str]| {
            let range = Range::parse(range).unwrap();
            let mut sample = Sample::of(&range, held);
            let versions = tags
                .iter()
                .filter_map(|tag| super::super::place::version_of(tag));
            versions.for_each(|version| sample.see(&version));
            let best = sample.best.as_ref().map(ToString::to_string);
            let all: Vec<String> = sample.versions().iter().map(ToString::to_string).collect();
            (best, all.join(" "))
        };
        let tags = [
            "1.9.0",
            "1.10.0",
            "2.0.0",
            "1.10.1-rc.1",
            "latest",
            "v1.11.0",
            "1.3",
        ];
        let best = |range: &str| sample(range, None, &tags).0;
        assert_eq!(best("^1.0").as_deref(), Some("1.10.0"));
        assert_eq!(best(">=1.0.0-0").as_deref(), Some("2.0.0"));
        assert_eq!(best("^1.10.1-0").as_deref(), Some("1.10.1-rc.1"));
        assert_eq!(best("3.x"), None);
        let builds = sample("1.x", None, &["1.0.0_b", "1.0.0_a"]);
        assert_eq!(builds.0.as_deref(), Some("1.0.0+b"));

        let many = [
            "9.0.0", "1.0.0", "3.0.0", "2.0.0", "8.0.0", "7.0.0", "6.0.0", "9.0.0", "5.0.0",
        ];
        let newest = "5.0.0 6.0.0 7.0.0 8.0.0 9.0.0";
        assert_eq!(sample("0.x", None, &many).1, newest);
        assert_eq!(sample("<3.0.0", None, &many).1, format!("2.0.0 {newest}"));
        assert_eq!(
            sample("<2", Some("3.0.0"), &many).1,
            format!("1.0.0 3.0.0 {newest}")
        );
        assert_eq!(
            sample("<2", Some("4.0.0"), &many).1,
            format!("1.0.0 {newest}")
        );
    }

    #[test]
    fn fifty_thousand_tags_are_counted_and_not_kept() {
        let tags: Vec<String> = (0..50_000).map(|at| format!("\"1.0.{at}\"")).collect();
        let page = format!("{{\"tags\":[{}]}}", tags.join(","));
        assert!((page.len() as u64) < BYTES);
        let mut last = String::new();
        let count = read(page.as_bytes(), &mut |tag| tag.clone_into(&mut last)).unwrap();
        assert_eq!((count, last.as_str()), (50_000, "1.0.49999"));
    }

    #[test]
    fn the_next_page_is_at_the_same_registry() {
        let here = Url::parse("https://h.test/v2/a/tags/list?n=2").unwrap();
        let to = |link: &str| next(Some(link), &here).map(|url| url.map(String::from));
        let second = Some("https://h.test/v2/a/tags/list?last=b&n=2".to_owned());
        for link in [
            r#"</v2/a/tags/list?last=b&n=2>; rel="next""#,
            r#"<https://h.test/v2/a/tags/list?last=b&n=2>;rel=next"#,
            r#"</x>; rel="prev", </v2/a/tags/list?last=b&n=2>; title=x; rel="next""#,
        ] {
            assert_eq!(to(link).unwrap(), second, "{link}");
        }
        for none in ["", "nonsense", r#"</x>; rel="prev""#, "</x"] {
            assert_eq!(to(none).unwrap(), None, "{none}");
        }
        for elsewhere in [
            r#"<https://other.test/v2>; rel="next""#,
            r#"<http://h.test/v2>; rel="next""#,
            r#"<file:///etc/passwd>; rel="next""#,
        ] {
            assert!(matches!(to(elsewhere), Err(OciError::Link)), "{elsewhere}");
        }
        assert_eq!(next(None, &here).unwrap(), None);
    }
}
