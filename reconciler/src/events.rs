//! Events about HelmReleases.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tracing::warn;

/// Who tells, as helm-operator's users know it.
const CONTROLLER: &str = "helm-operator";
/// Bytes of a note that the API takes.
const NOTE_BYTES: usize = 1024;

/// Something worth an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Whether it is trouble.
    pub warning: bool,
    /// `ReleaseSynced` or `FailedReleaseSync`.
    pub reason: &'static str,
    /// What was done, in a word.
    pub action: String,
    /// A sentence, free of secrets.
    pub note: String,
}

/// Writes events.
#[derive(Clone)]
pub struct Events {
    client: Client,
    instance: String,
}

impl Events {
    /// Events of this process.
    #[must_use]
    pub fn new(client: Client, instance: &str) -> Self {
        Self {
            client,
            instance: instance.to_owned(),
        }
    }

    /// Writes one; says whether that went well. An event that is lost is no reason to do
    /// anything again.
    pub async fn tell(&self, about: &ObjectReference, told: &Told) -> bool {
        let namespace = about.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let event = self.event(about, told);
        let written = api.create(&PostParams::default(), &event).await;
        if let Err(error) = &written {
            warn!(helmrelease = %format!("{namespace}/{}", about.name.as_deref().unwrap_or_default()), "can't write an event: {error}");
        }
        written.is_ok()
    }

    fn event(&self, about: &ObjectReference, told: &Told) -> Event {
        let now = jiff::Timestamp::now();
        // Names of events are never read; this is what others make them of, too.
        let stem: String = about
            .name
            .iter()
            .flat_map(|name| name.chars())
            .take(200)
            .collect();
        Event {
            metadata: ObjectMeta {
                namespace: about.namespace.clone(),
                name: Some(format!(
                    "{}.{:x}",
                    stem.trim_end_matches(['.', '-']),
                    now.as_nanosecond()
                )),
                ..ObjectMeta::default()
            },
            action: Some(told.action.clone()),
            event_time: Some(MicroTime(now)),
            note: Some(cut(&told.note)),
            reason: Some(told.reason.to_owned()),
            regarding: Some(about.clone()),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(if told.warning { "Warning" } else { "Normal" }.to_owned()),
            ..Event::default()
        }
    }
}

fn cut(note: &str) -> String {
    if note.len() <= NOTE_BYTES {
        return note.to_owned();
    }
    let mut end = NOTE_BYTES - '…'.len_utf8();
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", note.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_fits() {
        assert_eq!(cut("short"), "short");
        let long = cut(&"ä".repeat(2000));
        assert!(
            long.len() <= NOTE_BYTES && long.ends_with('…'),
            "{}",
            long.len()
        );
    }
}
