//! Sites: `syscall` instructions of the program that are replaced by jumps, so that calls from them
//! take no signal.
//!
//! ```text
//!   site:  0f 05 | b2 b3 b4 ...      syscall, and the bytes behind it, which do not change
//!   then:  e9 05 | b2 b3 b4 ...      jmp site + 5 + (05 b2 b3 b4), where a stub is mapped
//!   stub:  mov rcx, site + 2; jmp simple
//! ```
//! di-13: one byte of code is changed, by one write, so a thread executes the old instruction or
//! the new one. The bytes behind it stay: a thread that returns behind the site finds its own
//! instructions. The place of the stub follows from these bytes; if it is not free, the site stays
//! as it is.
//!
//! di-14: code is changed if it belongs to a file, is private and not writable; never that of a
//! return from a signal, by which debuggers recognise frames. Before code or stubs are unmapped,
//! moved or made writable, their sites get their byte back ([`release`]). A child of `fork` has
//! copies of all of it.
//!
//! Stubs are memory of ours, mapped where nothing was.

use crate::code::{mapping_of, write};
use crate::hook::hook;
use crate::pause::pause;
use crate::user::read_memory;
use crate::x86_64::frame::{CALL_BYTES, Context, Info};
use crate::x86_64::place;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

const SITES: usize = 256;
/// Places of the table that a site may have.
const PROBES: usize = 8;
/// The simple calls that a site makes before it is replaced.
const CALLS: u32 = 16;
const PATCHED: u32 = u32::MAX - 1;
/// It is not replaced any more.
const LEFT: u32 = u32::MAX;
const SYSCALL: [u8; CALL_BYTES] = [0x0f, 0x05];
const JUMP: u8 = 0xe9;
const JUMP_BYTES: usize = 5;
const STUB_BYTES: usize = 24;
const PAGE: usize = 4096;
const LOWEST: usize = 1 << 16;
const HIGHEST: usize = 1 << 47;

#[derive(Debug)]
struct Site {
    /// The address of the instruction; 0: none.
    address: AtomicUsize,
    /// Where its stub lies, once it had one.
    stub: AtomicUsize,
    /// Calls from it, `PATCHED` or `LEFT`.
    state: AtomicU32,
}

static TABLE: [Site; SITES] = [const {
    Site { address: AtomicUsize::new(0), stub: AtomicUsize::new(0), state: AtomicU32::new(0) }
}; SITES];
/// A thread that changes sites holds it, with all signals blocked.
static IS_HELD: AtomicBool = AtomicBool::new(false);
/// Whether no site is to be replaced any more.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// Whether a site was replaced, ever.
static HAS_STUBS: AtomicBool = AtomicBool::new(false);

/// Returns the entry of a site, which is made if there is room.
fn find(address: usize) -> Option<&'static Site> {
    let first = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 56;
    (first..first + PROBES).map(|at| &TABLE[at % SITES]).find(|site| {
        let now = site.address.load(Acquire);
        now == address
            || now == 0
                && match site.address.compare_exchange(0, address, AcqRel, Acquire) {
                    Ok(_) => true,
                    Err(other) => other == address,
                }
    })
}

/// Returns the sites that were replaced.
fn patched() -> impl Iterator<Item = &'static Site> {
    TABLE.iter().filter(|site| site.state.load(Acquire) == PATCHED)
}

/// Counts a simple call that the kernel has dispatched, from the instruction before `back`, and
/// replaces the instruction if it makes many.
pub(crate) fn count(back: usize) {
    let Some(site) = find(back.wrapping_sub(CALL_BYTES)) else { return };
    let state = site.state.load(Relaxed);
    if state < CALLS {
        site.state.fetch_add(1, Relaxed);
    } else if state == CALLS && !IS_OVER.load(Acquire) && !IS_HELD.swap(true, Acquire) {
        if patch(site).is_none() {
            site.state.store(LEFT, Release);
        }
        IS_HELD.store(false, Release);
    }
}

