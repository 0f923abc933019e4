//! HelmReleases as people write them, on the real API server: what is accepted, what is
//! kept of it, and what the reconciler asks for because of it. The documents lie in
//! `documents/`; `table` says what becomes of each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

mod document;
mod table;
mod wire;

use std::collections::BTreeSet;

use serde_json::Value;
use tandem_shared::request::{Want, WantKind};
use tandem_shared::source::{Source, SourceKind};
use tandem_tests::cluster::Cluster;
use tandem_tests::kubernetes::install_crd;
use tandem_tests::pair::Extra;
use tandem_tests::wait::{LONG, Look, until};
use tandem_tests::world::World;

use document::read;
use table::Answer::{Kept, Refused, Unknown};
use table::{ANSWERS, Answer, WISHES, Wish};
use wire::{Response, WAYS, Way, Wire};

/// What is wrong with the answer to a document that was sent this way, if anything is.
async fn judge(wire: &Wire, name: &str, answer: &Answer, way: Way) -> Result<(), String> {
    let response = wire.send(name, way).await;
    let strict = matches!(way, Way::Create("Strict") | Way::Apply);
    match answer {
        Refused(words) => refused(&response, way, &[*words]),
        Unknown(fields) if strict => refused(&response, way, fields),
        Unknown(fields) => {
            let warned = if matches!(way, Way::Create("Warn")) {
                *fields
            } else {
                &[]
            };
            kept(wire, name, &response, fields).await?;
            warns(&response, warned)
        }
        Kept => {
            kept(wire, name, &response, &[]).await?;
            warns(&response, &[])
        }
    }
}

fn refused(response: &Response, way: Way, words: &[&str]) -> Result<(), String> {
    let message = response.body["message"].as_str().unwrap_or_default();
    let named = |words: &&str| message.contains(*words);
    let said = match way {
        // The first field that isn't known is named, in no order.
        Way::Apply => words.iter().any(named),
        Way::Create(_) => words.iter().all(named),
    };
    match (response.accepted, said) {
        (false, true) => Ok(()),
        (true, _) => Err("is accepted".to_owned()),
        (false, false) => Err(format!("is refused, but not with {words:?}: {message}")),
    }
}

/// Accepted, and stored as it is but for these fields; then it is deleted again.
async fn kept(
    wire: &Wire,
    name: &str,
    response: &Response,
    dropped: &[&str],
) -> Result<(), String> {
    if !response.accepted {
        return Err(format!("is refused: {}", response.body["message"]));
    }
    let mut expected = read(name);
    for field in dropped {
        let (parent, field) = field.rsplit_once('.').unwrap();
        let parent = format!("/{}", parent.replace('.', "/"));
        let parent = expected.pointer_mut(&parent).unwrap().as_object_mut();
        parent.unwrap().remove(field).expect("the field is there");
    }
    let stored = wire.get(name).await;
    wire.delete(name).await;
    for part in ["/spec", "/metadata/annotations"] {
        let of = |whole: &Value| whole.pointer(part).cloned().unwrap_or_default();
        let (is, should) = (of(&stored), of(&expected));
        if is != should {
            return Err(format!("{part} is kept as {is}, not as {should}"));
        }
    }
    Ok(())
}

/// Warns of these fields and of nothing else.
fn warns(response: &Response, fields: &[&str]) -> Result<(), String> {
    let warnings = &response.warnings;
    let named = |field: &&str| warnings.iter().any(|one| one.contains(*field));
    if warnings.len() == fields.len() && fields.iter().all(named) {
        Ok(())
    } else {
        Err(format!("warns with {warnings:?}, not of {fields:?}"))
    }
}

#[tokio::test]
async fn every_document_is_accepted_or_refused_as_its_row_says_and_kept_as_it_is() {
    let listed: BTreeSet<String> = ANSWERS.iter().map(|row| row.0.to_owned()).collect();
    assert_eq!(listed, document::names(), "every document has a row");

    let cluster = Cluster::shared().unwrap();
    let client = cluster.client().await.unwrap();
    install_crd(&client).await.unwrap();
    let namespace = cluster.namespace("acceptance").await.unwrap();
    let wire = Wire::new(client, &namespace);
    let mut wrong = Vec::new();
    for (name, answer) in ANSWERS {
        for way in WAYS {
            if let Err(what) = judge(&wire, name, answer, way).await {
                wrong.push(format!("{name}.yaml, {way:?}: {what}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn the_reconciler_asks_for_the_chart_of_every_accepted_document() {
    let accepted = ANSWERS
        .iter()
        .filter(|row| !matches!(row.1, Refused(_)))
        .map(|row| row.0);
    assert!(
        accepted.eq(WISHES.iter().map(|row| row.0)),
        "every accepted document has a wish, in the same order"
    );

    // No sidecar: what is asked for lies on the volume, and nobody goes to fetch it.
    let mut world = World::empty("acceptance").await.unwrap();
    let login = [("username", "ada"), ("password", "s3cret")];
    for name in ["git-login", "charts-login"] {
        world.releases.put_secret(name, &login).await.unwrap();
    }
    let wire = Wire::new(world.client.clone(), &world.namespace);
    for (name, _) in WISHES {
        let sent = wire.send(name, Way::Create("Warn")).await;
        assert!(sent.accepted, "{name}.yaml: {}", sent.body);
    }
    let as_before = Extra::args(["--git-default-ref=master"]);
    world.start_reconciler(&as_before).unwrap();
    for (name, wish) in WISHES {
        let expected = match *wish {
            Wish::Git(url, reference, path) => (SourceKind::Git, url, Some(reference), None, path),
            Wish::Helm(url, version, chart) => (SourceKind::Helm, url, None, Some(version), chart),
            Wish::None(words) => {
                let said = world.releases.condition(name, "Ready", "False", words);
                if let Err(error) = said.await {
                    panic!("{name}.yaml: {error:#}");
                }
                continue;
            }
        };
        let (source, want) = asked(&world, name).await;
        let spec = &want.spec;
        let asks = (
            source.kind,
            source.url.as_str(),
            spec.reference.as_deref(),
            spec.version.as_deref(),
            spec.path.as_str(),
        );
        assert_eq!(asks, expected, "{name}.yaml");
    }
}

/// The one chart that is asked for because of a HelmRelease.
async fn asked(world: &World, name: &str) -> (Source, Want) {
    let by = format!("{}/{name}", world.namespace);
    let asked = until(format!("what {name}.yaml asks for"), LONG, || async {
        let mut charts = Vec::new();
        for request in world.volume.requests()? {
            for want in request.wants {
                if want.spec.kind == WantKind::Chart && want.used_by.contains(&by) {
                    charts.push((request.source.clone(), want));
                }
            }
        }
        Ok(Look::from_option(
            (!charts.is_empty()).then_some(charts),
            "nothing",
        ))
    });
    let mut asked = asked.await.unwrap();
    assert_eq!(asked.len(), 1, "{name}.yaml: {asked:?}");
    asked.remove(0)
}
