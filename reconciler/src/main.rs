//! The `reconciler` binary: parse, build, run.

use std::process::ExitCode;

use reconciler::{command, upstream_flags};

fn main() -> ExitCode {
    tandem_shared::memory::share_heaps();
    let args = upstream_flags::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    match command::run(args) {
        Ok(code) => code,
        Err(error) => command::complain(&error),
    }
}
