//! Forks are held still from when the program is loaded. One test, in a process of its own, which
//! asks for nothing before.
#![allow(unsafe_code)]

#[test]
fn a_fork_is_noticed_though_no_one_asked() {
    // SAFETY: the child does nothing but look at a number, and ends; `status` is this function's.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            libc::_exit(i32::from(page::fork::generation() != 1));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0, "handlers were not asked for at load");
    }
    assert_eq!(page::fork::generation(), 0);
}