/// Replaces the instruction of a site. Returns `None` if it has to stay.
fn patch(site: &Site) -> Option<()> {
    let address = site.address.load(Relaxed);
    let mut code = [0; JUMP_BYTES];
    let is_syscall = read_memory(address, &mut code) && code[..2] == SYSCALL;
    if !is_syscall || !mapping_of(address)?.is_private_code() {
        return None;
    }
    let [_, low, distance @ ..] = code;
    let [b, c, d] = distance;
    let by = i32::from_le_bytes([low, b, c, d]) as isize;
    let stub = (address + JUMP_BYTES).checked_add_signed(by)?;
    let range = stub..stub + STUB_BYTES;
    let is_apart = patched().all(|other| {
        stub.abs_diff(other.stub.load(Relaxed)) >= STUB_BYTES
            && address.abs_diff(other.address.load(Relaxed)) >= JUMP_BYTES
    });
    if range.start < LOWEST || range.end > HIGHEST || !is_apart {
        return None;
    }
    let (first, last) = (range.start / PAGE * PAGE, (range.end - 1) / PAGE * PAGE);
    for page in (first..=last).step_by(PAGE) {
        if !is_ours(page) && !hook().map_code(page..page + PAGE) {
            return None;
        }
    }
    if !write(stub, &stub_code(address)) {
        return None;
    }
    // First, as a child that is forked in between finds the jump.
    site.stub.store(stub, Release);
    site.state.store(PATCHED, Release);
    HAS_STUBS.store(true, Release);
    write(address, &[JUMP]).then_some(())
}

/// Returns whether a page has stubs.
fn is_ours(page: usize) -> bool {
    let end = page + PAGE;
    patched().any(|site| {
        let stub = site.stub.load(Relaxed);
        stub < end && page < stub + STUB_BYTES
    })
}

/// Returns the code of the stub of a site.
fn stub_code(site: usize) -> [u8; STUB_BYTES] {
    let mut code = [0; STUB_BYTES];
    // mov rcx, site + 2; jmp [rip]
    code[..2].copy_from_slice(&[0x48, 0xb9]);
    code[2..10].copy_from_slice(&(site + CALL_BYTES).to_le_bytes());
    code[10..12].copy_from_slice(&[0xff, 0x25]);
    code[16..].copy_from_slice(&place::entry().to_le_bytes());
    code
}

/// Restores the instructions of sites whose code or stub lies in `range`. A hook calls it before it
/// lets mappings there be changed. Returns false if they could not be restored, and jumps would
/// lead to other code: a stub lies there, or code is moved.
pub fn release(range: &Range<usize>, is_moved: bool) -> bool {
    if !HAS_STUBS.load(Acquire) {
        return true;
    }
    (0..).take_while(|_| IS_HELD.swap(true, Acquire)).for_each(pause);
    let touches = |start: usize, bytes: usize| start < range.end && range.start < start + bytes;
    let mut is_done = true;
    for site in patched() {
        let (address, stub) = (site.address.load(Relaxed), site.stub.load(Relaxed));
        let has_stub = touches(stub, STUB_BYTES);
        if has_stub || touches(address, JUMP_BYTES) {
            if write(address, &SYSCALL[..1]) {
                site.state.store(LEFT, Release);
            } else {
                is_done &= !has_stub && !is_moved;
            }
        }
    }
    IS_HELD.store(false, Release);
    is_done
}

/// Restores all sites, and replaces none any more: the program is about to filter its system calls,
/// and would not allow those that change code.
pub fn release_all() {
    IS_OVER.store(true, Release);
    release(&(0..usize::MAX), false);
}

/// Begins in a child of `fork`.
pub(crate) fn begin_child() {
    IS_HELD.store(false, Release);
}

/// Makes a context that was interrupted in a stub that of its site. Returns whether it was in one.
/// A stub whose site was restored since may be absent: then its address is that of the fault.
pub(crate) fn leave(context: &mut Context, info: &Info) -> bool {
    if !HAS_STUBS.load(Acquire) {
        return false;
    }
    let at = context.instruction();
    let is_fetch = info.signal == libc::SIGSEGV && info.call_address == at;
    let is_here = |site: &&Site| {
        let (stub, state) = (site.stub.load(Acquire), site.state.load(Acquire));
        stub != 0
            && (stub..stub + STUB_BYTES).contains(&at)
            && (state == PATCHED || state == LEFT && is_fetch)
    };
    let site = TABLE.iter().find(is_here);
    site.inspect(|site| context.set_instruction(site.address.load(Relaxed))).is_some()
}
