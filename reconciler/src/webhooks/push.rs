//! What a delivery says: which repository was pushed to. Pure.

use std::collections::BTreeSet;

use serde::Deserialize;
use thiserror::Error;
use url::form_urlencoded;

use super::address::Address;
use super::receiver::Event;

/// Most addresses that are looked at in one delivery.
const MOST: usize = 32;

/// Why a delivery says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum PushError {
    /// It isn't JSON, or not of the shape that forges send.
    // What serde says may quote the body.
    #[error("the body is no JSON that a forge sends, at line {line}, column {column}")]
    Json {
        /// Line, from 1.
        line: usize,
        /// Column.
        column: usize,
    },
    /// It is a form without a payload.
    #[error("the body is a form without a field \"payload\"; have it sent as application/json")]
    Form,
    /// It names no repository.
    #[error(
        "the body names no repository by an address: neither below \"repository\" or \"project\" nor in \"url\" or \"urls\""
    )]
    NoRepository,
    /// It names more than anybody pushes to at once.
    #[error("the body names more than {MOST} addresses; send several deliveries")]
    TooMany,
}

/// What forges send, as far as it is of interest.
#[derive(Deserialize)]
struct Body {
    repository: Option<Repository>,
    project: Option<Repository>,
    event_name: Option<String>,
    url: Option<String>,
    urls: Option<Vec<String>>,
}

/// A repository by all that it is called.
#[derive(Deserialize)]
struct Repository {
    clone_url: Option<String>,
    ssh_url: Option<String>,
    git_url: Option<String>,
    html_url: Option<String>,
    url: Option<String>,
    git_ssh_url: Option<String>,
    git_http_url: Option<String>,
    http_url: Option<String>,
    web_url: Option<String>,
    homepage: Option<String>,
    links: Option<Links>,
}

/// The links that lead to the repository itself. Others are of any shape.
#[derive(Deserialize)]
struct Links {
    clone: Option<Link>,
    html: Option<Link>,
}

/// Bitbucket Cloud names one link by each name, Bitbucket Data Center several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Link {
    One(Place),
    Several(Vec<Place>),
}

#[derive(Deserialize)]
struct Place {
    href: Option<String>,
}

impl Repository {
    fn addresses(&self) -> impl Iterator<Item = &str> {
        let fields = [
            &self.clone_url,
            &self.ssh_url,
            &self.git_url,
            &self.html_url,
            &self.url,
            &self.git_ssh_url,
            &self.git_http_url,
            &self.http_url,
            &self.web_url,
            &self.homepage,
        ];
        let links = self
            .links
            .iter()
            .flat_map(|links| [&links.clone, &links.html]);
        let links = links.flatten().flat_map(|link| match link {
            Link::One(place) => std::slice::from_ref(place),
            Link::Several(places) => places.as_slice(),
        });
        let links = links.filter_map(|link| link.href.as_deref());
        fields
            .into_iter()
            .filter_map(|field| field.as_deref())
            .chain(links)
    }
}

/// The JSON in a body, which some forges wrap into a form.
///
/// # Errors
/// If there is none in a form.
pub(super) fn payload(body: &[u8], is_form: bool) -> Result<std::borrow::Cow<'_, [u8]>, PushError> {
    if !is_form {
        return Ok(body.into());
    }
    let mut fields = form_urlencoded::parse(body);
    let payload = fields.find(|(name, _)| name == "payload");
    let (_, payload) = payload.ok_or(PushError::Form)?;
    Ok(payload.into_owned().into_bytes().into())
}

