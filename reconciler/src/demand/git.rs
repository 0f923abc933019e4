//! What a chart in a git repository amounts to, with the values files beside it.

use std::collections::{BTreeMap, BTreeSet};

use tandem_shared::request::{self, WantKind, WantSpec};
use tandem_shared::source::SourceKind;

use super::SourceWish;
use super::source::{embedded_name, of_source};
use crate::config::SourceDefaults;
use crate::crd::{GitChart, HelmRelease};

/// The wants of `chart` and of `files`, which are paths from the chart and whether each
/// may be missing; and the key of each file by its path.
pub(super) fn wish(
    release: &HelmRelease,
    chart: &GitChart,
    files: &[(String, bool)],
    defaults: &SourceDefaults,
) -> (SourceWish, BTreeMap<String, String>) {
    let reference = chart.git_ref.clone().or_else(|| defaults.reference.clone());
    let spec = |kind, path, skip_dependencies| WantSpec {
        kind,
        reference: reference.clone(),
        version: None,
        path,
        skip_dependencies,
    };
    let chart_path = clean(&chart.path);
    let skip = chart.skip_dependencies || defaults.skip_dependencies;
    let chart_want = spec(WantKind::Chart, chart_path.clone(), skip);
    let mut group: BTreeSet<WantSpec> = [chart_want.clone()].into();
    // A file that need not be there must not hold the chart back: it moves by itself.
    let mut alone = BTreeSet::new();
    let mut paths = BTreeMap::new();
    for (path, optional) in files {
        let want = spec(
            WantKind::File,
            clean(&format!("{chart_path}/{path}")),
            false,
        );
        paths.insert(path.clone(), want.clone());
        if *optional {
            alone.insert(want)
        } else {
            group.insert(want)
        };
    }
    alone.retain(|want| !group.contains(want));
    let mut wants = request::group(group);
    wants.extend(
        alone
            .into_iter()
            .flat_map(|want| request::group([want].into())),
    );
    wants.sort_by_key(|want| want.spec != chart_want);
    let prefer = preferred_commit(release, reference.as_deref());
    for want in &mut wants {
        want.prefer.commit.clone_from(&prefer);
    }
    let key_of = |spec: &WantSpec| {
        wants
            .iter()
            .find(|want| want.spec == *spec)
            .map(|want| want.key.clone())
    };
    let files = paths
        .iter()
        .filter_map(|(path, spec)| Some((path.clone(), key_of(spec)?)))
        .collect();
    let wish = of_source(
        SourceKind::Git,
        &chart.url,
        chart.secret.clone(),
        &embedded_name(release),
        &release.own_namespace(),
        wants,
    );
    (wish, files)
}

/// The commit that a short commit id or a range of tags stood for when it was released last.
/// A branch or tag stands for what it stands for now.
fn preferred_commit(release: &HelmRelease, reference: Option<&str>) -> Option<String> {
    let reference = reference?;
    let hex = |text: &str| text.bytes().all(|c| c.is_ascii_hexdigit());
    let last = release.status.as_ref()?.last_attempted_revision.as_ref()?;
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
