//! System calls on queues, semaphores, futexes, keys, and the memory of other processes.

use super::trial::{Case, Need, Trial, me, must, raw};
use libc::*;

/// Returns a message queue, which is removed after the call.
fn queue(trial: &mut Trial) -> usize {
    let queue = must(SYS_msgget, &[0, 0o600]);
    trial.after(move || _ = must(SYS_msgctl, &[queue, IPC_RMID as usize, 0]));
    queue
}

fn semaphores(trial: &mut Trial) -> usize {
    let set = must(SYS_semget, &[0, 2, 0o600]);
    trial.after(move || _ = must(SYS_semctl, &[set, 0, IPC_RMID as usize, 0]));
    set
}

fn segment(trial: &mut Trial) -> usize {
    let segment = must(SYS_shmget, &[0, 4096, 0o600]);
    trial.after(move || _ = must(SYS_shmctl, &[segment, IPC_RMID as usize, 0]));
    segment
}

/// Returns a POSIX queue of messages of 8 bytes, without a name, or `None` if the system has no
/// such queues.
fn posix_queue(trial: &mut Trial) -> Option<usize> {
    let name = format!("uzram-calls-{}\0", me());
    let attributes = [0_usize, 1, 8, 0, 0, 0, 0, 0];
    let flags = (O_RDWR | O_CREAT | O_NONBLOCK) as usize;
    let (at, how) = (name.as_ptr() as usize, attributes.as_ptr() as usize);
    let queue = usize::try_from(raw(SYS_mq_open, &[at, flags, 0o600, how])).ok();
    if queue.is_some() {
        must(SYS_mq_unlink, &[at]);
    } else {
        trial.leave_out();
    }
    queue
}

fn with_message(trial: &mut Trial) -> Option<usize> {
    let queue = posix_queue(trial)?;
    must(SYS_mq_timedsend, &[queue, b"12345678".as_ptr() as usize, 8, 0, 0]);
    Some(queue)
}

/// Returns a key of three bytes, in the process's own keyring.
fn key(trial: &mut Trial) -> Option<usize> {
    let (kind, name, value) = (c"user".as_ptr(), c"uzram".as_ptr(), c"abc".as_ptr());
    let answer = raw(SYS_add_key, &[kind as usize, name as usize, value as usize, 3, RING]);
    let key = usize::try_from(answer).ok();
    if key.is_none() {
        trial.leave_out();
    }
    key
}

/// KEY_SPEC_PROCESS_KEYRING.
const RING: usize = -2_isize as usize;
/// FUTEX2_SIZE_U32 and FUTEX2_PRIVATE.
const WORD_FLAGS: usize = 2 | 128;

/// Returns a futex whose value is not 1. A call with an unaligned address of the futex fails.
fn futex(trial: &mut Trial) -> usize {
    trial.room(4, Need::Part)
}

