//! A check of a Helm repository: its index is asked for when that is due or something new is
//! wanted, and then every want is brought up to date with it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tandem_shared::clock;
use tandem_shared::manifest::{Good, Reason};
use tandem_shared::observe::Observed;
use tandem_shared::request::{Request, Want, WantKind};
use tandem_shared::source::redact_url;

use super::build::is_there;
use super::group::{Outcome, Trouble, conclude, groups};
use super::origin::{self, Begun, Origin};
use super::{Context, Failed, State};
use crate::credentials::{self, Access};
use crate::metrics::Built;
use crate::repository::{
    self, Arrived, Download, Entry, Fetched, Held, Index, Miss, RepositoryError, Store, choose,
    is_chart_name,
};
use crate::web::{self, Asked};

/// Bytes of an index, at most. The largest that is known has a fourth of it.
const INDEX: u64 = 128 * 1024 * 1024;

/// The index that is held, as far as it was read.
#[derive(Debug)]
pub(super) struct Read {
    held: Held,
    index: Index,
}

/// Everything that a check goes by.
struct Check<'a> {
    context: &'a Context,
    request: &'a Request,
    /// The repository's URL, without user and password.
    url: &'a str,
    access: &'a Access,
    timeout: Duration,
    /// What came of a chart's version in this check. Wants of several groups are often the same.
    made: BTreeMap<(String, String), Result<Good, Fault>>,
    /// Servers of archives that didn't answer in this check. They aren't waited for again.
    silent: BTreeMap<String, Reason>,
}

/// Why a version can't be had.
#[derive(Clone)]
struct Fault {
    reason: Reason,
    message: String,
    lasting: bool,
}

/// Asks for the index if that is due, and brings the results of all wants up to date.
///
/// # Errors
/// Why the repository can't be checked. What was good stays.
pub(super) fn run(
    context: &Context,
    state: &mut State,
    observed: &Observed<Request>,
    timeout: Duration,
    exchanged: &mut bool,
) -> Result<(), Failed> {
    let (config, request) = (&context.config, &observed.document);
    let address = web::parse(&request.source.url, &config.schemes).map_err(|error| Failed {
        reason: error.reason(),
        message: error.to_string(),
    })?;
    let access = credentials::access(config, request, &address).map_err(|error| Failed {
        reason: error.reason(),
        message: error.to_string(),
    })?;
    let Some(begun) = origin::begin(context, state, observed, *exchanged) else {
        return Ok(());
    };
    *exchanged = true;
    let mut check = Check {
        context,
        request,
        url: &address.url,
        access: &access,
        timeout,
        made: BTreeMap::new(),
        silent: BTreeMap::new(),
    };
    let read = check.index(state).map_err(|error| {
        let message = format!("{}: {error}", redact_url(&address.url));
        Failed {
            reason: error.reason(),
            message: access.redact(&message),
        }
    })?;
    check.bring(state, &read.index, &begun);
    state.repository = Some(read);
    state.rejections = Some(observed.digest.clone());
    Ok(())
}

