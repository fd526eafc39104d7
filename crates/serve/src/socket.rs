//! Sockets of clients, Unix or TCP.

use crate::policy::SEND_BUFFER;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, RecvFlags, SendFlags, Shutdown};
use rustix::process::Uid;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// Creates a client's connection. Blocking calls on the connection return after `tick` at the
    /// latest.
    pub(crate) fn new(fd: OwnedFd, tick: Duration) -> io::Result<Self> {
        sockopt::set_socket_timeout(&fd, Timeout::Recv, Some(tick))?;
        sockopt::set_socket_timeout(&fd, Timeout::Send, Some(tick))?;
        // A smaller buffer is acceptable.
        let _ = sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER);
        // These options for TCP make the system send replies at once, and detect a client whose
        // machine has failed.
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

    /// Returns the user of the client's process, for a Unix socket.
    pub(crate) fn peer(&self) -> Option<Uid> {
        sockopt::socket_peercred(&self.0).ok().map(|peer| peer.uid)
    }

    /// Returns whether the client has closed the connection, so that the client can't receive
    /// anything.
    pub(crate) fn has_left(&self) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::empty())];
        let is_polled = poll(&mut polled, Some(&Timespec::default())) == Ok(1);
        is_polled && polled[0].revents().contains(PollFlags::HUP)
    }

    /// Shuts down the sending direction. The client still receives the bytes that were sent before.
    pub(crate) fn end_sending(&self) -> io::Result<()> {
        Ok(net::shutdown(&self.0, Shutdown::Write)?)
    }

    /// Shuts the connection down, which wakes all threads that wait for data of the connection.
    pub(crate) fn hang_up(&self) {
        // The call fails only if the client has already disconnected, so its error is ignored.
        let _ = net::shutdown(&self.0, Shutdown::Both);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
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
