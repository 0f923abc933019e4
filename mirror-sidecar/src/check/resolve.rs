//! What the asked names stand for now, and their commits in the mirror.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use git2::{Oid, Repository};
use jiff::Timestamp;
use tandem_shared::manifest::{Reason, RefRecord};
use tandem_shared::request::{Request, Want};

use super::Context;
use super::shorts::{self, Short};
use super::state::{Known, State};
use crate::mirror::refs::{self, Asked, Found, HEAD, Listing, Question};
use crate::mirror::tags::{self, Standing};
use crate::mirror::{Item, Mirror, MirrorError};

/// What an asked ref is recorded as if it is a commit id.
pub(super) const COMMIT: &str = "commit";
/// Characters of a commit's subject that are shown.
const SUBJECT: usize = 120;
/// Why there is no commit for an asked name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Miss {
    pub(super) reason: Reason,
    pub(super) message: String,
}

/// The commit of an asked name, or why there is none.
pub(super) type Resolved = Result<Oid, Miss>;

/// What came of it.
pub(super) struct Resolutions {
    /// By asked name. One that is absent isn't known at all.
    pub(super) found: BTreeMap<String, Resolved>,
    /// What kept the remote from being asked.
    pub(super) failure: Option<MirrorError>,
    /// All asked names.
    pub(super) asked: BTreeSet<String>,
    /// Asked names that are short commit ids whose meaning has to be looked
    /// for in the remote's history.
    pub(super) shorts: BTreeMap<String, String>,
}

/// What a want calls its ref.
pub(super) fn asked_name(want: &Want) -> String {
    want.spec
        .reference
        .clone()
        .unwrap_or_else(|| HEAD.to_owned())
}

/// Asks the remote if that is due, fetches what isn't held, and says what
/// everything stands for.
///
/// # Errors
/// If the mirror itself is broken. That the remote can't be asked is part of
/// the answer: what is held can still be served.
pub(super) fn resolve(
    context: &Context,
    state: &mut State,
    request: &Request,
    mirror: &Mirror<'_>,
    exchanged: &mut bool,
) -> Result<Resolutions, MirrorError> {
    let names = names(request);
    let asked: BTreeSet<String> = names.keys().cloned().collect();
    let (failure, shorts) = match exchange(context, state, request, mirror, &names, exchanged) {
        Ok(shorts) => (None, shorts),
        Err(error) if error.is_corrupt() => return Err(error),
        Err(error) => (Some(error), BTreeMap::new()),
    };
    let found = held(state, mirror, &asked)?;
    Ok(Resolutions {
        found,
        failure,
        asked,
        shorts,
    })
}

fn names(request: &Request) -> BTreeMap<String, Asked> {
    let named = |want| {
        let name = asked_name(want);
        let asked = Asked::read(&name);
        (name, asked)
    };
    request.wants.iter().map(named).collect()
}

/// What the mirror holds of what is asked for, without asking anybody; and whether nobody has
/// to be asked, either: all of it are commits that are here.
pub(super) fn at_hand(
    state: &mut State,
    request: &Request,
    mirror: &Mirror<'_>,
) -> Result<(BTreeMap<String, Resolved>, bool), MirrorError> {
    let mut names = names(request);
    let asked: BTreeSet<String> = names.keys().cloned().collect();
    names.retain(|_, asked| matches!(asked, Asked::Commit(_)));
    let settling = settle(state, request, mirror, &names, &Listing::default())?;
    let whole = settling.items.is_empty() && names.len() == asked.len();
    Ok((held(state, mirror, &asked)?, whole))
}

