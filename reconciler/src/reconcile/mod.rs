//! One pass over one HelmRelease: `gather -> plan -> release -> report`.

pub mod backoff;
pub mod content;
pub mod facts;
pub mod objects;
pub mod plan;
pub mod release;
