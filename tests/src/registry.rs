//! A real OCI registry, to which a real helm pushes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use axum::body::Body;
use axum::http::{Request, header};
use data_encoding::HEXLOWER;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::charts::Files;
use crate::daemon::{Daemon, Recipe};
use crate::pki::{self, Authority};
use crate::wait::{LONG, Look, until_blocking};
use crate::{guard, http_client, programs};

/// Who may push and, unless everybody may, pull.
pub const USER: &str = "robot";
/// By this password,
pub const PASSWORD: &str = "s3cret-of-robot";
/// or by this token, from the server of tokens.
pub const IDENTITY_TOKEN: &str = "identity-t0ken-of-robot";
/// What everybody may pull where tokens are wanted.
pub const PUBLIC: &str = "public/";
/// How the registry is called where tokens are given out for it.
const SERVICE: &str = "registry.test";

/// Who is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody, to everything.
    Open,
    /// [`USER`] by a password that each request carries.
    Password,
    /// [`USER`] by tokens of another server; everybody to [`PUBLIC`].
    Token,
}

/// One request that the registry answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// `GET`, `HEAD`, …
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The status.
    pub status: u16,
}

/// A registry on 127.0.0.1.
pub struct Registry {
    recipe: Recipe,
    folder: PathBuf,
    daemon: Option<Daemon>,
    tokens: Option<Daemon>,
    access: Access,
    authority: Option<PathBuf>,
    port: u16,
}

impl Registry {
    /// Starts one in the clear on a free port.
    pub fn start(access: Access) -> Result<Self> {
        Self::with(access, false)
    }

    /// Starts one with a certificate of its own authority on a free port.
    pub fn start_secure(access: Access) -> Result<Self> {
        Self::with(access, true)
    }

    fn with(access: Access, secure: bool) -> Result<Self> {
        let program = programs::registry()?;
        let folder = guard::folder("registry")?;
        let mut config = json!({
            "version": "0.1",
            "log": {"level": "info"},
            "storage": {
                "filesystem": {"rootdirectory": folder.join("data")},
                "delete": {"enabled": true},
            },
            "http": {"addr": "127.0.0.1:0", "secret": "tests"},
        });
        let mut authority = None;
        let mut identity = None;
        if secure {
            let own = Authority::new("tandem test registry")?;
            let file = folder.join("ca.crt");
            guard::write(&file, own.pem())?;
            authority = Some(file);
            let server = own.server(&["127.0.0.1", "localhost"])?;
            let (certificate, key) = pki::write_identity(&folder, "server", &server)?;
            config["http"]["tls"] = json!({"certificate": certificate, "key": key});
            identity = Some((certificate, key));
        }
        let mut tokens = None;
        match access {
            Access::Open => {}
            Access::Password => {
                let file = folder.join("htpasswd");
                guard::write(&file, login(&program)?)?;
                config["auth"]["htpasswd"] = json!({"realm": "tests", "path": file});
            }
            Access::Token => {
                let (daemon, port) = token_server(&program, &folder, identity.as_ref())?;
                let scheme = if secure { "https" } else { "http" };
                config["auth"]["token"] = json!({
                    "realm": format!("{scheme}://127.0.0.1:{port}/token"),
                    "service": SERVICE,
                    "issuer": "tokens",
                    "jwks": folder.join("keys.json"),
                });
                tokens = Some(daemon);
            }
        }
        // JSON is YAML.
        let file = folder.join("config.yml");
        guard::write(&file, config.to_string())?;
        let mut registry = Self {
            recipe: Recipe::new(
                "registry",
                &program,
                ["serve".to_owned(), file.display().to_string()],
            )
            .env("OTEL_TRACES_EXPORTER", "none"),
            folder,
            daemon: None,
            tokens,
            access,
            authority,
            port: 0,
        };
        registry.resume()?;
        Ok(registry)
    }

    /// Lets the storage fail at everything that belongs to the chart whose manifest has this
    /// digest, or mends it again.
    ///
    /// # Errors
    /// When there is no such chart.
    pub fn spoil(&self, manifest: &str, spoilt: bool) -> Result<()> {
        let data = |digest: &str| {
            let hex = digest.trim_start_matches("sha256:");
            let blobs = "data/docker/registry/v2/blobs/sha256";
            let start = hex.get(..2).context("no digest")?;
            anyhow::Ok(self.folder.join(blobs).join(start).join(hex).join("data"))
        };
        let text = std::fs::read_to_string(data(manifest)?)?;
        let text: serde_json::Value = serde_json::from_str(&text)?;
        let layer = text["layers"][0]["digest"].as_str().context("no layer")?;
        let (file, aside) = (data(layer)?, data(layer)?.with_extension("aside"));
        if spoilt {
            std::fs::rename(&file, &aside)?;
            // A link in a circle is neither there nor missing.
            std::os::unix::fs::symlink(&file, &file)?;
        } else {
            std::fs::remove_file(&file)?;
            std::fs::rename(&aside, &file)?;
        }
        Ok(())
    }

