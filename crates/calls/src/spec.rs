//! The columns of the table of system calls.

use crate::argument::{Argument, INT};
use crate::when::When;

/// The effects of a call that a pager must handle, other than the call's memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// The call has no effect other than its memory accesses.
    Nothing,
    /// The call changes mappings, their protection, or which of their pages are resident.
    AddressSpace,
    /// The call creates a process or a thread, or executes a program.
    Process,
    /// The call changes or uses signal masks, signal actions or signal stacks.
    Signals,
    /// The call installs a filter of system calls. The filter may refuse system calls that the
    /// pager issues.
    Filter,
    /// A pager must not let this call reach the kernel. The call disables a facility that the pager
    /// needs, or makes the kernel touch memory to which no call refers.
    Forbidden,
    /// The effect depends on an argument of type `int`.
    By {
        /// The index of the argument.
        argument: u8,
        /// Values of the argument, each with the resulting effect. For any other value, the effect
        /// is `Nothing`.
        cases: &'static [(usize, Special)],
    },
}

/// The effect of a signal on a call that can block for a long time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Whether a signal can end the call with EINTR before the call has had an effect. A call that
    /// was ended this way can be issued again. If the call has a relative timeout and the kernel
    /// does not write the remaining time (as in `poll`), the new call waits for the full timeout.
    pub is_interrupted: When,
    /// Whether the total waiting time stays the same if the call is issued again with the same
    /// arguments.
    pub repeats: When,
    /// Whether the kernel restarts the call after a handler with SA_RESTART.
    pub restarts: When,
}

/// Identifies the arguments of a call that hold a signal mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalMask {
    /// The index of the argument that holds the address of the mask.
    pub argument: u8,
    /// The index of the argument that holds the size of the mask in bytes.
    pub bytes: u8,
    /// Whether that argument is instead the address of a structure that holds the mask's address
    /// and size.
    pub is_behind: bool,
    /// Whether the mask applies while the call waits. If false, the mask is a set of signals that
    /// the call accepts.
    pub is_temporary: bool,
}

/// How a pager can issue a program's call without a SIGSYS of syscall user dispatch, if all memory
/// that the call accesses is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SimpleClass {
    /// The call is always dispatched by a SIGSYS.
    No = 0,
    /// The call is issued without a SIGSYS. If the call fails with EFAULT, it has had no effect.
    Direct = 1,
    /// The call is issued like `Direct`. The second argument of the call is the address of a
    /// buffer, and the third argument is the buffer's size.
    Buffer = 2,
    /// The call is issued like `Buffer` if its last two arguments are null and its fourth argument
    /// lacks MSG_ZEROCOPY.
    Receive = 3,
    /// The call is issued if its first argument is not a descriptor that a pager keeps open.
    Close = 4,
    /// The call is issued if the path in its first argument does not begin with `/p`.
    Path = 5,
    /// The call is issued if the path in its second argument does not begin with `/p`.
    PathAt = 6,
    /// The call is issued like `Close` if its second argument is a command from 1 to 4: `F_GETFD`,
    /// `F_SETFD`, `F_GETFL` or `F_SETFL`.
    Status = 7,
}

/// Whether a pager issues a call for its own work: in the program's process, on the pager's own
/// thread, or when `uzram-host` executes a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The pager does not issue the call, or issues it only with arguments that the runtime lists
    /// in its module `needs`.
    No,
    /// The pager issues the call, and has an alternative if the call fails.
    Optional,
    /// The pager issues the call, and the call must not fail.
    Needed,
}

/// A row of the table, which describes the memory accesses of a system call and its other effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyscallSpec {
    /// The number of the call on this architecture.
    pub number: usize,
    /// The kinds of the arguments.
    pub arguments: [Argument; 6],
    /// Whether the kernel may touch the call's memory after the call returns. The table does not
    /// describe the event that ends this access.
    pub kept_after_return: When,
    /// The effects of the call other than its memory accesses.
    pub special: Special,
    /// The effect of a signal on the call. The value is `Some` only for a call that can block for a
    /// long time and that accesses only memory described by the row. The value is `None` if the
    /// call uses memory that the kernel knows from earlier calls (`ioctl` on a virtual machine) or
    /// that the call addresses by an offset.
    pub wait: Option<Wait>,
    /// Whether the call returns without a wait that a signal could interrupt. If the value is
    /// wrongly false, the call only takes more time.
    pub is_brief: bool,
    /// The arguments that hold a signal mask, or `None` if the call has no signal mask.
    pub signal_mask: Option<SignalMask>,
    /// Whether the call changes mappings at the address in its first argument. A call that changes
    /// mappings fails for sealed memory.
    pub changes_mappings: When,
    /// Whether the call accesses only the range in its first two arguments, and no other memory.
    pub is_of_range: bool,
    /// Whether a pager's own thread must end before the call. If this is true, the call fails in a
    /// process with several threads, ends or stops all threads, or changes a property that new
    /// threads inherit from the calling thread.
    pub ends_own_thread: When,
    /// How a pager can issue the call without a SIGSYS.
    pub simple: SimpleClass,
    /// Whether a pager issues the call for its own work.
    pub need: Need,
}

impl SyscallSpec {
    /// Returns the effects of a call with these arguments, other than its memory accesses. The
    /// result is never [`Special::By`].
    pub fn special(&self, arguments: &[usize; 6]) -> Special {
        let Special::By { argument, cases } = self.special else { return self.special };
        let value = arguments.get(usize::from(argument)).copied().unwrap_or(0) & INT;
        let case = cases.iter().find(|(of, _)| *of == value);
        case.map_or(Special::Nothing, |(_, special)| *special)
    }
}
