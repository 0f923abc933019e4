//! Signatures that count, and those that don't.
//!
//! `fixtures` holds what other programs made, so that we know to read what
//! people use. gpg 2.2.40, by `git commit -S` and `git tag -s` (git 2.39): the
//! raw objects `gpg.commit` and `gpg.tag`, of a subkey (ed25519) of `gpg.asc`
//! (rsa3072), and `gpg-revoked.asc`, the same after `gpg --import` of its
//! revocation. ssh-keygen of OpenSSH 9.2, by the same with `gpg.format=ssh`:
//! `sshkey.commit`, `sshkey.tag`, `sshrsa.commit`, `sshec.commit` of the three
//! keys in `ssh.pub`; `namespace.sig` by `ssh-keygen -Y sign -n file`. The rest
//! are detached signatures of `payload\n` by gpg: `sha1.sig` with
//! `--digest-algo SHA1`, `text.sig` with `--textmode`, both of `sha1.asc`;
//! `weakkey.sig` of `weakkey.asc`, made with `--cert-digest-algo SHA1`;
//! `short.sig` of `short.asc`, rsa1024.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use git2::{ObjectType, Repository};

use super::testing::{
    BORN, DAY, Pgp, Signing, Statement, keys, sign_by, ssh, ssh_name, ssh_public, ssh_sign, twice,
    values,
};
use super::{Keys, KeysError, SIGNATURE, SignatureError, TagObject, verify};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("fixtures/", $name))
    };
}

const PAYLOAD: &[u8] = b"payload\n";

/// What is wrong, without who it is about.
fn wrong(found: Result<String, SignatureError>) -> &'static str {
    match found {
        Ok(_) => "nothing",
        Err(SignatureError::None) => "none",
        Err(SignatureError::Foreign) => "foreign",
        Err(SignatureError::Unreadable(_)) => "unreadable",
        Err(SignatureError::Unknown(_)) => "unknown",
        Err(SignatureError::Bad(_)) => "bad",
        Err(SignatureError::Weak { .. }) => "weak",
        Err(SignatureError::Revoked(_)) => "revoked",
        Err(SignatureError::Expired { .. }) => "expired",
        Err(SignatureError::Unfit { .. }) => "unfit",
    }
}

/// What git itself takes for payload and signature of a commit.
fn commit(raw: &str) -> (Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::init_bare(folder.path()).unwrap();
    let objects = repository.odb().unwrap();
    let id = objects.write(ObjectType::Commit, raw.as_bytes()).unwrap();
    let (signature, payload) = repository.extract_signature(&id, None).unwrap();
    (payload.to_vec(), signature.to_vec())
}

#[test]
fn what_gpg_and_ssh_keygen_made_for_git_is_read() {
    let all = keys(&[
        ("ada.asc", fixture!("gpg.asc")),
        ("a.pub", fixture!("ssh.pub")),
    ]);
    let gpg = "openpgp B952A0FFDE34A37EB21A3B0EE008C6181FDE17C8";
    for (raw, signer) in [
        (fixture!("gpg.commit"), gpg),
        (fixture!("sshkey.commit"), "ssh SHA256:"),
        (fixture!("sshrsa.commit"), "ssh SHA256:"),
        (fixture!("sshec.commit"), "ssh SHA256:"),
    ] {
        let (payload, signature) = commit(raw);
        let found = verify(&payload, &signature, &all).unwrap();
        assert!(found.starts_with(signer), "{found}");
        let changed = [&payload[..], b"!"].concat();
        assert_eq!(wrong(verify(&changed, &signature, &all)), "bad", "{raw}");
        let nobody = keys(&[("eve.asc", &Pgp::new(9).armored())]);
        assert_eq!(wrong(verify(&payload, &signature, &nobody)), "unknown");
    }
    for (raw, name, signer) in [
        (fixture!("gpg.tag"), "v1.0.0", gpg),
        (fixture!("sshkey.tag"), "v1.1.0", "ssh SHA256:"),
    ] {
        let tag = TagObject::read(raw.as_bytes());
        assert_eq!(tag.name, name.as_bytes());
        let found = verify(tag.payload, tag.signature, &all).unwrap();
        assert!(found.starts_with(signer), "{found}");
    }
    let (payload, signature) = commit(fixture!("gpg.commit"));
    for set in [
        keys(&[("a.asc", fixture!("gpg-revoked.asc"))]),
        // An old copy beside it doesn't help.
        keys(&[
            ("a.asc", fixture!("gpg.asc")),
            ("b.asc", fixture!("gpg-revoked.asc")),
        ]),
    ] {
        assert_eq!(wrong(verify(&payload, &signature, &set)), "revoked");
    }
}

