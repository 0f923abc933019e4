//! Where a repository has moved to, within its server.
//!
//! git shows a bearer token and a client certificate to wherever it is redirected, so with one
//! of them it isn't let follow. What stays at the same origin is followed here, and git is
//! then given the place itself.

use url::Url;

use super::Remote;
use super::listing::Direct;
use crate::address::Address;
use crate::web::Asked;

/// Redirects that are followed.
const REDIRECTS: usize = 5;
/// What git asks first.
const FIRST: &str = "/info/refs?service=git-upload-pack";

/// Where the server of `remote` redirects git to, if that is another place of the same origin.
#[must_use]
pub fn follow(direct: Direct<'_>, remote: Remote<'_>) -> Option<Address> {
    let base = remote.address.url.trim_end_matches('/');
    if base.contains(['?', '#']) {
        return None;
    }
    let mut at = format!("{base}{FIRST}");
    for hop in 0..=REDIRECTS {
        let asked = Asked::plain(&at, remote.access, direct.schemes, remote.timeout, 0);
        match direct.web.leads(asked) {
            Ok(Some(to)) => at = within(&to, &remote.address.origin)?.to_owned(),
            Ok(None) if hop == 0 => return None,
            Ok(None) => {
                return Some(Address {
                    url: at.strip_suffix(FIRST)?.to_owned(),
                    ..remote.address.clone()
                });
            }
            Err(error) => {
                tracing::debug!(%error, "can't see where the repository has moved to");
                return None;
            }
        }
    }
    None
}

/// The place of `to`, if that is one of the origin for which a proof of who asks is meant.
fn within<'a>(to: &'a Url, origin: &str) -> Option<&'a str> {
    let same = Url::parse(origin).is_ok_and(|origin| origin.origin() == to.origin());
    (same && to.as_str().ends_with(FIRST)).then_some(to.as_str())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_the_same_origin_and_only_gits_own_question_is_followed() {
        let origin = "https://git.test:443";
        for (to, followed) in [
            (
                "https://git.test/new.git/info/refs?service=git-upload-pack",
                true,
            ),
            (
                "https://git.test:443/new/info/refs?service=git-upload-pack",
                true,
            ),
            (
                "https://git.test:8443/new/info/refs?service=git-upload-pack",
                false,
            ),
            (
                "http://git.test/new/info/refs?service=git-upload-pack",
                false,
            ),
            (
                "https://elsewhere.test/new/info/refs?service=git-upload-pack",
                false,
            ),
            ("https://git.test/login", false),
        ] {
            let to = Url::parse(to).unwrap();
            assert_eq!(within(&to, origin).is_some(), followed, "{to}");
        }
    }
}
