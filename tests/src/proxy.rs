//! A forward proxy for HTTP and SOCKS5 on one port, which leads every name to
//! this machine: who reaches a server by a name that doesn't exist came
//! through it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};

/// A running proxy. Dropping it ends it.
pub struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    ended: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts it on a free port.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let proxy = Self {
            address: listener.local_addr()?,
            asked: Arc::default(),
            ended: Arc::default(),
        };
        let (asked, ended) = (Arc::clone(&proxy.asked), Arc::clone(&proxy.ended));
        thread::Builder::new().name("proxy".into()).spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), asked) = (stream, Arc::clone(&asked)) else {
                    continue;
                };
                // A client that gives up is none of the proxy's business.
                thread::spawn(move || drop(serve(stream, &asked)));
            }
        })?;
        Ok(proxy)
    }

    /// Its address as an HTTP proxy.
    pub fn http(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its address as a SOCKS5 proxy that looks names up.
    pub fn socks(&self) -> String {
        format!("socks5h://{}", self.address)
    }

    /// Whom it was asked for: `http name:port`, `connect name:port`, `socks name:port`.
    pub fn asked(&self) -> Vec<String> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(client: TcpStream, asked: &Mutex<Vec<String>>) -> Result<()> {
    let note = |how: &str, whom: &str| {
        let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.push(format!("{how} {whom}"));
    };
    let mut reader = BufReader::new(client.try_clone()?);
    let mut writer = client;
    if reader.fill_buf()?.first() == Some(&5) {
        let whom = greet(&mut reader, &mut writer)?;
        note("socks", &whom);
        let server = server(&whom)?;
        writer.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 0])?;
        return relay(reader, writer, server);
    }
    let mut head = String::new();
    reader.read_line(&mut head)?;
    let mut words = head.split(' ');
    let (method, target) = (
        words.next().unwrap_or_default().to_owned(),
        words.next().unwrap_or_default().to_owned(),
    );
    if method == "CONNECT" {
        note("connect", &target);
        let server = server(&target)?;
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            line.clear();
        }
        writer.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
        return relay(reader, writer, server);
    }
    let whom = target
        .strip_prefix("http://")
        .and_then(|rest| rest.split('/').next())
        .context("neither CONNECT nor a whole URL")?;
    note("http", whom);
    let mut server = server(whom)?;
    server.write_all(head.as_bytes())?;
    relay(reader, writer, server)
}

/// A SOCKS5 greeting and its one request: whom it is for.
fn greet(reader: &mut impl Read, writer: &mut impl Write) -> Result<String> {
    let mut take = |count: usize| -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        reader.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let methods = take(2)?;
    take(usize::from(methods[1]))?;
    writer.write_all(&[5, 0])?;
    let request = take(4)?;
    let name = match request[3] {
        3 => {
            let length = take(1)?[0];
            String::from_utf8(take(usize::from(length))?)?
        }
        1 => take(4)?
            .iter()
            .map(u8::to_string)
            .collect::<Vec<_>>()
            .join("."),
        other => bail!("an address of kind {other}"),
    };
    let port = take(2)?;
    Ok(format!("{name}:{}", u16::from_be_bytes([port[0], port[1]])))
}

/// Whoever is asked for, it is this machine.
fn server(whom: &str) -> Result<TcpStream> {
    let port = whom.rsplit(':').next().context("no port")?.parse::<u16>()?;
    Ok(TcpStream::connect(("127.0.0.1", port))?)
}

fn relay(mut from: impl Read + Send + 'static, client: TcpStream, server: TcpStream) -> Result<()> {
    let (mut up, mut down) = (server.try_clone()?, server);
    let upwards = thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut up);
        let _ = up.shutdown(Shutdown::Write);
    });
    let mut to = client;
    let _ = std::io::copy(&mut down, &mut to);
    let _ = to.shutdown(Shutdown::Both);
    let _ = upwards.join();
    Ok(())
}
