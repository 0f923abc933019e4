//! The CRD as YAML, from the types.

use kube::CustomResourceExt;

use super::HelmRelease;

/// The CRD can't be written as YAML.
#[derive(Debug, thiserror::Error)]
#[error("write the HelmRelease CRD as YAML: {0}")]
pub struct CrdError(String);

/// The `CustomResourceDefinition` of HelmRelease as a YAML document, byte for byte the
/// same for the same types.
///
/// # Errors
/// Only if the generated definition can't be serialised.
pub fn crd_yaml() -> Result<String, CrdError> {
    let mut definition = HelmRelease::crd();
    // Written out, since a definition from before apiextensions.k8s.io/v1 has `true`, keeps it
    // where nothing is said, and then takes no schema with defaults.
    definition.spec.preserve_unknown_fields = Some(false);
    let value = serde_json::to_value(definition).map_err(|error| CrdError(error.to_string()))?;
    serde_saphyr::to_string(&value).map_err(|error| CrdError(error.to_string()))
}
