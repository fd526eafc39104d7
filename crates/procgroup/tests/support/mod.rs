//! A group for a test's process and its children.

use procgroup::{GroupMember, GroupSnapshot, ProcessGroup};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use testkit::arena::install;
use zmem::{Arena, Options, Use};

pub const MIB: usize = 1 << 20;

/// Returns a group for this process and its children.
pub fn group() -> ProcessGroup {
    type Words = [AtomicU64; GroupSnapshot::BYTES / 8];
    let (prot, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses the address, and the mapping is never removed. Zeros are valid
    // values of the words.
    let words: &'static Words = unsafe {
        let at = libc::mmap(null_mut(), size_of::<Words>(), prot, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        &*at.cast()
    };
    ProcessGroup::of(words, 1).unwrap()
}

/// Returns an arena of `bytes` bytes, whose blocks are all managed, and this process's membership
/// in `group`, which shares the limit of the arena.
pub fn arena(bytes: usize, options: &Options, group: ProcessGroup) -> (Arena, Arc<GroupMember>) {
    install();
    let member = Arc::new(GroupMember::new(group));
    let arena = Arena::with_room(0, bytes, 0, options, Some(Arc::<GroupMember>::clone(&member)));
    let arena = arena.unwrap();
    // SAFETY: no code uses the arena yet.
    unsafe { arena.set_use(arena.addresses(), Use::Managed).unwrap() };
    (arena, member)
}
