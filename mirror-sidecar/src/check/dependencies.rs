//! What the remote dependencies of a chart stand for, and their files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use tandem_shared::manifest::Good;
use tandem_shared::publish;
use tandem_shared::request::{ResolvedDependency, Want};
use tandem_shared::source::redact_url;

use super::state::Look;
use super::{Context, FULL, State};
use crate::archive::{self, ArchiveError};
use crate::dependencies::{Answer, Wanted};
use crate::snapshot::remote::{self, Remote};
use crate::snapshot::{Plan, SnapshotError};

/// How often it is looked whether there is room again.
const FULL_AGAIN: Duration = Duration::from_secs(30);

/// When a chart is looked at again of which a downloaded archive was lost.
const ARCHIVE_AGAIN: Duration = Duration::from_secs(5);

/// A want whose dependencies aren't all here.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The chart.
    identity: String,
    /// Since when they are asked for.
    since: Instant,
}

/// Looks for the dependencies of `plan`, the chart `identity`: as they were resolved for it
/// before, or anew. None while some are on their way.
///
/// # Errors
/// Says which can't be had, and why.
pub(super) fn resolve(
    context: &Context,
    state: &mut State,
    want: &Want,
    plan: &Plan,
    identity: &str,
    prior: Option<&Good>,
) -> Result<Option<Vec<ResolvedDependency>>, SnapshotError> {
    if plan.remote.is_empty() {
        state.git.waiting.remove(&want.key);
        return Ok(Some(Vec::new()));
    }
    let held = prior.and_then(Good::resolution);
    let known = held.iter().chain(&want.prefer.dependencies);
    let pins = remote::pins(&plan.remote, identity, known);
    let same = state
        .git
        .waiting
        .get(&want.key)
        .filter(|waiting| waiting.identity == identity);
    // What one want of this check has begun to download, another shares.
    let since = same.map_or(state.look.begun, |waiting| waiting.since);
    let waiting = Waiting {
        identity: identity.to_owned(),
        since,
    };
    state.git.waiting.insert(want.key.clone(), waiting);
    let mut found = Vec::new();
    let mut failed = None;
    let mut coming = false;
    // All are asked for before the first failure is told, so that they come together.
    for (at, one) in plan.remote.iter().enumerate() {
        let pin = pins.as_ref().and_then(|pins| pins.get(at));
        match ask(context, state, one, pin, since) {
            Ok(Some(resolved)) => found.push(resolved),
            Ok(None) => coming = true,
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        _ if coming => {
            state.look.coming = true;
            Ok(None)
        }
        Some(error) => Err(error),
        None => {
            state.git.waiting.remove(&want.key);
            Ok(Some(found))
        }
    }
}

fn ask(
    context: &Context,
    state: &mut State,
    one: &Remote,
    pin: Option<&ResolvedDependency>,
    since: Instant,
) -> Result<Option<ResolvedDependency>, SnapshotError> {
    let repository = redact_url(&one.repository);
    let version = pin.map_or_else(|| one.wanted(), |pin| &pin.version);
    // What a lock names, or the chart itself, may have come for another chart of the source.
    let known = match pin {
        Some(pin) => pin.digest.clone(),
        None => context
            .inventory
            .archive(&state.name, &one.name, version, &repository)
            .filter(|digest| context.config.volume.served.archive(digest).is_file()),
    };
    let fail = |why: String, passing| SnapshotError::Download {
        name: one.name.clone(),
        chart: one.chart.clone(),
        why: format!("{:?} from {repository}: {why}", one.range),
        passing,
    };
    let wanted = Wanted {
        name: &one.name,
        version,
        repository: &one.repository,
        pinned: known.as_deref(),
        source: &state.name,
        since,
        anew: state.look.anew,
        timeout: state.look.timeout,
        interval: state.look.interval,
        full: context.over_budget(),
    };
    let (failure, again) = match context.dependencies.ask(&wanted) {
        Answer::Here(resolved) => {
            context.inventory.hold(&state.name).archive(&resolved);
            return Ok(Some(resolved));
        }
        Answer::Coming => return Ok(None),
        Answer::Never(why) => return Err(fail(why, false)),
        Answer::Full => (FULL.to_owned(), Some(Instant::now() + FULL_AGAIN)),
        Answer::Failed(why, again) => (why.to_string(), again),
    };
    state.look.recheck = state.look.recheck.into_iter().chain(again).min();
    Err(fail(failure, true))
}

/// The files of the downloaded `resolved` of `plan`, by their paths in the artifact.
///
/// # Errors
/// If an archive isn't what it should be; it is then removed, so that it is downloaded anew.
pub(super) fn files(
    context: &Context,
    look: &mut Look,
    plan: &Plan,
    resolved: &[ResolvedDependency],
) -> Result<BTreeMap<String, Vec<u8>>, SnapshotError> {
    let folders = remote::folders(&plan.remote, resolved, &plan.files);
    let mut files = BTreeMap::new();
    // All of them are in memory together.
    let limits = context.config.limits;
    let mut left = limits;
    let placed = folders.iter().zip(plan.remote.iter().zip(resolved));
    for (folder, (asked, one)) in placed {
        let fail = |why: String| SnapshotError::Download {
            name: asked.name.clone(),
            chart: asked.chart.clone(),
            why: format!("version {} from {}: {why}", one.version, one.repository),
            passing: true,
        };
        let path = context
            .config
            .volume
            .served
            .archive(one.digest.as_deref().unwrap_or_default());
        let open = || -> std::io::Result<File> {
            let mut file = File::open(&path)?;
            let mut hasher = Sha256::new();
            let mut block = vec![0; 64 * 1024];
            loop {
                let read = file.read(&mut block)?;
                if read == 0 {
                    break;
                }
                hasher.update(&block[..read]);
            }
            file.rewind()?;
            let digest = data_encoding::HEXLOWER.encode(&hasher.finalize());
            if Some(&digest) == one.digest.as_ref() {
                Ok(file)
            } else {
                Err(std::io::Error::other("it isn't what its name says"))
            }
        };
        let file = open().map_err(|error| {
            let again = Instant::now() + ARCHIVE_AGAIN;
            look.recheck = look.recheck.into_iter().chain([again]).min();
            let removed = publish::remove(&path);
            tracing::warn!(path = %path.display(), %error, ?removed, "an archive can't be used, and is downloaded anew");
            fail(error.to_string())
        })?;
        let unpacked =
            archive::unpack(BufReader::new(file), left).map_err(|error| match error {
                ArchiveError::TooLarge(_) => {
                    let what = format!("{} with its dependencies", asked.chart);
                    SnapshotError::too_large(&what, limits)
                }
                error => fail(error.to_string()),
            })?;
        let called = &unpacked.chart.name.name;
        if *called != asked.name {
            return Err(fail(format!(
                "the chart in its archive is called {called:?}"
            )));
        }
        for (path, content) in unpacked.files {
            left.bytes = left.bytes.saturating_sub(content.len() as u64);
            left.entries = left.entries.saturating_sub(1);
            files.insert(format!("{folder}{path}"), content);
        }
    }
    Ok(files)
}
