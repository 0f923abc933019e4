//! Signatures by ssh keys, as `ssh-keygen -Y sign -n git` makes them.

use ssh_key::public::KeyData;
use ssh_key::{HashAlg, PublicKey, SshSig};

use super::SignatureError;
use super::keys::KEYS;

/// What git has its signatures made for: a signature of anything else vouches for no commit.
const NAMESPACE: &str = "git";
/// Bits of an RSA key, at least.
const RSA_BITS: usize = 2048;

/// The keys in a file: one a line, as in `id_ed25519.pub`.
pub(super) fn read(value: &[u8]) -> Result<Vec<PublicKey>, String> {
    let text = std::str::from_utf8(value).map_err(|_| "it isn't text".to_owned())?;
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let mut keys = Vec::new();
    for (number, line) in lines {
        let key = PublicKey::from_openssh(line);
        keys.push(key.map_err(|error| format!("line {}: {error}", number + 1))?);
        if keys.len() > KEYS {
            return Err(format!("there are more than {KEYS}"));
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
    keys: &[PublicKey],
) -> Result<String, SignatureError> {
    let unreadable = |error: ssh_key::Error| SignatureError::Unreadable(error.to_string());
    let signature = SshSig::from_pem(text).map_err(unreadable)?;
    let fingerprint = signature.public_key().fingerprint(HashAlg::Sha256);
    let signer = format!("ssh {fingerprint}");
    let known = keys
        .iter()
        .find(|key| key.key_data() == signature.public_key());
    let Some(key) = known else {
        return Err(SignatureError::Unknown(signer));
    };
    if signature.namespace() != NAMESPACE {
        let namespace: String = signature.namespace().escape_debug().take(40).collect();
        let why = format!("it was made for {namespace:?}, not for git");
        return Err(SignatureError::Weak { key: signer, why });
    }
    if let KeyData::Rsa(rsa) = key.key_data() {
        let bits = rsa
            .n
            .as_positive_bytes()
            .map_or(0, |bytes| bytes.len().saturating_mul(8));
        if bits < RSA_BITS {
            let why = format!("its RSA key has less than {RSA_BITS} bits");
            return Err(SignatureError::Weak { key: signer, why });
        }
    }
    match key.verify(NAMESPACE, payload, &signature) {
        Ok(()) => Ok(signer),
        Err(ssh_key::Error::AlgorithmUnsupported { algorithm }) => Err(SignatureError::Weak {
            key: signer,
            why: format!("{algorithm} isn't accepted"),
        }),
        Err(_) => Err(SignatureError::Bad(signer)),
    }
}
