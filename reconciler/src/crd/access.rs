//! What the fields of a HelmRelease mean, defaults included.

use std::time::Duration;

use kube::ResourceExt;
use tandem_shared::source::CredentialRef;
use tandem_shared::verify::Verify;

use super::{FileRef, HelmRelease, HelmReleaseSpec, KeySelector, Rollback, Test, ValuesFromSource};

/// Fewest revisions kept: a rollback needs a good revision, the failed one after it, and
/// the one that the rollback makes.
const MIN_HISTORY: u32 = 3;

const DEFAULT_HISTORY: u32 = 10;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
/// A timeout beyond this is as good as none and would only overflow arithmetic.
const MAX_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);
const DEFAULT_MAX_RETRIES: u32 = 5;

/// A release: where Helm's records of it are, and under which name.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Target {
    /// Namespace of the release.
    pub namespace: String,
    /// Name of the release.
    pub name: String,
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// Where the chart comes from, checked for completeness.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ChartSource {
    /// A directory of a git repository.
    Git(GitChart),
    /// A chart of a Helm repository.
    Repository(RepositoryChart),
}

impl ChartSource {
    /// The field that names the Secret with its credential, and namespace and name of that.
    #[must_use]
    pub fn secret(&self) -> (&'static str, Option<&(String, String)>) {
        match self {
            Self::Git(chart) => ("chart.secretRef", chart.secret.as_ref()),
            Self::Repository(chart) => ("chart.chartPullSecret", chart.secret.as_ref()),
        }
    }

    /// Whether `keys` are those that the chart has to be signed by.
    #[must_use]
    pub fn verifies_by(&self, keys: &CredentialRef) -> bool {
        match self {
            Self::Git(chart) => chart
                .verify
                .as_ref()
                .is_some_and(|verify| verify.keys == *keys),
            Self::Repository(_) => false,
        }
    }
}

/// A directory of a git repository.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GitChart {
    /// URL as written.
    pub url: String,
    /// Ref as written; `None` means the reconciler's default.
    pub git_ref: Option<String>,
    /// Path of the chart as written.
    pub path: String,
    /// Namespace and name of the Secret with credentials.
    pub secret: Option<(String, String)>,
    /// Dependencies are taken as they lie in `charts/`.
    pub skip_dependencies: bool,
    /// Submodules that the path touches are followed.
    pub submodules: bool,
    /// What has to be signed, and by whose keys.
    pub verify: Option<Verify>,
}

/// A chart of a Helm repository.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RepositoryChart {
    /// URL as written.
    pub url: String,
    /// Name of the chart.
    pub name: String,
    /// Version or range, without surrounding space.
    pub version: String,
    /// Namespace and name of the Secret with credentials.
    pub secret: Option<(String, String)>,
}

/// A ConfigMap or Secret that a HelmRelease names.
struct Reference {
    field: &'static str,
    namespace: String,
    name: String,
}

