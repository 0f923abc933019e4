//! Signatures by OpenPGP keys, as `gpg --detach-sign` makes them.
//!
//! The library says whether a key made a signature. Whether that key may vouch
//! for anything is settled here: it has to be bound to a primary key that was
//! given to us, marked as a signing key, not expired when it signed, and not
//! revoked, whenever that was and whatever the reason. Of several statements
//! about a key the newest counts, as with gpg.

use data_encoding::HEXUPPER;
use jiff::Timestamp as Time;
use pgp::composed::{Deserializable, DetachedSignature, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType, SignatureVersion, SubpacketData};
use pgp::types::{Fingerprint, KeyDetails, PublicParams, Tag, Timestamp};
use rsa::traits::PublicKeyParts;

use super::SignatureError;
use super::keys::KEYS;

/// Bits of an RSA key, at least.
const RSA_BITS: usize = 2048;
const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";

/// The keys in a file: any number of armored blocks with any number of keys each.
pub(super) fn read(value: &[u8]) -> Result<Vec<SignedPublicKey>, String> {
    let text = std::str::from_utf8(value).map_err(|_| "it isn't text".to_owned())?;
    let mut keys = Vec::new();
    let blocks = text.match_indices(BEGIN).map(|(at, _)| at);
    let ends = blocks.clone().skip(1).chain([text.len()]);
    for (begin, end) in blocks.zip(ends) {
        let block = text.get(begin..end).unwrap_or_default();
        let (found, _) =
            SignedPublicKey::from_string_many(block).map_err(|error| error.to_string())?;
        for key in found {
            keys.push(key.map_err(|error| error.to_string())?);
            if keys.len() > KEYS {
                return Err(format!("there are more than {KEYS}"));
            }
        }
    }
    if keys.is_empty() {
        return Err("there are none".to_owned());
    }
    Ok(keys)
}

pub(super) fn verify(
    payload: &[u8],
    text: &str,
    keys: &[SignedPublicKey],
) -> Result<String, SignatureError> {
    let unreadable = |error: pgp::errors::Error| SignatureError::Unreadable(error.to_string());
    let (mut found, _) = DetachedSignature::from_string_many(text).map_err(unreadable)?;
    let (first, second) = (found.next(), found.next());
    let (Some(first), None) = (first, second) else {
        let why = "there is to be exactly one".to_owned();
        return Err(SignatureError::Unreadable(why));
    };
    let signature = first.map_err(unreadable)?.signature;
    let issuer = issuer(&signature);
    let weak = |why: &str| SignatureError::Weak {
        key: issuer.clone(),
        why: why.to_owned(),
    };
    let Some(at) = signature.created() else {
        return Err(weak("it doesn't say when it was made"));
    };
    if signature.typ() != Some(SignatureType::Binary) {
        return Err(weak("it isn't one of a file as it is"));
    }
    if !is_strong(&signature) {
        let hash = signature.hash_alg().unwrap_or(HashAlgorithm::None);
        return Err(weak(&format!("{hash} isn't accepted, use SHA-256 or more")));
    }
    if !is_understood(&signature) {
        return Err(weak("it is under conditions that aren't known here"));
    }
    if signature
        .signature_expiration_time()
        .is_some_and(|after| after.as_secs() > 0)
    {
        return Err(weak("it expires, and what is released doesn't"));
    }
    // Several copies of a key may say different things: what is revoked in one is revoked.
    let is_revoked = |key: &SignedPublicKey| {
        let fingerprint = key.primary_key.fingerprint();
        let mut copies = keys
            .iter()
            .filter(|copy| copy.primary_key.fingerprint() == fingerprint);
        copies.any(says_it_is_revoked)
    };
    let (mut good, mut bad, mut matching) = (None, None, false);
    for key in keys {
        let components = std::iter::once(None).chain(key.public_subkeys.iter().map(Some));
        for subkey in components {
            let verified = match subkey {
                None if is_issuer(&signature, &key.primary_key) => {
                    signature.verify(&key.primary_key, payload)
                }
                Some(subkey) if is_issuer(&signature, &subkey.key) => {
                    signature.verify(&subkey.key, payload)
                }
                _ => continue,
            };
            matching = true;
            if verified.is_err() {
                continue;
            }
            let signer = named(&key.primary_key.fingerprint());
            if is_revoked(key) {
                return Err(SignatureError::Revoked(signer));
            }
            match may_sign(key, subkey, at, &signer) {
                Ok(()) => good = good.or(Some(signer)),
                Err(revoked @ SignatureError::Revoked(_)) => return Err(revoked),
                Err(error) => bad = bad.or(Some(error)),
            }
        }
    }
    match (good, bad) {
        (Some(signer), _) => Ok(signer),
        (None, Some(error)) => Err(error),
        (None, None) if matching && names_issuer(&signature) => Err(SignatureError::Bad(issuer)),
        (None, None) => Err(SignatureError::Unknown(issuer)),
    }
}

