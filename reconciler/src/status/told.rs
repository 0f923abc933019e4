//! Which passes are worth an event.

use crate::crd::{ConditionType, HelmReleaseStatus, Target};
use crate::events::Told;

/// The event that a pass is worth, by the status before and after it. `ran` says what it
/// did to the release, if it did anything with success. A failure that was told before, and
/// is only tried again, isn't told again.
#[must_use]
pub fn event(
    before: &HelmReleaseStatus,
    after: &HelmReleaseStatus,
    target: &Target,
    ran: Option<&str>,
) -> Option<Told> {
    let ready = after.condition(ConditionType::Ready)?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    match ready.status.as_str() {
        "True" => {
            let was = before
                .condition(ConditionType::Ready)
                .is_some_and(|ready| ready.status == "True");
            if was && ran.is_none() {
                return None;
            }
            let Target { namespace, name } = target;
            let chart = after.revision.as_deref().unwrap_or("unknown");
            let what = ran.unwrap_or("nothing was to be done");
            Some(Told {
                warning: false,
                reason: "ReleaseSynced",
                action: "Sync".to_owned(),
                note: format!(
                    "managed release '{name}' in namespace '{namespace}' synchronized: {what}, chart {chart}"
                ),
            })
        }
        "False" => {
            let told = before.condition(ConditionType::Ready).is_some_and(|old| {
                old.status == "False" && old.reason == ready.reason && old.message == ready.message
            });
            (!told).then(|| Told {
                warning: true,
                reason: "FailedReleaseSync",
                action: text(&ready.reason),
                note: format!(
                    "synchronization of release '{}' in namespace '{}' failed: {}",
                    target.name,
                    target.namespace,
                    text(&ready.message)
                ),
            })
        }
        _ => None,
    }
}
