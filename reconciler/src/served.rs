//! The sidecar's mount, as far as it was read: the manifests of all sources that are asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use tandem_shared::layout;
use tandem_shared::manifest::{Manifest, Reason};
use tandem_shared::observe::{self, ObserveError};
use tandem_shared::source::{Source, SourceName};
use tracing::warn;

use crate::triggers::{changed_wants, source_failure_changed};
use crate::view::{Unread, WantView, view};

/// All manifests that were read.
pub struct Served {
    mount: layout::Served,
    seen: BTreeMap<SourceName, Result<Arc<Manifest>, Unread>>,
}

/// What a manifest that was read anew changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Wants with another artifact or problem.
    pub wants: BTreeSet<String>,
    /// All wants: it is about the source, or the manifest itself.
    pub everything: bool,
}

impl News {
    /// Whether it touches this want.
    #[must_use]
    pub fn touches(&self, want: &str) -> bool {
        self.everything || self.wants.contains(want)
    }
}

impl Served {
    /// Nothing was read yet.
    #[must_use]
    pub fn new(mount: layout::Served) -> Self {
        Self {
            mount,
            seen: BTreeMap::new(),
        }
    }

    /// Whether the manifest of a source was looked for.
    #[must_use]
    pub fn knows(&self, name: &SourceName) -> bool {
        self.seen.contains_key(name)
    }

    /// Reads the manifest of a source, and says what that changes.
    pub fn read(&mut self, source: &Source) -> News {
        let name = source.name();
        let now = match observe::manifest(&self.mount.manifest(&name), source) {
            Ok(read) => Ok(Arc::new(read.document)),
            Err(ObserveError::Missing(_)) => Err(Unread::Absent),
            Err(error) => Err(Unread::Refused(error.to_string())),
        };
        let before = self.seen.get(&name).unwrap_or(&Err(Unread::Absent));
        let news = match (before, &now) {
            (Ok(old), Ok(new)) => {
                let failure = source_failure_changed(Some(old), new);
                News {
                    wants: changed_wants(Some(old), new),
                    everything: failure,
                }
            }
            (Err(_), Ok(_)) | (Ok(_), Err(_)) => News {
                everything: true,
                ..News::default()
            },
            (Err(old), Err(new)) => News {
                everything: old != new,
                ..News::default()
            },
        };
        if let Err(Unread::Refused(why)) = &now
            && news.everything
        {
            warn!(source = %name, "{why}");
        }
        self.seen.insert(name, now);
        news
    }

    /// When the sidecar last asked a source, as far as its manifest says.
    #[must_use]
    pub fn checked_at(&self, name: &SourceName) -> Option<Timestamp> {
        self.seen.get(name)?.as_ref().ok()?.checked_at
    }

    /// Whether the check that this refresh token asked for has ended.
    #[must_use]
    pub fn has_handled(&self, name: &SourceName, token: &str) -> bool {
        let manifest = self.seen.get(name).and_then(|seen| seen.as_ref().ok());
        manifest.is_some_and(|manifest| manifest.handled_refresh == token)
    }

    /// Whether a source can't be checked.
    #[must_use]
    pub fn is_failing(&self, name: &SourceName) -> bool {
        self.failure(name).is_some()
    }

    /// Whether a source can't be checked for want of a right credential.
    #[must_use]
    pub fn is_refused(&self, name: &SourceName) -> bool {
        matches!(
            self.failure(name),
            Some(Reason::AuthenticationFailed | Reason::CredentialMissing | Reason::HostNotTrusted)
        )
    }

    fn failure(&self, name: &SourceName) -> Option<&Reason> {
        let manifest = self.seen.get(name)?.as_ref().ok()?;
        manifest.failure.as_ref().map(|failure| &failure.reason)
    }

    /// Forgets sources that nobody asks any more.
    pub fn retain(&mut self, keep: impl Fn(&SourceName) -> bool) {
        self.seen.retain(|name, _| keep(name));
    }

    /// What there is to say about one want.
    #[must_use]
    pub fn view(&self, source: &SourceName, want: &str) -> WantView {
        let manifest = self
            .seen
            .get(source)
            .map_or(Err(&Unread::Absent), |seen| seen.as_deref());
        view(manifest, want)
    }

    /// The credentials that the sidecar was last seen to use.
    #[must_use]
    pub fn credentials(&self) -> BTreeSet<String> {
        let observed = self
            .seen
            .values()
            .flatten()
            .filter_map(|manifest| manifest.observed_request.as_ref());
        observed
            .filter_map(|observed| observed.credential_id.clone())
            .collect()
    }
}
