//! Which mappings the arena can have.

use crate::pieces::Kind;
use crate::windows::DATA;
use libc::{PROT_EXEC, PROT_NONE};

/// Stacks of threads, locked memory, huge pages and low addresses are left to the kernel.
pub(super) const NOT_OURS: i32 =
    libc::MAP_STACK | libc::MAP_GROWSDOWN | libc::MAP_LOCKED | libc::MAP_HUGETLB | libc::MAP_32BIT;

fn is_private_anonymous(flags: i32) -> bool {
    flags & libc::MAP_ANONYMOUS != 0
        && flags & libc::MAP_TYPE == libc::MAP_PRIVATE
        && flags & NOT_OURS == 0
}

/// Returns what a mapping is that the arena may have, by protection and flags. Managed memory has
/// the protection `data` there.
pub(super) fn kind_of(prot: i32, flags: i32, data: Option<i32>) -> Option<Kind> {
    match prot {
        _ if !is_private_anonymous(flags) => None,
        PROT_NONE => Some(Kind::Reserved),
        prot => (Some(prot) == data).then_some(Kind::Data),
    }
}

/// Returns whether a mapping is of data that are executable.
pub(super) fn is_executable_data(prot: i32, flags: i32) -> bool {
    prot == DATA | PROT_EXEC && is_private_anonymous(flags)
}
