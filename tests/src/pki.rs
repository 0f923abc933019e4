//! Certificates and keys of a test's own authority.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::guard::write;

/// A certificate authority made for one cluster or one server.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    key_pem: String,
}

/// A certificate and its private key, both as PEM.
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The key, PKCS #8.
    pub key: String,
}

impl Authority {
    /// A new authority.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        let key_pem = key.serialize_pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            pem,
            key_pem,
        })
    }

    /// The authority's own certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The authority's private key.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// A server's identity for names and addresses.
    pub fn server(&self, names: &[&str]) -> Result<Identity> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = CertificateParams::new(names)?;
        self.sign(params, "server", None, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client's identity; Kubernetes reads the user from `name` and the group
    /// from `group`.
    pub fn client(&self, name: &str, group: &str) -> Result<Identity> {
        self.sign(
            CertificateParams::default(),
            name,
            Some(group),
            ExtendedKeyUsagePurpose::ClientAuth,
        )
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        name: &str,
        organisation: Option<&str>,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(organisation) = organisation {
            params
                .distinguished_name
                .push(DnType::OrganizationName, organisation);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity {
            certificate,
            key: key.serialize_pem(),
        })
    }
}

/// Writes an identity as `<name>.crt` and `<name>.key` and gives both paths.
pub fn write_identity(
    folder: &Path,
    name: &str,
    identity: &Identity,
) -> Result<(PathBuf, PathBuf)> {
    let paths = (
        folder.join(format!("{name}.crt")),
        folder.join(format!("{name}.key")),
    );
    write(&paths.0, &identity.certificate)?;
    write(&paths.1, &identity.key)?;
    Ok(paths)
}

/// Writes a key pair for signing service-account tokens and gives the paths of
/// the public and the private key.
pub fn write_signing_keys(folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let key = KeyPair::generate().context("no key for service-account tokens")?;
    let paths = (folder.join("sa.pub"), folder.join("sa.key"));
    write(&paths.0, key.public_key_pem())?;
    write(&paths.1, key.serialize_pem())?;
    Ok(paths)
}
