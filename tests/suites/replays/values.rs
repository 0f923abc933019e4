//! Values, and where they come from.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tandem_tests::git::Upstream;
use tandem_tests::guard;
use tandem_tests::helm::Helm;
use tandem_tests::kubernetes::HelmReleases;
use tandem_tests::wait::{LONG, Look, until};

use crate::common::{Replay, app, repository};

replays! {
    /// A18: helm-operator#204, helm#1707, helm#6867, flux PR 2292, helm-controller#300,
    /// helm-controller#1448.
    a18_values_are_what_helm_makes_of_the_same_files
    /// A19: helm-controller#587.
    a19_values_that_are_not_there_or_wrong [without_resync]
    /// A19, another namespace: helm-operator#261. What isn't in the one namespace that is
    /// looked after can't be followed: it is found when all is looked at again.
    a19_values_of_another_namespace [with_resync]
}

const DEFAULTS: &str = "default: kept\nnul: {a: 1, b: 2}\nlist: [1, 2, 3]\n";

/// Words that YAML's versions read in different ways.
const IN_CONFIG_MAP: &str = "same: from the ConfigMap
map: {one: 1, list: [1, 2]}
words: {a: yes, b: on, c: y, d: 0777, e: 0x1F, f: 1_000, g: 1e3, h: 0o17, i: 12345678}
text: |
  l1
   l2
";

