//! Whose a release is by the annotation of its objects. It counts for HelmReleases that this
//! reconciler doesn't follow, and for a release that comes to it: of those that it follows,
//! the oldest has a release.

use std::collections::BTreeSet;

use kube::{Api, Client};

use super::objects::Seen;
use crate::crd::{ANTECEDENT_ANNOTATION, StoredHelmRelease, Target};
use crate::releases::Key;

/// The HelmReleases outside of the one namespace that is followed that objects are annotated
/// for.
pub(super) fn strangers(seen: &[Seen], followed: &str) -> BTreeSet<Key> {
    let named = seen.iter().filter_map(Seen::antecedent);
    named.filter(|key| key.namespace != followed).collect()
}

/// The first of these HelmReleases that asks for the release. One that may not be read may do
/// so.
///
/// # Errors
/// If the API doesn't answer; that says nothing about whose the release is.
pub(super) async fn holder(
    client: &Client,
    target: &Target,
    strangers: BTreeSet<Key>,
) -> Result<Option<String>, kube::Error> {
    for key in strangers {
        let api: Api<StoredHelmRelease> = Api::namespaced(client.clone(), &key.namespace);
        match api.get_opt(&key.name).await {
            Ok(found) if asks_for(found.as_ref(), target) => return Ok(Some(key.to_string())),
            Ok(_) => {}
            Err(error) if is_forbidden(&error) => {
                return Ok(Some(format!(
                    "{key} (which can't be read: {error}; if it is gone, take the annotation {ANTECEDENT_ANNOTATION} off its objects)"
                )));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

fn asks_for(found: Option<&StoredHelmRelease>, target: &Target) -> bool {
    match found.map(|found| &found.0) {
        Some(Ok(release)) => release.target() == *target,
        Some(Err(_)) => true,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn only_who_asks_for_a_release_holds_it() {
        let target = |name: &str| Target {
            namespace: "demo".into(),
            name: name.into(),
        };
        let found = |timeout: serde_json::Value| -> StoredHelmRelease {
            serde_json::from_value(json!({
                "apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease",
                "metadata": {"namespace": "other", "name": "web"},
                "spec": {
                    "releaseName": "web", "targetNamespace": "demo", "timeout": timeout,
                    "chart": {"git": "https://h/r.git", "path": "x"},
                },
            }))
            .unwrap()
        };
        assert!(asks_for(Some(&found(json!(1))), &target("web")));
        assert!(!asks_for(Some(&found(json!(1))), &target("former")));
        assert!(asks_for(Some(&found(json!("unreadable"))), &target("web")));
        assert!(!asks_for(None, &target("web")));
    }
}
