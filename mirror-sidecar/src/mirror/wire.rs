//! The wire form of one `ls-refs` exchange.
//!
//! Protocol version 2 lets a client ask for the refs that it wants and no
//! others; no git command offers that without a fetch (`git ls-remote REF`
//! lists every ref: 3.3 MB per poll at 50,000). So the listing speaks it
//! itself, over pipes that git's own programs open. A server of the old
//! protocol advertises all its refs at once, which reads just as well.
//! Source of the form: gitprotocol-v2(5), gitprotocol-pack(5).

use thiserror::Error;

/// One ref, as a remote names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// The full name, or `HEAD`.
    pub name: String,
    /// The object that it names, 40 hex digits.
    pub object: String,
    /// Of an annotated tag: what the tag points to in the end.
    pub peeled: Option<String>,
    /// Of `HEAD`: the ref that it stands for.
    pub target: Option<String>,
}

/// What can't be read of a remote's answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// The answer ends in the middle.
    #[error("the remote's answer ends in the middle")]
    Truncated,
    /// It isn't the protocol.
    #[error("the remote doesn't answer as a git server ({0:?})")]
    Foreign(String),
    /// The server itself refuses.
    #[error("the remote says: {0}")]
    Refused(String),
    /// Another hash than this program reads.
    #[error("the repository's objects are named by {0}, only sha1 can be read")]
    ObjectFormat(String),
}

/// Asks for all refs that begin with one of `prefixes`, then ends the session.
#[must_use]
pub fn request(prefixes: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut line = |text: &str| out.extend_from_slice(format!("{:04x}{text}", text.len() + 4).as_bytes());
    line("command=ls-refs\n");
    line("object-format=sha1\n");
    out.extend_from_slice(b"0001");
    let mut line = |text: &str| out.extend_from_slice(format!("{:04x}{text}", text.len() + 4).as_bytes());
    line("peel\n");
    line("symrefs\n");
    for prefix in prefixes {
        line(&format!("ref-prefix {prefix}\n"));
    }
    out.extend_from_slice(b"0000");
    out
}

/// Reads an answer of either protocol version.
///
/// # Errors
/// If it is cut off, or is no git server's.
pub fn parse(answer: &[u8]) -> Result<Vec<Advertised>, WireError> {
    let mut packets = Packets { rest: answer };
    let mut refs = Vec::new();
    let mut first = packets.line()?;
    // Smart http names its service first.
    if first.as_deref().is_some_and(|line| line.starts_with("# service=")) {
        while packets.line()?.is_some() {}
        first = packets.line()?;
    }
    if first.as_deref() == Some("version 2") {
        while let Some(capability) = packets.line()? {
            match capability.strip_prefix("object-format=") {
                Some("sha1") | None => {}
                Some(other) => return Err(WireError::ObjectFormat(other.to_owned())),
            }
        }
        while let Some(line) = packets.line()? {
            refs.push(listed(&line)?);
        }
        return Ok(refs);
    }
    let mut line = first;
    let mut head = None;
    while let Some(text) = line {
        let (text, capabilities) = text.split_once('\0').map_or((text.as_str(), ""), |(text, capabilities)| (text, capabilities));
        for capability in capabilities.split(' ') {
            if let Some(target) = capability.strip_prefix("symref=HEAD:") {
                head = Some(target.to_owned());
            }
        }
        if text != "version 1" {
            advertised(text, head.as_deref(), &mut refs)?;
        }
        line = packets.line()?;
    }
    Ok(refs)
}

/// `<object> <name>[ symref-target:<ref>][ peeled:<object>]`
fn listed(line: &str) -> Result<Advertised, WireError> {
    let mut words = line.split(' ');
    let (Some(object), Some(name)) = (words.next(), words.next()) else {
        return Err(foreign(line));
    };
    let mut one = Advertised { name: name.to_owned(), object: object_id(object, line)?, peeled: None, target: None };
    for word in words {
        if let Some(target) = word.strip_prefix("symref-target:") {
            one.target = Some(target.to_owned());
        } else if let Some(peeled) = word.strip_prefix("peeled:") {
            one.peeled = Some(object_id(peeled, line)?);
        }
    }
    Ok(one)
}

/// `<object> <name>`, or `<object> <name>^{}` for what the tag before it peels to.
fn advertised(line: &str, head: Option<&str>, refs: &mut Vec<Advertised>) -> Result<(), WireError> {
    let (object, name) = line.split_once(' ').ok_or_else(|| foreign(line))?;
    let object = object_id(object, line)?;
    match (name.strip_suffix("^{}"), refs.last_mut()) {
        // An empty repository has one line, of nothing.
        (Some("capabilities"), _) => {}
        (Some(tag), Some(last)) if last.name == tag => last.peeled = Some(object),
        (Some(_), _) => return Err(foreign(line)),
        (None, _) => {
            let target = head.filter(|_| name == "HEAD").map(str::to_owned);
            refs.push(Advertised { name: name.to_owned(), object, peeled: None, target });
        }
    }
    Ok(())
}

