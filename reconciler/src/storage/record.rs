//! A decoded release record.

use serde_json::{Map, Value};

use super::{RecordMeta, RecordState};

/// How the description of a record begins that recovery marked as failed.
pub const MARKED_FAILED: &str = "Marked as failed";

/// How the objects of a revision were applied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ApplyMethod {
    /// By the API server.
    ServerSide,
    /// By the helm program; also what a record says that says nothing.
    ClientSide,
}

/// One revision with everything that Helm wrote down of it.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its metadata, of the same read.
    pub meta: RecordMeta,
    payload: Value,
}

impl Record {
    pub(super) fn new(meta: RecordMeta, payload: Value) -> Self {
        Self { meta, payload }
    }

    pub(super) fn payload(&self) -> &Value {
        &self.payload
    }

    /// Helm's description of the revision, in a sentence.
    #[must_use]
    pub fn description(&self) -> &str {
        self.info("description")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// How the objects were applied.
    #[must_use]
    pub fn apply_method(&self) -> ApplyMethod {
        match self.payload.get("apply_method").and_then(Value::as_str) {
            Some("ssa") => ApplyMethod::ServerSide,
            _ => ApplyMethod::ClientSide,
        }
    }

    /// Whether this revision is, or was to be, a return to an earlier one: as helm 4 records
    /// it, or as every helm describes it.
    #[must_use]
    pub fn is_rollback(&self) -> bool {
        let recorded = self.info("rollback_revision").and_then(Value::as_i64);
        let description = self.description();
        recorded.is_some_and(|revision| revision > 0)
            || description.contains("Rollback to ")
            || description.starts_with("Rollback \"")
    }

    /// Whether helm, or our recovery, described the revision as failed, whatever became of
    /// its status later: a failed revision is marked superseded by the next one.
    #[must_use]
    pub fn described_failed(&self) -> bool {
        let description = self.description();
        description.contains("\" failed: ") || description.starts_with(MARKED_FAILED)
    }

    /// The chart, as far as Helm records it: without subcharts.
    #[must_use]
    pub fn chart(&self) -> &Value {
        self.payload.get("chart").unwrap_or(&Value::Null)
    }

    /// The values that were given, without the chart's defaults.
    #[must_use]
    pub fn config(&self) -> Map<String, Value> {
        self.payload
            .get("config")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    }

    /// The rendered objects without hooks, as YAML documents.
    #[must_use]
    pub fn manifest(&self) -> &str {
        self.payload
            .get("manifest")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The hooks.
    #[must_use]
    pub fn hooks(&self) -> &[Value] {
        self.payload
            .get("hooks")
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// Whether the tests of this revision, if any ran, ended well; `None` if none ran.
    #[must_use]
    pub fn tests_succeeded(&self) -> Option<bool> {
        let mut result = None;
        for hook in self.hooks() {
            let is_test = hook
                .get("events")
                .and_then(Value::as_array)
                .is_some_and(|events| events.iter().any(|event| event == "test"));
            let phase = hook.pointer("/last_run/phase").and_then(Value::as_str);
            if let (true, Some(phase)) = (is_test, phase.filter(|phase| !phase.is_empty())) {
                result = Some(result.unwrap_or(true) && phase == "Succeeded");
            }
        }
        result
    }

    /// The same record with another status and description, in label and payload. What it
    /// was described as before follows in brackets: it may tell that it is a rollback.
    #[must_use]
    pub fn rewritten(&self, state: RecordState, description: &str) -> Self {
        let mut record = self.clone();
        if let Some(info) = record
            .payload
            .get_mut("info")
            .and_then(Value::as_object_mut)
        {
            info.insert("status".into(), Value::String(state.as_str().to_owned()));
            let before = info
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let description = match before {
                "" => description.to_owned(),
                before => format!("{description} ({before})"),
            };
            info.insert("description".into(), Value::String(description));
        }
        record.meta.state = state;
        record
    }

    fn info(&self, key: &str) -> Option<&Value> {
        self.payload.get("info")?.get(key)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::identity::Stamp;

    /// A record with this payload.
    pub(crate) fn record(payload: Value) -> Record {
        let meta = RecordMeta {
            revision: 2,
            state: RecordState::Deployed,
            stamp: Stamp::Missing,
            touched: Timestamp::UNIX_EPOCH,
            created: Timestamp::UNIX_EPOCH,
            resource_version: "1".into(),
        };
        Record::new(meta, payload)
    }

    #[test]
    fn a_rollback_is_known_by_its_field_or_its_description() {
        let described = |text: &str| record(json!({"info": {"description": text}})).is_rollback();
        assert!(described("Rollback to 12"));
        assert!(described("Rollback \"app\" failed: no"));
        assert!(described("Marked as failed: it died (Rollback to 1)"));
        assert!(!described("Upgrade complete: 0123abc"));
        assert!(!described("Upgrade \"rollback\" failed: no"));
        let recorded = json!({"info": {"description": "x", "rollback_revision": 3}});
        assert!(record(recorded).is_rollback());
        assert!(!record(json!({"info": {}})).is_rollback());
    }

    #[test]
    fn a_record_without_a_method_was_applied_by_the_client() {
        assert_eq!(record(json!({})).apply_method(), ApplyMethod::ClientSide);
        let server = record(json!({"apply_method": "ssa"}));
        assert_eq!(server.apply_method(), ApplyMethod::ServerSide);
    }

    #[test]
    fn test_results_are_those_of_test_hooks_that_ran() {
        let hook =
            |event: &str, phase: &str| json!({"events": [event], "last_run": {"phase": phase}});
        let results = |hooks: Value| record(json!({"hooks": hooks})).tests_succeeded();
        assert_eq!(results(json!([hook("pre-install", "Failed")])), None);
        assert_eq!(results(json!([hook("test", "")])), None);
        assert_eq!(results(json!([hook("test", "Succeeded")])), Some(true));
        let mixed = json!([hook("test", "Succeeded"), hook("test", "Failed")]);
        assert_eq!(results(mixed), Some(false));
    }

    #[test]
    fn rewriting_changes_status_and_description_only() {
        let info = json!({"status": "pending-upgrade", "notes": "n", "description": "Preparing"});
        let before = record(json!({"info": info, "x": 1}));
        let after = before.rewritten(RecordState::Failed, "the process was gone");
        assert_eq!(after.meta.state, RecordState::Failed);
        let info = json!({"status": "failed", "notes": "n", "description": "the process was gone (Preparing)"});
        assert_eq!(after.payload(), &json!({"info": info, "x": 1}));
    }
}
