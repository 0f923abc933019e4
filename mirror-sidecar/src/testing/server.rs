//! An HTTP server on a real socket that answers as a test says.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What a server does with a request.
pub(crate) enum Reply {
    /// Sends this, and closes.
    Whole(Vec<u8>),
    /// Sends this, and then a byte now and then, for ever.
    Endless(Vec<u8>),
    /// Says nothing, for ever.
    Silence,
}

/// Ends with its value.
pub(crate) struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    ended: Arc<AtomicBool>,
}

impl Server {
    /// Answers each request, given with all its headers, by `reply`.
    pub(crate) fn start(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
            ended: Arc::default(),
        };
        let (asked, ended) = (Arc::clone(&server.asked), Arc::clone(&server.ended));
        let reply = Arc::new(reply);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let stream = stream.unwrap();
                let (asked, reply) = (Arc::clone(&asked), Arc::clone(&reply));
                thread::spawn(move || {
                    let request = head(&stream);
                    asked.lock().unwrap().push(request.clone());
                    answer(stream, reply(&request));
                });
            }
        });
        server
    }

    /// Answers every request with this text.
    pub(crate) fn of(text: &'static str) -> Self {
        Self::start(move |_| ok("", text.as_bytes()))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The host and port alone.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// All requests so far, with their headers in small letters.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes it, so that it sees.
        let _ = TcpStream::connect(self.address);
    }
}

fn head(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    loop {
        let mut line = String::new();
        let read = reader.read_line(&mut line).unwrap_or(0);
        if read == 0 || line == "\r\n" {
            return head;
        }
        // The first line has a path, whose letters matter.
        head += &match line.split_once(": ") {
            Some((name, value)) => format!("{}: {value}", name.to_ascii_lowercase()),
            None => line,
        };
    }
}

fn answer(mut stream: TcpStream, reply: Reply) {
    match reply {
        Reply::Whole(bytes) => {
            let _ = stream.write_all(&bytes);
        }
        Reply::Endless(bytes) => {
            let _ = stream.write_all(&bytes);
            // Until the other side has enough of it.
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        Reply::Silence => {
            let mut rest = Vec::new();
            let _ = std::io::Read::read_to_end(&mut stream, &mut rest);
        }
    }
}

/// 200 with a body and more header lines.
pub(crate) fn ok(headers: &str, body: &[u8]) -> Reply {
    status("200 OK", headers, body)
}

/// A status with a body and more header lines.
pub(crate) fn status(status: &str, headers: &str, body: &[u8]) -> Reply {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n"
    );
    Reply::Whole([head.as_bytes(), body].concat())
}

/// A redirect.
pub(crate) fn moved(to: &str) -> Reply {
    status("302 Found", &format!("location: {to}\r\n"), b"")
}