fn object_id(text: &str, line: &str) -> Result<String, WireError> {
    let sound = text.len() == 40 && text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
    if sound { Ok(text.to_owned()) } else { Err(foreign(line)) }
}

fn foreign(text: &str) -> WireError {
    WireError::Foreign(text.chars().filter(|c| !c.is_control()).take(80).collect())
}

struct Packets<'a> {
    rest: &'a [u8],
}

impl Packets<'_> {
    /// The next line without its end, or `None` at a flush.
    fn line(&mut self) -> Result<Option<String>, WireError> {
        let head = self.rest.get(..4).ok_or(WireError::Truncated)?;
        let length = std::str::from_utf8(head)
            .ok()
            .and_then(|hex| usize::from_str_radix(hex, 16).ok())
            .ok_or_else(|| foreign(&String::from_utf8_lossy(&self.rest[..self.rest.len().min(80)])))?;
        if length < 4 {
            self.rest = &self.rest[4..];
            return Ok(None);
        }
        let line = self.rest.get(4..length).ok_or(WireError::Truncated)?;
        self.rest = &self.rest[length..];
        let text = String::from_utf8_lossy(line);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        match text.strip_prefix("ERR ") {
            Some(refusal) => Err(WireError::Refused(refusal.chars().filter(|c| !c.is_control()).take(500).collect())),
            None => Ok(Some(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn packets(lines: &[&str]) -> Vec<u8> {
        lines.iter().flat_map(|line| if line.is_empty() { b"0000".to_vec() } else { format!("{:04x}{line}", line.len() + 4).into_bytes() }).collect()
    }

    fn one(name: &str, peeled: Option<&str>, target: Option<&str>) -> Advertised {
        Advertised { name: name.into(), object: A.into(), peeled: peeled.map(Into::into), target: target.map(Into::into) }
    }

    #[test]
    fn both_protocols_say_the_same() {
        let expected = [one("HEAD", None, Some("refs/heads/main")), one("refs/heads/main", None, None), one("refs/tags/v1", Some(B), None)];
        let v2 = packets(&[
            "version 2\n", "agent=git/2.39.5\n", "object-format=sha1\n", "",
            &format!("{A} HEAD symref-target:refs/heads/main\n"), &format!("{A} refs/heads/main\n"),
            &format!("{A} refs/tags/v1 peeled:{B}\n"), "",
        ]);
        let v0 = packets(&[
            &format!("{A} HEAD\0multi_ack symref=HEAD:refs/heads/main agent=git/1\n"),
            &format!("{A} refs/heads/main\n"), &format!("{A} refs/tags/v1\n"), &format!("{B} refs/tags/v1^{{}}\n"), "",
        ]);
        let smart = [packets(&["# service=git-upload-pack\n", ""]), v0.clone()].concat();
        for answer in [v2, v0, smart] {
            assert_eq!(parse(&answer).unwrap(), expected);
        }
    }

    #[test]
    fn an_empty_repository_has_no_refs() {
        assert_eq!(parse(&packets(&["version 2\n", "", ""])).unwrap(), []);
        let v0 = format!("{} capabilities^{{}}\0agent=git/1\n", "0".repeat(40));
        assert_eq!(parse(&packets(&[&v0, ""])).unwrap(), []);
    }

    #[test]
    fn what_is_no_git_server_is_refused_in_words() {
        let long = packets(&["version 2\n", "", &format!("{A} refs/heads/main\n")]);
        assert_eq!(parse(&long), Err(WireError::Truncated));
        assert_eq!(parse(b""), Err(WireError::Truncated));
        assert!(matches!(parse(b"<html>hello</html>"), Err(WireError::Foreign(_))));
        assert_eq!(parse(&packets(&["ERR access denied\n"])), Err(WireError::Refused("access denied".into())));
        let sha256 = packets(&["version 2\n", "object-format=sha256\n", ""]);
        assert_eq!(parse(&sha256), Err(WireError::ObjectFormat("sha256".into())));
        assert!(parse(&packets(&["version 2\n", "", "short refs/heads/main\n", ""])).is_err());
    }

    #[test]
    fn a_request_names_each_prefix() {
        let text = String::from_utf8(request(&["refs/heads/main".into()])).unwrap();
        assert!(text.starts_with("0014command=ls-refs\n") && text.ends_with("001fref-prefix refs/heads/main\n0000"), "{text}");
    }
}
