//! Who this process is to a server that asks for a certificate.

use std::path::PathBuf;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tandem_shared::credentials::Values;
use thiserror::Error;
use ureq::tls::{Certificate, ClientCert, PrivateKey};

/// The keys of a credential that hold certificate and private key: those of
/// `kubernetes.io/tls`, and those of older Flux.
const KEYS: [(&str, &str); 2] = [("tls.crt", "tls.key"), ("certFile", "keyFile")];

/// A certificate with its private key.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The certificate, with what leads to its authority, as PEM.
    pub certificate: PathBuf,
    /// The private key as PEM.
    pub key: PathBuf,
    /// Both, as the HTTP client takes them.
    pub identity: ClientCert,
}

/// What is wrong with a certificate and its key. Says where, never what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// One without the other.
    #[error("the credential has `{0}` without `{1}`; a client certificate needs both")]
    Alone(&'static str, &'static str),
    /// No certificate.
    #[error("the value of the credential's key `{0}` is no certificate in PEM")]
    Certificate(&'static str),
    /// No private key.
    #[error(
        "the value of the credential's key `{0}` is no private key in PEM, or one under a passphrase, for which nobody can be asked"
    )]
    Key(&'static str),
    /// Certificate and key aren't of one another, or of no kind that TLS knows.
    #[error("the credential's `{0}` isn't the private key of the certificate in `{1}`")]
    Mismatch(&'static str, &'static str),
}

/// The names of the keys by which `values` hold a certificate and its private key.
///
/// # Errors
/// If there is one without the other.
pub(super) fn keys(values: &Values) -> Result<Option<(&'static str, &'static str)>, ClientError> {
    for (certificate, key) in KEYS {
        match (values.contains_key(certificate), values.contains_key(key)) {
            (false, false) => {}
            (true, true) => return Ok(Some((certificate, key))),
            (true, false) => return Err(ClientError::Alone(certificate, key)),
            (false, true) => return Err(ClientError::Alone(key, certificate)),
        }
    }
    Ok(None)
}

/// What `values` hold under these names, as the HTTP client takes it. It is proven to fit
/// here, since that client takes it on trust.
///
/// # Errors
/// If it is none.
pub(super) fn identity(
    values: &Values,
    (certificate, key): (&'static str, &'static str),
) -> Result<ClientCert, ClientError> {
    let value = |key| values.get(key).map(Vec::as_slice).unwrap_or_default();
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(value(certificate))
        .collect::<Result<_, _>>()
        .map_err(|_| ClientError::Certificate(certificate))?;
    if chain.is_empty() {
        return Err(ClientError::Certificate(certificate));
    }
    let private = PrivateKeyDer::from_pem_slice(value(key)).map_err(|_| ClientError::Key(key))?;
    // What is proven is what is used.
    let owned = PrivateKey::from_pem(value(key))
        .ok()
        .filter(|owned| owned.der() == private.secret_der())
        .ok_or(ClientError::Key(key))?;
    let shown: Vec<Certificate<'static>> = chain
        .iter()
        .map(|der| Certificate::from_der(der).to_owned())
        .collect();
    CertifiedKey::from_der(chain, private, &default_provider())
        .map_err(|_| ClientError::Mismatch(key, certificate))?;
    Ok(ClientCert::new_with_certs(&shown, owned))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn pair() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn values(pairs: &[(&str, &str)]) -> Values {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), value.as_bytes().to_vec());
        pairs.iter().map(owned).collect()
    }

    fn read(pairs: &[(&str, &str)]) -> Result<bool, ClientError> {
        let values = values(pairs);
        let Some(names) = keys(&values)? else {
            return Ok(false);
        };
        identity(&values, names).map(|_| true)
    }

    #[test]
    fn both_spellings_are_taken_and_nothing_that_does_not_fit() {
        let ((certificate, key), (_, other)) = (pair(), pair());
        assert_eq!(read(&[("password", "x")]), Ok(false));
        assert_eq!(
            read(&[("tls.crt", &certificate), ("tls.key", &key)]),
            Ok(true)
        );
        assert_eq!(
            read(&[("certFile", &certificate), ("keyFile", &key)]),
            Ok(true)
        );
        for (pairs, expected) in [
            (
                vec![("tls.crt", certificate.as_str())],
                ClientError::Alone("tls.crt", "tls.key"),
            ),
            (
                vec![("keyFile", key.as_str())],
                ClientError::Alone("keyFile", "certFile"),
            ),
            (
                vec![("tls.crt", ""), ("tls.key", key.as_str())],
                ClientError::Certificate("tls.crt"),
            ),
            (
                vec![("tls.crt", certificate.as_str()), ("tls.key", "s3cret")],
                ClientError::Key("tls.key"),
            ),
            (
                vec![
                    ("tls.crt", certificate.as_str()),
                    ("tls.key", other.as_str()),
                ],
                ClientError::Mismatch("tls.key", "tls.crt"),
            ),
        ] {
            let error = read(&pairs).unwrap_err();
            assert_eq!(error, expected);
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_key_is_shown_to_nobody() {
        let (certificate, key) = pair();
        let values = values(&[("tls.crt", &certificate), ("tls.key", &key)]);
        let identity = identity(&values, ("tls.crt", "tls.key")).unwrap();
        let shown = format!("{identity:?}");
        assert!(!shown.contains(key.lines().nth(1).unwrap()), "{shown}");
        assert!(!shown.contains("der"), "{shown}");
    }
}
