//! Whether what a want is about is signed as it asks, looked up once per
//! object and set of keys, however many wants ask.

use std::collections::BTreeMap;

use git2::{ErrorCode, ObjectType, Oid};
use tandem_shared::credentials::{self, CredentialError};
use tandem_shared::manifest::{Good, Reason, WantResult};
use tandem_shared::request::Want;
use tandem_shared::verify::{Verified, Verify};

use super::build::{MESSAGE, subject};
use super::group::Trouble;
use super::resolve::asked_name;
use super::{Context, State};
use crate::mirror::{Mirror, MirrorError};
use crate::verify::{self, Keys, OBJECT, SignatureError, TagObject};

/// At what a want was dealt with. What isn't verified depends on its commit alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settled {
    commit: Oid,
    proof: Option<Proof>,
}

/// What the answer about a signature depends on besides the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Proof {
    /// The commit, or the annotated tag.
    object: Option<Oid>,
    /// What the ref is, since a tag has to bear its name.
    full_name: Option<String>,
    keys: Option<String>,
}

impl Settled {
    /// A want as it stands now.
    pub(super) fn now(
        mirror: &Mirror<'_>,
        want: &Want,
        commit: Oid,
        full_name: Option<&str>,
    ) -> Result<Self, MirrorError> {
        let proof = match &want.spec.verify {
            None => None,
            Some(_) => Some(Proof {
                object: mirror.held_object(&asked_name(want))?,
                full_name: full_name.map(ToOwned::to_owned),
                keys: want.keys_id.clone(),
            }),
        };
        Ok(Self { commit, proof })
    }
}

/// What the ref of a want is.
pub(super) fn full_name(state: &State, want: &Want) -> Option<String> {
    let refs = &state.serving.manifest().refs;
    refs.get(&asked_name(want))
        .map(|record| record.full_name.clone())
}

/// Takes away what was served of a want that wasn't verified then: before it asked for that, or
/// by a predecessor that couldn't.
pub(super) fn drop_unverified(result: &mut WantResult, want: &Want) {
    let Some(verify) = &want.spec.verify else {
        return;
    };
    let is_verified = |good: &Good| {
        let by = good.verified_by.as_ref();
        by.is_some_and(|by| by.satisfies(&verify.mode))
    };
    if result.good.as_ref().is_some_and(|good| !is_verified(good)) {
        result.good = None;
    }
}

/// Why something isn't verified.
#[derive(Clone)]
struct Flaw {
    reason: Reason,
    /// Reads as a sentence of its own.
    message: String,
    /// Whether only another commit, tag or set of keys mends it.
    lasting: bool,
}

/// What one look at a source finds out about signatures.
pub(super) struct Signatures<'a> {
    context: &'a Context,
    mirror: &'a Mirror<'a>,
    keys: BTreeMap<String, Result<Keys, Flaw>>,
    /// Who signed which object, by the id of the keys.
    signers: BTreeMap<(Oid, String), Result<String, SignatureError>>,
}

impl<'a> Signatures<'a> {
    pub(super) fn new(context: &'a Context, mirror: &'a Mirror<'a>) -> Self {
        Self {
            context,
            mirror,
            keys: BTreeMap::new(),
            signers: BTreeMap::new(),
        }
    }

    /// Who signed what `want` is about; nothing if it doesn't ask.
    ///
    /// # Errors
    /// If nobody did whom it trusts.
    pub(super) fn look(
        &mut self,
        want: &Want,
        commit: Oid,
        full_name: Option<&str>,
    ) -> Result<Option<Verified>, Trouble> {
        let Some(verify) = &want.spec.verify else {
            return Ok(None);
        };
        let found = self.verified(want, verify, commit, full_name);
        found.map(Some).map_err(|flaw| {
            let message = match flaw.reason {
                Reason::MirrorCorrupt => flaw.message,
                _ => format!("{}: {}", subject(want, commit), flaw.message),
            };
            Trouble {
                reason: flaw.reason,
                message: message
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(MESSAGE)
                    .collect(),
                commit: Some(commit),
                lasting: flaw.lasting,
            }
        })
    }

    fn verified(
        &mut self,
        want: &Want,
        verify: &Verify,
        commit: Oid,
        full_name: Option<&str>,
    ) -> Result<Verified, Flaw> {
        let mode = &verify.mode;
        if !mode.tag() && !mode.commit() {
            let message = format!(
                "{:?} is no mode of verify that this version knows, only HEAD, Tag and TagAndHEAD",
                mode.as_str()
            );
            return Err(Flaw {
                reason: Reason::Unsupported,
                message,
                lasting: true,
            });
        }
        let secret = format!("the Secret {}/{}", verify.keys.namespace, verify.keys.name);
        let Some(keys) = &want.keys_id else {
            return Err(missing(format!(
                "the keys of {secret} haven't been handed over yet; nothing is served unverified instead"
            )));
        };
        let mut found = Verified::default();
        if mode.tag() {
            found.tag = Some(self.tag(want, full_name, keys, &secret)?);
        }
        if mode.commit() {
            let advice = "sign it (git commit -S), or push a signed one on top of it";
            let signer = self.signer(commit, ObjectType::Commit, keys, &secret)?;
            found.commit =
                Some(signer.map_err(|error| flaw("the commit", &error, &secret, advice))?);
        }
        Ok(found)
    }

