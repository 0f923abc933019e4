//! The flags and the one variable of helm-operator, and what becomes of each here.
//!
//! What still means something is a flag of [`crate::args`]. Of the rest, a flag whose absence
//! changes nothing that its author relies on is taken and told of once in the log; one that
//! would leave a promise unkept ends the program with a sentence. All of it is one table,
//! which the migration page repeats.

use std::ffi::OsString;

use clap::builder::BoolishValueParser;
use clap::builder::TypedValueParser as _;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};

use crate::args::Args;

/// What becomes of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It is a flag of the reconciler.
    Accepted,
    /// It is taken, and a line in the log says that nothing follows from it.
    NoEffect,
    /// It ends the program.
    Refused,
}

/// How a flag is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `--flag=value` or `--flag value`.
    Value,
    /// `--flag` or `--flag=true`.
    Switch,
}

/// A flag of helm-operator.
#[derive(Debug)]
pub struct Row {
    /// Its name, without dashes.
    pub flag: &'static str,
    /// The variable that stands for it where it isn't given.
    pub variable: Option<&'static str>,
    /// What becomes of it.
    pub treatment: Treatment,
    /// Why, and what to do instead; for an accepted one, what is different.
    pub sentence: &'static str,
    form: Form,
    asks: Asks,
}

/// Which values of a flag ask for more than happens anyway. Of others there is nothing to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// All but the empty one.
    Any,
    /// A switch that is on.
    On,
    /// Any but the namespace that the chart of helm-operator named whether Helm 2 was used or
    /// not.
    OtherNamespace,
    /// A list with Helm 2 in it. Images are known to set `HELM_VERSION` to that of their helm,
    /// so any other word will do.
    Helm2,
}

impl Asks {
    fn is(self, value: &str) -> bool {
        match self {
            Self::Any => !value.is_empty(),
            Self::On => value == "true",
            Self::OtherNamespace => !matches!(value, "" | "kube-system"),
            Self::Helm2 => value
                .split(',')
                .any(|version| version.trim().split('.').next() == Some("v2")),
        }
    }

    /// The condition, in words for the page.
    fn words(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::On => " if `true`",
            Self::OtherNamespace => " if not `kube-system`",
            Self::Helm2 => " if it names `v2`",
        }
    }
}

const NO_TILLER: &str = "there is no Tiller to talk to, since only Helm 3 and later are supported; \
     convert Helm 2 releases with helm's 2to3 plugin and remove the flag";
const NO_CONVERSION: &str = "nothing is converted here; convert Helm 2 releases with helm's 2to3 \
     plugin before the move and remove the flag";

/// Every flag of helm-operator, in the order of its help.
pub const ROWS: &[Row] = &[
    accepted("version", "prints the reconciler's version"),
    accepted("log-format", "`fmt` and `json`; other words are refused"),
    accepted(
        "kubeconfig",
        "as before; without it `$KUBECONFIG` and `~/.kube/config` are tried before what a pod has",
    ),
    refused(
        "master",
        Form::Value,
        Asks::Any,
        "the API server is taken from the pod or from a kubeconfig; name it there and give \
         --kubeconfig",
    ),
    accepted("allow-namespace", "as before; empty means all"),
    accepted(
        "workers",
        "helm programs at the same time, 4 by default (2 before)",
    ),
    accepted("listen", "as before, also `-l`"),
    refused("tiller-ip", Form::Value, Asks::Any, NO_TILLER),
    refused("tiller-port", Form::Value, Asks::Any, NO_TILLER),
    without_effect(
        "tiller-namespace",
        Form::Value,
        Asks::OtherNamespace,
        "there is no Tiller to talk to",
    ),
    refused("tiller-tls-verify", Form::Switch, Asks::On, NO_TILLER),
    refused("tiller-tls-enable", Form::Switch, Asks::On, NO_TILLER),
    refused("tiller-tls-key-path", Form::Value, Asks::Any, NO_TILLER),
    refused("tiller-tls-cert-path", Form::Value, Asks::Any, NO_TILLER),
    refused("tiller-tls-ca-cert-path", Form::Value, Asks::Any, NO_TILLER),
    refused("tiller-tls-hostname", Form::Value, Asks::Any, NO_TILLER),
    accepted("charts-sync-interval", "as before"),
    without_effect(
        "status-update-interval",
        Form::Value,
        Asks::Any,
        "a status is written when it changes, not at intervals",
    ),
    without_effect(
        "log-release-diffs",
        Form::Switch,
        Asks::On,
        "differences of values and manifests are not logged, since they may hold secrets; \
         `helm get values` and `helm get manifest` show both revisions",
    ),
    accepted(
        "update-chart-deps",
        "as before, for charts from git; `false` takes the dependencies of every chart as they lie in its `charts` folder",
    ),
    accepted(
        "git-timeout",
        "of each exchange with a source, 2m by default (20s before, too short for large repositories)",
    ),
    accepted("git-poll-interval", "as before"),
    accepted(
        "git-default-ref",
        "by default the branch that the remote's HEAD names (`master` before)",
    ),
    refused(
        "helm-repository-import",
        Form::Value,
        Asks::Any,
        "what opens a Helm repository stands in the Secret that chart.chartPullSecret names; put \
         the username and password of each there and remove the flag",
    ),
    Row {
        variable: Some("HELM_VERSION"),
        ..refused(
            "enabled-helm-versions",
            Form::Value,
            Asks::Helm2,
            "only Helm 3 and later are supported; convert Helm 2 releases with helm's 2to3 plugin \
             and write v3 or nothing",
        )
    },
    refused(
        "convert-tiller-out-cluster",
        Form::Switch,
        Asks::On,
        NO_CONVERSION,
    ),
    refused(
        "convert-release-storage",
        Form::Value,
        Asks::Any,
        NO_CONVERSION,
    ),
];

