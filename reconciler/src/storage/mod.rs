//! Helm's own release records: Secrets named `sh.helm.release.v1.<name>.v<revision>`.
//!
//! A steady state needs only their metadata ([`RecordMeta`]); a record is fetched and
//! decoded ([`Record`]) when its contents decide something.

mod codec;
mod meta;
mod record;
mod store;

pub use codec::{CodecError, decode, encode};
pub use meta::{History, MetaError, RecordMeta, RecordState};
pub use record::{ApplyMethod, MARKED_FAILED, Record};
pub use store::{Store, StoreError};

#[cfg(test)]
pub(crate) use record::tests;

/// Label selector of all records that a watch needs: all but the superseded ones.
pub const WATCH_SELECTOR: &str = "owner=helm,status!=superseded";
/// Label selector of what is no record.
pub const NO_RECORD_SELECTOR: &str = "owner!=helm";
