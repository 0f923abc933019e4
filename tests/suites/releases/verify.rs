//! Charts that are released only if somebody who is known signed them.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::DeleteParams};
use serde_json::json;
use tandem_tests::charts;
use tandem_tests::git::{HttpServer, Scheme, Signer, Upstream};
use tandem_tests::world::World;

use crate::common::{app, push, upstream};

fn push_signed(upstream: &Upstream, marker: &str, signer: &Signer) -> String {
    let files = charts::config_map("charts/app", marker);
    upstream.write_all(&files).unwrap();
    upstream.push_signed(marker, signer).unwrap()
}

#[tokio::test]
async fn only_what_is_signed_by_a_key_of_the_secret_is_released() {
    let world = World::start("signed").await.unwrap();
    let (upstream, _) = upstream(&world, "charts", "unsigned");
    let server = HttpServer::start(&world.upstreams, Scheme::Http).unwrap();
    let releases = world.releases.clone();
    let (ada, bob) = (Signer::ssh().unwrap(), Signer::openpgp().unwrap());
    let mut spec = app(&server.url("charts"), "web");
    spec["chart"]["verify"] = json!({"secretRef": {"name": "signers"}});
    let first = push_signed(&upstream, "one", &ada);
    releases.apply("web", &spec).await.unwrap();

    // Without its keys a signature says nothing.
    let secret = format!("the Secret {}/signers does not exist", world.namespace);
    let told = releases
        .condition("web", "ChartFetched", "False", &secret)
        .await
        .unwrap();
    assert!(told.starts_with("chart.verify.secretRef: "), "{told}");
    let history = || world.helm.history(&world.namespace, "web").unwrap().len();
    let keys = [ada.public().unwrap(), bob.public().unwrap()];
    let keys = keys.each_ref().map(|(name, key)| (*name, key.as_str()));
    releases.put_secret("signers", &keys).await.unwrap();
    releases.released_from("web", &first).await.unwrap();
    releases.marker("web", "one").await.unwrap();

    // What nobody signed stays out, and the release where it was.
    let unsigned = push(&upstream, "two");
    world.sync_answered().await.unwrap();
    let told = releases
        .condition("web", "ChartFetched", "False", &unsigned[..12])
        .await
        .unwrap();
    assert!(told.contains("isn't signed"), "{told}");
    assert!(told.contains("git commit -S"), "{told}");
    // Ready bears the reason itself, ChartFetched the phase, as in helm-operator.
    let ready = releases.condition("web", "Ready", "False", "Unverified");
    ready.await.unwrap();
    let found = releases.get("web").await.unwrap();
    assert_eq!(found.condition("Ready").unwrap().1, "Unverified");
    assert_eq!(found.status("revision"), &json!(first));
    releases.marker("web", "one").await.unwrap();
    assert_eq!(history(), 1);

    // The next one that is signed goes on, whoever of them did.
    let third = push_signed(&upstream, "three", &bob);
    world.sync().await.unwrap();
    releases.released_from("web", &third).await.unwrap();
    releases.marker("web", "three").await.unwrap();
    assert_eq!(history(), 2);

    // Without the Secret nothing new is released, however it is signed.
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    secrets
        .delete("signers", &DeleteParams::default())
        .await
        .unwrap();
    releases
        .condition("web", "ChartFetched", "False", &secret)
        .await
        .unwrap();
    let fourth = push_signed(&upstream, "four", &ada);
    world.sync_answered().await.unwrap();
    releases.marker("web", "three").await.unwrap();
    assert_eq!(history(), 2);
    releases.put_secret("signers", &keys).await.unwrap();
    releases.released_from("web", &fourth).await.unwrap();
    releases.marker("web", "four").await.unwrap();
}
