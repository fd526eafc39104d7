//! Constants of the kernel's interface, and its errors as results of calls.

/// The page size of x86-64 in bytes.
pub(crate) const PAGE: usize = 4096;
/// The size of a word in bytes.
pub(crate) const WORD: usize = size_of::<usize>();
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
