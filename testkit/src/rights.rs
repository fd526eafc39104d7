//! Restricts a process as a container restricts an unprivileged process. The process then runs as
//! user nobody. Its seccomp filter follows Docker's default allow-list.
//!
//! # Safety
//! The calls change only this process, and a filter does not move while it is passed to the kernel.
#![allow(unsafe_code)]

use std::ptr;

pub const NOBODY: u32 = 65_534;

/// The system calls that the allow-list refuses to a process without capabilities, on every CPU
/// architecture.
const REFUSED: [i64; 51] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_get_mempolicy,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mbind,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_vhangup,
];

/// Further calls that the allow-list refuses on this CPU architecture.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: [i64; 13] = [
    libc::SYS__sysctl,
    libc::SYS_afs_syscall,
    libc::SYS_getpmsg,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_putpmsg,
    libc::SYS_security,
    libc::SYS_sysfs,
    libc::SYS_tuxcall,
    libc::SYS_uselib,
    libc::SYS_userfaultfd,
    libc::SYS_ustat,
    libc::SYS_vserver,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: [i64; 1] = [libc::SYS_userfaultfd];

/// The number of the last call in the allow-list (`mseal`). Calls with larger numbers fail with
/// ENOSYS.
const LAST: u32 = 462;
/// The flags with which `clone` creates namespaces. The filter refuses them.
const NAMESPACES: u32 = 0x7e02_0000;
/// The offsets of a call's number and of the lower half of its first argument in a filter's data.
const NUMBER: u32 = 0;
const FIRST: u32 = 16;

/// Makes this process run as nobody, with a filter that refuses the calls `more` and all calls that
/// a container refuses.
pub fn give_up(more: &[i64]) {
    // SAFETY: the calls change only this process, and the filter does not move during the calls.
    unsafe {
        if libc::getuid() == 0 {
            assert_eq!(libc::setgroups(0, ptr::null()), 0);
            assert_eq!(libc::setgid(NOBODY), 0);
            assert_eq!(libc::setuid(NOBODY), 0);
            // Lets the process read its own memory, as a newly started program is allowed to.
            assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
        }
        let mut filter = filter(more);
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
        assert_eq!(libc::syscall(libc::SYS_userfaultfd, 1), -1);
    }
}

/// Returns the statements of the filter.
fn filter(more: &[i64]) -> Vec<libc::sock_filter> {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let jump = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let statement = |code: u32, k: u32| jump(code, k, 0, 0);
    let refuse = |error: i32| statement(RETURN, libc::SECCOMP_RET_ERRNO | error as u32);
    let mut filter = vec![statement(LOAD, NUMBER)];
    // The C library then creates threads by `clone`, whose flags the filter can check.
    filter.extend([jump(EQUAL, libc::SYS_clone3 as u32, 0, 1), refuse(libc::ENOSYS)]);
    let above = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
    filter.extend([jump(above, LAST, 0, 1), refuse(libc::ENOSYS)]);
    for call in REFUSED.iter().chain(&REFUSED_HERE).chain(more) {
        filter.extend([jump(EQUAL, *call as u32, 0, 1), refuse(libc::EPERM)]);
    }
    filter.extend([
        jump(EQUAL, libc::SYS_clone as u32, 0, 3),
        statement(LOAD, FIRST),
        jump(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, NAMESPACES, 0, 1),
        refuse(libc::EPERM),
        statement(RETURN, libc::SECCOMP_RET_ALLOW),
    ]);
    filter
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::in_child;
    use std::fs;
    use std::io::Error;

    #[test]
    fn what_a_container_refuses_is_refused_and_threads_begin() {
        in_child(|| {
            give_up(&[libc::SYS_ptrace]);
            let refused = |call: i64, argument: usize| {
                // SAFETY: none of these calls accesses memory with these arguments.
                assert_eq!(unsafe { libc::syscall(call, argument, 0, 0, 0, 0) }, -1);
                Error::last_os_error().raw_os_error()
            };
            for call in [libc::SYS_userfaultfd, libc::SYS_mbind, libc::SYS_ptrace] {
                assert_eq!(refused(call, 0), Some(libc::EPERM), "{call}");
            }
            assert_eq!(refused(libc::SYS_clone, libc::CLONE_NEWUSER as usize), Some(libc::EPERM));
            assert_eq!(refused(libc::SYS_clone3, 0), Some(libc::ENOSYS));
            assert_eq!(refused(5000, 0), Some(libc::ENOSYS));
            assert_eq!(std::thread::spawn(|| 5).join().unwrap(), 5);
            // SAFETY: `getuid` has no requirements.
            assert!(unsafe { libc::getuid() } != 0 && fs::read("/proc/self/maps").is_ok());
        });
    }
}
