//! The signal that the kernel sends to a helper's parent when the helper ends. If the parent has
//! executed a program since the helper began, the signal is SIGCHLD, whatever exit signal the
//! helper has.
//!
//! ```text
//!   info: signal, errno | code | process ID of the child ...
//! ```

use crate::system::{MASK_BYTES, system};

const SET: u64 = 1 << (libc::SIGCHLD - 1);
/// A `siginfo_t` as words.
type Info = [u64; 16];

/// If the program starts with SIGCHLD blocked, removes the pending SIGCHLD that the end of `helper`
/// caused. A pending SIGCHLD of another child stays pending.
pub(crate) fn remove(helper: i32) {
    let mut blocked = 0_u64;
    let at = (&raw mut blocked).addr();
    let asked = system(libc::SYS_rt_sigprocmask, [0, 0, at, MASK_BYTES, 0, 0]);
    if asked.is_err() || blocked & SET == 0 {
        return;
    }
    let (set, time, mut info) = (SET, [0_u64; 2], Info::default());
    let [set, time] = [(&raw const set).addr(), time.as_ptr().addr()];
    let taken = [set, info.as_mut_ptr().addr(), time, MASK_BYTES, 0, 0];
    if system(libc::SYS_rt_sigtimedwait, taken).is_err() {
        return;
    }
    // The kernel keeps at most one pending SIGCHLD, so it may have dropped a later SIGCHLD of
    // another child.
    if child(&info) == helper && !is_of_another_child(&mut info) {
        return;
    }
    let own = system(libc::SYS_getpid, [0; 6]).unwrap_or(0);
    let again = [own, libc::SIGCHLD as usize, info.as_ptr().addr(), 0, 0, 0];
    let _queued = system(libc::SYS_rt_sigqueueinfo, again);
}

/// Returns true if a child has ended, stopped or continued, and no wait has reported this yet. If
/// so, writes the child's state to `info`.
fn is_of_another_child(info: &mut Info) -> bool {
    *info = Info::default();
    let what = libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED | libc::WNOHANG | libc::WNOWAIT;
    let args = [libc::P_ALL as usize, 0, info.as_mut_ptr().addr(), what as usize, 0, 0];
    system(libc::SYS_waitid, args).is_ok() && child(info) != 0
}

fn child(info: &Info) -> i32 {
    info[2] as i32
}
