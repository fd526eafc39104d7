//! What answers the faults of a region with a userfaultfd: another in a child.

/// What answers the faults of a region in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    Threads,
    /// The thread that touches, by SIGBUS.
    Toucher,
    /// Nothing need: a child that may not have a userfaultfd has all be resident.
    Nothing,
    /// Nothing can: the region was left to the parent.
    LeftOut,
}

pub(super) const ANSWERS: [Answers; 4] =
    [Answers::Threads, Answers::Toucher, Answers::Nothing, Answers::LeftOut];

impl Answers {
    /// Says so, and what it means for system calls, where pages are moved or can't be: as
    /// [`Backend::describe`](super::Backend::describe).
    pub(super) fn describe(self, are_moved: bool) -> &'static str {
        match (self, are_moved) {
            (Answers::Threads, true) => {
                "userfaultfd: answered by threads, with pages moved: \
                 system calls may touch what is absent"
            }
            (Answers::Threads, false) => {
                "userfaultfd: answered by threads, with write protection: \
                 system calls may touch what is absent"
            }
            (Answers::Toucher, true) => {
                "userfaultfd-sigbus: answered by SIGBUS, with pages moved: \
                 system calls on what is absent fail"
            }
            (Answers::Toucher, false) => {
                "userfaultfd-sigbus: answered by SIGBUS, with write protection: \
                 system calls on what is absent fail"
            }
            (Answers::Nothing, _) => {
                "none: a child that may not have a userfaultfd, where all is resident"
            }
            (Answers::LeftOut, _) => "none: the region was left to the parent",
        }
    }
}
