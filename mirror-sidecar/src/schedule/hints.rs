//! Hints that requests changed, gathered until the schedule has time for them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tandem_shared::source::SourceName;
use tandem_shared::watch::{self, Hint, Watch, WatchError};
use tokio::sync::Notify;

/// What is to be looked at again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Gathered {
    /// These sources.
    pub sources: BTreeSet<SourceName>,
    /// Everything.
    pub everything: bool,
    /// The watch has to be set up anew.
    pub lost: bool,
}

/// Hints on their way: however many there are, they take no more room than
/// the sources that they are about.
#[derive(Debug, Default)]
pub(super) struct Hints {
    gathered: Mutex<Gathered>,
    news: Notify,
}

impl Hints {
    /// Watches `folder`.
    ///
    /// # Errors
    /// If it can't be watched.
    pub(super) fn subscribe(self: &Arc<Self>, folder: &Path) -> Result<Watch, WatchError> {
        let hints = Arc::clone(self);
        watch::watch(folder, move |hint| hints.add(hint))
    }

    fn add(&self, hint: Hint) {
        {
            let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
            match hint {
                Hint::Source(source) => {
                    gathered.sources.insert(source);
                }
                Hint::Everything => gathered.everything = true,
                Hint::Lost => {
                    gathered.everything = true;
                    gathered.lost = true;
                }
            }
        }
        self.news.notify_one();
    }

    /// Waits until there are hints, and takes them.
    pub(super) async fn take(&self) -> Gathered {
        self.news.notified().await;
        std::mem::take(&mut *self.gathered.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
