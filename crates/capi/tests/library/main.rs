//! Tests of the interface for programs in C: the header, the libraries, and the calls.

#![allow(clippy::unwrap_used, reason = "tests")]

mod conformance;
mod header;
mod linking;
mod random;
mod rust;
mod sqlite;
mod support;
