//! PID namespaces.

use crate::policy::LINK_BYTES;
use crate::system::system;
use std::ffi::CStr;

/// Links to two PID namespaces: that of this thread, and that of its next child.
const LINKS: [&CStr; 2] = [c"/proc/thread-self/ns/pid", c"/proc/thread-self/ns/pid_for_children"];

/// Returns whether the next child of this thread gets the thread's own PID namespace. In a new
/// namespace, a helper would be process 1, and the end of the helper would end the namespace.
pub(crate) fn has_own_children() -> bool {
    let link = |path: &CStr| {
        let mut link = [0_u8; LINK_BYTES];
        let args = [path.as_ptr().addr(), link.as_mut_ptr().addr(), LINK_BYTES, 0, 0, 0];
        system(libc::SYS_readlink, args).map(|bytes| (link, bytes))
    };
    let [own, of_children] = LINKS.map(link);
    own.is_ok() && own == of_children
}
