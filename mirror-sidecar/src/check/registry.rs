//! A check of charts in an OCI registry. Of each want the digest of its manifest is asked
//! for, which costs little; only another digest brings anything else.

mod patience;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tandem_shared::clock;
use tandem_shared::manifest::{Good, Reason};
use tandem_shared::observe::Observed;
use tandem_shared::request::{Request, Want, WantKind};
use tandem_shared::source::redact_url;

use super::build::is_there;
use super::group::{Trouble, conclude, in_turn};
use super::origin::{self, Begun, Origin, shown};
use super::{Context, FULL, Failed, State};
use crate::archive;
use crate::credentials::{self, Access, AccessError, DockerError};
use crate::metrics::Built;
use crate::oci::place::{tag_of, wish};
use crate::oci::{OciError, Reach, Registry, Tokens, Wish};
use crate::range::Range;
use crate::repository::{Entry, choose};
use patience::{Doubt, Patience};

/// Everything that a check goes by.
struct Check<'a> {
    context: &'a Context,
    /// The source's.
    url: &'a str,
    registry: Registry<'a>,
    /// What opens which repository.
    proofs: &'a BTreeMap<String, Result<Access, DockerError>>,
    /// Whether they are one and the same.
    one_for_all: bool,
    /// Whether the registry was asked for anything.
    asked: bool,
    patience: Patience,
    /// What tags stand for, by repository and tag, as far as it was asked.
    digests: BTreeMap<(String, String), String>,
    /// Why no more charts are got in this check: where they lie is silent.
    silent: Option<Reason>,
}

/// Why a want isn't brought up to date.
enum Fault {
    /// The registry can't be talked to, so no other want need be tried.
    Registry(Failed),
    /// It is about this want alone.
    Want(Trouble),
}

/// What a want stands for now.
struct Resolved {
    /// Of the manifest.
    digest: String,
    /// The version that was chosen, if the want names versions at all.
    version: Option<String>,
    /// The version that the chart has to have.
    expected: Option<String>,
}

/// Asks what all wants stand for, and brings their results up to date.
///
/// # Errors
/// Why the registry can't be asked. What was good stays.
pub(super) fn run(
    context: &Context,
    state: &mut State,
    observed: &Observed<Request>,
    timeout: Duration,
    exchanged: &mut bool,
) -> Result<(), Failed> {
    let (config, request) = (&context.config, &observed.document);
    let url = &request.source.url;
    let place = crate::oci::place::parse(url, &config.schemes, &config.plain_registries).map_err(
        |error| Failed {
            reason: error.reason(),
            message: error.to_string(),
        },
    )?;
    // What was given out for one credential is nothing to another.
    if request.credential_id != state.credential {
        state.tokens = Tokens::default();
    }
    let access = credentials::access(config, request, &place.address).map_err(|error| Failed {
        reason: error.reason(),
        message: error.to_string(),
    })?;
    let (proof, trust) = access.part();
    let wants = request.wants.iter();
    let used = wants.filter_map(|want| place.repository(&want.spec.path).ok());
    let proofs: BTreeMap<String, _> = used
        .map(|repository| {
            let proof = proof.proof_for(&place.host, &repository);
            (repository, proof)
        })
        .collect();
    // Where nothing is opened, it is the whole source that can't be had.
    let opens = |one: &Result<Access, DockerError>| one.is_ok();
    if let Some(Err(error)) = proofs.values().find(|one| !opens(one))
        && !proofs.values().any(opens)
    {
        let error = AccessError::Docker(error.clone());
        return Err(Failed {
            reason: error.reason(),
            message: error.to_string(),
        });
    }
    let Some(begun) = origin::begin(context, state, observed, *exchanged) else {
        return Ok(());
    };
    let mut tokens = std::mem::take(&mut state.tokens);
    tokens.tidy(&proofs.keys().cloned().collect(), Instant::now());
    state.publish(context, true);
    let mut check = Check {
        context,
        url,
        registry: Registry {
            web: &context.web,
            place: &place,
            trust: &trust,
            proof: &proof,
            allowed: &config.schemes,
            timeout,
            tokens: &mut tokens,
        },
        proofs: &proofs,
        one_for_all: one_for_all(&proofs),
        asked: false,
        patience: Patience::default(),
        digests: BTreeMap::new(),
        silent: None,
    };
    let brought = check.bring(state, request, &begun, *exchanged);
    *exchanged = check.asked;
    if check.patience.is_answered() {
        state.serving.edit().checked_at = Some(clock::now());
    }
    state.tokens = tokens;
    brought?;
    state.rejections = Some(observed.digest.clone());
    Ok(())
}