/// The commits that the mirror holds of the asked names, noted in the manifest.
pub(super) fn held(
    state: &mut State,
    mirror: &Mirror<'_>,
    asked: &BTreeSet<String>,
) -> Result<BTreeMap<String, Resolved>, MirrorError> {
    let mut found = BTreeMap::new();
    for name in asked {
        let resolved = match state.git.known.get(name) {
            Some(Known::Missing { miss, .. }) => Some(Err(miss.clone())),
            known => match mirror.held(name)? {
                None => None,
                Some(commit) => {
                    let full_name = match known {
                        Some(Known::Found { full_name }) => Some(full_name.clone()),
                        _ => state
                            .serving
                            .manifest()
                            .refs
                            .get(name)
                            .map(|record| record.full_name.clone()),
                    };
                    let record = record(
                        mirror.repository(),
                        full_name.unwrap_or_else(|| name.clone()),
                        commit,
                    )?;
                    let before = state.serving.manifest().refs.get(name);
                    if before.is_some_and(|before| before.commit != record.commit) {
                        tracing::info!(source = %state.name, r#ref = %name, commit = %record.commit, "the ref moved");
                    }
                    state.serving.edit().refs.insert(name.clone(), record);
                    Some(Ok(commit))
                }
            },
        };
        if let Some(resolved) = resolved {
            found.insert(name.clone(), resolved);
        }
    }
    Ok(found)
}

/// What one exchange has to settle.
struct Settling {
    items: Vec<Item>,
    /// What every name stands for, as far as that is an object.
    objects: BTreeMap<String, Oid>,
    known: BTreeMap<String, Known>,
    shorts: BTreeMap<String, String>,
}

fn exchange(
    context: &Context,
    state: &mut State,
    request: &Request,
    mirror: &Mirror<'_>,
    names: &BTreeMap<String, Asked>,
    exchanged: &mut bool,
) -> Result<BTreeMap<String, String>, MirrorError> {
    // Commits that are held, and what was looked up a moment ago, need no exchange.
    let news = names.iter().any(|(name, asked)| {
        !matches!(asked, Asked::Commit(_)) && !state.git.known.contains_key(name)
    });
    let list = Question::about(names.values());
    let ask = *exchanged || news;
    *exchanged = false;
    let mut listing = Listing::default();
    if ask && !list.is_empty() {
        state.publish(context, true);
        *exchanged = true;
        listing = mirror.list(context.direct(), &list, &mut state.git.manner)?;
        state.serving.edit().checked_at = Some(tandem_shared::clock::now());
    }
    let looked_up = if ask {
        names.clone()
    } else {
        names
            .iter()
            .filter(|(_, asked)| matches!(asked, Asked::Commit(_)))
            .map(|(name, asked)| (name.clone(), asked.clone()))
            .collect()
    };
    let mut settling = settle(state, request, mirror, &looked_up, &listing)?;
    settling.note(state, mirror)?;
    if !settling.items.is_empty() {
        state.sit_down(context);
        *exchanged = true;
        if context.over_budget() {
            let message = super::FULL.to_owned();
            return Err(MirrorError::Git {
                reason: Reason::Volume,
                meaning: crate::mirror::classify::Meaning::Failure,
                message,
            });
        }
        state.publish(context, true);
        state.git.fetched = true;
        settling.spare(state);
        let mut refused = settling.fetch(state, mirror)?;
        let moved = |(name, error): (&String, &MirrorError)| {
            error.reason() == Reason::RefNotFound
                && !matches!(names.get(name), Some(Asked::Commit(_)))
        };
        if refused.iter().any(moved) && !list.is_empty() {
            // A ref moved between the listing and the fetch: its old object may be gone.
            listing = mirror.list(context.direct(), &list, &mut state.git.manner)?;
            settling = settle(state, request, mirror, &looked_up, &listing)?;
            settling.spare(state);
            refused = settling.fetch(state, mirror)?;
        }
        state.serving.edit().checked_at = Some(tandem_shared::clock::now());
        for item in &settling.items {
            let miss = match refused.remove(&item.asked) {
                Some(error) => Miss {
                    reason: error.reason(),
                    message: error.to_string(),
                },
                None if mirror.held(&item.asked)?.is_some() => continue,
                None => Miss {
                    reason: Reason::RefNotFound,
                    message: format!("{} is no commit, and doesn't lead to one", item.asked),
                },
            };
            // The whole history was looked through for it, or would have been.
            let by_id = matches!(names.get(&item.asked), Some(Asked::Commit(_)));
            let (miss, again, misses) = match (state.git.known.get(&item.asked), by_id) {
                // Not looked for this time, it is missing for the reason that it was then.
                (
                    Some(Known::Missing {
                        miss: then,
                        again,
                        misses,
                    }),
                    true,
                ) if !item.whole => {
                    let same = miss.reason == Reason::RefNotFound;
                    (if same { then.clone() } else { miss }, *again, *misses)
                }
                (Some(Known::Missing { misses, .. }), true) => {
                    (miss, Some(shorts::again(misses + 1)), misses + 1)
                }
                (_, true) => (miss, Some(shorts::again(1)), 1),
                (_, false) => (miss, None, 0),
            };
            settling.known.insert(
                item.asked.clone(),
                Known::Missing {
                    miss,
                    again,
                    misses,
                },
            );
        }
    }
    state.git.known.extend(settling.known);
    Ok(settling.shorts)
}

/// Looks every name up, and says which objects have to be fetched for that.
fn settle(
    state: &State,
    request: &Request,
    mirror: &Mirror<'_>,
    names: &BTreeMap<String, Asked>,
    listing: &Listing,
) -> Result<Settling, MirrorError> {
    let mut settling = Settling {
        items: Vec::new(),
        objects: BTreeMap::new(),
        known: BTreeMap::new(),
        shorts: BTreeMap::new(),
    };
    let held = mirror.all_held()?;
    for (name, asked) in names {
        let before = match asked {
            Asked::Range(_) => standing(state, request, name),
            _ => None,
        };
        let known = match refs::resolve(asked, listing, before.as_ref()) {
            Found::Nothing => Known::Missing {
                miss: nothing(name, asked, listing),
                again: None,
                misses: 0,
            },
            Found::Gone { full_name, id } => {
                if mirror.held(name)?.is_none_or(|held| held.to_string() != id) {
                    settling.need(mirror, &held, name, &id)?;
                }
                Known::Found { full_name }
            }
            Found::Ref { full_name, id } => {
                settling.need(mirror, &held, name, &id)?;
                Known::Found { full_name }
            }
            Found::Commit(id) => {
                settling.need(mirror, &held, name, &id)?;
                Known::Found {
                    full_name: COMMIT.to_owned(),
                }
            }
            Found::Short(short) => match shorts::known(state, request, mirror, name, &short)? {
                Short::Is(id) => {
                    settling.need(mirror, &held, name, &id.to_string())?;
                    Known::Found {
                        full_name: COMMIT.to_owned(),
                    }
                }
                Short::Missing(known) => known,
                Short::Unknown => {
                    settling.shorts.insert(name.clone(), short);
                    continue;
                }
            },
        };
        settling.known.insert(name.clone(), known);
    }
    Ok(settling)
}

impl Settling {
    fn need(
        &mut self,
        mirror: &Mirror<'_>,
        held: &BTreeSet<Oid>,
        name: &str,
        id: &str,
    ) -> Result<(), MirrorError> {
        let object = Oid::from_str(id)?;
        self.objects.insert(name.to_owned(), object);
        if mirror.held_object(name)? == Some(object) {
            return Ok(());
        }
        if held.contains(&object) {
            return mirror.hold(name, object);
        }
        self.items.push(Item {
            asked: name.to_owned(),
            object,
            whole: true,
        });
        Ok(())
    }

    /// Fetches what isn't held.
    fn fetch(
        &self,
        state: &mut State,
        mirror: &Mirror<'_>,
    ) -> Result<BTreeMap<String, MirrorError>, MirrorError> {
        let fetched = mirror.fetch(&self.items);
        self.note(state, mirror)?;
        fetched
    }

    /// A commit for which the whole history was fetched in vain isn't looked for so at every
    /// poll, unless somebody asks for it.
    fn spare(&mut self, state: &State) {
        if state.look.anew == state.look.begun {
            return;
        }
        let now = Instant::now();
        for item in &mut self.items {
            let known = state.git.known.get(&item.asked);
            item.whole =
                !matches!(known, Some(Known::Missing { again: Some(again), .. }) if now < *again);
        }
    }

    /// Notes what is held already, so that a name and its commit are never of two exchanges,
    /// whatever becomes of this one.
    fn note(&self, state: &mut State, mirror: &Mirror<'_>) -> Result<(), MirrorError> {
        for (name, object) in &self.objects {
            if let Some(known) = self.known.get(name)
                && mirror.held_object(name)? == Some(*object)
            {
                state.git.known.insert(name.clone(), known.clone());
            }
        }
        Ok(())
    }
}

/// What a range stood for until now, here or before a lost volume.
fn standing(state: &State, request: &Request, name: &str) -> Option<Standing> {
    if let Some(record) = state.serving.manifest().refs.get(name) {
        return Some(Standing {
            tag: Some(record.full_name.clone()),
            commit: record.commit.clone(),
        });
    }
    let wants = request.wants.iter().filter(|want| asked_name(want) == name);
    let commit = wants
        .filter_map(|want| want.prefer.commit.clone())
        .find(|commit| commit.len() == 40)?;
    Some(Standing { tag: None, commit })
}

fn nothing(name: &str, asked: &Asked, listing: &Listing) -> Miss {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(120).collect();
    let message = match asked {
        Asked::Range(range) => tags::nothing(range, listing),
        Asked::Impossible(Some(why)) => format!("{shown:?} names no versions: {why}"),
        Asked::Head => "the remote's HEAD names no branch that exists; name a ref".to_owned(),
        Asked::Impossible(None) => format!(
            "{shown:?} can't be the name of a ref; write a branch, a tag, refs/… or a commit id"
        ),
        _ => format!(
            "the remote has no branch or tag {shown:?} (any more); push it, or name another ref"
        ),
    };
    Miss {
        reason: Reason::RefNotFound,
        message,
    }
}

fn record(
    repository: &Repository,
    full_name: String,
    commit: Oid,
) -> Result<RefRecord, MirrorError> {
    let found = repository.find_commit(commit)?;
    let subject = String::from_utf8_lossy(found.message_bytes())
        .trim_start()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    Ok(RefRecord {
        full_name,
        commit: commit.to_string(),
        committed_at: Timestamp::from_second(found.time().seconds()).ok(),
        subject: subject
            .chars()
            .filter(|c| !c.is_control())
            .take(SUBJECT)
            .collect(),
    })
}
