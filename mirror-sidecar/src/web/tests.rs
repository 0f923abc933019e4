#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use secrecy::SecretString;
use tandem_shared::manifest::Reason;

use super::*;
use crate::testing::server::{Reply, Server, moved, ok, status};

/// Long enough for what comes to an end by itself.
const LONG: Duration = Duration::from_secs(60);
/// Short, for what would never end.
const SHORT: Duration = Duration::from_millis(300);

fn allowed() -> BTreeSet<Scheme> {
    [Scheme::Http, Scheme::Https].into()
}

fn get(url: &str, access: &Access, timeout: Duration) -> Result<Answer, WebError> {
    Web::default().get(Asked {
        url,
        access,
        allowed: &allowed(),
        timeout,
        limit: 1000,
        held: None,
    })
}

fn content(url: &str) -> Result<String, WebError> {
    match get(url, &Access::default(), LONG)? {
        Answer::File { text, .. } => Ok(text),
        Answer::Unchanged => panic!("nothing is held"),
    }
}

fn reason(url: &str) -> Reason {
    content(url).unwrap_err().reason()
}

#[test]
fn a_file_comes_as_it_is_with_its_query_and_without_a_password() {
    let server = Server::of("a: 1\n");
    assert_eq!(content(&server.url("/x/v.yaml?token=t")).unwrap(), "a: 1\n");
    let asked = server.asked();
    assert!(asked[0].starts_with("GET /x/v.yaml?token=t HTTP/1.1\r\n"));
    assert!(!asked[0].contains("authorization"), "{asked:?}");
    assert!(asked[0].contains("accept-encoding: identity"), "{asked:?}");
}

#[test]
fn only_200_is_good() {
    for (word, expected) in [
        ("201 Created", Reason::Remote),
        ("204 No Content", Reason::Remote),
        ("206 Partial Content", Reason::Remote),
        ("304 Not Modified", Reason::Remote),
        ("401 Unauthorized", Reason::AuthenticationFailed),
        ("403 Forbidden", Reason::AuthenticationFailed),
        ("404 Not Found", Reason::PathNotFound),
        ("500 Internal Server Error", Reason::Remote),
    ] {
        let server = Server::start(move |_| status(word, "", b""));
        let error = content(&server.url("/v.yaml?token=t")).unwrap_err();
        assert_eq!(error.reason(), expected, "{word}");
        assert!(error.to_string().contains(&word[..3]), "{error}");
        assert!(!error.to_string().contains("token"), "{error}");
    }
}

#[test]
fn what_is_held_costs_a_304_and_only_of_its_own_place() {
    let server = Server::start(|request| {
        if request.contains("if-none-match: \"one\"") {
            return status("304 Not Modified", "", b"");
        }
        ok("etag: \"one\"\r\n", b"a: 1")
    });
    let web = Web::default();
    let access = Access::default();
    let (url, other) = (server.url("/v.yaml"), server.url("/w.yaml"));
    let ask = |url: &str, held: Option<&Version>| {
        web.get(Asked {
            url,
            access: &access,
            allowed: &allowed(),
            timeout: LONG,
            limit: 1000,
            held,
        })
    };
    let Ok(Answer::File { version, .. }) = ask(&url, None) else {
        panic!("no file");
    };
    assert_eq!(ask(&url, version.as_ref()).unwrap(), Answer::Unchanged);
    let elsewhere = ask(&other, version.as_ref()).unwrap();
    assert!(matches!(elsewhere, Answer::File { .. }), "{elsewhere:?}");
}

#[test]
fn redirects_are_followed_but_not_for_ever() {
    let server = Server::start(|request| {
        let hops = request.split([' ', '?']).nth(1).unwrap();
        match hops.trim_start_matches('/').parse::<u32>().unwrap() {
            0 => ok("", b"there: true"),
            more => moved(&format!("/{}", more - 1)),
        }
    });
    assert_eq!(content(&server.url("/5")).unwrap(), "there: true");
    let error = content(&server.url("/6")).unwrap_err();
    assert_eq!(error, WebError::Redirects(5));
}

#[test]
fn redirects_lead_only_where_somebody_may_be_led() {
    let nowhere = Server::start(|_| status("302 Found", "", b""));
    assert_eq!(reason(&nowhere.url("/")), Reason::Remote);
    for (to, expected) in [
        (
            "http://169.254.169.254/latest/meta-data",
            Reason::InvalidUrl,
        ),
        ("http://[fe80::1]/", Reason::InvalidUrl),
        ("http://0.0.0.0/", Reason::InvalidUrl),
        ("file:///etc/passwd", Reason::Remote),
        ("ftp://127.0.0.1/", Reason::Remote),
    ] {
        let server = Server::start(move |_| moved(to));
        let error = content(&server.url("/")).unwrap_err();
        assert_eq!(error.reason(), expected, "{to}: {error}");
    }
    assert_eq!(reason("http://169.254.169.254/"), Reason::InvalidUrl);
}

#[test]
fn a_password_goes_to_its_own_origin_alone() {
    let other = Server::of("other: true");
    let at = other.url("/signed?signature=s");
    let server = Server::start(move |request| match request.split(' ').nth(1) {
        Some("/here") => moved("/v.yaml"),
        Some("/there") => moved(&at),
        _ => ok("", b"own: true"),
    });
    let access = Access {
        basic: Some(("me".into(), SecretString::from("pass".to_owned()))),
        ..Access::default()
    };
    get(&server.url("/here"), &access, LONG).unwrap();
    // me:pass
    let sent = "authorization: Basic bWU6cGFzcw==";
    let asked = server.asked();
    assert!(asked.iter().all(|request| request.contains(sent)));
    assert_eq!(asked.len(), 2);
    get(&server.url("/there"), &access, LONG).unwrap();
    assert!(!other.asked()[0].contains("authorization"));
}

