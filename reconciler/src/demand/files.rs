//! What values files amount to that don't come with the chart.

use std::collections::BTreeMap;

use tandem_shared::artifact::is_sound_path;
use tandem_shared::names;
use tandem_shared::request::{self, WantKind, WantSpec};
use tandem_shared::source::SourceKind;
use url::Url;

use super::SourceWish;
use super::source::{embedded_name, of_source, split_password};
use crate::crd::HelmRelease;

/// Each URL is a source of its own, with one file.
pub(super) fn url_wishes(release: &HelmRelease) -> BTreeMap<String, SourceWish> {
    let mut wishes: BTreeMap<String, SourceWish> = BTreeMap::new();
    for source in release.spec.values_sources() {
        let Some(external) = source.external_source_ref else {
            continue;
        };
        let spec = WantSpec {
            kind: WantKind::File,
            reference: None,
            version: None,
            path: file_name(&external.url),
            skip_dependencies: false,
        };
        // The chart's URL may have a password, too, and each of several URLs its own.
        let bare = split_password(&external.url).0;
        let own = names::short_hex(&[bare.as_bytes()]);
        let wish = of_source(
            SourceKind::Http,
            &external.url,
            None,
            &format!("{}:{own}", embedded_name(release)),
            &release.own_namespace(),
            request::group([spec].into()),
        );
        // One URL with two passwords is one source: the first one counts.
        let before = wishes.values().find(|before| before.name == wish.name);
        let wish = before.cloned().unwrap_or(wish);
        wishes.insert(external.url, wish);
    }
    wishes
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
