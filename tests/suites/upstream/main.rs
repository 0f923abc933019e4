//! What helm-operator's own end-to-end cases promise, on a real control plane and with real
//! helm. Each test bears the title of the case that it answers, as its name or above it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
mod installs;
mod rollbacks;
mod tests;
mod values;
