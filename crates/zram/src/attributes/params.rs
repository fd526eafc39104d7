//! `algorithm_params`: words of `key=value`.

use super::numbers::signed;
use super::settings::bad;
use crate::algorithms::SECONDARY_MAX;
use crate::{BadValue, Config, Error, open_file};
use rustix::io::Errno;
use std::io::Read;
use std::path::Path;
use zcomp::{Dictionary, Params};

pub(super) const NAME: &str = "algorithm_params";

/// What a line says.
#[derive(Debug, Default)]
pub(super) struct AlgorithmLine {
    algorithm: Option<String>,
    priority: Option<usize>,
    pub(super) of_codec: Params,
}

impl AlgorithmLine {
    /// Which algorithm the parameters are for: that of the priority, or of the name, or the
    /// device's own.
    pub(super) fn target(&self, settings: &Config, text: &str) -> Result<usize, Error> {
        let invalid = |reason: &str| bad(NAME, text, BadValue::Invalid, reason);
        let name_of = |nth: usize| settings.algorithm_of(nth).map(|of| of.codec.name());
        let named = |nth: &usize| name_of(*nth) == self.algorithm.as_deref();
        match (self.priority, &self.algorithm) {
            (None, None) => Ok(0),
            (None, Some(name)) => (0..=SECONDARY_MAX).find(named).ok_or_else(|| {
                let chosen = settings.algorithm.name();
                invalid(&format!("comp_algorithm is {chosen}; set it to {name} first"))
            }),
            (Some(nth), None) if name_of(nth).is_some() => Ok(nth),
            (Some(nth), Some(_)) if named(&nth) => Ok(nth),
            (Some(0), Some(name)) => {
                let chosen = settings.algorithm.name();
                Err(invalid(&format!("comp_algorithm is {chosen}; set it to {name} first")))
            }
            (Some(nth), _) => {
                let reason = format!(
                    "recomp_algorithm has no such algorithm of priority {nth}; set it there first"
                );
                Err(invalid(&reason))
            }
        }
    }
}

/// Reads a line, and the dictionary it names. Keys that are not known are left out, as the kernel
/// does.
pub(super) fn parse(text: &str) -> Result<AlgorithmLine, Error> {
    let mut line = AlgorithmLine::default();
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
            "priority" => line.priority = Some(check_priority(number()?).map_err(invalid)?),
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

fn check_priority(priority: i32) -> Result<usize, &'static str> {
    let priority = usize::try_from(priority).ok().filter(|priority| *priority <= SECONDARY_MAX);
    priority.ok_or("expected a priority of 0 to 3")
}

fn read_dictionary(path: &str) -> Result<Dictionary, Error> {
    let mut bytes = Vec::new();
    // One more than there may be: some files have no end.
    let most = Dictionary::BYTES_MAX as u64 + 1;
    let read = open_file::to_read(Path::new(path))
        .and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO).raw_os_error();
        Error::File { path: path.to_owned(), errno }
    })?;
    Ok(Dictionary::new(bytes)?)
}
