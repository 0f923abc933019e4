//! Keys and signatures made on the spot, good and bad, for tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use pgp::armor::{self, BlockType};
use pgp::composed::{
    ArmorOptions, Deserializable, DetachedSignature, KeyType, SecretKeyParamsBuilder,
    SignedPublicKey, SignedPublicSubKey, SubkeyParamsBuilder,
};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{
    KeyFlags, Notation, SecretKey, SecretSubkey, Signature, SignatureConfig, SignatureType,
    Subpacket, SubpacketData, UserId,
};
use pgp::types::{Duration, KeyDetails, PacketHeaderVersion, Password, SigningKey, Tag, Timestamp};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use ssh_key::{Algorithm, HashAlg, LineEnding, PrivateKey};
use tandem_shared::credentials::Values;

use super::Keys;

/// When keys are made, in seconds.
pub(crate) const BORN: u32 = 1_700_000_000;
/// A day.
pub(crate) const DAY: u32 = 24 * 3600;

/// What is said about a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement {
    pub(crate) at: u32,
    pub(crate) signs: bool,
    /// Days from the key's birth.
    pub(crate) expires: u32,
    pub(crate) agreed: bool,
    pub(crate) critical: bool,
}

impl Default for Statement {
    fn default() -> Self {
        Self {
            at: BORN,
            signs: true,
            expires: 0,
            agreed: true,
            critical: false,
        }
    }
}

impl Statement {
    fn parts(&self) -> Vec<Subpacket> {
        let mut flags = KeyFlags::default();
        flags.set_certify(true);
        flags.set_sign(self.signs);
        let mut parts = vec![
            SubpacketData::SignatureCreationTime(Timestamp::from_secs(self.at)),
            SubpacketData::KeyFlags(flags),
        ];
        if self.expires > 0 {
            let after = Duration::from_secs(self.expires * DAY);
            parts.push(SubpacketData::KeyExpirationTime(after));
        }
        let mut parts: Vec<Subpacket> = parts
            .into_iter()
            .map(|data| Subpacket::regular(data).unwrap())
            .collect();
        if self.critical {
            parts.push(notation());
        }
        parts
    }
}

fn notation() -> Subpacket {
    Subpacket::critical(SubpacketData::Notation(Notation {
        readable: true,
        name: "only@example.org".into(),
        value: "on sundays".into(),
    }))
    .unwrap()
}

/// An OpenPGP key of which everything is at hand: a primary key and a subkey.
pub(crate) struct Pgp {
    pub(crate) primary: SecretKey,
    pub(crate) subkey: SecretSubkey,
    pub(crate) public: SignedPublicKey,
}

impl Pgp {
    /// A key that signs, with a subkey that signs.
    pub(crate) fn new(seed: u64) -> Self {
        let born = Timestamp::from_secs(BORN);
        let subkey = SubkeyParamsBuilder::default()
            .key_type(KeyType::Ed25519Legacy)
            .can_sign(true)
            .created_at(born)
            .build()
            .unwrap();
        let made = SecretKeyParamsBuilder::default()
            .key_type(KeyType::Ed25519Legacy)
            .can_certify(true)
            .can_sign(true)
            .created_at(born)
            .primary_user_id(format!("Ada {seed} <ada@example.org>"))
            .subkeys(vec![subkey])
            .build()
            .unwrap()
            .generate(ChaCha8Rng::seed_from_u64(seed))
            .unwrap();
        let key = Self {
            public: made.to_public_key(),
            subkey: made.secret_subkeys[0].key.clone(),
            primary: made.primary_key,
        };
        key.saying(&[Statement::default()])
            .binding(&[Statement::default()])
    }

    fn config<K: SigningKey>(&self, key: &K, typ: SignatureType) -> SignatureConfig {
        SignatureConfig::v4(typ, key.algorithm(), HashAlgorithm::Sha256)
    }

    /// The same with other statements about the key itself.
    pub(crate) fn saying(mut self, statements: &[Statement]) -> Self {
        let id = UserId::from_str(PacketHeaderVersion::New, "Ada <ada@example.org>").unwrap();
        let made = statements.iter().map(|statement| {
            let mut config = self.config(&self.primary, SignatureType::CertPositive);
            config.hashed_subpackets = statement.parts();
            let public = self.primary.public_key();
            config
                .sign_certification(&self.primary, public, &Password::empty(), Tag::UserId, &id)
                .unwrap()
        });
        let signatures: Vec<Signature> = made.collect();
        self.public.details.users[0].id = id.clone();
        self.public.details.users[0].signatures = signatures;
        self
    }

    /// The same with other bindings of the subkey.
    pub(crate) fn binding(mut self, statements: &[Statement]) -> Self {
        let made = statements.iter().map(|statement| {
            let mut config = self.config(&self.primary, SignatureType::SubkeyBinding);
            config.hashed_subpackets = statement.parts();
            if statement.agreed {
                let back = SubpacketData::EmbeddedSignature(Box::new(self.back(&self.subkey)));
                config
                    .hashed_subpackets
                    .push(Subpacket::regular(back).unwrap());
            }
            self.bind(config)
        });
        let signatures: Vec<Signature> = made.collect();
        let key = self.subkey.public_key().clone();
        self.public.public_subkeys = vec![SignedPublicSubKey::new(key, signatures)];
        self
    }