/// A HelmRelease that can't be released as it is written.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidSpec {
    /// Neither git and path nor repository, name and version.
    #[error(
        "could not find valid chart source configuration for release: set chart.git and \
         chart.path, or chart.repository, chart.name and chart.version"
    )]
    NoChartSource,
    /// Signatures are to be verified of a chart that has none.
    #[error(
        "chart.verify is for charts from git, whose commits and tags are signed; leave it out, or \
         set chart.git and chart.path"
    )]
    VerifyWithoutGit,
    /// Helm 2 is asked for.
    #[error(
        "spec.helmVersion {0:?} is not supported: convert the release to Helm 3 and set v3 or \
         leave the field out"
    )]
    HelmVersion(String),
    /// A release name that Helm or the API can't take.
    #[error(
        "the release name {name:?} is not usable: Helm takes at most 53 lower-case letters, \
         digits, '-' and '.', with a letter or digit at both ends; set spec.releaseName"
    )]
    ReleaseName {
        /// The name, written or derived.
        name: String,
    },
    /// A target namespace that isn't a namespace name.
    #[error("spec.targetNamespace {0:?} is not a valid name of a namespace")]
    TargetNamespace(String),
    /// A values file of a git repository of which half is left empty.
    #[error("valuesFrom has a gitFileRef with an empty git or path; set both")]
    GitFile,
    /// A reference to an object that the API can't have. Such a name must not get into
    /// the path of a request, where it could mean another object.
    #[error(
        "{field} names the object {name:?} in the namespace {namespace:?}, which can't exist: \
         names are lower-case letters, digits, '-' and, not in a namespace, '.', with a letter \
         or digit at both ends; write the name of the object"
    )]
    Reference {
        /// The field that names it.
        field: &'static str,
        /// Namespace of the object, written or derived.
        namespace: String,
        /// Name of the object.
        name: String,
    },
    /// A reference to an object of another namespace, where that isn't allowed.
    #[error(
        "{field} names {namespace}/{name}, and --no-cross-namespace-refs keeps HelmReleases to \
         objects of their own namespace; copy it, and name the copy"
    )]
    OtherNamespace {
        /// The field that names it.
        field: &'static str,
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
    },
}

impl HelmRelease {
    /// Namespace of the HelmRelease itself.
    #[must_use]
    pub fn own_namespace(&self) -> String {
        self.namespace().unwrap_or_else(|| "default".to_owned())
    }

