//! What values files amount to: those beside the chart, in other git repositories, and
//! behind URLs.

use std::collections::{BTreeMap, BTreeSet};

use tandem_shared::artifact::is_sound_path;
use tandem_shared::names;
use tandem_shared::request::{self, Want, WantKind, WantSpec};
use tandem_shared::source::{SourceKind, SourceName};
use url::Url;

use super::git::clean;
use super::source::{embedded_name, of_source, split_password};
use super::{FileWish, SourceWish, WishError};
use crate::config::SourceDefaults;
use crate::crd::{FileRef, HelmRelease};

/// What is wanted of one source.
struct Draft {
    wish: SourceWish,
    /// What has to be there: what is of one ref moves together.
    required: BTreeSet<WantSpec>,
    /// What need not be there must hold back nothing: each moves by itself.
    optional: BTreeSet<WantSpec>,
}

/// What the values files of a HelmRelease amount to.
pub(super) struct Files {
    /// The source of the chart, with the files that lie in it.
    pub(super) chart: SourceWish,
    /// All other sources.
    pub(super) others: BTreeMap<SourceName, SourceWish>,
    /// Where each file is found.
    pub(super) files: BTreeMap<FileRef, FileWish>,
}

/// Adds the values files of `release` to `chart`, the wish for its chart alone.
pub(super) fn wishes(
    release: &HelmRelease,
    chart: SourceWish,
    defaults: &SourceDefaults,
) -> Result<Files, WishError> {
    let Some(chart_want) = chart.wants.first().cloned() else {
        return Ok(Files {
            chart,
            others: BTreeMap::new(),
            files: BTreeMap::new(),
        });
    };
    let of_chart = chart.name.clone();
    let draft = |wish: SourceWish| Draft {
        required: wish.wants.iter().map(|want| want.spec.clone()).collect(),
        optional: BTreeSet::new(),
        wish,
    };
    let mut drafts = BTreeMap::from([(of_chart.clone(), draft(chart.clone()))]);
    let mut placed: BTreeMap<FileRef, (SourceName, WantSpec)> = BTreeMap::new();
    for source in release.spec.values_sources() {
        let Some(file) = source.file(&release.own_namespace()) else {
            continue;
        };
        let (wish, spec) = place(release, &file, &chart, &chart_want.spec, defaults)?;
        let name = wish.name.clone();
        // One URL with two passwords is one source: the first one counts.
        let draft = drafts.entry(name.clone()).or_insert_with(|| draft(wish));
        if source.is_optional() {
            draft.optional.insert(spec.clone());
        } else {
            draft.required.insert(spec.clone());
        }
        placed.insert(file, (name, spec));
    }
    let mut sources: BTreeMap<SourceName, SourceWish> = drafts
        .into_iter()
        .map(|(name, draft)| (name, draft.finish()))
        .collect();
    let mut chart = sources.remove(&of_chart).unwrap_or(chart);
    chart.wants.sort_by_key(|want| want.spec != chart_want.spec);
    // What a short commit id stands for is one thing for all who use it.
    for want in &mut chart.wants {
        if want.spec.reference == chart_want.spec.reference {
            want.prefer.commit.clone_from(&chart_want.prefer.commit);
        }
    }
    if let Some(want) = chart.wants.first_mut() {
        want.prefer = chart_want.prefer;
    }
    let group = chart.wants.first().map(|want| want.group.clone());
    let found = |(name, spec): (SourceName, WantSpec)| {
        let of_chart = name == chart.name;
        let wish = if of_chart {
            &chart
        } else {
            sources.get(&name)?
        };
        let want = wish.wants.iter().find(|want| want.spec == spec)?;
        Some(FileWish {
            key: want.key.clone(),
            with_chart: of_chart && Some(&want.group) == group.as_ref(),
            source: name,
        })
    };
    let files = placed
        .into_iter()
        .filter_map(|(file, place)| Some((file, found(place)?)))
        .collect();
    Ok(Files {
        chart,
        others: sources,
        files,
    })
}

/// In which source a file lies, and which want it is.
fn place(
    release: &HelmRelease,
    file: &FileRef,
    chart: &SourceWish,
    chart_spec: &WantSpec,
    defaults: &SourceDefaults,
) -> Result<(SourceWish, WantSpec), WishError> {
    match file {
        FileRef::Chart(path) => {
            if chart.source.kind != SourceKind::Git {
                return Err(WishError::ChartFile(path.clone()));
            }
            let path = clean(&format!("{}/{path}", chart_spec.path));
            let spec = WantSpec {
                submodules: chart_spec.submodules,
                verify: chart_spec.verify.clone(),
                ..spec(chart_spec.reference.clone(), path)
            };
            Ok((chart.clone(), spec))
        }
        FileRef::Url(url) => {
            let name = own_name(release, &[], url);
            let wish = wish(release, SourceKind::Http, url, None, &name);
            Ok((wish, spec(None, file_name(url))))
        }
        FileRef::Git {
            url,
            reference,
            path,
            secret,
            verify,
        } => {
            let reference = reference.clone().or_else(|| defaults.reference.clone());
            let wish = |name: &str| wish(release, SourceKind::Git, url, secret.clone(), name);
            let beside = wish(&embedded_name(release));
            let wish = if beside.name == chart.name && beside.embedded == chart.embedded {
                chart.clone()
            } else {
                wish(&own_name(release, &[b"git"], url))
            };
            let of_chart = || {
                // Of the chart's commit, which has to be signed.
                let with = wish.name == chart.name && reference == chart_spec.reference;
                chart_spec.verify.clone().filter(|_| with)
            };
            let verify = verify.clone().or_else(of_chart);
            let spec = WantSpec {
                verify,
                ..spec(reference, clean(path))
            };
            Ok((wish, spec))
        }
    }
}

fn wish(
    release: &HelmRelease,
    kind: SourceKind,
    url: &str,
    secret: Option<(String, String)>,
    embedded_name: &str,
) -> SourceWish {
    let own = release.own_namespace();
    of_source(kind, url, secret, embedded_name, &own, Vec::new())
}

fn spec(reference: Option<String>, path: String) -> WantSpec {
    WantSpec {
        kind: WantKind::File,
        reference,
        version: None,
        path,
        skip_dependencies: false,
        submodules: false,
        verify: None,
    }
}

/// The chart's URL may have a password, too, and each of several URLs its own.
fn own_name(release: &HelmRelease, kind: &[&[u8]], url: &str) -> String {
    let bare = split_password(url).0;
    let parts: Vec<&[u8]> = kind.iter().copied().chain([bare.as_bytes()]).collect();
    format!("{}:{}", embedded_name(release), names::short_hex(&parts))
}

/// The last part of a URL's path, or what a values file is usually called.
pub(super) fn file_name(url: &str) -> String {
    let url = Url::parse(url).ok();
    let last = url
        .as_ref()
        .and_then(|url| url.path_segments()?.next_back())
        .filter(|name| is_sound_path(name));
    last.unwrap_or("values.yaml").to_owned()
}

impl Draft {
    fn finish(mut self) -> SourceWish {
        self.optional.retain(|spec| !self.required.contains(spec));
        let mut groups: BTreeMap<Option<String>, BTreeSet<WantSpec>> = BTreeMap::new();
        for spec in self.required {
            groups
                .entry(spec.reference.clone())
                .or_default()
                .insert(spec);
        }
        let alone = self.optional.into_iter().map(|spec| [spec].into());
        let groups = groups.into_values().chain(alone);
        let wants: Vec<Want> = groups.flat_map(request::group).collect();
        SourceWish { wants, ..self.wish }
    }
}
