//! Reading what is wanted, one file at a time: a strange file never stops the
//! others, and one that can't be read changes nothing.

use std::collections::{BTreeMap, BTreeSet};
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
            Ok(_) | Err(ObserveError::Missing(_)) => {}
            Err(error) => return Err(error),
        }
        let listing = observe::list(&wanted.requests())?;
        let mut changes = Changes::default();
        for stray in listing.strays {
            let what = stray.display().to_string();
            self.tell(&what, &format!("{what} is named after no source and isn't read; a request is named <slug>-<32 hex>.json, as a refusal of one with another name says"));
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
