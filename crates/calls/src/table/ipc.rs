//! Rows of calls for communication between processes: queues, semaphores, futexes, keys.

use crate::argument::Access::{Read, Write};
use crate::argument::Argument::{Buffer, Plain, Pointee, Text};
use crate::argument::Pointee::{Iovecs, Sigevent, Waiters};
use crate::argument::{both, input, inputs, output, outputs};
use crate::count::Count::{Int, Long};
use crate::count::Length;
use crate::named::{ENDED, NamedSpec};
use crate::options;
use crate::sizes::{FUTEX_WAITV, INT, MQ_ATTR, SEMBUF, TIME, WORD};
use crate::spec::Wait;
use crate::when::When::{Always, Null};
use libc::{FUTEX_CMD_MASK, FUTEX_WAIT, FUTEX_WAIT_BITSET};

/// A System V message: a word with the message type, then the bytes of the text. The third argument
/// is the number of these bytes.
const MESSAGE: Length = Length::Items { count: Long(2), bytes: 1, more: WORD };

/// Only these `futex` operations fail with EINTR. The kernel restarts operations that lock a futex.
/// The timeout of FUTEX_WAIT_BITSET is an absolute time.
const FUTEX: Wait = Wait {
    is_interrupted: by_value!(1, FUTEX_CMD_MASK; FUTEX_WAIT | FUTEX_WAIT_BITSET => Always),
    repeats: by_value!(1, FUTEX_CMD_MASK; FUTEX_WAIT => Null(3), FUTEX_WAIT_BITSET => Always),
    restarts: Null(3),
};

pub(super) const ROWS: &[NamedSpec] = &[
    row!(SYS_msgget),
    row!(SYS_msgsnd, Plain, Buffer(Read, MESSAGE)),
    row!(SYS_msgrcv, Plain, Buffer(Write, MESSAGE); waits(ENDED)),
    row!(SYS_msgctl, Plain, Plain, options::MSGCTL),
    row!(SYS_semget),
    row!(SYS_semop, Plain, inputs(Int(2), SEMBUF); waits(ENDED)),
    row!(SYS_semtimedop, Plain, inputs(Int(2), SEMBUF), Plain, input(TIME); waits(ENDED)),
    row!(SYS_semctl, Plain, Plain, Plain, options::SEMCTL),
    row!(SYS_shmctl, Plain, Plain, options::SHMCTL),
    row!(SYS_mq_open, Text, Plain, Plain, input(MQ_ATTR)),
    row!(SYS_mq_unlink, Text),
    row!(SYS_mq_timedsend, Plain, inputs(Long(2), 1), Plain, Plain, input(TIME)),
    row!(SYS_mq_timedreceive, Plain, outputs(Long(2), 1), Plain, output(INT), input(TIME)),
    row!(SYS_mq_notify, Plain, Pointee(Sigevent)),
    row!(SYS_mq_getsetattr, Plain, input(MQ_ATTR), output(MQ_ATTR)),
    row!(SYS_futex, both(4), Plain, Plain, options::FUTEX_TIME, options::FUTEX_SECOND;
        waits(FUTEX), needed),
    row!(SYS_futex_waitv,
        Pointee(Waiters(Length::Items { count: Int(1), bytes: FUTEX_WAITV, more: 0 })), Plain,
        Plain, input(TIME); waits(Wait { restarts: Null(3), ..ENDED })),
    row!(SYS_futex_wake, input(4)),
    row!(SYS_futex_wait, input(4), Plain, Plain, Plain, input(TIME)),
    row!(SYS_futex_requeue, Pointee(Waiters(Length::Bytes(2 * FUTEX_WAITV)))),
    // The process whose memory is read or written may be the calling process itself.
    row!(SYS_process_vm_readv, Plain, Pointee(Iovecs(Write, Long(2))), Plain,
        Pointee(Iovecs(Read, Long(4))); optional),
    row!(SYS_process_vm_writev, Plain, Pointee(Iovecs(Read, Long(2))), Plain,
        Pointee(Iovecs(Write, Long(4))); optional),
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