const fn accepted(flag: &'static str, sentence: &'static str) -> Row {
    row(flag, Treatment::Accepted, Form::Value, Asks::Any, sentence)
}

const fn without_effect(flag: &'static str, form: Form, asks: Asks, sentence: &'static str) -> Row {
    row(flag, Treatment::NoEffect, form, asks, sentence)
}

const fn refused(flag: &'static str, form: Form, asks: Asks, sentence: &'static str) -> Row {
    row(flag, Treatment::Refused, form, asks, sentence)
}

const fn row(
    flag: &'static str,
    treatment: Treatment,
    form: Form,
    asks: Asks,
    sentence: &'static str,
) -> Row {
    Row {
        flag,
        variable: None,
        treatment,
        sentence,
        form,
        asks,
    }
}

/// Reads the arguments of the program, those of helm-operator among them.
///
/// # Errors
/// If they can't be read, or ask for something that isn't there; as clap says it, so that it
/// is printed, and the process ends, as at any other misuse.
pub fn read<I>(arguments: I) -> Result<Args, clap::Error>
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let matches = command().try_get_matches_from(arguments)?;
    let mut args = Args::from_arg_matches(&matches)?;
    // A command like `status` needs no flags of the operator, whatever the pod's variables say.
    if let Some(run) = &mut args.run
        && args.command.is_none()
    {
        run.without_effect = judge(&matches)?;
    }
    Ok(args)
}

fn command() -> Command {
    ROWS.iter()
        .filter(|row| row.treatment != Treatment::Accepted)
        .fold(Args::command(), |command, row| command.arg(row.argument()))
}

/// Tells which flags have no effect.
fn judge(matches: &ArgMatches) -> Result<Vec<String>, clap::Error> {
    let (mut without_effect, mut refused) = (Vec::new(), Vec::new());
    for row in ROWS {
        let Some(said) = row.judge(matches) else {
            continue;
        };
        match row.treatment {
            Treatment::Accepted => {}
            Treatment::NoEffect => without_effect.push(said),
            Treatment::Refused => refused.push(said),
        }
    }
    if refused.is_empty() {
        return Ok(without_effect);
    }
    // All at once: each line costs a restart of the pod otherwise.
    let said = format!("{}\n", refused.join("\nerror: "));
    Err(clap::Error::raw(ErrorKind::InvalidValue, said))
}

impl Row {
    fn argument(&self) -> Arg {
        let mut argument = Arg::new(self.flag)
            .long(self.flag)
            .hide(true)
            .action(ArgAction::Append);
        if let Some(variable) = self.variable {
            argument = argument.env(variable);
        }
        match self.form {
            Form::Value => argument.num_args(1),
            Form::Switch => argument
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_parser(BoolishValueParser::new().map(|on| on.to_string())),
        }
    }

    /// What there is to say about this flag as it was given.
    fn judge(&self, matches: &ArgMatches) -> Option<String> {
        if self.treatment == Treatment::Accepted {
            return None;
        }
        let mut values = matches.get_many::<String>(self.flag)?;
        values.any(|value| self.asks.is(value)).then_some(())?;
        let by_variable = matches.value_source(self.flag) == Some(ValueSource::EnvVariable);
        let name = match self.variable.filter(|_| by_variable) {
            Some(variable) => variable.to_owned(),
            None => format!("--{}", self.flag),
        };
        let verdict = match self.treatment {
            Treatment::Refused => "is refused",
            _ => "has no effect",
        };
        Some(format!("{name} {verdict}: {}", self.sentence))
    }
}

/// The table as the migration page has it, flags of one fate in one line.
#[must_use]
pub fn markdown() -> String {
    let mut lines: Vec<(Vec<String>, String)> = Vec::new();
    for row in ROWS {
        let names = [
            Some(format!("`--{}`", row.flag)),
            row.variable.map(|variable| format!("`{variable}`")),
        ];
        let here = match row.treatment {
            Treatment::Accepted => "accepted".to_owned(),
            Treatment::NoEffect => format!("no effect, told in the log{}", row.asks.words()),
            Treatment::Refused => format!("refused{}", row.asks.words()),
        };
        let fate = format!("{here} | {}", row.sentence);
        let names = names.into_iter().flatten();
        match lines.iter_mut().find(|(_, other)| *other == fate) {
            Some((flags, _)) => flags.extend(names),
            None => lines.push((names.collect(), fate)),
        }
    }
    let lines = lines
        .iter()
        .map(|(flags, fate)| format!("| {} | {fate} |\n", flags.join(", ")));
    let head = "| flag | here | why, what is different, or what to do instead |\n|---|---|---|\n";
    std::iter::once(head.to_owned()).chain(lines).collect()
}

#[cfg(test)]
#[path = "upstream_flags_tests.rs"]
mod tests;
