//! The time, as files tell it.

use jiff::{Timestamp, Unit};

/// Now, to the millisecond: a label for people. Nothing is scheduled by it.
#[must_use]
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    now.round(Unit::Millisecond).unwrap_or(now)
}
