//! Credentials of chart sources, and keys to verify signatures by: from Secrets (and from URLs
//! that carry a password) to the credentials volume. A source that names a credential is never
//! asked without it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tandem_shared::credentials::{CredentialError, Store, Values};
use tandem_shared::source::CredentialRef;
use tandem_shared::verify::{self, KeysError};
use thiserror::Error;

/// What a Secret is handed over for. One Secret may serve for both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lent {
    /// To open a source.
    Credential(CredentialRef),
    /// To verify signatures by the public keys in it, which are all that is handed over.
    Keys(CredentialRef),
}

impl Lent {
    /// The Secret.
    #[must_use]
    pub fn secret(&self) -> &CredentialRef {
        match self {
            Self::Credential(secret) | Self::Keys(secret) => secret,
        }
    }

    /// Whether it stood in a URL: such a name no Secret can have.
    #[must_use]
    pub fn is_of_url(&self) -> bool {
        self.secret().name.contains(':')
    }
}

/// Why a source's credential isn't to be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// There is no place for it.
    #[error(
        "the source needs a credential, and the reconciler has no credentials volume; start it with --credentials"
    )]
    NoVolume,
    /// There is no such Secret.
    #[error("the Secret {}/{} does not exist; create it, nothing is asked or released without it", .0.namespace, .0.name)]
    Missing(CredentialRef),
    /// There is nothing in it.
    #[error("the Secret {}/{} is empty; put in what opens the source, such as username and password", .0.namespace, .0.name)]
    Empty(CredentialRef),
    /// It holds no keys, or a private one.
    #[error("the Secret {}/{}: {why}", secret.namespace, secret.name)]
    Keys {
        /// Which.
        secret: CredentialRef,
        /// What is wrong with it.
        why: KeysError,
    },
    /// The API didn't give it.
    #[error("can't read the Secret {}/{}: {why}", secret.namespace, secret.name)]
    Unreadable {
        /// Which.
        secret: CredentialRef,
        /// What the API said.
        why: String,
    },
    /// The volume refuses.
    #[error("can't put the credential of the source on the credentials volume: {0}")]
    Volume(String),
}

impl Problem {
    /// Whether the credential may well be what it was: nothing that works is given up.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::Volume(_))
    }
}

/// What is known of one credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is being read.
    Pending {
        /// The id under which it was on the volume when the process started.
        before: Option<String>,
    },
    /// It is on the volume, under this id.
    Ready(String),
    /// It isn't to be had.
    Problem {
        /// Why.
        problem: Problem,
        /// The id under which it was on the volume before.
        before: Option<String>,
    },
}

/// All credentials that HelmReleases name, and where they stand.
#[derive(Default)]
pub struct Credentials {
    store: Option<Store>,
    known: BTreeMap<Lent, Known>,
    before: BTreeMap<Lent, String>,
}

impl Credentials {
    /// Credentials go into `store`; without one they are all refused.
    #[must_use]
    pub fn new(store: Option<Store>) -> Self {
        Self {
            store,
            ..Self::default()
        }
    }

    /// What a predecessor's requests name. It goes on being used until it was read anew: a
    /// start of ours is no reason to ask for less.
    pub fn inherit(&mut self, used: impl IntoIterator<Item = (Lent, String)>) {
        self.before.extend(used);
    }

    /// What is known of `secret`, and whether it has to be read first.
    pub fn ask(&mut self, secret: &Lent) -> (Known, bool) {
        if self.store.is_none() {
            return (
                Known::Problem {
                    problem: Problem::NoVolume,
                    before: None,
                },
                false,
            );
        }
        if let Some(known) = self.known.get(secret) {
            return (known.clone(), false);
        }
        let before = self.before.remove(secret);
        let pending = Known::Pending { before };
        self.known.insert(secret.clone(), pending.clone());
        (pending, true)
    }

    /// What is known of `secret`, without asking for it.
    #[must_use]
    pub fn known(&self, secret: &Lent) -> Known {
        match self.known.get(secret) {
            Some(known) => known.clone(),
            None if self.store.is_none() => Known::Problem {
                problem: Problem::NoVolume,
                before: None,
            },
            None => Known::Pending { before: None },
        }
    }

    /// The id of `secret` for a request, if there is one that may be used.
    #[must_use]
    pub fn id(&self, secret: &Lent) -> Option<&str> {
        match self.known.get(secret)? {
            Known::Ready(id) => Some(id),
            Known::Pending { before } => before.as_deref(),
            Known::Problem { problem, before } if problem.is_passing() => before.as_deref(),
            _ => None,
        }
    }

    /// The ids of all keys that may be used.
    #[must_use]
    pub fn keys(&self) -> BTreeMap<CredentialRef, String> {
        let known = self.known.keys().filter_map(|lent| match lent {
            Lent::Keys(secret) => Some((secret.clone(), self.id(lent)?.to_owned())),
            Lent::Credential(_) => None,
        });
        known.collect()
    }

    /// Takes in what was read, and says whether that changed anything.
    pub fn learn(&mut self, secret: &Lent, read: Result<Values, Problem>) -> bool {
        let before = match self.known.get(secret) {
            Some(Known::Ready(id)) => Some(id.clone()),
            Some(Known::Pending { before } | Known::Problem { before, .. }) => before.clone(),
            _ => None,
        };
        let put = |values: Values| match &self.store {
            Some(store) => store
                .put(secret.secret(), &values)
                .map_err(|error| Problem::Volume(error.to_string())),
            None => Err(Problem::NoVolume),
        };
        let now = match read.and_then(put) {
            Ok(id) => Known::Ready(id),
            Err(problem) => Known::Problem { problem, before },
        };
        self.known.insert(secret.clone(), now.clone()) != Some(now)
    }

