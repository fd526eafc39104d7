//! Stubs: the code to which the jump of a site leads.

use crate::x86_64::place;

pub(crate) const STUB_BYTES: usize = 24;

/// Returns the code of a stub whose calls return to `back`.
pub(crate) fn code(back: usize) -> [u8; STUB_BYTES] {
    let mut code = [0; STUB_BYTES];
    // mov rcx, imm64; jmp [rip]
    code[..2].copy_from_slice(&[0x48, 0xb9]);
    code[2..10].copy_from_slice(&back.to_le_bytes());
    code[10..12].copy_from_slice(&[0xff, 0x25]);
    code[16..].copy_from_slice(&place::entry().to_le_bytes());
    code
}