impl Check<'_> {
    /// The newest index, of which everything that is wanted was read.
    fn index(&self, state: &mut State) -> Result<Read, RepositoryError> {
        let context = self.context;
        let wants = self.request.wants.iter();
        let names: BTreeSet<String> = wants.map(|want| want.spec.path.clone()).collect();
        let url = repository::index_url(self.url)?;
        let store = Store::of(&context.config.volume.served, &state.name);
        let known = state.repository.as_ref().map(|read| read.held.clone());
        let held = known.or_else(|| store.held(&url));
        if held.is_none() && context.over_budget() {
            return Err(RepositoryError::Full);
        }
        state.publish(context, true);
        let fetched = self.fetch(&store, &url, held.as_ref())?;
        state.serving.edit().checked_at = Some(clock::now());
        state.sit_down(context);
        let held = match fetched {
            Fetched::New(arrived) => return read(&store, arrived, names),
            Fetched::Unchanged(held) => held,
        };
        let before = state.repository.take();
        if let Some(before) = before.filter(|before| before.index.names.is_superset(&names)) {
            let index = before.index;
            return Ok(Read { held, index });
        }
        match store.load(&held, names.clone()) {
            Ok(index) => return Ok(Read { held, index }),
            Err(error) => {
                tracing::warn!(source = %state.name, %error, "the index that is held can't be read, and is asked for again");
            }
        }
        match self.fetch(&store, &url, None)? {
            Fetched::New(arrived) => read(&store, arrived, names),
            Fetched::Unchanged(_) => Err(RepositoryError::Changed),
        }
    }

    fn fetch(
        &self,
        store: &Store,
        url: &str,
        held: Option<&Held>,
    ) -> Result<Fetched, RepositoryError> {
        let allowed = &self.context.config.schemes;
        let asked = Asked::plain(url, self.access, allowed, self.timeout, INDEX);
        let begun = Instant::now();
        let fetched = store.fetch(&self.context.web, asked, held);
        let outcome = match &fetched {
            Ok(Fetched::New(_)) => "success",
            Ok(Fetched::Unchanged(_)) => "unchanged",
            Err(error) => failure(error),
        };
        self.context.metrics.got("index", outcome, begun.elapsed());
        fetched
    }

    /// Brings the results of all wants up to date with the index.
    fn bring(&mut self, state: &mut State, index: &Index, begun: &Begun<'_>) {
        for wants in groups(self.request).values() {
            let mut outcomes = Vec::new();
            for want in wants {
                let rewrite = begun.bad.contains(want.key.as_str());
                let outcome = self.one(state, index, want, rewrite);
                outcomes.push((*want, outcome));
            }
            conclude(self.context, state, outcomes);
            state.publish(self.context, true);
        }
    }

    fn one(&mut self, state: &mut State, index: &Index, want: &Want, rewrite: bool) -> Outcome {
        let results = &state.serving.manifest().results;
        let prior = results
            .get(&want.key)
            .and_then(|result| result.good.clone());
        let entry = wanted(index, want, prior.as_ref()).map_err(|miss| Trouble {
            reason: miss.reason,
            message: self.shown(want, &miss.message),
            commit: None,
            lasting: true,
        })?;
        let digest = entry.digest.as_ref().map(|hex| format!("sha256:{hex}"));
        if let Some(prior) = &prior
            && !rewrite
            && prior.version.as_ref() == Some(&entry.version)
            // Published again under the same version, it is another chart.
            && (digest.is_none() || prior.upstream_digest == digest)
            && is_there(self.context, prior)
        {
            return Ok((prior.clone(), Built::Unchanged));
        }
        let key = (want.spec.path.clone(), entry.version.clone());
        let (made, built) = match self.made.get(&key) {
            Some(made) => (made.clone(), Built::Same),
            None => match self.once(state, want, entry, rewrite) {
                Ok((good, built)) => (Ok(good), built),
                Err(fault) => (Err(fault), Built::Failed),
            },
        };
        self.made.insert(key, made.clone());
        let good = made.map_err(|fault| Trouble {
            reason: fault.reason,
            message: self.shown(
                want,
                &format!("version {}: {}", entry.version, fault.message),
            ),
            commit: None,
            lasting: fault.lasting,
        })?;
        let same = prior.filter(|prior| prior.artifact == good.artifact);
        let since = same.map_or(good.since, |prior| prior.since);
        Ok((Good { since, ..good }, built))
    }

    /// Makes a chart, unless its server was silent a moment ago.
    fn once(
        &mut self,
        state: &mut State,
        want: &Want,
        entry: &Entry,
        rewrite: bool,
    ) -> Result<(Good, Built), Fault> {
        let first = entry.urls.first();
        let server = first.and_then(|url| repository::server_of(self.url, url));
        if let Some(server) = &server
            && let Some(reason) = self.silent.get(server)
        {
            return Err(Fault {
                reason: reason.clone(),
                message: format!("{server} didn't answer for another chart just now"),
                lasting: false,
            });
        }
        self.make(state, want, entry, rewrite).map_err(|error| {
            let reason = error.reason();
            let silent = matches!(
                reason,
                Reason::Timeout | Reason::Unreachable | Reason::UnknownHost
            );
            if let Some(server) = server.filter(|_| silent) {
                self.silent.insert(server, reason.clone());
            }
            Fault {
                reason,
                message: error.to_string(),
                lasting: !error.may_pass(),
            }
        })
    }

    /// Gets a chart, and makes its artifact.
    fn make(
        &self,
        state: &mut State,
        want: &Want,
        entry: &Entry,
        rewrite: bool,
    ) -> Result<(Good, Built), RepositoryError> {
        let (context, config) = (self.context, &self.context.config);
        if context.over_budget() {
            return Err(RepositoryError::Full);
        }
        let asked = Download {
            repository: self.url,
            access: self.access,
            allowed: &config.schemes,
            plain: &config.plain_registries,
            timeout: self.timeout,
            limits: config.limits,
        };
        // Who waits for a server takes no place from those who have work.
        state.seat = None;
        let begun = Instant::now();
        let got = repository::download(&context.web, asked, &want.spec.path, entry);
        let outcome = got.as_ref().map_or_else(failure, |_| "success");
        context.metrics.got("archive", outcome, begun.elapsed());
        let (unpacked, sha256) = got?;
        state.sit_down(context);
        let chart = unpacked.chart.name.clone();
        let packer = unpacked.packer(config.limits)?;
        let origin = Origin {
            version: Some(entry.version.clone()),
            upstream_digest: Some(format!("sha256:{sha256}")),
            inputs: format!("h1:{sha256}"),
            chart: Some(chart),
        };
        Ok(origin::store(
            context,
            &state.name,
            packer,
            origin,
            None,
            rewrite,
        )?)
    }

    /// A message about a want, without what is secret.
    fn shown(&self, want: &Want, message: &str) -> String {
        let path = &want.spec.path;
        origin::shown(self.access, &format!("chart {path:?}: {message}"))
    }
}

fn read(store: &Store, arrived: Arrived, names: BTreeSet<String>) -> Result<Read, RepositoryError> {
    let (held, index) = store.accept(arrived, names)?;
    Ok(Read { held, index })
}

fn failure(error: &RepositoryError) -> &'static str {
    match error.reason() {
        Reason::Timeout => "timeout",
        _ => "failure",
    }
}

/// The entry of the index that a want means.
fn wanted<'a>(index: &'a Index, want: &Want, prior: Option<&Good>) -> Result<&'a Entry, Miss> {
    let miss = |reason, message: String| Miss { reason, message };
    let spec = &want.spec;
    if spec.kind != WantKind::Chart {
        let message = "a Helm repository gives charts alone; ask for kind chart".to_owned();
        return Err(miss(Reason::Unsupported, message));
    }
    if !is_chart_name(&spec.path) {
        let message = "that is no name of a chart; write the one that the index lists".to_owned();
        return Err(miss(Reason::InvalidPath, message));
    }
    let entries = index.charts.get(&spec.path).ok_or_else(|| {
        let message = format!(
            "the repository has no chart of that name, of the {} that its index lists",
            index.listed
        );
        miss(Reason::ChartNotFound, message)
    })?;
    let held = prior.and_then(|prior| prior.version.as_ref());
    let held = held.or(want.prefer.version.as_ref()).map(String::as_str);
    choose(entries, spec.version.as_deref().unwrap_or_default(), held)
}

#[cfg(test)]
mod tests;