    /// `<namespace>/<name>`, as logs and messages name a HelmRelease.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.own_namespace(), self.name_any())
    }

    /// Namespace to release into.
    #[must_use]
    pub fn target_namespace(&self) -> String {
        non_empty(self.spec.target_namespace.as_deref())
            .map_or_else(|| self.own_namespace(), ToOwned::to_owned)
    }

    /// Name of the release in Helm: as written, or derived as helm-operator derives it.
    #[must_use]
    pub fn release_name(&self) -> String {
        if let Some(name) = non_empty(self.spec.release_name.as_deref()) {
            return name.to_owned();
        }
        let (own, target, name) = (
            self.own_namespace(),
            self.target_namespace(),
            self.name_any(),
        );
        if own == target {
            format!("{target}-{name}")
        } else {
            format!("{own}-{target}-{name}")
        }
    }

    /// The release that this HelmRelease asks for.
    #[must_use]
    pub fn target(&self) -> Target {
        Target {
            namespace: self.target_namespace(),
            name: self.release_name(),
        }
    }

    /// Where the chart comes from. Git counts if both of its fields are set, whatever else is.
    ///
    /// # Errors
    /// [`InvalidSpec::NoChartSource`] if neither kind is complete.
    pub fn chart_source(&self) -> Result<ChartSource, InvalidSpec> {
        let chart = &self.spec.chart;
        let (git, path) = (
            non_empty(chart.git.as_deref()),
            non_empty(chart.path.as_deref()),
        );
        if let (Some(url), Some(path)) = (git, path) {
            return Ok(ChartSource::Git(GitChart {
                url: url.to_owned(),
                git_ref: non_empty(chart.git_ref.as_deref()).map(ToOwned::to_owned),
                path: path.to_owned(),
                secret: chart
                    .secret_ref
                    .as_ref()
                    .map(|secret| secret.resolve(&self.own_namespace())),
                skip_dependencies: chart.skip_dep_update.unwrap_or(false),
                submodules: chart.submodules.unwrap_or(false),
                verify: chart
                    .verify
                    .as_ref()
                    .map(|verify| verify.resolve(&self.own_namespace())),
            }));
        }
        if chart.verify.is_some() {
            return Err(InvalidSpec::VerifyWithoutGit);
        }
        let repository = non_empty(chart.repository.as_deref());
        let name = non_empty(chart.name.as_deref());
        let version = non_empty(chart.version.as_deref().map(str::trim));
        let (Some(url), Some(name), Some(version)) = (repository, name, version) else {
            return Err(InvalidSpec::NoChartSource);
        };
        Ok(ChartSource::Repository(RepositoryChart {
            url: url.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            secret: chart
                .chart_pull_secret
                .as_ref()
                .map(|secret| (self.own_namespace(), secret.name.clone())),
        }))
    }

    /// Everything that is wrong with this HelmRelease on its own, whatever its sources say.
    ///
    /// # Errors
    /// The first thing found.
    pub fn validate(&self) -> Result<(), InvalidSpec> {
        self.chart_source()?;
        if let Some(version) = non_empty(self.spec.helm_version.as_deref())
            && version != "v3"
        {
            return Err(InvalidSpec::HelmVersion(version.to_owned()));
        }
        let target = self.target();
        if !is_release_name(&target.name) {
            return Err(InvalidSpec::ReleaseName { name: target.name });
        }
        if !is_label(&target.namespace) {
            return Err(InvalidSpec::TargetNamespace(target.namespace));
        }
        self.validate_references()
    }

    fn validate_references(&self) -> Result<(), InvalidSpec> {
        let bad = |named: &Reference| !is_label(&named.namespace) || !is_object_name(&named.name);
        match self.references()?.into_iter().find(bad) {
            Some(Reference {
                field,
                namespace,
                name,
            }) => Err(InvalidSpec::Reference {
                field,
                namespace,
                name,
            }),
            None => Ok(()),
        }
    }

    /// Refuses objects of other namespaces.
    ///
    /// # Errors
    /// Names the first that it names, or what keeps it from being made out.
    pub fn keeps_to_its_namespace(&self) -> Result<(), InvalidSpec> {
        let own = self.own_namespace();
        let other = |named: &Reference| named.namespace != own;
        match self.references()?.into_iter().find(other) {
            Some(named) => Err(InvalidSpec::OtherNamespace {
                field: named.field,
                namespace: named.namespace,
                name: named.name,
            }),
            None => Ok(()),
        }
    }

    /// The ConfigMaps and Secrets that it names.
    fn references(&self) -> Result<Vec<Reference>, InvalidSpec> {
        let own = self.own_namespace();
        let named = |field, (namespace, name)| Reference {
            field,
            namespace,
            name,
        };
        let keys = |field, verify: Verify| named(field, (verify.keys.namespace, verify.keys.name));
        let source = self.chart_source()?;
        let mut all = Vec::new();
        if let (field, Some(secret)) = source.secret() {
            all.push(named(field, secret.clone()));
        }
        if let ChartSource::Git(GitChart {
            verify: Some(verify),
            ..
        }) = &source
        {
            all.push(keys("chart.verify.secretRef", verify.clone()));
        }
        for source in self.spec.values_sources() {
            if let Some(FileRef::Git {
                url,
                path,
                secret,
                verify,
                ..
            }) = source.file(&own)
            {
                if url.is_empty() || path.is_empty() {
                    return Err(InvalidSpec::GitFile);
                }
                all.extend(secret.map(|secret| named("valuesFrom gitFileRef.secretRef", secret)));
                let field = "valuesFrom gitFileRef.verify.secretRef";
                all.extend(verify.map(|verify| keys(field, verify)));
            }
            if let Some(key) = source.config_map_key_ref.or(source.secret_key_ref) {
                let namespace = key.namespace(&own).to_owned();
                all.push(named("valuesFrom", (namespace, key.name)));
            }
        }
        Ok(all)
    }
}