/// However weak the hash is that it says so by.
fn says_it_is_revoked(key: &SignedPublicKey) -> bool {
    let mut revocations = key.details.revocation_signatures.iter();
    revocations.any(|one| one.verify_key(&key.primary_key).is_ok())
}

/// Whether the key that made a signature at a time could vouch for what it signed.
fn may_sign(
    key: &SignedPublicKey,
    subkey: Option<&SignedPublicSubKey>,
    at: Timestamp,
    signer: &str,
) -> Result<(), SignatureError> {
    let unfit = |why| SignatureError::Unfit {
        key: signer.to_owned(),
        why,
    };
    let primary = &key.primary_key;
    let direct = key.details.direct_signatures.iter();
    let direct = direct
        .filter(|one| one.typ() == Some(SignatureType::Key) && one.verify_key(primary).is_ok());
    let of_users = key.details.users.iter().flat_map(|user| {
        let all = user.signatures.iter();
        all.filter(|one| {
            one.typ() != Some(SignatureType::CertRevocation)
                && one
                    .verify_certification(primary, Tag::UserId, &user.id)
                    .is_ok()
        })
    });
    let own = newest(direct.chain(of_users), at).map_err(|why| unfit(why.of_key()))?;
    expiry(primary, own, at, signer)?;
    check_algorithm(primary, signer)?;
    let Some(subkey) = subkey else {
        return match own.key_flags().sign() {
            true => Ok(()),
            false => Err(unfit("the key isn't marked as one that signs")),
        };
    };
    let of_type = |typ| {
        let all = subkey.signatures.iter();
        all.filter(move |one| {
            one.typ() == Some(typ) && one.verify_subkey_binding(primary, &subkey.key).is_ok()
        })
    };
    if of_type(SignatureType::SubkeyRevocation).next().is_some() {
        return Err(SignatureError::Revoked(signer.to_owned()));
    }
    let binding =
        newest(of_type(SignatureType::SubkeyBinding), at).map_err(|why| unfit(why.of_subkey()))?;
    if !binding.key_flags().sign() {
        return Err(unfit("the subkey isn't marked as one that signs"));
    }
    // Else anybody could adopt somebody else's signing key.
    let agreed = binding.embedded_signature().is_some_and(|back| {
        is_strong(back)
            && is_understood(back)
            && back
                .verify_primary_key_binding(&subkey.key, primary)
                .is_ok()
    });
    if !agreed {
        return Err(unfit("the subkey doesn't say that it belongs to the key"));
    }
    check_algorithm(&subkey.key, signer)?;
    expiry(&subkey.key, binding, at, signer)
}

/// Why no statement about a key counts.
enum Unstated {
    Nothing,
    Weak,
}

impl Unstated {
    fn of_key(&self) -> &'static str {
        match self {
            Self::Nothing => "the key says nothing about itself; export it with its user ids",
            Self::Weak => {
                "what the key says about itself is signed with SHA-1 or worse; renew it (gpg --quick-set-expire) and export it again"
            }
        }
    }

    fn of_subkey(&self) -> &'static str {
        match self {
            Self::Nothing => "the subkey isn't bound to the key",
            Self::Weak => {
                "the subkey is bound with SHA-1 or worse; renew it (gpg --quick-set-expire) and export it again"
            }
        }
    }
}

