//! The contract between the two containers of Tandem, as a library.
//!
//! `mirror -> snapshot -> publish ┃volume┃ trigger -> gather -> plan -> release -> report`
//!
//! Everything that passes between `mirror-sidecar` and `reconciler` is a file
//! on a volume. This crate is the only place that spells a path of that
//! volume, that writes, renames or removes a file on it, and that takes a
//! lock. It knows neither tokio, nor Kubernetes, nor git.
//!
//! | module | what it settles |
//! |---|---|
//! | [`layout`] | where every file lies: two mounts with one writer each, and the credentials |
//! | [`names`] | how a source or an object becomes a file name |
//! | [`source`], [`request`], [`manifest`], [`decision`] | what the files say |
//! | [`version`] | which files a role reads, and which it refuses, in words |
//! | [`artifact`] | a chart or file tree as one deterministic tar, named by its content |
//! | [`publish`] | how a file appears: whole or not at all |
//! | [`observe`] | how a file is read: bounded, validated, never believed |
//! | [`watch`] | hints that something may have changed |
//! | [`lock`], [`child`] | one live process per role, one writer per mirror, one operation per release |
//! | [`memory`] | keeping an idle process small |
//! | [`clock`], [`memory`] | the time as files tell it; the heap of a small process |
//! | [`credentials`] | secrets on their own volume, in memory |
//! | [`verify`] | what has to be signed, and what is a key to check that by |

pub mod artifact;
pub mod child;
pub mod clock;
pub mod credentials;
pub mod decision;
pub mod layout;
pub mod lock;
pub mod manifest;
pub mod memory;
pub mod names;
pub mod observe;
pub mod publish;
pub mod request;
pub mod schema;
pub mod source;
pub mod verify;
pub mod version;
pub mod watch;
