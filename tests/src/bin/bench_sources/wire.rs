//! What comes over the wire: a relay in front of a server that counts it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;

/// A relay to one server. It ends with the process.
pub(crate) struct Wire {
    address: SocketAddr,
    received: Arc<AtomicU64>,
}

impl Wire {
    /// A relay to `port` of this machine.
    pub(crate) fn to(port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let received = Arc::new(AtomicU64::new(0));
        let counter = received.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", port)) {
                    relay(client, server, counter.clone());
                }
            }
        });
        Ok(Self { address, received })
    }

    /// The address of `<name>.git` behind it.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}.git", self.address)
    }

    /// Its own `host:port`.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// Bytes that the server has sent so far, headers and all.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::SeqCst)
    }
}

fn relay(client: TcpStream, server: TcpStream, received: Arc<AtomicU64>) {
    for stream in [&client, &server] {
        let _ = stream.set_nodelay(true);
    }
    let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else {
        return;
    };
    std::thread::spawn(move || pass(from_client, to_server, |_| ()));
    std::thread::spawn(move || {
        pass(server, client, |bytes| {
            received.fetch_add(bytes as u64, Ordering::SeqCst);
        });
    });
}

fn pass(mut from: TcpStream, mut to: TcpStream, count: impl Fn(usize)) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        // Before it is passed on: whoever has it finds it counted.
        count(bytes);
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
