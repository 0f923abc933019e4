//! Where a submodule comes from: `.gitmodules` of a commit, read by git itself
//! out of the object database, and addresses that are relative to another.

use std::collections::BTreeMap;

use git2::Oid;

use super::{Mirror, MirrorError};
use crate::metrics::GitCommand;

/// Bytes of a `.gitmodules`, at most.
const BYTES: usize = 1024 * 1024;

impl Mirror<'_> {
    /// The addresses of all submodules that a `.gitmodules` names, by their paths, as written.
    ///
    /// # Errors
    /// If it is too large, or git can't read it.
    pub fn gitmodules(&self, blob: Oid) -> Result<BTreeMap<String, String>, MirrorError> {
        if self.repository().odb()?.read_header(blob)?.0 > BYTES {
            let message = format!("its .gitmodules has more than {BYTES} bytes");
            return Err(MirrorError::Gitmodules(message));
        }
        let id = blob.to_string();
        // Without includes it reads nothing but this object.
        let arguments = ["config", "--blob", &id, "--no-includes", "-z", "--list"];
        let outcome = self
            .run(GitCommand::Read, &arguments, b"")
            .map_err(|error| {
                MirrorError::Gitmodules(format!("its .gitmodules can't be read: {error}"))
            })?;
        Ok(read(&String::from_utf8_lossy(&outcome.stdout)))
    }
}

/// Reads `git config -z --list`: `submodule.<name>.<key>\n<value>\0`. Names are
/// for checkouts; only paths and addresses count.
fn read(text: &str) -> BTreeMap<String, String> {
    let mut paths: BTreeMap<&str, &str> = BTreeMap::new();
    let mut urls: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, value) in text.split('\0').filter_map(|entry| entry.split_once('\n')) {
        let Some((name, key)) = key
            .strip_prefix("submodule.")
            .and_then(|rest| rest.rsplit_once('.'))
        else {
            continue;
        };
        match key {
            "path" => paths.insert(name, value),
            "url" => urls.insert(name, value),
            _ => None,
        };
    }
    let of = |(name, path): (&str, &str)| {
        let url = urls.get(name)?;
        Some((path.trim_end_matches('/').to_owned(), (*url).to_owned()))
    };
    paths.into_iter().filter_map(of).collect()
}

/// The address that `url` is for a submodule of the repository at `base`: one
/// that begins with `./` or `../` is relative to it, as in git.
///
/// # Errors
/// Says so if `base` has not as many parts.
pub fn resolve(base: &str, url: &str) -> Result<String, &'static str> {
    if !url.starts_with("./") && !url.starts_with("../") {
        return Ok(url.to_owned());
    }
    let mut base = base.strip_suffix('/').unwrap_or(base);
    let mut rest = url;
    let mut join = '/';
    loop {
        if let Some(after) = rest.strip_prefix("../") {
            rest = after;
            // `host:path` ends with the path's first part.
            let cut = |separator| base.rfind(separator).map(|at| &base[..at]);
            base = match (cut('/'), join) {
                (Some(above), _) => above,
                (None, '/') => {
                    join = ':';
                    cut(':').ok_or("it leads above the address that it is relative to")?
                }
                _ => return Err("it leads above the address that it is relative to"),
            };
        } else if let Some(after) = rest.strip_prefix("./") {
            rest = after;
        } else {
            break;
        }
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    Ok(format!("{base}{join}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_addresses() {
        let text = "include.path\n/etc/passwd\0submodule.a.b.path\nlib/x\0submodule.a.b.url\n../x.git\0submodule.A.path\ny/\0submodule.A.url\nhttps://h/y\0submodule.lost.path\nz\0submodule.A.branch\nmain\0core.bare\0";
        let found = read(text);
        let expected = [("lib/x", "../x.git"), ("y", "https://h/y")];
        assert_eq!(
            found,
            expected.map(|(path, url)| (path.into(), url.into())).into()
        );
    }

    #[test]
    fn relative_addresses_are_those_of_git() {
        for (base, url, expected) in [
            ("https://h/org/r.git", "../lib.git", "https://h/org/lib.git"),
            (
                "https://h/org/r.git/",
                "../lib.git/",
                "https://h/org/lib.git",
            ),
            ("https://h/org/r", "../../x/lib", "https://h/x/lib"),
            ("https://h/org/r", "./lib", "https://h/org/r/lib"),
            ("https://h/org/r", "./../lib", "https://h/org/lib"),
            ("git@h:org/r.git", "../lib.git", "git@h:org/lib.git"),
            ("git@h:r.git", "../lib.git", "git@h:lib.git"),
            ("git@h:org/r.git", "../../lib.git", "git@h:lib.git"),
            ("ssh://git@h:22/r", "../lib", "ssh://git@h:22/lib"),
            ("file:///srv/r.git", "../lib.git", "file:///srv/lib.git"),
            ("https://h/r", "https://other/lib", "https://other/lib"),
            ("https://h/r", "lib", "lib"),
            // Above the host there are others, as in git. They get no credential.
            ("https://h/r", "../../lib/x", "https://lib/x"),
        ] {
            assert_eq!(resolve(base, url).as_deref(), Ok(expected), "{base} {url}");
        }
        for (base, url) in [("git@h:r", "../../x"), ("h", "../x")] {
            assert!(resolve(base, url).is_err(), "{base} {url}");
        }
    }
}
