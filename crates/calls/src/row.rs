//! The rows of the table.

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
    Form(Form),
    /// A kind that depends on another argument.
    By(&'static Choice),
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
pub enum Form {
    /// An array of `iovec`s, whose number is in an argument, and the buffers to which they point.
    Iovecs(Access, Count),
    /// A `msghdr`: the name, the `iovec`s with their buffers, and the control data.
    Message(Access),
    /// An array of `mmsghdr`s, whose number is in an argument.
    Messages(Access, Count),
    /// Addresses of strings, up to a null pointer, such as `argv`.
    Texts,
    /// The address and the size of a signal set, for `pselect6`.
    Sigset,
    /// An `io_uring_getevents_arg`: a signal set and a time.
    Getevents,
    /// A `stack_t`, and the stack.
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
    /// A `sock_fprog`, and its instructions.
    Filter,
    /// One `iovec`, which the kernel updates, for `ptrace`.
    Regset(Access),
    /// A structure with this length, each of whose words may be an address.
    Words(Access, Length),
    /// The last argument of `ioctl`, which depends on the request (the second argument).
    Ioctl,
}

/// Whether the kernel may touch the memory of a call after the call's return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// The kernel does not touch the memory after the return.
    No,
    /// The kernel may touch the memory until an event that the table does not describe.
    Yes,
    /// The kernel may touch the memory if at least one of these bits is set in the argument.
    Bits {
        /// The index of the argument.
        argument: u8,
        /// The bits.
        bits: usize,
    },
    /// The kernel may touch the memory if the argument, an `int`, has one of these values.
    Values {
        /// The index of the argument.
        argument: u8,
        /// The values.
        values: &'static [usize],
    },
}

/// The other effects of a call that matter to a pager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// No other effect.
    Nothing,
    /// The call changes mappings, their protection, or which of their pages are resident.
    AddressSpace,
    /// The call creates a process or a thread, or executes a program.
    Process,
    /// The call concerns the masks, actions or stacks of signals.
    Signals,
    /// The call installs a filter of system calls, which may refuse system calls of the pager.
    Filter,
    /// The call disables a facility that a pager needs, or makes the kernel touch memory to which
    /// no call refers. A pager must not issue such a call.
    Withheld,
    /// The effect depends on the argument, an `int`.
    By {
        /// The index of the argument.
        argument: u8,
        /// Values of the argument, with the resulting effects. Any other value has no effect.
        cases: &'static [(usize, Special)],
    },
}

/// A row of the table: the memory that a system call accesses, and its other effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The number of the call on this architecture.
    pub number: usize,
    /// The kinds of the arguments.
    pub arguments: [Argument; 6],
    /// Whether the kernel may touch the memory after the call's return.
    pub lasting: Lasting,
    /// The other effects of the call.
    pub special: Special,
}

impl Row {
    /// Returns whether the kernel may touch the memory of this call after the call's return.
    pub fn outlives(&self, arguments: &[usize; 6]) -> bool {
        let value = |nth: u8| arguments.get(usize::from(nth)).copied().unwrap_or(0);
        match self.lasting {
            Lasting::No => false,
            Lasting::Yes => true,
            Lasting::Bits { argument, bits } => value(argument) & bits != 0,
            Lasting::Values { argument, values } => values.contains(&(value(argument) & INT)),
        }
    }

    /// Returns the other effects of a call with these arguments. Never returns [`Special::By`].
    pub fn special(&self, arguments: &[usize; 6]) -> Special {
        let Special::By { argument, cases } = self.special else { return self.special };
        let value = arguments.get(usize::from(argument)).copied().unwrap_or(0) & INT;
        let case = cases.iter().find(|(of, _)| *of == value);
        case.map_or(Special::Nothing, |(_, special)| *special)
    }
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

/// Returns the kind of an address of a bit mask.
pub(crate) const fn mask(access: Access, count: Count, less: usize) -> Argument {
    Argument::Buffer(access, Length::Bits { count, less })
}

/// Returns the kind of an address whose length is stored in memory to which another argument
/// points.
pub(crate) const fn told(access: Access, argument: u8) -> Argument {
    Argument::Buffer(access, Length::Told(argument))
}
