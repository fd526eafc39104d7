//! What bounds something in the server, for tests that go to each of these numbers.

pub use super::batch::{HEAVY_BYTES, READ_PART, REQUESTS, WORKER_BUFFER};
pub use super::input::INPUT_BUFFER as INPUT;
pub use super::large_writes::BYTES as LARGE;
pub use super::request::EXTENTS_MAX;
pub use super::server::HALF_OPEN_MAX;
pub use super::wire::{OPTION_DATA_MAX, OPTIONS_MAX, PAYLOAD_MAX, STRING_MAX};
