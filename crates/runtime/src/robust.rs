//! Mutexes that a thread holds when it ends. The kernel goes over the thread's robust list then,
//! and tells who waits for one; memory that is absent is the end of the list to it (pl-16).
//!
//! ```text
//!   head: | first | offset | pending |     node: | next | ...     its mutex's word is `offset` on
//!             '---------------------------->'       '--> ... --> the head
//! ```

use crate::pins::{Note, hold};
use dispatch::system;
use std::iter::successors;
use zmem::Arena;

const WORD: usize = size_of::<usize>();
/// A futex's word.
const FUTEX: usize = 4;
/// The kernel goes no further.
const NODES_MAX: usize = 2048;
/// In the lowest bit of a node's address the C library says what kind of mutex it is.
const KIND: usize = 1;

/// Brings back what the kernel will look at of this thread's list, and pins it: for good, if the
/// thread ends.
pub(crate) fn pin(arena: &Arena, note: &mut Note, is_lasting: bool) {
    let mut told = [0_usize; 2];
    let at = told.as_mut_ptr().expose_provenance();
    let is_told = system(libc::SYS_get_robust_list, [0, at, at + WORD, 0, 0, 0]).is_ok();
    let head = told[0];
    let Some([first, offset, pending]) = read(head).filter(|_| is_told) else { return };
    let other = |node: usize| Some(node & !KIND).filter(|node| *node != head);
    let nodes = successors(other(first), |node| read(*node).and_then(|[next]| other(next)));
    for node in nodes.take(NODES_MAX).chain([pending & !KIND]) {
        for (start, bytes) in [(node, WORD), (node.wrapping_add(offset), FUTEX)] {
            let _others = hold(arena, note, start..start.saturating_add(bytes), is_lasting);
        }
    }
}

/// Reads words of the program's.
fn read<const N: usize>(at: usize) -> Option<[usize; N]> {
    let mut bytes = [[0; WORD]; N];
    let is_there = dispatch::read_memory(at, bytes.as_flattened_mut());
    is_there.then(|| bytes.map(usize::from_ne_bytes))
}
