//! What becomes of each document.

use Answer::{Kept, Refused, Unknown};

/// What the API server makes of a document.
pub(crate) enum Answer {
    /// It is accepted, and everything in it is kept.
    Kept,
    /// It has these fields, which the definition doesn't know: refused strictly, and
    /// accepted without them leniently.
    Unknown(&'static [&'static str]),
    /// It is refused either way, with these words.
    Refused(&'static str),
}

/// Every document and what the API server makes of it.
pub(crate) const ANSWERS: &[(&str, Answer)] = &[
    ("git", Kept),
    ("git-default-ref", Kept),
    ("git-root", Kept),
    ("git-login", Kept),
    ("both-sources", Kept),
    ("half-a-source", Kept),
    ("repository", Kept),
    ("range", Kept),
    ("other-namespace", Kept),
    ("old-secrets", Kept),
    ("outside-values", Kept),
    ("settings", Kept),
    ("rollback", Kept),
    ("types", Kept),
    ("nulls", Kept),
    ("no-values", Kept),
    ("helm-2", Kept),
    (
        "operator-settings",
        Unknown(&[
            "spec.createCRD",
            "spec.git",
            "spec.chartsSyncInterval",
            "spec.prometheus",
        ]),
    ),
    ("misspelt", Unknown(&["spec.rollback.enabled"])),
    ("app-version", Unknown(&["spec.chart.appVersion"])),
    ("annotation-not-text", Refused("annotations")),
    ("patch", Refused("spec.chart: Required value")),
    ("timeout-as-text", Refused("spec.timeout")),
    ("version-as-number", Refused("spec.chart.version")),
];

/// What the reconciler makes of an accepted document.
pub(crate) enum Wish {
    /// It asks for a chart: URL, ref and path.
    Git(&'static str, &'static str, &'static str),
    /// It asks for a chart: URL, version and name.
    Helm(&'static str, &'static str, &'static str),
    /// It asks for nothing, and says why with these words.
    None(&'static str),
}

/// Every accepted document and what the reconciler makes of it.
pub(crate) const WISHES: &[(&str, Wish)] = &[
    (
        "git",
        Wish::Git(
            "git@git.example.org:shop/orders",
            "feature/SHOP-12_refunds",
            "charts/orders",
        ),
    ),
    (
        "git-default-ref",
        Wish::Git(
            "git@git.example.org:shop/invoices.git",
            "master",
            "charts/invoices",
        ),
    ),
    (
        "git-root",
        Wish::Git("ssh://git@git.example.org/shop/stock", "0.18.4", "."),
    ),
    (
        "git-login",
        Wish::Git(
            "https://git.example.org/shop/returns.git",
            "master",
            "charts/returns",
        ),
    ),
    (
        "both-sources",
        Wish::Git(
            "https://git.example.org/shop/couriers",
            "main",
            "charts/couriers",
        ),
    ),
    (
        "half-a-source",
        Wish::None("could not find valid chart source configuration for release"),
    ),
    (
        "repository",
        Wish::Helm("https://charts.example.org/stable/", "3.2.0", "till"),
    ),
    (
        "range",
        Wish::Helm("https://charts.example.org", "~5.0.6", "scales"),
    ),
    (
        "other-namespace",
        Wish::Helm("https://charts.example.org/main/", "1.3.1", "shop"),
    ),
    (
        "old-secrets",
        Wish::Helm(
            "https://charts.example.org/databases",
            "8.10.10",
            "postgresql",
        ),
    ),
    (
        "outside-values",
        Wish::Helm("https://charts.example.org/stable/", "1.5.0", "signs"),
    ),
    (
        "settings",
        Wish::Git(
            "https://git.example.org/buildings/lights.git",
            "master",
            "deploy/helm/lights",
        ),
    ),
    (
        "rollback",
        Wish::Git(
            "https://git.example.org/buildings/doors",
            "master",
            "charts/doors",
        ),
    ),
    (
        "types",
        Wish::Git(
            "https://git.example.org/shop/types",
            "7d1e6f0c2b",
            "charts/types",
        ),
    ),
    (
        "nulls",
        Wish::Git(
            "https://git.example.org/shop/nulls",
            "master",
            "charts/nulls",
        ),
    ),
    (
        "no-values",
        Wish::Git(
            "https://git.example.org/shop/no-values",
            "main",
            "charts/no-values",
        ),
    ),
    ("helm-2", Wish::None("Helm 3")),
    (
        "operator-settings",
        Wish::Helm("https://charts.example.org/operators/", "0.2.1", "operator"),
    ),
    (
        "misspelt",
        Wish::Git("https://git.example.org/buildings/gates", "v0.17.0", "."),
    ),
    (
        "app-version",
        Wish::Helm("https://charts.example.org/stable/", "3.2.5", "proxy"),
    ),
];
