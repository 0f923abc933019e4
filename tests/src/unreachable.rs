//! Hosts that can't be reached, on ports of this machine.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// Far longer than a connection within a machine takes.
const CONNECT: Duration = Duration::from_secs(1);

fn bound(port: u16) -> Result<(TcpSocket, SocketAddr)> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok((socket, address))
}

/// A port that drops whoever knocks, as many a firewall does.
pub struct BlackHole {
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl BlackHole {
    /// Opens it: nobody takes connections there, and the kernel drops what comes once its
    /// short queue is full.
    ///
    /// # Errors
    /// When the port is taken.
    pub async fn at(port: u16) -> Result<Self> {
        let (socket, address) = bound(port)?;
        let listener = socket.listen(0)?;
        let mut waiting = Vec::new();
        while let Ok(connected) = timeout(CONNECT, TcpStream::connect(address)).await {
            waiting.push(connected?);
        }
        Ok(Self {
            _listener: listener,
            _waiting: waiting,
        })
    }
}

/// A port that refuses whoever knocks, and that nobody else can take.
pub struct Refusing {
    _socket: TcpSocket,
}

impl Refusing {
    /// Keeps the port.
    ///
    /// # Errors
    /// When it is taken.
    pub fn at(port: u16) -> Result<Self> {
        Ok(Self {
            _socket: bound(port)?.0,
        })
    }
}
