//! What is wanted of the refs, built and put into the manifest, group by group.

use std::collections::BTreeMap;

use git2::Oid;
use tandem_shared::clock;
use tandem_shared::manifest::{Good, Reason};
use tandem_shared::observe::Observed;
use tandem_shared::request::{Request, Want, WantKind, WantSpec};

use super::group::{self, Trouble, groups};
use super::resolve::{Miss, Resolved, asked_name};
use super::signatures::{self, Settled, Signatures};
use super::submodules::Submodules;
use super::{Context, State, dependencies};
use crate::janitor;
use crate::metrics::Built;
use crate::mirror::{Mirror, MirrorError};
use crate::snapshot::{self, Snapshot, SnapshotError};

/// Characters of a message that are kept.
pub(super) const MESSAGE: usize = 1000;

/// What came of one want.
struct Outcome {
    good: Good,
    built: Built,
    contained: Option<Oid>,
}

/// Brings the results of all wants up to date.
///
/// # Errors
/// If the mirror is broken.
pub(super) fn build(
    context: &Context,
    state: &mut State,
    observed: &Observed<Request>,
    mirror: &Mirror<'_>,
    found: &BTreeMap<String, Resolved>,
) -> Result<(), MirrorError> {
    let request = &observed.document;
    let look_into_rejections = state.rejections.as_ref() != Some(&observed.digest);
    // Wants of several groups are often the same chart at the same commit.
    let mut built = BTreeMap::new();
    let mut submodules = Submodules::new(context, request, mirror);
    let mut signers = Signatures::new(context, mirror);
    for wants in groups(request).values() {
        for want in wants {
            let results = &mut state.serving.edit().results;
            let result = results.entry(want.key.clone()).or_default();
            let before = result.asked.replace(want.spec.clone());
            // A key that a person chose may come to stand for something else.
            if let Some(before) = before.filter(|before| *before != want.spec) {
                if before.verify != want.spec.verify && want.spec.verify.is_some() {
                    result.good = None;
                }
                state.git.settled.remove(&want.key);
                state.git.contained.remove(&want.key);
            }
            signatures::drop_unverified(result, want);
        }
        let bad = if look_into_rejections {
            rejected(context, state, wants)
        } else {
            false
        };
        if !bad && is_settled(context, state, mirror, wants, found)? {
            continue;
        }
        let mut outcomes = Vec::new();
        for want in wants {
            let Some(resolved) = found.get(&asked_name(want)) else {
                continue;
            };
            let outcome = match resolved {
                Err(miss) => {
                    restore(&mut submodules, state, want)?;
                    Err(missing(miss))
                }
                Ok(commit) => {
                    let full_name = signatures::full_name(state, want);
                    let verified = signers.look(want, *commit, full_name.as_deref());
                    let outcome = verified.and_then(|verified| {
                        let one = one(&mut submodules, state, want, *commit, bad, &mut built)?;
                        Ok(one.map(|mut outcome| {
                            outcome.good.verified_by = verified;
                            outcome
                        }))
                    });
                    match outcome {
                        Ok(Some(outcome)) => Ok(outcome),
                        // Its dependencies are on their way.
                        Ok(None) => continue,
                        Err(trouble) => Err(trouble),
                    }
                }
            };
            if let Err(Trouble {
                reason: Reason::MirrorCorrupt,
                message,
                ..
            }) = outcome
            {
                return Err(MirrorError::Corrupt(message));
            }
            outcomes.push((*want, outcome));
        }
        // One that isn't known yet (the remote can't be asked, dependencies are on their
        // way) holds the whole group back. What our own end cut short says nothing about it.
        if outcomes.len() == wants.len() && !context.git.is_cancelled() {
            apply(context, state, mirror, outcomes, found)?;
            state.publish(context, true);
        }
    }
    submodules.end(&mut state.git.submodules, &mut state.git.fetched);
    state.rejections = Some(observed.digest.clone());
    Ok(())
}

/// Builds a lost artifact again whose ref is gone, if the mirror still has it.
fn restore(
    submodules: &mut Submodules<'_>,
    state: &mut State,
    want: &Want,
) -> Result<(), MirrorError> {
    let Some(good) = held(state, want).filter(|good| !is_there(submodules.context, good)) else {
        return Ok(());
    };
    let Some(commit) = submodules.mirror.held(&asked_name(want))? else {
        return Ok(());
    };
    if let Err(error) = at(submodules, state, want, commit, Some(&good), true) {
        tracing::warn!(source = %state.name, want = %want.key, digest = %good.artifact, %error, "a lost artifact can't be built again");
    }
    Ok(())
}

/// What is served of a want.
fn held(state: &State, want: &Want) -> Option<Good> {
    let result = state.serving.manifest().results.get(&want.key);
    result.and_then(|result| result.good.clone())
}

