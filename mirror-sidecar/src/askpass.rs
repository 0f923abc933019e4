//! This program, when git starts it to ask for a user name or a password.
//!
//! git runs `GIT_ASKPASS` with nothing but its question. The answers wait in
//! the environment of that one git child, never in an argument, a URL or a
//! file. A question about another host than the one that the credential is
//! for (git was redirected) gets no answer.

use std::env;
use std::io::Write;
use std::process::ExitCode;

/// The origin (`https://host:port`) that the answers are for. Its presence is
/// what turns this program into the answering one.
pub(crate) const ORIGIN: &str = "TANDEM_ASKPASS_ORIGIN";
/// The user name.
pub(crate) const USERNAME: &str = "TANDEM_ASKPASS_USERNAME";
/// The password.
pub(crate) const PASSWORD: &str = "TANDEM_ASKPASS_PASSWORD";

/// Answers git's question if this process was started for that; `None` if it
/// was started for anything else.
#[must_use]
pub fn answer() -> Option<ExitCode> {
    let origin = env::var(ORIGIN).ok()?;
    let question = env::args().nth(1).unwrap_or_default();
    let Some(variable) = variable_for(&question, &origin) else {
        return Some(ExitCode::FAILURE);
    };
    let answer = env::var(variable).unwrap_or_default();
    let mut out = std::io::stdout();
    Some(
        match out
            .write_all(answer.as_bytes())
            .and_then(|()| out.write_all(b"\n"))
        {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
    )
}

/// Which answer fits a question such as `Password for 'https://me@host': `.
fn variable_for(question: &str, origin: &str) -> Option<&'static str> {
    let (what, rest) = question.split_once(" for '")?;
    let asked = rest.split('\'').next()?;
    let (scheme, authority) = asked.split_once("://")?;
    let authority = authority.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    if !format!("{scheme}://{host}").eq_ignore_ascii_case(origin) {
        return None;
    }
    match what {
        "Username" => Some(USERNAME),
        "Password" => Some(PASSWORD),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_host_that_the_credential_is_for_gets_an_answer() {
        let origin = "https://git.test:8443";
        let cases = [
            ("Username for 'https://git.test:8443': ", Some(USERNAME)),
            ("Password for 'https://me@git.test:8443': ", Some(PASSWORD)),
            (
                "Password for 'https://m%40e@git.test:8443/org/repo.git': ",
                Some(PASSWORD),
            ),
            ("Password for 'https://git.test:8443@evil.test': ", None),
            ("Password for 'http://me@git.test:8443': ", None),
            ("Password for 'https://me@git.test': ", None),
            ("Enter passphrase for key '/k': ", None),
            ("", None),
        ];
        for (question, expected) in cases {
            assert_eq!(variable_for(question, origin), expected, "{question}");
        }
    }
}
