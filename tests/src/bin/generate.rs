//! Writes what is made from code in this repository: the JSON Schemas of the
//! contract, the CustomResourceDefinition, the page of the planner's decisions,
//! and the table of helm-operator's flags in the migration page.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use tandem_tests::command_line::arguments;
use tandem_tests::progress::note;

const MIGRATION: &str = "MIGRATION.md";
const BEGIN: &str = "<!-- written by `cargo generate` -->";
const END: &str = "<!-- until here -->";

/// Writes what is generated from code.
#[derive(Parser)]
struct Args {
    /// Change nothing; name the files that differ and fail if there are any.
    #[arg(long)]
    check: bool,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse_from(arguments());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut stale = Vec::new();
    for (name, content) in generated(&root)? {
        let path = root.join(&name);
        if fs::read_to_string(&path).is_ok_and(|is| is == content) {
            continue;
        }
        if !args.check {
            write(&path, &content).with_context(|| format!("{name} can't be written"))?;
        }
        stale.push(name);
    }
    let verb = if args.check {
        "differs from what `cargo generate` writes"
    } else {
        "written"
    };
    for name in &stale {
        note(format!("{name}: {verb}"));
    }
    let failed = args.check && !stale.is_empty();
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Every generated file: its path from the root of the repository, and content.
fn generated(root: &Path) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for (name, schema) in tandem_shared::schema::all() {
        files.push((
            format!("shared/schemas/{name}"),
            format!("{}\n", serde_json::to_string_pretty(&schema)?),
        ));
    }
    files.push(("deploy/crd.yaml".to_owned(), reconciler::crd::crd_yaml()?));
    let page = fs::read_to_string(root.join(MIGRATION))
        .with_context(|| format!("{MIGRATION} can't be read"))?;
    let page = between_marks(&page, &reconciler::upstream_flags::markdown())
        .with_context(|| format!("{MIGRATION} lacks {BEGIN:?} or {END:?}"))?;
    files.push((MIGRATION.to_owned(), page));
    files.push((
        "reconciler/plan-table.md".to_owned(),
        reconciler::reconcile::plan::table_page(),
    ));
    Ok(files)
}

/// The page with `text` between its marks.
fn between_marks(page: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{text}\n{END}{after}"))
}

#[allow(
    clippy::disallowed_methods,
    reason = "a file of the repository, not of the volume"
)]
fn write(path: &Path, content: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(fs::write(path, content)?)
}