    /// Lets the storage fail at all tags of a repository.
    ///
    /// # Errors
    /// When there is no such repository.
    pub fn spoil_tags(&self, repository: &str) -> Result<()> {
        let tags = self.repository(repository).join("_manifests/tags");
        std::fs::rename(&tags, tags.with_extension("aside"))?;
        std::os::unix::fs::symlink(&tags, &tags)?;
        Ok(())
    }

    /// Where it keeps a repository.
    fn repository(&self, name: &str) -> PathBuf {
        let all = "data/docker/registry/v2/repositories";
        self.folder.join(all).join(name)
    }

    /// Starts it (again, on the port that it had).
    pub fn resume(&mut self) -> Result<()> {
        let recipe = self
            .recipe
            .clone()
            .env("REGISTRY_HTTP_ADDR", format!("127.0.0.1:{}", self.port));
        let before = self.log().len();
        let mut daemon = Daemon::start(&recipe, &self.folder)?;
        self.port = until_blocking("the registry to listen", LONG, || {
            if let Some(status) = daemon.exited()? {
                bail!("the registry ended with {status}: {}", daemon.log());
            }
            let log = daemon.log();
            let said = log.get(before..).unwrap_or_default();
            let port = said.split_once("listening on 127.0.0.1:").map(|(_, rest)| {
                let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
                digits.unwrap_or_default().parse().ok()
            });
            Ok(Look::from_option(port.flatten(), "no address in its log"))
        })?;
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Ends it; what was pushed stays.
    pub fn stop(&mut self) -> Result<()> {
        match self.daemon.take() {
            Some(mut daemon) => daemon.kill(),
            None => Ok(()),
        }
    }

    /// `host:port`.
    #[must_use]
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The port alone.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `oci://host:port/<path>`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("oci://{}/{path}", self.host())
    }

    /// The file with the certificate of its authority, if it has one.
    #[must_use]
    pub fn authority(&self) -> Option<&Path> {
        self.authority.as_deref()
    }

    /// Packs a chart of one ConfigMap and pushes it to `<path>/<name>`; gives the digest
    /// of its manifest.
    pub fn push(&self, path: &str, name: &str, version: &str, marker: &str) -> Result<String> {
        let mut files = crate::charts::config_map(name, marker);
        files.retain(|(file, _)| !file.ends_with("/Chart.yaml"));
        files.push((
            format!("{name}/Chart.yaml"),
            crate::charts::metadata(name, version),
        ));
        self.push_files(path, name, &files)
    }

    /// Packs the chart in the folder `name` of `files` and pushes it to `<path>/<name>`;
    /// gives the digest of its manifest.
    pub fn push_files(&self, path: &str, name: &str, files: &Files) -> Result<String> {
        let folder = guard::folder("push")?;
        for (file, content) in files {
            guard::write(&folder.join(file), content)?;
        }
        let packed = self.helm(&folder, &["package", name])?;
        let archive = packed
            .rsplit("saved it to: ")
            .next()
            .map(str::trim)
            .context("helm doesn't say where it put the archive")?;
        let url = self.url(path);
        let mut args = vec!["push", archive, &url];
        let authority = self
            .authority
            .as_ref()
            .map(|file| file.display().to_string());
        match &authority {
            Some(file) => args.extend(["--ca-file", file]),
            None => args.push("--plain-http"),
        }
        if self.access != Access::Open {
            args.extend(["--username", USER, "--password", PASSWORD]);
        }
        let said = self.helm(&folder, &args)?;
        let digest = said
            .split_whitespace()
            .find(|word| word.starts_with("sha256:"))
            .with_context(|| format!("helm push names no digest: {said}"))?;
        Ok(digest.to_owned())
    }

    fn helm(&self, folder: &Path, args: &[&str]) -> Result<String> {
        let output = Command::new(programs::helm()?.program)
            .args(args)
            .current_dir(folder)
            .env("HOME", folder)
            .stdin(Stdio::null())
            .output()
            .context("helm did not start")?;
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        if output.status.success() {
            Ok(said)
        } else {
            bail!("helm {}: {said}", args.first().unwrap_or(&""))
        }
    }

