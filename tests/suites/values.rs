//! What is composed of several sources of values is what `helm -f a -f b` makes of them: many
//! made-up values, and the real helm as the judge. A made-up case is one key of every file, so
//! that two runs of helm judge all of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use reconciler::values::{Content, Layer, Values};
use serde_json::{Map, Value};
use tandem_tests::{charts, guard, programs};

/// Made-up cases; the same in every run.
const CASES: usize = 600;

/// Texts that YAML's versions and readers take for different things when they stand without
/// quotes, and some that only look like it.
const PLAIN: &[&str] = &[
    "yes",
    "No",
    "on",
    "OFF",
    "y",
    "n",
    "true",
    "False",
    "null",
    "~",
    "Null",
    "0",
    "-0",
    "7",
    "0777",
    "0o17",
    "0x1F",
    "0b101",
    "1_000",
    "12345678",
    "9007199254740993",
    "-9223372036854775808",
    "18446744073709551615",
    "1e3",
    "1E5",
    "123e456",
    "0.5",
    "-.5",
    "1.",
    "+1",
    "1e-7",
    "190:20:30",
    "1:2",
    "2001-01-01",
    "2001-12-14t21:59:43.10-05:00",
    "plain",
    "a b",
    "a: b",
    "v1.2.3",
    "1.2.3",
    "0.1.0",
    "=",
    "<<",
    "- a",
    "100m",
    "5Gi",
    "1e3x",
    "_",
    "0_",
];

/// A value as it is written in a file.
#[derive(Clone, Debug)]
enum Node {
    /// Without quotes.
    Plain(&'static str),
    /// In quotes.
    Text(String),
    List(Vec<Node>),
    Map(Vec<(&'static str, Node)>),
}

impl Node {
    fn write(&self, out: &mut String) {
        match self {
            Self::Plain(text) => out.push_str(text),
            Self::Text(text) => out.push_str(&serde_json::to_string(text).unwrap()),
            Self::List(items) => {
                out.push('[');
                for item in items {
                    item.write(out);
                    out.push_str(", ");
                }
                out.push(']');
            }
            Self::Map(entries) => {
                out.push('{');
                for (key, value) in entries {
                    write!(out, "{key}: ").unwrap();
                    value.write(out);
                    out.push_str(", ");
                }
                out.push('}');
            }
        }
    }
}

impl From<&Node> for Value {
    /// As the API server stores it: JSON's own words as JSON, anything else as a text.
    fn from(node: &Node) -> Self {
        match node {
            Node::Plain(text) => serde_json::from_str(text).unwrap_or_else(|_| Self::from(*text)),
            Node::Text(text) => Self::from(text.as_str()),
            Node::List(items) => items.iter().map(Self::from).collect(),
            Node::Map(entries) => entries
                .iter()
                .map(|(key, value)| (key.trim_matches('"').to_owned(), Self::from(value)))
                .collect(),
        }
    }
}

fn node() -> impl Strategy<Value = Node> {
    // What ends a plain text within a list or map in one line isn't tried there.
    let plain: Vec<&str> = PLAIN
        .iter()
        .copied()
        .filter(|text| !text.contains(": ") && !text.starts_with("- "))
        .collect();
    let leaf = prop_oneof![
        4 => proptest::sample::select(plain).prop_map(Node::Plain),
        1 => proptest::sample::select(PLAIN).prop_map(|text| Node::Text(text.to_owned())),
        // Without the line breaks that only YAML 1.1 has: white space beside one of these, if
        // it stands in quotes as it is, stays here and is lost in helm.
        1 => "[ -~\n\t\u{e9}]{0,12}".prop_map(Node::Text),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        // Few keys, so that files meet.
        let key = proptest::sample::select(vec!["a", "b", "c", "\"1\"", "nested"]);
        let entries = proptest::collection::btree_map(key, inner.clone(), 0..4);
        prop_oneof![
            3 => entries.prop_map(|entries| Node::Map(entries.into_iter().collect())),
            1 => proptest::collection::vec(inner, 0..3).prop_map(Node::List),
        ]
    })
}

/// All cases: the chart's own values, two files, and what stands in the HelmRelease itself.
fn cases() -> ([String; 3], Map<String, Value>) {
    let mut runner = TestRunner::deterministic();
    let mut files = [const { String::new() }; 3];
    let mut inline = Map::new();
    for case in 0..CASES {
        let case = format!("case{case:03}");
        // Not every file has something to say about every case.
        let mut made = || {
            let silent = any::<u8>().new_tree(&mut runner).unwrap().current() < 64;
            let node = node().new_tree(&mut runner).unwrap().current();
            (!silent).then_some(node)
        };
        for file in &mut files {
            if let Some(node) = made() {
                write!(file, "{case}: ").unwrap();
                node.write(file);
                file.push('\n');
            }
        }
        inline.extend(made().map(|node| (case, Value::from(&node))));
    }
    (files, inline)
}

/// All values as a template sees them.
fn judged(chart: &std::path::Path, arguments: &[&str]) -> Map<String, Value> {
    let helm = programs::helm().unwrap().program;
    let mut command = Command::new(helm);
    command
        .args(["template", "judged"])
        .arg(chart)
        .args(arguments)
        .env("HOME", guard::folder("home").unwrap())
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    let shown = String::from_utf8(output.stdout).unwrap();
    let line = shown.lines().find_map(|line| line.strip_prefix("values: "));
    serde_json::from_str(line.expect("the template shows the values")).unwrap()
}

#[test]
fn composed_values_are_what_helm_makes_of_the_files() {
    let ([defaults, one, two], inline) = cases();
    let inline = Value::Object(inline);
    let folder = guard::folder("values").unwrap();
    let chart = folder.join("chart");
    let put = |name: &str, content: &str| {
        let path = folder.join(name);
        guard::write(&path, content).unwrap();
        path.display().to_string()
    };
    put("chart/Chart.yaml", &charts::metadata("judge", "0.1.0"));
    put(
        "chart/templates/all.yaml",
        "values: {{ .Values | toJson }}\n",
    );
    put("chart/values.yaml", &defaults);
    let (first, second) = (put("one.yaml", &one), put("two.yaml", &two));
    let last = put("inline.json", &inline.to_string());
    let expected = judged(&chart, &["-f", &first, "-f", &second, "-f", &last]);

    let layer = |text: &str| Layer {
        origin: String::from("a file"),
        optional: false,
        secret: false,
        content: Content::Text(text.as_bytes().to_vec()),
    };
    let composed = Values::compose(&[layer(&one), layer(&two)], Some(&inline)).unwrap();
    let ours = put("ours.json", composed.text());
    let shown = judged(&chart, &["-f", &ours]);

    let line = |file: &str, case: &str| -> String {
        let found = file.lines().find(|line| line.starts_with(case));
        found.unwrap_or("nothing").to_owned()
    };
    let cases: std::collections::BTreeSet<&String> = expected.keys().chain(shown.keys()).collect();
    let wrong: Vec<String> = cases
        .into_iter()
        .filter(|case| expected.get(*case) != shown.get(*case))
        .map(|case| {
            let (helm, ours) = (expected.get(case), shown.get(case));
            let inputs = [&defaults, &one, &two].map(|file| line(file, case));
            let inline = &inline[case.as_str()];
            format!("{case}: helm {helm:?}, ours {ours:?}, of {inputs:#?} and {inline}")
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(expected.len() > CASES / 2, "most cases have a value");
}
