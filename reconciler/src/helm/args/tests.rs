use super::*;

fn target() -> Target {
    Target {
        namespace: "demo".into(),
        name: "app".into(),
    }
}

fn upgrade(target: &Target, apply: Apply) -> Upgrade<'_> {
    Upgrade {
        target,
        chart: Path::new("/x/chart"),
        label: "k=v".into(),
        description: "d",
        apply,
        timeout: Duration::from_secs(60),
        wait: false,
        skip_validation: false,
        reset_values: true,
        history: 10,
    }
}

fn install(target: &Target, apply: Apply) -> Install<'_> {
    Install {
        target,
        chart: Path::new("/x/chart"),
        label: "k=v".into(),
        description: "d",
        apply,
        timeout: Duration::from_secs(300),
        wait: true,
        skip_crds: true,
        skip_validation: false,
        replace: false,
    }
}

fn rollback(target: &Target, apply: Apply) -> Rollback<'_> {
    Rollback {
        target,
        to: 3,
        apply,
        timeout: Duration::from_secs(300),
        wait: true,
        no_hooks: true,
        recreate_pods: true,
        history: 3,
    }
}

#[test]
fn install_on_helm_4() {
    let target = target();
    assert_eq!(
        install(&target, Apply::ServerSide)
            .args(Major::Four)
            .join(" "),
        "install app --namespace demo /x/chart --values - --labels k=v --description d \
         --timeout 300s --wait --skip-crds --server-side=true --force-conflicts \
         --disable-openapi-validation"
    );
}

#[test]
fn install_on_helm_3() {
    let target = target();
    let install = Install {
        replace: true,
        ..install(&target, Apply::ClientSide)
    };
    assert_eq!(
        install.args(Major::Three).join(" "),
        "install app --namespace demo /x/chart --values - --labels k=v --description d \
         --timeout 300s --wait --skip-crds --replace"
    );
}

#[test]
fn upgrade_says_how_to_apply() {
    let target = target();
    let tail = |apply, major| {
        let args = upgrade(&target, apply).args(major).join(" ");
        let common = "upgrade app --namespace demo /x/chart --values - --labels k=v \
                      --description d --reset-values --timeout 60s --history-max 10";
        args.strip_prefix(common).map(|tail| tail.trim().to_owned())
    };
    let server = "--server-side=true --force-conflicts --disable-openapi-validation";
    for (apply, major, expected) in [
        (Apply::ServerSide, Major::Four, server),
        (Apply::ClientSide, Major::Four, "--server-side=false"),
        (
            Apply::Replace,
            Major::Four,
            "--server-side=false --force-replace",
        ),
        (Apply::ClientSide, Major::Three, ""),
        (Apply::Replace, Major::Three, "--force"),
    ] {
        assert_eq!(
            tail(apply, major).as_deref(),
            Some(expected),
            "{apply:?} {major:?}"
        );
    }
}

#[test]
fn values_are_reset_or_reused_explicitly() {
    let target = target();
    let reuse = Upgrade {
        reset_values: false,
        ..upgrade(&target, Apply::ServerSide)
    };
    let args = reuse.args(Major::Four);
    assert!(args.contains(&"--reuse-values".to_owned()));
    assert!(!args.contains(&"--reset-values".to_owned()));
}

#[test]
fn rollback_names_its_revision_and_keeps_history() {
    let target = target();
    assert_eq!(
        rollback(&target, Apply::Replace)
            .args(Major::Four)
            .join(" "),
        "rollback app --namespace demo 3 --timeout 300s --history-max 3 --wait --no-hooks \
         --server-side=false --force-replace"
    );
    assert_eq!(
        rollback(&target, Apply::ClientSide)
            .args(Major::Three)
            .join(" "),
        "rollback app --namespace demo 3 --timeout 300s --history-max 3 --wait --no-hooks \
         --recreate-pods"
    );
}

#[test]
fn uninstall_waits() {
    let target = target();
    let uninstall = Uninstall {
        target: &target,
        timeout: Duration::from_secs(5),
        no_hooks: true,
    };
    assert_eq!(
        uninstall.args().join(" "),
        "uninstall app --namespace demo --timeout 5s --wait --no-hooks"
    );
    let test = Test {
        target: &target,
        timeout: Duration::from_millis(1),
    };
    assert_eq!(
        test.args().join(" "),
        "test app --namespace demo --timeout 1s"
    );
}

#[test]
fn no_atomic_flag_ever() {
    let target = target();
    for apply in [Apply::ServerSide, Apply::ClientSide, Apply::Replace] {
        for major in [Major::Three, Major::Four] {
            let all = [
                install(&target, apply).args(major),
                upgrade(&target, apply).args(major),
                rollback(&target, apply).args(major),
            ];
            for flag in ["--atomic", "--rollback-on-failure"] {
                assert!(!all.concat().contains(&flag.to_owned()));
            }
        }
    }
}

#[test]
fn the_last_record_says_how_to_apply() {
    use ApplyMethod::{ClientSide, ServerSide};
    for (major, last, force, expected) in [
        (Major::Four, None, false, Apply::ServerSide),
        (Major::Four, Some(ServerSide), false, Apply::ServerSide),
        (Major::Four, Some(ClientSide), false, Apply::ClientSide),
        (Major::Four, Some(ServerSide), true, Apply::Replace),
        (Major::Three, None, false, Apply::ClientSide),
        (Major::Three, Some(ServerSide), false, Apply::ClientSide),
        (Major::Three, Some(ClientSide), true, Apply::Replace),
    ] {
        assert_eq!(Apply::choose(major, last, force), expected);
    }
}
