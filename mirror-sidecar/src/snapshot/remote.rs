//! Which dependencies of a chart have to be downloaded, what is in its way in `charts/`, and
//! what they stood for before.

use std::collections::{BTreeMap, BTreeSet};

use tandem_shared::request::{Resolution, ResolvedDependency};
use tandem_shared::source::redact_url;

use super::chart::Dependency;
use super::tree::Leaf;
use crate::range;

/// A dependency that has to be downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The folder in the artifact of the chart that asks for it: empty, or with a slash at
    /// its end.
    pub below: String,
    /// What that chart is called.
    pub chart: String,
    /// What the dependency is called.
    pub name: String,
    /// The version or range that is asked for.
    pub range: String,
    /// What the chart's lock says that it stands for.
    pub locked: Option<String>,
    /// Where it comes from, as the chart writes it, but for slashes at the end.
    pub repository: String,
}

impl Remote {
    /// What is asked of the repository.
    #[must_use]
    pub fn wanted(&self) -> &str {
        self.locked.as_deref().unwrap_or(&self.range)
    }

    fn is(&self, resolved: &ResolvedDependency) -> bool {
        self.name == resolved.name
            && redact_url(&self.repository) == resolved.repository
            && range::matches(&self.range, &resolved.version).unwrap_or(false)
    }
}

/// What `remotes` of the chart `identity` stood for before, in their order: by the first of
/// `resolutions` that is about exactly them.
#[must_use]
pub(crate) fn pins<'a>(
    remotes: &[Remote],
    identity: &str,
    resolutions: impl IntoIterator<Item = &'a Resolution>,
) -> Option<Vec<ResolvedDependency>> {
    let mut same = resolutions
        .into_iter()
        .filter(|resolution| resolution.chart == identity);
    let pinned = |resolution: &Resolution| {
        let pins = resolution.dependencies.clone();
        let all = remotes.len() == pins.len()
            && remotes
                .iter()
                .zip(&pins)
                .all(|(remote, pin)| remote.is(pin) && pin.digest.is_some());
        all.then_some(pins)
    };
    same.find_map(pinned)
}

/// The folders that the downloaded `resolved` of `remotes` go into: `charts/<name>` of the
/// chart that asks, with the version where one name has several. Helm goes by what is in
/// them, not by what they are called.
#[must_use]
pub(crate) fn folders(
    remotes: &[Remote],
    resolved: &[ResolvedDependency],
    files: &BTreeMap<String, Leaf>,
) -> Vec<String> {
    let folder = |remote: &Remote| format!("{}charts/{}/", remote.below, remote.name);
    let mut versions: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (remote, resolved) in remotes.iter().zip(resolved) {
        let of = versions.entry(folder(remote)).or_default();
        of.insert(&resolved.version);
    }
    let taken = |folder: &str| {
        let next = files.range(folder.to_owned()..).next();
        next.is_some_and(|(path, _)| path.starts_with(folder))
    };
    let place = |(remote, resolved): (&Remote, &ResolvedDependency)| {
        let plain = folder(remote);
        let several = versions.get(&plain).is_some_and(|all| all.len() > 1);
        if several || taken(&plain) {
            let name = &remote.name;
            format!("{}charts/{name}-{}/", remote.below, resolved.version)
        } else {
            plain
        }
    };
    remotes.iter().zip(resolved).map(place).collect()
}

/// The version that the chart's lock has for `dependency`, if it still fits.
pub(super) fn locked(dependency: &Dependency, lock: &[Dependency]) -> Option<String> {
    let same_place = |one: &Dependency| {
        one.repository.trim_end_matches('/') == dependency.repository.trim_end_matches('/')
    };
    let fits =
        |one: &&Dependency| range::matches(&dependency.version, &one.version).unwrap_or(false);
    lock.iter()
        .filter(|one| one.name == dependency.name && same_place(one))
        .find(fits)
        .map(|one| one.version.clone())
}

/// A chart in `charts/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Vendored {
    /// Its archive, or its folder with a slash at the end.
    pub path: String,
    /// Its version, unless that can't be told.
    pub version: Option<String>,
}

impl Vendored {
    /// Whether it will do for `dependency`. What can't be compared is left to Helm.
    pub(super) fn fits(&self, dependency: &Dependency) -> bool {
        match &self.version {
            None => true,
            Some(version) => range::matches(&dependency.version, version).unwrap_or(true),
        }
    }
}

