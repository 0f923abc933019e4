//! What a `/metrics` page says.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::http_client;

/// What the product's own counters are named.
const HELM_PROCESSES: &str = "tandem_helm_children_total";
const ACTIONS: &str = "flux_helm_operator_release_action_duration_seconds";
const API_WRITES: &str = "tandem_api_writes_total";
const STAGES: &str = "tandem_stage_duration_seconds";
const GIT_PROCESSES: &str = "tandem_mirror_git_children_total";
const EXCHANGES: &str = "tandem_mirror_exchanges_total";

/// One line of the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Name, with its suffix (`_total`, `_bucket`, `_sum`, `_count`).
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Value.
    pub value: f64,
}

/// A page, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Metrics(pub Vec<Sample>);

impl Metrics {
    /// Reads a page from `http://<address>/metrics`.
    ///
    /// # Errors
    /// When it isn't served.
    pub async fn scrape(address: &str) -> Result<Self> {
        let (status, text) = http_client::get(&format!("http://{address}/metrics")).await?;
        ensure!(
            status == 200,
            "http://{address}/metrics answered {status}: {text}"
        );
        Ok(Self::parse(&text))
    }

    /// Reads the text format; lines that are no samples are passed over.
    pub fn parse(text: &str) -> Self {
        Self(
            text.lines()
                .filter(|line| !line.starts_with('#'))
                .filter_map(sample)
                .collect(),
        )
    }

    /// The sum of all samples of that name that carry all these labels; 0 when
    /// there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |sample: &&Sample| {
            sample.name == name
                && labels
                    .iter()
                    .all(|(key, value)| sample.labels.get(*key).is_some_and(|has| has == value))
        };
        self.0.iter().filter(fits).map(|sample| sample.value).sum()
    }

    /// Helm programs that a reconciler has started.
    pub fn helm_processes(&self) -> f64 {
        self.sum(HELM_PROCESSES, &[])
    }

    /// Those of them that were to `verb`, such as `install`.
    pub fn helm_processes_to(&self, verb: &str) -> f64 {
        self.sum(HELM_PROCESSES, &[("verb", verb)])
    }

    /// How often a reconciler has started helm for each verb.
    pub fn helm_runs(&self) -> BTreeMap<&str, f64> {
        let mut runs = BTreeMap::new();
        for sample in self.0.iter().filter(|sample| sample.name == HELM_PROCESSES) {
            if let Some(verb) = sample.labels.get("verb") {
                *runs.entry(verb.as_str()).or_default() += sample.value;
            }
        }
        runs
    }

    /// How often a reconciler did this to a release; `sync` is a pass over it.
    pub fn actions(&self, action: &str, release: &str) -> f64 {
        let labels = [("action", action), ("release_name", release)];
        self.sum(&format!("{ACTIONS}_count"), &labels)
    }

    /// Writes of a reconciler to the Kubernetes API.
    pub fn api_writes(&self) -> f64 {
        self.sum(API_WRITES, &[])
    }

    /// Times that a reconciler took in all for each stage of its passes, and how
    /// often: seconds and count, by stage.
    pub fn stages(&self) -> BTreeMap<String, (f64, f64)> {
        let names = self
            .0
            .iter()
            .filter_map(|sample| sample.labels.get("stage").cloned());
        names
            .map(|stage| {
                let labels = [("stage", stage.as_str())];
                let part = |suffix: &str| self.sum(&format!("{STAGES}_{suffix}"), &labels);
                let found = (part("sum"), part("count"));
                (stage, found)
            })
            .collect()
    }

    /// Git programs that a mirror-sidecar has started.
    pub fn git_processes(&self) -> f64 {
        self.sum(GIT_PROCESSES, &[])
    }

    /// Times that a mirror-sidecar asked a source for its refs.
    pub fn polls(&self) -> f64 {
        self.sum(EXCHANGES, &[("kind", "list")])
    }

    /// Times that a mirror-sidecar brought objects in.
    pub fn fetches(&self) -> f64 {
        self.sum(EXCHANGES, &[("kind", "fetch")])
    }

    /// Whether there is any sample of that name.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|sample| sample.name == name)
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (series, value) = match line.rfind('}') {
        Some(end) => line.split_at(end + 1),
        None => line.split_once(' ')?,
    };
    let value = value.split_whitespace().next()?.parse().ok()?;
    let (name, labels) = match series.split_once('{') {
        Some((name, rest)) => (name, labels(rest.strip_suffix('}')?)?),
        None => (series, BTreeMap::new()),
    };
    Some(Sample {
        name: name.to_owned(),
        labels,
        value,
    })
}

fn labels(mut text: &str) -> Option<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    while !text.is_empty() {
        let (key, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = rest.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        found.insert(key.trim_start_matches(',').to_owned(), value);
        text = rest.get(end + 1..)?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_have_a_time_and_a_count() {
        let page = Metrics::parse(
            "tandem_stage_duration_seconds_sum{stage=\"plan\"} 0.5\ntandem_stage_duration_seconds_count{stage=\"plan\"} 4\n\
             tandem_stage_duration_seconds_bucket{le=\"1\",stage=\"plan\"} 4\n",
        );
        assert_eq!(
            page.stages(),
            BTreeMap::from([("plan".to_owned(), (0.5, 4.0))])
        );
    }

    #[test]
    fn runs_of_helm_are_told_by_verb() {
        let page = Metrics::parse(
            "tandem_helm_children_total{verb=\"install\"} 1\nother_total{verb=\"test\"} 3\n\
             tandem_helm_children_total{verb=\"upgrade\"} 2\n",
        );
        let runs = BTreeMap::from([("install", 1.0), ("upgrade", 2.0)]);
        assert_eq!(page.helm_runs(), runs);
    }

    #[test]
    fn sums_are_over_what_the_labels_name() {
        let page = Metrics::parse(
            "# TYPE a counter\na_total{x=\"1\",y=\"q\\\"}{,\"} 2\na_total{x=\"1\",y=\"r\"} 3.5\na_total{x=\"2\"} 10\nb 7 123\n# EOF\n",
        );
        assert_eq!(page.sum("a_total", &[("x", "1")]), 5.5);
        assert_eq!(page.sum("a_total", &[("y", "q\"}{,")]), 2.0);
        assert_eq!(page.sum("a_total", &[]), 15.5);
        assert_eq!(page.sum("b", &[]), 7.0);
        assert_eq!(page.sum("a", &[]), 0.0);
    }
}
