//! Calls of the program that are issued without a signal (di-11, di-12).

use crate::group::GroupFile;
use crate::mappings::Answer;
use crate::program::Program;
use dispatch::simple::{self, Class, Simple};
use dispatch::system;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use zmem::WORD_LAYOUT;

/// The gate of a process that shares its limit with no other process. It is always open.
static OPEN: AtomicU64 = AtomicU64::new(0);

const _: () = {
    let [resident, plain, pin] = WORD_LAYOUT;
    assert!(resident == simple::RESIDENT && plain == simple::PLAIN && pin == simple::PIN);
};

impl Program {
    /// Starts to issue simple calls without a signal.
    pub(crate) fn begin_simple(&'static self) {
        let file = self.group.as_ref();
        simple::set(&Simple {
            gate: file.map_or(&OPEN, |file| file.member.group().short_word()),
            threads: &self.threads,
            memory: self.arena.addresses(),
            words: self.arena.words(),
            block: self.arena.block(),
            descriptor: file.map(GroupFile::descriptor),
            class,
        });
    }

    /// Maps memory for stubs.
    pub(crate) fn map_stubs(&self, range: Range<usize>) -> bool {
        let prot = (libc::PROT_READ | libc::PROT_EXEC) as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let args = [range.start, range.len(), prot, flags as usize, usize::MAX, 0];
        match self.answer(libc::SYS_mmap as usize, args) {
            Answer::Is(start) => start == range.start as isize,
            Answer::Issue => system(libc::SYS_mmap, args) == Ok(range.start),
        }
    }
}

/// Returns the way in which a call is issued without a signal, or `Dispatched` if the call needs
/// more from the runtime than filled memory.
fn class(number: i64) -> Class {
    match number {
        libc::SYS_read | libc::SYS_write | libc::SYS_pread64 | libc::SYS_pwrite64 => Class::Buffer,
        libc::SYS_recvfrom | libc::SYS_sendto => Class::Receive,
        libc::SYS_close => Class::Close,
        libc::SYS_open
        | libc::SYS_access
        | libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_readlink => Class::Path,
        libc::SYS_openat | libc::SYS_newfstatat | libc::SYS_faccessat => Class::PathAt,
        libc::SYS_lseek
        | libc::SYS_fstat
        | libc::SYS_getpid
        | libc::SYS_gettid
        | libc::SYS_getuid
        | libc::SYS_geteuid
        | libc::SYS_clock_gettime
        | libc::SYS_gettimeofday
        | libc::SYS_times => Class::Direct,
        _ => Class::Dispatched,
    }
}
