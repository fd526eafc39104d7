//! An NBD client that reads and writes. The client chooses its export by the old option
//! EXPORT_NAME.

use std::io::{Error, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use testkit::nbd::{EXPORT_NAME, header, option};
pub use testkit::nbd::{READ, WRITE};

/// An NBD client that has chosen its export.
pub struct Client(pub UnixStream);

/// Connects a client that has sent nothing yet.
pub fn connect(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream
}

pub fn request(kind: u16, offset: u64, len: u32) -> Vec<u8> {
    header(kind, 0, 0, offset, len)
}

impl Client {
    pub fn new(socket: &Path) -> Self {
        Client::try_new(socket).unwrap()
    }

    /// Connects a client. The server can refuse the client.
    pub fn try_new(socket: &Path) -> Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.read_exact(&mut [0; 18])?;
        stream.write_all(&3_u32.to_be_bytes())?;
        stream.write_all(&option(EXPORT_NAME, &[]))?;
        stream.read_exact(&mut [0; 10])?;
        Ok(Client(stream))
    }

    /// Sends a request without data, and receives the reply.
    pub fn ask(&mut self, kind: u16, flags: u16, offset: u64, len: u32) -> Result<()> {
        self.0.write_all(&header(kind, flags, 0, offset, len))?;
        self.reply()
    }

    /// Receives the next reply.
    fn reply(&mut self) -> Result<()> {
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply)?;
        match u32::from_be_bytes(reply[4..8].try_into().unwrap()) {
            0 => Ok(()),
            errno => Err(Error::from_raw_os_error(errno as i32)),
        }
    }

    /// Writes `bytes` in requests of at most 1 MiB each.
    pub fn try_write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        for (nth, part) in bytes.chunks(1 << 20).enumerate() {
            self.write_at_once(offset + ((nth as u64) << 20), part)?;
        }
        Ok(())
    }

    /// Writes `bytes` in one request.
    pub fn write_at_once(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_all(&[&request(WRITE, offset, bytes.len() as u32), bytes].concat())?;
        self.reply()
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.try_write(offset, bytes).unwrap();
    }

    pub fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        self.try_read(offset, len).unwrap()
    }

    pub fn try_read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>> {
        self.0.write_all(&request(READ, offset, len as u32))?;
        self.reply()?;
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