impl HelmReleaseSpec {
    /// How long each step of an install, upgrade or uninstall may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        seconds(self.timeout)
    }

    /// Whether helm waits for the objects to be ready.
    #[must_use]
    pub fn wait(&self) -> bool {
        self.wait
            .unwrap_or_else(|| self.rollback().enable() || self.test().enable())
    }

    /// Revisions that Helm keeps; 0 means all.
    #[must_use]
    pub fn max_history(&self) -> u32 {
        match self.max_history {
            None => DEFAULT_HISTORY,
            Some(..=0) => 0,
            Some(kept) => u32::try_from(kept).unwrap_or(u32::MAX).max(MIN_HISTORY),
        }
    }

    /// Whether an upgrade starts from the chart's defaults, not from the previous values.
    #[must_use]
    pub fn reset_values(&self) -> bool {
        self.reset_values.unwrap_or(true)
    }

    /// Whether the chart's CRDs are left out at an install.
    #[must_use]
    pub fn skip_crds(&self) -> bool {
        self.skip_crds.unwrap_or(false)
    }

    /// Whether objects that can't be changed are replaced.
    #[must_use]
    pub fn force_upgrade(&self) -> bool {
        self.force_upgrade.unwrap_or(false)
    }

    /// Whether the check against the cluster's schema is left out.
    #[must_use]
    pub fn disable_openapi_validation(&self) -> bool {
        self.disable_openapi_validation.unwrap_or(false)
    }

    /// The rollback settings; left out, they are all defaults.
    #[must_use]
    pub fn rollback(&self) -> &Rollback {
        static DEFAULT: Rollback = Rollback {
            enable: None,
            retry: None,
            max_retries: None,
            force: None,
            recreate: None,
            disable_hooks: None,
            timeout: None,
            wait: None,
        };
        self.rollback.as_ref().unwrap_or(&DEFAULT)
    }

    /// The test settings; left out, they are all defaults.
    #[must_use]
    pub fn test(&self) -> &Test {
        static DEFAULT: Test = Test {
            enable: None,
            ignore_failures: None,
            timeout: None,
            cleanup: None,
        };
        self.test.as_ref().unwrap_or(&DEFAULT)
    }

    /// All sources of values in the order of merging, the deprecated ones first.
    #[must_use]
    pub fn values_sources(&self) -> Vec<ValuesFromSource> {
        let deprecated = self
            .value_file_secrets
            .iter()
            .flatten()
            .map(|secret| ValuesFromSource {
                secret_key_ref: Some(KeySelector {
                    name: secret.name.clone(),
                    ..Default::default()
                }),
                ..Default::default()
            });
        deprecated
            .chain(self.values_from.iter().flatten().cloned())
            .collect()
    }
}

impl Rollback {
    /// Whether a failed upgrade is rolled back.
    #[must_use]
    pub fn enable(&self) -> bool {
        self.enable.unwrap_or(false)
    }

    /// Whether the upgrade is tried again after `count` rollbacks.
    #[must_use]
    pub fn may_retry(&self, count: i64) -> bool {
        let most = self.max_retries.unwrap_or(i64::from(DEFAULT_MAX_RETRIES));
        self.retry.unwrap_or(false) && (most <= 0 || count <= most)
    }

    /// How long each step of a rollback may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        seconds(self.timeout)
    }
}

impl Test {
    /// Whether tests are run.
    #[must_use]
    pub fn enable(&self) -> bool {
        self.enable.unwrap_or(false)
    }

    /// Whether failing tests leave the release good.
    #[must_use]
    pub fn ignore_failures(&self) -> bool {
        self.ignore_failures.unwrap_or(false)
    }

    /// How long each test may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        seconds(self.timeout)
    }
}

fn seconds(value: Option<i64>) -> Duration {
    match value.map(u64::try_from) {
        // Zero and less would mean "at once", which no release survives.
        None | Some(Ok(0) | Err(_)) => DEFAULT_TIMEOUT,
        Some(Ok(seconds)) => Duration::from_secs(seconds).min(MAX_TIMEOUT),
    }
}

fn non_empty(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// Helm's own rule for names of releases: dotted labels, 53 characters in all.
fn is_release_name(name: &str) -> bool {
    name.len() <= 53 && name.split('.').all(is_label)
}

/// The name of a ConfigMap or Secret: dotted labels of any length.
fn is_object_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_part)
}

/// A DNS label as the API takes it.
fn is_label(name: &str) -> bool {
    name.len() <= 63 && is_part(name)
}

fn is_part(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    !name.is_empty()
        && name.bytes().all(|byte| inner(byte) || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}
