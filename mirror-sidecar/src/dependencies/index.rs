//! What a Helm repository has of one chart.
//!
//! An index may have thirty megabytes, of which helm makes nine hundred of memory. So it is
//! got and read here, as a stream, and helm is given the few lines that are about the chart.
//! It also follows no name or redirect of the index' host then, and its archives are compared
//! with the index, which helm doesn't do.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::time::Duration;

use serde_json::json;
use tandem_shared::manifest::Reason;
use tandem_shared::publish::{Audience, PublishError, Scratch, Staged};
use url::Url;

use super::place::Place;
use super::{Desk, Fault, Login};
use crate::address::Scheme;
use crate::credentials::Access;
use crate::range;
use crate::repository::{Entry, Index, index_url};
use crate::web::{self, Answer, Asked, WebError};

/// Bytes of an index, at most.
const INDEX: u64 = 128 << 20;

/// What a repository has of one chart, the newest first as the index has it.
#[derive(Debug)]
pub(super) struct Listed {
    name: String,
    entries: Vec<Entry>,
}

/// Gets the index of the repository at `place`, and reads what it says of the charts `names`.
///
/// # Errors
/// Says why there is none.
pub(super) fn get(
    desk: &Desk,
    place: &Place,
    login: Option<&Login>,
    names: BTreeSet<String>,
    deadline: Duration,
) -> Result<Index, Fault> {
    let url = index_url(&place.url).map_err(|error| Fault::Refused(error.to_string()))?;
    let access = Access {
        basic: login.cloned(),
        ..Access::default()
    };
    let asked = Asked::plain(&url, &access, &desk.schemes, deadline, INDEX);
    let volume = |error: PublishError| Fault::Volume(error.to_string());
    let scratch = Scratch::begin(&desk.served.staging()).map_err(volume)?;
    let mut sink = Staged::begin(scratch.path()).map_err(volume)?;
    let fault = |error: WebError| web_fault(&error, &access);
    match desk.web.get(asked, &mut sink).map_err(fault)? {
        Answer::New(head) => head.as_it_is().map_err(fault)?,
        Answer::Unchanged => return Err(Fault::Outage("the server answered 304".to_owned())),
    }
    sink.settle(Audience::Owner).map_err(volume)?;
    let path = sink.commit("index.yaml").map_err(volume)?;
    let file = std::fs::File::open(&path).map_err(|error| Fault::Volume(error.to_string()))?;
    Index::read(BufReader::new(file), names).map_err(|error| Fault::Refused(error.to_string()))
}

fn web_fault(error: &WebError, access: &Access) -> Fault {
    let said = access.redact(&error.to_string());
    match error.reason() {
        Reason::InvalidUrl
        | Reason::AuthenticationFailed
        | Reason::PathNotFound
        | Reason::TooLarge => Fault::Refused(said),
        Reason::Volume => Fault::Volume(said),
        _ => Fault::Outage(said),
    }
}

impl Listed {
    /// What the index of the repository at `url` says of `name`, of which `wanted` is asked
    /// for.
    ///
    /// # Errors
    /// If what helm would take of it lies where nobody is led.
    pub(super) fn of(
        index: &Index,
        url: &str,
        name: &str,
        wanted: &str,
        schemes: &BTreeSet<Scheme>,
    ) -> Result<Self, Fault> {
        let listed = Self {
            name: name.to_owned(),
            entries: index.charts.get(name).cloned().unwrap_or_default(),
        };
        listed.led(url, wanted, schemes)
    }

    /// Without archives that lie where nobody is led.
    fn led(
        mut self,
        repository: &str,
        wanted: &str,
        allowed: &BTreeSet<Scheme>,
    ) -> Result<Self, Fault> {
        let base = Url::parse(&format!("{repository}/"))
            .map_err(|error| Fault::Refused(error.to_string()))?;
        // What helm would choose: the newest of those that say where they are.
        let fits = |entry: &&Entry| {
            !entry.urls.is_empty() && range::matches(wanted, &entry.version).unwrap_or(true)
        };
        let newer = |best: &Entry, other: &Entry| other.parsed.cmp_precedence(&best.parsed).is_gt();
        let chosen = self.entries.iter().filter(fits);
        let chosen = chosen.reduce(|best, one| if newer(best, one) { one } else { best });
        let chosen = chosen.map(|entry| entry.version.clone());
        let mut refused = None;
        for entry in &mut self.entries {
            let mut why = None;
            entry
                .urls
                .retain(|url| match accepted(&base, url, allowed) {
                    Ok(()) => true,
                    Err(error) => {
                        why.get_or_insert(error);
                        false
                    }
                });
            if entry.urls.is_empty() && Some(&entry.version) == chosen.as_ref() {
                refused = refused.or(why);
            }
        }
        // Another version must not take its place unseen.
        match refused {
            Some(why) => Err(Fault::Refused(format!(
                "its archive isn't asked for: {why}"
            ))),
            None => {
                self.entries.retain(|entry| !entry.urls.is_empty());
                Ok(self)
            }
        }
    }

