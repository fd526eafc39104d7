//! The jump that replaces the instruction of a site, and the stub to which the jump leads.

use crate::x86_64::frame::CALL_BYTES;
use crate::x86_64::place;

/// The instruction that makes a system call.
pub(crate) const SYSCALL: [u8; CALL_BYTES] = [0x0f, 0x05];
/// `hlt`, which faults in a program.
pub(crate) const HALT: u8 = 0xf4;
/// The first byte of a jump. The other bytes are the distance from the jump's end to the stub.
pub(crate) const JUMP: u8 = 0xe9;
pub(crate) const JUMP_BYTES: usize = 5;
pub(crate) const STUB_BYTES: usize = 24;
/// The lowest address that a program is allowed to map by default, and the end of a program's
/// address space.
const LOWEST: usize = 1 << 16;
const HIGHEST: usize = 1 << 47;

/// Returns the stub's address for a site that contains these bytes. Returns `None` if the stub
/// would lie outside of the address space.
pub(crate) fn place(site: usize, [_, distance @ ..]: [u8; JUMP_BYTES]) -> Option<usize> {
    let distance = i32::from_le_bytes(distance) as isize;
    let stub = (site + JUMP_BYTES).checked_add_signed(distance)?;
    is_address(stub).then_some(stub)
}

/// Returns whether a program can have a stub at `address`.
pub(crate) fn is_address(address: usize) -> bool {
    (LOWEST..=HIGHEST - STUB_BYTES).contains(&address)
}

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
