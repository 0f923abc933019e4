//! `reconciler status`: source → ref → commit → chart → release, from the volume alone.

mod overview;
mod read;
mod show;
#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::Context as _;
use tandem_shared::layout::Volume;

use crate::args::Output;

pub use overview::{Overview, Role, Row, overview};
pub use read::{Contents, read};

/// What there is on the volume in `root`, as text, and whether all of it is well: every
/// release as it should be, no source with a problem, both processes alive.
///
/// # Errors
/// If there is no volume.
pub fn text(root: &Path, output: Output) -> anyhow::Result<(String, bool)> {
    let contents = read(&Volume::at(root)).with_context(|| {
        format!(
            "{} is no volume that a reconciler ever started on",
            root.display()
        )
    })?;
    let overview = overview(&contents);
    let text = match output {
        Output::Table => show::table(&overview),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(&overview)?),
    };
    Ok((text, overview.well))
}
