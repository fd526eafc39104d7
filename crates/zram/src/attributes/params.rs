//! `algorithm_params`: words of `key=value`.

use super::numbers::signed;
use super::store::bad;
use crate::{BadValue, Error};
use rustix::io::Errno;
use zcomp::{Dictionary, Params};

pub(super) const NAME: &str = "algorithm_params";

/// The largest priority the kernel has.
const PRIORITY_MAX: i32 = 3;

/// What a line says.
#[derive(Debug, Default)]
pub(super) struct Line {
    algorithm: Option<String>,
    pub(super) of_codec: Params,
}

impl Line {
    /// Whether the parameters are for the algorithm that was chosen.
    pub(super) fn check_algorithm(&self, chosen: &str, text: &str) -> Result<(), Error> {
        match &self.algorithm {
            Some(algorithm) if algorithm != chosen => {
                let reason = format!("comp_algorithm is {chosen}; choose {algorithm} there first");
                Err(bad(NAME, text, BadValue::Invalid, &reason))
            }
            _ => Ok(()),
        }
    }
}

/// Reads a line, and the dictionary it names. Keys that are not known are left out, as the kernel does.
pub(super) fn parse(text: &str) -> Result<Line, Error> {
    let mut line = Line::default();
    let invalid = |reason| bad(NAME, text, BadValue::Invalid, reason);
    let mut dictionary = None;
    for word in text.split_whitespace() {
        let (key, value) =
            word.split_once('=').filter(|(_, value)| !value.is_empty()).ok_or_else(|| {
                invalid("expected KEY=VALUE: algo, priority, level, dict or deflate.winbits")
            })?;
        let number = || {
            signed(value).map_err(|why| bad(NAME, text, why, "expected numbers of at most 31 bits"))
        };
        match key {
            "algo" => line.algorithm = Some(value.to_owned()),
            "priority" => check_priority(number()?).map_err(invalid)?,
            "level" => line.of_codec.level = Some(number()?),
            "dict" => dictionary = Some(value),
            // Of an algorithm that there is not: nothing depends on it.
            "deflate.winbits" => drop(number()?),
            _ => {}
        }
    }
    line.of_codec.dictionary = dictionary.map(read_dictionary).transpose()?;
    Ok(line)
}

fn check_priority(priority: i32) -> Result<(), &'static str> {
    match priority {
        0 => Ok(()),
        1..=PRIORITY_MAX => Err("priorities 1 to 3 are for recompression, which is not there yet"),
        _ => Err("expected priority 0"),
    }
}

fn read_dictionary(path: &str) -> Result<Dictionary, Error> {
    let read = std::fs::read(path).map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO).raw_os_error();
        Error::File { path: path.to_owned(), errno }
    })?;
    Ok(Dictionary::new(read)?)
}
