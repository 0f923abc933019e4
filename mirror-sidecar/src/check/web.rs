//! A check of a file behind a URL.
//!
//! It is got when the remote is to be asked, or when what is wanted isn't
//! there. A server that tells that nothing changed costs nothing more.

use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use tandem_shared::artifact::{Limits, Packer};
use tandem_shared::clock;
use tandem_shared::manifest::{Problem, Reason};
use tandem_shared::observe::Observed;
use tandem_shared::request::{Request, Want, WantKind};
use tandem_shared::source::redact_url;

use super::build::{is_there, rejected};
use super::origin::{self, Origin};
use super::{Context, FULL, Failed, State};
use crate::credentials;
use crate::metrics::Built;
use crate::snapshot::SnapshotError;
use crate::web::{self, Answer, Asked, Head, Version, WebError};

/// What was got last.
#[derive(Debug)]
pub(super) struct Got {
    version: Version,
    digest: String,
}

/// Gets the file if that is due, and brings the results of all wants up to date.
///
/// # Errors
/// Why the source can't be checked. What was good stays.
pub(super) fn run(
    context: &Context,
    state: &mut State,
    observed: &Observed<Request>,
    timeout: Duration,
    exchanged: &mut bool,
) -> Result<(), Failed> {
    let (config, request) = (&context.config, &observed.document);
    let failed = |reason, message| Failed { reason, message };
    let address = web::parse(&request.source.url, &config.schemes)
        .map_err(|error| failed(error.reason(), error.to_string()))?;
    let access = credentials::access(config, request, &address)
        .map_err(|error| failed(error.reason(), error.to_string()))?;
    let shown = redact_url(&address.url);

    let mut files = Vec::new();
    for want in &request.wants {
        let results = &mut state.serving.edit().results;
        let result = results.entry(want.key.clone()).or_default();
        result.asked = Some(want.spec.clone());
        match refusal(want) {
            None => files.push(want),
            Some((reason, message)) => {
                context.metrics.built(Built::Failed);
                result.problem = Some(Problem {
                    since: match &result.problem {
                        Some(before) if before.reason == reason => before.since,
                        _ => clock::now(),
                    },
                    reason,
                    message,
                    commit: None,
                });
            }
        }
    }
    let look_into_rejections = state.rejections.as_ref() != Some(&observed.digest);
    let bad = look_into_rejections && rejected(context, state, &files);
    let there = |want: &&Want, digest: Option<&str>| {
        let result = state.serving.manifest().results.get(&want.key);
        let good = result.and_then(|result| result.good.as_ref());
        good.is_some_and(|good| {
            let same = digest.is_none_or(|digest| good.inputs == inputs(digest, want));
            !bad && same && is_there(context, good)
        })
    };
    if files.is_empty() || !*exchanged && files.iter().all(|want| there(want, None)) {
        *exchanged = false;
        state.rejections = Some(observed.digest.clone());
        return Ok(());
    }
    // A server that says "unchanged" speaks of what was got last.
    let all = |got: &&Got| files.iter().all(|want| there(want, Some(&got.digest)));
    let known = state.file.as_ref().filter(all);
    let known = known.map(|got| got.version.clone());
    *exchanged = true;
    if known.is_none() && context.over_budget() {
        return Err(failed(Reason::Volume, FULL.to_owned()));
    }
    state.publish(context, true);
    let limit = Limits::FILE.bytes.min(config.limits.bytes);
    let asked = Asked {
        held: known.as_ref(),
        ..Asked::plain(&address.url, &access, &config.schemes, timeout, limit)
    };
    let begun = Instant::now();
    let mut content = Vec::new();
    let answer = context.web.get(asked, &mut content);
    let answer = answer.and_then(|answer| match &answer {
        Answer::New(head) => head.as_it_is().map(|()| answer),
        Answer::Unchanged => Ok(answer),
    });
    context
        .metrics
        .got("get", outcome(&answer), begun.elapsed());
    let answer = answer.map_err(|error| {
        let advice = match &error {
            WebError::Unauthorized(_) | WebError::Status(403) => {
                ", written as https://user:password@host/…"
            }
            _ => "",
        };
        let message = access.redact(&format!("{shown}: {error}{advice}"));
        failed(error.reason(), message)
    })?;
    state.serving.edit().checked_at = Some(clock::now());
    match answer {
        Answer::Unchanged => {
            for _ in &files {
                context.metrics.built(Built::Unchanged);
            }
        }
        Answer::New(Head { version, .. }) => {
            state.sit_down(context);
            let Ok(text) = String::from_utf8(content) else {
                let why =
                    "the file isn't text in UTF-8, so it can't be YAML; see what is behind the URL";
                return Err(failed(Reason::InvalidFile, format!("{shown}: {why}")));
            };
            let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(text.as_bytes()));
            for want in &files {
                put(context, state, want, &text, inputs(&digest, want), bad).map_err(|error| {
                    let reason = error.reason();
                    failed(reason, format!("{shown}: {error}"))
                })?;
            }
            state.file = version.map(|version| Got { version, digest });
        }
    }
    state.rejections = Some(observed.digest.clone());
    Ok(())
}

/// Why a want can't be had from any URL.
fn refusal(want: &Want) -> Option<(Reason, String)> {
    match &want.spec.kind {
        WantKind::File => {
            let sound = tandem_shared::artifact::is_sound_path(name(want));
            (!sound).then(|| {
                let message = "its path is no name for a file; write values.yaml".to_owned();
                (Reason::InvalidPath, message)
            })
        }
        kind => {
            let message = format!("a URL gives one file, and no {kind:?}; ask for kind file");
            Some((Reason::Unsupported, message))
        }
    }
}

/// What the file is called in its artifact.
fn name(want: &Want) -> &str {
    let path = &want.spec.path;
    path.rsplit('/').next().unwrap_or(path)
}

/// Everything that goes into the artifact of a want.
fn inputs(digest: &str, want: &Want) -> String {
    format!("{digest} {}", name(want))
}

fn outcome(answer: &Result<Answer, WebError>) -> &'static str {
    match answer {
        Ok(Answer::New(_)) => "success",
        Ok(Answer::Unchanged) => "unchanged",
        Err(error) if error.reason() == Reason::Timeout => "timeout",
        Err(_) => "failure",
    }
}

/// Makes the artifact of a want, unless it is there already.
fn put(
    context: &Context,
    state: &mut State,
    want: &Want,
    text: &str,
    inputs: String,
    rewrite: bool,
) -> Result<(), SnapshotError> {
    let results = &state.serving.manifest().results;
    let prior = results
        .get(&want.key)
        .and_then(|result| result.good.clone());
    let same = prior
        .as_ref()
        .is_some_and(|prior| prior.inputs == inputs && !rewrite && is_there(context, prior));
    let built = if same {
        Built::Unchanged
    } else {
        let mut packer = Packer::new(Limits::FILE);
        packer.file(name(want), text.as_bytes().to_vec())?;
        let origin = Origin {
            inputs,
            ..Origin::default()
        };
        let before = prior.as_ref();
        let (good, built) = origin::store(context, &state.name, packer, origin, before, rewrite)?;
        if built == Built::Written {
            tracing::info!(source = %state.name, want = %want.key, digest = %good.artifact, "built an artifact");
        }
        let result = state.serving.edit().results.entry(want.key.clone());
        result.or_default().good = Some(good);
        built
    };
    if let Some(result) = state.serving.edit().results.get_mut(&want.key) {
        result.problem = None;
    }
    context.metrics.built(built);
    Ok(())
}

#[cfg(test)]
mod tests;
