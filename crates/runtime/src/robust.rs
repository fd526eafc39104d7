//! The robust mutexes that a thread holds when it ends. At a thread's end, the kernel walks over
//! the thread's robust list and wakes threads that wait for these mutexes. Absent memory would end
//! this walk (pl-16).
//!
//! ```text
//!   head: | first | offset | pending |     node: | next | ...     its futex is `offset` bytes on
//!             '---------------------------->'       '--> ... --> the head
//! ```

use crate::kernel::{ROBUST_LIST_LIMIT, WORD};
use crate::pins::{Note, hold};
use crate::user::words;
use dispatch::system;
use std::iter::successors;
use zmem::Arena;

/// The size of a futex in bytes.
const FUTEX: usize = size_of::<u32>();
/// The lowest bit of a node's address, which encodes the mutex's kind.
const KIND: usize = 1;

/// Fills and pins the memory that the kernel will access when it walks over this thread's robust
/// list. If `is_lasting` is true, the thread is ending, and the memory stays pinned.
pub(crate) fn pin(arena: &Arena, note: &mut Note, is_lasting: bool) {
    let mut told = [0_usize; 2];
    let at = told.as_mut_ptr().expose_provenance();
    let is_told = system(libc::SYS_get_robust_list, [0, at, at + WORD, 0, 0, 0]).is_ok();
    let head = told[0];
    let Some([first, offset, pending]) = words(head).filter(|_| is_told) else { return };
    let other = |node: usize| Some(node & !KIND).filter(|node| *node != head);
    let nodes = successors(other(first), |node| words(*node).and_then(|[next]| other(next)));
    for node in nodes.take(ROBUST_LIST_LIMIT).chain([pending & !KIND]) {
        for (start, bytes) in [(node, WORD), (node.wrapping_add(offset), FUTEX)] {
            let _others = hold(arena, note, start..start.saturating_add(bytes), is_lasting);
        }
    }
}
