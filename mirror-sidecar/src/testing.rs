//! A real upstream repository and a sidecar's insides, for tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

pub(crate) mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use clap::Parser;
use flate2::Compression;
use flate2::write::GzEncoder;
use tandem_shared::child::Cancel;
use tandem_shared::manifest::{Good, Manifest, Problem, Reason};
use tandem_shared::observe::{self, Observed};
use tandem_shared::publish::{self, Audience};
use tandem_shared::request::{Request, Want, WantKind, WantSpec};
use tandem_shared::source::{Source, SourceKind};
use tandem_shared::version::Document;
use tempfile::TempDir;

use crate::args::Args;
use crate::check::{self, Context, Ended, State};
use crate::config::Config;
use crate::dependencies::Dependencies;
use crate::git::Git;
use crate::github::Tokens;
use crate::health::Health;
use crate::inventory::Inventory;
use crate::metrics::Metrics;
use crate::places::Places;
use crate::start;
use crate::web::Web;

/// A repository that people push to.
pub(crate) struct Upstream {
    folder: TempDir,
}

impl Upstream {
    pub(crate) fn new() -> Self {
        let upstream = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        upstream.run(
            &[
                "init",
                "--quiet",
                "--bare",
                "--initial-branch=main",
                "up.git",
            ],
            "",
        );
        upstream.run(&["init", "--quiet", "--initial-branch=main", "work"], "");
        upstream
    }

    pub(crate) fn bare(&self) -> PathBuf {
        self.folder.path().join("up.git")
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.bare().display())
    }

    fn run(&self, arguments: &[&str], at: &str) -> String {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(self.folder.path().join(at))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs([
                ("GIT_AUTHOR_NAME", "a"),
                ("GIT_AUTHOR_EMAIL", "a@b"),
                ("GIT_COMMITTER_NAME", "a"),
                ("GIT_COMMITTER_EMAIL", "a@b"),
            ])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// git in the work tree.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.run(arguments, "work")
    }

    /// git on the bare repository.
    pub(crate) fn git_bare(&self, arguments: &[&str]) -> String {
        self.run(arguments, "up.git")
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.folder.path().join("work").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.folder.path().join("work").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    /// A chart with one template whose content is `marker`.
    pub(crate) fn chart(&self, path: &str, marker: &str) {
        let name = path.rsplit('/').next().unwrap();
        self.write(
            &format!("{path}/Chart.yaml"),
            &format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n"),
        );
        self.write(&format!("{path}/templates/cm.yaml"), marker);
    }

    /// Commits everything and gives the commit.
    pub(crate) fn commit(&self) -> String {
        self.git(&["add", "--all"]);
        self.git(&[
            "commit",
            "--quiet",
            "--allow-empty",
            "--message",
            "a change",
        ]);
        self.git(&["rev-parse", "HEAD"])
    }

    pub(crate) fn push(&self, refspec: &str) {
        let url = self.bare();
        self.git(&["push", "--quiet", "--force", url.to_str().unwrap(), refspec]);
    }

    /// Writes an object as it stands, whatever git says of it, and gives its id.
    pub(crate) fn object(&self, kind: &str, content: &str) -> String {
        let file = self.folder.path().join("object");
        fs::write(&file, content).unwrap();
        let file = file.to_str().unwrap();
        self.git(&["hash-object", "-t", kind, "-w", "--literally", file])
    }

    /// Commits everything to main, pushes it, and gives the commit.
    pub(crate) fn publish(&self) -> String {
        let commit = self.commit();
        self.push("HEAD:refs/heads/main");
        commit
    }
}

/// One source's check, over and over, as the schedule would run it.
pub(crate) struct Sidecar {
    pub(crate) context: Context,
    pub(crate) state: Option<State>,
    pub(crate) request: Request,
    folder: TempDir,
}

impl Sidecar {
    pub(crate) fn new(url: &str, wants: Vec<Want>) -> Self {
        Self::with_arguments(url, wants, &[])
    }

    pub(crate) fn with_arguments(url: &str, wants: Vec<Want>, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().to_str().unwrap();
        let args = Args::parse_from(
            [
                &["mirror-sidecar", "--volume", volume, "--lock-wait", "0"],
                arguments,
            ]
            .concat(),
        );
        let config = Config::try_from(args).unwrap();
        let (guard, inventory) = start::begin(&config, Inventory::default()).unwrap();
        drop(guard);
        publish::folder(&config.volume.wanted.requests(), Audience::Group).unwrap();
        let metrics = Arc::new(Metrics::default());
        let git = Git::new(&config, Cancel::new().unwrap(), Arc::clone(&metrics));
        let dependencies = Dependencies::new(&config, Cancel::new().unwrap(), Arc::clone(&metrics));
        let context = Context {
            places: Places::new(config.concurrent),
            config,
            git,
            metrics,
            inventory,
            health: Arc::new(Health::default()),
            web: Web::default(),
            tokens: Tokens::default(),
            dependencies,
        };
        let request = Request {
            schema: Request::current_schema(),
            source: Source {
                kind: SourceKind::Git,
                url: url.to_owned(),
                credential: None,
            },
            owner: String::new(),
            credential_id: None,
            interval_seconds: 300,
            timeout_seconds: 20,
            refresh: String::new(),
            wants,
        };
        Self {
            context,
            state: None,
            request,
            folder,
        }
    }

