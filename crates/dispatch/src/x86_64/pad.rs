//! Pads: unused bytes between functions, which hold a jump to the stub of a site nearby (di-18).
//!
//! ```text
//!   site: eb rr          jmp pad, which lies at most 128 bytes away
//!   pad:  e9 dd dd dd dd jmp stub, which lies at most 2 GiB away
//! ```
//! Linkers fill the space before an aligned function with `int3` if the space is never executed.

use crate::x86_64::frame::CALL_BYTES;
use crate::x86_64::stub::{JUMP, JUMP_BYTES};
use std::ops::Range;

/// `int3`.
const FILL: u8 = 0xcc;
/// `ret`.
const RETURN: u8 = 0xc3;
/// The first byte of a short jump, which encodes its distance in one byte.
pub(crate) const SHORT: u8 = 0xeb;
/// The length in bytes of an aligned unit of code: see [`is_one_unit`].
const UNIT: usize = 8;
/// The alignment of functions in bytes.
const ALIGN: usize = 16;
/// The minimum number of `int3` bytes between a `ret` and an aligned function. The byte that looks
/// like `ret` can be part of an instruction whose 4-byte constant looks like `int3`. So a pad never
/// contains the first 4 of these bytes.
const FILLED_MIN: usize = 4 + JUMP_BYTES;
/// The maximum length in bytes of a run of `int3` that is recognised wherever its pad lies. A
/// longer run may begin before the bytes of [`around`].
const RUN_BYTES: usize = 2 * ALIGN;
/// The farthest distances of a short jump backwards and forwards, from the jump's end.
const FARTHEST: (usize, usize) = (128, 127);

/// Returns true if the bytes of a site lie in one aligned unit of 8 bytes. The processor never
/// executes old and new bytes of one unit together.
pub(crate) fn is_one_unit(site: usize) -> bool {
    site / UNIT == (site + CALL_BYTES - 1) / UNIT
}

/// Returns true if a byte before a site may be a prefix of the `syscall`. With a prefix, `hlt`
/// would fault at another address.
pub(crate) fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf2 | 0xf3)
}

/// The maximum length in bytes of the range that [`around`] returns.
pub(crate) const AROUND_BYTES: usize = FARTHEST.0 + RUN_BYTES + FARTHEST.1 + JUMP_BYTES;

/// Returns the addresses of all pads that a jump at `site` reaches, and of the bytes by which
/// [`find`] recognises these pads.
pub(crate) fn around(site: usize) -> Range<usize> {
    let end = site + CALL_BYTES;
    end.saturating_sub(FARTHEST.0 + RUN_BYTES)..end + FARTHEST.1 + JUMP_BYTES
}

/// Returns the address of a pad that a jump at `site` reaches. `code` are the bytes at `start`.
pub(crate) fn find(code: &[u8], start: usize, site: usize) -> Option<usize> {
    let first = start.next_multiple_of(ALIGN);
    let pads = (first..=start + code.len()).step_by(ALIGN).filter_map(|end| {
        let before = code[..end - start].strip_suffix(&[FILL; FILLED_MIN])?;
        let last = before.iter().rposition(|byte| *byte != FILL)?;
        (before[last] == RETURN).then(|| end - JUMP_BYTES)
    });
    pads.into_iter().find(|pad| short(site, *pad).is_some())
}

/// A pad, and the instructions that lead from a site to the pad and from the pad to a stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pad {
    pub(crate) address: usize,
    pub(crate) short: [u8; CALL_BYTES],
    pub(crate) long: [u8; JUMP_BYTES],
}

impl Pad {
    /// Returns `None` if the pad is too far away from the site or the stub.
    pub(crate) fn new(site: usize, address: usize, stub: usize) -> Option<Pad> {
        Some(Pad { address, short: short(site, address)?, long: long(address, stub)? })
    }
}

fn short(site: usize, pad: usize) -> Option<[u8; CALL_BYTES]> {
    let distance = pad.wrapping_sub(site + CALL_BYTES) as isize;
    Some([SHORT, i8::try_from(distance).ok()? as u8])
}

fn long(pad: usize, stub: usize) -> Option<[u8; JUMP_BYTES]> {
    let distance = i32::try_from(stub.wrapping_sub(pad + JUMP_BYTES) as isize).ok()?;
    let mut code = [JUMP; JUMP_BYTES];
    code[1..].copy_from_slice(&distance.to_le_bytes());
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: usize = 0x1000;

    /// Returns the pad that [`find`] returns for a site at `START`, if `code` ends at `START` + 64.
    fn found(code: &[u8]) -> Option<usize> {
        let mut all = vec![0x90; 64 - code.len()];
        all.extend_from_slice(code);
        find(&all, START, START)
    }

    #[test]
    fn a_pad_lies_between_a_return_and_an_aligned_function() {
        let with = |before: &[u8], fill: usize| [before, &vec![FILL; fill]].concat();
        assert_eq!(found(&with(&[RETURN], 9)), Some(START + 59));
        assert_eq!(found(&with(&[RETURN], 40)), Some(START + 43));
        // These bytes are no pads: too short a run, the constant of an instruction, and a run that
        // does not end at a function.
        assert_eq!(found(&with(&[RETURN], 8)), None);
        assert_eq!(found(&with(&[0x48, 0xb8], 13)), None);
        assert_eq!(found(&[with(&[RETURN], 15), vec![0x90]].concat()), None);
        // The bytes do not contain the beginning of the run.
        assert_eq!(find(&[FILL; 16], START, START), None);
    }

    #[test]
    fn jumps_reach_as_far_as_the_processor_permits() {
        let end = START + CALL_BYTES;
        assert_eq!(short(START, end + 127), Some([SHORT, 127]));
        assert_eq!(short(START, end + 128), None);
        assert_eq!(short(START, end - 128), Some([SHORT, 0x80]));
        assert_eq!(short(START, end - 129), None);
        let end = START + JUMP_BYTES;
        assert_eq!(long(START, end + 0x7fff_ffff), Some([JUMP, 0xff, 0xff, 0xff, 0x7f]));
        assert_eq!(long(START, end + 0x8000_0000), None);
        assert_eq!(long(0x9000_0000, 0x9000_0005 - 0x8000_0000), Some([JUMP, 0, 0, 0, 0x80]));
        assert_eq!(long(0x9000_0000, 0x9000_0004 - 0x8000_0000), None);
    }

    #[test]
    fn all_pads_in_reach_are_seen() {
        for site in [START, START + 7] {
            let around = around(site);
            let ends = (around.start..around.end + 1).filter(|end| {
                end.checked_sub(FILLED_MIN).is_some_and(|first| first > around.start)
            });
            let reached = ends.filter(|end| short(site, end - JUMP_BYTES).is_some()).count();
            assert_eq!(reached, 256, "{site:#x}");
        }
    }
}
