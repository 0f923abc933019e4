//! The pair at work on a real control plane, from nothing to a release that
//! follows a push.

mod args;
mod show;
mod stage;
mod story;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use tandem_tests::command_line::arguments;
use tandem_tests::progress::note;

use args::Args;
use stage::Stage;

fn main() -> ExitCode {
    let args = Args::parse_from(arguments());
    let ended = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(run(&args)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(format!("demo: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<()> {
    let mut stage = Stage::set(args).await?;
    // Ctrl-C at any point goes through the same door as the end of the story.
    let told = tokio::select! {
        told = story::tell(&mut stage, args) => told,
        pressed = tokio::signal::ctrl_c() => pressed.map_err(Into::into),
    };
    let cleaned = stage.strike().await;
    told.and(cleaned)
}
