//! The half of Tandem that performs releases: HelmRelease objects in, Helm releases out.
//! It contacts nothing but the Kubernetes API; charts come from files on the volume.
//!
//! `mirror -> snapshot -> publish ┃volume┃ trigger -> gather -> plan -> release -> report`

pub mod crd;
pub mod helm;
pub mod identity;
pub mod mask;
pub mod reconcile;
pub mod storage;
pub mod values;
