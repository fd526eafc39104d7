//! Walks structures that contain further addresses. A structure is reported, then read, and then
//! the memory to which it points is reported.

use super::reports::{Walk, at};
use crate::argument::{Access, Pointee};
use crate::count::Length;
use crate::limits::{IOVECS_MAX, PAGE, SET_TID_MAX, TEXT_MAX, TRANSFER_MAX, WAITERS_MAX};
use crate::policy::{IOCBS_MAX, WORDS_MAX};
use crate::sizes::{
    COOKIE, FUTEX_WAITV, INT, IOCB, IOVEC, MMSGHDR, MSGHDR, SIGEVENT, SIGSET, SOCK_FILTER,
    SOCKADDR, STACK, TIME, WORD, clone_at, iocb_at, msghdr_at,
};

const SIGEV_THREAD: usize = libc::SIGEV_THREAD as usize;

/// Reports the structure at `address`, and the memory to which it points.
pub(super) fn follow(walk: &mut Walk<'_>, form: Pointee, address: usize) {
    let arguments = walk.arguments;
    // If the walk can't read a structure, the kernel can't follow addresses in it either.
    _ = match form {
        Pointee::Iovecs(access, count) => iovecs(walk, address, count.of(arguments), access),
        Pointee::Message(access) => message(walk, address, access),
        Pointee::Messages(access, count) => messages(walk, address, count.of(arguments), access),
        Pointee::Texts => texts(walk, address),
        Pointee::Sigset => sigset(walk, address),
        Pointee::Getevents => getevents(walk, address),
        Pointee::Stack => stack(walk, address),
        Pointee::Sigevent => sigevent(walk, address),
        Pointee::CloneArgs(count) => clone_args(walk, address, count.of(arguments)),
        Pointee::Iocbs(count) => iocbs(walk, address, count.of(arguments)),
        Pointee::Waiters(length) => waiters(walk, address, length),
        Pointee::XattrArgs(access) => xattr_args(walk, address, access),
        Pointee::Filter => filter(walk, address),
        Pointee::Regset(access) => regset(walk, address, access),
        Pointee::Words(access, length) => words(walk, address, length, access),
    };
}

fn iovecs(walk: &mut Walk<'_>, address: usize, count: usize, access: Access) -> Option<()> {
    if count > IOVECS_MAX {
        return None;
    }
    walk.report(address, count.checked_mul(IOVEC)?, Access::Read)?;
    (0..count).try_for_each(|nth| walk.pair(address, nth.checked_mul(IOVEC)?, access))
}

fn message(walk: &mut Walk<'_>, address: usize, access: Access) -> Option<()> {
    // When the kernel receives a message, it writes lengths and flags to the structure.
    let own = if access == Access::Read { Access::Read } else { Access::Both };
    walk.report(address, MSGHDR, own)?;
    let name = walk.word(address, msghdr_at::NAME)?;
    walk.report(name, walk.int(address, msghdr_at::NAME_LEN)?.min(SOCKADDR), access);
    walk.pair(address, msghdr_at::CONTROL, access)?;
    let (vector, count) =
        (walk.word(address, msghdr_at::IOV)?, walk.word(address, msghdr_at::IOV_LEN)?);
    iovecs(walk, vector, count, access)
}

fn messages(walk: &mut Walk<'_>, address: usize, count: usize, access: Access) -> Option<()> {
    for nth in 0..count.min(IOVECS_MAX) {
        let place = at(address, nth.checked_mul(MMSGHDR)?).filter(|_| address != 0)?;
        walk.report(at(place, MSGHDR)?, INT, Access::Write)?;
        _ = message(walk, place, access);
    }
    Some(())
}

fn texts(walk: &mut Walk<'_>, address: usize) -> Option<()> {
    let mut entry = address;
    loop {
        walk.report(entry, WORD, Access::Read)?;
        let text = walk.word(entry, 0).filter(|text| *text != 0)?;
        walk.text(text, TEXT_MAX);
        entry = at(entry, WORD)?;
    }
}

fn sigset(walk: &mut Walk<'_>, address: usize) -> Option<()> {
    walk.report(address, 2 * WORD, Access::Read)?;
    let set = walk.word(address, 0)?;
    walk.report(set, SIGSET, Access::Read);
    Some(())
}

fn getevents(walk: &mut Walk<'_>, address: usize) -> Option<()> {
    walk.report(address, 3 * WORD, Access::Read)?;
    let (set, time) = (walk.word(address, 0)?, walk.word(address, 2 * WORD)?);
    walk.report(set, SIGSET, Access::Read);
    walk.report(time, TIME, Access::Read);
    Some(())
}

