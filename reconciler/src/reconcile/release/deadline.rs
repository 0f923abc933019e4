//! How long a child may take in all. Helm's own `--timeout` is for each step: every hook,
//! the objects, and what is waited for.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::Job;
use crate::reconcile::plan::Action;

/// What helm needs beside its steps: to render, to compare, to write.
const OVERHEAD: Duration = Duration::from_secs(60);
/// Directories deeper than this hold no templates.
const MAX_DEPTH: usize = 16;

/// The deadline of the job's child: (hooks + 2) x timeout + 60 s, with the hooks of the
/// last record or of the chart, whichever are more. Reads the chart's templates.
pub(super) fn of(job: &Job, recorded: usize) -> Duration {
    let charted = job
        .chart
        .as_ref()
        .map_or(0, |chart| hooks_in(&chart.directory, 0));
    let timeout = match job.action {
        Action::Rollback { .. } => job.spec.rollback().timeout(),
        Action::Test { .. } => job.spec.test().timeout(),
        _ => job.spec.timeout(),
    };
    total(recorded.max(charted), timeout)
}

fn total(hooks: usize, timeout: Duration) -> Duration {
    let steps = u32::try_from(hooks).unwrap_or(u32::MAX).saturating_add(2);
    timeout.saturating_mul(steps).saturating_add(OVERHEAD)
}

/// Hook annotations in the templates of a chart and its subcharts. What can't be read
/// counts as none: helm will say what is wrong with it.
fn hooks_in(directory: &Path, depth: usize) -> usize {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let mut hooks = 0;
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let path = entry.path();
        if kind.is_dir() && depth < MAX_DEPTH {
            hooks += hooks_in(&path, depth + 1);
        } else if kind.is_file() && in_templates(&path) {
            hooks += fs::read(&path).map_or(0, |bytes| annotations(&bytes));
        }
    }
    hooks
}

fn in_templates(path: &Path) -> bool {
    path.components()
        .any(|part| part.as_os_str() == "templates")
}

fn annotations(template: &[u8]) -> usize {
    const ANNOTATION: &[u8] = b"helm.sh/hook";
    let mut count = 0;
    for (start, window) in template.windows(ANNOTATION.len()).enumerate() {
        // `helm.sh/hook-weight` and the like are no hooks of their own.
        let more = template.get(start + ANNOTATION.len());
        count += usize::from(window == ANNOTATION && more != Some(&b'-'));
    }
    count
}

#[cfg(test)]
mod tests {
    // Charts of a test are no files of the volume.
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]

    use super::*;

    #[test]
    fn every_hook_has_its_own_time() {
        let timeout = Duration::from_secs(300);
        assert_eq!(total(0, timeout), Duration::from_secs(660));
        assert_eq!(total(3, timeout), Duration::from_secs(1560));
        assert!(total(usize::MAX, Duration::MAX) >= Duration::from_secs(660));
    }

    #[test]
    fn hooks_are_counted_in_templates_of_subcharts_too() {
        let chart = tempfile::tempdir().unwrap();
        let hook = "annotations:\n  \"helm.sh/hook\": post-install\n  helm.sh/hook-weight: \"1\"\n";
        for (path, text) in [
            ("Chart.yaml", hook),
            ("templates/job.yaml", hook),
            ("templates/cm.yaml", "kind: ConfigMap"),
            ("charts/sub/templates/tests/t.yaml", hook),
        ] {
            let path = chart.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(hooks_in(chart.path(), 0), 2);
        assert_eq!(hooks_in(&chart.path().join("missing"), 0), 0);
    }
}
