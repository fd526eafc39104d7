//! System calls that tests can try, and the memory to which the arguments of each call refer.
//!
//! # Safety
//! The arguments refer to memory of their own trial, or memory that the kernel refuses. The calls
//! are issued in children.
#![allow(unsafe_code)]

use self::trial::Case;
use ::calls::{SyscallSpec, specs};

mod asynchronous;
mod files;
mod ipc;
pub mod kernel;
mod metadata;
mod net;
mod process;
mod signals;
mod system;
mod time;
mod trace;
pub mod trial;

/// Returns all cases.
pub fn all() -> impl Iterator<Item = &'static Case> {
    let groups = [
        asynchronous::CASES,
        files::CASES,
        ipc::CASES,
        metadata::CASES,
        net::CASES,
        process::CASES,
        signals::CASES,
        system::CASES,
        time::CASES,
        trace::CASES,
    ];
    groups.into_iter().flatten()
}

/// Returns the row of a case's system call in the table of system calls.
pub fn spec_of(case: &Case) -> &'static SyscallSpec {
    let name = case.0.split(' ').next().unwrap();
    specs()
        .find(|row| calls::name(row.number).unwrap() == name)
        .unwrap_or_else(|| panic!("there is no row {name}"))
}