/// The archives of `name` in `charts/` that are named as Helm names them, with the version.
pub(super) fn archives(files: &BTreeMap<String, Leaf>, name: &str) -> Vec<Vendored> {
    let of = |stem: &str| {
        let version = stem.strip_prefix(name)?.strip_prefix('-')?;
        is_version(version).then(|| version.to_owned())
    };
    let found = packed(files).filter_map(|(stem, leaf)| {
        Some(Vendored {
            path: leaf.path.clone(),
            version: Some(of(stem)?),
        })
    });
    found.collect()
}

/// The archives in `charts/` whose names don't tell what they are.
pub(super) fn oddly_named(files: &BTreeMap<String, Leaf>) -> Vec<&Leaf> {
    let tells = |stem: &str| {
        let mut dashes = stem.match_indices('-');
        dashes.any(|(at, _)| at > 0 && is_version(&stem[at + 1..]))
    };
    let odd = packed(files).filter(|(stem, _)| !tells(stem));
    odd.map(|(_, leaf)| leaf).collect()
}

/// The archives in `charts/`, with their names without `.tgz`.
fn packed(files: &BTreeMap<String, Leaf>) -> impl Iterator<Item = (&str, &Leaf)> {
    let below = files.range("charts/".to_owned()..);
    below
        .map_while(|(path, leaf)| Some((path.strip_prefix("charts/")?, leaf)))
        .filter_map(|(file, leaf)| Some((file.strip_suffix(".tgz")?, leaf)))
        .filter(|(stem, _)| !stem.contains('/'))
}

fn is_version(text: &str) -> bool {
    let digits = text.strip_prefix('v').unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit())
}

/// What describes the charts that lie unpacked in `charts/`, by folder.
pub(super) fn unpacked(files: &BTreeMap<String, Leaf>) -> Vec<(String, &Leaf)> {
    let folder = |path: &str| {
        let name = path.strip_prefix("charts/")?.strip_suffix("/Chart.yaml")?;
        (!name.contains('/')).then(|| format!("charts/{name}/"))
    };
    let below = files.range("charts/".to_owned()..);
    below
        .take_while(|(path, _)| path.starts_with("charts/"))
        .filter_map(|(path, leaf)| Some((folder(path)?, leaf)))
        .collect()
}

#[cfg(test)]
mod tests {
    use git2::Oid;

    use super::*;

    fn files(paths: &[&str]) -> BTreeMap<String, Leaf> {
        let leaf = |path: &&str| Leaf {
            path: (*path).to_owned(),
            origin: (*path).to_owned(),
            id: Oid::ZERO_SHA1,
        };
        paths
            .iter()
            .map(|path| ((*path).to_owned(), leaf(path)))
            .collect()
    }

    fn dependency(version: &str, repository: &str) -> Dependency {
        Dependency {
            name: "lib".into(),
            version: version.into(),
            repository: repository.into(),
        }
    }

    fn remote(range: &str) -> Remote {
        Remote {
            below: String::new(),
            chart: "app".into(),
            name: "lib".into(),
            range: range.into(),
            locked: None,
            repository: "https://me:secret@h/charts".into(),
        }
    }

