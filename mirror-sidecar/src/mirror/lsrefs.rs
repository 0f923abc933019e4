//! Asking a remote for exactly some refs, in git's own words (protocol v2).
//!
//! git has no command for that: `ls-remote` names patterns, but has the remote
//! send every ref it has (3.3 MB for 50,000 of them, at every poll). What is
//! asked here is what `git fetch` asks; the answer is as long as the question.
//! A remote that only speaks the old protocol is told apart, and asked by
//! `ls-remote`.

use super::refs::{HEAD, Listing, ListingError, Question};
use super::tags::TAGS;

/// What a remote answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The refs.
    Refs(Listing),
    /// It doesn't speak version 2.
    Old,
    /// It ended in the middle.
    Incomplete,
}

/// One line of the protocol.
enum Packet<'a> {
    Line(&'a [u8]),
    Flush,
    Other,
}

/// The question for all refs that begin with one of these names.
pub(super) fn request(question: &Question) -> Vec<u8> {
    let mut out = Vec::new();
    let mut line = |text: &str| {
        // Names are at most 1,024 bytes long, so four digits are always enough.
        out.extend_from_slice(format!("{:04x}{text}\n", text.len() + 5).as_bytes());
        out.len()
    };
    line("command=ls-refs");
    let at = line("object-format=sha1");
    line("peel");
    line("symrefs");
    for name in &question.names {
        line(&format!("ref-prefix {name}"));
    }
    if question.tags {
        line(&format!("ref-prefix {TAGS}"));
    }
    out.splice(at..at, *b"0001");
    out.extend_from_slice(b"0000");
    out
}

/// What ends the conversation where nobody else does.
pub(super) const FAREWELL: &[u8] = b"0000";

/// Reads what the remote sent: what it can do, then its refs. Keeps what was
/// meant alone, since it was asked for beginnings of names.
///
/// # Errors
/// If a line is none of a listing.
pub(super) fn parse(sent: &[u8], wanted: &Question) -> Result<Answer, ListingError> {
    // The helper for HTTP first says whether it could connect.
    let mut rest = sent.strip_prefix(b"\n").unwrap_or(sent);
    if rest.starts_with(b"fallback") {
        return Ok(Answer::Old);
    }
    match packet(&mut rest) {
        Some(Packet::Line(line)) if line.starts_with(b"version 2") => {}
        Some(Packet::Line(line)) if line.starts_with(b"ERR ") => return Err(malformed(line)),
        Some(_) => return Ok(Answer::Old),
        None => return Ok(Answer::Incomplete),
    }
    loop {
        match packet(&mut rest) {
            Some(Packet::Flush) => break,
            Some(Packet::Line(line)) if line.starts_with(b"object-format=sha256") => {
                return Err(ListingError::Sha256);
            }
            Some(_) => {}
            None => return Ok(Answer::Incomplete),
        }
    }
    refs(rest, wanted)
}

/// Reads what a remote sent that was asked without its saying first what it can do.
///
/// # Errors
/// As [`parse`].
pub(super) fn refs(mut rest: &[u8], wanted: &Question) -> Result<Answer, ListingError> {
    let mut listing = Listing::default();
    loop {
        match packet(&mut rest) {
            Some(Packet::Flush) => return Ok(Answer::Refs(listing)),
            Some(Packet::Line(line)) => note(line, wanted, &mut listing)?,
            Some(Packet::Other) => {}
            None => return Ok(Answer::Incomplete),
        }
    }
}

fn note(line: &[u8], wanted: &Question, listing: &mut Listing) -> Result<(), ListingError> {
    let text = String::from_utf8_lossy(line);
    let mut words = text.trim_end_matches('\n').split(' ');
    let (Some(id), Some(name)) = (words.next(), words.next()) else {
        return Err(malformed(line));
    };
    if id.len() != 40 || !id.bytes().all(|c| c.is_ascii_hexdigit()) {
        return Err(malformed(line));
    }
    if !wanted.is_about(name) {
        return Ok(());
    }
    if name == HEAD {
        listing.head = words
            .find_map(|word| word.strip_prefix("symref-target:"))
            .map(str::to_owned);
    } else if let Some(peeled) = words.find_map(|word| word.strip_prefix("peeled:")) {
        listing.peeled.insert(name.to_owned(), peeled.to_owned());
    }
    listing.ids.insert(name.to_owned(), id.to_owned());
    Ok(())
}

fn malformed(line: &[u8]) -> ListingError {
    ListingError::Malformed(
        String::from_utf8_lossy(line)
            .trim()
            .chars()
            .take(120)
            .collect(),
    )
}

