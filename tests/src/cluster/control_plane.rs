//! The processes of a control plane.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{Options, block_on, client, kubeconfig};
use crate::daemon::{Daemon, Recipe};
use crate::pki::{self, Authority};
use crate::programs::{ControlPlane, Invocation};
use crate::{guard, procfs};

/// A port that was free a moment ago may be taken by the time it is used; then
/// the whole start is tried again with others.
const TRIES: usize = 4;

/// How long a start may take on a busy machine.
const READY: Duration = Duration::from_secs(300);

/// Ports below the range from which the kernel gives outgoing connections
/// theirs, so that only another suite can want the same one.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

pub(super) struct Processes {
    // In the order of their end: nothing should shout about a lost server.
    daemons: Vec<Daemon>,
    kubeconfig: PathBuf,
}

impl Processes {
    pub(super) fn start(programs: &ControlPlane, folder: &Path, options: Options) -> Result<Self> {
        let mut last = None;
        for attempt in 0..TRIES {
            match Self::attempt(programs, &folder.join(format!("try{attempt}")), options) {
                Ok(processes) => return Ok(processes),
                Err(error) if error.to_string().contains("address already in use") => {
                    last = Some(error)
                }
                Err(error) => return Err(error),
            }
        }
        Err(last
            .context("no attempt was made")?
            .context("no free ports for a control plane"))
    }

    fn attempt(programs: &ControlPlane, folder: &Path, options: Options) -> Result<Self> {
        let [client_port, peer_port, api_port] = free_ports()?;
        let logs = folder.join("logs");
        let etcd_url = format!("http://127.0.0.1:{client_port}");
        let api_url = format!("https://127.0.0.1:{api_port}");
        let files = Files::write(folder, &api_url)?;

        let etcd = run(
            &programs.etcd,
            "etcd",
            &logs,
            etcd_args(&etcd_url, peer_port, folder),
        )?;
        let apiserver = run(
            &programs.apiserver,
            "kube-apiserver",
            &logs,
            apiserver_args(&etcd_url, api_port, &files),
        )?;
        let mut processes = Self {
            daemons: vec![apiserver, etcd],
            kubeconfig: files.kubeconfig.clone(),
        };
        processes.wait_until_ready()?;
        if options.controllers {
            let args = controllers_args(&files);
            processes.daemons.insert(
                0,
                run(
                    &programs.controllers,
                    "kube-controller-manager",
                    &logs,
                    args,
                )?,
            );
        }
        Ok(processes)
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(super) fn logs(&self) -> Vec<PathBuf> {
        self.daemons
            .iter()
            .map(|daemon| daemon.log_file().to_owned())
            .collect()
    }

    pub(super) fn cpu(&self) -> Duration {
        self.daemons
            .iter()
            .filter_map(|daemon| Some(procfs::process(daemon.pid())?.own_cpu))
            .sum()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            for daemon in &mut self.daemons {
                if let Some(status) = daemon.exited()? {
                    bail!(
                        "{} ended with {status}:\n{}",
                        daemon.log_file().display(),
                        daemon.log_tail()
                    );
                }
            }
            let kubeconfig = self.kubeconfig.clone();
            let answer = block_on(async move {
                let request = axum::http::Request::get("/readyz").body(Vec::new())?;
                let asked = async { Ok(client(&kubeconfig).await?.request_text(request).await?) };
                tokio::time::timeout(Duration::from_secs(5), asked).await?
            });
            match answer {
                Ok(text) if text == "ok" => return Ok(()),
                answer if start.elapsed() > READY => {
                    bail!(
                        "kube-apiserver is not ready after {} s: {answer:?}",
                        READY.as_secs()
                    );
                }
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

/// Keys, certificates and the administrator's kubeconfig.
struct Files {
    folder: PathBuf,
    authority: (PathBuf, PathBuf),
    server: (PathBuf, PathBuf),
    signing: (PathBuf, PathBuf),
    kubeconfig: PathBuf,
}

impl Files {
    fn write(folder: &Path, api_url: &str) -> Result<Self> {
        let pki = folder.join("pki");
        let authority = Authority::new("tandem test cluster")?;
        let authority_files = (pki.join("ca.crt"), pki.join("ca.key"));
        guard::write(&authority_files.0, authority.pem())?;
        guard::write(&authority_files.1, authority.key_pem())?;
        let names = [
            "127.0.0.1",
            "10.96.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default.svc",
        ];
        let kubeconfig_file = folder.join("kubeconfig");
        let admin = authority.client("admin", "system:masters")?;
        kubeconfig::with_certificate(api_url, authority.pem(), &admin, &kubeconfig_file)?;
        Ok(Self {
            server: pki::write_identity(&pki, "apiserver", &authority.server(&names)?)?,
            signing: pki::write_signing_keys(&pki)?,
            authority: authority_files,
            kubeconfig: kubeconfig_file,
            folder: folder.to_owned(),
        })
    }
}

fn run(program: &Invocation, name: &str, logs: &Path, args: Vec<String>) -> Result<Daemon> {
    let args = program.first.iter().cloned().chain(args);
    Daemon::start(&Recipe::new(name, &program.program, args), logs)
}

fn etcd_args(url: &str, peer_port: u16, folder: &Path) -> Vec<String> {
    let peer = format!("http://127.0.0.1:{peer_port}");
    vec![
        "--name=tandem".into(),
        format!("--data-dir={}", folder.join("etcd").display()),
        // A test's data need not survive a power cut.
        "--unsafe-no-fsync".into(),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=tandem={peer}"),
        "--log-level=warn".into(),
    ]
}

fn apiserver_args(etcd: &str, port: u16, files: &Files) -> Vec<String> {
    let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    vec![
        format!("--etcd-servers={etcd}"),
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        // Loopback is no address for an endpoint, and nobody here needs one.
        "--endpoint-reconciler-type=none".into(),
        format!("--secure-port={port}"),
        file("cert-dir", &files.folder.join("certificates")),
        file("tls-cert-file", &files.server.0),
        file("tls-private-key-file", &files.server.1),
        file("client-ca-file", &files.authority.0),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        file("service-account-key-file", &files.signing.0),
        file("service-account-signing-key-file", &files.signing.1),
        // A /24 is full at 250 Services.
        "--service-cluster-ip-range=10.96.0.0/16".into(),
        "--authorization-mode=RBAC".into(),
    ]
}

fn controllers_args(files: &Files) -> Vec<String> {
    let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    vec![
        file("kubeconfig", &files.kubeconfig),
        file("authentication-kubeconfig", &files.kubeconfig),
        file("authorization-kubeconfig", &files.kubeconfig),
        "--secure-port=0".into(),
        "--leader-elect=false".into(),
        file("service-account-private-key-file", &files.signing.1),
        file("root-ca-file", &files.authority.0),
        file("cluster-signing-cert-file", &files.authority.0),
        file("cluster-signing-key-file", &files.authority.1),
    ]
}

/// Ports on which nothing listens right now.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // Held together until all are found, so that they differ.
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    let span = u32::from(PORTS.end - PORTS.start);
    let mut at = seed();
    for port in &mut ports {
        let found = (0..span).find_map(|_| {
            at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let port = PORTS.start + u16::try_from((at >> 8) % span).ok()?;
            Some((port, TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?))
        });
        let (number, listener) = found.context("no port is free on 127.0.0.1")?;
        held.push(listener);
        *port = number;
    }
    Ok(ports)
}

/// Different for every process and every call.
fn seed() -> u32 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let hash = RandomState::new().build_hasher().finish();
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or_default()
}
