//! Reads the program's memory.

use crate::kernel::{PAGE, WORD};
use dispatch::read_memory;

/// Reads `N` machine words of the program at `address`. Returns `None` if they can't be read.
pub(crate) fn words<const N: usize>(address: usize) -> Option<[usize; N]> {
    let mut bytes = [[0; WORD]; N];
    read_memory(address, bytes.as_flattened_mut()).then(|| bytes.map(usize::from_ne_bytes))
}

/// Reads a string of the program. Returns `None` if the string is longer than the longest path, or
/// can't be read.
pub(crate) fn text(address: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while text.len() < libc::PATH_MAX as usize {
        // Each read ends at a page boundary, because the next page may not be mapped.
        let at = address.wrapping_add(text.len());
        let mut part = [0; 256];
        let bytes = part.len().min(PAGE - at % PAGE);
        if !read_memory(at, &mut part[..bytes]) {
            return None;
        }
        let end = part[..bytes].iter().position(|byte| *byte == 0);
        text.extend_from_slice(&part[..end.unwrap_or(bytes)]);
        if end.is_some() {
            return Some(text);
        }
    }
    None
}
