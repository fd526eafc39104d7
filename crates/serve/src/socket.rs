//! Sockets of clients, Unix or TCP.

use rustix::fd::OwnedFd;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, RecvFlags, SendFlags, Shutdown};
use rustix::process::Uid;
use std::io;
use std::time::{Duration, Instant};

/// Bytes of replies that the kernel buffers for a client, if its limit allows as many.
const SEND_BUFFER: usize = 1 << 20;

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// Makes a client's connection whose blocking calls return after `tick`.
    pub(crate) fn new(fd: OwnedFd, tick: Duration) -> io::Result<Self> {
        sockopt::set_socket_timeout(&fd, Timeout::Recv, Some(tick))?;
        sockopt::set_socket_timeout(&fd, Timeout::Send, Some(tick))?;
        // Less will do.
        let _ = sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER);
        // Only TCP has them: a reply goes at once, and a client whose machine is gone is found out.
        let _ = sockopt::set_tcp_nodelay(&fd, true);
        let _ = sockopt::set_socket_keepalive(&fd, true);
        Ok(Socket(fd))
    }

    pub(crate) fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        let (received, _) = net::recv(&self.0, buf, RecvFlags::empty())?;
        Ok(received)
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(net::send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    /// Returns the user at the other end of a Unix socket.
    pub(crate) fn peer(&self) -> Option<Uid> {
        sockopt::socket_peercred(&self.0).ok().map(|peer| peer.uid)
    }

    /// Sends no more, and receives what is still coming, so that what was sent arrives: for so long
    /// at most, and so many bytes.
    pub(crate) fn end(&self, within: Duration, most: usize) -> io::Result<()> {
        net::shutdown(&self.0, Shutdown::Write)?;
        sockopt::set_socket_timeout(&self.0, Timeout::Recv, Some(within))?;
        let (until, mut left, mut rest) = (Instant::now() + within, most, [0; 512]);
        while left > 0 && Instant::now() < until {
            match self.receive(&mut rest)? {
                0 => break,
                received => left = left.saturating_sub(received),
            }
        }
        Ok(())
    }

    /// Shuts the connection down, which wakes all threads that wait for it.
    pub(crate) fn hang_up(&self) {
        // Where the client has gone already there is no one to tell.
        let _ = net::shutdown(&self.0, Shutdown::Both);
    }
}

impl io::Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
