//! A traced process: its registers, its memory, and the system calls that it issues for its tracer.
//!
//! # Safety
//! The kernel checks addresses in the traced process. Every address in this process that is passed
//! to the kernel belongs to a live value.
#![allow(unsafe_code)]

use crate::system::{Errno, MASK_BYTES, system, wait};
use std::ffi::c_uint;
use std::ops::RangeInclusive;

/// The code segment selector of 64-bit programs.
pub(crate) const CODE_64: u64 = 0x33;
/// The internal results of an interrupted system call after which the kernel restarts the call.
const BEGUN_AGAIN: RangeInclusive<isize> = -516..=-512;
/// PTRACE_O_TRACESYSGOOD: the kernel sets this bit in the signal number when a process stops at a
/// system call.
const AT_CALL: i32 = 0x80;

pub(crate) type Registers = libc::user_regs_struct;

/// A traced process that is stopped.
#[derive(Debug)]
pub(crate) struct Tracee {
    pub(crate) process: i32,
    /// The address of a `syscall` instruction.
    pub(crate) call_at: u64,
}

/// A change of a process's state, as reported by `wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The process has ended.
    Ended,
    /// The process has executed a program.
    Executed,
    /// The process is about to enter or to leave a system call.
    Call,
    /// This signal has stopped the process and its group. `wait` reports such a stop again, with
    /// SIGTRAP, when SIGCONT continues the process.
    Group(i32),
    /// The kernel is about to deliver this signal to the process.
    Signal(i32),
}

impl Stop {
    pub(crate) fn of(status: i32) -> Self {
        if !libc::WIFSTOPPED(status) {
            return Stop::Ended;
        }
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            libc::PTRACE_EVENT_EXEC => Stop::Executed,
            libc::PTRACE_EVENT_STOP => Stop::Group(signal),
            _ if signal == libc::SIGTRAP | AT_CALL => Stop::Call,
            _ => Stop::Signal(signal),
        }
    }

    /// Returns the `ptrace` request, and its data, after which the process behaves as if it were
    /// not traced. `goes_on` is the request that lets the process run.
    pub(crate) fn passed_on(self, goes_on: c_uint) -> (c_uint, usize) {
        match self {
            Stop::Signal(signal) => (goes_on, signal as usize),
            Stop::Group(libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) => {
                (libc::PTRACE_LISTEN, 0)
            }
            Stop::Group(_) | Stop::Call | Stop::Executed | Stop::Ended => (goes_on, 0),
        }
    }
}

pub(crate) fn trace(
    request: c_uint,
    process: i32,
    address: usize,
    data: usize,
) -> Result<usize, Errno> {
    system(libc::SYS_ptrace, [request as usize, process as usize, address, data, 0, 0])
}

impl Tracee {
    pub(crate) fn new(process: i32) -> Self {
        Tracee { process, call_at: 0 }
    }

    fn ask(&self, request: c_uint, address: usize, data: usize) -> Result<usize, Errno> {
        trace(request, self.process, address, data)
    }

    pub(crate) fn registers(&self) -> Result<Registers, Errno> {
        // SAFETY: all fields of the structure are integers.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        self.ask(libc::PTRACE_GETREGS, 0, (&raw mut registers).addr())?;
        Ok(registers)
    }

    pub(crate) fn set_registers(&self, registers: &Registers) -> Result<(), Errno> {
        self.ask(libc::PTRACE_SETREGS, 0, (&raw const *registers).addr()).map(drop)
    }

    /// Returns the signal mask of the process.
    pub(crate) fn mask(&self) -> Result<u64, Errno> {
        let mut mask = 0_u64;
        self.ask(libc::PTRACE_GETSIGMASK, MASK_BYTES, (&raw mut mask).addr())?;
        Ok(mask)
    }

    pub(crate) fn set_mask(&self, mask: u64) -> Result<(), Errno> {
        self.ask(libc::PTRACE_SETSIGMASK, MASK_BYTES, (&raw const mask).addr()).map(drop)
    }

    /// Reads words of the process's memory into `into`. Returns the number of bytes read.
    pub(crate) fn read(&self, address: usize, into: &mut [u64]) -> Result<usize, Errno> {
        let bytes = size_of_val(into);
        self.transfer(libc::SYS_process_vm_readv, into.as_mut_ptr().addr(), address, bytes)
    }

    pub(crate) fn write(&self, address: usize, from: &[u8]) -> Result<(), Errno> {
        let bytes = from.len();
        let number = libc::SYS_process_vm_writev;
        let written = self.transfer(number, from.as_ptr().addr(), address, bytes)?;
        if written == bytes { Ok(()) } else { Err(libc::EFAULT) }
    }

    fn transfer(&self, number: i64, own: usize, its: usize, bytes: usize) -> Result<usize, Errno> {
        let (own, its) = ([own, bytes], [its, bytes]);
        let parts = [own.as_ptr().addr(), 1, its.as_ptr().addr(), 1];
        system(number, [self.process as usize, parts[0], parts[1], parts[2], parts[3], 0])
    }

    /// Continues the process until it enters or leaves a system call. The caller has blocked all
    /// signals of the process, so until then only a stop of the process group can occur. After such
    /// a stop, SIGCONT continues the process.
    pub(crate) fn go_to_call(&self) -> Result<(), Errno> {
        let mut next = (libc::PTRACE_SYSCALL, 0);
        loop {
            self.ask(next.0, 0, next.1)?;
            let stop = Stop::of(wait(self.process)?.1);
            next = match stop {
                Stop::Call => return Ok(()),
                Stop::Ended => return Err(libc::ESRCH),
                _ => stop.passed_on(libc::PTRACE_SYSCALL),
            };
        }
    }

    /// Makes the process issue a system call. The process must have just left another system call.
    /// Returns the result of the new call.
    ///
    /// # Errors
    /// Fails with the error of the system call.
    pub(crate) fn call(&self, number: i64, args: [usize; 6]) -> Result<usize, Errno> {
        let mut registers = self.registers()?;
        registers.rip = self.call_at;
        registers.rax = number as u64;
        registers.orig_rax = u64::MAX;
        let [a, b, c, d, e, f] = args.map(|arg| arg as u64);
        (registers.rdi, registers.rsi, registers.rdx) = (a, b, c);
        (registers.r10, registers.r8, registers.r9) = (d, e, f);
        self.set_registers(&registers)?;
        loop {
            self.go_to_call()?;
            self.go_to_call()?;
            let result = self.registers()?.rax as isize;
            if !BEGUN_AGAIN.contains(&result) {
                let is_error = (-4095..0).contains(&result);
                return if is_error { Err(-result as Errno) } else { Ok(result as usize) };
            }
        }
    }

    /// Detaches from the process, and lets it continue.
    pub(crate) fn detach(&self) -> Result<(), Errno> {
        self.ask(libc::PTRACE_DETACH, 0, 0).map(drop)
    }
}
