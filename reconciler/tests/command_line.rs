//! The program as a pod starts it, with arguments that were helm-operator's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::{Command, Output};

fn reconciler(arguments: &[&str], helm_version: Option<&str>) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reconciler"));
    command.args(arguments).env_remove("HELM_VERSION");
    if let Some(version) = helm_version {
        command.env("HELM_VERSION", version);
    }
    let Output { status, stderr, .. } = command.output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn what_is_refused_ends_it_with_one_line() {
    let (status, said) = reconciler(&["--volume=/v", "--enabled-helm-versions", "v2,v3"], None);
    assert_eq!(status, Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("--enabled-helm-versions is refused"),
        "{said}"
    );
}

#[test]
fn the_variable_stands_for_the_flag_only_where_the_flag_is_missing() {
    let (status, said) = reconciler(&["--volume=/v"], Some("v2"));
    assert_eq!(status, Some(2), "{said}");
    assert!(said.starts_with("error: HELM_VERSION is refused"), "{said}");

    // Here and below: it gets as far as the next mistake, and there it ends.
    let flags = ["--volume=/v", "--listen=none"];
    let (status, said) = reconciler(&flags, Some("v3.21.0"));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("--listen"), "{said}");

    let flags = [&flags[..], &["--enabled-helm-versions=v3"]].concat();
    let (status, said) = reconciler(&flags, Some("v2"));
    assert_eq!(status, Some(1), "{said}");
}

#[test]
fn the_variable_concerns_no_other_command() {
    let (status, said) = reconciler(&["crd"], Some("v2"));
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn what_has_no_effect_is_told_once_in_the_log() {
    let flags = [
        "--volume=/v",
        "--listen=none",
        "--status-update-interval=30s",
    ];
    let (_, said) = reconciler(&flags, None);
    let told = said.lines().filter(|line| {
        line.contains("WARN") && line.contains("--status-update-interval has no effect")
    });
    assert_eq!(told.count(), 1, "{said}");
}
