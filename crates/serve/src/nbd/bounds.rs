//! What bounds something in the server, for tests that go to each of these numbers.

pub use super::batch::{BUFFER, HEAVY, PART, REQUESTS};
pub use super::input::BUFFER as INPUT;
pub use super::large::BYTES as LARGE;
pub use super::request::EXTENTS_MAX;
pub use super::server::HALF_OPEN_MAX;
pub use super::wire::{OPTION_DATA_MAX, OPTIONS_MAX, PAYLOAD_MAX, STRING_MAX};
