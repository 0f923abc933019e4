//! mirror-sidecar alone, asked by hand-written requests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

mod bad_input;
mod breaking;
mod common;
mod credentials;
mod dependencies;
mod following;
mod names;
mod reasons;
mod registries;
mod registry_dependencies;
mod repositories;
mod servers;
mod serving;
mod submodules;
mod urls;
mod verify;
