//! Large repositories, made by `git fast-import` in seconds.

use std::io::{BufWriter, Write};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tandem_tests::charts;
use tandem_tests::git::{Upstream, Upstreams, git};

/// Bytes of each file that is no chart's.
const FILE_BYTES: usize = 2_000;

/// A repository with `files` files, `commits` commits of one file each, and `refs` refs
/// along its history.
pub(crate) fn history(
    upstreams: &Upstreams,
    name: &str,
    commits: u32,
    files: u32,
    refs: u32,
) -> Result<Upstream> {
    let upstream = upstreams.create(name)?;
    import(&upstream, |out| {
        let chart = charts::config_map("charts/app", "first");
        commit(out, "refs/heads/main", "Begin", |out| {
            for (path, content) in &chart {
                file(out, path, content.as_bytes())?;
            }
            (0..files).try_for_each(|number| file(out, &path(number), &text(number, 0)))
        })?;
        for number in 1..commits {
            commit(out, "refs/heads/main", "Change one file", |out| {
                let changed = number % files;
                file(out, &path(changed), &text(changed, number))
            })?;
            // As many refs as asked for, evenly along the history.
            let due = |at: u32| u64::from(at) * u64::from(refs) / u64::from(commits);
            for reference in due(number - 1)..due(number) {
                let kind = if reference % 2 == 0 { "tags" } else { "heads" };
                writeln!(
                    out,
                    "reset refs/{kind}/release-{reference}\nfrom refs/heads/main\n"
                )?;
            }
        }
        Ok(())
    })?;
    // As a host keeps a repository that is fetched often.
    upstream.run_bare(&["repack", "-adq", "--write-bitmap-index"])?;
    upstream.run_bare(&["pack-refs", "--all"])?;
    upstream.run(&[
        "fetch",
        "--quiet",
        "--depth=1",
        &upstream.file_url(),
        "main",
    ])?;
    upstream.run(&["reset", "--quiet", "--hard", "FETCH_HEAD"])?;
    Ok(upstream)
}

/// A small repository with `refs` tags.
pub(crate) fn tags(upstreams: &Upstreams, name: &str, refs: u32) -> Result<Upstream> {
    let upstream = upstreams.create(name)?;
    upstream.write_all(&charts::config_map("charts/app", "first"))?;
    let commit = upstream.push("main", "Begin")?;
    let mut packed = String::from("# pack-refs with: peeled fully-peeled sorted \n");
    packed += &format!("{commit} refs/heads/main\n");
    for number in 0..refs {
        packed += &format!("{commit} refs/tags/release-{number:06}\n");
    }
    tandem_tests::guard::write(&upstream.bare().join("packed-refs"), packed)?;
    Ok(upstream)
}

/// A repository of `charts` charts with `branches` branches, each with a commit of its own.
pub(crate) fn charts(
    upstreams: &Upstreams,
    name: &str,
    charts: u32,
    branches: u32,
) -> Result<Upstream> {
    let upstream = upstreams.create(name)?;
    for chart in 0..charts {
        upstream.write_all(&charts::application(&chart_path(chart), "first"))?;
    }
    for branch in 0..branches {
        upstream.write("branch", format!("{branch}\n"))?;
        for chart in 0..charts {
            upstream.write(
                &format!("{}/values.yaml", chart_path(chart)),
                format!("branch: {branch}\nmarker: first\nimage: app:1\nreplicas: 1\n"),
            )?;
        }
        upstream.push(&branch_name(branch), "Begin a branch")?;
    }
    Ok(upstream)
}

/// The folder of a chart.
pub(crate) fn chart_path(chart: u32) -> String {
    format!("charts/chart-{chart:03}")
}

/// The name of a branch.
pub(crate) fn branch_name(branch: u32) -> String {
    format!("env-{branch:02}")
}

/// The same repository under another name, so that it is another source.
pub(crate) fn again(upstreams: &Upstreams, upstream: &Upstream, name: &str) -> Result<()> {
    let link = upstreams.root().join(format!("{name}.git"));
    symlink(upstream.bare(), &link).with_context(|| link.display().to_string())
}

fn import(
    upstream: &Upstream,
    write: impl FnOnce(&mut BufWriter<std::process::ChildStdin>) -> Result<()>,
) -> Result<()> {
    let mut command: Command = git()?;
    let mut child = command
        .arg("--git-dir")
        .arg(upstream.bare())
        .args(["fast-import", "--quiet", "--done"])
        .stdin(Stdio::piped())
        .spawn()
        .context("git fast-import did not start")?;
    let mut out = BufWriter::new(child.stdin.take().context("no standard input")?);
    write(&mut out)?;
    writeln!(out, "done")?;
    drop(out);
    let status = child.wait()?;
    ensure!(status.success(), "git fast-import: {status}");
    Ok(())
}

fn commit<W: Write>(
    out: &mut W,
    branch: &str,
    message: &str,
    files: impl FnOnce(&mut W) -> Result<()>,
) -> Result<()> {
    writeln!(out, "commit {branch}")?;
    writeln!(out, "committer Ada Test <ada@example.org> 1700000000 +0000")?;
    writeln!(out, "data {}\n{message}", message.len())?;
    files(out)?;
    Ok(writeln!(out)?)
}

fn file(out: &mut impl Write, path: &str, content: &[u8]) -> Result<()> {
    writeln!(out, "M 100644 inline {path}\ndata {}", content.len())?;
    out.write_all(content)?;
    Ok(writeln!(out)?)
}

fn path(number: u32) -> String {
    format!("src/{:02}/{number:05}.txt", number % 100)
}

/// Text that packs to about half, another one for each file and revision.
fn text(number: u32, revision: u32) -> Vec<u8> {
    let mut state = (u64::from(number) << 32 | u64::from(revision)) | 1 << 63;
    (0..FILE_BYTES)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            b"0123456789abcdef"[(state & 15) as usize]
        })
        .collect()
}
