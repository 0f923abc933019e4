//! Collects what a release shall be made from: the chart's artifact and the composed values.
//! Reads, and changes nothing.

use std::sync::Arc;

use kube::Client;
use tandem_shared::artifact::Digest;
use tandem_shared::manifest::Good;
use tandem_shared::request::Resolution;
use tandem_shared::verify::Verified;

use super::artifacts::Artifacts;
use super::layers::{LayersError, Stuck, layers};
use super::plan::{Blocked, Desired, Present, RollbackPolicy, TestPolicy, Want};
use super::snapshot::{Snapshot, SourceView, Wants};
use crate::crd::{HelmRelease, Target};
use crate::credentials::{Known, Lent};
use crate::identity::{Identity, Inputs};
use crate::releases::Unclear;
use crate::status::{Obstacle, ObstacleKind};
use crate::values::Values;
use crate::view::{HELD_BACK, Trouble, WantView};

/// What a release shall be made from.
#[derive(Clone, Debug)]
pub struct Material {
    /// The source on the volume and the key of the chart's want.
    pub want: (tandem_shared::source::SourceName, String),
    /// What there is of the chart.
    pub chart: Arc<Good>,
    /// Its commit or version.
    pub revision: String,
    /// The composed values.
    pub values: Values,
    /// The identity of the release, first, and others that are as good.
    pub identities: Vec<Identity>,
}

impl Material {
    /// The chart's artifact.
    #[must_use]
    pub fn artifact(&self) -> &Digest {
        &self.chart.artifact
    }
}

/// A chart that can be had.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its commit or version.
    pub revision: String,
    /// Its artifact.
    pub artifact: Digest,
    /// What its dependencies stand for, if it has any.
    pub dependencies: Option<Resolution>,
    /// Who signed it, if that is asked for.
    pub verified_by: Option<Verified>,
}

/// What was collected.
#[derive(Debug)]
pub struct Gathered {
    /// What the plan works towards.
    pub desired: Desired,
    /// What to make the release from, if it is to be there and can be made.
    pub material: Option<Material>,
    /// The chart, if it can be had.
    pub chart: Option<Found>,
    /// What keeps it from being made, or from being the newest.
    pub obstacle: Option<Obstacle>,
    /// Time alone may remove the obstacle: nothing tells when it is gone.
    pub retry: bool,
}

/// Collects what `release` shall be made from.
///
/// # Errors
/// Only for what passes by itself; what somebody has to mend is an [`Obstacle`].
pub async fn gather(
    client: &Client,
    artifacts: &Artifacts,
    snapshot: &Snapshot,
    release: &HelmRelease,
    rollbacks: i64,
) -> Result<Gathered, LayersError> {
    let spec = &release.spec;
    let gathered = |want, material, obstacle, retry| Gathered {
        desired: Desired {
            want,
            generation: snapshot.entry.generation(),
            timeout: spec.timeout(),
            rollback: RollbackPolicy {
                enable: spec.rollback().enable(),
                may_retry: spec.rollback().may_retry(rollbacks),
            },
            test: TestPolicy {
                enable: spec.test().enable(),
                ignore_failures: spec.test().ignore_failures(),
            },
        },
        material,
        chart: None,
        obstacle,
        retry,
    };
    if snapshot.entry.is_deleting() {
        let want = Want::Absent {
            abandon: snapshot.entry.is_abandoning(),
        };
        return Ok(gathered(want, None, None, false));
    }
    if snapshot.entry.is_suspended() {
        return Ok(gathered(Want::Suspended, None, None, false));
    }
    let blocked = |obstacle: Obstacle, retry| {
        let refuse = obstacle.kind == ObstacleKind::Invalid;
        let want = Want::Blocked(Blocked {
            reason: obstacle.reason,
            message: obstacle.message.clone(),
            refuse,
        });
        gathered(want, None, Some(obstacle), retry)
    };
    let (wants, chart, trouble) = match chart(release, &snapshot.source) {
        Ok(found) => found,
        Err(obstacle) => return Ok(blocked(obstacle, false)),
    };
    let revision = chart
        .commit
        .clone()
        .or_else(|| chart.version.clone())
        .unwrap_or_default();
    let had = Some(Found {
        revision: revision.clone(),
        artifact: chart.artifact.clone(),
        dependencies: chart.resolution(),
        verified_by: chart.verified_by.clone(),
    });
    let without_values = |obstacle, retry| Gathered {
        chart: had.clone(),
        ..blocked(obstacle, retry)
    };
    let (layers, old_values) = match layers(client, artifacts, release, wants).await? {
        Ok(layers) => layers,
        Err(Stuck { obstacle, retry }) => return Ok(without_values(obstacle, retry)),
    };
    let values = match Values::compose(&layers, spec.values.as_ref()) {
        Ok(values) => values,
        // Nothing tells when a ConfigMap or Secret comes to be.
        Err(error) => {
            return Ok(without_values(
                Obstacle::invalid("InvalidValues", error.to_string()),
                true,
            ));
        }
    };
    let target = release.target();
    let identities = std::iter::once(&chart.artifact)
        .chain(&chart.same_as)
        .map(|artifact| identity(artifact, &values, release, &target))
        .collect::<Vec<_>>();
    let material = Material {
        want: (wants.name.clone(), wants.key.clone()),
        revision,
        chart: Arc::new(chart.clone()),
        values,
        identities: identities.clone(),
    };
    let want = Want::Present(Present { identities });
    let obstacle = trouble.map(Obstacle::outdated).or(old_values);
    let made = gathered(want, Some(material), obstacle, false);
    Ok(Gathered { chart: had, ..made })
}