pub const CASES: &[Case] = &[
    ("msgsnd", |t| vec![queue(t), t.input(&[1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]), 3, 0]),
    ("msgrcv", |t| {
        let queue = queue(t);
        let message = [1_usize, 7];
        must(SYS_msgsnd, &[queue, message.as_ptr() as usize, 8, 0]);
        vec![queue, t.output(16), 8, 0, IPC_NOWAIT as usize]
    }),
    ("msgctl IPC_STAT", |t| vec![queue(t), IPC_STAT as usize, t.output(120)]),
    ("msgctl IPC_SET", |t| {
        let queue = queue(t);
        let mut state = [0_u8; 120];
        must(SYS_msgctl, &[queue, IPC_STAT as usize, state.as_mut_ptr() as usize]);
        vec![queue, IPC_SET as usize, t.input(&state)]
    }),
    ("msgctl MSG_INFO", |t| vec![0, 12, t.output(32)]),
    ("semop", |t| vec![semaphores(t), t.input(&[0, 0, 1, 0, 0, 0]), 1]),
    ("semtimedop", |t| vec![semaphores(t), t.input(&[0, 0, 1, 0, 0, 0]), 1, t.zeros(16)]),
    ("semctl IPC_STAT", |t| vec![semaphores(t), 0, IPC_STAT as usize, t.output(104)]),
    ("semctl SEM_INFO", |t| vec![0, 0, 19, t.output(40)]),
    ("semctl GETALL", |t| vec![semaphores(t), 0, 13, t.place(&[0; 4], Need::Unknown)]),
    ("semctl SETALL", |t| vec![semaphores(t), 0, 17, t.place(&[0; 4], Need::Unknown)]),
    ("shmctl IPC_STAT", |t| vec![segment(t), IPC_STAT as usize, t.output(112)]),
    ("shmctl IPC_INFO", |t| vec![0, 3, t.output(72)]),
    ("shmctl SHM_INFO", |t| vec![0, 14, t.output(48)]),
    ("mq_open", |t| {
        let attributes = t.words(&[0, 1, 8, 0, 0, 0, 0, 0]);
        t.after(|| _ = raw(SYS_mq_unlink, &[c"uzram-calls-open".as_ptr() as usize]));
        vec![t.text("uzram-calls-open"), (O_RDWR | O_CREAT) as usize, 0o600, attributes]
    }),
    ("mq_unlink", |t| vec![t.text("uzram no such queue")]),
    ("mq_timedsend", |t| match posix_queue(t) {
        Some(queue) => vec![queue, t.input(b"12345678"), 8, 0, t.zeros(16)],
        None => vec![],
    }),
    ("mq_timedreceive", |t| match with_message(t) {
        Some(queue) => vec![queue, t.output(8), 8, t.output(4), t.zeros(16)],
        None => vec![],
    }),
    ("mq_notify", |t| match posix_queue(t) {
        Some(queue) => {
            let mut event = [0; 16];
            event[3] = SIGEV_NONE;
            vec![queue, t.ints(&event)]
        }
        None => vec![],
    }),
    ("mq_notify thread", |t| {
        let cookie = t.input(&[0; 32]);
        let mut event = [0; 8];
        (event[0], event[1]) = (cookie, (SIGEV_THREAD as usize) << 32 | 0xffff_ffff);
        vec![0, t.words(&event)]
    }),
    ("mq_getsetattr", |t| match posix_queue(t) {
        Some(queue) => vec![queue, t.zeros(64), t.output(64)],
        None => vec![],
    }),
    ("futex FUTEX_WAIT", |t| vec![futex(t), FUTEX_WAIT as usize, 1, t.zeros(16)]),
    ("futex FUTEX_WAIT_BITSET", |t| vec![futex(t), 9 | 128, 1, t.zeros(16), 0, 1]),
    ("futex FUTEX_WAKE", |t| vec![t.room(4, Need::Maybe), 1 | 128, 1, 7]),
    ("futex FUTEX_REQUEUE", |t| {
        vec![t.room(4, Need::Maybe), 3 | 128, 1, 7, t.room(4, Need::Maybe)]
    }),
    ("futex FUTEX_CMP_REQUEUE", |t| vec![futex(t), 4 | 128, 1, 7, t.room(4, Need::Maybe), 1]),
    ("futex FUTEX_WAKE_OP", |t| vec![t.room(4, Need::Maybe), 5 | 128, 1, 7, futex(t), 0]),
    ("futex FUTEX_LOCK_PI", |t| vec![futex(t), 6 | 128, 0, t.zeros(16)]),
    ("futex FUTEX_TRYLOCK_PI", |t| vec![futex(t), 8 | 128, 0, 7]),
    ("futex_waitv", |t| {
        let word = futex(t);
        vec![t.words(&[1, word, WORD_FLAGS]), 1, 0, t.zeros(16), 1]
    }),
    ("futex_wake", |t| vec![t.room(4, Need::Maybe), 1, 1, WORD_FLAGS]),
    ("futex_wait", |t| vec![futex(t), 1, 1, WORD_FLAGS, t.zeros(16), 1]),
    ("futex_requeue", |t| {
        let (from, to) = (futex(t), t.room(4, Need::Maybe));
        vec![t.words(&[1, from, WORD_FLAGS, 0, to, WORD_FLAGS]), 0, 1, 1]
    }),
    ("process_vm_readv", |t| {
        let (target, source) = (t.output(5), t.input(b"hello"));
        let own = t.words(&[target, 5]);
        vec![me(), own, 1, t.words(&[source, 5]), 1, 0]
    }),
    ("process_vm_writev", |t| {
        let (source, target) = (t.input(b"hello"), t.output(5));
        let own = t.words(&[source, 5]);
        vec![me(), own, 1, t.words(&[target, 5]), 1, 0]
    }),
    ("add_key", |t| vec![t.text("user"), t.text("uzram"), t.input(b"abc"), 3, RING]),
    ("request_key", |t| vec![t.text("user"), t.text("uzram no such key"), 0, RING]),
    ("keyctl JOIN_SESSION", |t| vec![1, t.text("uzram")]),
    ("keyctl UPDATE", |t| match key(t) {
        Some(key) => vec![2, key, t.input(b"def"), 3],
        None => vec![],
    }),
    ("keyctl READ", |t| match key(t) {
        Some(key) => vec![11, key, t.output(3), 3],
        None => vec![],
    }),
    ("keyctl DESCRIBE", |t| match key(t) {
        Some(key) => vec![6, key, t.room(200, Need::Part), 200],
        None => vec![],
    }),
    ("keyctl SEARCH", |t| match key(t) {
        Some(_) => vec![10, RING, t.text("user"), t.text("uzram"), 0],
        None => vec![],
    }),
    ("keyctl CAPABILITIES", |t| vec![31, t.output(1), 1]),
];