const IN_SECRET: &str = "same: from the Secret
map: {two: 2, list: [3]}
words: {a: 'yes', d: \"0777\"}
";

/// What a template shows of single values, in the ways in which charts write them.
const SHOWN: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-shown}
data:
  n: {{ .Values.n | quote }}
  int: {{ int64 .Values.n | quote }}
  bare: n{{ .Values.n }}
  strings: {{ printf \"%s %s %s\" .Values.s .Values.o .Values.sha | quote }}
  m: {{ .Values.m | quote }}
  words: {{ .Values.words | toYaml | quote }}
";

fn inline() -> Value {
    json!({
        "nul": {"a": null}, "list": [9], "n": 12_345_678, "s": "yes", "o": "0777",
        "sha": "123e456", "m": "l1\n l2\n", "same": "from the HelmRelease",
        "map": {"three": 3},
        "strings": ["yes", "on", "y", "0777", "0x1F", "1_000", "0o17", "1e3", "~", "null"],
    })
}

/// What helm itself shows of files, in a namespace of its own.
struct Judge {
    helm: Helm,
    releases: HelmReleases,
    chart: String,
}

impl Judge {
    async fn shows(&self, inline: &Value) -> Shown {
        let folder = guard::folder("values").unwrap();
        let file = |name: &str, content: &str| {
            let path = folder.join(name);
            guard::write(&path, content).unwrap();
            path.display().to_string()
        };
        let (one, two) = (file("one", IN_CONFIG_MAP), file("two", IN_SECRET));
        let three = file("three", &inline.to_string());
        let mut args = vec!["upgrade", "--install", "a", &self.chart];
        for file in [&one, &two, &three] {
            args.extend(["--values", file]);
        }
        self.helm.ok(self.releases.namespace(), &args).unwrap();
        shown(&self.releases).await
    }
}

type Shown = [BTreeMap<String, String>; 2];

async fn shown(releases: &HelmReleases) -> Shown {
    let of = async |name: &str| releases.config_map(name).await.unwrap().unwrap();
    [of("a").await, of("a-shown").await]
}

fn values(shown: &Shown) -> Value {
    serde_json::from_str(&shown[0]["values"]).unwrap()
}

async fn a18_values_are_what_helm_makes_of_the_same_files(mut replay: Replay) {
    let upstream = repository(&replay.world, "r1", "one");
    upstream.write("charts/app/values.yaml", DEFAULTS).unwrap();
    upstream
        .write("charts/app/templates/shown.yaml", SHOWN)
        .unwrap();
    let commit = upstream.push("main", "Show values").unwrap();
    let world = &replay.world;
    let elsewhere = world.cluster.namespace("a18-judge").await.unwrap();
    let judge = Judge {
        helm: world.helm.clone(),
        releases: HelmReleases::new(world.client.clone(), &elsewhere),
        chart: upstream.work().join("charts/app").display().to_string(),
    };
    let releases = world.releases.clone();
    let mut spec = app(&upstream.file_url(), "a");
    spec["values"] = inline();
    spec["valuesFrom"] = json!([
        {"configMapKeyRef": {"name": "one"}},
        {"secretKeyRef": {"name": "two", "key": "own"}},
    ]);
    releases
        .put_config_map("one", &[("values.yaml", IN_CONFIG_MAP)])
        .await
        .unwrap();
    releases.apply("a", &spec).await.unwrap();
    releases
        .condition("a", "Released", "False", "no such Secret")
        .await
        .unwrap();
    replay.strike().await;
    releases
        .put_secret("two", &[("own", IN_SECRET)])
        .await
        .unwrap();
    replay.live("a", &commit, "one").await;

    let ours = shown(&releases).await;
    assert_eq!(ours, judge.shows(&inline()).await);
    let seen = values(&ours);
    for (field, is) in [
        ("default", json!("kept")),
        ("nul", json!({"b": 2})),
        ("list", json!([9])),
        ("n", json!(12_345_678)),
        ("s", json!("yes")),
        ("o", json!("0777")),
        ("sha", json!("123e456")),
        ("m", json!("l1\n l2\n")),
        ("text", json!("l1\n l2\n")),
        ("same", json!("from the HelmRelease")),
        ("map", json!({"one": 1, "two": 2, "three": 3, "list": [3]})),
        ("strings", inline()["strings"].clone()),
    ] {
        assert_eq!(seen[field], is, "{field}");
    }
    assert_eq!(seen["words"]["a"], "yes", "in quotes in the Secret");
    assert_eq!(seen["words"]["b"], true, "as helm reads files");

    // The same values are the same release, whoever composes them.
    replay.strike().await;
    replay.lets_alone(&["a"]).await;
    replay.has_revisions("a", 1);

    // What the HelmRelease no longer says is the last source's again.
    let mut fewer = inline();
    for field in ["same", "nul", "list"] {
        fewer.as_object_mut().unwrap().remove(field);
    }
    spec["values"] = fewer.clone();
    releases.apply("a", &spec).await.unwrap();
    replay.live("a", &commit, "one").await;
    let ours = shown(&releases).await;
    assert_eq!(ours, judge.shows(&fewer).await);
    let seen = values(&ours);
    assert_eq!(seen["same"], "from the Secret");
    assert_eq!(seen["nul"], json!({"a": 1, "b": 2}));
    assert_eq!(seen["list"], json!([1, 2, 3]));
    replay.has_revisions("a", 2);
    replay.ends_well().await;
}

/// What may be wrong with a ConfigMap: how the reference names a key, what there is of the
/// ConfigMap, and the key that it lacks.
struct Flaw {
    name: &'static str,
    asks: Value,
    has: Option<(&'static str, &'static str)>,
    lacks: &'static str,
    says: &'static str,
}

fn flaws() -> [Flaw; 4] {
    let flaw = |name, asks, has, lacks, says| Flaw {
        name,
        asks,
        has,
        lacks,
        says,
    };
    let other = Some(("other", "a: 0"));
    [
        flaw(
            "object",
            json!({}),
            None,
            "values.yaml",
            "no such ConfigMap",
        ),
        flaw("key", json!({"key": "own"}), other, "own", "no such key"),
        flaw(
            "default-key",
            json!({}),
            other,
            "values.yaml",
            "no such key",
        ),
        flaw(
            "yaml",
            json!({}),
            Some(("values.yaml", "a: [")),
            "values.yaml",
            "values.yaml",
        ),
    ]
}

/// A HelmRelease with this one source of values.
fn asking(upstream: &Upstream, name: &str, mut reference: Value, optional: bool) -> Value {
    reference["optional"] = json!(optional);
    let mut spec = app(&upstream.file_url(), name);
    spec["valuesFrom"] = json!([{ "configMapKeyRef": reference }]);
    spec
}

/// It is released without the values if they are optional, else it says what is missing.
async fn is_without(replay: &Replay, name: &str, optional: bool, says: &str) {
    let releases = &replay.world.releases;
    if optional {
        releases.released(name).await.unwrap();
        assert_eq!(given(replay, name), json!({}), "{name}");
        return;
    }
    let told = releases
        .condition(name, "Released", "False", says)
        .await
        .unwrap();
    assert!(told.contains("ConfigMap"), "{name}: {told}");
    assert!(releases.records(name).await.unwrap().is_empty(), "{name}");
}

/// The values that a release was given.
fn given(replay: &Replay, name: &str) -> Value {
    let world = &replay.world;
    match world.helm.values(&world.namespace, name).unwrap() {
        Value::Null => json!({}),
        values => values,
    }
}

/// Once they are there, they are released: by the one revision that is new.
async fn is_released(replay: &Replay, name: &str, optional: bool) {
    let releases = &replay.world.releases;
    let revision = 1 + u32::from(optional);
    until(format!("revision {revision} of {name}"), LONG, || async {
        let records = releases.records(name).await?;
        let newest = u32::try_from(records.len())?;
        Ok(Look::when(newest >= revision, format!("{records:?}")))
    })
    .await
    .unwrap();
    releases.record(name, "deployed").await.unwrap();
    releases.released(name).await.unwrap();
    assert_eq!(given(replay, name), json!({"a": 1}), "{name}");
    replay.has_revisions(name, revision);
}

async fn a19_values_that_are_not_there_or_wrong(mut replay: Replay) {
    let upstream = repository(&replay.world, "r1", "one");
    let releases = replay.world.releases.clone();
    let variants = || {
        let each = |flaw: Flaw| [true, false].map(|optional| (name(&flaw, optional), optional));
        flaws().into_iter().flat_map(each)
    };
    for flaw in flaws() {
        if let Some(has) = flaw.has {
            releases.put_config_map(flaw.name, &[has]).await.unwrap();
        }
        for optional in [true, false] {
            let name = name(&flaw, optional);
            let mut reference = flaw.asks.clone();
            reference["name"] = json!(flaw.name);
            let spec = asking(&upstream, &name, reference, optional);
            releases.apply(&name, &spec).await.unwrap();
        }
    }
    for flaw in flaws() {
        for optional in [true, false] {
            is_without(&replay, &name(&flaw, optional), optional, flaw.says).await;
        }
    }

    // Some are mended while both are away, the others under their eyes.
    let mend = async |flaw: &Flaw| {
        let values = [(flaw.lacks, "a: 1")];
        releases.put_config_map(flaw.name, &values).await.unwrap();
    };
    let [object, key, default_key, yaml] = flaws();
    let away = async {
        mend(&object).await;
        mend(&yaml).await;
    };
    replay.strike_while(away).await;
    mend(&key).await;
    mend(&default_key).await;
    for (name, optional) in variants() {
        is_released(&replay, &name, optional).await;
    }
    replay.strike().await;
    let names: Vec<String> = variants().map(|(name, _)| name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    replay.lets_alone(&names).await;
    replay.ends_well().await;
}

fn name(flaw: &Flaw, optional: bool) -> String {
    let kind = if optional { "optional" } else { "needed" };
    format!("no-{}-{kind}", flaw.name)
}

async fn a19_values_of_another_namespace(mut replay: Replay) {
    let upstream = repository(&replay.world, "r1", "one");
    let world = &replay.world;
    let elsewhere = world.cluster.namespace("a19-elsewhere").await.unwrap();
    let other = HelmReleases::new(world.client.clone(), &elsewhere);
    let releases = world.releases.clone();
    let variants = [("optional", true), ("needed", false)];
    for (name, optional) in variants {
        let reference = json!({"name": "settings", "namespace": elsewhere});
        let spec = asking(&upstream, name, reference, optional);
        releases.apply(name, &spec).await.unwrap();
    }
    for (name, optional) in variants {
        is_without(&replay, name, optional, "no such ConfigMap").await;
    }
    // One of that name in the HelmRelease's own namespace is another one.
    releases
        .put_config_map("settings", &[("values.yaml", "a: 0")])
        .await
        .unwrap();
    replay.strike().await;
    other
        .put_config_map("settings", &[("values.yaml", "a: 1")])
        .await
        .unwrap();
    for (name, optional) in variants {
        is_released(&replay, name, optional).await;
    }
    replay.ends_well().await;
}
