//! Which thread answers the faults of a region with a userfaultfd. It changes in a child.

/// The answerer of a region's faults in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    Threads,
    /// The faulting thread, by SIGBUS.
    Toucher,
    /// None is needed: a child that may not have a userfaultfd keeps all blocks resident.
    Nothing,
    /// None is possible: the child does not have the region.
    LeftOut,
}

pub(super) const ANSWERS: [Answers; 4] =
    [Answers::Threads, Answers::Toucher, Answers::Nothing, Answers::LeftOut];

impl Answers {
    /// Returns a description of the answerer, and what it means for system calls. `are_moved` is
    /// whether pages can be moved. See [`Backend::describe`](super::Backend::describe).
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
