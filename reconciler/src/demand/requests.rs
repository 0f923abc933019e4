//! What all wishes amount to: one request per source.

use std::collections::{BTreeMap, BTreeSet};

use semver::Version;
use tandem_shared::artifact::Digest;
use tandem_shared::request::{Prefer, Request, Want};
use tandem_shared::source::{CredentialRef, SourceName};
use tandem_shared::version::Document;

use super::SourceWish;
use crate::config::SourceDefaults;

/// The word by which the reconciler knows its own request files.
pub const OWNER: &str = "tandem-reconciler";

/// One HelmRelease's part in one source.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// `namespace/name` of the HelmRelease.
    pub helm_release: &'a str,
    /// What it wants of it.
    pub wish: &'a SourceWish,
    /// The id of its credential, if it has one.
    pub credential: Option<&'a str>,
    /// The ids of the keys that its wants name, as far as they may be used.
    pub keys: &'a BTreeMap<CredentialRef, String>,
}

/// What requests hold besides what HelmReleases say.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// The last refresh token, by source.
    pub refresh: BTreeMap<SourceName, String>,
    /// Artifacts that were found to be other than their name says, by source and want.
    pub rejected: BTreeMap<(SourceName, String), BTreeSet<Digest>>,
}

/// All requests that `parts` amount to.
#[must_use]
pub fn requests<'a>(
    parts: impl IntoIterator<Item = Part<'a>>,
    extras: &Extras,
    defaults: &SourceDefaults,
) -> BTreeMap<SourceName, Request> {
    let mut drafts: BTreeMap<SourceName, (Request, BTreeMap<String, Want>)> = BTreeMap::new();
    for part in parts {
        let name = &part.wish.name;
        let (_, wants) = drafts.entry(name.clone()).or_insert_with(|| {
            let request = Request {
                schema: Request::current_schema(),
                source: part.wish.source.clone(),
                owner: OWNER.to_owned(),
                credential_id: part.credential.map(ToOwned::to_owned),
                interval_seconds: defaults.interval.as_secs().max(1),
                timeout_seconds: defaults.timeout.as_secs().max(1),
                refresh: extras.refresh.get(name).cloned().unwrap_or_default(),
                wants: Vec::new(),
            };
            (request, BTreeMap::new())
        });
        for want in &part.wish.wants {
            let all = wants.entry(want.key.clone()).or_insert_with(|| Want {
                prefer: Prefer::default(),
                ..want.clone()
            });
            all.used_by.push(part.helm_release.to_owned());
            let keys = want.spec.verify.as_ref();
            all.keys_id = keys.and_then(|verify| part.keys.get(&verify.keys).cloned());
            // The sidecar takes what was resolved for the chart that it finds.
            let mut resolved = std::mem::take(&mut all.prefer.dependencies);
            resolved.extend(want.prefer.dependencies.iter().cloned());
            resolved.sort();
            resolved.dedup();
            if comes_before(&want.prefer, &all.prefer) {
                all.prefer = want.prefer.clone();
            }
            all.prefer.dependencies = resolved;
        }
    }
    drafts
        .into_iter()
        .map(|(name, (mut request, wants))| {
            request.wants = wants.into_values().collect();
            for want in &mut request.wants {
                want.used_by.sort();
                want.used_by.dedup();
                if let Some(rejected) = extras.rejected.get(&(name.clone(), want.key.clone())) {
                    want.rejected.clone_from(rejected);
                }
            }
            (name, request)
        })
        .collect()
}

/// Whether `one` counts, of what two HelmReleases had before. Nothing moves back, so it is the
/// newer version; of commits it is any, but always the same.
fn comes_before(one: &Prefer, other: &Prefer) -> bool {
    let version = |prefer: &Prefer| {
        let text = prefer.version.as_deref()?;
        Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()
    };
    let age = version(one).cmp(&version(other)).reverse();
    let order = age.then_with(|| one.commit.cmp(&other.commit));
    !one.is_empty() && (other.is_empty() || order.is_lt())
}
