//! The half of Tandem that performs releases: HelmRelease objects in, Helm releases out.
//! It contacts nothing but the Kubernetes API; charts come from files on the volume.
//!
//! `mirror -> snapshot -> publish ┃volume┃ trigger -> gather -> plan -> release -> report`
//!
//! | module | what it settles |
//! |---|---|
//! | [`args`], [`upstream_flags`], [`config`], [`command`], [`app`] | how it is started, and what that amounts to |
//! | [`crd`] | the HelmRelease, and what its fields mean |
//! | [`watches`], [`releases`], [`records`] | HelmReleases and Helm's records, followed and kept in memory |
//! | [`references`] | the ConfigMaps and Secrets that HelmReleases name, followed by their metadata |
//! | [`triggers`], [`served`], [`view`] | manifests, followed, and what they say about one want |
//! | [`demand`], [`wanted`], [`credentials`] | what is asked of the sidecar, and with which secrets |
//! | [`controller`] | what concerns whom, and whose turn it is |
//! | [`reconcile`] | one pass: gather, plan, release, report |
//! | [`values`], [`identity`], [`mask`] | what a release is made from, how that is known again, and what stays unsaid |
//! | [`helm`], [`storage`] | the program, and the records that it keeps |
//! | [`webhooks`] | pushes that forges tell of, proved and matched with sources |
//! | [`status`], [`events`], [`metrics`], [`http`], [`status_table`] | what operators see |

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
pub mod references;
pub mod releases;
pub mod served;
pub mod status;
pub mod status_table;
pub mod storage;
pub mod triggers;
pub mod upstream_flags;
pub mod values;
pub mod view;
pub mod wanted;
pub mod watches;
pub mod webhooks;
