//! One pass over one HelmRelease: `gather -> plan -> release -> report`.

pub mod plan;
pub mod release;
