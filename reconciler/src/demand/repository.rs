//! What a chart in a Helm repository or an OCI registry amounts to.

use semver::Version;
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
        verify: None,
    };
    let mut wish = of_source(
        kind,
        &chart.url,
        chart.secret.clone(),
        &embedded_name(release),
        &release.own_namespace(),
        request::group([spec].into()),
    );
    let prefer = preferred_version(wish.tried(release.status.as_ref()), &chart.version);
    for want in &mut wish.wants {
        want.prefer.version.clone_from(&prefer);
    }
    wish
}

/// The version that a range stood for when it was released last. What is written as one
/// version means that one.
fn preferred_version(last: Option<&String>, asked: &str) -> Option<String> {
    let exact = |text: &str| Version::parse(text.strip_prefix('v').unwrap_or(text)).ok();
    last.filter(|last| exact(asked).is_none() && exact(last).is_some())
        .cloned()
}
