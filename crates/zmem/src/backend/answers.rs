//! The threads that handle the faults of a region with a userfaultfd. In a child of fork, the
//! faults may be handled by other threads than in the parent.

/// The handler of a region's faults in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    Threads,
    /// The faulting thread, in a handler of SIGBUS.
    Toucher,
    /// No thread, because there are no faults: a child that could not open a userfaultfd keeps all
    /// blocks resident.
    Nothing,
    /// No thread, because the child does not have the region.
    LeftOut,
}

pub(super) const ANSWERS: [Answers; 4] =
    [Answers::Threads, Answers::Toucher, Answers::Nothing, Answers::LeftOut];

impl Answers {
    /// Returns a description of the handler, and of the effect of absent memory on system calls.
    /// `are_moved` is true if the kernel can move pages. See
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
