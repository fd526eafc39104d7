//! The attribute `algorithm_params`, a line of words of the form `key=value`.

use super::value::{Value, signed};
use crate::algorithms::SECONDARY_MAX;
use crate::{Config, Error, open_file};
use rustix::io::Errno;
use std::io::Read;
use std::path::Path;
use zcomp::{Dictionary, Params};

/// A parsed line.
#[derive(Debug, Default)]
pub(super) struct AlgorithmLine<'t> {
    algorithm: Option<&'t str>,
    priority: Option<usize>,
    pub(super) params: Params,
}

impl<'t> AlgorithmLine<'t> {
    /// Parses a line, and reads the dictionary file that the line specifies. Unknown keys are
    /// ignored, as in the kernel.
    pub(super) fn parse(value: Value<'t>) -> Result<Self, Error> {
        let mut line = AlgorithmLine::default();
        let mut dictionary = None;
        for word in value.words() {
            let (key, word) = word.ok_or_else(|| {
                value.invalid("expected KEY=VALUE: algo, priority, level, dict or deflate.winbits")
            })?;
            let number = || {
                signed(word).map_err(|why| value.bad(why, "expected numbers of at most 31 bits"))
            };
            match key {
                "algo" => line.algorithm = Some(word),
                "priority" => {
                    let priority = usize::try_from(number()?).ok();
                    line.priority = priority.filter(|priority| *priority <= SECONDARY_MAX);
                    if line.priority.is_none() {
                        return Err(value.invalid("expected a priority of 0 to 3"));
                    }
                }
                "level" => line.params.level = Some(number()?),
                "dict" => dictionary = Some(word),
                // A parameter of deflate, which this library does not support. The value is ignored
                // if it is a number.
                "deflate.winbits" => drop(number()?),
                _ => {}
            }
        }
        line.params.dictionary = dictionary.map(read_dictionary).transpose()?;
        Ok(line)
    }

    /// Returns the priority of the algorithm that the parameters are for. The line contains the
    /// priority, or the name of the algorithm. The default priority is 0.
    pub(super) fn target(&self, settings: &Config, value: Value<'_>) -> Result<usize, Error> {
        let name_of = |nth: usize| settings.algorithm_of(nth).map(|of| of.codec.name());
        let named = |nth: &usize| name_of(*nth) == self.algorithm;
        let is_another = |name| {
            let chosen = settings.algorithm.name();
            value.invalid(&format!("comp_algorithm is {chosen}; set it to {name} first"))
        };
        match (self.priority, self.algorithm) {
            (None, None) => Ok(0),
            (None, Some(name)) => (0..=SECONDARY_MAX).find(named).ok_or_else(|| is_another(name)),
            (Some(nth), None) if name_of(nth).is_some() => Ok(nth),
            (Some(nth), Some(_)) if named(&nth) => Ok(nth),
            (Some(0), Some(name)) => Err(is_another(name)),
            (Some(nth), _) => Err(value.invalid(&format!(
                "recomp_algorithm has no such algorithm of priority {nth}; set it there first"
            ))),
        }
    }
}

fn read_dictionary(path: &str) -> Result<Dictionary, Error> {
    let mut bytes = Vec::new();
    // Some files have no end, so at most one byte more than the allowed length is read.
    let most = Dictionary::BYTES_MAX as u64 + 1;
    let read = open_file::to_read(Path::new(path))
        .and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO).raw_os_error();
        Error::File { path: path.to_owned(), errno }
    })?;
    Ok(Dictionary::new(bytes)?)
}
