//! The kinds of arguments of system calls: numbers, addresses of buffers, addresses of structures.

use crate::count::{Count, Length};

/// The kernel's access to a range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The kernel reads the range.
    Read,
    /// The kernel writes the range.
    Write,
    /// The kernel reads the range, writes it, or both.
    Both,
    /// The access is not known. [`ranges`](crate::ranges) reports one byte, but the kernel can also
    /// touch the bytes after it.
    Unknown,
}

/// The kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A number, or an address whose memory the call does not touch.
    Plain,
    /// A number or an address: the table does not record which of the two the argument is.
    Unknown,
    /// The address of a buffer, with the kernel's access to the buffer and its length.
    Buffer(Access, Length),
    /// The address of a string that ends with a NUL, such as a path or a name.
    Text,
    /// The address of a structure that contains further addresses.
    Pointee(Pointee),
    /// The kind of this argument depends on another argument.
    By(&'static Choice),
    /// The last argument of `ioctl`, whose kind depends on the request in the second argument.
    Ioctl,
}

/// Selects the kind of an argument by the value of another argument.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// The index of the argument on which the kind depends.
    pub argument: u8,
    /// The bits of that argument that are compared with the cases.
    pub mask: usize,
    /// Values of these bits, each with the resulting kind.
    pub cases: &'static [(usize, Argument)],
    /// The kind for all values that `cases` lacks.
    pub other: Argument,
}

/// The structures that contain further addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointee {
    /// An array of `iovec`s, and the buffers to which they point. The [`Count`] is the argument
    /// that holds the number of `iovec`s.
    Iovecs(Access, Count),
    /// A `msghdr`, and the memory to which it points: the name, the `iovec`s with their buffers,
    /// and the control data.
    Message(Access),
    /// An array of `mmsghdr`s. The [`Count`] is the argument that holds the number of `mmsghdr`s.
    Messages(Access, Count),
    /// A null-terminated array of addresses of strings, such as `argv`.
    Texts,
    /// The address and the size of a signal set, for `pselect6`.
    Sigset,
    /// An `io_uring_getevents_arg`, and the signal set and the timeout to which it points.
    Getevents,
    /// A `stack_t`, and the stack that it describes.
    Stack,
    /// A `sigevent`, and with SIGEV_THREAD also the 32 bytes to which the `sigevent` points.
    Sigevent,
    /// A `clone_args`. The [`Count`] is the argument that holds the size of the `clone_args` in
    /// bytes.
    CloneArgs(Count),
    /// An array of addresses of `iocb`s, and the memory to which the `iocb`s point. The [`Count`]
    /// is the argument that holds the number of addresses.
    Iocbs(Count),
    /// An array of `futex_waitv`s, and the futex words to which they point. The [`Length`] is that
    /// of the array.
    Waiters(Length),
    /// An `xattr_args`, and the value to which it points.
    XattrArgs(Access),
    /// A `sock_fprog`, and the filter's instructions to which it points.
    Filter,
    /// The `iovec` that `ptrace` receives, and its buffer. The kernel updates the `iovec`.
    Regset(Access),
    /// A structure of the given length, in which any machine word may be an address.
    Words(Access, Length),
}

/// The bits of a register that the kernel reads for an argument of type `int`.
pub(crate) const INT: usize = 0xffff_ffff;

/// Returns the kind of an address at which the kernel reads `bytes` bytes.
pub(crate) const fn input(bytes: usize) -> Argument {
    Argument::Buffer(Access::Read, Length::Bytes(bytes))
}

/// Returns the kind of an address at which the kernel writes `bytes` bytes.
pub(crate) const fn output(bytes: usize) -> Argument {
    Argument::Buffer(Access::Write, Length::Bytes(bytes))
}

/// Returns the kind of an address at which the kernel reads and writes `bytes` bytes.
pub(crate) const fn both(bytes: usize) -> Argument {
    Argument::Buffer(Access::Both, Length::Bytes(bytes))
}

/// Returns the kind of an address that points to `count` items of `bytes` bytes each.
pub(crate) const fn items(access: Access, count: Count, bytes: usize) -> Argument {
    Argument::Buffer(access, Length::Items { count, bytes, more: 0 })
}

/// Returns the kind of an address at which the kernel reads `count` items of `bytes` bytes each.
pub(crate) const fn inputs(count: Count, bytes: usize) -> Argument {
    items(Access::Read, count, bytes)
}

/// Returns the kind of an address at which the kernel writes `count` items of `bytes` bytes each.
pub(crate) const fn outputs(count: Count, bytes: usize) -> Argument {
    items(Access::Write, count, bytes)
}

/// Returns the kind of an address at which the kernel reads and writes `count` items of `bytes`
/// bytes each.
pub(crate) const fn boths(count: Count, bytes: usize) -> Argument {
    items(Access::Both, count, bytes)
}

/// Returns the kind of the address of a bit mask with `count` minus `less` bits.
pub(crate) const fn mask(access: Access, count: Count, less: usize) -> Argument {
    Argument::Buffer(access, Length::Bits { count, less })
}

/// Returns the kind of the address of a buffer whose length is stored at the address in the
/// argument with the index `argument`.
pub(crate) const fn from_memory(access: Access, argument: u8) -> Argument {
    Argument::Buffer(access, Length::FromMemory(argument))
}
