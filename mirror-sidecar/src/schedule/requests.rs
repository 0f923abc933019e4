//! Reading what is wanted, one file at a time: a strange file never stops the
//! others, and one that can't be read changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::sync::Arc;

use tandem_shared::layout::Wanted;
use tandem_shared::observe::{self, ObserveError, Observed};
use tandem_shared::request::Request;
use tandem_shared::source::SourceName;
use tandem_shared::version::Contract;

/// What is wanted, as it was last readable.
#[derive(Debug, Default)]
pub(super) struct Requests {
    known: BTreeMap<SourceName, Arc<Observed<Request>>>,
    /// What was said about files that can't be read, so that it is said once.
    told: BTreeMap<String, String>,
    /// The reconciler speaks a contract that we don't.
    refused: bool,
}

/// What a look at the requests showed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Sources whose request is new or another one.
    pub changed: BTreeSet<SourceName>,
    /// Sources whose request is gone.
    pub gone: BTreeSet<SourceName>,
}

impl Requests {
    /// The request of a source.
    #[must_use]
    pub(super) fn get(&self, source: &SourceName) -> Option<&Arc<Observed<Request>>> {
        self.known.get(source)
    }

    /// The sources that are wanted: those with a request, readable or not.
    #[must_use]
    pub(super) fn sources(&self) -> BTreeSet<SourceName> {
        self.known.keys().cloned().collect()
    }

    /// Looks at all requests.
    ///
    /// # Errors
    /// If they can't be listed, or the reconciler speaks a contract that we
    /// don't; then nothing is known to have changed.
    pub(super) fn look_at_all(&mut self, wanted: &Wanted) -> Result<Changes, ObserveError> {
        match observe::load::<Contract>(&wanted.contract()) {
            // Nobody may have started yet; people who write requests by hand never will.
            Ok(_) | Err(ObserveError::Missing(_)) => self.refused = false,
            Err(error) => {
                self.refused = true;
                return Err(error);
            }
        }
        let listing = observe::list(&wanted.requests())?;
        let mut changes = Changes::default();
        for stray in listing.strays {
            let what = stray.display().to_string();
            self.tell(&what, &misnamed(&stray));
        }
        let present: BTreeSet<SourceName> = listing.sources.into_iter().collect();
        let missing: Vec<SourceName> = self
            .known
            .keys()
            .filter(|source| !present.contains(*source))
            .cloned()
            .collect();
        for source in missing {
            self.known.remove(&source);
            changes.gone.insert(source);
        }
        for source in present {
            self.look_at(wanted, &source, &mut changes);
        }
        Ok(changes)
    }

    /// Looks at the request of one source.
    pub(super) fn look_at(&mut self, wanted: &Wanted, source: &SourceName, changes: &mut Changes) {
        if self.refused {
            return;
        }
        match observe::request(&wanted.request(source), source) {
            Ok(observed) => {
                self.told.remove(source.as_str());
                if self
                    .known
                    .get(source)
                    .is_none_or(|known| known.digest != observed.digest)
                {
                    self.known.insert(source.clone(), Arc::new(observed));
                    changes.changed.insert(source.clone());
                }
            }
            Err(ObserveError::Version {
                path,
                source: error,
            }) => {
                self.tell(source.as_str(), &error.to_string());
                // As much of it as can be read, so that its manifest can say why.
                if let Some(observed) = observe_leniently(&path, source)
                    && self
                        .known
                        .get(source)
                        .is_none_or(|known| known.digest != observed.digest)
                {
                    self.known.insert(source.clone(), Arc::new(observed));
                    changes.changed.insert(source.clone());
                }
            }
            Err(ObserveError::Missing(_)) => {
                if self.known.remove(source).is_some() {
                    changes.gone.insert(source.clone());
                }
            }
            Err(error) => self.tell(source.as_str(), &error.to_string()),
        }
    }

    fn tell(&mut self, what: &str, why: &str) {
        if self.told.insert(what.to_owned(), why.to_owned()).as_deref() != Some(why) {
            tracing::warn!(
                source = what,
                error = why,
                "a request isn't read; what was known of it stays"
            );
        }
    }
}

