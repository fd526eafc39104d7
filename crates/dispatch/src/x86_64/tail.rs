//! Tails: the instructions to which a call from a site returns (di-17).
//!
//! ```text
//!    0: mov rcx, site + 2                        as after a call
//!   10: the instruction at site + 2              n bytes
//!       jmp [rip + ...]
//!   24: site + 2 + n
//! ```
//! The moved instruction has the same effect at any address. A thread is interrupted either before
//! or after the moved instruction.
//!
//! # Safety
//! Only the address of the symbol is taken.
#![allow(unsafe_code)]

use crate::policy::SITES;
use std::ops::Range;

/// The length of a tail in bytes.
const BYTES: usize = 32;
/// The number of bytes that outside.s reserves for all tails.
pub(crate) const ALL_BYTES: usize = SITES * BYTES;
/// The offset of the moved instruction in a tail.
const MOVED: usize = 10;
/// The offset of the jump's target address in a tail.
const TARGET: usize = 24;
/// The length of `jmp [rip + imm32]` in bytes.
const JUMP_BYTES: usize = 6;
/// The maximum length in bytes of an instruction that is moved.
pub(crate) const MOVED_MAX: usize = 6;

const _: () = assert!(MOVED + MOVED_MAX + JUMP_BYTES <= TARGET);
const _: () = assert!(TARGET + size_of::<usize>() == BYTES);

// SAFETY: the symbol is defined in outside.s.
unsafe extern "C" {
    static uzram_dispatch_tails: u8;
}

fn start() -> usize {
    (&raw const uzram_dispatch_tails).addr()
}

/// Returns the addresses of all tails. A hook must not let the program discard these pages, because
/// calls return to tails.
pub fn all() -> Range<usize> {
    start()..start() + ALL_BYTES
}

/// Returns the address of tail `nth`, or `None` if there are fewer tails.
pub(crate) fn place(nth: usize) -> Option<usize> {
    (nth < SITES).then(|| start() + nth * BYTES)
}

/// The progress of a thread in a tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The thread has not executed the moved instruction.
    Before,
    /// The thread has executed the moved instruction, which has this number of bytes.
    Behind(usize),
}

/// Returns the address of the tail that contains `at`, and the progress of a thread at `at`.
pub(crate) fn progress(at: usize) -> Option<(usize, Progress)> {
    let within = all().contains(&at).then(|| (at - start()) % BYTES)?;
    let progress = match within.checked_sub(MOVED) {
        None | Some(0) => Progress::Before,
        Some(bytes) => Progress::Behind(bytes),
    };
    Some((at - within, progress))
}

/// Returns the length of the first instruction of `code`, if it can be moved.
fn moved_bytes(code: &[u8]) -> Option<usize> {
    match *code {
        // cmp rax, imm32
        [0x48, 0x3d, ..] => Some(6),
        // mov r64, r64
        [0x48, 0x89, operands, ..] if operands >= 0xc0 => Some(3),
        // ret
        [0xc3, ..] => Some(1),
        _ => None,
    }
}

/// Returns the code of a site's tail. `behind` is the address after the site's call, and `moved`
/// are the bytes at that address. Returns `None` if the instruction at `behind` can't be moved.
pub(crate) fn code(behind: usize, moved: &[u8; MOVED_MAX]) -> Option<[u8; BYTES]> {
    let bytes = moved_bytes(moved)?;
    let mut code = [0xcc; BYTES];
    // mov rcx, imm64
    code[..2].copy_from_slice(&[0x48, 0xb9]);
    code[2..MOVED].copy_from_slice(&behind.to_le_bytes());
    code[MOVED..][..bytes].copy_from_slice(&moved[..bytes]);
    // jmp [rip + imm32]
    let jump = MOVED + bytes;
    code[jump..][..2].copy_from_slice(&[0xff, 0x25]);
    let distance = (TARGET - jump - JUMP_BYTES) as u32;
    code[jump + 2..][..4].copy_from_slice(&distance.to_le_bytes());
    code[TARGET..].copy_from_slice(&(behind + bytes).to_le_bytes());
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(bytes: [u8; MOVED_MAX]) -> Option<[u8; BYTES]> {
        code(0x1000, &bytes)
    }

    #[test]
    fn only_plain_instructions_are_moved() {
        let compare = [0x48, 0x3d, 1, 0xf0, 0xff, 0xff];
        let code = code_of(compare).unwrap();
        assert_eq!(code[MOVED..][..6], compare);
        assert_eq!(code[16..22], [0xff, 0x25, 2, 0, 0, 0]);
        let code = code_of([0x48, 0x89, 0xc7, 1, 2, 3]).unwrap();
        assert_eq!(code[MOVED..19], [0x48, 0x89, 0xc7, 0xff, 0x25, 5, 0, 0, 0]);
        let code = code_of([0xc3, 0x90, 0x90, 0x90, 0x90, 0x90]).unwrap();
        assert_eq!(code[MOVED], 0xc3);
        // These instructions are a move to memory, a conditional jump, and a move with an address
        // relative to the instruction.
        assert_eq!(code_of([0x48, 0x89, 0x07, 0x90, 0x90, 0x90]), None);
        assert_eq!(code_of([0x77, 0x05, 0x90, 0x90, 0x90, 0x90]), None);
        assert_eq!(code_of([0x48, 0x8b, 0x05, 0, 0, 0]), None);
    }

    #[test]
    fn progress_is_found_in_tails_alone() {
        let second = place(1).unwrap();
        let of = |within| progress(second + within);
        assert_eq!(of(0), Some((second, Progress::Before)));
        assert_eq!(of(MOVED), Some((second, Progress::Before)));
        assert_eq!(of(MOVED + 6), Some((second, Progress::Behind(6))));
        assert_eq!(progress(start() - 1), None);
        assert_eq!(progress(all().end), None);
        assert_eq!(place(SITES), None);
        assert_eq!(place(SITES - 1).map(|at| at + BYTES), Some(all().end));
    }
}
