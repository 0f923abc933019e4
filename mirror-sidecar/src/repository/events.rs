//! YAML as a stream of events, of which no more than one text is in memory.

use std::cell::Cell;
use std::io::{self, BufRead, Bytes};
use std::rc::Rc;

use granit_parser::{ErrorKind, FallibleBufferedInput, Options, Parser, ScalarStyle};

use super::RepositoryError;

/// Characters of one text, at most.
const TEXT: usize = 4 * 1024 * 1024;
/// Anchors of a document, at most: the parser remembers each name. No index has any.
const ANCHORS: usize = 1_000;

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A text; `None` for null.
    Scalar(Option<String>),
    /// A list begins.
    SequenceStart,
    /// A map begins.
    MappingStart,
    /// A list or a map ends.
    End,
    /// A reference to what stood before. They aren't followed.
    Alias,
}

/// Reads events.
pub(super) struct Events<R: BufRead> {
    parser: Parser<'static, FallibleBufferedInput<Chars<R>>>,
    /// Characters since the last event.
    since: Rc<Cell<usize>>,
}

impl<R: BufRead> Events<R> {
    pub(super) fn of(source: R) -> Self {
        let since = Rc::new(Cell::new(0));
        let chars = Chars {
            bytes: source.bytes(),
            since: Rc::clone(&since),
        };
        let mut options = Options::default();
        options.set_emit_comments(false);
        Self {
            parser: Parser::new_from_fallible_iter_with_options(chars, options),
            since,
        }
    }

    fn any(&mut self) -> Result<Option<granit_parser::Event<'static>>, RepositoryError> {
        self.since.set(0);
        match self.parser.next_event() {
            None => Ok(None),
            Some(Ok((event, _))) => match event.anchor_id() {
                // They are numbered from one on.
                Some(number) if number > ANCHORS => Err(RepositoryError::NotAnIndex(format!(
                    "it has more than {ANCHORS} anchors"
                ))),
                _ => Ok(Some(event)),
            },
            Some(Err(error)) => {
                let why = error.to_string();
                let line = why.lines().next().unwrap_or_default();
                let shown = line.chars().filter(|c| !c.is_control()).take(300);
                Err(RepositoryError::NotAnIndex(shown.collect()))
            }
        }
    }

    /// The first event of the first document, if there is one.
    ///
    /// # Errors
    /// If it isn't YAML.
    pub(super) fn begin(&mut self) -> Result<Option<Event>, RepositoryError> {
        use granit_parser::Event as Raw;
        loop {
            match self.any()? {
                Some(Raw::StreamStart | Raw::DocumentStart(..)) => {}
                None | Some(Raw::StreamEnd | Raw::DocumentEnd) => return Ok(None),
                Some(event) => return simple(event).map(Some),
            }
        }
    }

    /// The next event of a document that isn't over.
    ///
    /// # Errors
    /// If it isn't YAML, or ends in the middle.
    pub(super) fn next(&mut self) -> Result<Event, RepositoryError> {
        let event = self.any()?;
        event.map_or_else(|| Err(unexpected()), simple)
    }

    /// The next key of a map; `None` at its end. What isn't a text is no key, and is passed
    /// over with its value.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub(super) fn key(&mut self) -> Result<Option<String>, RepositoryError> {
        loop {
            match self.next()? {
                Event::End => return Ok(None),
                Event::Scalar(Some(text)) => return Ok(Some(text)),
                other => self.skip(&other)?,
            }
            let value = self.next()?;
            self.skip(&value)?;
        }
    }

    /// Passes over the rest of what began with `event`.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub(super) fn skip(&mut self, event: &Event) -> Result<(), RepositoryError> {
        let mut depth = usize::from(is_start(event));
        while depth > 0 {
            let event = self.next()?;
            if is_start(&event) {
                depth += 1;
            } else if event == Event::End {
                depth -= 1;
            }
        }
        Ok(())
    }
}

fn is_start(event: &Event) -> bool {
    matches!(event, Event::SequenceStart | Event::MappingStart)
}

fn unexpected() -> RepositoryError {
    RepositoryError::NotAnIndex("it ends in the middle".to_owned())
}

fn simple(event: granit_parser::Event<'_>) -> Result<Event, RepositoryError> {
    use granit_parser::Event as Raw;
    match event {
        Raw::Scalar(text, style, ..) => {
            let null = style == ScalarStyle::Plain
                && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
            Ok(Event::Scalar((!null).then(|| text.into_owned())))
        }
        Raw::SequenceStart(..) => Ok(Event::SequenceStart),
        Raw::MappingStart(..) => Ok(Event::MappingStart),
        Raw::SequenceEnd | Raw::MappingEnd => Ok(Event::End),
        Raw::Alias(_) => Ok(Event::Alias),
        _ => Err(unexpected()),
    }
}

/// The characters of a text in UTF-8.
struct Chars<R> {
    bytes: Bytes<R>,
    since: Rc<Cell<usize>>,
}

impl<R: BufRead> Iterator for Chars<R> {
    type Item = Result<char, ErrorKind>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = match self.bytes.next()? {
            Ok(byte) => byte,
            Err(error) => return Some(Err(input(error))),
        };
        let since = self.since.get() + 1;
        self.since.set(since);
        if since > TEXT {
            let why = format!("a single text has more than {TEXT} characters");
            return Some(Err(input(io::Error::other(why))));
        }
        if first.is_ascii() {
            return Some(Ok(char::from(first)));
        }
        Some(self.wide(first).map_err(input))
    }
}

impl<R: BufRead> Chars<R> {
    fn wide(&mut self, first: u8) -> io::Result<char> {
        let not_utf8 = || io::Error::new(io::ErrorKind::InvalidData, "it isn't UTF-8");
        let length = match first {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            _ => return Err(not_utf8()),
        };
        let mut bytes = [first, 0, 0, 0];
        for place in &mut bytes[1..length] {
            *place = self.bytes.next().unwrap_or_else(|| Err(not_utf8()))?;
        }
        let text = std::str::from_utf8(&bytes[..length]).map_err(|_| not_utf8())?;
        text.chars().next().ok_or_else(not_utf8)
    }
}

/// An error of what is read, as the parser passes it on.
fn input(error: io::Error) -> ErrorKind {
    ErrorKind::InputIo {
        error: error.into(),
    }
}
