//! Rules that no formatter or compiler checks. The rules concern the shape of the sources, and the
//! agreement of documents and sources.
//!
//! Each rule has its own file, and counts violations by place, which is a crate or a file.
//! `style/ratchet.txt` holds the maximum of each place, which is allowed to fall but never to grow.
//! Each rule is tested on a small tree with a planted violation.

#![allow(clippy::unwrap_used, reason = "tests")]

mod comments;
mod cycles;
mod dialect;
mod document;
mod figures;
mod impls;
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
mod thresholds;
mod tree;
mod unsafety;
mod width;
