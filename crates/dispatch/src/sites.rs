//! Sites: `syscall` instructions of the program that are replaced by jumps, so that calls from them
//! need no signal.
//!
//! ```text
//!   site:  0f 05 | b2 b3 b4 ...      syscall, and the bytes after it, which do not change
//!   then:  e9 05 | b2 b3 b4 ...      jmp site + 5 + (05 b2 b3 b4), where a stub is mapped
//!   stub:  mov rcx, tail or site + 2; jmp simple
//!   tail:  mov rcx, site + 2; the instruction at site + 2; jmp to the one after it
//! ```
//! di-13: if a site needs no pad, one write of one byte replaces the `syscall`. A thread executes
//! either the `syscall` or the jump. The bytes after the `syscall` do not change, so a thread that
//! returns there finds the program's instructions. The bytes after the `syscall` also determine the
//! address of the stub. If that address is not free, the site jumps to a pad (di-18), or is not
//! replaced.
//!
//! di-14: code is changed only in private file mappings that are not writable. The instruction that
//! returns from a signal is never changed, because debuggers recognise signal frames by this
//! instruction. Before code or stubs are unmapped, moved or made writable, the bytes of their sites
//! are restored ([`release`]). A child of `fork` has copies of the code, the stubs and the tails.
//!
//! di-17: a call returns to the tail of its site. If the instruction at site + 2 can't be moved,
//! the call returns to site + 2. A return to site + 2 costs a branch misprediction, because the
//! bytes there belong to the site's jump, which the processor predicts. Tails are code of this
//! crate, and outlive stubs and sites. To code outside of this crate, a thread in a tail appears to
//! be at the tail's site, after the call.
//!
//! Stubs lie in memory of this crate, at addresses that were free.

use crate::code::{Writer, mapping_of};
use crate::pause::pause;
use crate::policy::{PAGE, SITE_CALLS};
use crate::site::{HAS_STUBS, LEFT, PATCHED, Site, find, patched};
use crate::user::read_memory;
use crate::way;
use crate::x86_64::frame::CALL_BYTES;
use crate::x86_64::pad::SHORT;
use crate::x86_64::stub::{self, HALT, JUMP, JUMP_BYTES, STUB_BYTES, SYSCALL};
use crate::x86_64::tail;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

/// The number of tails that were assigned to sites.
static TAILS: AtomicUsize = AtomicUsize::new(0);
/// The lock that a thread takes to change sites. A thread that holds the lock has all signals
/// except the owned signals blocked.
static IS_HELD: AtomicBool = AtomicBool::new(false);
/// Whether the replacement of further instructions is forbidden.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Counts a dispatched simple call of the instruction that ends at `back`. After `SITE_CALLS`
/// calls, replaces the instruction.
pub(crate) fn count(back: usize) {
    let Some(site) = find(back.wrapping_sub(CALL_BYTES)) else { return };
    let state = site.state.load(Relaxed);
    if state < SITE_CALLS {
        // The exchange fails if another thread has changed the state since the load.
        let _counted = site.state.compare_exchange(state, state + 1, Relaxed, Relaxed);
    } else if state == SITE_CALLS && !IS_HELD.swap(true, Acquire) {
        // `HAS_STUBS` is set before `IS_OVER` is read. Either this thread finds `IS_OVER` set, or
        // the thread that releases all sites waits for this thread.
        HAS_STUBS.store(true, SeqCst);
        let is_due = site.state.load(Relaxed) == SITE_CALLS && !IS_OVER.load(SeqCst);
        if is_due && patch(site).is_none() {
            site.state.store(LEFT, Release);
        }
        IS_HELD.store(false, Release);
    }
}

