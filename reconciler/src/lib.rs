//! The half of Tandem that performs releases: HelmRelease objects in, Helm releases out.
//! It contacts nothing but the Kubernetes API; charts come from files on the volume.
//!
//! `mirror -> snapshot -> publish ┃volume┃ trigger -> gather -> plan -> release -> report`

pub mod app;
pub mod args;
pub mod command;
pub mod config;
pub mod controller;
pub mod crd;
pub mod credentials;
pub mod demand;
pub mod events;
pub mod helm;
pub mod http;
pub mod identity;
pub mod logging;
pub mod mask;
pub mod metrics;
pub mod reconcile;
pub mod records;
pub mod releases;
pub mod served;
pub mod status;
pub mod status_table;
pub mod storage;
pub mod triggers;
pub mod values;
pub mod view;
pub mod wanted;
pub mod watches;