/// A request of another version, if it still names its source as ours do.
fn observe_leniently(path: &std::path::Path, name: &SourceName) -> Option<Observed<Request>> {
    let mut bytes = Vec::new();
    let file = observe::open(path).ok()?;
    std::io::Read::take(file, 1024 * 1024)
        .read_to_end(&mut bytes)
        .ok()?;
    let document: Request = serde_json::from_slice(&bytes).ok()?;
    let digest = data_encoding::HEXLOWER.encode(&<sha2::Sha256 as sha2::Digest>::digest(&bytes));
    (document.source.name() == *name).then_some(Observed { document, digest })
}

/// What to do with a file whose name is none of a source's.
fn misnamed(stray: &std::path::Path) -> String {
    let shown = stray.display();
    match observe::load::<Request>(stray) {
        Ok(observed) => format!(
            "{shown} isn't read under this name; rename it to {}.json, after its source",
            observed.document.source.name()
        ),
        Err(error) => format!("a file that is named after no source isn't read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use tandem_shared::layout::Volume;
    use tandem_shared::publish::{self, Audience};
    use tandem_shared::source::{Source, SourceKind};
    use tandem_shared::version::Document;

    use super::*;

    fn request(url: &str) -> Request {
        let source = Source {
            kind: SourceKind::Git,
            url: url.to_owned(),
            credential: None,
        };
        serde_json::from_value(
            serde_json::json!({"schema": Request::current_schema(), "source": source}),
        )
        .unwrap()
    }

    fn contract(schema: &str) -> Contract {
        let started_at = jiff::Timestamp::UNIX_EPOCH;
        Contract {
            schema: schema.into(),
            writer: "reconciler".into(),
            version: "9".into(),
            started_at,
        }
    }

    #[test]
    fn changes_are_told_once_and_strange_files_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = Volume::at(folder.path()).wanted;
        let mut requests = Requests::default();
        assert!(matches!(
            requests.look_at_all(&wanted),
            Err(ObserveError::Missing(_))
        ));
        publish::folder(&wanted.requests(), Audience::Group).unwrap();
        let mut first = request("https://h/a");
        let name = first.source.name();
        publish::json(&wanted.request(&name), &first).unwrap();
        publish::bytes(
            &wanted.requests().join("stray.json"),
            b"{}",
            Audience::Group,
        )
        .unwrap();
        let changed = Changes {
            changed: [name.clone()].into(),
            gone: BTreeSet::new(),
        };
        assert_eq!(requests.look_at_all(&wanted).unwrap(), changed);
        assert_eq!(requests.look_at_all(&wanted).unwrap(), Changes::default());
        // Half a file, or one about another source, leaves what was known.
        for bad in [
            "{",
            &serde_json::to_string(&request("https://h/b")).unwrap(),
        ] {
            publish::bytes(&wanted.request(&name), bad.as_bytes(), Audience::Group).unwrap();
            assert_eq!(
                requests.look_at_all(&wanted).unwrap(),
                Changes::default(),
                "{bad}"
            );
            assert!(requests.get(&name).is_some());
        }
        first.refresh = "x".into();
        publish::json(&wanted.request(&name), &first).unwrap();
        assert_eq!(requests.look_at_all(&wanted).unwrap(), changed);
        // Another version is told, so that its manifest can say so.
        first.schema = "tandem.request/v2".into();
        publish::json(&wanted.request(&name), &first).unwrap();
        assert_eq!(requests.look_at_all(&wanted).unwrap(), changed);
        publish::remove(&wanted.request(&name)).unwrap();
        assert_eq!(requests.look_at_all(&wanted).unwrap().gone, [name].into());
    }

    #[test]
    fn a_reconciler_of_another_contract_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = Volume::at(folder.path()).wanted;
        publish::folder(&wanted.requests(), Audience::Group).unwrap();
        let mut requests = Requests::default();
        requests.look_at_all(&wanted).unwrap();
        publish::json(&wanted.contract(), &contract("tandem.contract/v9")).unwrap();
        let first = request("https://h/a");
        let name = first.source.name();
        publish::json(&wanted.request(&name), &first).unwrap();
        let error = requests.look_at_all(&wanted).unwrap_err().to_string();
        assert!(error.contains("tandem.contract/v9"), "{error}");
        let mut changes = Changes::default();
        requests.look_at(&wanted, &name, &mut changes);
        assert_eq!(changes, Changes::default());
        publish::json(&wanted.contract(), &contract(&Contract::current_schema())).unwrap();
        assert_eq!(
            requests.look_at_all(&wanted).unwrap().changed,
            [name].into()
        );
    }
}
