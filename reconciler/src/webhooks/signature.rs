//! Whether a delivery is from somebody who knows a secret. Pure, and in constant time.

use data_encoding::HEXLOWER_PERMISSIVE;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thiserror::Error;

use super::secrets::Secrets;

type HmacSha256 = Hmac<Sha256>;

/// Bytes of a SHA-256.
const BYTES: usize = 32;

/// Why a delivery isn't believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Refusal {
    /// Nothing proves anything.
    #[error("the delivery is not signed: {0} is missing; set the secret at its sender")]
    Unsigned(&'static str),
    /// Signed in a way that is no longer sound.
    #[error("signatures by SHA-1 are not accepted; have the delivery signed by HMAC-SHA256 in {0}")]
    Sha1(&'static str),
    /// No signature by its form.
    #[error("{0} is no signature: it takes 64 hex digits, mostly after \"sha256=\"")]
    Malformed(&'static str),
    /// A signature, but by somebody else or of something else.
    #[error("the signature is not by any secret known here; the sender's secret is another one")]
    Wrong,
}

/// What a delivery proves itself with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// HMAC-SHA256 of the body.
    Hmac([u8; BYTES]),
    /// The secret itself.
    Token(Vec<u8>),
}

impl Proof {
    /// Reads `text` of the header `name`: hex digits after `sha256=`, or `bare`.
    ///
    /// # Errors
    /// Says what else it is.
    pub(super) fn hmac(name: &'static str, text: &[u8], bare: bool) -> Result<Self, Refusal> {
        let hex = match text.strip_prefix(b"sha256=") {
            Some(hex) => hex,
            None if text.starts_with(b"sha1=") => return Err(Refusal::Sha1(name)),
            None if bare => text,
            None => return Err(Refusal::Malformed(name)),
        };
        let read = HEXLOWER_PERMISSIVE.decode(hex).ok();
        let bytes = read.and_then(|read| read.try_into().ok());
        bytes.map(Self::Hmac).ok_or(Refusal::Malformed(name))
    }

    /// Whether one of `secrets` made this for `body`. A token doesn't depend on the body.
    ///
    /// # Errors
    /// [`Refusal::Wrong`].
    pub(super) fn verify(&self, secrets: &Secrets, body: &[u8]) -> Result<(), Refusal> {
        let mut known = secrets.iter();
        let good = match self {
            Self::Hmac(signature) => known.any(|secret| is_signed(secret, body, signature)),
            Self::Token(token) => known.any(|secret| is_same(secret, token)),
        };
        good.then_some(()).ok_or(Refusal::Wrong)
    }
}

fn is_signed(secret: &[u8], body: &[u8], signature: &[u8]) -> bool {
    // A key of any length will do.
    HmacSha256::new_from_slice(secret)
        .is_ok_and(|mac| mac.chain_update(body).verify_slice(signature).is_ok())
}

/// Two texts are the same if their codes are; those are compared in constant time, whatever
/// the lengths of the texts.
fn is_same(secret: &[u8], token: &[u8]) -> bool {
    HmacSha256::new_from_slice(secret).is_ok_and(|mac| {
        let expected = mac.clone().chain_update(secret).finalize().into_bytes();
        mac.chain_update(token).verify_slice(&expected).is_ok()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    const NAME: &str = "X-Signature";
    /// Of `{"a":1}`, by the secret `tandem-hooks`; made with `openssl dgst -sha256 -hmac`.
    const HEX: &str = "47698ce507b9a373f125f72af9a3bb83e5a5eec4aaebc1cafddc77d6460f237a";
    /// Of RFC 4231, its test case 1.
    const RFC: &str = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";

    fn check(secrets: &str, header: &str, body: &[u8]) -> Result<(), Refusal> {
        let secrets = Secrets::parse(secrets.as_bytes()).unwrap();
        Proof::hmac(NAME, header.as_bytes(), false)?.verify(&secrets, body)
    }

    #[test]
    fn only_who_knows_a_secret_signs() {
        let signed = format!("sha256={HEX}");
        let upper = format!("sha256={}", HEX.to_uppercase());
        for (secrets, header, body, expected) in [
            ("tandem-hooks", signed.as_str(), r#"{"a":1}"#, Ok(())),
            ("tandem-hooks", &upper, r#"{"a":1}"#, Ok(())),
            ("tandem-hooks\n", &signed, r#"{"a":1}"#, Ok(())),
            (
                "the old one\r\ntandem-hooks\r\n",
                &signed,
                r#"{"a":1}"#,
                Ok(()),
            ),
            (
                &"\u{b}".repeat(20),
                &format!("sha256={RFC}"),
                "Hi There",
                Ok(()),
            ),
            ("tandem-hooks", &signed, r#"{"a":2}"#, Err(Refusal::Wrong)),
            ("tandem-hooks", &signed, "", Err(Refusal::Wrong)),
            ("Tandem-hooks", &signed, r#"{"a":1}"#, Err(Refusal::Wrong)),
            ("tandem-hooks ", &signed, r#"{"a":1}"#, Err(Refusal::Wrong)),
            (
                "tandem-hooks",
                &signed[..signed.len() - 1],
                r#"{"a":1}"#,
                Err(Refusal::Malformed(NAME)),
            ),
            (
                "tandem-hooks",
                &format!("{signed}00"),
                r#"{"a":1}"#,
                Err(Refusal::Malformed(NAME)),
            ),
            (
                "tandem-hooks",
                HEX,
                r#"{"a":1}"#,
                Err(Refusal::Malformed(NAME)),
            ),
            ("tandem-hooks", "", "", Err(Refusal::Malformed(NAME))),
            ("tandem-hooks", "sha256=", "", Err(Refusal::Malformed(NAME))),
            (
                "tandem-hooks",
                "sha256=zz",
                "",
                Err(Refusal::Malformed(NAME)),
            ),
            (
                "tandem-hooks",
                "sha1=d0b1db2b7a4a4c8f1e8d7a4a4c8f1e8d7a4a4c8f",
                r#"{"a":1}"#,
                Err(Refusal::Sha1(NAME)),
            ),
        ] {
            assert_eq!(
                check(secrets, header, body.as_bytes()),
                expected,
                "{header}"
            );
        }
    }

    #[test]
    fn some_forges_write_no_algorithm() {
        let secrets = Secrets::parse(b"tandem-hooks").unwrap();
        for header in [HEX.to_owned(), format!("sha256={HEX}")] {
            let proof = Proof::hmac(NAME, header.as_bytes(), true).unwrap();
            assert_eq!(proof.verify(&secrets, br#"{"a":1}"#), Ok(()));
        }
        assert_eq!(
            Proof::hmac(NAME, b"sha1=00", true),
            Err(Refusal::Sha1(NAME))
        );
    }

    #[test]
    fn a_token_is_a_secret_whole() {
        let secrets = Secrets::parse(b"the first\nthe second").unwrap();
        for (token, expected) in [
            ("the first", Ok(())),
            ("the second", Ok(())),
            ("", Err(Refusal::Wrong)),
            ("the firs", Err(Refusal::Wrong)),
            ("the first\nthe second", Err(Refusal::Wrong)),
            ("the first ", Err(Refusal::Wrong)),
            ("THE FIRST", Err(Refusal::Wrong)),
        ] {
            let proof = Proof::Token(token.as_bytes().to_vec());
            assert_eq!(proof.verify(&secrets, b"whatever"), expected, "{token:?}");
        }
    }
}