/// Whether what opens one of the repositories opens all of them.
fn one_for_all(proofs: &BTreeMap<String, Result<Access, DockerError>>) -> bool {
    let mut all = proofs.values();
    let Some(Ok(first)) = all.next() else {
        return proofs.is_empty();
    };
    all.all(|one| one.as_ref().is_ok_and(|one| one.proves_as(first)))
}

impl Check<'_> {
    fn bring(
        &mut self,
        state: &mut State,
        request: &Request,
        begun: &Begun<'_>,
        poll: bool,
    ) -> Result<(), Failed> {
        let mut doubtful = Vec::new();
        for wants in in_turn(state, request) {
            // Whoever asks for something new doesn't have everything else asked for again.
            let settled = |want: &&Want| begun.is_settled(self.context, state, want);
            if !poll && wants.iter().all(settled) {
                continue;
            }
            let doubts = self.patience.doubts();
            let mut outcomes = Vec::new();
            for want in wants {
                let rewrite = begun.bad.contains(want.key.as_str());
                let outcome = match self.one(state, want, rewrite) {
                    Ok(done) => Ok(done),
                    Err(Fault::Want(trouble)) => Err(trouble),
                    Err(Fault::Registry(failed)) => return Err(failed),
                };
                outcomes.push((want, outcome));
            }
            if self.patience.doubts() > doubts && !self.patience.is_answered() {
                doubtful.push(outcomes);
                continue;
            }
            conclude(self.context, state, outcomes);
            state.publish(self.context, true);
        }
        if let Some(failed) = self.patience.verdict() {
            return Err(failed);
        }
        for outcomes in doubtful {
            conclude(self.context, state, outcomes);
        }
        state.publish(self.context, true);
        Ok(())
    }

    fn one(
        &mut self,
        state: &mut State,
        want: &Want,
        rewrite: bool,
    ) -> Result<(Good, Built), Fault> {
        if want.spec.kind != WantKind::Chart {
            let message = "a registry gives charts alone; ask for kind chart";
            return Err(self.trouble(want, Reason::Unsupported, message, true));
        }
        if self.patience.is_slow(&want.spec.path) {
            let message = "the registry gave no answer about this chart just now";
            return Err(self.trouble(want, Reason::Timeout, message, false));
        }
        // Who waits for a server takes no place from those who have work.
        state.seat = None;
        let results = &state.serving.manifest().results;
        let prior = results
            .get(&want.key)
            .and_then(|result| result.good.clone());
        let there = prior
            .as_ref()
            .filter(|prior| !rewrite && is_there(self.context, prior));
        let place = self.registry.place;
        let repository = place.repository(&want.spec.path);
        let repository = repository.map_err(|error| self.fault(want, error))?;
        let resolved = self.resolve(want, &repository, prior.as_ref(), there)?;
        if let Some(there) = there
            && there.upstream_digest.as_ref() == Some(&resolved.digest)
        {
            let version = resolved.version.or_else(|| there.version.clone());
            return Ok((
                Good {
                    version,
                    ..there.clone()
                },
                Built::Unchanged,
            ));
        }
        self.make(state, want, &repository, resolved, prior.as_ref(), rewrite)
    }

    /// What a want stands for now.
    fn resolve(
        &mut self,
        want: &Want,
        repository: &str,
        prior: Option<&Good>,
        there: Option<&Good>,
    ) -> Result<Resolved, Fault> {
        let asked = want.spec.version.as_deref().unwrap_or("*");
        let wish = wish(asked).map_err(|error| self.fault(want, error))?;
        let (tag, version) = match wish {
            Wish::Digest { digest, version } => {
                // It can't be anything else than what it was.
                self.asked |=
                    there.is_none_or(|there| there.upstream_digest != Some(digest.clone()));
                return Ok(Resolved {
                    digest,
                    version: version.clone(),
                    expected: version,
                });
            }
            Wish::Tag(tag) => {
                let version = crate::range::exact(asked).map(|_| asked.trim().to_owned());
                (tag, version)
            }
            Wish::Range(text) => {
                let held = prior.and_then(|prior| prior.version.as_deref());
                let held = held.or(want.prefer.version.as_deref());
                let version = self.choose(want, repository, &text, held)?;
                (tag_of(&version), Some(version))
            }
        };
        self.open(want, repository)?;
        Ok(Resolved {
            digest: self.digest(want, repository, tag)?,
            version,
            expected: None,
        })
    }

    /// The digest that a tag stands for now, asked for once in a check.
    fn digest(&mut self, want: &Want, repository: &str, tag: String) -> Result<String, Fault> {
        let key = (repository.to_owned(), tag);
        if let Some(digest) = self.digests.get(&key) {
            return Ok(digest.clone());
        }
        self.asked = true;
        let begun = Instant::now();
        let digest = self.registry.digest(repository, &key.1);
        self.count("digest", &digest, begun);
        let digest = digest.map_err(|error| self.fault(want, error))?;
        self.digests.insert(key, digest.clone());
        Ok(digest)
    }

    /// The version that a range stands for now.
    fn choose(
        &mut self,
        want: &Want,
        repository: &str,
        text: &str,
        held: Option<&str>,
    ) -> Result<String, Fault> {
        let range = Range::parse(text).map_err(|error| {
            self.trouble(want, Reason::InvalidVersion, &error.to_string(), true)
        })?;
        self.open(want, repository)?;
        self.asked = true;
        let begun = Instant::now();
        let found = self.registry.versions(repository, &range, held);
        self.count("tags", &found, begun);
        let found = found.map_err(|error| self.fault(want, error))?;
        let entries: Vec<Entry> = found.versions.iter().map(Entry::of_version).collect();
        match choose(&entries, text, held) {
            Ok(entry) => Ok(entry.version.clone()),
            Err(miss) => {
                let message = format!("of {} tags in {repository}: {}", found.tags, miss.message);
                Err(self.trouble(want, miss.reason, &message, true))
            }
        }
    }

    /// Gets a chart, and makes its artifact.
    fn make(
        &mut self,
        state: &mut State,
        want: &Want,
        repository: &str,
        resolved: Resolved,
        prior: Option<&Good>,
        rewrite: bool,
    ) -> Result<(Good, Built), Fault> {
        let (context, config) = (self.context, &self.context.config);
        if let Some(reason) = self.silent.clone() {
            let message = "where the registry keeps its charts is silent just now";
            return Err(self.trouble(want, reason, message, false));
        }
        self.open(want, repository)?;
        let begun = Instant::now();
        let manifest = self.registry.manifest(repository, &resolved.digest);
        self.count("manifest", &manifest, begun);
        let manifest = manifest.map_err(|error| self.lost(want, error))?;
        let inputs = format!("oci:{}", manifest.archive.digest);
        if let Some(prior) = prior
            && prior.inputs == inputs
            && !rewrite
            && is_there(context, prior)
        {
            // Pushed again: another manifest of the same archive.
            let good = Good {
                version: resolved.version.or_else(|| prior.version.clone()),
                upstream_digest: Some(manifest.digest),
                ..prior.clone()
            };
            return Ok((good, Built::Unchanged));
        }
        if context.over_budget() {
            return Err(self.trouble(want, Reason::Volume, FULL, false));
        }
        let begun = Instant::now();
        let limit = config.limits.bytes;
        let archive = self.registry.blob(repository, &manifest.archive, limit);
        self.count("blob", &archive, begun);
        let archive = archive.map_err(|error| self.lost(want, error))?;
        state.sit_down(context);
        let unpacked = archive::unpack(archive.as_slice(), config.limits)
            .map_err(|error| self.fault(want, error.into()))?;
        let chart = unpacked.chart.name.clone();
        if let Some(asked) = resolved.expected
            && crate::range::exact(&asked) != crate::range::exact(&chart.version)
        {
            let found = chart.version;
            return Err(self.fault(want, OciError::OtherVersion { found, asked }));
        }
        let packer = unpacked
            .packer(config.limits)
            .map_err(|error| self.fault(want, error.into()))?;
        let origin = Origin {
            version: resolved.version.or_else(|| Some(chart.version.clone())),
            upstream_digest: Some(manifest.digest),
            inputs,
            chart: Some(chart),
        };
        origin::store(context, &state.name, packer, origin, prior, rewrite).map_err(|error| {
            let lasting = !error.may_pass();
            self.trouble(want, error.reason(), &error.to_string(), lasting)
        })
    }

    /// Takes up what opens the want's repository.
    fn open(&mut self, want: &Want, repository: &str) -> Result<(), Fault> {
        match self.proofs.get(repository) {
            Some(Ok(proof)) => self.registry.proof = proof,
            Some(Err(error)) => {
                let error = AccessError::Docker(error.clone());
                return Err(self.trouble(want, error.reason(), &error.to_string(), true));
            }
            None => {}
        }
        Ok(())
    }

    fn count<T>(&mut self, kind: &'static str, outcome: &Result<T, OciError>, begun: Instant) {
        let answered = match outcome {
            Ok(_) => true,
            Err(error) => error.is_an_answer(),
        };
        if answered {
            self.patience.answered();
        }
        let outcome = match outcome {
            Ok(_) => "success",
            Err(error) if error.reason() == Reason::Timeout => "timeout",
            Err(_) => "failure",
        };
        self.context.metrics.got(kind, outcome, begun.elapsed());
    }

    /// A chart that the registry names can't be had. Others may lie elsewhere, so they are
    /// looked at; but nobody is waited for twice.
    fn lost(&mut self, want: &Want, error: OciError) -> Fault {
        if !self.patience.is_answered() {
            return self.fault(want, error);
        }
        let reason = error.reason();
        if matches!(
            reason,
            Reason::Timeout | Reason::Unreachable | Reason::UnknownHost
        ) {
            self.silent = Some(reason.clone());
        }
        self.trouble(want, reason, &error.to_string(), !error.may_pass())
    }

    fn fault(&mut self, want: &Want, error: OciError) -> Fault {
        let of_login = matches!(error, OciError::Login(_) | OciError::NoLogin);
        let over = match error.reach() {
            Reach::Registry => true,
            // What opens another repository is another credential.
            Reach::Perhaps if of_login && !self.one_for_all => false,
            Reach::Perhaps => {
                let doubt = match &error {
                    OciError::Login(_) => Doubt::Refused,
                    error if error.reason() == Reason::Timeout => Doubt::Silent,
                    _ => Doubt::Failing,
                };
                let failed = self.failed(&error);
                self.patience.doubt(&want.spec.path, doubt, failed)
            }
            Reach::Chart => false,
        };
        if over {
            Fault::Registry(self.failed(&error))
        } else {
            let lasting = !error.may_pass();
            self.trouble(want, error.reason(), &error.to_string(), lasting)
        }
    }

    fn failed(&self, error: &OciError) -> Failed {
        let message = format!("{}: {error}", redact_url(self.url));
        Failed {
            reason: error.reason(),
            message: shown(self.registry.proof, &message),
        }
    }

    fn trouble(&self, want: &Want, reason: Reason, message: &str, lasting: bool) -> Fault {
        let path = &want.spec.path;
        let version = want.spec.version.as_deref().unwrap_or("*");
        let message = format!("chart {path:?} {version:?}: {message}");
        Fault::Want(Trouble {
            reason,
            message: shown(self.registry.proof, &message),
            commit: None,
            lasting,
        })
    }
}

#[cfg(test)]
mod tests;
