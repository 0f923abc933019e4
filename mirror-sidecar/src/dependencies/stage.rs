//! One dependency, got by the real helm in a folder that nobody else sees: a chart that
//! depends on it and on nothing else, a home without anything of ours, and settings that
//! name the one repository.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use data_encoding::{BASE64, HEXLOWER};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tandem_shared::child::{self, Cancel, End, Limits};
use tandem_shared::layout::Served;
use tandem_shared::publish::{self, Audience, PublishError, Scratch};

use super::index::Listed;
use super::place::Place;
use super::{Fault, said};
use crate::snapshot::chart;

/// Bytes of memory that helm may take, beside what an archive has.
const MEMORY: u64 = 320 << 20;
/// From here on it tries to do with less.
const SOFT_MEMORY: &str = "160MiB";
/// Bytes of each of its outputs that are kept.
const OUTPUT: usize = 64 * 1024;
/// What the repository is called in its settings, and where its index lies then.
const NAME: &str = "tandem";
const INDEX: &str = "cache/repository/tandem-index.yaml";

/// Variables of this process that helm gets, too.
const PASSED: &[&str] = &[
    "PATH",
    "LD_LIBRARY_PATH",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// What one download needs.
pub(super) struct Order<'a> {
    /// The helm program.
    pub program: &'a Path,
    /// The sidecar's mount.
    pub served: &'a Served,
    /// Where the dependency comes from.
    pub place: &'a Place,
    /// The login at that place.
    pub login: Option<&'a (String, SecretString)>,
    /// What its index says of it; a registry has none.
    pub listed: Option<&'a Listed>,
    /// What it is called.
    pub name: &'a str,
    /// Its version, or a range.
    pub version: &'a str,
    /// Wall-clock time for all of it.
    pub deadline: Duration,
    /// Bytes of an archive, at most.
    pub limit: u64,
    /// Ends it.
    pub cancel: &'a Cancel,
}

/// What was downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Downloaded {
    /// Its version.
    pub version: String,
    /// SHA-256 of its archive, in hex; the archive lies in the cache.
    pub digest: String,
}

/// Downloads a dependency into the cache of archives.
///
/// # Errors
/// Says why there is none.
pub(super) fn download(order: &Order<'_>) -> Result<Downloaded, Fault> {
    let scratch = Scratch::begin(&order.served.staging()).map_err(volume)?;
    let end = Instant::now() + order.deadline;
    for (name, content) in files(order) {
        scratch.write(name, content.as_bytes()).map_err(volume)?;
    }
    let mut command = command(order.program, scratch.path());
    if order.place.plain {
        command.arg("--plain-http");
    }
    child::confine(&mut command, order.limit, MEMORY + 3 * order.limit);
    let limits = Limits {
        deadline: end.saturating_duration_since(Instant::now()),
        output: OUTPUT,
    };
    let outcome = child::run(command, b"", None, &limits, order.cancel).map_err(|error| {
        Fault::Refused(format!(
            "{error}; dependencies are downloaded by helm: put helm 4 (or 3 from 3.14 on) into the sidecar's image, or say with --helm where it is"
        ))
    })?;
    match outcome.end {
        End::Exited(0) => {}
        End::Exited(_) => {
            let folder = scratch.path().to_string_lossy();
            let secret = order.login.map(|(_, password)| password.expose_secret());
            let mut cut = vec![(&*folder, "…")];
            cut.extend(secret.map(|secret| (secret, "***")));
            let stdout = String::from_utf8_lossy(&outcome.stdout);
            return Err(said::fault(&stdout, &outcome.stderr, &cut));
        }
        End::TimedOut => {
            return Err(Fault::Outage(format!(
                "it wasn't there after {} s; see whether the repository is slow, or raise the timeout",
                order.deadline.as_secs()
            )));
        }
        End::Cancelled => return Err(Fault::Outage("this program is ending".to_owned())),
    }
    keep(order, scratch.path())
}

/// Puts the archive that helm brought into the cache, once it is what the index says.
fn keep(order: &Order<'_>, scratch: &Path) -> Result<Downloaded, Fault> {
    let broken = Fault::Outage;
    let found =
        archives(&scratch.join("chart/charts")).map_err(|error| broken(error.to_string()))?;
    let [archive] = found.as_slice() else {
        return Err(broken(format!("helm brought {} archives", found.len())));
    };
    // The archive may be called anything; helm writes down which version it took.
    let lock = fs::read(scratch.join("chart/Chart.lock"))
        .map_err(|error| broken(format!("helm wrote no lock: {error}")))?;
    let lock =
        chart::read_requirements(&lock, "Chart.lock").map_err(|error| broken(error.to_string()))?;
    let [locked] = lock.as_deref().unwrap_or_default() else {
        return Err(broken("helm's lock isn't about one dependency".to_owned()));
    };
    let version = locked.version.as_str();
    let length = archive.symlink_metadata().map_or(0, |meta| meta.len());
    if length > order.limit {
        return Err(Fault::Refused(format!(
            "its archive has {length} bytes, and {} are allowed; see --max-chart-bytes",
            order.limit
        )));
    }
    let bytes = fs::read(archive).map_err(|error| broken(error.to_string()))?;
    let digest = HEXLOWER.encode(&Sha256::digest(&bytes));
    // Of a registry helm checks the digest itself.
    if let Some(listed) = order.listed {
        listed.check(version, &digest)?;
    }
    publish::bytes(&order.served.archive(&digest), &bytes, Audience::Owner).map_err(volume)?;
    Ok(Downloaded {
        version: version.to_owned(),
        digest,
    })
}

