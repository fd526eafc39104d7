//! What comes of a command that measures.

use crate::error::Error;

/// What there is to print, and how it ended.
#[derive(Debug)]
pub struct Outcome {
    /// The report.
    pub text: String,
    /// What was left out, a line each.
    pub warnings: Vec<String>,
    /// Why not all is well.
    pub failure: Option<Error>,
}
