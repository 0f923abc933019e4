//! What has to be so before the first request is looked at.

use jiff::Timestamp;
use tandem_shared::lock::{self, Guard, LockError};
use tandem_shared::manifest::Manifest;
use tandem_shared::observe;
use tandem_shared::publish::{self, Audience, PublishError};
use tandem_shared::version::{Contract, Document};
use thiserror::Error;

use crate::config::Config;
use crate::inventory::Inventory;
use crate::janitor;

/// Why it can't begin.
#[derive(Debug, Error)]
pub(super) enum StartError {
    /// Another sidecar lives.
    #[error(
        "another mirror-sidecar lives on this volume: {0}; end it, or give this one a volume of its own"
    )]
    Held(LockError),
    /// The lock can't be taken.
    #[error(transparent)]
    Lock(LockError),
    /// The volume can't be written.
    #[error(transparent)]
    Volume(#[from] PublishError),
}

/// Takes the role, makes the folders, and clears away what a killed
/// predecessor left. The lock is held as long as what is returned.
///
/// # Errors
/// If another sidecar lives on the volume or the volume can't be written.
pub(super) fn begin(
    config: &Config,
    inventory: Inventory,
) -> Result<(Guard, Inventory), StartError> {
    let served = &config.volume.served;
    for folder in served.folders() {
        // The other role has no business in the mirrors.
        let audience = if folder == served.mirrors() {
            Audience::Owner
        } else {
            Audience::Group
        };
        publish::folder(&folder, audience)?;
    }
    let role =
        lock::acquire_within(&served.role_lock(), config.lock_wait).map_err(
            |error| match error {
                held @ LockError::Held { .. } => StartError::Held(held),
                other => StartError::Lock(other),
            },
        )?;
    let swept = janitor::clear_leftovers(served)?;
    if swept > 0 {
        tracing::info!(swept, "cleared away what a predecessor left");
    }
    let contract = Contract {
        schema: Contract::current_schema(),
        writer: "mirror-sidecar".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: Timestamp::now(),
    };
    publish::json(&served.contract(), &contract)?;
    // What manifests name is kept from the first moment on, also of sources
    // that nothing asks for just now.
    let sources = observe::list(&served.manifests())
        .map(|listing| listing.sources)
        .unwrap_or_default();
    for source in sources {
        match observe::load::<Manifest>(&served.manifest(&source)) {
            Ok(observed) => inventory.published(&source, &observed.document),
            Err(error) => {
                tracing::warn!(%source, %error, "a manifest isn't read; no artifact is dropped before it is replaced or gone");
                inventory.unreadable(&source);
            }
        }
    }
    Ok((role, inventory))
}