/// Replaces the instruction of a site. Returns `None` if the instruction can't be replaced.
fn patch(site: &Site) -> Option<()> {
    let address = site.address.load(Relaxed);
    let mut code = [0; JUMP_BYTES];
    let is_syscall = read_memory(address, &mut code) && code.starts_with(&SYSCALL);
    let mapping = mapping_of(address).filter(|mapping| is_syscall && mapping.is_private_code())?;
    let way = way::find(address, code, &mapping)?;
    let behind = address + CALL_BYTES;
    let mut moved = [0; tail::MOVED_MAX];
    let code = read_memory(behind, &mut moved).then(|| tail::code(behind, &moved)).flatten();
    let memory = Writer::open()?;
    let tail = code.and_then(|code| write_tail(&memory, &code));
    let is_written = memory.write(way.stub, &stub::code(tail.unwrap_or(behind)))
        && way.pad.is_none_or(|pad| memory.write(pad.address, &pad.long));
    if !is_written {
        return None;
    }
    site.tail.store(tail.unwrap_or(0), Release);
    site.pad.store(way.pad.map_or(0, |pad| pad.address), Release);
    // The state is set before the jump is written, so a child of `fork` never has the jump without
    // the state.
    site.stub.store(way.stub, Release);
    site.state.store(PATCHED, Release);
    let is_replaced = match way.pad {
        Some(pad) => change(&memory, address, pad.short).is_begun,
        None => memory.write(address, &[JUMP]),
    };
    is_replaced.then_some(())
}

/// The result of [`change`]: whether the first write succeeded, and whether all writes succeeded.
struct Change {
    is_begun: bool,
    is_done: bool,
}

/// Replaces both bytes of a site's `syscall` or short jump (di-18).
fn change(memory: &Writer, address: usize, [first, second]: [u8; CALL_BYTES]) -> Change {
    let is_begun = memory.write(address, &[HALT]);
    // If a thread executes `HALT`, the instruction faults and the thread's call is dispatched. So
    // calls from the site work even if a later write fails.
    let is_done =
        is_begun && memory.write(address + 1, &[second]) && memory.write(address, &[first]);
    Change { is_begun, is_done }
}

/// Writes a tail. Returns the tail's address, or `None` if all tails are used or the write fails.
fn write_tail(memory: &Writer, code: &[u8]) -> Option<usize> {
    let tail = tail::place(TAILS.fetch_add(1, Relaxed))?;
    memory.write(tail, code).then_some(tail)
}

/// Restores the instructions of sites whose code or stub lies in pages of `range`. A hook calls
/// this function before mappings in `range` change. Returns false if an instruction could not be
/// restored and its jump would lead to other code, because the stub or pad lies in `range` or the
/// jump is moved.
pub fn release(range: &Range<usize>, is_moved: bool) -> bool {
    if !HAS_STUBS.load(SeqCst) {
        return true;
    }
    (0..).take_while(|_| IS_HELD.swap(true, Acquire)).for_each(pause);
    // The kernel changes the mappings of whole pages.
    let end = range.end.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
    let range = &(range.start / PAGE * PAGE..end);
    let touches = |start: usize, bytes: usize| start < range.end && range.start < start + bytes;
    way::forget(range);
    let mut is_done = true;
    for site in patched() {
        let [address, stub, pad] =
            [&site.address, &site.stub, &site.pad].map(|word| word.load(Relaxed));
        let has_site = range.start <= address && address + CALL_BYTES <= range.end;
        let has_pad = pad != 0 && touches(pad, JUMP_BYTES);
        let has_stub = touches(stub, STUB_BYTES);
        if has_stub || has_pad || touches(address, JUMP_BYTES) {
            if restore(address, pad != 0) {
                site.state.store(LEFT, Release);
            } else {
                // The bytes after a site without a pad are a part of its jump.
                let has_rest = pad == 0 && touches(address, JUMP_BYTES);
                let loses_way = has_stub || (has_pad || has_rest) && !has_site;
                is_done &= !loses_way && !is_moved;
            }
        }
    }
    IS_HELD.store(false, Release);
    is_done
}

/// Restores the instruction of a site. Returns false if the site still has its jump.
fn restore(address: usize, has_pad: bool) -> bool {
    let mut code = [0; CALL_BYTES];
    let has_jump = match has_pad {
        true => [SHORT, HALT].as_slice(),
        false => &[JUMP],
    };
    if read_memory(address, &mut code) && !has_jump.contains(&code[0]) {
        // The program has replaced its code.
        return true;
    }
    Writer::open().is_some_and(|memory| {
        if has_pad {
            change(&memory, address, SYSCALL).is_done
        } else {
            memory.write(address, &SYSCALL[..1])
        }
    })
}

/// Restores all sites, and prevents further replacements. Called before the program filters its
/// system calls, because the filter may forbid the calls that change code.
pub fn release_all() {
    IS_OVER.store(true, SeqCst);
    release(&(0..usize::MAX), false);
}

/// Releases the lock in a child of `fork`. The child has no other thread that could hold the lock.
pub(crate) fn begin_child() {
    IS_HELD.store(false, Release);
}
