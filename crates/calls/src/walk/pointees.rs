//! Structures that contain further addresses. Each structure is first reported and then read; then
//! the memory to which it points is reported.

use super::{PAGE, TRANSFER_MAX, Walk};
use crate::argument::{Access, Pointee};
use crate::count::Length;
use crate::sizes::{
    FUTEX_WAITV, INT, IOCB, IOVEC, MMSGHDR, MSGHDR, SIGEVENT, SIGSET, SOCKADDR, STACK, TIME, WORD,
    clone_at, iocb_at, msghdr_at,
};

/// The maximum number of `iovec`s and messages of a call. The kernel refuses a larger number.
const IOVECS_MAX: usize = 1024;
/// The maximum number of `iocb`s that the walk follows.
const IOCBS_MAX: usize = 1 << 16;
/// The maximum number of waiters of `futex_waitv`.
const WAITERS_MAX: usize = 128;
/// The maximum length in bytes of a string for `execve`, with its NUL.
const TEXT_MAX: usize = 1 << 17;
/// The maximum number of words of a structure that are examined.
const WORDS_MAX: usize = 512;
/// The size of the first version of `clone_args`. The kernel refuses smaller sizes, and sizes above
/// the page size.
const CLONE_ARGS_LEAST: usize = 64;
/// The maximum number of nested PID namespaces, for each of which a process ID can be set.
const SET_TID_MAX: usize = 32;
/// The maximum number of instructions of a filter, and the size of an instruction in bytes.
const FILTER_MAX: usize = 4096;
const INSTRUCTION: usize = 8;
/// The size in bytes of the cookie to which a message queue's SIGEV_THREAD `sigevent` points.
const COOKIE: usize = 32;
const SIGEV_THREAD: usize = libc::SIGEV_THREAD as usize;