fn missing(miss: &Miss) -> Trouble {
    Trouble {
        reason: miss.reason.clone(),
        message: miss.message.clone(),
        commit: None,
        lasting: false,
    }
}

/// Whether everything about these wants was dealt with at this very commit,
/// and what came of it is still there.
fn is_settled(
    context: &Context,
    state: &State,
    mirror: &Mirror<'_>,
    wants: &[&Want],
    found: &BTreeMap<String, Resolved>,
) -> Result<bool, MirrorError> {
    for want in wants {
        let Some(Ok(commit)) = found.get(&asked_name(want)) else {
            return Ok(false);
        };
        let result = state.serving.manifest().results.get(&want.key);
        let there = result
            .and_then(|result| result.good.as_ref())
            .is_none_or(|good| is_there(context, good));
        let now = Settled::now(
            mirror,
            want,
            *commit,
            signatures::full_name(state, want).as_deref(),
        )?;
        if !there || state.git.settled.get(&want.key) != Some(&now) {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn is_there(context: &Context, good: &Good) -> bool {
    let path = context.config.volume.served.artifact(&good.artifact);
    path.symlink_metadata()
        .is_ok_and(|meta| meta.is_file() && meta.len() == good.size)
}

/// Whether the reconciler rightly rejected an artifact of these wants.
pub(super) fn rejected(context: &Context, state: &State, wants: &[&Want]) -> bool {
    wants.iter().any(|want| {
        let result = state.serving.manifest().results.get(&want.key);
        let Some(good) = result.and_then(|result| result.good.as_ref()) else { return false };
        if !want.rejected.contains(&good.artifact) {
            return false;
        }
        let sound = janitor::is_sound(&context.config.volume.served, &good.artifact).unwrap_or(false);
        tracing::warn!(source = %state.name, want = %want.key, digest = %good.artifact, sound, "the reconciler rejected an artifact");
        !sound
    })
}

type Cache = BTreeMap<(Oid, WantSpec), Result<(Good, Option<Oid>), String>>;

fn one(
    submodules: &mut Submodules<'_>,
    state: &mut State,
    want: &Want,
    commit: Oid,
    rewrite: bool,
    cache: &mut Cache,
) -> Result<Option<Outcome>, Trouble> {
    let prior = held(state, want);
    let prior = prior.as_ref();
    if let Some(Ok((good, contained))) = cache.get(&(commit, want.spec.clone())) {
        let built = if prior.is_some_and(|prior| prior.artifact == good.artifact) {
            Built::Unchanged
        } else {
            Built::Same
        };
        return Ok(Some(Outcome {
            good: carry(prior, good.clone()),
            built,
            contained: *contained,
        }));
    }
    let outcome = at(submodules, state, want, commit, prior, rewrite)
        .map_err(|error| trouble(&error, want, commit))?;
    if let Some(outcome) = &outcome {
        cache.insert(
            (commit, want.spec.clone()),
            Ok((outcome.good.clone(), outcome.contained)),
        );
    }
    Ok(outcome)
}

/// None while dependencies are on their way.
fn at(
    submodules: &mut Submodules<'_>,
    state: &mut State,
    want: &Want,
    commit: Oid,
    prior: Option<&Good>,
    rewrite: bool,
) -> Result<Option<Outcome>, SnapshotError> {
    let context = submodules.context;
    let limits = context.config.limits;
    let served = &context.config.volume.served;
    let snapshot =
        Snapshot::of(submodules.mirror.repository(), commit)?.with_submodules(want.spec.submodules);
    let prior_there = prior.filter(|good| !rewrite && is_there(context, good));
    let unchanged = |prior: &Good, contained| {
        Some(Outcome {
            good: prior.clone(),
            built: Built::Unchanged,
            contained,
        })
    };
    // What submodules there are has to be known, so that they stay.
    let known = state.git.contained.get(&want.key);
    if let (Some(prior), Some(contained)) = (prior_there, known.filter(|_| !want.spec.submodules))
        && snapshot::folder_of(&snapshot, &want.spec)? == Some(*contained)
    {
        return Ok(unchanged(prior, Some(*contained)));
    }
    let plan = submodules.plan(&snapshot, &want.spec, limits)?;
    let identity = plan.inputs();
    let contained = plan.self_contained;
    if let Some(prior) = prior_there
        && (prior.inputs == identity || prior.resolved_for.as_ref() == Some(&identity))
    {
        state.git.waiting.remove(&want.key);
        return Ok(unchanged(prior, contained));
    }
    let Some(downloaded) = dependencies::resolve(context, state, want, &plan, &identity, prior)?
    else {
        return Ok(None);
    };
    let more = dependencies::files(context, &mut state.look, &plan, &downloaded)?;
    let hold = context.inventory.hold(&state.name);
    let exported = snapshot::export(&snapshot, &plan, more, limits, served, &hold, rewrite)?;
    let good = Good {
        commit: Some(commit.to_string()),
        version: None,
        upstream_digest: None,
        artifact: exported.digest,
        same_as: Vec::new(),
        chart: plan.chart,
        inputs: snapshot::all_inputs(&identity, &downloaded),
        resolved_for: (!downloaded.is_empty()).then_some(identity),
        verified_by: None,
        resolved: plan.resolved.into_iter().chain(downloaded).collect(),
        size: exported.size,
        since: clock::now(),
    };
    let built = if exported.written {
        Built::Written
    } else {
        Built::Same
    };
    Ok(Some(Outcome {
        good: carry(prior, good),
        built,
        contained,
    }))
}

/// The same content keeps the commit and the time at which it was first seen.
fn carry(prior: Option<&Good>, good: Good) -> Good {
    match prior {
        Some(prior) if prior.artifact == good.artifact => Good {
            commit: prior.commit.clone(),
            since: prior.since,
            ..good
        },
        _ => good,
    }
}

/// What is talked about: which chart or file, at which ref and commit.
pub(super) fn subject(want: &Want, commit: Oid) -> String {
    let kind = match want.spec.kind {
        WantKind::File => "file",
        _ => "chart",
    };
    let short: String = commit.to_string().chars().take(12).collect();
    let path: String = want
        .spec
        .path
        .chars()
        .filter(|c| !c.is_control())
        .take(200)
        .collect();
    let named = asked_name(want);
    format!("{kind} {path:?} at {named} ({short})")
}

fn trouble(error: &SnapshotError, want: &Want, commit: Oid) -> Trouble {
    let message = match error {
        SnapshotError::Corrupt(_) => error.to_string(),
        _ => format!("{}: {error}", subject(want, commit)),
    };
    Trouble {
        reason: error.reason(),
        message: message
            .chars()
            .filter(|c| !c.is_control())
            .take(MESSAGE)
            .collect(),
        commit: Some(commit),
        lasting: !error.may_pass(),
    }
}

/// Puts a group's results into the manifest: all of them, or why none.
fn apply(
    context: &Context,
    state: &mut State,
    mirror: &Mirror<'_>,
    outcomes: Vec<(&Want, Result<Outcome, Trouble>)>,
    found: &BTreeMap<String, Resolved>,
) -> Result<(), MirrorError> {
    let held_back = outcomes.iter().find_map(|(want, outcome)| match outcome {
        Err(trouble) => Some(group::held_back(want, trouble)),
        Ok(_) => None,
    });
    let lasting = outcomes.iter().all(|(_, outcome)| {
        outcome
            .as_ref()
            .map_or_else(|trouble| trouble.lasting, |_| true)
    });
    let now = clock::now();
    for (want, outcome) in outcomes {
        let commit = found
            .get(&asked_name(want))
            .and_then(|resolved| resolved.as_ref().ok())
            .copied();
        let full_name = signatures::full_name(state, want);
        let settled = match commit {
            Some(commit) if lasting => {
                Some(Settled::now(mirror, want, commit, full_name.as_deref())?)
            }
            _ => None,
        };
        let result = state
            .serving
            .edit()
            .results
            .entry(want.key.clone())
            .or_default();
        let (built, trouble) = match (outcome, &held_back) {
            (Ok(outcome), None) => {
                if outcome.built == Built::Written {
                    tracing::info!(source = %state.name, want = %want.key, r#ref = %asked_name(want), path = %want.spec.path, commit = outcome.good.commit.as_deref(), digest = %outcome.good.artifact, "built an artifact");
                }
                match outcome.contained {
                    Some(folder) => state.git.contained.insert(want.key.clone(), folder),
                    None => state.git.contained.remove(&want.key),
                };
                result.good = Some(outcome.good);
                result.problem = None;
                (outcome.built, None)
            }
            (Ok(_), Some(message)) => {
                let message = message.clone();
                (
                    Built::Failed,
                    Some(Trouble {
                        reason: Reason::GroupHeldBack,
                        message,
                        commit,
                        lasting,
                    }),
                )
            }
            (Err(trouble), _) => (Built::Failed, Some(trouble)),
        };
        context.metrics.built(built);
        if let Some(trouble) = trouble {
            // A missing ref is seen at the next poll, and downloads are tried by themselves.
            let of_its_own = match trouble.reason {
                Reason::Timeout => false,
                Reason::DependencyFailed => true,
                _ => trouble.commit.is_none(),
            };
            if !trouble.lasting && !of_its_own && trouble.reason != Reason::GroupHeldBack {
                state.again = Some(trouble.reason.clone());
            }
            group::blame(result, trouble, now);
        }
        match settled {
            Some(settled) => state.git.settled.insert(want.key.clone(), settled),
            None => state.git.settled.remove(&want.key),
        };
    }
    Ok(())
}
