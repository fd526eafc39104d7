//! The kernel's `siginfo_t` of a signal.

/// The codes of SIGSYS for a dispatched call, and for a call that a filter refused.
const SYS_USER_DISPATCH: i32 = 2;
const SYS_SECCOMP: i32 = 1;
/// The architecture number that the kernel reports for calls by the `syscall` instruction.
const ARCH: u32 = 0xc000_003e;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Info {
    pub(crate) signal: i32,
    pub(crate) errno: i32,
    pub(crate) code: i32,
    padding: i32,
    /// In SIGSYS, the address after the instruction that made the call.
    pub(crate) call_address: usize,
    number: i32,
    arch: u32,
    rest: [usize; 12],
}

impl Info {
    pub(crate) const NONE: Info = Info {
        signal: 0,
        errno: 0,
        code: 0,
        padding: 0,
        call_address: 0,
        number: 0,
        arch: 0,
        rest: [0; 12],
    };

    /// Returns the `siginfo_t` of a signal that the kernel itself sends.
    pub(crate) fn of_system(signal: i32) -> Self {
        Info { signal, code: libc::SI_KERNEL, ..Info::NONE }
    }

    /// Returns whether a dispatched call caused the signal.
    pub(crate) fn is_dispatch(&self) -> bool {
        self.signal == libc::SIGSYS && self.code == SYS_USER_DISPATCH
    }

    /// Returns whether a filter caused the signal by refusing a call.
    pub(crate) fn is_of_filter(&self) -> bool {
        self.signal == libc::SIGSYS && self.code == SYS_SECCOMP
    }

    /// Returns true if a memory access of the interrupted instruction caused the signal. If the
    /// instruction were repeated, it would cause the signal again.
    pub(crate) fn is_fault(&self) -> bool {
        matches!(self.signal, libc::SIGSEGV | libc::SIGBUS) && self.code > 0
    }

    /// Returns whether the program made the call by `syscall`, with the numbers of this
    /// architecture.
    pub(crate) fn is_of_this_arch(&self) -> bool {
        self.arch == ARCH
    }
}

const _: () = assert!(size_of::<Info>() == 128);
