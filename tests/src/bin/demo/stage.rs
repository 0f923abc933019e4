//! Everything that the story needs: cluster, repository, volume, processes.

use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams};
use tandem_tests::cluster::{Cluster, Options};
use tandem_tests::git::{HttpServer, Scheme, Upstream, Upstreams};
use tandem_tests::helm::Helm;
use tandem_tests::kubernetes::{HelmReleases, install_crd};
use tandem_tests::pair::{self, Extra, Role};
use tandem_tests::progress::Step;
use tandem_tests::volume::Volume;
use tandem_tests::{charts, programs};

use crate::args::Args;

/// The charts of the demo's repository.
pub(crate) const CHARTS: [&str; 3] = ["web", "api", "worker"];

/// Where the releases are made; on the reader's own cluster with a suffix.
const NAMESPACE: &str = "tandem-demo";

const CRD: &str = "helmreleases.helm.fluxcd.io";

/// The demo's own repository of charts and its server.
pub(crate) struct Repository {
    pub(crate) upstream: Upstream,
    pub(crate) server: HttpServer,
}

impl Repository {
    fn make() -> Result<Self> {
        let upstreams = Upstreams::new()?;
        let upstream = upstreams.create("charts")?;
        for chart in CHARTS {
            upstream.write_all(&charts::application(&format!("charts/{chart}"), "first"))?;
        }
        upstream.push("main", "Add three charts")?;
        let server = HttpServer::start(&upstreams, Scheme::Http)?;
        Ok(Self { upstream, server })
    }

    pub(crate) fn url(&self) -> String {
        self.server.url(self.upstream.name())
    }
}

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) releases: HelmReleases,
    pub(crate) helm: Helm,
    pub(crate) repository: Option<Repository>,
    pub(crate) volume: Volume,
    pub(crate) sidecar: Role,
    pub(crate) reconciler: Role,
    pub(crate) reconciler_program: PathBuf,
    names: Vec<String>,
    own_cluster: bool,
    crd_was_there: bool,
}

impl Stage {
    pub(crate) async fn set(args: &Args) -> Result<Self> {
        let product = programs::product()?;
        programs::helm()?;
        let cluster = match &args.kubeconfig {
            Some(file) => Cluster::existing(file)?,
            None => {
                programs::control_plane()?;
                let step =
                    Step::start("control plane (etcd, kube-apiserver, kube-controller-manager)");
                let cluster = Cluster::start(Options::default())?;
                step.done("ready");
                cluster
            }
        };
        let client = cluster.client().await?;
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        let crd_was_there = crds
            .get_opt(CRD)
            .await
            .context("the cluster does not answer as it should")?
            .is_some();
        install_crd(&client).await?;
        let namespace = match &args.kubeconfig {
            Some(_) => cluster.namespace(NAMESPACE).await?,
            None => cluster.namespace_named(NAMESPACE).await?,
        };

        let repository = match &args.git {
            Some(_) => None,
            None => {
                let step = Step::start("git repository with three charts");
                let repository = Repository::make()?;
                step.done(repository.url());
                Some(repository)
            }
        };
        let step = Step::start("mirror-sidecar and reconciler over an empty volume");
        let volume = Volume::new()?;
        let helm = Helm::new(cluster.kubeconfig())?;
        let sidecar = pair::sidecar(&volume, &Extra::default())?;
        let mut flags = vec!["--git-poll-interval=10s".to_owned()];
        if args.kubeconfig.is_some() {
            // Somebody else's HelmReleases are none of the demo's business.
            flags.push(format!("--allow-namespace={namespace}"));
        }
        let extra = Extra::args(flags);
        let reconciler = pair::reconciler(&volume, cluster.kubeconfig(), helm.program(), &extra)?;
        sidecar.ready().await?;
        reconciler.ready().await?;
        step.done("ready");
        Ok(Self {
            releases: HelmReleases::new(client, &namespace),
            cluster,
            helm,
            repository,
            volume,
            sidecar,
            reconciler,
            reconciler_program: product.reconciler,
            names: Vec::new(),
            own_cluster: args.kubeconfig.is_some(),
            crd_was_there,
        })
    }

    /// Applies a HelmRelease, which the end of the demo removes again.
    pub(crate) async fn apply(&mut self, name: &str, spec: &serde_json::Value) -> Result<()> {
        self.names.push(name.to_owned());
        self.releases.apply(name, spec).await
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Leaves nothing behind. A cluster of our own simply ends.
    pub(crate) async fn strike(mut self) -> Result<()> {
        if self.own_cluster {
            let step = Step::start("removing the releases, the namespace and what else was made");
            for name in &self.names {
                self.releases.delete(name).await?;
            }
            for name in &self.names {
                self.releases.gone(name).await?;
            }
            let client = self.cluster.client().await?;
            let namespaces: Api<Namespace> = Api::all(client.clone());
            namespaces
                .delete(self.releases.namespace(), &DeleteParams::default())
                .await?;
            if !self.crd_was_there {
                let crds: Api<CustomResourceDefinition> = Api::all(client);
                crds.delete(CRD, &DeleteParams::default()).await?;
            }
            step.done("");
        }
        self.reconciler.terminate()?;
        self.sidecar.terminate()
    }
}
