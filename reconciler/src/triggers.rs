//! The volume's side of what wakes the reconciler: subscribe, then scan, then poll slowly.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use tandem_shared::source::SourceName;
use tandem_shared::watch::{self, Hint, Watch};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{info, warn};

/// How often a folder that can't be watched is looked at, and the watch tried again.
const POLL: Duration = Duration::from_secs(5);

/// What to look at again on the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Manifests of these sources.
    pub sources: BTreeSet<SourceName>,
    /// All manifests.
    pub everything: bool,
}

impl Look {
    /// Everything.
    #[must_use]
    pub fn all() -> Self {
        Self {
            everything: true,
            ..Self::default()
        }
    }

    fn add(&mut self, hint: Hint) {
        match hint {
            Hint::Source(name) => {
                self.sources.insert(name);
            }
            Hint::Everything | Hint::Lost => self.everything = true,
        }
    }
}

/// Tells `looks` what to look at again in `folder`, for as long as somebody listens.
/// Everything is told once at the start, and again whenever events may have been lost.
pub async fn watch_manifests(folder: PathBuf, looks: mpsc::Sender<Look>) {
    let mut complained = false;
    loop {
        let (hints, mut heard) = mpsc::unbounded_channel();
        let watch = watch::watch(&folder, move |hint| {
            // The receiver is gone only when the watch is about to go, too.
            let _ = hints.send(hint);
        });
        let trouble = match &watch {
            Err(error) => Some(error.to_string()),
            Ok(_) if !folder.is_dir() => Some(format!(
                "{} isn't there yet: no mirror-sidecar has started on this volume",
                folder.display()
            )),
            Ok(_) => None,
        };
        match (&trouble, complained) {
            (Some(why), false) => {
                warn!(folder = %folder.display(), "{why}; looking every {} s", POLL.as_secs());
            }
            (None, true) => info!(folder = %folder.display(), "the manifests are watched again"),
            _ => {}
        }
        complained = trouble.is_some();
        // Scanned only now: what happened before the watch shows itself here.
        if looks.send(Look::all()).await.is_err() {
            return;
        }
        let forwarding = async {
            match watch {
                Ok(watch) => forward(watch, &mut heard, &looks).await,
                Err(_) => std::future::pending().await,
            }
        };
        let goes_on = if complained {
            timeout(POLL, forwarding).await.unwrap_or(true)
        } else {
            forwarding.await
        };
        if !goes_on {
            return;
        }
    }
}

/// Passes hints on until the watch is lost (`true`) or nobody listens (`false`). Hints that
/// arrive while the last ones are still being looked at are put together.
async fn forward(
    _watch: Watch,
    heard: &mut mpsc::UnboundedReceiver<Hint>,
    looks: &mpsc::Sender<Look>,
) -> bool {
    loop {
        let Some(first) = heard.recv().await else {
            return true;
        };
        let mut look = Look::default();
        let mut lost = false;
        let mut next = Some(first);
        while let Some(hint) = next {
            lost |= hint == Hint::Lost;
            look.add(hint);
            next = heard.try_recv().ok();
        }
        if looks.send(look).await.is_err() {
            return false;
        }
        if lost {
            return true;
        }
    }
}

#[cfg(test)]
#[path = "trigger_tests.rs"]
mod tests;
