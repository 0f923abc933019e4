//! How many sources are worked on at once.

use std::sync::Arc;

use tandem_shared::manifest::SourceState;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places to work at. Each standing has its own: a source that hangs takes one away from its like only, and one that
/// was well is never behind one that wasn't.
pub(super) struct Places {
    well: Arc<Semaphore>,
    new: Arc<Semaphore>,
    failing: Arc<Semaphore>,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self {
            well: places(most),
            new: places(most),
            failing: places(most.div_ceil(2)),
        }
    }

    pub(super) async fn take(&self, standing: &SourceState) -> Option<OwnedSemaphorePermit> {
        let places = match standing {
            SourceState::Ready => &self.well,
            SourceState::Failing => &self.failing,
            _ => &self.new,
        };
        // Never closed, so there is always a place at some time.
        Arc::clone(places).acquire_owned().await.ok()
    }
}