#[test]
fn what_gpg_makes_in_weak_ways_proves_nothing() {
    for (signature, key, expected) in [
        (fixture!("sha1.sig"), fixture!("sha1.asc"), "weak"),
        (fixture!("text.sig"), fixture!("sha1.asc"), "weak"),
        (fixture!("weakkey.sig"), fixture!("weakkey.asc"), "unfit"),
        (fixture!("short.sig"), fixture!("short.asc"), "weak"),
    ] {
        let found = verify(PAYLOAD, signature.as_bytes(), &keys(&[("a.asc", key)]));
        assert_eq!(wrong(found.clone()), expected, "{found:?}");
    }
    let found = verify(
        PAYLOAD,
        fixture!("namespace.sig").as_bytes(),
        &keys(&[("a.pub", fixture!("ssh.pub"))]),
    );
    assert!(found.unwrap_err().to_string().contains("\"file\""));
}

#[test]
fn a_primary_key_and_a_subkey_sign_and_the_primary_is_named() {
    let (ada, eve) = (Pgp::new(1), Pgp::new(2));
    let both = keys(&[("all.asc", &format!("{}\n{}", eve.armored(), ada.armored()))]);
    for signature in [
        ada.sign(PAYLOAD, BORN + DAY),
        ada.sign_by_subkey(PAYLOAD, BORN + DAY),
        sign_by(
            &ada.subkey,
            PAYLOAD,
            BORN + DAY,
            &Signing {
                anonymous: true,
                ..Signing::default()
            },
        ),
    ] {
        let found = verify(PAYLOAD, signature.as_bytes(), &both);
        assert_eq!(found, Ok(ada.name()));
        let found = verify(b"other", signature.as_bytes(), &both);
        assert!(matches!(wrong(found), "bad" | "unknown"));
        let hers = keys(&[("eve.asc", &eve.armored())]);
        assert_eq!(
            wrong(verify(PAYLOAD, signature.as_bytes(), &hers)),
            "unknown"
        );
    }
}

/// Each row changes one thing about a key whose signature counts otherwise.
#[test]
fn a_key_has_to_be_good_when_it_signs() {
    let day = |days: u32| BORN + days * DAY;
    let plain = Statement::default();
    let expiring = Statement {
        expires: 10,
        ..plain
    };
    let silent = Statement {
        signs: false,
        ..plain
    };
    let alone = Statement {
        agreed: false,
        ..plain
    };
    let critical = Statement {
        critical: true,
        ..plain
    };
    let later = |statement: Statement| Statement {
        at: day(2),
        ..statement
    };
    let new = || Pgp::new(1);
    // What it is, the key, the day of the signature, what is wrong with that of the primary
    // key, and with that of the subkey.
    let table = [
        ("plain", new(), day(1), "nothing", "nothing"),
        (
            "not yet expired",
            new().saying(&[expiring]).binding(&[expiring]),
            day(9),
            "nothing",
            "nothing",
        ),
        (
            "expired",
            new().saying(&[expiring]),
            day(10),
            "expired",
            "expired",
        ),
        (
            "renewed",
            new().saying(&[expiring, later(plain)]),
            day(11),
            "nothing",
            "nothing",
        ),
        (
            "shortened",
            new().saying(&[plain, later(expiring)]),
            day(11),
            "expired",
            "expired",
        ),
        (
            "order doesn't count",
            new().saying(&[later(expiring), plain]),
            day(11),
            "expired",
            "expired",
        ),
        (
            "expired subkey",
            new().binding(&[expiring]),
            day(10),
            "nothing",
            "expired",
        ),
        ("older than the key", new(), BORN - 1, "unfit", "unfit"),
        (
            "no signing key",
            new().saying(&[silent]),
            day(1),
            "unfit",
            "nothing",
        ),
        (
            "no signing subkey",
            new().binding(&[silent]),
            day(1),
            "nothing",
            "unfit",
        ),
        (
            "the subkey didn't agree",
            new().binding(&[alone]),
            day(1),
            "nothing",
            "unfit",
        ),
        ("nothing said", new().saying(&[]), day(1), "unfit", "unfit"),
        (
            "unknown conditions",
            new().saying(&[critical]),
            day(1),
            "unfit",
            "unfit",
        ),
        (
            "unknown conditions of the subkey",
            new().binding(&[critical]),
            day(1),
            "nothing",
            "unfit",
        ),
        (
            "revoked later",
            new().revoked(day(5)),
            day(1),
            "revoked",
            "revoked",
        ),
        (
            "revoked before",
            new().revoked(day(0)),
            day(1),
            "revoked",
            "revoked",
        ),
        (
            "revoked subkey",
            new().without_subkey(day(5)),
            day(1),
            "nothing",
            "revoked",
        ),
    ];
    for (what, key, at, primary, subkey) in table {
        let set = keys(&[("a.asc", &key.armored())]);
        let found = verify(PAYLOAD, key.sign(PAYLOAD, at).as_bytes(), &set);
        assert_eq!(wrong(found.clone()), primary, "{what}: {found:?}");
        let found = verify(PAYLOAD, key.sign_by_subkey(PAYLOAD, at).as_bytes(), &set);
        assert_eq!(
            wrong(found.clone()),
            subkey,
            "{what}, the subkey: {found:?}"
        );
    }
}

