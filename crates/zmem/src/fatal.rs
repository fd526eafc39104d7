//! Aborts the process when the program would otherwise read wrong data. This code allocates no
//! memory, because it may run in a signal handler.

use rustix::io::Errno;
use std::fmt::{self, Display, Write};

struct Text {
    bytes: [u8; 512],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let len = text.len().min(room.len());
        room[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

/// Writes the failure and its reason to standard error, and aborts the process.
pub(crate) fn fatal(what: &str, why: &dyn Display) -> ! {
    let mut text = Text { bytes: [0; 512], len: 0 };
    let _cut = writeln!(text, "zmem: {what}: {why}; the process can't go on without it");
    let _unheard = rustix::io::write(rustix::stdio::stderr(), &text.bytes[..text.len]);
    std::process::abort()
}

/// Reports an operation that the kernel refused, and aborts the process. Only the error number is
/// written, because the C library's text would be allocated on the heap.
pub(crate) fn refused(what: &str, errno: Errno) -> ! {
    fatal(what, &format_args!("error {} of the system", errno.raw_os_error()))
}