    /// Puts any manifest under a tag, with the blobs that it names. Only where everybody may.
    pub async fn put_manifest(
        &self,
        repository: &str,
        tag: &str,
        media_type: &str,
        manifest: &serde_json::Value,
        blobs: &[&[u8]],
    ) -> Result<()> {
        let base = format!("http://{}/v2/{repository}", self.host());
        for blob in blobs {
            let begun = Request::post(format!("{base}/blobs/uploads/")).body(Body::empty())?;
            let begun = http_client::send(begun).await?;
            let place = begun
                .headers()
                .get(header::LOCATION)
                .and_then(|place| place.to_str().ok())
                .context("no place for a blob")?;
            let place = format!("{place}&digest={}", digest(blob));
            let put = Request::put(place).body(Body::from(blob.to_vec()))?;
            let put = http_client::send(put).await?;
            if put.status().as_u16() != 201 {
                bail!(
                    "a blob was answered with {}: {:?}",
                    put.status(),
                    put.body()
                );
            }
        }
        let put = Request::put(format!("{base}/manifests/{tag}"))
            .header(header::CONTENT_TYPE, media_type)
            .body(Body::from(manifest.to_string()))?;
        let put = http_client::send(put).await?;
        if put.status().as_u16() != 201 {
            bail!(
                "a manifest was answered with {}: {:?}",
                put.status(),
                put.body()
            );
        }
        Ok(())
    }

    /// Puts many tags on the manifest with this digest, which is there already. They are
    /// written where the registry keeps them: to push each would take minutes.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn put_tags(
        &self,
        repository: &str,
        manifest: &str,
        tags: impl IntoIterator<Item = String>,
    ) -> Result<()> {
        let all = self.repository(repository).join("_manifests/tags");
        tags.into_iter()
            .try_for_each(|tag| guard::write(&all.join(tag).join("current/link"), manifest))
    }

    /// Takes a tag away. Only where everybody may.
    pub async fn remove_tag(&self, repository: &str, tag: &str) -> Result<()> {
        let url = format!("http://{}/v2/{repository}/manifests/{tag}", self.host());
        let (status, text) = http_client::request(axum::http::Method::DELETE, &url).await?;
        if status == 202 {
            Ok(())
        } else {
            bail!("{url} was answered with {status}: {text}")
        }
    }

    /// What it answered so far, oldest first, also to helm's pushes.
    #[must_use]
    pub fn answered(&self) -> Vec<Answered> {
        self.log().lines().filter_map(answered).collect()
    }

    /// What the server of tokens was asked, a line each.
    #[must_use]
    pub fn tokens_asked(&self) -> Vec<String> {
        let log = self.tokens.as_ref().map(Daemon::log).unwrap_or_default();
        log.lines().map(ToOwned::to_owned).collect()
    }

    fn log(&self) -> String {
        // Also that of a start before.
        fs::read_to_string(self.folder.join("registry.log")).unwrap_or_default()
    }
}

/// The digest by which a registry names content.
#[must_use]
pub fn digest(content: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(content)))
}

/// A line of the access log: `… "GET /v2/… HTTP/1.1" 200 …`.
fn answered(line: &str) -> Option<Answered> {
    let (_, rest) = line.split_once("] \"")?;
    let (request, rest) = rest.split_once(" HTTP/1.1\" ")?;
    let (method, path) = request.split_once(' ')?;
    Some(Answered {
        method: method.to_owned(),
        path: path.to_owned(),
        status: rest.split(' ').next()?.parse().ok()?,
    })
}

fn login(program: &Path) -> Result<Vec<u8>> {
    let output = Command::new(program)
        .args(["htpasswd", USER, PASSWORD])
        .output()?;
    if !output.status.success() {
        bail!("htpasswd: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

fn token_server(
    program: &Path,
    folder: &Path,
    identity: Option<&(PathBuf, PathBuf)>,
) -> Result<(Daemon, u16)> {
    let port_file = folder.join("tokens.port");
    let mut args = vec![
        "tokens".to_owned(),
        format!("--port-file={}", port_file.display()),
        format!("--key-file={}", folder.join("keys.json").display()),
        format!("--user={USER}"),
        format!("--password={PASSWORD}"),
        format!("--identity-token={IDENTITY_TOKEN}"),
        format!("--public={PUBLIC}"),
    ];
    if let Some((certificate, key)) = identity {
        args.push(format!("--certificate={}", certificate.display()));
        args.push(format!("--key={}", key.display()));
    }
    let mut daemon = Daemon::start(&Recipe::new("tokens", program, args), folder)?;
    let port = until_blocking("the server of tokens to listen", LONG, || {
        if let Some(status) = daemon.exited()? {
            bail!("the server of tokens ended with {status}: {}", daemon.log());
        }
        let written = fs::read_to_string(&port_file).ok();
        let port = written.and_then(|text| text.trim().parse().ok());
        Ok(Look::from_option(port, "no port file"))
    })?;
    Ok((daemon, port))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn answers_stand_in_the_access_log() {
        let line = r#"127.0.0.1 - - [01/Dec/2026:03:20:01 +0000] "HEAD /v2/charts/web/manifests/1.0.0 HTTP/1.1" 200 617 "" "helm/4""#;
        let read = answered(line).unwrap();
        assert_eq!((read.method.as_str(), read.status), ("HEAD", 200));
        assert_eq!(read.path, "/v2/charts/web/manifests/1.0.0");
        assert_eq!(answered("time=\"…\" level=info msg=\"listening\""), None);
    }
}