#[test]
fn a_file_has_a_size_an_end_and_letters() {
    let large = Server::start(|_| ok("", &[b'x'; 1001]));
    assert_eq!(reason(&large.url("/")), Reason::TooLarge);
    let whole = Server::start(|_| ok("", &[b'x'; 1000]));
    assert_eq!(content(&whole.url("/")).unwrap().len(), 1000);
    // One that doesn't say how much there is.
    let endless = Server::start(|_| Reply::Endless(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()));
    let long = get(&endless.url("/"), &Access::default(), LONG).unwrap_err();
    assert_eq!(long.reason(), Reason::TooLarge);
    let binary = Server::start(|_| ok("", b"a: \xff"));
    assert_eq!(reason(&binary.url("/")), Reason::InvalidFile);
    let packed = Server::start(|_| ok("content-encoding: gzip\r\n", b"x"));
    assert_eq!(reason(&packed.url("/")), Reason::InvalidFile);
    let short = Server::start(|_| {
        Reply::Whole(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\na: 1".to_vec())
    });
    assert_eq!(reason(&short.url("/")), Reason::Unreachable);
}

#[test]
fn one_deadline_ends_it_all() {
    let silent = Server::start(|_| Reply::Silence);
    let headers = Server::start(|_| Reply::Endless(b"HTTP/1.1 200 OK\r\nx-long: ".to_vec()));
    let body = Server::start(|_| {
        Reply::Endless(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n".to_vec())
    });
    for server in [silent, headers, body] {
        let error = get(&server.url("/"), &Access::default(), SHORT).unwrap_err();
        assert_eq!(error, WebError::Timeout(SHORT));
    }
}

#[test]
fn who_is_not_there_is_told_apart_from_who_is_not_known() {
    let gone = Server::of("").url("/");
    assert_eq!(reason(&gone), Reason::Unreachable);
    assert_eq!(reason("http://nobody.invalid/"), Reason::UnknownHost);
    let babble = Server::start(|_| Reply::Whole(b"hello\r\n\r\n".to_vec()));
    assert_eq!(reason(&babble.url("/")), Reason::Remote);
}

#[test]
fn an_end_cuts_short_what_runs() {
    let server = Server::start(|_| Reply::Silence);
    let web = Web::default();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            web.get(Asked {
                url: &server.url("/"),
                access: &Access::default(),
                allowed: &allowed(),
                timeout: Duration::from_secs(3600),
                limit: 1000,
                held: None,
            })
        });
        while server.asked().is_empty() {
            std::thread::yield_now();
        }
        web.end();
        let error = waiting.join().unwrap().unwrap_err();
        assert_eq!(error.reason(), Reason::Unreachable);
    });
    // And nothing begins any more.
    assert!(
        web.get(Asked {
            url: &server.url("/"),
            access: &Access::default(),
            allowed: &allowed(),
            timeout: LONG,
            limit: 1000,
            held: None,
        })
        .is_err()
    );
}

/// A proxy that leads to one server, whatever name it is asked for.
fn tunnel(to: String) -> (String, std::sync::mpsc::Receiver<String>) {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        let mut head = String::new();
        let mut lines = BufReader::new(near.try_clone().unwrap());
        while !head.ends_with("\r\n\r\n") {
            lines.read_line(&mut head).unwrap();
        }
        near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        tell.send(head).unwrap();
        let mut far = std::net::TcpStream::connect(to).unwrap();
        let (mut back, mut there) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut lines, &mut far));
        let _ = std::io::copy(&mut back, &mut there);
        let _ = near.shutdown(std::net::Shutdown::Both);
    });
    (format!("http://me:pr0xy@{address}"), told)
}

#[test]
fn a_proxy_looks_names_up_and_is_no_way_around() {
    let through = |proxy: String, url: &str| {
        let get = |name: &str| (name == "http_proxy").then(|| proxy.clone());
        let web = Web {
            proxies: OnceLock::from(Proxies::of_variables(get)),
            ..Web::default()
        };
        web.get(Asked {
            url,
            access: &Access::default(),
            allowed: &allowed(),
            timeout: LONG,
            limit: 1000,
            held: None,
        })
    };
    let server = Server::of("a: 1");
    let (proxy, told) = tunnel(server.host());
    let answer = through(proxy, "http://files.invalid/v.yaml").unwrap();
    assert!(matches!(answer, Answer::File { text, .. } if text == "a: 1"));
    let asked = told.recv().unwrap();
    assert!(asked.starts_with("CONNECT files.invalid:80 "), "{asked}");

    let refusing = Server::start(|_| status("403 Forbidden", "", b""));
    let proxy = format!("http://me:pr0xy@{}", refusing.host());
    let error = through(proxy.clone(), "http://files.invalid/v.yaml").unwrap_err();
    assert_eq!(error.reason(), Reason::Unreachable);
    assert!(!error.to_string().contains("pr0xy"), "{error}");
    let asked = refusing.asked().len();
    let error = through(proxy, "http://169.254.169.254/").unwrap_err();
    assert_eq!(error.reason(), Reason::InvalidUrl);
    assert_eq!(refusing.asked().len(), asked);
}
