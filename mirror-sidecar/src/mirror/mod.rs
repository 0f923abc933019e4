//! One bare repository: what the sidecar holds of one source.
//!
//! The git program brings objects in, under the mirror's lock; git2 reads
//! them. What is held of an asked name lies under [`refs::held_as`]; that ref
//! is written by git after it has checked that everything below is there, so
//! a commit counts as held only through it.

pub mod classify;
mod error;
mod fetch;
pub mod gitmodules;
mod housekeeping;
mod listing;
mod lsrefs;
pub mod moved;
pub mod refs;
mod short;
pub mod tags;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{ErrorCode, Oid, Repository, RepositoryInitOptions};
use tandem_shared::child::{End, Outcome};
use tandem_shared::layout::Served;
use tandem_shared::lock::{self, Guard};
use tandem_shared::publish;
use tandem_shared::source::{SourceName, redact_url};

pub use error::MirrorError;
pub use fetch::Item;
pub use housekeeping::sweep;
pub use listing::{Direct, Manner};
use refs::held_as;

use crate::address::Address;
use crate::credentials::Access;
use crate::git::{Call, Git};
use crate::metrics::GitCommand;

/// How long another process's work on the same mirror is waited for: a killed
/// predecessor's git child lives at most this much longer than its deadline.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// A mirror that this process alone may change.
pub struct Mirror<'a> {
    git: &'a Git,
    remote: Remote<'a>,
    lock: Guard,
    path: PathBuf,
    repository: Repository,
}

/// The other side.
#[derive(Clone, Copy)]
pub struct Remote<'a> {
    /// Where it is.
    pub address: &'a Address,
    /// What may be used to reach it.
    pub access: &'a Access,
    /// Wall-clock time of one exchange.
    pub timeout: Duration,
}

impl Remote<'_> {
    /// `text` without what is secret about this remote: its credential, and
    /// what stands in its address behind the path.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let shown = redact_url(&self.address.url);
        self.access.redact(&text.replace(&self.address.url, &shown))
    }
}

impl<'a> Mirror<'a> {
    /// Opens the mirror of `source`, making it if there is none.
    ///
    /// # Errors
    /// If the lock is held, the volume refuses, or what is there is broken.
    pub fn open(
        git: &'a Git,
        served: &Served,
        source: &SourceName,
        remote: Remote<'a>,
    ) -> Result<Self, MirrorError> {
        let lock = lock::acquire_within(&served.mirror_lock(source), LOCK_WAIT)?;
        let path = served.mirror(source);
        let repository = if path.exists() {
            open(&path)?
        } else {
            init(&path)?
        };
        Ok(Self {
            git,
            remote,
            lock,
            path,
            repository,
        })
    }

    /// Makes the mirror of `source` anew, beside the broken one. It takes that
    /// one's place with [`Mirror::take_place`], once it holds what is wanted.
    ///
    /// # Errors
    /// If the lock is held or the volume refuses.
    pub fn begin_anew(
        git: &'a Git,
        served: &Served,
        source: &SourceName,
        remote: Remote<'a>,
    ) -> Result<Self, MirrorError> {
        let lock = lock::acquire_within(&served.mirror_lock(source), LOCK_WAIT)?;
        let path = served.mirror_aside(source);
        publish::remove_folder(&path)?;
        let repository = init(&path)?;
        Ok(Self {
            git,
            remote,
            lock,
            path,
            repository,
        })
    }

    /// Puts a mirror that was made anew in the place of the old one.
    ///
    /// # Errors
    /// If the volume refuses.
    pub fn take_place(mut self, served: &Served, source: &SourceName) -> Result<Self, MirrorError> {
        let path = served.mirror(source);
        publish::swap_folder(&self.path, &path)?;
        self.repository = open(&path)?;
        self.path = path;
        Ok(self)
    }

