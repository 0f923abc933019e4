//! What a chart in a Helm repository or an OCI registry amounts to.

use tandem_shared::request::{self, WantKind, WantSpec};
use tandem_shared::source::SourceKind;

use super::SourceWish;
use super::source::{embedded_name, of_source};
use crate::crd::{HelmRelease, RepositoryChart};

/// The one want of `chart`.
pub(super) fn wish(release: &HelmRelease, chart: &RepositoryChart) -> SourceWish {
    let oci = chart
        .url
        .get(..6)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("oci://"));
    let kind = if oci {
        SourceKind::Oci
    } else {
        SourceKind::Helm
    };
    let spec = WantSpec {
        kind: WantKind::Chart,
        reference: None,
        version: Some(chart.version.clone()),
        path: chart.name.clone(),
        skip_dependencies: false,
        submodules: false,
    };
    of_source(
        kind,
        &chart.url,
        chart.secret.clone(),
        &embedded_name(release),
        &release.own_namespace(),
        request::group([spec].into()),
    )
}
