//! The protection of ELF segments.

use object::elf::{PF_R, PF_W, PF_X};

/// Converts the flags of a segment (PF_R ...) to the protection of its mapping (PROT_READ ...).
pub fn protection(flags: u32) -> i32 {
    let all = [(PF_R, libc::PROT_READ), (PF_W, libc::PROT_WRITE), (PF_X, libc::PROT_EXEC)];
    all.iter().filter(|(flag, _)| flags & flag.0 != 0).fold(0, |prot, (_, one)| prot | one)
}
