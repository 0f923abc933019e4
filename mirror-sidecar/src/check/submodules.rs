//! The submodules that a chart or file touches, fetched as its plan asks for
//! them into the mirror of the repository that it is in.
//!
//! Where they come from stands in a repository, which is no friend's word:
//! the address has to pass what every address has to, it can't lead to this
//! machine's folders unless the repository itself lies there, and a credential
//! goes to its own host alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use git2::Oid;
use tandem_shared::artifact::Limits;
use tandem_shared::manifest::Reason;
use tandem_shared::request::{Request, WantSpec};
use tandem_shared::source::redact_url;

use super::{Context, FULL};
use crate::address::{self, Address, Scheme};
use crate::credentials::{self, Access};
use crate::mirror::{Item, Mirror, Remote, gitmodules, refs};
use crate::snapshot::{self, Absent, Plan, Snapshot, SnapshotError};

/// What one look at a source does about submodules.
pub(super) struct Submodules<'a> {
    pub(super) context: &'a Context,
    request: &'a Request,
    pub(super) mirror: &'a Mirror<'a>,
    /// What each want touched, and whether that is all of it.
    touched: BTreeMap<WantSpec, (BTreeSet<Oid>, bool)>,
    /// What wasn't to be had. It is asked for once a look, however many want it.
    failed: BTreeMap<Oid, Failed>,
    fetched: bool,
}

/// Why a submodule can't be had.
#[derive(Clone)]
struct Failed {
    /// Its address, as far as it is known.
    url: Option<String>,
    why: String,
    reason: Reason,
}

/// What the mirror has to hold for the submodules that `request` wants. Forgets all others.
pub(super) fn kept(
    request: &Request,
    touched: &mut BTreeMap<WantSpec, BTreeSet<Oid>>,
) -> Vec<String> {
    let wanted: BTreeSet<&WantSpec> = request.wants.iter().map(|want| &want.spec).collect();
    touched.retain(|spec, _| wanted.contains(spec));
    let commits = touched.values().flatten();
    commits
        .map(|commit| refs::submodule(&commit.to_string()))
        .collect()
}

impl<'a> Submodules<'a> {
    pub(super) fn new(context: &'a Context, request: &'a Request, mirror: &'a Mirror<'a>) -> Self {
        Self {
            context,
            request,
            mirror,
            touched: BTreeMap::new(),
            failed: BTreeMap::new(),
            fetched: false,
        }
    }

    /// Plans, fetching what is missing for that.
    pub(super) fn plan(
        &mut self,
        snapshot: &Snapshot<'_>,
        spec: &WantSpec,
        limits: Limits,
    ) -> Result<Plan, SnapshotError> {
        let result = loop {
            match snapshot::plan(snapshot, spec, limits) {
                Err(SnapshotError::Absent(absent)) => {
                    if let Err(error) = self.bring(&absent) {
                        break Err(error);
                    }
                }
                other => break other,
            }
        };
        if spec.submodules {
            let (touched, whole) = self.touched.entry(spec.clone()).or_default();
            touched.extend(snapshot.entered());
            *whole = result.is_ok();
        }
        result
    }

    /// Says which submodules each want touches now, and whether something was fetched.
    pub(super) fn end(self, touched: &mut BTreeMap<WantSpec, BTreeSet<Oid>>, fetched: &mut bool) {
        for (spec, (now, whole)) in self.touched {
            let before = touched.entry(spec).or_default();
            // What can't be had at the new commit may still be wanted at the one before.
            if whole {
                before.clear();
            }
            before.extend(now);
        }
        *fetched |= self.fetched;
    }

    fn bring(&mut self, absent: &Absent) -> Result<(), SnapshotError> {
        let result = match self.failed.get(&absent.commit) {
            Some(before) => Err(before.clone()),
            None => self.fetch(absent),
        };
        result.map_err(|failed| {
            self.failed.insert(absent.commit, failed.clone());
            let from = failed.url.map_or(String::new(), |url| format!(" ({url})"));
            SnapshotError::SubmoduleFailed {
                path: absent.path.clone(),
                from,
                why: failed.why,
                reason: failed.reason,
            }
        })
    }

    fn fetch(&mut self, absent: &Absent) -> Result<(), Failed> {
        let url = self.address_of(absent)?;
        let shown = redact_url(&url);
        let fail = |reason, why| Failed {
            url: Some(shown.clone()),
            why,
            reason,
        };
        let parent = self.mirror.remote();
        let address = self
            .parse(&url, parent.address)
            .map_err(|why| fail(Reason::InvalidUrl, why))?;
        let own;
        let access = if address.origin.eq_ignore_ascii_case(&parent.address.origin) {
            parent.access
        } else {
            own = self
                .elsewhere(&address)
                .map_err(|error| fail(error.reason(), error.to_string()))?;
            &own
        };
        if self.context.over_budget() {
            return Err(fail(Reason::Volume, FULL.to_owned()));
        }
        let remote = Remote {
            address: &address,
            access,
            timeout: parent.timeout,
        };
        let asked = refs::submodule(&absent.commit.to_string());
        let item = Item {
            asked: asked.clone(),
            object: absent.commit,
            whole: true,
        };
        self.fetched = true;
        let result = self.mirror.fetch_from(remote, &[item]);
        let refused = match result {
            Ok(mut refused) => refused.remove(&asked),
            Err(error) => Some(error),
        };
        if let Some(error) = refused {
            return Err(fail(error.reason(), remote.redact(&error.to_string())));
        }
        match self.mirror.held(&asked) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(fail(
                Reason::RefNotFound,
                format!("{} is no commit", absent.commit),
            )),
            Err(error) => Err(fail(error.reason(), error.to_string())),
        }
    }

    /// Where it comes from, by what the repositories on the way to it say.
    fn address_of(&self, absent: &Absent) -> Result<String, Failed> {
        let mut url = self.mirror.remote().address.url.clone();
        for link in &absent.chain {
            let fail = |why: String| Failed {
                url: None,
                why,
                reason: Reason::InvalidUrl,
            };
            let unnamed = || {
                fail(format!(
                    "no .gitmodules of that commit says where {:?} comes from",
                    link.path
                ))
            };
            let file = link.gitmodules.ok_or_else(unnamed)?;
            let modules = self
                .mirror
                .gitmodules(file)
                .map_err(|error| fail(error.to_string()))?;
            let written = modules.get(&link.path).ok_or_else(unnamed)?;
            url = gitmodules::resolve(&url, written)
                .map_err(|why| fail(format!("its address {:?}: {why}", redact_url(written))))?;
        }
        Ok(url)
    }

    fn parse(&self, url: &str, parent: &Address) -> Result<Address, String> {
        let config = &self.context.config;
        let mut forbidden: Vec<&Path> = vec![&config.root];
        forbidden.extend(config.credentials.as_deref());
        let address =
            address::parse(url, &config.schemes, &forbidden).map_err(|error| error.to_string())?;
        if address.scheme == Scheme::File && parent.scheme != Scheme::File {
            return Err(
                "a repository from elsewhere leads to no folder of this machine".to_owned(),
            );
        }
        Ok(address)
    }

    /// What may be used for another host: nothing of this source's own.
    fn elsewhere(&self, address: &Address) -> Result<Access, credentials::AccessError> {
        let mut request = self.request.clone();
        request.wants.clear();
        request.source.url.clone_from(&address.url);
        request.source.credential = None;
        request.credential_id = None;
        credentials::access(&self.context.config, &request, address)
    }
}
