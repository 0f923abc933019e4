#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use super::*;

/// What comes of reading one flag.
#[derive(Debug, PartialEq)]
enum Outcome {
    Silent,
    NoEffect,
    Refused,
}
use Outcome::{NoEffect, Refused, Silent};

fn outcome(arguments: &[&str]) -> (Outcome, String) {
    let given = ["reconciler", "--volume=/v"].iter().chain(arguments);
    match read(given) {
        Ok(args) => {
            let said = args.run.unwrap().without_effect.join("\n");
            (if said.is_empty() { Silent } else { NoEffect }, said)
        }
        Err(error) => {
            assert_eq!(error.exit_code(), 2);
            (Refused, error.to_string())
        }
    }
}

/// Every flag as helm-operator's own users wrote it.
const CASES: &[(&str, &[&str], Outcome)] = &[
    ("log-format", &["fmt", "json"], Silent),
    ("kubeconfig", &["/k"], Silent),
    ("master", &[""], Silent),
    ("master", &["https://10.0.0.1:6443"], Refused),
    ("allow-namespace", &["", "demo"], Silent),
    ("workers", &["2", "4"], Silent),
    ("listen", &[":3030", "0.0.0.0:3030"], Silent),
    ("tiller-ip", &[""], Silent),
    ("tiller-ip", &["localhost", "10.0.0.1"], Refused),
    ("tiller-port", &[""], Silent),
    ("tiller-port", &["44134"], Refused),
    ("tiller-namespace", &["", "kube-system"], Silent),
    ("tiller-namespace", &["tiller"], NoEffect),
    ("tiller-tls-key-path", &["/etc/fluxd/helm/tls.key"], Refused),
    (
        "tiller-tls-cert-path",
        &["/etc/fluxd/helm/tls.crt"],
        Refused,
    ),
    (
        "tiller-tls-ca-cert-path",
        &["/etc/fluxd/helm-ca/ca.crt"],
        Refused,
    ),
    ("tiller-tls-hostname", &["tiller"], Refused),
    (
        "charts-sync-interval",
        &["3m", "1m30s", "1h0m0s", "0.5h"],
        Silent,
    ),
    ("status-update-interval", &["10s", "30s"], NoEffect),
    ("git-timeout", &["20s", "2m"], Silent),
    ("git-poll-interval", &["5m", "300s"], Silent),
    ("git-default-ref", &["master", "refs/heads/main"], Silent),
    (
        "helm-repository-import",
        &["v3:/root/.helm/repository/repositories.yaml", "v3:/a,v2:/b"],
        Refused,
    ),
    ("enabled-helm-versions", &["v3", "", "v4"], Silent),
    (
        "enabled-helm-versions",
        &["v2", "v2,v3", "v3, v2", "v2.17.0"],
        Refused,
    ),
    (
        "convert-release-storage",
        &["secrets", "configmaps"],
        Refused,
    ),
];

/// Switches take their value after `=` alone, in Go as here.
const SWITCHES: &[(&str, Outcome)] = &[
    ("tiller-tls-verify", Refused),
    ("tiller-tls-enable", Refused),
    ("log-release-diffs", NoEffect),
    ("update-chart-deps", Silent),
    ("convert-tiller-out-cluster", Refused),
];

#[test]
fn the_flags_are_consistent() {
    command().debug_assert();
}

#[test]
fn each_flag_is_treated_as_the_table_says() {
    for (flag, values, expected) in CASES {
        for value in *values {
            let (name, joined) = (format!("--{flag}"), format!("--{flag}={value}"));
            for arguments in [vec![joined.as_str()], vec![name.as_str(), *value]] {
                let (found, said) = outcome(&arguments);
                assert_eq!(found, *expected, "{arguments:?}: {said}");
            }
        }
    }
    for (flag, expected) in SWITCHES {
        for on in ["", "=true", "=1", "=T"] {
            let given = format!("--{flag}{on}");
            assert_eq!(outcome(&[&given]).0, *expected, "{given}");
        }
        for off in ["=false", "=0", "=F"] {
            let given = format!("--{flag}{off}");
            assert_eq!(outcome(&[&given]).0, Silent, "{given}");
        }
        assert_eq!(outcome(&[&format!("--{flag}=perhaps")]).0, Refused);
    }
}

