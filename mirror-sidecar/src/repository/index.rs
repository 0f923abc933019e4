//! The index, read as a stream of events: of a large one only the wanted charts are ever in
//! memory. JSON is YAML, so both are read.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Read};

use semver::Version;

use super::RepositoryError;
use super::events::{Event, Events};
use crate::range;

/// Versions of wanted charts that are kept, at most.
const VERSIONS: usize = 50_000;
/// Bytes of a version, of a URL and of a digest, at most.
const VERSION: usize = 256;
const URL: usize = 2048;
const DIGEST: usize = 128;
/// Bytes of all that is kept of the wanted charts, at most.
const KEPT: usize = 32 * 1024 * 1024;
/// URLs of one archive that are kept.
const URLS: usize = 4;

/// What an index says of the charts that are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// The names that were looked for.
    pub names: BTreeSet<String>,
    /// What was found of them, in the index's own order.
    pub charts: BTreeMap<String, Vec<Entry>>,
    /// How many charts it lists in all.
    pub listed: usize,
    /// Entries of the asked charts that can't be used.
    pub skipped: usize,
}

/// One version of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// As it stands in the index.
    pub version: String,
    /// What that means.
    pub parsed: Version,
    /// Where the archive is; the first one that gives it counts.
    pub urls: Vec<String>,
    /// The SHA-256 of the archive in hex, if the index has one.
    pub digest: Option<String>,
}

/// What stands in an index of one version.
#[derive(Default)]
struct Raw {
    version: Option<String>,
    urls: Vec<String>,
    digest: Option<String>,
}

impl Entry {
    /// A version of a chart that stands in no index.
    #[must_use]
    pub fn of_version(version: &Version) -> Self {
        Self {
            version: version.to_string(),
            parsed: version.clone(),
            urls: Vec::new(),
            digest: None,
        }
    }

    fn bytes(&self) -> usize {
        let digest = self.digest.as_ref().map_or(0, String::len);
        let urls = self.urls.iter().map(String::len).sum::<usize>();
        size_of::<Self>() + self.version.len() + digest + urls
    }

    #[cfg(test)]
    pub(super) fn new(version: &str) -> Option<Self> {
        Self::of(Raw {
            version: Some(version.to_owned()),
            urls: vec!["a.tgz".to_owned()],
            digest: None,
        })
    }

    /// What an index says, if that can be used. Helm passes over the rest, too.
    fn of(raw: Raw) -> Option<Self> {
        let version = raw.version?;
        let parsed = range::exact(&version)?;
        // Some servers write it as registries do.
        let digest = raw.digest.map(|text| {
            let lower = text.trim().to_ascii_lowercase();
            lower.strip_prefix("sha256:").unwrap_or(&lower).to_owned()
        });
        (!raw.urls.is_empty()).then_some(Self {
            version,
            parsed,
            urls: raw.urls,
            digest: digest.filter(|text| !text.is_empty()),
        })
    }
}

impl Index {
    /// Reads what `source` says of the charts called `names`.
    ///
    /// # Errors
    /// If it is no index as a whole. Single bad entries are skipped.
    pub fn read(source: impl BufRead, names: BTreeSet<String>) -> Result<Self, RepositoryError> {
        Self::read_at_most(source, names, VERSIONS)
    }

    /// The same with a number of one's own.
    pub(super) fn read_at_most(
        source: impl BufRead,
        names: BTreeSet<String>,
        versions: usize,
    ) -> Result<Self, RepositoryError> {
        let mut reader = Reader {
            events: Events::of(source),
            versions,
            kept: 0,
            index: Self {
                names,
                ..Self::default()
            },
        };
        reader.top()?;
        Ok(reader.index)
    }
}

struct Reader<R: BufRead> {
    events: Events<R>,
    /// Versions that may still be kept.
    versions: usize,
    /// Bytes of the versions that were kept so far.
    kept: usize,
    index: Index,
}

impl<R: BufRead> Reader<R> {
    fn top(&mut self) -> Result<(), RepositoryError> {
        let wrong = |what: &str| RepositoryError::NotAnIndex(what.to_owned());
        if self.events.begin()? != Some(Event::MappingStart) {
            return Err(wrong("it is no map with apiVersion and entries"));
        }
        let mut known = false;
        while let Some(key) = self.events.key()? {
            let value = self.events.next()?;
            known |= matches!(key.as_str(), "apiVersion" | "entries");
            match value {
                Event::MappingStart if key == "entries" => self.charts()?,
                Event::Scalar(Some(_)) | Event::SequenceStart if key == "entries" => {
                    return Err(wrong("its entries are no map of charts"));
                }
                other => self.events.skip(&other)?,
            }
        }
        if known {
            Ok(())
        } else {
            Err(wrong("it has neither apiVersion nor entries"))
        }
    }

    fn charts(&mut self) -> Result<(), RepositoryError> {
        while let Some(name) = self.events.key()? {
            let value = self.events.next()?;
            self.index.listed += 1;
            if !self.index.names.contains(&name) {
                self.events.skip(&value)?;
                continue;
            }
            let mut entries = Vec::new();
            if value == Event::SequenceStart {
                self.chart(&mut entries)?;
            } else {
                self.events.skip(&value)?;
            }
            // Of a name that is there twice, the last one counts.
            self.index.charts.insert(name, entries);
        }
        Ok(())
    }

    fn chart(&mut self, entries: &mut Vec<Entry>) -> Result<(), RepositoryError> {
        let most = self.versions;
        loop {
            let entry = match self.events.next()? {
                Event::End => return Ok(()),
                Event::MappingStart => self.entry()?,
                other => {
                    self.events.skip(&other)?;
                    None
                }
            };
            match entry {
                Some(entry) => {
                    self.kept += entry.bytes();
                    entries.push(entry);
                }
                None => self.index.skipped += 1,
            }
            if self.kept > KEPT {
                return Err(RepositoryError::TooMuch(KEPT));
            }
            let others = self.index.charts.values().map(Vec::len).sum::<usize>();
            if others + entries.len() > most {
                return Err(RepositoryError::TooManyVersions(most));
            }
        }
    }

    fn entry(&mut self) -> Result<Option<Entry>, RepositoryError> {
        let mut raw = Raw::default();
        while let Some(key) = self.events.key()? {
            match (key.as_str(), self.events.next()?) {
                ("version", Event::Scalar(text)) => raw.version = short(text, VERSION),
                ("digest", Event::Scalar(text)) => raw.digest = short(text, DIGEST),
                ("urls", Event::SequenceStart) => raw.urls = self.urls()?,
                (_, other) => self.events.skip(&other)?,
            }
        }
        Ok(Entry::of(raw))
    }

    fn urls(&mut self) -> Result<Vec<String>, RepositoryError> {
        let mut urls = Vec::new();
        loop {
            match self.events.next()? {
                Event::End => return Ok(urls),
                Event::Scalar(text) => {
                    let text = short(text, URL).filter(|url| !url.trim().is_empty());
                    urls.extend(text.filter(|_| urls.len() < URLS));
                }
                other => self.events.skip(&other)?,
            }
        }
    }
}

/// What is longer than it can be is as good as not there.
fn short(text: Option<String>, most: usize) -> Option<String> {
    text.filter(|text| text.len() <= most)
}

/// What reads on to the end of a file, so that all of it is hashed.
pub(super) fn drain(mut source: impl Read) -> std::io::Result<()> {
    std::io::copy(&mut source, &mut std::io::sink()).map(drop)
}
