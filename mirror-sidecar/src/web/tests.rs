#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use secrecy::SecretString;
use tandem_shared::manifest::Reason;

use super::*;
use crate::testing::server::{Reply, Server, moved, ok, status};

/// Long enough for what comes to an end by itself.
const LONG: Duration = Duration::from_secs(60);
/// Short, for what would never end.
const SHORT: Duration = Duration::from_millis(300);

static ALLOWED: OnceLock<BTreeSet<Scheme>> = OnceLock::new();

fn allowed() -> BTreeSet<Scheme> {
    [Scheme::Http, Scheme::Https].into()
}

fn get(url: &str, access: &Access, timeout: Duration) -> Result<Vec<u8>, WebError> {
    let mut content = Vec::new();
    let asked = Asked::plain(url, access, ALLOWED.get_or_init(allowed), timeout, 1000);
    match Web::default().get(asked, &mut content)? {
        Answer::New(head) => head.as_it_is()?,
        Answer::Unchanged => panic!("nothing is held"),
    }
    Ok(content)
}

fn content(url: &str) -> Result<String, WebError> {
    get(url, &Access::default(), LONG).map(|content| String::from_utf8(content).unwrap())
}

/// Asks for all of it, and gives what was said of it.
fn head(web: &Web, asked: Asked<'_>) -> Result<Answer, WebError> {
    web.get(asked, &mut std::io::sink())
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
        let allowed = allowed();
        let plain = Asked::plain(url, &access, &allowed, LONG, 1000);
        head(&web, Asked { held, ..plain })
    };
    let Ok(Answer::New(Head { version, .. })) = ask(&url, None) else {
        panic!("no file");
    };
    let unchanged = ask(&url, version.as_ref()).unwrap();
    assert!(matches!(unchanged, Answer::Unchanged), "{unchanged:?}");
    let elsewhere = ask(&other, version.as_ref()).unwrap();
    assert!(matches!(elsewhere, Answer::New(_)), "{elsewhere:?}");
    // A successor reads it back from a disk; what no header can be is not sent.
    let stored = serde_json::to_string(&version).unwrap();
    let read: Option<Version> = serde_json::from_str(&stored).unwrap();
    assert_eq!(read, version);
    let bad = stored.replace("one", "one\\r\\nx: y");
    let read: Option<Version> = serde_json::from_str(&bad).unwrap();
    let anew = ask(&url, read.as_ref()).unwrap();
    assert!(matches!(anew, Answer::New(_)), "{anew:?}");
}

#[test]
fn headers_are_sent_and_given_back() {
    let server = Server::start(|request| {
        if request.contains("authorization: Bearer own") {
            return ok("docker-content-digest: sha256:x\r\n", b"abc");
        }
        let both = "www-authenticate: Basic realm=\"r\"\r\nwww-authenticate: Bearer realm=\"https://t\"\r\n";
        status("401 Unauthorized", both, b"")
    });
    let access = Access {
        basic: Some(("me".into(), SecretString::from("pass".to_owned()))),
        ..Access::default()
    };
    let (url, allowed, web) = (server.url("/v2/x"), allowed(), Web::default());
    let plain = Asked::plain(&url, &access, &allowed, LONG, 1000);
    let error = head(&web, plain).unwrap_err();
    let asked = ["Basic realm=\"r\"", "Bearer realm=\"https://t\""];
    assert_eq!(
        error,
        WebError::Unauthorized(asked.map(str::to_owned).to_vec())
    );
    assert!(!error.to_string().contains("realm"), "{error}");
    let token = SecretString::from("Bearer own".to_owned());
    let with_token = Asked {
        accept: Some("application/x, application/y"),
        authorization: Some(&token),
        ..plain
    };
    let Ok(Answer::New(found)) = head(&web, with_token) else {
        panic!("nothing came");
    };
    assert_eq!(found.header("Docker-Content-Digest"), Some("sha256:x"));
    assert_eq!((found.header("etag"), found.length), (None, 3));
    assert_eq!(found.version, None);
    let sent = server.asked().pop().unwrap();
    assert!(sent.contains("accept: application/x, application/y\r\n"));
    assert!(!sent.contains("Basic"), "{sent}");
}

