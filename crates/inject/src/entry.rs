//! The arguments of an injected host. The arguments describe the state in which the program starts.

use crate::child_signal;
use crate::limits::SoftLimits;
use crate::policy::HOST_STACK_BYTES;
use crate::system::wait;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;

/// The argument that marks a host as injected. The mark follows the settings. If a host is not
/// injected, the path of the program is at this position.
const MARK: &str = "--injected";

/// The state of the process before the program's first instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The program's stack pointer, as set by the kernel.
    pub stack: usize,
    /// The address of the first instruction. This instruction belongs to the program's loader, or
    /// to the program if the program is static.
    pub instruction: usize,
    /// The lowest address of the host's own stack. The stack is a mapping of
    /// [`STACK_BYTES`](Self::STACK_BYTES) bytes.
    pub host_stack: usize,
    /// The program's own soft limits (address space, data), or `None` if the helper did not raise
    /// the limits of the process.
    pub limits: Option<SoftLimits>,
    /// The helper's process ID.
    pub(crate) helper: usize,
}

impl Entry {
    /// The size of the host's own stack in bytes.
    pub const STACK_BYTES: usize = HOST_STACK_BYTES;
    /// The number of strings in `argv` of an injected host.
    pub(crate) const ARGUMENTS: usize = 9;

    /// Writes the arguments of a host, each followed by a NUL.
    pub(crate) fn write(&self, settings: &[u8], into: &mut impl Write) -> io::Result<()> {
        into.write_all(b"uzram-host\0")?;
        into.write_all(settings)?;
        let Entry { stack, instruction, host_stack, limits, helper } = self;
        write!(into, "\0{MARK}\0{stack}\0{instruction}\0{helper}\0{host_stack}\0")?;
        match limits {
            Some([space, data]) => write!(into, "{space}\0{data}\0"),
            None => into.write_all(b"\0\0"),
        }
    }

    /// Parses the arguments that follow the settings. Returns `None` if the host is not injected.
    pub fn of<S: AsRef<OsStr>>(arguments: &[S]) -> Option<Self> {
        let [mark, words @ .., space, data] = arguments else { return None };
        let number = |text: &S| str::from_utf8(text.as_ref().as_bytes()).ok()?.parse().ok();
        let words: Vec<u64> = words.iter().map_while(number).collect();
        let words = <[u64; 4]>::try_from(words).ok()?;
        let [stack, instruction, helper, host_stack] = words.map(|word| word as usize);
        let limits = number(space).zip(number(data)).map(<[u64; 2]>::from);
        (mark.as_ref() == MARK).then_some(Entry { stack, instruction, host_stack, limits, helper })
    }

    /// Waits until the helper has ended, so that the program finds neither a helper among its
    /// children nor a pending signal that reports the helper's end.
    pub fn wait_for_helper(&self) {
        let _gone = wait(self.helper as i32);
        child_signal::remove(self.helper as i32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_they_were_written() {
        let stack = 0x7fff_ffff_e000;
        for limits in [Some([u64::MAX, 7]), None] {
            let entry =
                Entry { stack, instruction: 0x40_1000, host_stack: 4096, limits, helper: 12 };
            let mut written = Vec::new();
            entry.write(b"limit=1000", &mut written).unwrap();
            let list: Vec<_> = written.split(|byte| *byte == 0).map(OsStr::from_bytes).collect();
            assert_eq!(list.len(), Entry::ARGUMENTS + 1);
            assert_eq!(list[1], "limit=1000");
            assert_eq!(Entry::of(&list[2..Entry::ARGUMENTS]), Some(entry));
            for wrong in [&list[1..8], &list[2..8], &list[3..9], &[]] {
                assert_eq!(Entry::of(wrong), None);
            }
        }
    }
}