fn archives(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let paths: Vec<PathBuf> = paths.collect::<Result<_, _>>()?;
    let archive = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "tgz");
    Ok(paths.into_iter().filter(archive).collect())
}

fn volume(error: PublishError) -> Fault {
    Fault::Volume(error.to_string())
}

/// The files that helm is given. JSON is YAML, and quotes what comes from outside.
fn files(order: &Order<'_>) -> Vec<(&'static str, String)> {
    let Place { url, host, oci, .. } = order.place;
    let chart = json!({
        "apiVersion": "v2",
        "name": "staging",
        "version": "0.0.0",
        "dependencies": [{"name": order.name, "version": order.version, "repository": url}],
    });
    let mut repository = json!({"name": NAME, "url": url});
    let mut auths = json!({});
    if let Some((user, password)) = order.login {
        let password = password.expose_secret();
        if *oci {
            let pair = BASE64.encode(format!("{user}:{password}").as_bytes());
            auths[host] = json!({"auth": pair});
        } else {
            repository["username"] = json!(user);
            repository["password"] = json!(password);
        }
    }
    let repositories = if *oci { json!([]) } else { json!([repository]) };
    let mut files = vec![
        ("chart/Chart.yaml", chart.to_string()),
        (
            "repositories.yaml",
            json!({"apiVersion": "", "repositories": repositories}).to_string(),
        ),
        ("registry.json", json!({"auths": auths}).to_string()),
    ];
    files.extend(order.listed.map(|listed| (INDEX, listed.text())));
    files
}

/// helm in a world that holds nothing but `folder`.
fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir(folder);
    for name in PASSED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    // Whom git trusts is trusted here, and its proxies are taken.
    for (ours, its) in [
        ("GIT_SSL_CAINFO", "SSL_CERT_FILE"),
        ("GIT_SSL_CAPATH", "SSL_CERT_DIR"),
    ] {
        if let Some(value) = of(ours) {
            command.env(its, value);
        }
    }
    if let Some(proxy) = of("all_proxy").or_else(|| of("ALL_PROXY")) {
        for (upper, lower) in [("HTTPS_PROXY", "https_proxy"), ("HTTP_PROXY", "http_proxy")] {
            if of(upper).is_none() && of(lower).is_none() {
                command.env(upper, &proxy);
            }
        }
    }
    let below = |name: &str| -> OsString { folder.join(name).into() };
    for (name, place) in [
        ("HOME", ""),
        ("TMPDIR", ""),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_DATA_HOME", "data"),
        ("HELM_CACHE_HOME", "cache"),
        ("HELM_CONFIG_HOME", "config"),
        ("HELM_DATA_HOME", "data"),
        ("HELM_PLUGINS", "plugins"),
        ("KUBECONFIG", "kubeconfig"),
        ("DOCKER_CONFIG", "docker"),
    ] {
        command.env(name, below(place));
    }
    command
        .env("HELM_NO_PLUGINS", "1")
        .env("GOMEMLIMIT", SOFT_MEMORY)
        .args([
            "dependency",
            "update",
            "chart",
            "--skip-refresh",
            "--repository-config",
        ])
        .arg(below("repositories.yaml"))
        .arg("--registry-config")
        .arg(below("registry.json"));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helm_is_given_one_dependency_and_one_repository() {
        let login = ("me".to_owned(), SecretString::from("se\"cret".to_owned()));
        let cancel = Cancel::new().unwrap();
        let served = tandem_shared::layout::Volume::at(Path::new("/v")).served;
        let of = |oci: bool| {
            let place = Place {
                url: "https://h/charts".into(),
                name: "h".into(),
                host: "h".into(),
                oci,
                plain: false,
                login: None,
            };
            let order = Order {
                program: Path::new("helm"),
                served: &served,
                place: &place,
                login: Some(&login),
                listed: None,
                name: "lib",
                version: ">=1 || \"x\"",
                deadline: Duration::ZERO,
                limit: 0,
                cancel: &cancel,
            };
            let files: std::collections::BTreeMap<&str, serde_json::Value> = files(&order)
                .into_iter()
                .map(|(name, text)| (name, serde_json::from_str(&text).unwrap()))
                .collect();
            files
        };
        let files = of(false);
        assert_eq!(files.len(), 3);
        let asked = &files["chart/Chart.yaml"]["dependencies"];
        assert_eq!(
            *asked,
            json!([{"name": "lib", "version": ">=1 || \"x\"", "repository": "https://h/charts"}])
        );
        let known = &files["repositories.yaml"]["repositories"];
        assert_eq!(
            *known,
            json!([{"name": "tandem", "url": "https://h/charts", "username": "me", "password": "se\"cret"}])
        );
        assert_eq!(files["registry.json"], json!({"auths": {}}));
        let files = of(true);
        assert_eq!(files["repositories.yaml"]["repositories"], json!([]));
        assert_eq!(
            files["registry.json"],
            json!({"auths": {"h": {"auth": BASE64.encode(b"me:se\"cret")}}})
        );
    }

    #[test]
    fn its_world_holds_nothing_of_ours() {
        let command = command(Path::new("helm"), Path::new("/scratch"));
        for (name, value) in command.get_envs() {
            let (name, value) = (name.to_str().unwrap(), value.unwrap().to_string_lossy());
            let fixed = matches!(name, "HELM_NO_PLUGINS" | "GOMEMLIMIT");
            let private = value.starts_with("/scratch");
            assert!(fixed || private || PASSED.contains(&name), "{name}={value}");
        }
        let arguments: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        assert!(!arguments.iter().any(|word| word.contains("pass")));
    }
}
