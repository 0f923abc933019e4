//! What a helm child sees of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

use super::HelmError;

/// What is passed on: how to reach the API server, and where programs and certificates
/// are. Nothing that names a secret, and no helm setting.
const PASSED_ON: &[&str] = &[
    "PATH",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "TZ",
];

/// How much garbage a helm child may have beside what it uses, in percent, before it collects
/// any: mostly it lives for half a second. Go's own 100 costs it about 4 % more processor time;
/// 400 would save as much again, and hold five times what a large chart needs.
const GARBAGE: &str = "200";

/// A private home directory for helm children: empty at first, shared by them (it holds
/// the cache of what kinds the API server knows), removed with the last clone.
#[derive(Clone, Debug)]
pub(super) struct Home(Arc<TempDir>);

impl Home {
    /// A new home in `scratch`, readable by us alone.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn new(scratch: &Path) -> std::io::Result<Self> {
        Ok(Self(Arc::new(
            tempfile::Builder::new()
                .prefix("helm-home-")
                .tempdir_in(scratch)?,
        )))
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Helm keeps its records where we follow them, or we don't start.
pub(super) fn check_driver(driver: Option<String>) -> Result<(), HelmError> {
    match driver.as_deref() {
        None | Some("" | "secret" | "secrets") => Ok(()),
        Some(other) => Err(HelmError::Driver(other.to_owned())),
    }
}

/// The program in its private environment.
pub(super) fn command(program: &Path, home: &Home) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    for name in PASSED_ON {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    for (name, directory) in [
        ("HOME", ""),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_DATA_HOME", "data"),
        ("HELM_CACHE_HOME", "cache/helm"),
        ("HELM_CONFIG_HOME", "config/helm"),
        ("HELM_DATA_HOME", "data/helm"),
        ("HELM_PLUGINS", "plugins"),
        ("TMPDIR", ""),
    ] {
        command.env(name, home.join(directory));
    }
    command
        .env("HELM_DRIVER", "secret")
        .env("HELM_NO_PLUGINS", "1")
        .env("GOGC", GARBAGE);
    command.current_dir(home.0.path());
    command
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_records_in_secrets_are_supported() {
        for driver in [None, Some(""), Some("secret"), Some("secrets")] {
            assert!(
                check_driver(driver.map(ToOwned::to_owned)).is_ok(),
                "{driver:?}"
            );
        }
        for driver in ["configmap", "configmaps", "memory", "sql"] {
            let error = check_driver(Some(driver.to_owned()))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(driver) && error.contains("unset HELM_DRIVER"),
                "{error}"
            );
        }
    }

    #[test]
    fn nothing_but_the_list_is_passed_on() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::new(scratch.path()).unwrap();
        let command = command(Path::new("helm"), &home);
        let own = [
            "GOGC",
            "HOME",
            "TMPDIR",
            "HELM_DRIVER",
            "HELM_NO_PLUGINS",
            "HELM_PLUGINS",
        ];
        for (name, _) in command.get_envs() {
            let name = name.to_str().unwrap();
            let private = own.contains(&name)
                || name.starts_with("XDG_")
                || name.starts_with("HELM_") && name.ends_with("_HOME");
            assert!(private || PASSED_ON.contains(&name), "{name}");
        }
        assert_eq!(command.get_current_dir(), Some(home.0.path()));
    }

    #[test]
    fn the_home_goes_with_its_last_user() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::new(scratch.path()).unwrap();
        let clone = home.clone();
        let path = home.join("");
        drop(home);
        assert!(path.exists());
        drop(clone);
        assert!(!path.exists());
    }
}