#[test]
fn statements_of_others_about_a_key_do_not_count() {
    let (ada, eve) = (Pgp::new(1), Pgp::new(2));
    let signature = ada.sign_by_subkey(PAYLOAD, BORN + DAY);
    // Eve puts Ada's subkey under her own key.
    let set = keys(&[("a.asc", &Pgp::new(2).adopting(&ada).armored())]);
    let found = verify(PAYLOAD, signature.as_bytes(), &set);
    assert_eq!(wrong(found.clone()), "unfit", "{found:?}");
    // Eve revokes Ada's key, and says what it is for.
    let mut marred = Pgp::new(1);
    let hers = eve.revoked(BORN).saying(&[Statement {
        at: BORN + 9,
        signs: false,
        ..Statement::default()
    }]);
    let details = hers.public.details;
    marred.public.details.revocation_signatures = details.revocation_signatures;
    let users = details.users.into_iter().flat_map(|user| user.signatures);
    marred.public.details.users[0].signatures.extend(users);
    let set = keys(&[("a.asc", &marred.armored())]);
    for signature in [signature, ada.sign(PAYLOAD, BORN + DAY)] {
        assert_eq!(verify(PAYLOAD, signature.as_bytes(), &set), Ok(ada.name()));
    }
}

#[test]
fn signatures_under_conditions_do_not_count() {
    let ada = Pgp::new(1);
    let set = keys(&[("a.asc", &ada.armored())]);
    for how in [
        Signing {
            critical: true,
            ..Signing::default()
        },
        Signing {
            expires: DAY,
            ..Signing::default()
        },
    ] {
        let signature = sign_by(&ada.primary, PAYLOAD, BORN + DAY, &how);
        let found = verify(PAYLOAD, signature.as_bytes(), &set);
        assert_eq!(wrong(found.clone()), "weak", "{how:?}: {found:?}");
    }
    // Whose would the commit be?
    let one = ada.sign(PAYLOAD, BORN + DAY);
    let twice = twice(&one, &Pgp::new(2).sign(PAYLOAD, BORN + DAY));
    assert_eq!(wrong(verify(PAYLOAD, twice.as_bytes(), &set)), "unreadable");
}

#[test]
fn an_ssh_key_signs_for_git_alone() {
    let (ada, eve) = (ssh(1), ssh(2));
    let text = format!("# keys\n\n{}\n{}\r\n", ssh_public(&eve), ssh_public(&ada));
    let set = keys(&[("all.sshpub", &text)]);
    let signature = ssh_sign(&ada, "git", PAYLOAD);
    let check = |payload: &[u8], signature: &str, set| verify(payload, signature.as_bytes(), set);
    assert_eq!(check(PAYLOAD, &signature, &set), Ok(ssh_name(&ada)));
    assert_eq!(wrong(check(b"other", &signature, &set)), "bad");
    let other = ssh_sign(&ada, "file", PAYLOAD);
    assert_eq!(wrong(check(PAYLOAD, &other, &set)), "weak");
    let hers = keys(&[("eve.pub", &ssh_public(&eve))]);
    let unknown = check(PAYLOAD, &signature, &hers);
    assert_eq!(unknown, Err(SignatureError::Unknown(ssh_name(&ada))));
}