/// What is called one way or the other of the repository that was pushed to; nothing if the
/// body tells of something else.
///
/// # Errors
/// If it can't be read, or names no repository.
pub(super) fn pushed(event: Event, payload: &[u8]) -> Result<Option<BTreeSet<Address>>, PushError> {
    let body: Body = serde_json::from_slice(payload).map_err(|error| PushError::Json {
        line: error.line(),
        column: error.column(),
    })?;
    if event == Event::Named {
        let name = body.event_name.as_deref().unwrap_or_default();
        if !matches!(name, "push" | "tag_push" | "repository_update") {
            return Ok(None);
        }
    }
    let repositories = [&body.repository, &body.project].into_iter().flatten();
    let urls = body.url.iter().chain(body.urls.iter().flatten());
    let named: Vec<&str> = repositories
        .flat_map(Repository::addresses)
        .chain(urls.map(String::as_str))
        .take(MOST + 1)
        .collect();
    if named.len() > MOST {
        return Err(PushError::TooMany);
    }
    let addresses: BTreeSet<Address> = named.into_iter().filter_map(Address::of).collect();
    if addresses.is_empty() {
        return Err(PushError::NoRepository);
    }
    Ok(Some(addresses))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use serde_json::{Value, json};

    use super::*;

    fn read(event: Event, body: &Value) -> Result<Option<BTreeSet<Address>>, PushError> {
        pushed(event, body.to_string().as_bytes())
    }

    /// What each forge calls the repository `team/charts`, as its deliveries have it.
    fn bodies() -> Vec<(&'static str, Event, Value, &'static [&'static str])> {
        vec![
            (
                "github",
                Event::Push,
                json!({
                    "ref": "refs/heads/main", "after": "f".repeat(40), "created": false,
                    "repository": {
                        "id": 1, "name": "charts", "full_name": "team/charts", "private": true,
                        "html_url": "https://github.com/team/charts",
                        "url": "https://github.com/team/charts",
                        "git_url": "git://github.com/team/charts.git",
                        "ssh_url": "git@github.com:team/charts.git",
                        "clone_url": "https://github.com/team/charts.git",
                        "homepage": null, "topics": [],
                    },
                    "pusher": {"name": "ada"}, "commits": [{"id": "f", "modified": ["a"]}],
                }),
                &[
                    "https://github.com/team/charts",
                    "git@github.com:team/charts",
                ],
            ),
            (
                "gitlab",
                Event::Push,
                json!({
                    "object_kind": "push", "event_name": "push", "ref": "refs/heads/main",
                    "project": {
                        "id": 1, "name": "charts", "web_url": "https://gitlab.example.org/team/charts",
                        "git_ssh_url": "git@ssh.example.org:team/charts.git",
                        "git_http_url": "https://gitlab.example.org/team/charts.git",
                        "url": "git@ssh.example.org:team/charts.git", "visibility_level": 0,
                    },
                    "repository": {
                        "name": "charts", "url": "git@ssh.example.org:team/charts.git",
                        "homepage": "https://gitlab.example.org/team/charts",
                        "git_http_url": "https://gitlab.example.org/team/charts.git",
                        "git_ssh_url": "git@ssh.example.org:team/charts.git",
                    },
                    "commits": [],
                }),
                &[
                    "https://gitlab.example.org/team/charts",
                    "ssh://git@ssh.example.org/team/charts.git",
                ],
            ),
            (
                "bitbucket cloud",
                Event::Push,
                json!({
                    "push": {"changes": []}, "actor": {"type": "user"},
                    "repository": {
                        "type": "repository", "full_name": "team/charts", "scm": "git",
                        "links": {
                            "self": {"href": "https://api.bitbucket.org/2.0/repositories/team/charts"},
                            "html": {"href": "https://bitbucket.org/team/charts"},
                            "avatar": [null],
                        },
                    },
                }),
                &[
                    "https://bitbucket.org/team/charts",
                    "git@bitbucket.org:team/charts.git",
                ],
            ),
            (
                "bitbucket data center",
                Event::Push,
                json!({
                    "eventKey": "repo:refs_changed", "changes": [],
                    "repository": {
                        "slug": "charts", "id": 1, "project": {"key": "TEAM"},
                        "links": {
                            "clone": [
                                {"href": "ssh://git@stash.example.org:7999/team/charts.git", "name": "ssh"},
                                {"href": "https://stash.example.org/scm/team/charts.git", "name": "http"},
                            ],
                            "self": [{"href": "https://stash.example.org/projects/TEAM/repos/charts/browse"}],
                        },
                    },
                }),
                &[
                    "https://stash.example.org/scm/team/charts",
                    "ssh://git@stash.example.org:7999/team/charts",
                ],
            ),
            (
                "gitea",
                Event::Push,
                json!({
                    "ref": "refs/heads/main", "commits": [{"id": "f"}], "total_commits": 1,
                    "repository": {
                        "id": 1, "full_name": "team/charts", "website": "",
                        "html_url": "https://gitea.example.org/team/charts",
                        "ssh_url": "ssh://git@gitea.example.org:2222/team/charts.git",
                        "clone_url": "https://gitea.example.org/team/charts.git",
                        "url": "https://gitea.example.org/api/v1/repos/team/charts",
                    },
                }),
                &["https://gitea.example.org/team/charts"],
            ),
            (
                "generic",
                Event::Push,
                json!({"url": "https://h/a.git", "urls": ["git@h:b"]}),
                &["https://h/a", "https://h/b"],
            ),
            (
                "a system hook",
                Event::Named,
                json!({"event_name": "repository_update", "project": {"git_http_url": "https://h/a.git"}}),
                &["https://h/a"],
            ),
        ]
    }

    #[test]
    fn the_repository_is_known_by_what_its_forge_calls_it() {
        for (forge, event, body, called) in bodies() {
            let addresses = read(event, &body).unwrap().unwrap();
            for url in called {
                let address = Address::of(url).unwrap();
                assert!(
                    addresses.contains(&address),
                    "{forge}: {url} in {addresses:?}"
                );
            }
            let other = Address::of("https://github.com/team/other").unwrap();
            assert!(!addresses.contains(&other), "{forge}");
        }
    }

    #[test]
    fn a_form_holds_the_same() {
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("x", "y")
            .append_pair("payload", r#"{"url": "https://h/a"}"#)
            .finish();
        let payload = payload(body.as_bytes(), true).unwrap();
        assert_eq!(pushed(Event::Push, &payload).unwrap().unwrap().len(), 1);
        assert_eq!(super::payload(b"a=b", true), Err(PushError::Form));
    }

    #[test]
    fn what_says_nothing_is_refused_without_being_quoted() {
        let deep = "[".repeat(100_000);
        for (body, why) in [
            ("", "no JSON"),
            ("s3cret", "no JSON"),
            ("[]", "no JSON"),
            (r#"{"repository": "s3cret"}"#, "no JSON"),
            (r#"{"url": {"s3cret": 1}}"#, "no JSON"),
            (&deep, "no JSON"),
            ("{}", "names no repository"),
            (
                r#"{"repository": {}, "project": null}"#,
                "names no repository",
            ),
            (
                r#"{"urls": ["s3cret", "file:///x"]}"#,
                "names no repository",
            ),
        ] {
            let refused = pushed(Event::Push, body.as_bytes())
                .unwrap_err()
                .to_string();
            assert!(
                refused.contains(why) && !refused.contains("s3cret"),
                "{refused}"
            );
        }
        assert_eq!(
            read(Event::Named, &json!({"event_name": "project_create"})),
            Ok(None)
        );
    }

    #[test]
    fn only_so_many_addresses_are_looked_at() {
        let read = |count: usize| {
            let urls: Vec<String> = (0..count).map(|at| format!("https://h/{at}")).collect();
            read(Event::Push, &json!({"urls": urls}))
        };
        assert_eq!(read(MOST).unwrap().unwrap().len(), MOST);
        assert_eq!(read(MOST + 1), Err(PushError::TooMany));
    }
}