impl Walk<'_> {
    /// Reports the structure at `address`, and the memory to which it points.
    pub(super) fn pointee(&mut self, form: Pointee, address: usize) {
        let arguments = self.arguments;
        // If a structure can't be read, the kernel can't access further memory through it.
        _ = match form {
            Pointee::Iovecs(access, count) => self.iovecs(address, count.of(arguments), access),
            Pointee::Message(access) => self.message(address, access),
            Pointee::Messages(access, count) => self.messages(address, count.of(arguments), access),
            Pointee::Texts => self.texts(address),
            Pointee::Sigset => self.sigset(address),
            Pointee::Getevents => self.getevents(address),
            Pointee::Stack => self.stack(address),
            Pointee::Sigevent => self.sigevent(address),
            Pointee::CloneArgs(count) => self.clone_args(address, count.of(arguments)),
            Pointee::Iocbs(count) => self.iocbs(address, count.of(arguments)),
            Pointee::Waiters(length) => self.waiters(address, length),
            Pointee::XattrArgs(access) => self.xattr_args(address, access),
            Pointee::Filter => self.filter(address),
            Pointee::Regset(access) => self.regset(address, access),
            Pointee::Words(access, length) => self.words(address, length, access),
            Pointee::Ioctl => self.ioctl(address),
        };
    }

    /// Reports a buffer whose address is the word at `address + offset`, followed by its length.
    fn pair(&mut self, address: usize, offset: usize, access: Access) -> Option<()> {
        let start = self.word(address, offset)?;
        let bytes = self.word(address, offset.checked_add(WORD)?)?;
        self.report(start, bytes.min(TRANSFER_MAX), access);
        Some(())
    }

    fn iovecs(&mut self, address: usize, count: usize, access: Access) -> Option<()> {
        if count > IOVECS_MAX || !self.report(address, count.checked_mul(IOVEC)?, Access::Read) {
            return None;
        }
        (0..count).try_for_each(|nth| self.pair(address, nth.checked_mul(IOVEC)?, access))
    }

    fn message(&mut self, address: usize, access: Access) -> Option<()> {
        // When the kernel receives a message, it writes lengths and flags to the structure.
        let own = if access == Access::Read { Access::Read } else { Access::Both };
        if !self.report(address, MSGHDR, own) {
            return None;
        }
        let name = self.word(address, msghdr_at::NAME)?;
        self.report(name, self.int(address, msghdr_at::NAME_LEN)?.min(SOCKADDR), access);
        self.pair(address, msghdr_at::CONTROL, access)?;
        let (vector, count) =
            (self.word(address, msghdr_at::IOV)?, self.word(address, msghdr_at::IOV_LEN)?);
        self.iovecs(vector, count, access)
    }

    fn messages(&mut self, address: usize, count: usize, access: Access) -> Option<()> {
        for nth in 0..count.min(IOVECS_MAX) {
            let message = Self::at(address, nth.checked_mul(MMSGHDR)?)?;
            if address == 0 || !self.report(Self::at(message, MSGHDR)?, INT, Access::Write) {
                return None;
            }
            _ = self.message(message, access);
        }
        Some(())
    }

    fn texts(&mut self, address: usize) -> Option<()> {
        let mut at = address;
        while self.report(at, WORD, Access::Read) {
            let text = self.word(at, 0).filter(|text| *text != 0)?;
            self.text(text, TEXT_MAX);
            at = Self::at(at, WORD)?;
        }
        Some(())
    }

    fn sigset(&mut self, address: usize) -> Option<()> {
        if !self.report(address, 2 * WORD, Access::Read) {
            return None;
        }
        let set = self.word(address, 0)?;
        self.report(set, SIGSET, Access::Read);
        Some(())
    }

    fn getevents(&mut self, address: usize) -> Option<()> {
        if !self.report(address, 3 * WORD, Access::Read) {
            return None;
        }
        let (set, time) = (self.word(address, 0)?, self.word(address, 2 * WORD)?);
        self.report(set, SIGSET, Access::Read);
        self.report(time, TIME, Access::Read);
        Some(())
    }

    fn stack(&mut self, address: usize) -> Option<()> {
        if !self.report(address, STACK, Access::Read) {
            return None;
        }
        let (start, bytes) = (self.word(address, 0)?, self.word(address, 2 * WORD)?);
        self.report(start, bytes.min(TRANSFER_MAX), Access::Both);
        Some(())
    }

    fn sigevent(&mut self, address: usize) -> Option<()> {
        if !self.report(address, SIGEVENT, Access::Read) {
            return None;
        }
        if self.int(address, WORD + INT)? == SIGEV_THREAD {
            let cookie = self.word(address, 0)?;
            self.report(cookie, COOKIE, Access::Read);
        }
        Some(())
    }

    fn clone_args(&mut self, address: usize, bytes: usize) -> Option<()> {
        if bytes < CLONE_ARGS_LEAST || !self.report(address, bytes.min(PAGE), Access::Read) {
            return None;
        }
        for offset in [clone_at::PIDFD, clone_at::CHILD_TID, clone_at::PARENT_TID] {
            let place = self.word(address, offset)?;
            self.report(place, INT, Access::Write);
        }
        // In an older program, the structure ends before these fields.
        if bytes < clone_at::SET_TID_SIZE + WORD {
            return None;
        }
        let (numbers, count) =
            (self.word(address, clone_at::SET_TID)?, self.word(address, clone_at::SET_TID_SIZE)?);
        self.report(numbers, count.min(SET_TID_MAX).checked_mul(INT)?, Access::Read);
        Some(())
    }

    fn iocbs(&mut self, address: usize, count: usize) -> Option<()> {
        let count = count.min(IOCBS_MAX);
        if !self.report(address, count.checked_mul(WORD)?, Access::Read) {
            return None;
        }
        for nth in 0..count {
            let block = self.word(address, nth.checked_mul(WORD)?)?;
            // The kernel also writes to the `iocb` when it accepts the request.
            if self.report(block, IOCB, Access::Both) {
                _ = self.iocb(block);
            }
        }
        Some(())
    }

    fn iocb(&mut self, block: usize) -> Option<()> {
        let operation = self.memory.read_u16(Self::at(block, iocb_at::OPCODE)?)?;
        let buffer = self.word(block, iocb_at::BUF)?;
        match operation {
            0 => self.pair(block, iocb_at::BUF, Access::Write),
            1 => self.pair(block, iocb_at::BUF, Access::Read),
            7 => self.iovecs(buffer, self.word(block, iocb_at::NBYTES)?, Access::Write),
            8 => self.iovecs(buffer, self.word(block, iocb_at::NBYTES)?, Access::Read),
            _ => None,
        }
    }

    fn waiters(&mut self, address: usize, length: Length) -> Option<()> {
        let bytes = self.length(length, address).min(WAITERS_MAX * FUTEX_WAITV);
        if !self.report(address, bytes, Access::Read) {
            return None;
        }
        for offset in (0..bytes).step_by(FUTEX_WAITV) {
            let word = self.word(address, offset.checked_add(WORD)?)?;
            self.report(word, 4, Access::Read);
        }
        Some(())
    }

    fn xattr_args(&mut self, address: usize, access: Access) -> Option<()> {
        if !self.report(address, 2 * WORD, Access::Read) {
            return None;
        }
        let value = self.word(address, 0)?;
        self.report(value, self.int(address, WORD)?.min(TRANSFER_MAX), access);
        Some(())
    }

    fn filter(&mut self, address: usize) -> Option<()> {
        if !self.report(address, 2 * WORD, Access::Read) {
            return None;
        }
        let count = usize::from(self.memory.read_u16(address)?).min(FILTER_MAX);
        let start = self.word(address, WORD)?;
        self.report(start, count.checked_mul(INSTRUCTION)?, Access::Read);
        Some(())
    }

    fn regset(&mut self, address: usize, access: Access) -> Option<()> {
        if !self.report(address, IOVEC, Access::Both) {
            return None;
        }
        self.pair(address, 0, access)
    }

    fn words(&mut self, address: usize, length: Length, access: Access) -> Option<()> {
        let bytes = self.length(length, address);
        if !self.report(address, bytes, access) {
            return None;
        }
        for nth in 0..(bytes / WORD).min(WORDS_MAX) {
            let value = self.word(address, nth.checked_mul(WORD)?)?;
            self.unknown(value);
        }
        Some(())
    }
}
