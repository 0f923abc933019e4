//! What a release was made from, in one label of Helm's own record.
//!
//! The label reads `<scheme>.<26 base32 characters>.<revision>`. The revision is part of
//! it because a manual upgrade inherits the labels of the revision before, and a rollback
//! copies those of an old one: only a label that names its own record's revision tells
//! what that record holds.

use data_encoding::BASE32_NOPAD;
use sha2::{Digest, Sha256};

use crate::crd::Target;

/// Label of Helm's release record that holds the identity.
pub const IDENTITY_LABEL: &str = "helm.fluxcd.io/identity";

/// How identities are computed today. Another scheme in a label means: decode the record
/// and compare what it holds.
pub const SCHEME: &str = "i1";

const DIGEST_CHARS: usize = 26;

/// Everything that makes one release differ from another. Settings that only say how to
/// get there (timeouts, waiting, history, rollback, tests) are not part of it.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Versioned digest of the chart's artifact.
    pub artifact: &'a str,
    /// The composed values as helm gets them, see [`crate::values`].
    pub values: &'a str,
    /// `spec.resetValues`, defaulted.
    pub reset_values: bool,
    /// `spec.forceUpgrade`.
    pub force_upgrade: bool,
    /// `spec.disableOpenAPIValidation`.
    pub disable_openapi_validation: bool,
    /// The release.
    pub target: &'a Target,
}

/// Digest of what a release is made from: 26 lower-case base32 characters.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Identity(String);

impl Identity {
    /// The identity of these inputs under the present [`SCHEME`].
    #[must_use]
    pub fn of(inputs: &Inputs<'_>) -> Self {
        let flags = [
            inputs.reset_values,
            inputs.force_upgrade,
            inputs.disable_openapi_validation,
        ]
        .map(u8::from);
        let mut digest = Sha256::new();
        digest.update(SCHEME.as_bytes());
        for part in [
            inputs.artifact.as_bytes(),
            inputs.values.as_bytes(),
            flags.as_slice(),
            inputs.target.namespace.as_bytes(),
            inputs.target.name.as_bytes(),
        ] {
            // Lengths keep neighbouring parts apart: `ab` + `c` is not `a` + `bc`.
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let mut text = BASE32_NOPAD.encode(&digest.finalize()).to_lowercase();
        text.truncate(DIGEST_CHARS);
        Self(text)
    }

    /// The identity of no inputs: a release that carries it is never what is wanted.
    #[must_use]
    pub fn none() -> Self {
        Self("a".repeat(DIGEST_CHARS))
    }

    /// The label value for the record of this revision.
    #[must_use]
    pub fn label(&self, revision: i64) -> String {
        format!("{SCHEME}.{}.{revision}", self.0)
    }
}

/// What a record's label says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Stamp {
    /// No label: somebody else's release, or one from before a migration.
    #[default]
    Missing,
    /// A label of another scheme, or one that can't be read.
    OtherScheme,
    /// A label of the present scheme.
    Known {
        /// The identity.
        identity: Identity,
        /// The revision that it was written for.
        revision: i64,
    },
}

/// How a record compares with what is wanted.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Comparison {
    /// The record holds what is wanted.
    Same,
    /// The record holds something else.
    Other,
    /// The label doesn't tell what this record holds: none, another scheme, or one that
    /// was inherited from another revision.
    Unknown,
}

impl Stamp {
    /// Reads the value of [`IDENTITY_LABEL`].
    #[must_use]
    pub fn parse(label: Option<&str>) -> Self {
        let Some(label) = label else {
            return Self::Missing;
        };
        let mut parts = label.split('.');
        let (scheme, digest, revision) = (parts.next(), parts.next(), parts.next());
        let (Some(SCHEME), Some(digest), Some(revision), None) =
            (scheme, digest, revision, parts.next())
        else {
            return Self::OtherScheme;
        };
        let well_formed = digest.len() == DIGEST_CHARS
            && digest
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'));
        match revision.parse::<i64>() {
            Ok(revision) if well_formed && revision > 0 => Self::Known {
                identity: Identity(digest.to_owned()),
                revision,
            },
            _ => Self::OtherScheme,
        }
    }

    /// Compares the record of `revision` that carries this stamp with any of `wanted` (one
    /// identity, and further ones while digests of artifacts change their version).
    #[must_use]
    pub fn compare(&self, revision: i64, wanted: &[Identity]) -> Comparison {
        match self {
            Self::Known {
                identity,
                revision: stamped,
            } if *stamped == revision => {
                if wanted.contains(identity) {
                    Comparison::Same
                } else {
                    Comparison::Other
                }
            }
            _ => Comparison::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target {
            namespace: "demo".into(),
            name: "a".into(),
        }
    }

    fn inputs(target: &Target) -> Inputs<'_> {
        Inputs {
            artifact: "t1:00",
            values: "{}",
            reset_values: true,
            force_upgrade: false,
            disable_openapi_validation: false,
            target,
        }
    }

    #[test]
    fn the_digest_is_pinned() {
        let target = target();
        let identity = Identity::of(&inputs(&target));
        assert_eq!(identity.0.len(), DIGEST_CHARS);
        // A change here upgrades every release of every fleet: raise SCHEME with it.
        assert_eq!(identity.label(7), "i1.huf2hhfdnfuqsvpn4zhdbg5ibq.7");
    }

    #[test]
    fn every_input_counts() {
        let target = target();
        let other = Target {
            namespace: "dem".into(),
            name: "oa".into(),
        };
        let base = inputs(&target);
        let variants = [
            base,
            Inputs {
                artifact: "t1:01",
                ..base
            },
            Inputs {
                values: "{\"a\":1}",
                ..base
            },
            Inputs {
                reset_values: false,
                ..base
            },
            Inputs {
                force_upgrade: true,
                ..base
            },
            Inputs {
                disable_openapi_validation: true,
                ..base
            },
            Inputs {
                target: &other,
                ..base
            },
        ];
        let distinct: std::collections::BTreeSet<_> = variants.iter().map(Identity::of).collect();
        assert_eq!(distinct.len(), variants.len());
    }

    #[test]
    fn a_label_is_a_label_value() {
        let target = target();
        let label = Identity::of(&inputs(&target)).label(i64::MAX);
        assert!(label.len() <= 63, "{label}");
        assert!(
            label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
        );
    }

    #[test]
    fn stamps_are_read_back() {
        let target = target();
        let identity = Identity::of(&inputs(&target));
        let stamp = Stamp::parse(Some(&identity.label(3)));
        let wanted = [identity];
        assert_eq!(stamp.compare(3, &wanted), Comparison::Same);
        assert_eq!(stamp.compare(3, &[]), Comparison::Other);
        assert_eq!(stamp.compare(4, &wanted), Comparison::Unknown);
        assert_eq!(Stamp::parse(None), Stamp::Missing);
    }

    #[test]
    fn what_we_did_not_write_is_another_scheme() {
        let digest = "a".repeat(DIGEST_CHARS);
        for label in [
            String::new(),
            "i1".into(),
            format!("i1.{digest}"),
            format!("i2.{digest}.1"),
            format!("i1.{digest}.x"),
            format!("i1.{digest}.0"),
            format!("i1.{digest}.1.1"),
            format!("i1.{}.1", digest.to_uppercase()),
            "i1.short.1".into(),
        ] {
            assert_eq!(Stamp::parse(Some(&label)), Stamp::OtherScheme, "{label:?}");
        }
    }
}
