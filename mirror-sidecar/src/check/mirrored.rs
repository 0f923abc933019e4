//! A check of a git repository on its mirror: reached, resolved, built, kept small; on a new
//! mirror if the old one is broken.

use std::path::Path;
use std::time::Duration;

use tandem_shared::manifest::Reason;
use tandem_shared::observe::Observed;
use tandem_shared::request::Request;
use tandem_shared::source::redact_url;

use super::resolve::{self, Resolutions};
use super::{Context, Failed, State, build, shorts, submodules};
use crate::address;
use crate::credentials;
use crate::mirror::classify::Meaning;
use crate::mirror::moved;
use crate::mirror::{Mirror, MirrorError, Remote};

/// Brings the results of all wants up to date with the repository, asking it if that is due.
///
/// # Errors
/// Why it can't be checked. What was good stays.
pub(super) fn run(
    context: &Context,
    state: &mut State,
    observed: &Observed<Request>,
    timeout: Duration,
    exchanged: &mut bool,
) -> Result<(), Failed> {
    let (config, request) = (&context.config, &observed.document);
    let mut forbidden: Vec<&Path> = vec![&config.root];
    forbidden.extend(config.credentials.as_deref());
    let mut address =
        address::parse(&request.source.url, &config.schemes, &forbidden).map_err(|error| {
            Failed {
                reason: Reason::InvalidUrl,
                message: error.to_string(),
            }
        })?;
    let mut access = credentials::access(config, request, &address).map_err(|error| Failed {
        reason: error.reason(),
        message: error.to_string(),
    })?;
    let id = request.credential_id.as_deref().unwrap_or_default();
    // Remembered only as long as it leads there.
    let moved = state.git.moved.take();
    let mut moved = moved.filter(|(from, _)| *from == address.url);
    if let Some((_, to)) = &moved {
        address = to.clone();
    }
    loop {
        let provided = context
            .tokens
            .provide(&context.web, id, &mut access, &config.schemes);
        let remote = Remote {
            address: &address,
            access: &access,
            timeout,
        };
        let held = match provided {
            Ok(held) => held,
            // Who wants commits that are here needs no token.
            Err(_) if matches!(build_held(context, state, observed, remote), Ok(true)) => {
                state.git.moved = moved;
                return Ok(());
            }
            Err(error) => {
                return Err(Failed {
                    message: error.to_string(),
                    reason: error.reason,
                });
            }
        };
        let Err(error) = on_some_mirror(context, state, observed, remote, exchanged) else {
            state.git.moved = moved;
            return Ok(());
        };
        if moved.is_none()
            && error.means(Meaning::Redirected)
            && let Some(to) = moved::follow(context.direct(), remote)
        {
            tracing::info!(source = %state.name, to = %redact_url(&to.url), "the repository has moved within its server");
            moved = Some((address.url, to.clone()));
            address = to;
            continue;
        }
        let reason = error.reason();
        if reason == Reason::AuthenticationFailed && access.app.is_some() {
            context.tokens.forget(id);
            // One that was held for a while may have been revoked; a new one hasn't.
            if held {
                continue;
            }
        }
        return Err(Failed {
            reason,
            message: shown(&error, state.git.broken, remote),
        });
    }
}

fn shown(error: &MirrorError, broken: bool, remote: Remote<'_>) -> String {
    let url = redact_url(&remote.address.url);
    let anew = if broken && !error.is_corrupt() {
        "the local mirror is broken and couldn't be made anew: "
    } else {
        ""
    };
    remote.redact(&format!("{url}: {anew}{error}"))
}

/// Resolves and builds on the mirror; on one made anew if it is broken.
/// # Errors
/// What kept the remote from being asked, or what is wrong with the mirror.
fn on_some_mirror(
    context: &Context,
    state: &mut State,
    observed: &Observed<Request>,
    remote: Remote<'_>,
    exchanged: &mut bool,
) -> Result<(), MirrorError> {
    if !state.git.broken {
        match on_mirror(context, state, observed, remote, exchanged, false) {
            Err(error) if error.is_corrupt() => {
                tracing::warn!(source = %state.name, %error, "the local mirror is broken and is made anew");
                state.git.broken = true;
            }
            other => return other,
        }
    }
    *exchanged = true;
    match on_mirror(context, state, observed, remote, exchanged, true) {
        Ok(()) => {
            state.git.broken = false;
            Ok(())
        }
        // An empty mirror can't be broken: what is, lies on the other side.
        Err(error) if error.is_corrupt() => {
            state.git.broken = false;
            build_held(context, state, observed, remote)?;
            let message = format!("the remote's own repository seems to be broken: {error}");
            Err(MirrorError::Git {
                reason: Reason::Remote,
                meaning: Meaning::Failure,
                message,
            })
        }
        Err(error) => Err(error),
    }
}

/// Brings what is held up to date with the request, without asking anybody. Says whether
/// nobody has to be asked, either: all that is wanted are commits that are held.
fn build_held(
    context: &Context,
    state: &mut State,
    observed: &Observed<Request>,
    remote: Remote<'_>,
) -> Result<bool, MirrorError> {
    let mirror = Mirror::open(
        &context.git,
        &context.config.volume.served,
        &state.name,
        remote,
    )?;
    let (found, whole) = resolve::at_hand(state, &observed.document, &mirror)?;
    build::build(context, state, observed, &mirror, &found)?;
    Ok(whole)
}

fn on_mirror(
    context: &Context,
    state: &mut State,
    observed: &Observed<Request>,
    remote: Remote<'_>,
    exchanged: &mut bool,
    anew: bool,
) -> Result<(), MirrorError> {
    let served = &context.config.volume.served;
    let mut mirror = if anew {
        Mirror::begin_anew(&context.git, served, &state.name, remote)?
    } else {
        Mirror::open(&context.git, served, &state.name, remote)?
    };
    let Resolutions {
        found,
        failure,
        asked,
        shorts,
    } = resolve::resolve(context, state, &observed.document, &mirror, exchanged)?;
    if anew {
        if let Some(failure) = failure {
            // The broken one stays until there is a better one.
            return Err(failure);
        }
        mirror = mirror.take_place(served, &state.name)?;
    }
    state.sit_down(context);
    build::build(context, state, observed, &mirror, &found)?;
    if !shorts.is_empty() {
        state.publish(context, false);
        let mut found = found;
        found.extend(shorts::look(state, &mirror, shorts)?);
        build::build(context, state, observed, &mirror, &found)?;
    }
    let mut kept = asked;
    kept.extend(submodules::kept(
        &observed.document,
        &mut state.git.submodules,
    ));
    if failure.is_none() && state.git.held != kept {
        mirror.keep_only(&kept)?;
        state.git.held = kept;
    }
    if std::mem::take(&mut state.git.fetched) {
        match mirror.repack_if_due() {
            Ok(true) => tracing::info!(source = %state.name, "repacked the mirror"),
            Ok(false) => {}
            Err(error) if error.is_corrupt() => return Err(error),
            // Everything is served; the mirror is just larger than it should be.
            Err(error) => {
                tracing::warn!(source = %state.name, %error, "can't repack the mirror; tried again after the next fetch")
            }
        }
    }
    failure.map_or(Ok(()), Err)
}
