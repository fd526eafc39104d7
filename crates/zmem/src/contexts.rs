//! Handler contexts. A context is a stack and a buffer, used by one fault or call at a time.
//!
//! ```text
//!   | PROT_NONE | stack: STACK_BYTES, used from its end down | buffer | PROT_NONE | stack ...
//! ```
//! Calls from outside of handlers hold at most half of the contexts, because such a call may wait
//! for a lock while it holds a context. At least half of the contexts are left for faults.
//!
//! # Safety
//! A thread takes a [`HandlerContext`] by clearing the context's bit in `free`. Dropping the
//! context sets this bit. So only one thread at a time uses the context's stack and buffer.
#![allow(unsafe_code)]

use crate::gate::GATE;
use crate::memory::Managed;
use crate::policy::{CONTEXTS_MAX, MISSING_CONTEXT_TICK, STACK_BYTES};
use crate::sync::{AtomicU32, Ordering, wait, wait_for, wake};
use page::Patience;
use rustix::io::Errno;

#[derive(Debug)]
pub(crate) struct HandlerContexts {
    memory: Managed,
    buffer_bytes: usize,
    pub(crate) count: usize,
    /// A bit for each context, which is set while the context is free.
    free: AtomicU32,
    /// The number of contexts that further calls from outside of handlers can take, and the bit
    /// `AWAITED`.
    calls: AtomicU32,
}

/// A bit of `HandlerContexts::calls`: threads wait until a call ends.
const AWAITED: u32 = 1 << 31;

/// The reason for taking a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Fault,
    Call,
}

/// A context that a thread has taken. Dropping this value frees the context.
#[derive(Debug)]
pub(crate) struct HandlerContext<'s> {
    contexts: &'s HandlerContexts,
    nth: usize,
    purpose: Purpose,
}

impl HandlerContexts {
    /// Creates `count` contexts, each with a buffer of `buffer_bytes` bytes. `buffer_bytes` is a
    /// multiple of the page size.
    pub(crate) fn new(count: usize, buffer_bytes: usize) -> Result<Self, Errno> {
        assert!((2..=CONTEXTS_MAX).contains(&count));
        let page = page::page_size();
        let each = page + STACK_BYTES + buffer_bytes;
        let memory = Managed::map(count * each, page)?;
        for nth in 0..count {
            memory.open(nth * each + page..(nth + 1) * each)?;
        }
        let free = AtomicU32::new(u32::MAX >> (CONTEXTS_MAX - count));
        let calls = AtomicU32::new(count as u32 / 2);
        Ok(HandlerContexts { memory, buffer_bytes, count, free, calls })
    }

    /// Returns the number of bytes that all contexts usually use: buffers, and four pages of each
    /// stack.
    pub(crate) fn bytes(&self) -> usize {
        self.count * (self.buffer_bytes + 4 * page::page_size())
    }

    /// Takes a context. Waits while no context is free.
    pub(crate) fn take(&self, purpose: Purpose) -> HandlerContext<'_> {
        while purpose == Purpose::Call && !self.try_begin_call() {
            wait(&self.calls, AWAITED);
        }
        let mut patience = Patience::new("a context");
        loop {
            let take = |free: u32| free.checked_sub(1).map(|below| free & below);
            if let Ok(free) = self.free.fetch_update(Ordering::Acquire, Ordering::Relaxed, take) {
                let nth = free.trailing_zeros() as usize;
                return HandlerContext { contexts: self, nth, purpose };
            }
            patience.spend();
            // In a child for which no fork handler ran, all contexts may be held by threads that
            // the child lacks (zm-F3).
            if GATE.is_torn() && GATE.is_alone_inside() {
                self.free.store(u32::MAX >> (CONTEXTS_MAX - self.count), Ordering::Relaxed);
            }
            wait_for(&self.free, 0, MISSING_CONTEXT_TICK);
        }
    }

    /// Tries to reserve one more context for a call. Fails while calls hold half of the contexts.
    /// After a failure, the next call that ends wakes the waiting threads.
    fn try_begin_call(&self) -> bool {
        let begin = |left: u32| match left {
            0 => Some(AWAITED),
            AWAITED => None,
            left => Some(left - 1),
        };
        let seen = self.calls.fetch_update(Ordering::Acquire, Ordering::Relaxed, begin);
        seen.is_ok_and(|left| left != 0)
    }

    fn end_call(&self) {
        if self.calls.fetch_add(1, Ordering::Release) & AWAITED != 0 {
            self.calls.fetch_and(!AWAITED, Ordering::Relaxed);
            wake(&self.calls);
        }
    }

    /// Returns the size of a context in bytes, including the inaccessible page before its stack.
    fn each(&self) -> usize {
        page::page_size() + STACK_BYTES + self.buffer_bytes
    }
}

