//! Those who download: one repository after the other, of each all that is asked for.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tandem_shared::request::ResolvedDependency;
use tandem_shared::source::redact_url;

use super::index::{self, Listed};
use super::place::{self, Place};
use super::{Desk, Fault, Key, Login, stage};
use crate::credentials::Netrc;
use crate::repository::Index;

/// A repository, as far as all that comes from it shares it.
struct Opened {
    place: Place,
    login: Option<Login>,
    /// What it has of the charts that are asked for; a registry has no index.
    index: Option<Index>,
}

impl Desk {
    /// Downloads until nothing is left in a queue.
    pub(super) fn work(self: &Arc<Self>, queue: usize) {
        let mut book = self.book();
        while !book.ending
            && let Some((repository, batch)) = book.take(queue)
        {
            drop(book);
            self.bring(&repository, &batch);
            book = self.book();
            book.busy[queue].remove(&repository);
        }
        book.workers[queue] -= 1;
        drop(book);
        self.idle.notify_all();
    }

    /// Downloads what is asked for of one repository.
    fn bring(&self, repository: &str, batch: &[(Key, Duration)]) {
        let Some((_, timeout)) = batch.first() else {
            return;
        };
        let names = batch.iter().map(|(key, _)| key.name.clone()).collect();
        let mut begun = Instant::now();
        let mut opened = guarded(|| self.open(repository, names, *timeout));
        for (key, timeout) in batch {
            let result = match &opened {
                Ok(opened) => guarded(|| self.download(opened, key, *timeout)),
                Err(fault) => Err(fault.clone()),
            };
            let word = if result.is_ok() { "success" } else { "failure" };
            self.metrics.got("dependency", word, begun.elapsed());
            // Who was silent for one until its time was over isn't waited for again by others.
            let silent = begun.elapsed() >= *timeout;
            if let Err(fault @ Fault::Outage(_)) = &result
                && silent
            {
                opened = Err(fault.clone());
            }
            self.book().record(key, result);
            self.news.notify_one();
            begun = Instant::now();
        }
    }

    pub(super) fn place(&self, repository: &str) -> Result<Place, String> {
        place::parse(repository, &self.schemes, &self.plain)
    }

    /// The login at a repository: its URL's own, or what the operator's netrc file has for
    /// its host. What the chart itself was got with goes nowhere else.
    fn login(&self, place: &Place) -> Result<Option<Login>, Fault> {
        let Some(path) = self.netrc.as_ref().filter(|_| place.login.is_none()) else {
            return Ok(place.login.clone());
        };
        let netrc = Netrc::read(path)
            .map_err(|why| Fault::Refused(format!("--netrc-file {}: {why}", path.display())))?;
        Ok(netrc.login(&place.name))
    }

    fn open(
        &self,
        repository: &str,
        names: BTreeSet<String>,
        timeout: Duration,
    ) -> Result<Opened, Fault> {
        let place = self.place(repository).map_err(Fault::Refused)?;
        let login = self.login(&place)?;
        // helm asks registries by itself.
        let index = match place.oci {
            true => None,
            false => Some(index::get(self, &place, login.as_ref(), names, timeout)?),
        };
        Ok(Opened {
            place,
            login,
            index,
        })
    }

    fn download(
        &self,
        opened: &Opened,
        key: &Key,
        timeout: Duration,
    ) -> Result<ResolvedDependency, Fault> {
        let shown = redact_url(&key.repository);
        tracing::debug!(name = %key.name, version = %key.version, repository = %shown, "downloading a dependency");
        let url = &opened.place.url;
        let listed = opened
            .index
            .as_ref()
            .map(|index| Listed::of(index, url, &key.name, &key.version, &self.schemes))
            .transpose()?;
        let found = stage::download(&stage::Order {
            program: &self.program,
            served: &self.served,
            login: opened.login.as_ref(),
            listed: listed.as_ref(),
            place: &opened.place,
            name: &key.name,
            version: &key.version,
            deadline: timeout,
            limit: self.limit,
            cancel: &self.cancel,
        })?;
        match &key.pinned {
            Some(pinned) if *pinned != found.digest => Err(Fault::Refused(format!(
                "version {} was resolved to the archive {pinned}, and the repository now gives {}; publish it again as it was, or change the chart, which resolves it anew",
                found.version, found.digest
            ))),
            _ => {
                tracing::info!(name = %key.name, version = %found.version, repository = %shown, digest = %found.digest, "downloaded a dependency");
                Ok(ResolvedDependency {
                    name: key.name.clone(),
                    version: found.version,
                    repository: shown,
                    digest: Some(found.digest),
                })
            }
        }
    }
}

/// What a stranger wrote is read by strangers' libraries here; a worker outlives their faults.
fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let why = "a fault of the sidecar itself, which its log shows; please report it";
        Err(Fault::Outage(why.to_owned()))
    })
}