/// Takes the next line, if all of it is there.
fn packet<'a>(rest: &mut &'a [u8]) -> Option<Packet<'a>> {
    let (digits, after) = rest.split_at_checked(4)?;
    let length = std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| usize::from_str_radix(digits, 16).ok());
    match length {
        Some(0) => {
            *rest = after;
            Some(Packet::Flush)
        }
        Some(1..4) => {
            *rest = after;
            Some(Packet::Other)
        }
        Some(length) => {
            let (line, after) = after.split_at_checked(length - 4)?;
            *rest = after;
            Some(Packet::Line(line))
        }
        // No line of this protocol at all, so whatever follows is none either.
        None => {
            *rest = &[];
            Some(Packet::Other)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn names(names: &[&str]) -> Question {
        Question {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            tags: false,
        }
    }

    fn packets(lines: &[&str]) -> Vec<u8> {
        let pack = |line: &&str| match *line {
            "0000" | "0001" | "0002" => (*line).to_owned(),
            line => format!("{:04x}{line}\n", line.len() + 5),
        };
        lines.iter().map(pack).collect::<String>().into_bytes()
    }

    #[test]
    fn the_question_is_what_git_asks() {
        let expected = packets(&[
            "command=ls-refs",
            "object-format=sha1",
            "0001",
            "peel",
            "symrefs",
            "ref-prefix HEAD",
            "ref-prefix refs/heads/main",
            "0000",
        ]);
        let mut question = names(&["HEAD", "refs/heads/main"]);
        assert_eq!(request(&question), expected);
        question.tags = true;
        assert!(request(&question).ends_with(b"001aref-prefix refs/tags/\n0000"));
    }

    #[test]
    fn exactly_the_asked_refs_are_kept() {
        let mut sent = b"\n".to_vec();
        sent.extend(packets(&[
            "version 2",
            "agent=git/2.39.5",
            "object-format=sha1",
            "0000",
            &format!("{A} HEAD symref-target:refs/heads/main"),
            &format!("{A} refs/heads/main"),
            &format!("{B} refs/heads/main-2"),
            &format!("{B} refs/tags/v1 peeled:{A}"),
            "0000",
            "0002",
        ]));
        let wanted = names(&["HEAD", "refs/heads/main", "refs/tags/v1"]);
        let Ok(Answer::Refs(listing)) = parse(&sent, &wanted) else {
            panic!("no refs")
        };
        assert_eq!(listing.head.as_deref(), Some("refs/heads/main"));
        assert_eq!(
            listing.ids.keys().collect::<Vec<_>>(),
            ["HEAD", "refs/heads/main", "refs/tags/v1"]
        );
        assert_eq!(listing.ids["refs/tags/v1"], B);
        assert_eq!(listing.commit("refs/tags/v1"), Some(A));
        // Who is asked directly sends the refs alone.
        let alone = sent.windows(4).position(|four| four == b"0000").unwrap() + 4;
        let refs_alone = refs(&sent[alone..], &wanted);
        assert_eq!(refs_alone, parse(&sent, &wanted));
        // Cut anywhere, it is never taken for a whole answer.
        for end in 0..sent.len() - 8 {
            assert_eq!(
                parse(&sent[..end], &wanted),
                Ok(Answer::Incomplete),
                "{end}"
            );
        }
    }

    #[test]
    fn other_answers_are_told_apart() {
        let wanted = names(&["HEAD"]);
        let old = packets(&[
            &format!("{A} HEAD\0multi_ack symref=HEAD:refs/heads/main"),
            "0000",
        ]);
        assert_eq!(parse(&old, &wanted), Ok(Answer::Old));
        assert_eq!(parse(b"fallback\n", &wanted), Ok(Answer::Old));
        assert_eq!(parse(b"<html>", &wanted), Ok(Answer::Old));
        let begun = packets(&["version 2"]);
        let garbage = [&begun[..], b"<html>"].concat();
        assert_eq!(parse(&garbage, &wanted), Ok(Answer::Incomplete));
        let begun = packets(&["version 2", "0000", &format!("{A} HEAD")]);
        let garbage = [&begun[..], b"<html>0000"].concat();
        assert_eq!(parse(&garbage, &wanted), Ok(Answer::Incomplete));
        assert_eq!(refs(b"<html>", &wanted), Ok(Answer::Incomplete));
        assert_eq!(
            parse(
                &packets(&["version 2", "object-format=sha256", "0000"]),
                &wanted
            ),
            Err(ListingError::Sha256)
        );
        assert!(matches!(
            parse(&packets(&["ERR no such repository"]), &wanted),
            Err(ListingError::Malformed(_))
        ));
        assert!(matches!(
            parse(&packets(&["version 2", "0000", "nonsense"]), &wanted),
            Err(ListingError::Malformed(_))
        ));
    }
}