    /// The index that helm is given.
    pub(super) fn text(&self) -> String {
        let entries: Vec<serde_json::Value> = self
            .entries
            .iter()
            .map(|entry| {
                json!({
                    "apiVersion": "v2",
                    "name": self.name,
                    "version": entry.version,
                    "urls": entry.urls,
                    "digest": entry.digest.as_deref().unwrap_or_default(),
                })
            })
            .collect();
        json!({"apiVersion": "v1", "entries": {&self.name: entries}}).to_string()
    }

    /// Checks the digest of the archive that helm took for `version`.
    ///
    /// # Errors
    /// If the index has another one.
    pub(super) fn check(&self, version: &str, digest: &str) -> Result<(), Fault> {
        let mut same = self.entries.iter().filter(|entry| entry.version == version);
        // Old repositories have none, and some list a version twice.
        let fits = |entry: &Entry| entry.digest.as_deref().is_none_or(|one| one == digest);
        if same.clone().any(fits) {
            return Ok(());
        }
        let listed = same.find_map(|entry| entry.digest.as_deref());
        Err(Fault::Refused(format!(
            "the archive of version {version} has the digest {digest}, and the repository's index says {}; whoever keeps the repository must put that right",
            listed.unwrap_or("nothing")
        )))
    }
}

fn accepted(base: &Url, reference: &str, allowed: &BTreeSet<Scheme>) -> Result<(), String> {
    // In a registry, which helm asks over https.
    let in_registry = reference
        .get(..6)
        .filter(|scheme| scheme.eq_ignore_ascii_case("oci://"));
    let reference = match in_registry {
        Some(_) => format!("https://{}", &reference[6..]),
        None => reference.to_owned(),
    };
    let url = base
        .join(&reference)
        .map_err(|_| "the index has no URL for it".to_owned())?;
    let scheme = url.scheme().parse::<Scheme>().ok();
    match scheme.filter(|scheme| scheme.is_http() && allowed.contains(scheme)) {
        None => Err(format!(
            "{}:// is none of the schemes that are accepted",
            url.scheme()
        )),
        Some(_) => web::literal(&url).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Listed {
        let text = format!("apiVersion: v1\nentries:\n  lib:\n{text}  other: []\n");
        let index = Index::read(text.as_bytes(), ["lib".to_owned()].into()).unwrap();
        Listed {
            name: "lib".to_owned(),
            entries: index.charts.into_values().flatten().collect(),
        }
    }

    #[test]
    fn another_digest_is_refused_and_none_is_taken() {
        let (mine, other) = ("a".repeat(64), "b".repeat(64));
        let check = |digest: &str| {
            listed(&format!(
                "  - {{version: 1.0.0, urls: [x], digest: '{digest}'}}\n  - {{version: 2.0.0, urls: [x], digest: '{other}'}}\n"
            ))
            .check("1.0.0", &mine)
        };
        check(&format!("sha256:{}", mine.to_uppercase())).unwrap();
        check("").unwrap();
        let error = check(&other).unwrap_err().to_string();
        assert!(error.contains(&mine) && error.contains(&other), "{error}");
        listed("").check("1.0.0", &mine).unwrap_err();
    }

    #[test]
    fn nobody_is_led_to_where_nobody_may_be_led() {
        let web = [Scheme::Http, Scheme::Https].into();
        let of = |url: &str, wanted: &str| {
            listed(&format!(
                "  - {{version: 2.0.0, urls: ['{url}']}}\n  - {{version: 1.0.0, urls: [lib.tgz]}}\n"
            ))
            .led("https://h/charts", wanted, &web)
        };
        for url in [
            "http://169.254.169.254/lib.tgz",
            "//2852039166/lib.tgz",
            "file:///etc/passwd",
            "s3://bucket/lib.tgz",
        ] {
            of(url, "*").unwrap_err();
            // It need not be asked, and neither need an older one.
            listed(&format!(
                "  - {{version: 0.9.0, urls: ['{url}']}}\n  - {{version: 1.0.0, urls: [lib.tgz]}}\n"
            ))
            .led("https://h/charts", "*", &web)
            .unwrap();
            let left = of(url, "^1").unwrap();
            assert_eq!(left.entries.len(), 1, "{url}");
        }
        // One that helm wouldn't choose keeps nobody from another.
        let left = of("s3://bucket/lib.tgz", "<2").unwrap();
        assert_eq!(left.entries.len(), 1);
        of("oci://169.254.169.254/charts/lib:2.0.0", "*").unwrap_err();
        let in_registry = of("oci://r/charts/lib:2.0.0", "*").unwrap();
        assert!(in_registry.text().contains("oci://r/charts/lib:2.0.0"));
        let all = of("https://elsewhere/lib.tgz", "*").unwrap();
        let text: serde_json::Value = serde_json::from_str(&all.text()).unwrap();
        assert_eq!(
            text["entries"]["lib"][0]["urls"],
            json!(["https://elsewhere/lib.tgz"])
        );
        assert_eq!(text["entries"]["lib"][1]["version"], "1.0.0");
    }
}
