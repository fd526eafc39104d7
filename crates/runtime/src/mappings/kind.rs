//! The kinds of mappings that the arena can manage.

use crate::pieces::Kind;
use crate::windows::DATA;
use libc::{PROT_EXEC, PROT_NONE};

/// The flags of mappings that the kernel manages: stacks, locked memory, huge pages and low
/// addresses.
const NOT_OURS: i32 =
    libc::MAP_STACK | libc::MAP_GROWSDOWN | libc::MAP_LOCKED | libc::MAP_HUGETLB | libc::MAP_32BIT;

/// Returns whether a mapping is private and anonymous, and has none of the flags in `NOT_OURS`.
pub(super) fn is_private_anonymous(flags: i32) -> bool {
    flags & libc::MAP_ANONYMOUS != 0
        && flags & libc::MAP_TYPE == libc::MAP_PRIVATE
        && flags & NOT_OURS == 0
}

/// Returns the kind of a mapping with this protection and these flags, or `None` if the arena can't
/// manage the mapping. `data` is the protection that managed memory has at the mapping's address.
pub(super) fn kind_of(prot: i32, flags: i32, data: Option<i32>) -> Option<Kind> {
    match prot {
        _ if !is_private_anonymous(flags) => None,
        PROT_NONE => Some(Kind::Reserved),
        prot => (Some(prot) == data).then_some(Kind::Data),
    }
}

/// Returns whether a mapping is private anonymous memory that is readable, writable and executable.
pub(super) fn is_executable_data(prot: i32, flags: i32) -> bool {
    prot == DATA | PROT_EXEC && is_private_anonymous(flags)
}
