//! What the demo prints on standard output.

use std::io::Write;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use comfy_table::{Table, presets};

use crate::stage::Stage;

pub(crate) fn line(text: impl AsRef<str>) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{}", text.as_ref())?)
}

pub(crate) async fn releases(stage: &Stage) -> Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "HelmRelease",
        "phase",
        "commit",
        "revisions in helm",
        "Ready",
    ]);
    for name in stage.names() {
        let found = stage.releases.get(name).await?;
        let text = |field: &str| found.status(field).as_str().unwrap_or("-").to_owned();
        let history = stage.helm.history(stage.releases.namespace(), name)?;
        let history: Vec<String> = history
            .iter()
            .map(|one| format!("{} {}", one.revision, one.status))
            .collect();
        let ready = found
            .condition("Ready")
            .map(|one| one.0.to_owned())
            .unwrap_or_default();
        let commit = text("revision");
        table.add_row([
            name.clone(),
            text("phase"),
            commit.get(..10).unwrap_or(&commit).to_owned(),
            history.join(", "),
            ready,
        ]);
    }
    line(format!("\n{table}"))
}

/// What the product itself makes of the volume.
pub(crate) fn status(stage: &Stage) -> Result<()> {
    let volume = stage.volume.path();
    let program = stage.reconciler_program.display();
    line(format!(
        "\n$ {program} status --volume {}",
        volume.display()
    ))?;
    let output = Command::new(&stage.reconciler_program)
        .args(["status", "--volume"])
        .arg(&volume)
        .output()
        .context("reconciler status did not start")?;
    line(String::from_utf8_lossy(&output.stdout).trim_end())?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

pub(crate) fn where_to_look(stage: &Stage) -> Result<()> {
    let volume = stage.volume.path();
    line("\nWhere to look:")?;
    line(format!("  volume      export VOLUME={}", volume.display()))?;
    line(format!(
        "  cluster     export KUBECONFIG={}",
        stage.cluster.kubeconfig().display()
    ))?;
    line(format!(
        "              kubectl --namespace {} get helmreleases",
        stage.releases.namespace()
    ))?;
    if let Some(repository) = &stage.repository {
        line(format!(
            "  charts      {} (change, commit, git push)",
            repository.upstream.work().display()
        ))?;
    }
    for (role, name) in [
        (&stage.sidecar, "mirror-sidecar"),
        (&stage.reconciler, "reconciler"),
    ] {
        line(format!(
            "  {name:<15} http://{}/metrics, log {}",
            role.address(),
            role.log_file().display()
        ))?;
    }
    Ok(())
}
