//! Work in a child after fork.
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Forks; the child does `work` and ends with 0, or with 1 if that panics or takes a minute.
pub fn in_child(work: impl FnOnce()) {
    // SAFETY: the child calls nothing that a lost thread could have left locked but what is tested,
    // and the C library's allocator, which takes care of itself. It never returns.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "fork failed");
        if child == 0 {
            libc::alarm(60);
            let worked = catch_unwind(AssertUnwindSafe(work)).is_ok();
            libc::_exit(i32::from(!worked));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0, "the child failed");
    }
}
