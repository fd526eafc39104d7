//! Protection keys. The register PKRU contains the access rights of a thread. A signal frame stores
//! PKRU with the floating-point registers.
//!
//! di-10: a handler begins with rights that the kernel chooses. While this crate's code runs, the
//! thread has the program's rights. So the kernel and this crate can access all memory that the
//! program can access. Key 0, the key of this crate's memory, is always allowed. If a call has
//! changed the rights, the new rights are stored in the frame.
//!
//! # Safety
//! RDPKRU and WRPKRU are valid if the kernel has enabled protection keys. They are executed only
//! after the program has allocated a key. The fpstate of a frame lies on this thread's dispatch
//! block, and contains its own length.
#![allow(unsafe_code)]

use super::frame::{Context, FP_SIZE_AT, fp_bytes};
use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The number of PKRU's component in an xsave area, and the offset of the area's component bits.
const COMPONENT: u32 = 9;
const HEADER_AT: usize = 512;
/// The two bits of key 0, the key of this crate's memory.
const OWN: u32 = 3;

/// The offset of the rights in an xsave area; 0 until the program has allocated a key.
static RIGHTS_AT: AtomicUsize = AtomicUsize::new(0);

fn rights() -> u32 {
    let rights;
    // SAFETY: a key was allocated, so the instruction is valid. It only reads a register.
    unsafe {
        asm!("rdpkru", in("ecx") 0, out("eax") rights, out("edx") _, options(nomem, nostack))
    };
    rights
}

fn set_rights(rights: u32) {
    // SAFETY: a key was allocated, so the instruction is valid. The caller allows key 0, the key of
    // this crate's memory.
    unsafe { asm!("wrpkru", in("eax") rights, in("ecx") 0, in("edx") 0, options(nostack)) };
}

/// Returns the addresses of the component bits and of the rights in a frame.
fn places(context: &Context, at: usize) -> Option<(*mut u64, *mut u32)> {
    let start = context.registers.fpstate;
    if start == 0 {
        return None;
    }
    // SAFETY: every fpstate contains these two words.
    let size = unsafe { ((start + FP_SIZE_AT) as *const [u32; 2]).read() };
    let has_room = at + size_of::<u32>() <= fp_bytes(size);
    has_room.then_some(((start + HEADER_AT) as *mut u64, (start + at) as *mut u32))
}

/// Sets the thread's rights to those that the program had when `context` was interrupted.
pub(crate) fn enter(context: &Context) {
    let at = RIGHTS_AT.load(Relaxed);
    if at == 0 {
        return;
    }
    let Some((components, rights)) = places(context, at) else { return };
    // SAFETY: both addresses lie in the frame. If the frame lacks the component, the rights are 0,
    // which allows every access.
    let (components, rights) = unsafe { (components.read(), rights.read()) };
    set_rights(if components >> COMPONENT & 1 == 0 { 0 } else { rights & !OWN });
}

/// Stores, in the program's frame, the thread's rights for a key that a call has just allocated.
pub(crate) fn keep(context: &Context, key: u32) {
    let mut at = RIGHTS_AT.load(Relaxed);
    if at == 0 {
        at = __cpuid_count(0xd, COMPONENT).ebx as usize;
        RIGHTS_AT.store(at, Relaxed);
    }
    let Some((components, kept)) = places(context, at) else { return };
    let of_key = 3 << (2 * key);
    // SAFETY: both addresses lie in the frame, which only this thread accesses.
    unsafe {
        let has_rights = components.read() >> COMPONENT & 1 == 1;
        let others = if has_rights { kept.read() & !of_key } else { 0 };
        components.write(components.read() | 1 << COMPONENT);
        kept.write(others | rights() & of_key);
    }
}