/// The newest of these statements, all of them verified, that counts.
fn newest<'a>(
    all: impl Iterator<Item = &'a Signature>,
    at: Timestamp,
) -> Result<&'a Signature, Unstated> {
    let mut weak = false;
    let counts = all.filter(|one| {
        weak |= !is_strong(one);
        let until = one.signature_expiration_time().map(|after| after.as_secs());
        let made = one.created().map(Timestamp::as_secs);
        let over = until
            .filter(|after| *after > 0)
            .is_some_and(|after| made.unwrap_or_default().saturating_add(after) <= at.as_secs());
        is_strong(one) && is_understood(one) && made.is_some() && !over
    });
    let newest = counts.max_by_key(|one| one.created().map(Timestamp::as_secs));
    newest.ok_or(if weak {
        Unstated::Weak
    } else {
        Unstated::Nothing
    })
}

/// Whether a key was there, and not yet expired, when it signed.
fn expiry(
    key: &impl KeyDetails,
    statement: &Signature,
    at: Timestamp,
    signer: &str,
) -> Result<(), SignatureError> {
    let made = key.created_at().as_secs();
    if made > at.as_secs() {
        return Err(SignatureError::Unfit {
            key: signer.to_owned(),
            why: "the signature is older than the key",
        });
    }
    let after = statement
        .key_expiration_time()
        .map_or(0, |after| after.as_secs());
    let end = u64::from(made) + u64::from(after);
    if after > 0 && end <= u64::from(at.as_secs()) {
        let time = i64::try_from(end).ok().map(Time::from_second);
        return Err(SignatureError::Expired {
            key: signer.to_owned(),
            at: time
                .and_then(Result::ok)
                .map_or_else(String::new, |time| time.to_string()),
        });
    }
    Ok(())
}

fn check_algorithm(key: &impl KeyDetails, signer: &str) -> Result<(), SignatureError> {
    let why = match key.public_params() {
        PublicParams::RSA(rsa) if rsa.key.n().bits() < RSA_BITS => "its RSA key is too short",
        PublicParams::RSA(_)
        | PublicParams::ECDSA(_)
        | PublicParams::EdDSALegacy(_)
        | PublicParams::Ed25519(_)
        | PublicParams::Ed448(_) => return Ok(()),
        _ => "keys of its kind aren't accepted",
    };
    Err(SignatureError::Weak {
        key: signer.to_owned(),
        why: why.to_owned(),
    })
}

fn is_strong(signature: &Signature) -> bool {
    matches!(
        signature.hash_alg(),
        Some(
            HashAlgorithm::Sha256
                | HashAlgorithm::Sha384
                | HashAlgorithm::Sha512
                | HashAlgorithm::Sha3_256
                | HashAlgorithm::Sha3_512
        )
    ) && matches!(
        signature.version(),
        SignatureVersion::V4 | SignatureVersion::V6
    )
}

/// Whether all that its maker calls critical is known here.
fn is_understood(signature: &Signature) -> bool {
    let strange = |data: &SubpacketData| {
        matches!(
            data,
            SubpacketData::Notation(_) | SubpacketData::Experimental(..) | SubpacketData::Other(..)
        )
    };
    signature.config().is_some_and(|config| {
        let mut parts = config.hashed_subpackets();
        !parts.any(|part| part.is_critical && strange(&part.data))
    })
}

fn names_issuer(signature: &Signature) -> bool {
    !signature.issuer_fingerprint().is_empty() || !signature.issuer_key_id().is_empty()
}

fn is_issuer(signature: &Signature, key: &impl KeyDetails) -> bool {
    let (fingerprint, id) = (key.fingerprint(), key.legacy_key_id());
    !names_issuer(signature)
        || signature.issuer_fingerprint().contains(&&fingerprint)
        || signature.issuer_key_id().contains(&&id)
}

/// Who says to have made a signature.
fn issuer(signature: &Signature) -> String {
    if let Some(fingerprint) = signature.issuer_fingerprint().first() {
        return named(fingerprint);
    }
    match signature.issuer_key_id().first() {
        Some(id) => format!("openpgp key id {}", HEXUPPER.encode(id.as_ref())),
        None => "an openpgp key that it doesn't name".to_owned(),
    }
}

pub(super) fn named(fingerprint: &Fingerprint) -> String {
    format!("openpgp {}", HEXUPPER.encode(fingerprint.as_bytes()))
}