#[test]
fn what_is_no_signature_is_told_apart() {
    let ada = Pgp::new(1);
    let set = keys(&[("a.asc", &ada.armored()), ("a.pub", &ssh_public(&ssh(1)))]);
    let long = format!("-----BEGIN SSH SIGNATURE-----\n{}", "A".repeat(SIGNATURE));
    for (signature, expected) in [
        ("", "none"),
        (" \n", "none"),
        ("trust me", "unreadable"),
        ("-----BEGIN SIGNED MESSAGE-----\nMII\n", "foreign"),
        ("-----BEGIN PGP SIGNATURE-----", "unreadable"),
        (
            "-----BEGIN PGP SIGNATURE-----\n\n!!!!\n-----END PGP SIGNATURE-----",
            "unreadable",
        ),
        (
            "-----BEGIN PGP MESSAGE-----\n\nwA==\n-----END PGP MESSAGE-----",
            "unreadable",
        ),
        (
            "-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----",
            "unreadable",
        ),
        (&long, "unreadable"),
    ] {
        let found = verify(PAYLOAD, signature.as_bytes(), &set);
        assert_eq!(wrong(found), expected, "{:.60}", signature);
    }
    assert_eq!(wrong(verify(PAYLOAD, &[0xff, 0xfe], &set)), "unreadable");
    // Every piece of a good one.
    for whole in [
        ada.sign(PAYLOAD, BORN + DAY),
        ssh_sign(&ssh(1), "git", PAYLOAD),
    ] {
        for end in 0..whole.trim_end().len() {
            let found = verify(PAYLOAD, &whole.as_bytes()[..end], &set);
            // A line without its last dashes still ends what stands before it.
            let whole_but_for_the_end = end >= whole.rfind("-----END").unwrap();
            assert!(found.is_err() || whole_but_for_the_end, "{}", &whole[..end]);
        }
    }
}

#[test]
fn keys_that_can_not_be_read_are_told_by_name() {
    let (pgp, ssh) = (Pgp::new(1).armored(), ssh_public(&ssh(1)));
    let told = |name: &str, value: &str| {
        let error = Keys::read(values(&[("good.asc", &pgp), (name, value)])).unwrap_err();
        error.to_string()
    };
    for (name, value) in [
        ("a.asc", "no key"),
        ("a.asc", &pgp[..pgp.len() / 2]),
        ("a.pub", "# nothing\n"),
        ("a.pub", &ssh[..40]),
        ("a.pub", &pgp),
        ("a.asc", &ssh),
        ("a.sshpub", &format!("{ssh}\nada@example.org {ssh}")),
    ] {
        let told = told(name, value);
        assert!(told.contains(&format!("`{name}`")), "{told}");
        assert!(!told.contains("AAAA") || told.contains("AAAA…"), "{told}");
    }
    let private = told(
        "a.pub",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\n",
    );
    assert!(
        private.contains("private") && !private.contains("b3Blbn"),
        "{private}"
    );
    let none = Keys::read(values(&[("password", "x")]));
    assert!(matches!(none, Err(KeysError::Secret(_))));
}

#[test]
fn a_tag_is_signed_at_its_end() {
    let raw = b"object 1\ntype commit\ntag v1\ntagger a\n\nSaid:\n-----BEGIN SSH SIGNATURE-----\nold\n-----END SSH SIGNATURE-----\ntag v2\n-----BEGIN PGP SIGNATURE-----\nnew\n";
    let tag = TagObject::read(raw);
    assert_eq!(tag.name, b"v1");
    assert!(tag.payload.ends_with(b"tag v2\n"));
    assert!(tag.signature.starts_with(b"-----BEGIN PGP"));
    for unsigned in [
        &b"object 1\ntype commit\ntag v1\n\nbody says -----BEGIN PGP SIGNATURE-----\n"[..],
        b"",
        b"\n",
    ] {
        let tag = TagObject::read(unsigned);
        assert_eq!((tag.payload, tag.signature), (unsigned, &b""[..]));
    }
}
