//! The harness of Tandem's end-to-end tests, its demo and its benchmark.
//!
//! Everything here is real: a control plane, git servers, helm, and the
//! product's two binaries as separate processes. Nothing outlives the process
//! that started it, and nothing is shared between two suites but the programs
//! that were built once.

// The clippy bans protect the volume inside the product; the harness stands
// outside it and spoils it on purpose.
#![allow(clippy::disallowed_methods)]

pub mod charts;
pub mod cluster;
pub mod command_line;
pub mod daemon;
pub mod git;
pub mod guard;
pub mod helm;
pub mod helm_repository;
pub mod http_client;
pub mod kubernetes;
pub mod metrics;
pub mod mounts;
pub mod pair;
pub mod pki;
pub mod probe;
pub mod procfs;
pub mod programs;
pub mod progress;
pub mod proxy;
pub mod registry;
pub mod requests;
pub mod unreachable;
pub mod volume;
pub mod wait;
pub mod world;
