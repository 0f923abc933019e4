//! What helm says when it has no dependency. Pure functions.

use tandem_shared::source::redact_url;

use super::Fault;

/// Characters of what helm said that are repeated.
const SAID: usize = 400;

/// What helm's outputs amount to. `cut` are texts that may not be shown, and what stands for
/// them.
pub(super) fn fault(stdout: &str, stderr: &str, cut: &[(&str, &str)]) -> Fault {
    let said = shown(essence(stdout, stderr), cut);
    let lower = said.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["out of memory", "cannot allocate memory"]) {
        return Fault::Refused(
            "helm takes more memory for it than it may; commit what helm puts into charts/"
                .to_owned(),
        );
    }
    if has(&["sigxfsz", "file too large"]) {
        return Fault::Refused("its archive is larger than --max-chart-bytes allows".to_owned());
    }
    // A number within a digest or a port is no status.
    let status = |code: &str| {
        let mut words = lower.split(|c: char| !c.is_alphanumeric());
        words.any(|word| word == code)
    };
    if status("401") || status("403") || has(&["unauthorized", "forbidden", "denied"]) {
        return Fault::Refused(format!(
            "{said}; see whether the repository asks for a login, and whether it is right"
        ));
    }
    if has(&[
        "can't get a valid version",
        "could not locate a version",
        "not found in repo",
        "not found",
        "invalid version",
        "improper constraint",
    ]) || status("404")
    {
        return Fault::Refused(format!(
            "{said}; publish such a version, or change name, version or repository in the chart"
        ));
    }
    if has(&["certificate", "tls:", "x509"]) {
        return Fault::Outage(format!(
            "{said}; mount the certificate of its authority and set SSL_CERT_FILE"
        ));
    }
    Fault::Outage(said)
}

/// The line that tells why. What kept helm from a repository stands in its standard output,
/// while its error only says that something is missing then.
fn essence<'a>(stdout: &'a str, stderr: &'a str) -> &'a str {
    let mut lines = stdout.lines();
    if lines.any(|line| line.contains("Unable to get an update"))
        && let Some(why) = lines.next()
    {
        return why;
    }
    let error = |line: &&str| line.starts_with("Error:");
    let mut lines = stderr.lines();
    let last = stderr.lines().next_back().unwrap_or_default();
    let fatal = |line: &&str| line.starts_with("fatal error:") || line.contains("SIGXFSZ");
    lines
        .find(error)
        .or_else(|| stderr.lines().find(fatal))
        .unwrap_or(last)
        .trim_start_matches("Error:")
}

fn shown(text: &str, cut: &[(&str, &str)]) -> String {
    let mut text = text.trim().to_owned();
    for (secret, stand_in) in cut.iter().filter(|(secret, _)| secret.len() >= 4) {
        text = text.replace(secret, stand_in);
    }
    // What an index writes into its addresses is shown no more than what a chart writes.
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '(' | ')');
    let words = text.split_inclusive(ends).map(|word| {
        let bare = word.trim_end_matches(ends);
        match bare.contains("://") {
            true => format!("{}{}", redact_url(bare), &word[bare.len()..]),
            false => word.to_owned(),
        }
    });
    let text: String = words.collect();
    let text: String = text
        .chars()
        .filter(|c| !c.is_control())
        .take(SAID)
        .collect();
    if text.is_empty() {
        "helm says nothing".to_owned()
    } else {
        format!("helm says: {text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_from_what_is_not_there() {
        let fetching = |why: &str| {
            format!(
                "Hang tight…\n...Unable to get an update from the \"tandem\" chart repository (https://h):\n\t{why}\nUpdate Complete.\n"
            )
        };
        let missing = "Error: no cached repository for tandem found. (try 'helm repo update')";
        for (stdout, stderr, outage, says) in [
            (
                fetching("Get \"https://h/index.yaml\": connection refused"),
                missing,
                true,
                "connection refused",
            ),
            (
                fetching("read tcp 10.0.0.3:40312->10.0.0.4:443: connection reset"),
                missing,
                true,
                "connection reset",
            ),
            (
                fetching("failed to fetch https://h/index.yaml : 401 Unauthorized"),
                missing,
                false,
                "login",
            ),
            (
                fetching("failed to fetch https://h/index.yaml : 404 Not Found"),
                missing,
                false,
                "404",
            ),
            (
                String::new(),
                "Error: can't get a valid version for 1 subchart(s): \"lib\" (repository \"https://h\", version \"^9\").",
                false,
                "publish such a version",
            ),
            (
                String::new(),
                "level=WARN msg=odd\nError: nope chart not found in repo https://h",
                false,
                "nope chart not found",
            ),
            (
                String::new(),
                "Error: x509: certificate signed by unknown authority",
                true,
                "SSL_CERT_FILE",
            ),
            (
                String::new(),
                "fatal error: runtime: out of memory\n\ngoroutine 1",
                false,
                "more memory",
            ),
            (String::new(), "", true, "helm says nothing"),
        ] {
            let fault = fault(&stdout, stderr, &[]);
            assert_eq!(matches!(fault, Fault::Outage(_)), outage, "{fault}");
            assert!(fault.to_string().contains(says), "{fault}");
        }
    }

    #[test]
    fn it_is_one_line_of_some_length_and_nothing_secret() {
        let said = fault("", "Error: could not download http://bob:PASSW0RD@h:8080/lib.tgz?sig=S1GNED: Get \"https://x/?key=K3Y\": 403", &[]).to_string();
        assert!(
            said.contains("http://h:8080/lib.tgz") && said.contains("https://x/"),
            "{said}"
        );
        assert!(said.contains("403"), "{said}");
        for secret in ["bob", "PASSW0RD", "S1GNED", "K3Y"] {
            assert!(!said.contains(secret), "{said}");
        }
        let long = format!("Error: at /scratch/x with s3cret{}\nmore", "y".repeat(900));
        let said = fault("", &long, &[("/scratch/x", "…"), ("s3cret", "***")]).to_string();
        assert!(said.starts_with("helm says: at … with ***y"), "{said}");
        assert!(said.chars().count() < 450 && !said.contains('\n'), "{said}");
    }
}
