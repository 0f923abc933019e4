//! A range over a repository of an OCI registry with many tags.

use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use tandem_shared::request::Request;
use tandem_shared::source::{Source, SourceKind};
use tandem_tests::pair::{Extra, sidecar};
use tandem_tests::registry::{Access, Registry};
use tandem_tests::requests::{manifest, request, version};
use tandem_tests::volume::Volume;

use super::figures::{Taken, median};
use super::follow::peak;
use super::wire::Wire;

/// What a range costs.
#[derive(Serialize)]
pub(crate) struct Tags {
    /// Tags of the repository.
    pub(crate) tags: u32,
    /// A look in which nothing is new.
    pub(crate) look: Taken,
    /// Peak resident bytes of the sidecar, and what it had after one chart without a range.
    pub(crate) peak: u64,
    pub(crate) before: u64,
}

/// Takes `rounds` looks at `count` tags.
pub(crate) async fn range(count: u32, rounds: u32) -> Result<Tags> {
    let registry = Registry::start(Access::Open)?;
    let oldest = registry.push("charts", "web", "1.0.0", "oldest")?;
    let between = (1..count - 1).map(|number| format!("1.0.{number}"));
    registry.put_tags("charts/web", &oldest, between)?;
    let newest = registry.push("charts", "web", &format!("1.0.{}", count - 1), "newest")?;

    let wire = Wire::to(registry.port())?;
    let volume = Volume::new()?;
    let plain = format!("--plain-http-registries={}", wire.host());
    let role = sidecar(&volume, &Extra::args([plain]))?;
    role.ready().await?;
    let source = Source {
        kind: SourceKind::Oci,
        url: format!("oci://{}/charts", wire.host()),
        credential: None,
    };
    let look = async |wanted: &str, digest: &str, refresh: String| {
        let asked = Request {
            refresh,
            ..request(&source, [version("web", "web", wanted)])
        };
        let (before, begun) = (wire.received(), Instant::now());
        volume.ask(&asked)?;
        let found = manifest(&volume, &source, wanted, |found| {
            found.handled_refresh == asked.refresh
        })
        .await?;
        let good = found.results.get("web").and_then(|one| one.good.as_ref());
        let good = good.with_context(|| format!("{wanted} gave nothing: {found:#?}"))?;
        anyhow::ensure!(
            good.upstream_digest.as_deref() == Some(digest),
            "{wanted} gave {:?}",
            good.version
        );
        anyhow::Ok(Taken {
            seconds: begun.elapsed().as_secs_f64(),
            received: wire.received() - before,
            disk: 0,
        })
    };
    look("1.0.0", &oldest, "one chart".to_owned()).await?;
    let before = peak(&role)?;
    look("^1.0", &newest, "a range".to_owned()).await?;
    let mut looks = Vec::new();
    for round in 0..rounds {
        looks.push(look("^1.0", &newest, round.to_string()).await?);
    }
    Ok(Tags {
        tags: count,
        look: median(&looks),
        peak: peak(&role)?,
        before,
    })
}
