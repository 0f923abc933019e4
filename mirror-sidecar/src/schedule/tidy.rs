//! Dropping what nothing asks for, between the checks.

use std::sync::Arc;
use std::time::Instant;

use super::{Done, Entry, Schedule};
use crate::janitor::{self, Survey};

impl Schedule {
    /// Notes what lies on the volume, and drops what has been asked for by
    /// nobody for the whole grace.
    pub(super) fn tidy(&mut self, survey: Survey) {
        let context = Arc::clone(&self.context);
        context.health.set_used(survey.bytes);
        context
            .metrics
            .volume_bytes
            .set(i64::try_from(survey.bytes).unwrap_or(i64::MAX));
        // What can't be listed isn't gone.
        if !self.listed {
            return;
        }
        let grace = context.config.grace;
        let wanted = self.requests.sources();
        for source in self
            .orphans
            .due(&survey.sources, &wanted, grace, Instant::now())
        {
            if self.entries.get(&source).is_some_and(|entry| entry.running) {
                continue;
            }
            // A request that comes back meanwhile waits until the drop is done.
            let entry = Entry {
                state: None,
                running: true,
                due: Instant::now(),
                changed: false,
                again: None,
            };
            self.entries.insert(source.clone(), entry);
            let served = context.config.volume.served.clone();
            self.work.spawn(async move {
                let name = source.clone();
                let dropped = match tokio::task::spawn_blocking(move || janitor::drop_source(&served, &name)).await {
                    Ok(Ok(())) => true,
                    Ok(Err(error)) => {
                        tracing::warn!(%source, %error, "can't drop what nothing asks for; tried again later");
                        false
                    }
                    Err(_) => false,
                };
                Done::Drop { source, dropped }
            });
        }
        let (artifacts, archives) = (survey.artifacts, survey.archives);
        self.spawn(move || {
            let served = &context.config.volume.served;
            context.inventory.collect(&artifacts, grace, Instant::now(), |digest| {
                match tandem_shared::publish::remove(&served.artifact(digest)) {
                    Ok(()) => {
                        tracing::info!(%digest, "dropped an artifact that nothing names");
                        context.metrics.removed("artifact");
                        true
                    }
                    Err(error) => {
                        tracing::warn!(%digest, %error, "can't drop an artifact; tried again later");
                        false
                    }
                }
            });
            context.inventory.collect_archives(&archives, grace, Instant::now(), |digest| {
                match tandem_shared::publish::remove(&served.archive(digest)) {
                    Ok(()) => {
                        tracing::info!(%digest, "dropped an archive that no chart has");
                        context.metrics.removed("archive");
                        true
                    }
                    Err(error) => {
                        tracing::warn!(%digest, %error, "can't drop an archive; tried again later");
                        false
                    }
                }
            });
            Done::Nothing
        });
    }
}