fn identity(
    artifact: &Digest,
    values: &Values,
    release: &HelmRelease,
    target: &Target,
) -> Identity {
    Identity::of(&Inputs {
        artifact: &artifact.to_string(),
        values: values.text(),
        reset_values: release.spec.reset_values(),
        force_upgrade: release.spec.force_upgrade(),
        disable_openapi_validation: release.spec.disable_openapi_validation(),
        target,
    })
}

/// The chart, and what is wrong with its newest form nevertheless.
fn chart<'a>(
    release: &HelmRelease,
    source: &'a SourceView,
) -> Result<(&'a Wants, &'a Good, Option<&'a Trouble>), Obstacle> {
    let wants = match source {
        SourceView::Unclear(unclear) => {
            let kind = match unclear {
                Unclear::Wish(error) if error.is_chart_source() => ObstacleKind::NoChart,
                _ => ObstacleKind::Invalid,
            };
            return Err(Obstacle {
                kind,
                reason: "InvalidSpec",
                message: unclear.to_string(),
            });
        }
        SourceView::Credential(lent, Known::Problem { problem, .. }) => {
            let named = release.chart_source().ok();
            let field = match lent {
                Lent::Credential(_) if lent.is_of_url() => "the password in its URL",
                Lent::Credential(_) => named.map_or("chart", |source| source.secret().0),
                Lent::Keys(keys) if named.is_some_and(|source| source.verifies_by(keys)) => {
                    "chart.verify.secretRef"
                }
                Lent::Keys(_) => "valuesFrom gitFileRef.verify.secretRef",
            };
            return Err(Obstacle {
                kind: ObstacleKind::ChartFailed,
                reason: "CredentialMissing",
                message: format!("{field}: {problem}"),
            });
        }
        SourceView::Credential(..) => {
            return Err(Obstacle::fetching(
                "the credential of the chart source, or the keys for it, are being read",
            ));
        }
        SourceView::Wants(wants) => wants,
    };
    match &wants.chart {
        WantView::Pending(why) => Err(Obstacle::fetching(why)),
        WantView::Problem(trouble) => Err(Obstacle::missing(cause(wants, trouble))),
        WantView::Good { good, trouble } => Ok((
            wants,
            good,
            trouble.as_ref().map(|trouble| cause(wants, trouble)),
        )),
    }
}

/// A chart that is held back by a values file says only that; the file says why.
fn cause<'a>(wants: &'a Wants, trouble: &'a Trouble) -> &'a Trouble {
    let of_files = wants.files.values().filter(|file| file.place.with_chart);
    let of_files = of_files.filter_map(|file| file.view.trouble());
    let mut causes = of_files.filter(|cause| cause.reason != HELD_BACK);
    if trouble.reason == HELD_BACK {
        causes.next().unwrap_or(trouble)
    } else {
        trouble
    }
}
