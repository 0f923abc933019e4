//! A real Kubernetes control plane on loopback: etcd, kube-apiserver with RBAC
//! and, when asked for, kube-controller-manager. There are no nodes: a pod is
//! stored and never runs.

mod control_plane;
mod kubeconfig;

use std::env;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::guard;
use crate::wait::{LONG, Look, until};
use control_plane::Processes;

pub(crate) use control_plane::free_ports;

/// The variable that makes suites use an existing cluster.
pub const KUBECONFIG_VARIABLE: &str = "TANDEM_TEST_KUBECONFIG";

/// A cluster and how to reach it as its administrator.
pub struct Cluster {
    kubeconfig: PathBuf,
    folder: PathBuf,
    processes: Option<Processes>,
}

/// What of a control plane is started.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Start kube-controller-manager too. Without it no namespace finishes
    /// deleting and no default service account appears.
    pub controllers: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { controllers: true }
    }
}

impl Cluster {
    /// Starts a control plane and waits until it is ready.
    ///
    /// # Errors
    /// When a program can't be built or ends early; its log stands in the error.
    pub fn start(options: Options) -> Result<Self> {
        let folder = guard::folder("cluster")?;
        let programs = crate::programs::control_plane()?;
        let processes = Processes::start(&programs, &folder, options)?;
        let cluster = Self {
            kubeconfig: processes.kubeconfig().to_owned(),
            folder,
            processes: Some(processes),
        };
        if options.controllers {
            block_on(cluster.controllers_work())?;
        }
        Ok(cluster)
    }

    /// The reader's own cluster.
    pub fn existing(kubeconfig: &Path) -> Result<Self> {
        Kubeconfig::read_from(kubeconfig)
            .with_context(|| format!("{} is no kubeconfig", kubeconfig.display()))?;
        Ok(Self {
            kubeconfig: kubeconfig.to_owned(),
            folder: guard::folder("cluster")?,
            processes: None,
        })
    }

    /// The one cluster of this process, started at the first call: what
    /// `$TANDEM_TEST_KUBECONFIG` names, else a control plane with controllers.
    /// It ends with the process.
    pub fn shared() -> Result<Arc<Self>> {
        static SHARED: Mutex<Option<Arc<Cluster>>> = Mutex::new(None);
        let mut shared = SHARED
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(cluster) = &*shared {
            return Ok(cluster.clone());
        }
        let cluster = Arc::new(match env::var_os(KUBECONFIG_VARIABLE) {
            Some(path) => Self::existing(Path::new(&path))?,
            None => Self::start(Options::default())?,
        });
        *shared = Some(cluster.clone());
        Ok(cluster)
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A client with the administrator's rights, bound to the calling runtime.
    pub async fn client(&self) -> Result<Client> {
        client(&self.kubeconfig).await
    }

    /// The logs of the control plane's programs; none for an existing cluster.
    pub fn logs(&self) -> Vec<PathBuf> {
        self.processes
            .as_ref()
            .map(Processes::logs)
            .unwrap_or_default()
    }

    /// Processor time that the control plane's programs have used.
    pub fn cpu(&self) -> std::time::Duration {
        self.processes
            .as_ref()
            .map(Processes::cpu)
            .unwrap_or_default()
    }

    /// A new namespace whose name begins with `prefix`.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        let generate_name = Some(format!("{prefix}-"));
        self.make_namespace(ObjectMeta {
            generate_name,
            ..ObjectMeta::default()
        })
        .await
    }

    /// A new namespace of this very name.
    pub async fn namespace_named(&self, name: &str) -> Result<String> {
        let name = Some(name.to_owned());
        self.make_namespace(ObjectMeta {
            name,
            ..ObjectMeta::default()
        })
        .await
    }

    async fn make_namespace(&self, metadata: ObjectMeta) -> Result<String> {
        let namespaces: Api<Namespace> = Api::all(self.client().await?);
        let wanted = Namespace {
            metadata,
            ..Namespace::default()
        };
        let made = namespaces.create(&PostParams::default(), &wanted).await?;
        made.metadata
            .name
            .context("the API server gave a namespace without a name")
    }

    /// A kubeconfig that logs in with a token of this service account, as a pod
    /// under it would. The service account must exist.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let asked = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(24 * 3600),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let given = accounts
            .create_token_request(name, &PostParams::default(), &asked)
            .await?;
        let token = given.status.context("the API server gave no token")?.token;
        let path = self.folder.join(format!("{namespace}.{name}.kubeconfig"));
        kubeconfig::with_token(&self.kubeconfig, &token, &path)?;
        Ok(path)
    }

    async fn controllers_work(&self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, "default");
        until(
            "the default service account, which kube-controller-manager makes",
            LONG,
            || async {
                Ok(Look::when(
                    accounts.get_opt("default").await?.is_some(),
                    "none yet",
                ))
            },
        )
        .await
    }
}

/// A client for a kubeconfig file.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    let read = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Runs a future to its end from any thread, also one that is inside a runtime.
pub(crate) fn block_on<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?
                    .block_on(future)
            })
            .join()
            .map_err(|_| anyhow::anyhow!("the thread that waited has panicked"))?
    })
}
