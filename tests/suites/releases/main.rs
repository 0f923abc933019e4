//! The pair: HelmReleases and pushes in, Helm releases out.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

mod annotations;
mod antecedent;
mod bad_input;
mod common;
mod credentials;
mod dependencies;
mod failures;
mod git_files;
mod life;
mod owners;
mod redaction;
mod registries;
mod repositories;
mod rotation;
mod sources;
mod urls;
mod values;
mod verify;
mod webhooks;
