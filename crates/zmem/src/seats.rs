//! Seats: a stack and a buffer for each of some threads that fault at once.
//!
//! ```text
//!   | PROT_NONE | stack: STACK_BYTES, used from its end down | buffer | PROT_NONE | stack ...
//! ```
//! # Safety
//! A [`Seat`] is taken by clearing its bit of `free`, and set again when it is dropped; so its
//! stack and its buffer are used by one thread at a time.
#![allow(unsafe_code)]

use crate::memory::Managed;
use crate::sync::{AtomicU32, Ordering, wait, wake};
use rustix::io::Errno;
use std::ops::{Deref, DerefMut};

/// Room for what a fault calls, in a build without optimisation too; what is not used is not
/// touched.
const STACK_BYTES: usize = 256 << 10;
/// Bits of `free`.
pub(crate) const SEATS_MAX: usize = 32;

/// All seats of a region.
#[derive(Debug)]
pub(crate) struct Seats {
    memory: Managed,
    buffer_bytes: usize,
    count: usize,
    /// A bit for each seat that nobody has.
    free: AtomicU32,
}

/// A seat that the caller has.
#[derive(Debug)]
pub(crate) struct Seat<'s> {
    seats: &'s Seats,
    nth: usize,
}

impl Seats {
    /// So many, with buffers of `buffer_bytes`, which are whole pages.
    pub(crate) fn new(count: usize, buffer_bytes: usize) -> Result<Self, Errno> {
        assert!((1..=SEATS_MAX).contains(&count));
        let page = page::page_size();
        let each = page + STACK_BYTES + buffer_bytes;
        let memory = Managed::map(count * each, page)?;
        for nth in 0..count {
            memory.open(nth * each + page..(nth + 1) * each)?;
        }
        let free = AtomicU32::new(u32::MAX >> (SEATS_MAX - count));
        Ok(Seats { memory, buffer_bytes, count, free })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Bytes of buffers, and of what is usually touched of stacks.
    pub(crate) fn bytes(&self) -> usize {
        self.count * (self.buffer_bytes + 4 * page::page_size())
    }

    /// Takes a seat, as soon as there is one.
    pub(crate) fn take(&self) -> Seat<'_> {
        loop {
            let seen = self.free.load(Ordering::Relaxed);
            if seen == 0 {
                wait(&self.free, 0);
                continue;
            }
            let nth = seen.trailing_zeros();
            let rest = seen & !(1 << nth);
            let taken =
                self.free.compare_exchange_weak(seen, rest, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return Seat { seats: self, nth: nth as usize };
            }
        }
    }

    fn each(&self) -> usize {
        page::page_size() + STACK_BYTES + self.buffer_bytes
    }
}

impl Seat<'_> {
    fn buffer(&self) -> *mut u8 {
        let at = (self.nth + 1) * self.seats.each() - self.seats.buffer_bytes;
        // SAFETY: within the mapping, which has `count` times `each()` bytes.
        unsafe { self.seats.memory.start().add(at) }.as_ptr()
    }

    /// Calls `work` on the seat's stack; the rest of the seat comes along.
    pub(crate) fn with_stack(mut self, mut work: impl FnMut(&mut Seat<'_>)) {
        let top = self.buffer();
        let mut call = || work(&mut self);
        extern "C" fn run<F: FnMut()>(call: *mut F) {
            // SAFETY: `with_stack` waits for the call, and lends it.
            unsafe { (*call)() }
        }
        fn address_of<F: FnMut()>(_: &F) -> usize {
            run::<F> as extern "C" fn(*mut F) as usize
        }
        let function = address_of(&call);
        // SAFETY: the stack ends at `top`, on a page, and is this thread's; `run` takes a pointer
        // to just this type. It does not unwind: a function with the C convention aborts instead.
        unsafe { call_on(top, function, (&raw mut call).cast()) }
    }
}

/// Calls `function(argument)` on the stack that ends at `top`.
///
/// # Safety
/// `top` is the end of a stack that is long enough and nobody uses; `function` is an `extern "C"`
/// function that takes such a pointer.
pub(crate) unsafe fn call_on(top: *mut u8, function: usize, argument: *mut u8) {
    let top = (top.addr() & !15) as *mut u8;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `r12` is kept by whoever is called; all else that may change is told.
    unsafe {
        std::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {function}",
            "mov rsp, r12",
            top = in(reg) top,
            function = in(reg) function,
            in("rdi") argument,
            out("r12") _,
            clobber_abi("C"),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above, of `x20`.
    unsafe {
        std::arch::asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {function}",
            "mov sp, x20",
            top = in(reg) top,
            function = in(reg) function,
            in("x0") argument,
            out("x20") _,
            clobber_abi("C"),
        );
    }
}

impl Deref for Seat<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as in `deref_mut`.
        unsafe { std::slice::from_raw_parts(self.buffer(), self.seats.buffer_bytes) }
    }
}

impl DerefMut for Seat<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `Seats::new` had the bytes be readable and writable; they are zeros or what was
        // written, and this seat's alone.
        unsafe { std::slice::from_raw_parts_mut(self.buffer(), self.seats.buffer_bytes) }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if self.seats.free.fetch_or(1 << self.nth, Ordering::Release) == 0 {
            wake(&self.seats.free);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_on_the_seats_stack() {
        let seats = Seats::new(3, 1 << 16).unwrap();
        let taken = [seats.take(), seats.take(), seats.take()];
        assert_eq!(seats.free.load(Ordering::Relaxed), 0);
        for seat in taken {
            let end = seat.buffer().addr();
            let mut at = 0;
            seat.with_stack(|seat| {
                let here = 0u8;
                at = (&raw const here).addr();
                seat.fill(7);
            });
            assert!((end - STACK_BYTES..end).contains(&at));
        }
        assert_eq!(seats.free.load(Ordering::Relaxed), 7);
        assert!(seats.take().iter().all(|&byte| byte == 7));
    }
}