#[test]
fn what_can_not_be_written_is_the_volumes_fault() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let server = Server::of("a: 1");
    let (url, access, allowed) = (server.url("/"), Access::default(), allowed());
    let asked = Asked::plain(&url, &access, &allowed, LONG, 1000);
    let error = Web::default().get(asked, &mut Full).unwrap_err();
    assert_eq!(error.reason(), Reason::Volume, "{error}");
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
fn a_body_has_a_size_and_an_end() {
    let large = Server::start(|_| ok("", &[b'x'; 1001]));
    assert_eq!(reason(&large.url("/")), Reason::TooLarge);
    let whole = Server::start(|_| ok("", &[b'x'; 1000]));
    assert_eq!(content(&whole.url("/")).unwrap().len(), 1000);
    // One that doesn't say how much there is.
    let endless = Server::start(|_| Reply::Endless(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()));
    let long = get(&endless.url("/"), &Access::default(), LONG).unwrap_err();
    assert_eq!(long.reason(), Reason::TooLarge);
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
            let (url, access, allowed) = (server.url("/"), Access::default(), allowed());
            let hour = Duration::from_secs(3600);
            head(&web, Asked::plain(&url, &access, &allowed, hour, 1000))
        });
        while server.asked().is_empty() {
            std::thread::yield_now();
        }
        web.end();
        let error = waiting.join().unwrap().unwrap_err();
        assert_eq!(error.reason(), Reason::Unreachable);
    });
    // And nothing begins any more.
    let (url, access, allowed) = (server.url("/"), Access::default(), allowed());
    assert!(head(&web, Asked::plain(&url, &access, &allowed, LONG, 1000)).is_err());
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
        let (access, allowed, mut content) = (Access::default(), allowed(), Vec::new());
        web.get(
            Asked::plain(url, &access, &allowed, LONG, 1000),
            &mut content,
        )
        .map(|_| content)
    };
    let server = Server::of("a: 1");
    let (proxy, told) = tunnel(server.host());
    let content = through(proxy, "http://files.invalid/v.yaml").unwrap();
    assert_eq!(content, b"a: 1");
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

#[test]
fn of_a_head_nothing_but_what_is_said_of_it_comes() {
    let server = Server::start(|_| {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 5000\r\nx-digest: d\r\n\r\n";
        Reply::Whole(head.as_bytes().to_vec())
    });
    let (url, access) = (server.url("/m"), Access::default());
    let asked = Asked {
        method: Method::Head,
        ..Asked::plain(&url, &access, ALLOWED.get_or_init(allowed), LONG, 0)
    };
    let Answer::New(head) = head(&Web::default(), asked).unwrap() else {
        panic!("nothing is held")
    };
    assert_eq!((head.header("x-digest"), head.length), (Some("d"), 0));
    assert!(server.asked()[0].starts_with("HEAD /m "));
}

#[test]
fn a_form_goes_to_one_place_and_no_further() {
    let elsewhere = Server::of("{}");
    let to = elsewhere.url("/t");
    let server = Server::start(move |request| match request.contains(" /moved ") {
        true => moved(&to),
        false => ok("", b"{}"),
    });
    let access = Access::default();
    let form = SecretString::from("a=secret".to_owned());
    let send = |path: &str| {
        let url = server.url(path);
        let asked = Asked {
            method: Method::Form(&form),
            ..Asked::plain(&url, &access, ALLOWED.get_or_init(allowed), LONG, 100)
        };
        head(&Web::default(), asked)
    };
    send("/t").unwrap();
    let asked = server.asked();
    assert!(asked[0].starts_with("POST /t "), "{asked:?}");
    assert!(
        asked[0].contains("content-type: application/x-www-form-urlencoded"),
        "{asked:?}"
    );
    assert!(asked[0].contains("content-length: 8"), "{asked:?}");
    assert_eq!(send("/moved").unwrap_err().reason(), Reason::Remote);
    assert!(elsewhere.asked().is_empty());
}
