//! The commands of System V IPC.

use super::{by_int, of};
use crate::argument::Argument::{self, Plain, Unknown};
use crate::argument::{input, output};
use crate::sizes::{MSGID, MSGINFO, SEMID, SEMINFO, SHM_INFO, SHMID, SHMINFO};

/// The last argument of `semctl`. The number of semaphores in a set is not known.
pub(crate) const SEMCTL: Argument = of(&by_int(
    2,
    &[
        (1, input(SEMID)),
        (2, output(SEMID)),
        (3, output(SEMINFO)),
        (13, Unknown),
        (17, Unknown),
        (18, output(SEMID)),
        (19, output(SEMINFO)),
        (20, output(SEMID)),
    ],
    Plain,
));

/// The last argument of `shmctl`.
pub(crate) const SHMCTL: Argument = of(&by_int(
    1,
    &[
        (1, input(SHMID)),
        (2, output(SHMID)),
        (3, output(SHMINFO)),
        (13, output(SHMID)),
        (14, output(SHM_INFO)),
        (15, output(SHMID)),
    ],
    Plain,
));

/// The last argument of `msgctl`.
pub(crate) const MSGCTL: Argument = of(&by_int(
    1,
    &[
        (1, input(MSGID)),
        (2, output(MSGID)),
        (3, output(MSGINFO)),
        (11, output(MSGID)),
        (12, output(MSGINFO)),
        (13, output(MSGID)),
    ],
    Plain,
));