impl HandlerContext<'_> {
    /// Returns the context's buffer, which has space for a batch.
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        // SAFETY: `HandlerContexts::new` mapped the bytes readable and writable. The bytes are
        // initialized, because a new mapping contains zeros, and only this context uses the bytes.
        unsafe { std::slice::from_raw_parts_mut(self.top(), self.contexts.buffer_bytes) }
    }

    /// Returns the address at which the context's stack ends and its buffer begins.
    fn top(&self) -> *mut u8 {
        let at = (self.nth + 1) * self.contexts.each() - self.contexts.buffer_bytes;
        // SAFETY: `at` lies in the mapping, which has `count` times `each()` bytes.
        unsafe { self.contexts.memory.start().add(at) }.as_ptr()
    }

    /// Calls `work` on the context's stack, with the context's buffer.
    pub(crate) fn with_stack(mut self, mut work: impl FnMut(&mut [u8])) {
        let top = self.top();
        let mut call = || work(self.buffer());
        extern "C" fn run<F: FnMut()>(call: *mut F) {
            // SAFETY: `call` points to a closure of `with_stack`, which lives until this function
            // has returned.
            unsafe { (*call)() }
        }
        fn address_of<F: FnMut()>(_: &F) -> usize {
            run::<F> as extern "C" fn(*mut F) as usize
        }
        let function = address_of(&call);
        // SAFETY: the stack ends at `top`, at a page boundary, and only this thread uses it. `run`
        // takes a pointer to the type of `call`, and does not unwind: a function with the C
        // convention aborts instead.
        unsafe { call_on(top, function, (&raw mut call).cast()) }
    }
}

/// Calls `function(argument)` on the stack that ends at `top`.
///
/// # Safety
/// `top` is the end of a stack that is large enough and not in use. `function` is the address of an
/// `extern "C"` function that can safely be called with `argument`.
pub(crate) unsafe fn call_on(top: *mut u8, function: usize, argument: *mut u8) {
    let top = (top.addr() & !15) as *mut u8;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the callee preserves `r12`. All other registers that the call can change are
    // declared.
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
    // SAFETY: the callee preserves `x20`. All other registers that the call can change are
    // declared.
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

impl Drop for HandlerContext<'_> {
    fn drop(&mut self) {
        if self.contexts.free.fetch_or(1 << self.nth, Ordering::Release) == 0 {
            wake(&self.contexts.free);
        }
        if self.purpose == Purpose::Call {
            self.contexts.end_call();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_on_the_seats_stack() {
        let contexts = HandlerContexts::new(3, 1 << 16).unwrap();
        let taken = [
            contexts.take(Purpose::Fault),
            contexts.take(Purpose::Fault),
            contexts.take(Purpose::Fault),
        ];
        assert_eq!(contexts.free.load(Ordering::Relaxed), 0);
        for context in taken {
            let end = context.top().addr();
            let mut at = 0;
            context.with_stack(|buffer| {
                let here = 0u8;
                at = (&raw const here).addr();
                buffer.fill(7);
            });
            assert!((end - STACK_BYTES..end).contains(&at));
        }
        assert_eq!(contexts.free.load(Ordering::Relaxed), 7);
        assert!(contexts.take(Purpose::Fault).buffer().iter().all(|&byte| byte == 7));
    }

    #[test]
    fn calls_leave_half_of_the_seats_to_faults() {
        let contexts = HandlerContexts::new(5, 1 << 16).unwrap();
        let calls = [contexts.take(Purpose::Call), contexts.take(Purpose::Call)];
        let is_third = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let third = contexts.take(Purpose::Call);
                is_third.store(true, Ordering::Relaxed);
                drop(third);
            });
            for _ in 0..100 {
                let faults = [0; 3].map(|_| contexts.take(Purpose::Fault));
                drop(faults);
            }
            assert!(!is_third.load(Ordering::Relaxed));
            drop(calls);
        });
        assert_eq!((contexts.free.load(Ordering::Relaxed), contexts.calls.into_inner()), (31, 2));
    }
}