    fn tag(
        &mut self,
        want: &Want,
        full_name: Option<&str>,
        keys: &str,
        secret: &str,
    ) -> Result<String, Flaw> {
        let asked = asked_name(want);
        let object = self
            .mirror
            .held_object(&asked)
            .map_err(|error| broken(&error))?;
        let repository = self.mirror.repository();
        let is_tag = object.is_some_and(|object| repository.find_tag(object).is_ok());
        let name = full_name.and_then(|name| name.strip_prefix("refs/tags/"));
        let Some(name) = name else {
            return Err(unverified(format!(
                "verify asks for a signed tag, and {asked:?} is none; name a tag as the ref, or take the mode HEAD"
            )));
        };
        let Some(object) = object.filter(|_| is_tag) else {
            return Err(unverified(format!(
                "the tag {name} is a lightweight one, which can't be signed; make it anew with git tag -s"
            )));
        };
        let what = format!("the tag {name}");
        let advice = "make it anew with git tag -s, and push it";
        let signer = self.signer(object, ObjectType::Tag, keys, secret)?;
        let signer = signer.map_err(|error| flaw(&what, &error, secret, advice))?;
        // Else whoever may push could give out an old release as a new one.
        let own = repository.find_tag(object).ok();
        let own = own
            .as_ref()
            .map(|tag| String::from_utf8_lossy(tag.name_bytes()));
        match own {
            Some(own) if own != name => Err(unverified(format!(
                "the tag {name} was signed as {own:?}, so its signature says nothing about {name}; {advice}"
            ))),
            _ => Ok(signer),
        }
    }

    /// Who signed an object.
    fn signer(
        &mut self,
        object: Oid,
        kind: ObjectType,
        keys: &str,
        secret: &str,
    ) -> Result<Result<String, SignatureError>, Flaw> {
        let known = (object, keys.to_owned());
        if let Some(signer) = self.signers.get(&known) {
            return Ok(signer.clone());
        }
        let set = self
            .keys
            .entry(keys.to_owned())
            .or_insert_with(|| read(self.context, keys, secret));
        let set = set.as_ref().map_err(Flaw::clone)?;
        let signer = match signed(self.mirror, object, kind)? {
            Ok((payload, signature)) => verify::verify(&payload, &signature, set),
            Err(error) => Err(error),
        };
        self.signers.insert(known, signer.clone());
        Ok(signer)
    }
}

type Signed = Result<(Vec<u8>, Vec<u8>), SignatureError>;

/// What of an object is signed, and the signature.
fn signed(mirror: &Mirror<'_>, object: Oid, kind: ObjectType) -> Result<Signed, Flaw> {
    let repository = mirror.repository();
    let read = || -> Result<Signed, git2::Error> {
        let objects = repository.odb()?;
        if objects.read_header(object)?.0 > OBJECT {
            let why = format!("it is in an object of more than {} KiB", OBJECT / 1024);
            return Ok(Err(SignatureError::Unreadable(why)));
        }
        if kind == ObjectType::Tag {
            let raw = objects.read(object)?;
            let tag = TagObject::read(raw.data());
            return Ok(Ok((tag.payload.to_vec(), tag.signature.to_vec())));
        }
        match repository.extract_signature(&object, None) {
            Ok((signature, payload)) => Ok(Ok((payload.to_vec(), signature.to_vec()))),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(Err(SignatureError::None)),
            Err(error) => Err(error),
        }
    };
    read().map_err(|error| broken(&MirrorError::from(error)))
}

/// The keys that lie under an id on the credentials volume.
fn read(context: &Context, id: &str, secret: &str) -> Result<Keys, Flaw> {
    let Some(root) = &context.config.credentials else {
        return Err(missing(format!(
            "the request names the keys {id}, and this process was started without --credentials"
        )));
    };
    let values = credentials::load(root, id).map_err(|error| match error {
        CredentialError::Missing(_) => missing(error.to_string()),
        error => Flaw {
            reason: Reason::Volume,
            message: error.to_string(),
            lasting: false,
        },
    })?;
    Keys::read(values).map_err(|error| unverified(format!("{secret}: {error}")))
}

/// What is wrong with a signature, and what to do.
fn flaw(what: &str, error: &SignatureError, secret: &str, advice: &str) -> Flaw {
    let advice = match error {
        SignatureError::Unknown(_) => {
            format!("put that key's public part into {secret} if you trust it, else {advice}")
        }
        SignatureError::Expired { .. } => {
            format!("{advice}; or put the key into {secret} as it is now, if it was renewed")
        }
        SignatureError::None | SignatureError::Foreign => {
            format!("{advice}, by a key whose public part is in {secret}")
        }
        _ => format!("{advice}, by another key of {secret} if need be"),
    };
    unverified(format!("{what} {error}; {advice}"))
}

fn unverified(message: String) -> Flaw {
    Flaw {
        reason: Reason::Unverified,
        message,
        lasting: true,
    }
}

fn missing(message: String) -> Flaw {
    Flaw {
        reason: Reason::CredentialMissing,
        message,
        lasting: false,
    }
}

fn broken(error: &MirrorError) -> Flaw {
    Flaw {
        reason: Reason::MirrorCorrupt,
        message: error.to_string(),
        lasting: false,
    }
}
