//! What a registry's manifest says. Pure functions.

use serde::Deserialize;

use super::OciError;
use super::place::is_digest;

/// Bytes of a manifest, at most: what registries have to take.
pub(super) const BYTES: u64 = 4 * 1024 * 1024;
/// What is asked for. Lists of manifests, too, so that one is told and not "not found".
pub(super) const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json";

const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// What helm pushed while all this was an experiment.
const OLD_CHART: &str = "application/tar+gzip";

/// A blob of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blob {
    #[serde(default)]
    pub(super) media_type: String,
    /// `sha256:<hex>`.
    #[serde(default)]
    pub digest: String,
    /// Its bytes, as the manifest has it.
    #[serde(default)]
    pub size: u64,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    config: Option<Blob>,
    #[serde(default)]
    layers: Vec<Blob>,
    #[serde(default)]
    manifests: Option<serde::de::IgnoredAny>,
}

/// The archive of the chart that a manifest names.
///
/// # Errors
/// If it is none of a chart.
pub(super) fn chart(manifest: &[u8]) -> Result<Blob, OciError> {
    let read: Manifest =
        serde_json::from_slice(manifest).map_err(|error| OciError::Manifest(error.to_string()))?;
    if read.manifests.is_some() {
        return Err(OciError::Index);
    }
    let Some(config) = read.config else {
        return Err(OciError::Manifest("it has no `config`".to_owned()));
    };
    if config.media_type != CONFIG {
        return Err(OciError::NotChart(shown(&config.media_type)));
    }
    let mut layers = read.layers.into_iter();
    let archive = layers
        .find(|layer| [CHART, OLD_CHART].contains(&layer.media_type.as_str()))
        .ok_or(OciError::NoArchive)?;
    if is_digest(&archive.digest) {
        Ok(archive)
    } else {
        Err(OciError::DigestKind(shown(&archive.digest)))
    }
}

/// Text from outside, cut to what a message may hold.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn layer(media_type: &str) -> Value {
        let digest = format!("sha256:{}", "a".repeat(64));
        json!({"mediaType": media_type, "digest": digest, "size": 10})
    }

    fn read(manifest: &Value) -> Result<Blob, OciError> {
        chart(manifest.to_string().as_bytes())
    }

    #[test]
    fn the_charts_archive_is_found_wherever_it_stands() {
        let provenance = "application/vnd.cncf.helm.chart.provenance.v1.prov";
        for layers in [
            json!([layer(CHART)]),
            json!([layer(provenance), layer(CHART)]),
            json!([layer(OLD_CHART)]),
        ] {
            let manifest =
                json!({"schemaVersion": 2, "config": layer(CONFIG), "layers": layers, "later": {}});
            let blob = read(&manifest).unwrap();
            assert_eq!((blob.digest.len(), blob.size), (71, 10));
        }
    }

    #[test]
    fn what_is_no_chart_is_told_by_what_it_is() {
        let image = "application/vnd.oci.image.config.v1+json";
        let told = |manifest: Value| read(&manifest).unwrap_err().to_string();
        let error = told(json!({"config": layer(image), "layers": [layer(CHART)]}));
        assert!(error.contains("image.config"), "{error}");
        let error = told(json!({"schemaVersion": 2, "manifests": []}));
        assert!(error.contains("index"), "{error}");
        let error = told(json!({"config": layer(CONFIG), "layers": [layer(image)]}));
        assert!(error.contains("no archive"), "{error}");
        let mut odd = layer(CHART);
        odd["digest"] = json!("sha512:abc");
        let error = told(json!({"config": layer(CONFIG), "layers": [odd]}));
        assert!(error.contains("sha512"), "{error}");
        for broken in [json!([]), json!({}), json!({"config": 1}), json!("x")] {
            assert!(
                matches!(read(&broken), Err(OciError::Manifest(_))),
                "{broken}"
            );
        }
        assert!(matches!(chart(b"<html>"), Err(OciError::Manifest(_))));
    }
}
