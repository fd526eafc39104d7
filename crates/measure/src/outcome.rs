//! The result of a command that measures.

use crate::error::Error;

/// The output and the result of a command.
#[derive(Debug)]
pub struct Outcome {
    /// The report.
    pub text: String,
    /// The warnings about data that were left out, one per line.
    pub warnings: Vec<String>,
    /// The error, if the command was not fully successful.
    pub failure: Option<Error>,
}
