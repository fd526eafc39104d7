//! Calls for communication between processes: queues, semaphores, futexes, keys.

use crate::count::Count::{Int, Long};
use crate::count::Length;
use crate::named_row::NamedRow;
use crate::options;
use crate::row::Access::{Read, Write};
use crate::row::Argument::{Buffer, Form, Plain, Text};
use crate::row::Form::{Iovecs, Sigevent, Waiters};
use crate::row::{both, input, inputs, output, outputs};
use crate::sizes::{FUTEX_WAITV, INT, MQ_ATTR, SEMBUF, TIME, WORD};

/// A System V message: a word that holds its type, and a number of bytes that the third argument
/// holds.
const MESSAGE: Length = Length::Items { count: Long(2), bytes: 1, more: WORD };

pub(super) const ROWS: &[NamedRow] = &[
    row!(SYS_msgget),
    row!(SYS_msgsnd, Plain, Buffer(Read, MESSAGE)),
    row!(SYS_msgrcv, Plain, Buffer(Write, MESSAGE)),
    row!(SYS_msgctl, Plain, Plain, options::MSGCTL),
    row!(SYS_semget),
    row!(SYS_semop, Plain, inputs(Int(2), SEMBUF)),
    row!(SYS_semtimedop, Plain, inputs(Int(2), SEMBUF), Plain, input(TIME)),
    row!(SYS_semctl, Plain, Plain, Plain, options::SEMCTL),
    row!(SYS_shmctl, Plain, Plain, options::SHMCTL),
    row!(SYS_mq_open, Text, Plain, Plain, input(MQ_ATTR)),
    row!(SYS_mq_unlink, Text),
    row!(SYS_mq_timedsend, Plain, inputs(Long(2), 1), Plain, Plain, input(TIME)),
    row!(SYS_mq_timedreceive, Plain, outputs(Long(2), 1), Plain, output(INT), input(TIME)),
    row!(SYS_mq_notify, Plain, Form(Sigevent)),
    row!(SYS_mq_getsetattr, Plain, input(MQ_ATTR), output(MQ_ATTR)),
    row!(SYS_futex, both(4), Plain, Plain, options::FUTEX_TIME, options::FUTEX_SECOND),
    row!(
        SYS_futex_waitv,
        Form(Waiters(Length::Items { count: Int(1), bytes: FUTEX_WAITV, more: 0 })),
        Plain,
        Plain,
        input(TIME)
    ),
    row!(SYS_futex_wake, input(4)),
    row!(SYS_futex_wait, input(4), Plain, Plain, Plain, input(TIME)),
    row!(SYS_futex_requeue, Form(Waiters(Length::Bytes(2 * FUTEX_WAITV)))),
    // The other process may be the calling process itself.
    row!(
        SYS_process_vm_readv,
        Plain,
        Form(Iovecs(Write, Long(2))),
        Plain,
        Form(Iovecs(Read, Long(4)))
    ),
    row!(
        SYS_process_vm_writev,
        Plain,
        Form(Iovecs(Read, Long(2))),
        Plain,
        Form(Iovecs(Write, Long(4)))
    ),
    row!(SYS_add_key, Text, Text, inputs(Long(3), 1)),
    row!(SYS_request_key, Text, Text, Text),
    row!(
        SYS_keyctl,
        Plain,
        options::KEYCTL_1,
        options::KEYCTL_2,
        options::KEYCTL_3,
        options::KEYCTL_4
    ),
    row!(SYS_pidfd_getfd),
    row!(SYS_kcmp),
];
