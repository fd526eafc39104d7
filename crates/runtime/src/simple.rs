//! Calls of the program that are issued without a signal (di-11, di-12).

use crate::group::GroupFile;
use crate::mappings::Answer;
use crate::program::Program;
use dispatch::simple::{self, Simple};
use dispatch::system;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use zmem::WORD_LAYOUT;

/// The word that allows simple calls while it is 0, in a process that shares its limit with no
/// other process. There the word is always 0.
static OPEN: AtomicU64 = AtomicU64::new(0);

const _: () = {
    let [resident, plain, pin] = WORD_LAYOUT;
    assert!(resident == simple::RESIDENT && plain == simple::PLAIN && pin == simple::PIN);
};

/// Lets `dispatch` issue simple calls without a signal.
pub(crate) fn begin_simple(program: &'static Program) {
    let file = program.group.as_ref();
    simple::set(&Simple {
        gate: file.map_or(&OPEN, |file| file.member.group().short_word()),
        threads: &program.threads,
        memory: program.arena.addresses(),
        words: program.arena.words(),
        block: program.arena.block(),
        descriptor: file.map(GroupFile::descriptor),
    });
}

/// Maps memory for stubs.
pub(crate) fn map_stubs(program: &Program, range: Range<usize>) -> bool {
    let prot = (libc::PROT_READ | libc::PROT_EXEC) as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let args = [range.start, range.len(), prot, flags as usize, usize::MAX, 0];
    match program.answer(libc::SYS_mmap as usize, args) {
        Answer::Is(start) => start == range.start as isize,
        Answer::Issue => system(libc::SYS_mmap, args) == Ok(range.start),
    }
}
