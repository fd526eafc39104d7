//! A group that a test's process and its children share.

use procgroup::{GroupMember, GroupSnapshot, ProcessGroup};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use testkit::arena::install;
use zmem::{Arena, Options, Use};

pub const MIB: usize = 1 << 20;

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

/// Returns an arena of `bytes` bytes and this process's membership in `group`. All blocks of the
/// arena are managed, and the group shares the arena's limit.
pub fn arena(bytes: usize, options: &Options, group: ProcessGroup) -> (Arena, Arc<GroupMember>) {
    install();
    let member = Arc::new(GroupMember::new(group));
    let arena = Arena::with_room(0, bytes, 0, options, Some(Arc::<GroupMember>::clone(&member)));
    let arena = arena.unwrap();
    // SAFETY: no code uses the arena yet.
    unsafe { arena.set_use(arena.addresses(), Use::Managed).unwrap() };
    (arena, member)
}
