//! A Helm repository: its index, the version that is wanted of a chart, and its archive.
//!
//! The index may have tens of megabytes. It lies on the volume, is asked for only if it
//! changed, and is read as a stream, of which only the wanted charts are kept.

mod choose;
mod download;
mod error;
mod events;
mod index;
mod place;
mod pull;
mod store;

pub use choose::{Miss, choose};
pub use download::{Download, download};
pub use error::RepositoryError;
pub use index::{Entry, Index};
pub use place::{index_url, is_chart_name, server_of};
pub use store::{Arrived, Fetched, Held, Store};

#[cfg(test)]
mod tests;
