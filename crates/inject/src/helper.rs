//! The handle of a helper. The process that will execute a program holds this handle.
//!
//! # Safety
//! The helper owns the `Room` until the helper has ended. The plan exists until then, because a
//! `Helper` borrows the plan. After `execve`, only the helper uses the old memory, which contains
//! the plan.
#![allow(unsafe_code)]

use crate::control::{ASKED, Control, DENIED, READY, REFUSED, STARTED, run};
use crate::namespace::has_own_children;
use crate::plan::Plan;
use crate::rights;
use crate::system::{system, wait};
use dispatch::Room;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};

/// The flags of `clone` with which a helper is created.
pub const HELPER_FLAGS: c_int = libc::CLONE_VM
    | libc::CLONE_FILES
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID
    | libc::CLONE_UNTRACED;

/// A helper process. Dropping this value kills the helper.
#[derive(Debug)]
pub struct Helper<'a> {
    control: *mut Control,
    _plan: PhantomData<&'a Plan>,
}

impl<'a> Helper<'a> {
    /// Starts a helper for the next program that this thread executes. If the host can't be mapped
    /// after `execve`, the program runs without a host, and the helper writes a line to standard
    /// error if `is_heard` is true.
    ///
    /// Returns `None` if the helper is not permitted to trace this process, another process already
    /// traces this process, or children of this thread get another PID namespace. Also returns
    /// `None` if an injection would reduce the program's capabilities, or if the kernel would start
    /// the program in secure mode.
    pub fn start(plan: &'a Plan, is_heard: bool) -> Option<Self> {
        if !has_own_children() || !rights::has_own_ids() || rights::are_regained() {
            return None;
        }
        let [thread, parent] = [libc::SYS_gettid, libc::SYS_getpid]
            .map(|number| system(number, [0; 6]).map_or(0, |number| number as i32));
        let mut processor = 0_u32;
        let at = (&raw mut processor).addr();
        let _first = system(libc::SYS_getcpu, [at, 0, 0, 0, 0, 0]);
        let room = Room::map()?;
        // A child that another thread forks does not need the `Room`.
        room.keep_from_children();
        let control = room.data().cast::<Control>();
        let [state, running] = [STARTED, 0].map(AtomicU32::new);
        let number = AtomicI32::new(0);
        // SAFETY: the `Room` is new, and its lowest page is large enough for a `Control`. Only the
        // helper runs in the `Room`, and the helper has its own signal handlers.
        let made = unsafe {
            control.write(Control {
                room,
                plan,
                thread,
                parent,
                is_heard,
                vdso: plan.vdso,
                processor,
                tried: AtomicU64::new(0),
                number,
                state,
                running,
            });
            room.start(HELPER_FLAGS, &raw const (*control).running, run, control.cast())
        };
        if made <= 0 {
            room.unmap();
            return None;
        }
        let helper = Helper { control, _plan: PhantomData };
        helper.control().number.store(made as i32, SeqCst);
        // The exchange fails if the helper has already set REFUSED. The helper can change the state
        // at any time after the exchange.
        let control = helper.control();
        let _refused = control.state.compare_exchange(STARTED, ASKED, SeqCst, SeqCst);
        control.wake();
        helper.is_ready().then_some(helper)
    }

    fn control(&self) -> &Control {
        // SAFETY: the `Room` stays mapped until this value is dropped.
        unsafe { &*self.control }
    }

    /// Waits until the helper is ready, has refused, or has ended. Returns whether the helper
    /// traces this thread.
    fn is_ready(&self) -> bool {
        let control = self.control();
        loop {
            match control.state.load(SeqCst) {
                READY => return true,
                REFUSED => return false,
                DENIED => {
                    // Yama can be set to let only ancestors trace a process, so this process
                    // permits the helper to trace it. Without Yama, this call fails and has no
                    // effect.
                    let helper = control.number.load(SeqCst) as usize;
                    let allow = [libc::PR_SET_PTRACER as usize, helper, 0, 0, 0, 0];
                    let _unknown = system(libc::SYS_prctl, allow);
                    control.set(ASKED);
                }
                state if control.running.load(SeqCst) != 0 => {
                    control.wait_while(state);
                    // A signal to the process group may have stopped both processes, and SIGCONT
                    // may have continued only this process.
                    if control.state.load(SeqCst) == state {
                        send(control, libc::SIGCONT);
                    }
                }
                // The helper has ended: it was killed, or has just set REFUSED.
                _ => return false,
            }
        }
    }

    /// Converts the handle of the helper to a machine word. The helper continues to run.
    pub fn into_word(self) -> u64 {
        let control = self.control;
        std::mem::forget(self);
        control.expose_provenance() as u64
    }

    /// Restores the handle that was converted to `word`.
    ///
    /// # Safety
    /// [`into_word`](Self::into_word) has returned `word`, which is used only once, and the plan
    /// still exists.
    pub unsafe fn from_word(word: u64) -> Self {
        let control = std::ptr::with_exposed_provenance_mut(word as usize);
        Helper { control, _plan: PhantomData }
    }
}

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        let control = self.control();
        send(control, libc::SIGKILL);
        let (room, number) = (control.room, control.number.load(SeqCst));
        let _gone = wait(number);
        room.unmap();
    }
}

/// Sends a signal to the helper.
fn send(control: &Control, signal: c_int) {
    let number = control.number.load(SeqCst) as usize;
    let _gone = system(libc::SYS_kill, [number, signal as usize, 0, 0, 0, 0]);
}
