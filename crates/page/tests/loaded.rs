//! Tests that the fork handlers are installed when the program is loaded. This test runs in a
//! separate process, which does not call `install`.
#![allow(unsafe_code)]

#[test]
fn a_fork_is_noticed_though_no_one_asked() {
    // SAFETY: the child only reads a number, and exits; `status` is a local variable.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            libc::_exit(i32::from(page::fork::generation() != 1));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0, "the handlers were not installed at load");
    }
    assert_eq!(page::fork::generation(), 0);
}
