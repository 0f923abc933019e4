//! What a chart in a git repository amounts to.

use tandem_shared::request::{self, WantKind, WantSpec};
use tandem_shared::source::SourceKind;

use super::SourceWish;
use super::source::{embedded_name, of_source};
use crate::config::SourceDefaults;
use crate::crd::{GitChart, HelmRelease};

/// The one want of `chart`.
pub(super) fn wish(
    release: &HelmRelease,
    chart: &GitChart,
    defaults: &SourceDefaults,
) -> SourceWish {
    let reference = chart.git_ref.clone().or_else(|| defaults.reference.clone());
    let spec = WantSpec {
        kind: WantKind::Chart,
        reference: reference.clone(),
        version: None,
        path: clean(&chart.path),
        skip_dependencies: chart.skip_dependencies || defaults.skip_dependencies,
        submodules: chart.submodules,
        verify: chart.verify.clone(),
    };
    let mut wish = of_source(
        SourceKind::Git,
        &chart.url,
        chart.secret.clone(),
        &embedded_name(release),
        &release.own_namespace(),
        request::group([spec].into()),
    );
    let status = release.status.as_ref();
    let prefer = preferred_commit(wish.tried(status), reference.as_deref());
    for want in &mut wish.wants {
        want.prefer.commit.clone_from(&prefer);
        let resolved = status.and_then(|status| status.dependencies.clone());
        want.prefer.dependencies = resolved.into_iter().collect();
    }
    wish
}

/// The commit that a short commit id or a range of tags stood for when it was released last.
/// A branch or tag stands for what it stands for now.
fn preferred_commit(last: Option<&String>, reference: Option<&str>) -> Option<String> {
    let (last, reference) = (last?, reference?);
    let hex = |text: &str| text.bytes().all(|c| c.is_ascii_hexdigit());
    let short = (4..40).contains(&reference.len())
        && hex(reference)
        && last.starts_with(&reference.to_ascii_lowercase());
    let range = reference.starts_with("semver:");
    (last.len() == 40 && hex(last) && (short || range)).then(|| last.clone())
}

/// A path from the root of the repository, without `.`, empty parts and what `..` undoes.
/// One that leads out of the repository stays as it is: the sidecar refuses it, by name.
pub(super) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => return path.to_owned(),
            ".." => {}
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    }
}