fn stack(walk: &mut Walk<'_>, address: usize) -> Option<()> {
    walk.report(address, STACK, Access::Read)?;
    let (start, bytes) = (walk.word(address, 0)?, walk.word(address, 2 * WORD)?);
    walk.report(start, bytes.min(TRANSFER_MAX), Access::Both);
    Some(())
}

fn sigevent(walk: &mut Walk<'_>, address: usize) -> Option<()> {
    walk.report(address, SIGEVENT, Access::Read)?;
    if walk.int(address, WORD + INT)? == SIGEV_THREAD {
        let cookie = walk.word(address, 0)?;
        walk.report(cookie, COOKIE, Access::Read);
    }
    Some(())
}

fn clone_args(walk: &mut Walk<'_>, address: usize, bytes: usize) -> Option<()> {
    // The kernel refuses a structure that ends before SET_TID or is larger than a page.
    if bytes < clone_at::SET_TID {
        return None;
    }
    walk.report(address, bytes.min(PAGE), Access::Read)?;
    for offset in [clone_at::PIDFD, clone_at::CHILD_TID, clone_at::PARENT_TID] {
        let place = walk.word(address, offset)?;
        walk.report(place, INT, Access::Write);
    }
    // Programs built for an older kernel pass a structure without these fields.
    if bytes < clone_at::SET_TID_SIZE + WORD {
        return None;
    }
    let (numbers, count) =
        (walk.word(address, clone_at::SET_TID)?, walk.word(address, clone_at::SET_TID_SIZE)?);
    walk.report(numbers, count.min(SET_TID_MAX).checked_mul(INT)?, Access::Read);
    Some(())
}

fn iocbs(walk: &mut Walk<'_>, address: usize, count: usize) -> Option<()> {
    let count = count.min(IOCBS_MAX);
    walk.report(address, count.checked_mul(WORD)?, Access::Read)?;
    for nth in 0..count {
        let block = walk.word(address, nth.checked_mul(WORD)?)?;
        // The kernel also writes to the `iocb` when it accepts the request.
        _ = walk.report(block, IOCB, Access::Both).and_then(|()| iocb(walk, block));
    }
    Some(())
}

fn iocb(walk: &mut Walk<'_>, block: usize) -> Option<()> {
    let operation = walk.memory.read_u16(at(block, iocb_at::OPCODE)?)?;
    let buffer = walk.word(block, iocb_at::BUF)?;
    match operation {
        0 => walk.pair(block, iocb_at::BUF, Access::Write),
        1 => walk.pair(block, iocb_at::BUF, Access::Read),
        7 => iovecs(walk, buffer, walk.word(block, iocb_at::NBYTES)?, Access::Write),
        8 => iovecs(walk, buffer, walk.word(block, iocb_at::NBYTES)?, Access::Read),
        _ => None,
    }
}

fn waiters(walk: &mut Walk<'_>, address: usize, length: Length) -> Option<()> {
    let bytes = walk.length(length, address).min(WAITERS_MAX * FUTEX_WAITV);
    walk.report(address, bytes, Access::Read)?;
    for offset in (0..bytes).step_by(FUTEX_WAITV) {
        let word = walk.word(address, offset.checked_add(WORD)?)?;
        walk.report(word, 4, Access::Read);
    }
    Some(())
}

fn xattr_args(walk: &mut Walk<'_>, address: usize, access: Access) -> Option<()> {
    walk.report(address, 2 * WORD, Access::Read)?;
    let value = walk.word(address, 0)?;
    walk.report(value, walk.int(address, WORD)?.min(TRANSFER_MAX), access);
    Some(())
}

fn filter(walk: &mut Walk<'_>, address: usize) -> Option<()> {
    walk.report(address, 2 * WORD, Access::Read)?;
    let count = usize::from(walk.memory.read_u16(address)?).min(libc::BPF_MAXINSNS as usize);
    let start = walk.word(address, WORD)?;
    walk.report(start, count.checked_mul(SOCK_FILTER)?, Access::Read);
    Some(())
}

fn regset(walk: &mut Walk<'_>, address: usize, access: Access) -> Option<()> {
    walk.report(address, IOVEC, Access::Both)?;
    walk.pair(address, 0, access)
}

fn words(walk: &mut Walk<'_>, address: usize, length: Length, access: Access) -> Option<()> {
    let bytes = walk.length(length, address);
    walk.report(address, bytes, access)?;
    for nth in 0..(bytes / WORD).min(WORDS_MAX) {
        let value = walk.word(address, nth.checked_mul(WORD)?)?;
        walk.unknown(value);
    }
    Some(())
}