    fn bind(&self, config: SignatureConfig) -> Signature {
        let public = self.primary.public_key();
        let subkey = self.subkey.public_key();
        config
            .sign_subkey_binding(&self.primary, public, &Password::empty(), subkey)
            .unwrap()
    }

    /// By which `subkey` says that it belongs to this key.
    fn back(&self, subkey: &SecretSubkey) -> Signature {
        let config = self.config(subkey, SignatureType::KeyBinding);
        let public = subkey.public_key();
        let primary = self.primary.public_key();
        config
            .sign_primary_key_binding(subkey, public, &Password::empty(), primary)
            .unwrap()
    }

    /// The same with the subkey given up.
    pub(crate) fn without_subkey(mut self, at: u32) -> Self {
        let mut config = self.config(&self.primary, SignatureType::SubkeyRevocation);
        let time = SubpacketData::SignatureCreationTime(Timestamp::from_secs(at));
        config.hashed_subpackets = vec![Subpacket::regular(time).unwrap()];
        let revocation = self.bind(config);
        self.public.public_subkeys[0].signatures.push(revocation);
        self
    }

    /// The same, given up as a whole.
    pub(crate) fn revoked(mut self, at: u32) -> Self {
        let mut config = self.config(&self.primary, SignatureType::KeyRevocation);
        let time = SubpacketData::SignatureCreationTime(Timestamp::from_secs(at));
        config.hashed_subpackets = vec![Subpacket::regular(time).unwrap()];
        let public = self.primary.public_key();
        let revocation = config
            .sign_key(&self.primary, &Password::empty(), public)
            .unwrap();
        self.public.details.revocation_signatures.push(revocation);
        self
    }

    /// The same key, whose subkey is that of `other`, taken without asking.
    pub(crate) fn adopting(mut self, other: &Self) -> Self {
        self.subkey = other.subkey.clone();
        let statement = Statement {
            agreed: false,
            ..Statement::default()
        };
        self.binding(&[statement])
    }

    /// What people give out.
    pub(crate) fn armored(&self) -> String {
        self.public
            .to_armored_string(ArmorOptions::default())
            .unwrap()
    }

    /// `openpgp <fingerprint>`.
    pub(crate) fn name(&self) -> String {
        super::openpgp::named(&self.primary.fingerprint())
    }

    /// A signature by the primary key.
    pub(crate) fn sign(&self, payload: &[u8], at: u32) -> String {
        sign_by(&self.primary, payload, at, &Signing::default())
    }

    /// A signature by the subkey.
    pub(crate) fn sign_by_subkey(&self, payload: &[u8], at: u32) -> String {
        sign_by(&self.subkey, payload, at, &Signing::default())
    }
}

/// What else a signature says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signing {
    pub(crate) anonymous: bool,
    pub(crate) critical: bool,
    pub(crate) expires: u32,
}

pub(crate) fn sign_by<K: SigningKey>(key: &K, payload: &[u8], at: u32, how: &Signing) -> String {
    let typ = SignatureType::Binary;
    let mut config = SignatureConfig::v4(typ, key.algorithm(), HashAlgorithm::Sha512);
    let mut parts = vec![SubpacketData::SignatureCreationTime(Timestamp::from_secs(
        at,
    ))];
    if !how.anonymous {
        parts.push(SubpacketData::IssuerFingerprint(key.fingerprint()));
    }
    if how.expires > 0 {
        let after = Duration::from_secs(how.expires);
        parts.push(SubpacketData::SignatureExpirationTime(after));
    }
    let parts = parts.into_iter();
    config.hashed_subpackets = parts
        .map(|data| Subpacket::regular(data).unwrap())
        .collect();
    if how.critical {
        config.hashed_subpackets.push(notation());
    }
    let signature = config.sign(key, &Password::empty(), payload).unwrap();
    DetachedSignature::new(signature)
        .to_armored_string(ArmorOptions::default())
        .unwrap()
}

/// Two signatures in one armor.
pub(crate) fn twice(one: &str, other: &str) -> String {
    let read = |text: &str| DetachedSignature::from_string(text).unwrap().0;
    let mut armored = Vec::new();
    let both = vec![read(one), read(other)];
    armor::write(&both, BlockType::Signature, &mut armored, None, false).unwrap();
    String::from_utf8(armored).unwrap()
}

/// An ssh key.
pub(crate) fn ssh(seed: u64) -> PrivateKey {
    PrivateKey::random(&mut ChaCha8Rng::seed_from_u64(seed), Algorithm::Ed25519).unwrap()
}

/// What people give out of it.
pub(crate) fn ssh_public(key: &PrivateKey) -> String {
    key.public_key().to_openssh().unwrap()
}

/// `ssh SHA256:<digest>`.
pub(crate) fn ssh_name(key: &PrivateKey) -> String {
    format!("ssh {}", key.fingerprint(HashAlg::Sha256))
}

pub(crate) fn ssh_sign(key: &PrivateKey, namespace: &str, payload: &[u8]) -> String {
    let signature = key.sign(namespace, HashAlg::Sha512, payload).unwrap();
    signature.to_pem(LineEnding::LF).unwrap()
}

/// A Secret with these values.
pub(crate) fn values(all: &[(&str, &str)]) -> Values {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
    all.iter().map(owned).collect()
}

/// The keys of a Secret with these values.
pub(crate) fn keys(all: &[(&str, &str)]) -> Keys {
    Keys::read(values(all)).unwrap()
}
