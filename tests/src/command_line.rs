//! The command line of the aliases in `.cargo/config.toml`.

use std::env;
use std::ffi::OsString;

/// The arguments of this process, without the `--` that people put behind an
/// alias which ends with one already: `cargo demo -- --once` is
/// `cargo demo --once`.
#[must_use]
pub fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "--") {
        arguments.remove(1);
    }
    arguments
}