    pub(crate) fn volume(&self) -> &Path {
        self.folder.path()
    }

    /// A new process on the same volume.
    pub(crate) fn restart(&mut self) {
        self.state = None;
        let (guard, inventory) = start::begin(&self.context.config, Inventory::default()).unwrap();
        self.context.inventory = inventory;
        drop(guard);
    }

    pub(crate) fn check(&mut self, poll: bool) -> Ended {
        let path = self
            .context
            .config
            .volume
            .wanted
            .request(&self.request.source.name());
        publish::json(&path, &self.request).unwrap();
        let observed: Observed<Request> = observe::load(&path).unwrap();
        self.check_observed(&observed, poll)
    }

    fn check_observed(&mut self, observed: &Observed<Request>, poll: bool) -> Ended {
        let context = &self.context;
        let state = self
            .state
            .get_or_insert_with(|| State::take_up(context, &observed.document));
        check::check(context, state, observed, poll)
    }

    /// As the schedule does with a request of another version.
    pub(crate) fn poll_anything(&mut self) -> Manifest {
        let observed = Observed {
            document: self.request.clone(),
            digest: "0".repeat(64),
        };
        self.check_observed(&observed, true);
        self.manifest()
    }

    /// Asks the remote, and gives what is served after that.
    pub(crate) fn poll(&mut self) -> Manifest {
        self.check(true);
        self.manifest()
    }

    pub(crate) fn manifest(&self) -> Manifest {
        let path = self
            .context
            .config
            .volume
            .served
            .manifest(&self.request.source.name());
        observe::manifest(&path, &self.request.source)
            .unwrap()
            .document
    }

    pub(crate) fn mirror(&self) -> PathBuf {
        self.context
            .config
            .volume
            .served
            .mirror(&self.request.source.name())
    }

    /// What is in the artifact of a want.
    pub(crate) fn content(&self, good: &Good) -> std::collections::BTreeMap<String, String> {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("x");
        let path = self.context.config.volume.served.artifact(&good.artifact);
        tandem_shared::artifact::extract(
            &path,
            &good.artifact,
            &folder,
            self.context.config.limits,
        )
        .unwrap();
        let mut content = std::collections::BTreeMap::new();
        let mut folders = vec![folder.clone()];
        while let Some(at) = folders.pop() {
            for entry in fs::read_dir(at).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(&folder).unwrap().display().to_string();
                    content.insert(name, fs::read_to_string(path).unwrap());
                }
            }
        }
        content
    }

    /// How often git was run, by command.
    pub(crate) fn children(&self, command: &str) -> u64 {
        let text = self.context.metrics.text().unwrap();
        let prefix = format!("tandem_mirror_git_children_total{{kind=\"{command}\"");
        text.lines()
            .filter(|line| line.starts_with(&prefix))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }
}

/// A want with its own words as key.
pub(crate) fn want(kind: WantKind, reference: Option<&str>, path: &str) -> Want {
    let key = format!("{}:{path}", reference.unwrap_or("-"));
    let spec = WantSpec {
        kind,
        reference: reference.map(str::to_owned),
        version: None,
        path: path.to_owned(),
        skip_dependencies: false,
        submodules: false,
        verify: None,
    };
    Want {
        key,
        spec,
        group: String::new(),
        rejected: Default::default(),
        prefer: Default::default(),
        keys_id: None,
        used_by: Vec::new(),
    }
}

pub(crate) fn chart(reference: &str, path: &str) -> Want {
    want(WantKind::Chart, Some(reference), path)
}

/// A chart as Helm packs it, with one template.
pub(crate) fn packed(name: &str, version: &str, marker: &str) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let described = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
    for (path, content) in [
        ("Chart.yaml", described.as_str()),
        ("templates/cm.yaml", marker),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("{name}/{path}"), content.as_bytes())
            .unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

pub(crate) fn good<'a>(manifest: &'a Manifest, key: &str) -> &'a Good {
    let result = &manifest.results[key];
    assert_eq!(result.problem, None, "{key}");
    result
        .good
        .as_ref()
        .unwrap_or_else(|| panic!("{key}: nothing: {manifest:#?}"))
}

pub(crate) fn problem<'a>(manifest: &'a Manifest, key: &str) -> &'a Problem {
    manifest.results[key]
        .problem
        .as_ref()
        .unwrap_or_else(|| panic!("{key}: no problem: {manifest:#?}"))
}

pub(crate) fn reason(manifest: &Manifest, key: &str) -> Reason {
    problem(manifest, key).reason.clone()
}
