//! Push webhooks: whoever proves to know a secret may ask for the sources of a repository to
//! be checked now. They have an address of their own, which may be reachable from outside:
//! everything that comes in is bounded, and nothing of it is believed before its proof.
//!
//! `delivery -> proof -> event -> addresses -> controller -> refresh tokens`

mod address;
mod answer;
mod push;
mod receiver;
mod secrets;
mod server;
mod signature;

use std::time::Duration;

pub use address::Address;
pub use server::{Shared, serve};

/// Largest body. Forges cut the list of commits in a push; what is larger nevertheless is
/// left to the next poll.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// How long a delivery may take, all in all. Forges wait ten seconds for an answer.
const PATIENCE: Duration = Duration::from_secs(8);
