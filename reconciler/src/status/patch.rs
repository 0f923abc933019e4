//! The difference between two statuses, as a merge patch.

use serde_json::{Map, Value};

use crate::crd::HelmReleaseStatus;

/// A merge patch of `status` that turns `before` into `after`; `None` if they are equal.
#[must_use]
pub fn merge_patch(before: &HelmReleaseStatus, after: &HelmReleaseStatus) -> Option<Value> {
    let read = |status: &HelmReleaseStatus| match serde_json::to_value(status) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let patch = difference(&read(before), &read(after));
    (!patch.is_empty()).then(|| {
        Value::Object(Map::from_iter([(
            "status".to_owned(),
            Value::Object(patch),
        )]))
    })
}

/// Lists are replaced as a whole, what is gone is null.
fn difference(before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, new) in after {
        match (before.get(key), new) {
            (Some(old), new) if old == new => {}
            (Some(Value::Object(old)), Value::Object(new)) => {
                patch.insert(key.clone(), Value::Object(difference(old, new)));
            }
            (_, new) => {
                patch.insert(key.clone(), new.clone());
            }
        }
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch
}
