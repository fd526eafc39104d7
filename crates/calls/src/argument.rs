//! The kinds of arguments.

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
    /// The access is not known. The reported range is one byte, and the kernel may also touch an
    /// unknown number of bytes after this byte.
    Unknown,
}

/// The kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A number, or an address whose memory the call does not touch.
    Plain,
    /// A number or an address; the table does not distinguish the two.
    Unknown,
    /// The address of a buffer of this length.
    Buffer(Access, Length),
    /// The address of a string that ends with a NUL, such as a path or a name.
    Text,
    /// The address of a structure that contains further addresses.
    Pointee(Pointee),
    /// A kind that depends on another argument.
    By(&'static Choice),
    /// The last argument of `ioctl`, which depends on the request (the second argument).
    Ioctl,
}

/// The kind of an argument that depends on another argument.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// The index of the argument on which the kind depends.
    pub argument: u8,
    /// The bits of that argument that are compared.
    pub mask: usize,
    /// Values of that argument, with the resulting kinds.
    pub cases: &'static [(usize, Argument)],
    /// The kind for any other value.
    pub other: Argument,
}

/// The structures that contain further addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointee {
    /// An array of `iovec`s, whose number is in an argument, and the buffers to which they point.
    Iovecs(Access, Count),
    /// A `msghdr`: the name, the `iovec`s with their buffers, and the control data.
    Message(Access),
    /// An array of `mmsghdr`s, whose number is in an argument.
    Messages(Access, Count),
    /// An array of addresses of strings that ends with a null pointer, such as `argv`.
    Texts,
    /// The address and the size of a signal set, for `pselect6`.
    Sigset,
    /// An `io_uring_getevents_arg`, and the signal set and the time to which it points.
    Getevents,
    /// A `stack_t`, and the stack that it describes.
    Stack,
    /// A `sigevent`, and, for SIGEV_THREAD, the 32 bytes to which it points.
    Sigevent,
    /// A `clone_args`, whose size is in an argument.
    CloneArgs(Count),
    /// An array of addresses of `iocb`s, whose number is in an argument, and the memory to which
    /// the `iocb`s point.
    Iocbs(Count),
    /// An array of `futex_waitv`s with this total length, and the words to which they point.
    Waiters(Length),
    /// An `xattr_args`, and the value to which it points.
    XattrArgs(Access),
    /// A `sock_fprog`, and the filter's instructions to which it points.
    Filter,
    /// A single `iovec` of `ptrace`, which the kernel updates, and its buffer.
    Regset(Access),
    /// A structure with this length, each of whose words may be an address.
    Words(Access, Length),
}

/// The bits of a register that the kernel reads if the argument is an `int`.
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

/// Returns the argument kind of an address that points to `count` items of `bytes` bytes each.
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

/// Returns the kind of an address whose length is stored in memory to which another argument
/// points.
pub(crate) const fn from_memory(access: Access, argument: u8) -> Argument {
    Argument::Buffer(access, Length::FromMemory(argument))
}
