//! The `reconciler` binary: parse, build, run.

use std::process::ExitCode;

use clap::Parser;
use reconciler::args::Args;
use reconciler::command;

fn main() -> ExitCode {
    tandem_shared::memory::share_heaps();
    match command::run(Args::parse()) {
        Ok(code) => code,
        Err(error) => command::complain(&error),
    }
}
