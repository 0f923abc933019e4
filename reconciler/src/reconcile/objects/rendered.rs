//! What a rendered manifest names, and what it holds.

use data_encoding::BASE64;
use serde_json::Value;

use super::ObjectRef;
use crate::values::read_yaml;

/// The objects of a rendered manifest, in order. What isn't an object is left out: helm
/// rendered it, and helm knows what it did with it.
#[must_use]
pub fn objects_of(manifest: &str) -> Vec<ObjectRef> {
    let mut objects = Vec::new();
    for document in documents(manifest) {
        let Ok(value) = read_yaml(document.as_bytes()) else {
            continue;
        };
        match value.get("items").and_then(Value::as_array) {
            Some(items) => objects.extend(items.iter().filter_map(object_ref)),
            None => objects.extend(object_ref(&value)),
        }
    }
    objects
}

/// The contents of the Secrets of a rendered manifest, for masking.
#[must_use]
pub fn secrets_of(manifest: &str) -> Vec<Value> {
    let mut contents = Vec::new();
    // Most documents are nothing of the kind, and reading them all is dear.
    for document in documents(manifest)
        .iter()
        .filter(|document| document.contains("Secret"))
    {
        let Ok(value) = read_yaml(document.as_bytes()) else {
            continue;
        };
        let objects = match value.get("items").and_then(Value::as_array) {
            Some(items) => items.clone(),
            None => vec![value],
        };
        for object in objects.iter().filter(|object| object["kind"] == "Secret") {
            contents.push(object["stringData"].clone());
            let data = object["data"]
                .as_object()
                .into_iter()
                .flat_map(|data| data.values());
            contents.extend(data.filter_map(Value::as_str).map(|packed| {
                let decoded = BASE64.decode(packed.as_bytes()).unwrap_or_default();
                Value::String(String::from_utf8(decoded).unwrap_or_else(|_| packed.to_owned()))
            }));
        }
    }
    contents
}

fn object_ref(value: &Value) -> Option<ObjectRef> {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    Some(ObjectRef {
        api_version: text("/apiVersion")?.to_owned(),
        kind: text("/kind")?.to_owned(),
        namespace: text("/metadata/namespace").unwrap_or_default().to_owned(),
        name: text("/metadata/name")?.to_owned(),
    })
}

/// The documents between lines of `---`.
fn documents(manifest: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in manifest.lines() {
        if line.trim_end() == "---" {
            documents.push(String::new());
        } else if let Some(document) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    documents
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn contents_of_secrets_are_found() {
        let manifest = "kind: Secret\ndata: {a: aHVudGVyMg==, b: gICA}\nstringData: {c: plain}\n\
                        ---\nkind: ConfigMap\ndata: {d: Secret}\n";
        let contents = secrets_of(manifest);
        let expected = [json!({"c": "plain"}), json!("hunter2"), json!("gICA")];
        assert_eq!(contents, expected);
    }

    #[test]
    fn a_manifest_is_read_object_by_object() {
        let manifest = "---\n# Source: app/templates/cm.yaml\napiVersion: v1\nkind: ConfigMap\n\
                        metadata:\n  name: a\ndata:\n  x: |\n    ---x\n---\n# Source: b\n\
                        apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b, namespace: other}\n\
                        ---\n# nothing\n---\nbroken: [\n---\napiVersion: v1\nkind: List\nitems:\n\
                        - {apiVersion: v1, kind: Secret, metadata: {name: c}}\n";
        let objects: Vec<String> = objects_of(manifest)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(objects, ["ConfigMap a", "Deployment other/b", "Secret c"]);
    }
}