    /// All that are known, to be read again.
    #[must_use]
    pub fn all(&self) -> Vec<Lent> {
        self.known.keys().cloned().collect()
    }

    /// Those that aren't to be had.
    #[must_use]
    pub fn doubtful(&self) -> BTreeSet<Lent> {
        let problems = self
            .known
            .iter()
            .filter(|(_, known)| matches!(known, Known::Problem { .. }));
        problems.map(|(secret, _)| secret.clone()).collect()
    }

    /// Forgets credentials that nobody names any more, and removes from the volume those
    /// that neither `used` holds nor a request is about to name.
    ///
    /// # Errors
    /// If the volume refuses.
    pub fn retain(
        &mut self,
        named: &BTreeSet<Lent>,
        used: &BTreeSet<String>,
    ) -> Result<(), CredentialError> {
        self.known.retain(|secret, _| named.contains(secret));
        match &self.store {
            Some(store) => {
                let usable: BTreeSet<&str> =
                    self.known.keys().filter_map(|lent| self.id(lent)).collect();
                store.retain(|id| used.contains(id) || usable.contains(id))
            }
            None => Ok(()),
        }
    }
}

/// Reads a Secret, as far as it is handed over.
///
/// # Errors
/// Says which one, and why not. Its content is in no message.
pub async fn read(client: Client, lent: &Lent) -> Result<Values, Problem> {
    let secret = lent.secret();
    let api: Api<Secret> = Api::namespaced(client, &secret.namespace);
    let unreadable = |why: String| Problem::Unreadable {
        secret: secret.clone(),
        why,
    };
    let found = api
        .get_opt(&secret.name)
        .await
        .map_err(|error| unreadable(error.to_string()))?
        .ok_or_else(|| Problem::Missing(secret.clone()))?;
    let values: Values = found
        .data
        .unwrap_or_default()
        .into_iter()
        .map(|(key, value)| (key, value.0))
        .collect();
    match lent {
        Lent::Credential(_) if values.is_empty() => Err(Problem::Empty(secret.clone())),
        Lent::Credential(_) => Ok(values),
        Lent::Keys(_) => verify::public_keys(values).map_err(|why| Problem::Keys {
            secret: secret.clone(),
            why,
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn secret() -> Lent {
        Lent::Credential(CredentialRef {
            namespace: "a".into(),
            name: "token".into(),
        })
    }

    fn values(password: &str) -> Values {
        Values::from([("password".to_owned(), password.as_bytes().to_vec())])
    }

    #[test]
    fn a_credential_is_read_once_and_a_rotation_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut credentials = Credentials::new(Some(Store::open(folder.path()).unwrap()));
        let pending = Known::Pending { before: None };
        assert_eq!(credentials.ask(&secret()), (pending.clone(), true));
        assert_eq!(credentials.ask(&secret()), (pending, false));
        assert!(credentials.learn(&secret(), Ok(values("x"))));
        assert!(!credentials.learn(&secret(), Ok(values("x"))));
        let first = credentials.id(&secret()).unwrap().to_owned();
        assert!(credentials.learn(&secret(), Ok(values("y"))));
        assert_ne!(credentials.id(&secret()).unwrap(), first);
    }

    #[test]
    fn a_silent_api_takes_nothing_away_and_a_removed_secret_does() {
        let folder = tempfile::tempdir().unwrap();
        let mut credentials = Credentials::new(Some(Store::open(folder.path()).unwrap()));
        credentials.learn(&secret(), Ok(values("x")));
        let id = credentials.id(&secret()).unwrap().to_owned();
        let silent = Problem::Unreadable {
            secret: secret().secret().clone(),
            why: "no answer in time".into(),
        };
        credentials.learn(&secret(), Err(silent));
        assert_eq!(credentials.id(&secret()), Some(id.as_str()));
        credentials.learn(&secret(), Err(Problem::Missing(secret().secret().clone())));
        assert_eq!(credentials.id(&secret()), None);
        credentials
            .retain(&BTreeSet::new(), &BTreeSet::new())
            .unwrap();
        assert!(tandem_shared::credentials::load(folder.path(), &id).is_err());
    }

    #[test]
    fn a_restart_goes_on_with_what_requests_name() {
        let folder = tempfile::tempdir().unwrap();
        let mut credentials = Credentials::new(Some(Store::open(folder.path()).unwrap()));
        credentials.inherit([(secret(), "before".to_owned())]);
        assert!(credentials.ask(&secret()).1);
        assert_eq!(credentials.id(&secret()), Some("before"));
        let silent = Problem::Unreadable {
            secret: secret().secret().clone(),
            why: "no answer in time".into(),
        };
        credentials.learn(&secret(), Err(silent));
        assert_eq!(credentials.id(&secret()), Some("before"));
        credentials.learn(&secret(), Err(Problem::Missing(secret().secret().clone())));
        assert_eq!(credentials.id(&secret()), None);
    }

    #[test]
    fn without_a_volume_everything_is_refused() {
        let mut credentials = Credentials::new(None);
        let (known, read) = credentials.ask(&secret());
        assert_eq!(
            known,
            Known::Problem {
                problem: Problem::NoVolume,
                before: None
            }
        );
        assert!(!read);
    }
}