    fn resolved(version: &str, digest: Option<&str>) -> ResolvedDependency {
        ResolvedDependency {
            name: "lib".into(),
            version: version.into(),
            repository: "https://h/charts".into(),
            digest: digest.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn archives_are_told_by_name_and_version() {
        for (path, version) in [
            ("charts/lib-1.0.0.tgz", Some("1.0.0")),
            ("charts/lib-v1.0.0.tgz", Some("v1.0.0")),
            ("charts/lib-extra-1.0.0.tgz", None),
            ("charts/lib.tgz", None),
            ("charts/lib/a-1.0.0.tgz", None),
            ("lib-1.0.0.tgz", None),
        ] {
            let found = archives(&files(&[path]), "lib");
            let found = found.first().and_then(|one| one.version.as_deref());
            assert_eq!(found, version, "{path}");
        }
    }

    #[test]
    fn names_that_tell_nothing_are_looked_into() {
        for (path, odd) in [
            ("charts/lib.tgz", true),
            ("charts/my-lib.tgz", true),
            ("charts/lib-values.tgz", true),
            ("charts/lib-latest.tgz", true),
            ("charts/lib-1.0.0.tgz", false),
            ("charts/my-lib-v1.tgz", false),
            ("charts/lib/a.tgz", false),
            ("charts/lib.zip", false),
            ("lib.tgz", false),
        ] {
            assert_eq!(oddly_named(&files(&[path])).len() == 1, odd, "{path}");
        }
    }

    #[test]
    fn what_lies_unpacked_is_told_from_what_lies_deeper() {
        let files = files(&[
            "Chart.yaml",
            "charts/Chart.yaml",
            "charts/a/Chart.yaml",
            "charts/a/charts/b/Chart.yaml",
            "charts/a-1.0.0.tgz",
            "chartsX/c/Chart.yaml",
        ]);
        let folders: Vec<String> = unpacked(&files).into_iter().map(|(path, _)| path).collect();
        assert_eq!(folders, ["charts/a/"]);
    }

    #[test]
    fn a_lock_counts_while_it_fits_what_is_asked_for() {
        let lock = [
            dependency("9.0.0", "https://other"),
            dependency("1.2.0", "https://h/"),
            dependency("2.0.0", "https://h"),
        ];
        let of = |range| locked(&dependency(range, "https://h"), &lock);
        assert_eq!(of("^1").as_deref(), Some("1.2.0"));
        assert_eq!(of("^2").as_deref(), Some("2.0.0"));
        assert_eq!(of("^3"), None);
        assert_eq!(locked(&dependency("^9", "https://h"), &lock), None);
    }

    #[test]
    fn what_can_not_be_compared_is_left_to_helm() {
        let vendored = |version: Option<&str>| Vendored {
            path: String::new(),
            version: version.map(ToOwned::to_owned),
        };
        for (version, range, fits) in [
            (Some("1.0.0"), "^1", true),
            (Some("1.0.0"), "^2", false),
            (Some("1.0.0"), "no range", true),
            (None, "^1", true),
        ] {
            let is = vendored(version).fits(&dependency(range, "https://h"));
            assert_eq!(is, fits, "{version:?} {range}");
        }
    }

    #[test]
    fn pins_are_those_of_exactly_this_chart() {
        let resolution = |chart: &str, dependencies: Vec<ResolvedDependency>| Resolution {
            chart: chart.into(),
            dependencies,
        };
        let sibling = resolved("7.0.0", None);
        let right = [resolved("1.2.0", Some("a")), resolved("2.0.0", Some("b"))];
        let known = [
            resolution("i1:other", vec![resolved("1.9.0", Some("c"))]),
            resolution("i1:x", vec![resolved("1.2.0", Some("a"))]),
            resolution("i1:x", vec![right[0].clone(), right[1].clone()]),
        ];
        let both = [remote("^1"), remote("^2")];
        assert_eq!(pins(&both, "i1:x", &known).as_deref(), Some(&right[..]));
        assert_eq!(pins(&both, "i1:y", &known), None);
        // Neither what is no longer within the range, nor what was never downloaded.
        assert_eq!(pins(&[remote("^3")], "i1:x", &known), None);
        let never = [resolution("i1:x", vec![sibling])];
        assert_eq!(pins(&[remote("^7")], "i1:x", &never), None);
    }

    #[test]
    fn several_versions_of_a_name_have_folders_of_their_own() {
        let (one, two) = (resolved("1.0.0", Some("a")), resolved("2.0.0", Some("b")));
        let below = Remote {
            below: "charts/sib/".into(),
            ..remote("*")
        };
        let all = [remote("^1"), remote("^2"), below.clone()];
        let of = |remotes: &[Remote], resolved: &[ResolvedDependency], there: &[&str]| {
            folders(remotes, resolved, &files(there))
        };
        assert_eq!(
            of(&all, &[one.clone(), two, one.clone()], &[]),
            [
                "charts/lib-1.0.0/",
                "charts/lib-2.0.0/",
                "charts/sib/charts/lib/"
            ]
        );
        let below = std::slice::from_ref(&below);
        let one = std::slice::from_ref(&one);
        assert_eq!(
            of(below, one, &["charts/sib/charts/lib/Chart.yaml"]),
            ["charts/sib/charts/lib-1.0.0/"]
        );
    }
}