#[test]
fn the_tests_know_every_row_and_every_row_does_what_it_says() {
    let tried: BTreeSet<&str> = CASES
        .iter()
        .map(|(flag, ..)| *flag)
        .chain(SWITCHES.iter().map(|(flag, _)| *flag))
        .chain(["version"])
        .collect();
    let rows: BTreeSet<&str> = ROWS.iter().map(|row| row.flag).collect();
    assert_eq!(tried, rows);
    assert_eq!(rows.len(), ROWS.len());

    let own = Args::command();
    for row in ROWS {
        let is_own = row.flag == "version"
            || own
                .get_arguments()
                .any(|argument| argument.get_long() == Some(row.flag));
        assert_eq!(is_own, row.treatment == Treatment::Accepted, "{}", row.flag);
        let worst = CASES
            .iter()
            .map(|(flag, _, outcome)| (*flag, outcome))
            .chain(SWITCHES.iter().map(|(flag, outcome)| (*flag, outcome)))
            .filter(|(flag, outcome)| *flag == row.flag && **outcome != Silent)
            .map(|(_, outcome)| outcome)
            .next();
        match row.treatment {
            Treatment::Accepted => assert_eq!(worst, None, "{}", row.flag),
            Treatment::NoEffect => assert_eq!(worst, Some(&NoEffect), "{}", row.flag),
            Treatment::Refused => assert_eq!(worst, Some(&Refused), "{}", row.flag),
        }
    }
}

#[test]
fn a_refusal_is_one_line_that_names_the_flag_and_what_to_do() {
    for row in ROWS
        .iter()
        .filter(|row| row.treatment == Treatment::Refused)
    {
        let given = match row.form {
            Form::Value => format!("--{}=v2", row.flag),
            Form::Switch => format!("--{}", row.flag),
        };
        let (_, said) = outcome(&[&given]);
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
        assert!(
            said.starts_with(&format!("error: --{} is refused: ", row.flag)),
            "{said}"
        );
        let helps = ["remove the flag", "--kubeconfig", "write v3 or nothing"];
        assert!(helps.iter().any(|help| said.contains(help)), "{said}");
    }
}

#[test]
fn all_that_is_refused_is_told_at_once() {
    let (_, said) = outcome(&[
        "--tiller-ip=localhost",
        "--tiller-port=44134",
        "--enabled-helm-versions=v3",
        "--enabled-helm-versions=v2",
    ]);
    let flags: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("error: --")?.split(' ').next())
        .collect();
    assert_eq!(flags, ["tiller-ip", "tiller-port", "enabled-helm-versions"]);
}

/// What the last chart of helm-operator writes with Helm 3 and nothing else chosen.
#[test]
fn a_deployment_with_the_charts_arguments_starts() {
    let (_, said) = outcome(&[
        "--enabled-helm-versions=v3",
        "--log-format=fmt",
        "--git-timeout=20s",
        "--git-poll-interval=5m",
        "--charts-sync-interval=3m",
        "--status-update-interval=30s",
        "--update-chart-deps=true",
        "--log-release-diffs=false",
        "--workers=4",
        "--tiller-namespace=kube-system",
    ]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("--status-update-interval has no effect: "));
}

#[test]
fn help_hides_them_and_names_the_page() {
    let help = command().render_long_help().to_string();
    assert!(help.contains("MIGRATION.md"), "{help}");
    assert!(!help.contains("tiller"), "{help}");
}

#[test]
fn the_page_has_each_once() {
    let text = markdown();
    for row in ROWS {
        let name = format!("`--{}`", row.flag);
        assert_eq!(text.matches(&name).count(), 1, "{name}");
        assert!(text.contains(row.sentence), "{name}");
    }
    assert!(
        text.contains("| `--enabled-helm-versions`, `HELM_VERSION` | refused if it names `v2` |")
    );
    assert!(text.lines().all(|line| line.matches('|').count() == 4));
}
