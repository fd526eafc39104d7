//! Constants of the kernel's interface, and error numbers as system calls return them.

/// The page size of x86-64 in bytes.
pub(crate) const PAGE: usize = 4096;
/// The size of a word in bytes.
pub(crate) const WORD: usize = size_of::<usize>();
/// The address at two thirds of the address space, where the kernel maps position-independent
/// programs.
pub(crate) const PIE_BASE: usize = 0x5555_5555_4000;
/// The protections that `mprotect` supports, including the flags that extend a change to the
/// boundary of a stack.
pub(crate) const PROT_ALL: usize = 15 | libc::PROT_GROWSDOWN as usize | libc::PROT_GROWSUP as usize;
/// The `madvise` value by which the kernel replaces the pages of a range by huge pages at once
/// (Linux 6.1).
pub(crate) const MADV_COLLAPSE: i32 = 25;
pub(crate) const MADV_GUARD_INSTALL: i32 = 102;
pub(crate) const MADV_GUARD_REMOVE: i32 = 103;
/// The codes of a SIGSEGV at an address without a mapping, and at a protected address.
pub(crate) const SEGV_MAPERR: i32 = 1;
pub(crate) const SEGV_ACCERR: i32 = 2;
/// The maximum number of nodes of a robust list that the kernel reads.
pub(crate) const ROBUST_LIST_LIMIT: usize = 2048;
/// The flags that `seccomp` accepts for a filter (Linux 5.19).
pub(crate) const SECCOMP_FLAGS: usize = 0x3f;
pub(crate) const CAP_SYS_ADMIN: u32 = 21;
/// The capability to raise a hard limit.
pub(crate) const CAP_SYS_RESOURCE: u32 = 24;
pub(crate) const PR_SET_MM_MAP: usize = 14;
/// The descriptor that stands for the working directory.
pub(crate) const CWD: usize = libc::AT_FDCWD as usize;

pub(crate) const EACCES: isize = error(libc::EACCES);
pub(crate) const EBADF: isize = error(libc::EBADF);
pub(crate) const EEXIST: isize = error(libc::EEXIST);
pub(crate) const EFAULT: isize = error(libc::EFAULT);
pub(crate) const EINTR: isize = error(libc::EINTR);
pub(crate) const EINVAL: isize = error(libc::EINVAL);
pub(crate) const ENOENT: isize = error(libc::ENOENT);
pub(crate) const ENOMEM: isize = error(libc::ENOMEM);
pub(crate) const ENOSYS: isize = error(libc::ENOSYS);
pub(crate) const EPERM: isize = error(libc::EPERM);

/// Returns the result of a call that fails with this error number.
const fn error(errno: i32) -> isize {
    -(errno as isize)
}
