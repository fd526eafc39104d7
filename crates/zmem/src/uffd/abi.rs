//! The kernel's interface, which is the same on all processors that this crate supports.

pub(super) const fn request(direction: u64, number: u64, bytes: usize) -> u64 {
    direction << 30 | (bytes as u64) << 16 | 0xAA << 8 | number
}

pub(super) const OUT: u64 = 2;
pub(super) const BOTH: u64 = 3;
pub(super) const NEW: u64 = request(0, 0, 0);
pub(super) const API: u64 = request(BOTH, 0x3F, size_of::<Api>());
pub(super) const REGISTER: u64 = request(BOTH, 0, size_of::<Register>());
pub(super) const UNREGISTER: u64 = request(OUT, 1, size_of::<Place>());
pub(super) const WAKE: u64 = request(OUT, 2, size_of::<Place>());
pub(super) const COPY: u64 = request(BOTH, 3, size_of::<Transfer>());
pub(super) const ZEROPAGE: u64 = request(BOTH, 4, size_of::<Zeropage>());
pub(super) const MOVE: u64 = request(BOTH, 5, size_of::<Transfer>());
pub(super) const WRITEPROTECT: u64 = request(BOTH, 6, size_of::<Writeprotect>());

pub(super) const USER_MODE_ONLY: i32 = 1;
pub(super) const API_VERSION: u64 = 0xAA;
pub(super) const FEATURE_WRITEPROTECT: u64 = 1;
pub(super) const FEATURE_SIGBUS: u64 = 1 << 7;
pub(super) const FEATURE_THREAD_ID: u64 = 1 << 8;
pub(super) const FEATURE_MOVE: u64 = 1 << 16;
pub(super) const MODE_MISSING: u64 = 1;
pub(super) const MODE_WRITEPROTECT: u64 = 2;
/// The mode of all requests that fill pages: the kernel wakes no waiting threads. The pager wakes
/// them after it has published the block's state.
pub(super) const NO_WAKE: u64 = 1;
pub(super) const ALLOW_HOLES: u64 = 2;
/// The modes that protect pages, and that unprotect pages without waking threads.
pub(super) const PROTECT: u64 = 1;
pub(super) const UNPROTECT_NO_WAKE: u64 = 2;
pub(super) const EVENT_PAGEFAULT: u8 = 0x12;

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Place {
    pub(super) start: u64,
    pub(super) bytes: u64,
}

#[repr(C)]
pub(super) struct Api {
    pub(super) version: u64,
    pub(super) features: u64,
    pub(super) calls: u64,
}

#[repr(C)]
pub(super) struct Register {
    pub(super) place: Place,
    pub(super) mode: u64,
    pub(super) calls: u64,
}

/// A copy or a move.
#[repr(C)]
pub(super) struct Transfer {
    pub(super) to: u64,
    pub(super) from: u64,
    pub(super) bytes: u64,
    pub(super) mode: u64,
    pub(super) done: i64,
}

#[repr(C)]
pub(super) struct Zeropage {
    pub(super) place: Place,
    pub(super) mode: u64,
    pub(super) done: i64,
}

#[repr(C)]
pub(super) struct Writeprotect {
    pub(super) place: Place,
    pub(super) mode: u64,
}

#[repr(C)]
pub(super) struct Message {
    pub(super) event: u8,
    _unused: [u8; 7],
    _flags: u64,
    pub(super) address: u64,
    pub(super) thread: u32,
    _rest: u32,
}
