//! Mutexes that a thread holds when it ends. The kernel goes over the thread's robust list then,
//! and tells who waits for one; memory that is absent is the end of the list to it (pl-16).
//!
//! ```text
//!   head: | first | offset | pending |     node: | next | ...     its mutex's word is `offset` on
//!             '---------------------------->'       '--> ... --> the head
//! ```

use crate::pins::{Note, hold};
use crate::space::system;
use zmem::Arena;

const WORD: usize = size_of::<usize>();
/// A futex's word.
const FUTEX: usize = 4;
/// The kernel goes no further.
const NODES_MAX: usize = 2048;
/// In the lowest bit of a node's address the C library says what kind of mutex it is.
const KIND: usize = 1;

/// Brings back what the kernel will look at of this thread's list, and pins it.
pub(crate) fn pin(arena: &Arena, note: &mut Note) {
    let (mut head, mut bytes) = (0_usize, 0_usize);
    let out = [&raw mut head, &raw mut bytes].map(|word| word.expose_provenance());
    if system(libc::SYS_get_robust_list, [0, out[0], out[1], 0, 0, 0]).is_err() || head == 0 {
        return;
    }
    let Some([first, offset, pending]) = read(head) else { return };
    let mut node = first & !KIND;
    for _ in 0..NODES_MAX {
        if node == head {
            break;
        }
        pin_node(arena, note, node, offset);
        let Some([next]) = read(node) else { return };
        node = next & !KIND;
    }
    if pending != 0 {
        pin_node(arena, note, pending & !KIND, offset);
    }
}

fn pin_node(arena: &Arena, note: &mut Note, node: usize, offset: usize) {
    let word = node.wrapping_add(offset);
    for (start, bytes) in [(node, WORD), (word, FUTEX)] {
        let _others = hold(arena, note, start..start.saturating_add(bytes), false);
    }
}

/// Reads words of the program's.
fn read<const N: usize>(at: usize) -> Option<[usize; N]> {
    let mut bytes = [[0; WORD]; N];
    let is_there = dispatch::read_memory(at, bytes.as_flattened_mut());
    is_there.then(|| bytes.map(usize::from_ne_bytes))
}
