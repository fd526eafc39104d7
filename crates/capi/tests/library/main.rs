//! What programs in C find: the header, the libraries, and what calls do.

#![allow(clippy::unwrap_used, reason = "tests")]

mod conformance;
mod header;
mod linking;
mod random;
mod rust;
mod sqlite;
mod support;
