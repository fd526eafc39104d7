//! How the C library's functions are done that this library stands in for: most calls are issued
//! on the program's stack, without a signal.

use crate::held;
use crate::program::Program;
use crate::space::Space;
use dispatch::Direct;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// The flag of a send whose memory the network keeps: it is pinned for good.
const KEPT: usize = libc::MSG_ZEROCOPY as usize;

impl Program {
    /// Returns how a wrapper makes a call.
    pub(crate) fn way_of(&self, number: usize, args: &[usize; 6]) -> Direct {
        let is_short = self.tree.as_ref().is_some_and(|file| file.tree.is_short());
        let (start, bytes) = match number as i64 {
            _ if is_short => return Direct::Dispatch,
            libc::SYS_read | libc::SYS_write | libc::SYS_pread64 | libc::SYS_pwrite64 => {
                (args[1], args[2])
            }
            libc::SYS_recvfrom | libc::SYS_sendto if args[3] & KEPT | args[4] | args[5] == 0 => {
                (args[1], args[2])
            }
            libc::SYS_poll => (args[0], args[1].saturating_mul(size_of::<libc::pollfd>())),
            // pl-15: they fail with EFAULT where memory is away, and have done nothing then.
            libc::SYS_openat | libc::SYS_newfstatat | libc::SYS_access | libc::SYS_readlink => {
                return Direct::Try;
            }
            libc::SYS_lseek => return Direct::Issue,
            libc::SYS_close if self.answer_of_tree(number, args).is_none() => return Direct::Issue,
            _ => return Direct::Dispatch,
        };
        self.touched(start..start.saturating_add(bytes))
    }

    /// Returns how a wrapper has the system touch a buffer that no thread has go meanwhile.
    fn touched(&self, buffer: Range<usize>) -> Direct {
        let of = self.arena.addresses();
        let part = buffer.start.max(of.start)..buffer.end.min(of.end);
        if part.is_empty() {
            return Direct::Issue;
        }
        let blocks = Space::around(&self.arena, &part);
        match self.threads.load(Relaxed) {
            1 if self.arena.is_resident(blocks.clone()) => Direct::Try,
            2.. if held::hold(&self.arena, &blocks) => Direct::Held,
            _ => Direct::Dispatch,
        }
    }
}
