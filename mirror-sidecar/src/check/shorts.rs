//! Short commit ids: what they stood for, and looking through the remote's history for them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use git2::Oid;
use tandem_shared::manifest::Reason;
use tandem_shared::request::Request;

use super::resolve::{COMMIT, Miss, Resolved, asked_name, held};
use super::state::{Known, State};
use crate::mirror::{Item, Manner, Mirror, MirrorError};

/// How often a short id that wasn't found is looked for again.
const SHORT_AGAIN: Duration = Duration::from_secs(30);
const SHORT_AGAIN_LONGEST: Duration = Duration::from_secs(3600);

/// What is known of a short id without asking the remote.
pub(super) enum Short {
    Is(Oid),
    Missing(Known),
    Unknown,
}

/// What a short id stood for before, here or before a lost volume.
pub(super) fn known(
    state: &State,
    request: &Request,
    mirror: &Mirror<'_>,
    name: &str,
    short: &str,
) -> Result<Short, MirrorError> {
    if let Some(commit) = mirror.held(name)?
        && commit.to_string().starts_with(short)
    {
        return Ok(Short::Is(commit));
    }
    let preferred = request
        .wants
        .iter()
        .filter(|want| asked_name(want) == name)
        .filter_map(|want| want.prefer.commit.as_deref())
        .find(|commit| commit.len() == 40 && commit.starts_with(short));
    if let Some(commit) = preferred.and_then(|commit| Oid::from_str(commit).ok()) {
        return Ok(Short::Is(commit));
    }
    Ok(match state.git.known.get(name) {
        // It costs the whole history each time, so it isn't looked for at every poll.
        Some(
            known @ Known::Missing {
                again: Some(again), ..
            },
        ) if Instant::now() < *again => Short::Missing(known.clone()),
        _ => Short::Unknown,
    })
}

/// When the whole history is looked through again, after it was so often in vain.
pub(super) fn again(misses: u32) -> Instant {
    let wait = SHORT_AGAIN.saturating_mul(1 << misses.min(10));
    Instant::now() + wait.min(SHORT_AGAIN_LONGEST)
}

/// Looks for what short ids stand for, after everything else has been served:
/// it may take the remote's whole history, and concerns nobody else.
///
/// # Errors
/// If the mirror itself is broken.
pub(super) fn look(
    state: &mut State,
    mirror: &Mirror<'_>,
    shorts: BTreeMap<String, String>,
) -> Result<BTreeMap<String, Resolved>, MirrorError> {
    let names: BTreeSet<String> = shorts.keys().cloned().collect();
    for (name, short) in shorts {
        let misses = match state.git.known.get(&name) {
            Some(Known::Missing { misses, .. }) => misses + 1,
            _ => 1,
        };
        let found = mirror
            .find_short(&short, state.git.manner == Manner::Old)
            .and_then(|object| {
                if mirror.all_held()?.contains(&object) {
                    return mirror.hold(&name, object);
                }
                let item = Item {
                    asked: name.clone(),
                    object,
                    whole: true,
                };
                mirror.fetch(&[item])?.remove(&name).map_or(Ok(()), Err)
            });
        let known = match found {
            Ok(()) => Known::Found {
                full_name: COMMIT.to_owned(),
            },
            Err(error) => {
                // The history lay aside; whatever is wrong with it, the mirror isn't broken.
                let reason = if error.is_corrupt() {
                    Reason::Remote
                } else {
                    error.reason()
                };
                let miss = Miss {
                    reason,
                    message: error.to_string(),
                };
                Known::Missing {
                    miss,
                    again: Some(again(misses)),
                    misses,
                }
            }
        };
        state.git.known.insert(name, known);
    }
    state.git.fetched = true;
    held(state, mirror, &names)
}
