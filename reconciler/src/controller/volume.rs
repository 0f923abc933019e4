//! What the controller keeps right on the volume and on that of the credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::task::block_in_place;
use tracing::{error, warn};

use super::Controller;
use crate::credentials::{self, Lent};
use crate::demand::{self, Part, SourceWish, Wish};
use crate::releases::Entry;

impl Controller {
    /// Derives all requests from all HelmReleases, and makes the volume say so.
    pub(super) fn derive(&mut self) {
        if !self.releases.is_listed() {
            return;
        }
        self.stale = false;
        let thorough = std::mem::take(&mut self.thorough);
        self.ask_credentials();
        for name in std::mem::take(&mut self.edited) {
            self.wanted.renew(&name);
        }
        let names: Vec<(String, &Arc<Entry>)> = self
            .releases
            .iter()
            .map(|entry| (entry.key.to_string(), entry))
            .collect();
        let keys = self.credentials.keys();
        let wishes = names.iter().flat_map(|(name, entry)| {
            let wish = entry.wish.as_ref().ok();
            wish.into_iter()
                .flat_map(move |wish| wish.sources().map(move |wish| (name, wish)))
        });
        let parts = wishes.filter_map(|(name, wish)| {
            let credential = match &wish.source.credential {
                Some(secret) => {
                    let lent = Lent::Credential(secret.clone());
                    Some(self.credentials.id(&lent)?)
                }
                None => None,
            };
            Some(Part {
                helm_release: name,
                wish,
                credential,
                keys: &keys,
            })
        });
        let requests = demand::requests(parts, self.wanted.extras(), &self.settings.sources);
        match block_in_place(|| self.wanted.put(requests, thorough)) {
            Ok(changed) => {
                self.ctx.metrics.requests.inc_by(changed as u64);
            }
            Err(error) => {
                error!("{error}");
                // Tried again in a while, or with the next change.
                self.thorough = true;
            }
        }
        let asked: BTreeMap<_, _> = self
            .wanted
            .requests()
            .iter()
            .map(|(name, request)| (name.clone(), request.source.clone()))
            .collect();
        self.served.retain(|name| asked.contains_key(name));
        // What is asked for anew may have been answered before.
        let unread: Vec<_> = asked
            .into_iter()
            .filter(|(name, _)| !self.served.knows(name))
            .collect();
        for (name, source) in unread {
            let news = block_in_place(|| self.served.read(&source));
            self.ctx.metrics.manifests.inc();
            self.doubt(&name);
            self.let_go(&name);
            self.news(&name, &news);
        }
        self.ctx.metrics.git_ready(self.served.git_is_ready());
        self.retain_credentials();
    }

    pub(super) fn ask_credentials(&mut self) {
        let mut unread = Vec::new();
        let entries: Vec<Arc<Entry>> = self.releases.iter().cloned().collect();
        let wishes = entries.iter().filter_map(|entry| entry.wish.as_ref().ok());
        for wish in wishes.flat_map(Wish::sources) {
            for lent in wish.lent() {
                match (&lent, &wish.embedded) {
                    (Lent::Credential(_), Some(values)) => {
                        block_in_place(|| self.credentials.learn(&lent, Ok(values.clone())));
                    }
                    _ => {
                        if self.credentials.ask(&lent).1 {
                            unread.push(lent);
                        }
                    }
                }
            }
        }
        for secret in unread {
            self.read_credential(secret);
        }
    }

    /// Tries again what waits for somebody to mend it: requests that couldn't be written,
    /// Secrets that aren't there, or whose sources refuse what was in them. In a steady state
    /// there is nothing of the kind.
    pub(super) fn try_again(&mut self) {
        self.stale |= self.thorough;
        let mut doubtful = self.credentials.doubtful();
        for (name, request) in self.wanted.requests() {
            if let Some(secret) = &request.source.credential
                && self.served.is_refused(name)
            {
                doubtful.insert(Lent::Credential(secret.clone()));
            }
        }
        for secret in doubtful {
            self.read_credential(secret);
        }
    }

    pub(super) fn read_credential(&mut self, secret: Lent) {
        // What stood in a URL is in no Secret.
        if secret.is_of_url() {
            return;
        }
        if let Some(changed) = self.reading.get_mut(&secret) {
            *changed = true;
            return;
        }
        self.reading.insert(secret.clone(), false);
        let client = self.client.clone();
        self.reads.spawn(async move {
            let read = credentials::read(client, &secret).await;
            (secret, read)
        });
    }

    /// Removes credentials that no request names and that the sidecar was seen not to use
    /// any more.
    pub(super) fn retain_credentials(&mut self) {
        if !self.releases.is_listed() || !self.looked {
            return;
        }
        let named: BTreeSet<Lent> = self
            .releases
            .iter()
            .filter_map(|entry| entry.wish.as_ref().ok())
            .flat_map(Wish::sources)
            .flat_map(SourceWish::lent)
            .collect();
        let mut used = self.wanted.credentials();
        used.extend(self.served.credentials());
        if let Err(error) = block_in_place(|| self.credentials.retain(&named, &used)) {
            warn!("{error}");
        }
    }

    /// Decisions about HelmReleases that went while nobody looked.
    pub(super) fn sweep_decisions(&self) {
        let mount = &self.settings.volume.wanted;
        let known: BTreeSet<_> = self
            .releases
            .iter()
            .map(|entry| mount.release(&entry.key.namespace, &entry.key.name))
            .collect();
        let swept = block_in_place(|| -> Result<(), String> {
            let entries = std::fs::read_dir(mount.releases()).map_err(|error| error.to_string())?;
            for entry in entries {
                let path = entry.map_err(|error| error.to_string())?.path();
                let is_decision = path
                    .extension()
                    .is_some_and(|extension| extension == "json");
                if is_decision && !known.contains(&path) {
                    tandem_shared::publish::remove(&path).map_err(|error| error.to_string())?;
                }
            }
            Ok(())
        });
        if let Err(why) = swept {
            warn!("can't remove old decisions: {why}");
        }
    }
}
