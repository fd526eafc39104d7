//! The columns of the table.

use crate::argument::{Argument, INT};
use crate::when::When;

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
    Forbidden,
    /// The effect depends on the argument, an `int`.
    By {
        /// The index of the argument.
        argument: u8,
        /// Values of the argument, with the resulting effects. Any other value has no effect.
        cases: &'static [(usize, Special)],
    },
}

/// The effect of a signal on a call that may block for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Whether a signal may end the call with EINTR before the call has had an effect, so that the
    /// call can be issued again. If the call has a relative timeout, and the kernel does not write
    /// the remaining time (`poll`), the call then starts again with the full time.
    pub is_interrupted: When,
    /// Whether a call that is issued again with the same arguments does not wait longer in total.
    pub repeats: When,
    /// Whether the kernel restarts the call after a handler with SA_RESTART.
    pub restarts: When,
}

/// The place of a signal mask among the arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalMask {
    /// The index of the argument for the address of the mask.
    pub argument: u8,
    /// The index of the argument for the size of the mask in bytes.
    pub bytes: u8,
    /// Whether the argument is the address of a structure that holds the mask's address and size.
    pub is_behind: bool,
    /// Whether the mask applies while the call waits. If false, the mask is the set of signals that
    /// the call accepts.
    pub is_temporary: bool,
}

/// How a call can be issued without a signal, if none of its memory can be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SimpleClass {
    /// The call is not simple.
    No = 0,
    /// The call is issued. If the call fails with EFAULT, it has had no effect.
    Direct = 1,
    /// Like `Direct`, but with a buffer: the second argument is its address, and the third its
    /// size.
    Buffer = 2,
    /// Like `Buffer`, if the last two arguments are null and the fourth lacks MSG_ZEROCOPY.
    Receive = 3,
    /// The call is issued unless its first argument is a descriptor that a pager keeps open.
    Close = 4,
    /// The call is issued unless the path in its first argument begins with `/p`.
    Path = 5,
    /// The call is issued unless the path in its second argument begins with `/p`.
    PathAt = 6,
}

/// Whether a call is issued by a pager in the process, by the pager's thread, or by a host when it
/// executes a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The call is not issued, or only with arguments that the runtime lists (`needs`).
    No,
    /// The call may fail, because the pager has an alternative.
    Optional,
    /// The call must not fail.
    Needed,
}

/// A row of the table: the memory that a system call accesses, and its other effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyscallSpec {
    /// The number of the call on this architecture.
    pub number: usize,
    /// The kinds of the arguments.
    pub arguments: [Argument; 6],
    /// Whether the kernel may touch the memory of the call after the call's return, until an event
    /// that the table does not describe.
    pub kept_after_return: When,
    /// The other effects of the call.
    pub special: Special,
    /// The effect of a signal on the call, if the call may block for long and accesses only memory
    /// that the row describes. This excludes memory that the kernel knows from earlier calls
    /// (`ioctl` on a virtual machine) or that a call addresses by an offset.
    pub wait: Option<Wait>,
    /// Whether the call waits for no event that a signal could interrupt. If a row of such a call
    /// lacks this mark, the call only takes more time.
    pub is_brief: bool,
    /// The place of a signal mask among the arguments.
    pub signal_mask: Option<SignalMask>,
    /// Whether the call changes mappings at the address in its first argument. Such calls fail for
    /// sealed memory.
    pub changes_mappings: When,
    /// Whether the call concerns the range of its first two arguments, and no other memory.
    pub is_of_range: bool,
    /// Whether a pager's own thread must end before the call. Such a call is refused in a process
    /// with several threads, ends or stops all threads, or changes a property of one thread that
    /// new threads inherit.
    pub ends_own_thread: When,
    /// How the call can be issued without a signal.
    pub simple: SimpleClass,
    /// Whether a pager in the process issues the call itself.
    pub need: Need,
}

impl SyscallSpec {
    /// Returns the other effects of a call with these arguments. Never returns [`Special::By`].
    pub fn special(&self, arguments: &[usize; 6]) -> Special {
        let Special::By { argument, cases } = self.special else { return self.special };
        let value = arguments.get(usize::from(argument)).copied().unwrap_or(0) & INT;
        let case = cases.iter().find(|(of, _)| *of == value);
        case.map_or(Special::Nothing, |(_, special)| *special)
    }
}