    /// The other side.
    #[must_use]
    pub fn remote(&self) -> Remote<'a> {
        self.remote
    }

    /// What git2 reads.
    #[must_use]
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The commit that is held of an asked name, if it and its tree are there.
    ///
    /// # Errors
    /// If the mirror is broken.
    pub fn held(&self, asked: &str) -> Result<Option<Oid>, MirrorError> {
        self.commit_at(&held_as(asked))
    }

    /// The object that is held of an asked name: a commit, or an annotated tag.
    ///
    /// # Errors
    /// If the mirror is broken.
    pub fn held_object(&self, asked: &str) -> Result<Option<Oid>, MirrorError> {
        Ok(self
            .held(asked)?
            .and_then(|_| self.repository.refname_to_id(&held_as(asked)).ok()))
    }

    fn commit_at(&self, name: &str) -> Result<Option<Oid>, MirrorError> {
        let reference = match self.repository.find_reference(name) {
            Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
            other => other?,
        };
        match reference.peel_to_commit() {
            Ok(commit) => {
                commit.tree()?;
                Ok(Some(commit.id()))
            }
            // A tag of something that is no commit.
            Err(error) if matches!(error.code(), ErrorCode::Peel | ErrorCode::InvalidSpec) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Lets an asked name hold an object that another name holds already.
    ///
    /// # Errors
    /// If the mirror refuses.
    pub fn hold(&self, asked: &str, object: Oid) -> Result<(), MirrorError> {
        self.repository
            .reference(&held_as(asked), object, true, "")?;
        Ok(())
    }

    /// All objects that are held of any asked name.
    ///
    /// # Errors
    /// If the mirror is broken.
    pub fn all_held(&self) -> Result<BTreeSet<Oid>, MirrorError> {
        let references = self
            .repository
            .references_glob(&format!("{}*", refs::NAMESPACE))?;
        let mut held = BTreeSet::new();
        for reference in references {
            held.extend(reference?.target());
        }
        Ok(held)
    }

    fn call(&self, command: GitCommand) -> Call<'_> {
        Call {
            command,
            repository: None,
            remote: Some((self.remote.address, self.remote.access)),
            lock: Some(&self.lock),
            deadline: self.remote.timeout,
        }
    }

    /// Runs git on this mirror against its remote; anything but success is an error.
    fn run(
        &self,
        command: GitCommand,
        arguments: &[&str],
        input: &[u8],
    ) -> Result<Outcome, MirrorError> {
        self.run_in(&self.path, self.remote, command, arguments, input)
    }

    fn run_in(
        &self,
        path: &Path,
        remote: Remote<'_>,
        command: GitCommand,
        arguments: &[&str],
        input: &[u8],
    ) -> Result<Outcome, MirrorError> {
        let call = Call {
            repository: Some(path),
            // Who only reads must not be able to fetch what isn't there.
            remote: Some((remote.address, remote.access)).filter(|_| command.is_exchange()),
            ..self.call(command)
        };
        let outcome = self.git.run(&call, arguments, input)?;
        if outcome.success() {
            return Ok(outcome);
        }
        if matches!(outcome.end, End::TimedOut | End::Cancelled)
            || matches!(outcome.end, End::Exited(code) if code > 128)
        {
            // Killed children leave locks that would wedge the next one.
            sweep(path)?;
        }
        Err(failure(remote, &outcome))
    }

    fn failure(&self, outcome: &Outcome) -> MirrorError {
        failure(self.remote, outcome)
    }
}

fn failure(remote: Remote<'_>, outcome: &Outcome) -> MirrorError {
    let (reason, meaning) = classify::classify(outcome);
    let message = remote.redact(&classify::describe(outcome, &reason));
    MirrorError::Git {
        reason,
        meaning,
        message,
    }
}

fn open(path: &Path) -> Result<Repository, MirrorError> {
    // `open_bare` doesn't ask whose the folder is, and reads no other configuration.
    Repository::open_bare(path).map_err(MirrorError::from)
}

fn init(path: &Path) -> Result<Repository, MirrorError> {
    let mut options = RepositoryInitOptions::new();
    options
        .bare(true)
        .mkpath(true)
        .external_template(false)
        .initial_head("main");
    let repository = Repository::init_opts(path, &options).map_err(|error| MirrorError::Io {
        path: path.to_owned(),
        source: std::io::Error::other(error.message().to_owned()),
    })?;
    let mut config = repository.config()?;
    for (key, value) in [("gc.auto", "0"), ("core.hooksPath", "/dev/null")] {
        config.set_str(key, value)?;
    }
    Ok(repository)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_of_an_address_is_told() {
        let schemes = [crate::address::Scheme::Https].into();
        let address =
            crate::address::parse("https://me:pass-word@h/r.git?token=t0ken", &schemes, &[])
                .unwrap();
        let access = Access {
            basic: address.userinfo.clone(),
            ..Access::default()
        };
        let remote = Remote {
            address: &address,
            access: &access,
            timeout: Duration::ZERO,
        };
        let said = format!("unable to access '{}/': refused pass-word", address.url);
        assert_eq!(
            remote.redact(&said),
            "unable to access 'https://h/r.git/': refused ***"
        );
    }
}
