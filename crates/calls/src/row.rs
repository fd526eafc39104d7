//! What the table says of a system call.

use crate::count::{Count, Length};

/// What the kernel does with a range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It reads, writes, or both.
    Both,
    /// Nobody knows. The range is one byte; what follows may be touched too, and how far isn't
    /// known.
    Unknown,
}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A number, or an address whose memory the call leaves alone.
    Plain,
    /// A number or an address: nobody knows.
    Unknown,
    /// The address of so many bytes.
    Buffer(Access, Length),
    /// The address of a string that ends with a NUL: a path, a name.
    Text,
    /// The address of something that has further addresses in it.
    Form(Form),
    /// What it is, another argument says.
    By(&'static Choice),
}

/// An argument that decides what another one is.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which argument decides.
    pub argument: u8,
    /// The bits of it that count.
    pub mask: usize,
    /// Values, and what the other argument is with each.
    pub cases: &'static [(usize, Argument)],
    /// What it is with any other value.
    pub other: Argument,
}

/// Memory that has further addresses in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `iovec`s, so many, and what they name.
    Iovecs(Access, Count),
    /// A `msghdr`: name, `iovec`s and what they name, control data.
    Message(Access),
    /// `mmsghdr`s, so many.
    Messages(Access, Count),
    /// Addresses of strings, up to one of 0: `argv`.
    Texts,
    /// The address of a set of signals, and its size: of `pselect6`.
    Sigset,
    /// `io_uring_getevents_arg`: a set of signals and a time.
    Getevents,
    /// `stack_t`, and the stack.
    Stack,
    /// `sigevent`; where a thread is to be started, with 32 bytes that it names.
    Sigevent,
    /// `clone_args` of so many bytes.
    CloneArgs(Count),
    /// Addresses of `iocb`s, so many, and what those name.
    Iocbs(Count),
    /// `futex_waitv`s, so many, and the words that they name.
    Waiters(Length),
    /// `xattr_args`, and the value.
    XattrArgs(Access),
    /// `sock_fprog`, and its instructions.
    Filter,
    /// One `iovec`, which the kernel updates: of `ptrace`.
    Regset(Access),
    /// A structure of so many bytes. Each of its words may be an address.
    Words(Access, Length),
    /// The last argument of `ioctl`, by the request before it.
    Ioctl,
}

/// Whether the kernel may touch memory of a call after its return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// No.
    No,
    /// Yes, until something that the table doesn't say.
    Yes,
    /// If the argument has one of the bits.
    Bits {
        /// Which argument.
        argument: u8,
        /// The bits.
        bits: usize,
    },
    /// If the argument, an `int`, is one of these.
    Values {
        /// Which argument.
        argument: u8,
        /// Its values.
        values: &'static [usize],
    },
}

/// What else a pager has to know of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Nothing.
    Nothing,
    /// It changes what is mapped, how, or what of it is in memory.
    AddressSpace,
    /// It makes a process or a thread, or begins another program.
    Process,
    /// It has to do with signals' masks, actions or stacks.
    Signals,
    /// It installs a filter of system calls, which may refuse those of a pager's own.
    Filter,
    /// It takes away what a pager stands on, or has the kernel touch memory that no call names:
    /// such a call must not come to the kernel.
    Withheld,
    /// What the argument, an `int`, says; else nothing.
    By {
        /// Which argument.
        argument: u8,
        /// Its values, and what the call is with each.
        cases: &'static [(usize, Special)],
    },
}

/// What the table says of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number on this architecture.
    pub number: usize,
    /// What its arguments are.
    pub arguments: [Argument; 6],
    /// Whether its memory is touched after its return.
    pub lasting: Lasting,
    /// What else there is.
    pub special: Special,
}

impl Row {
    /// Returns whether the kernel may touch memory of this call after its return.
    pub fn outlives(&self, arguments: &[usize; 6]) -> bool {
        let value = |nth: u8| arguments.get(usize::from(nth)).copied().unwrap_or(0);
        match self.lasting {
            Lasting::No => false,
            Lasting::Yes => true,
            Lasting::Bits { argument, bits } => value(argument) & bits != 0,
            Lasting::Values { argument, values } => values.contains(&(value(argument) & INT)),
        }
    }

    /// Returns what else there is to a call with these arguments; never [`Special::By`].
    pub fn special(&self, arguments: &[usize; 6]) -> Special {
        let Special::By { argument, cases } = self.special else { return self.special };
        let value = arguments.get(usize::from(argument)).copied().unwrap_or(0) & INT;
        let case = cases.iter().find(|(of, _)| *of == value);
        case.map_or(Special::Nothing, |(_, special)| *special)
    }
}

/// What the kernel takes of a register for an `int`.
pub(crate) const INT: usize = 0xffff_ffff;

/// The address of so many bytes that are read.
pub(crate) const fn input(bytes: usize) -> Argument {
    Argument::Buffer(Access::Read, Length::Bytes(bytes))
}

/// The address of so many bytes that are written.
pub(crate) const fn output(bytes: usize) -> Argument {
    Argument::Buffer(Access::Write, Length::Bytes(bytes))
}

/// The address of so many bytes that are read and written.
pub(crate) const fn both(bytes: usize) -> Argument {
    Argument::Buffer(Access::Both, Length::Bytes(bytes))
}

/// The address of items that are touched.
pub(crate) const fn items(access: Access, count: Count, bytes: usize) -> Argument {
    Argument::Buffer(access, Length::Items { count, bytes, more: 0 })
}

/// The address of items that are read.
pub(crate) const fn inputs(count: Count, bytes: usize) -> Argument {
    items(Access::Read, count, bytes)
}

/// The address of items that are written.
pub(crate) const fn outputs(count: Count, bytes: usize) -> Argument {
    items(Access::Write, count, bytes)
}

/// The address of items that are read and written.
pub(crate) const fn boths(count: Count, bytes: usize) -> Argument {
    items(Access::Both, count, bytes)
}

/// The address of a mask of bits.
pub(crate) const fn mask(access: Access, count: Count, less: usize) -> Argument {
    Argument::Buffer(access, Length::Bits { count, less })
}

/// The address of what is written; how long it may be, another argument names.
pub(crate) const fn told(access: Access, argument: u8) -> Argument {
    Argument::Buffer(access, Length::Told(argument))
}
