//! The operator's netrc file: user names and passwords by host. Read at every
//! use, so that a changed one counts at once, and never shown to git or curl.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use secrecy::SecretString;
use thiserror::Error;

/// Bytes of the file, at most: as many as a Secret may hold.
const BYTES: u64 = 1024 * 1024;

/// Why the file isn't of use. Free of what is in it.
#[derive(Debug, Error)]
pub enum NetrcError {
    /// It can't be read.
    #[error("it can't be read: {0}")]
    Io(#[from] io::Error),
    /// Too much.
    #[error("it has more than {BYTES} bytes")]
    TooLarge,
    /// No text.
    #[error("it isn't text in UTF-8")]
    NotText,
    /// Another word than one that the format has.
    #[error(
        "line {0}: machine, login, password, account or macdef is expected; write a name or password with blanks in double quotes"
    )]
    Word(usize),
    /// A word without its value.
    #[error("line {0}: the value of `{1}` is missing")]
    Missing(usize, &'static str),
    /// A quote that finds no end.
    #[error("line {0}: a double quote is opened and not closed")]
    Quote(usize),
    /// A login for everybody.
    #[error(
        "line {0}: `default` isn't followed, since any HelmRelease may name any host; write a `machine` for each host"
    )]
    Default(usize),
}

/// What a netrc file says.
#[derive(Debug, Default)]
pub struct Netrc {
    machines: Vec<Machine>,
}

#[derive(Debug)]
struct Machine {
    host: String,
    login: Option<String>,
    password: Option<SecretString>,
}

impl Netrc {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If it can't be read or isn't one.
    pub fn read(path: &Path) -> Result<Self, NetrcError> {
        let mut bytes = Vec::new();
        File::open(path)?.take(BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > BYTES {
            return Err(NetrcError::TooLarge);
        }
        let text = String::from_utf8(bytes).map_err(|_| NetrcError::NotText)?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, NetrcError> {
        let mut words = Words { text, at: 0 };
        let mut machines: Vec<Machine> = Vec::new();
        while let Some((line, word)) = words.keyword()? {
            let mut value = |name| match words.next()? {
                Some((_, value)) => Ok(value),
                None => Err(NetrcError::Missing(line, name)),
            };
            match word.as_str() {
                "machine" => machines.push(Machine {
                    host: value("machine")?,
                    login: None,
                    password: None,
                }),
                "default" => return Err(NetrcError::Default(line)),
                "login" => {
                    let login = value("login")?;
                    if let Some(machine) = machines.last_mut() {
                        machine.login = Some(login);
                    }
                }
                "password" => {
                    let password = SecretString::from(value("password")?);
                    if let Some(machine) = machines.last_mut() {
                        machine.password = Some(password);
                    }
                }
                "account" => drop(value("account")?),
                "macdef" => words.skip_macro(),
                _ => return Err(NetrcError::Word(line)),
            }
        }
        Ok(Self { machines })
    }

    /// User name and password for a host, if the file has both.
    #[must_use]
    pub fn login(&self, host: &str) -> Option<(String, SecretString)> {
        let mut of_host = self
            .machines
            .iter()
            .filter(|machine| machine.host.eq_ignore_ascii_case(host));
        of_host.find_map(|machine| Some((machine.login.clone()?, machine.password.clone()?)))
    }
}

struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl Words<'_> {
    fn line(&self) -> usize {
        self.text[..self.at].matches('\n').count() + 1
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// The next word of the format, after comments. A value may begin with `#`.
    fn keyword(&mut self) -> Result<Option<(usize, String)>, NetrcError> {
        loop {
            self.skip_blanks();
            if !self.rest().starts_with('#') {
                return self.next();
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn next(&mut self) -> Result<Option<(usize, String)>, NetrcError> {
        self.skip_blanks();
        let line = self.line();
        let rest = self.rest();
        let Some(quoted) = rest.strip_prefix('"') else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let word = rest[..end].to_owned();
            self.at += end;
            return Ok((!word.is_empty()).then_some((line, word)));
        };
        let mut word = String::new();
        let mut chars = quoted.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += 1 + at + 1;
                    return Ok(Some((line, word)));
                }
                '\n' => break,
                '\\' => word.extend(chars.next().map(|(_, c)| match c {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                })),
                other => word.push(other),
            }
        }
        Err(NetrcError::Quote(line))
    }

    /// A macro goes to the next empty line.
    fn skip_macro(&mut self) {
        let rest = self.rest();
        let end = ["\n\n", "\n\r\n"]
            .iter()
            .filter_map(|gap| rest.find(gap))
            .min();
        self.at += end.unwrap_or(rest.len());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use secrecy::ExposeSecret;

    use super::*;

    fn login(text: &str, host: &str) -> Option<(String, String)> {
        let (login, password) = Netrc::parse(text).unwrap().login(host)?;
        Some((login, password.expose_secret().to_owned()))
    }

    #[test]
    fn what_people_write_is_read() {
        let text = "# a comment: machine none\n\
            machine one.test login ada password s3cret\n\
            machine Two.test\r\n\tlogin bob\r\n\taccount x\r\n\tpassword #pass\r\n\
            macdef init\ncd /x\nmachine trap.test login m password m\n\n\
            machine quoted.test login \"a b\" password \"p \\\"q\\\" \\\\ #\"\n\
            machine half.test login only\n\
            machine half.test login ada password whole\n\
            machine last.test password p login l";
        for (host, expected) in [
            ("one.test", Some(("ada", "s3cret"))),
            ("ONE.test", Some(("ada", "s3cret"))),
            ("two.test", Some(("bob", "#pass"))),
            ("quoted.test", Some(("a b", "p \"q\" \\ #"))),
            ("half.test", Some(("ada", "whole"))),
            ("last.test", Some(("l", "p"))),
            ("none", None),
            ("trap.test", None),
            ("x.one.test", None),
            ("one.test.evil", None),
            ("", None),
        ] {
            let expected = expected.map(|(a, b): (&str, &str)| (a.to_owned(), b.to_owned()));
            assert_eq!(login(text, host), expected, "{host}");
        }
        assert_eq!(login("", "h"), None);
        assert_eq!(login("macdef all\nno end", "h"), None);
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line_and_not_shown() {
        for (text, line) in [
            ("machine h login a password b s3cret", "line 1"),
            ("machine h\nlogin a\nsecret s3cret", "line 3"),
            ("machine h login a password", "line 1"),
            ("\nmachine h login a password \"s3cret\n\"", "line 2"),
            (
                "machine h login a password b\ndefault login s3cret",
                "line 2",
            ),
        ] {
            let error = Netrc::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(line), "{text}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        let shown = format!("{:?}", Netrc::parse("machine h login a password s3cret"));
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
