//! What a formatter and a compiler do not hold: the shape of the sources, and whether the documents
//! agree with them.
//!
//! One file per rule. A rule counts faults by place (a crate, a file); `style/ratchet.txt` has the
//! most that there may be, which may fall and never grows. Each rule is tried on a small tree with
//! a planted fault.

#![allow(clippy::unwrap_used, reason = "tests")]

mod comments;
mod cycles;
mod dialect;
mod document;
mod figures;
mod labels;
mod ladder;
mod length;
mod links;
mod modules;
mod names;
mod paths;
mod prose;
mod ratchet;
mod scope;
mod seeds;
mod size;
mod source;
mod tree;
mod unsafety;
mod width;
