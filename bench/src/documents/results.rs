//! The results of a run in `results.json`, from which both reports are generated.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use measure::memory::bytes;
use serde::{Deserialize, Serialize};

use super::found::Found;
use crate::Error;
use crate::processor;
use crate::report::Verdict;

pub(super) const RESULTS: &str = "results.json";

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub(crate) machine: Machine,
    pub(crate) experiments: Vec<Outcome>,
}

/// The machine, the date and the settings of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The day, in UTC.
    pub(crate) date: String,
    pub(crate) processor: String,
    /// The machine's memory in bytes.
    pub(crate) memory: u64,
    pub(crate) kernel: String,
    pub(crate) uzram: String,
    pub(crate) seed: u64,
    pub(crate) is_quick: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) about: String,
    /// The duration of the experiment in seconds.
    pub(crate) seconds: f64,
    pub(crate) state: State,
    pub(crate) found: Found,
}

/// The way in which an experiment ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Done,
    /// The experiment can't run on this machine.
    Skipped {
        reason: String,
    },
    Failed {
        reason: String,
    },
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Done => write!(f, "done"),
            State::Skipped { reason } => write!(f, "skipped: {reason}"),
            State::Failed { reason } => write!(f, "failed: {reason}"),
        }
    }
}

impl Machine {
    pub(super) fn this(seed: u64, is_quick: bool) -> Machine {
        let told = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        Machine {
            date: date.split('T').next().unwrap_or_default().to_owned(),
            processor: processor::name(),
            memory: bytes(&told("/proc/meminfo"), "MemTotal").unwrap_or_default(),
            kernel: format!("Linux {}", told("/proc/sys/kernel/osrelease").trim_end()),
            uzram: env!("CARGO_PKG_VERSION").to_owned(),
            seed,
            is_quick,
        }
    }
}

impl Results {
    /// Reads the results that a run has written to the directory `dir`.
    ///
    /// # Errors
    /// Fails if the file can't be read or does not contain the results of a run.
    pub fn read(dir: &Path) -> Result<Results, Error> {
        let path = dir.join(RESULTS);
        let text = fs::read_to_string(&path).map_err(Error::file(
            "read",
            &path,
            "run `bench experiments`",
        ))?;
        serde_json::from_str(&text).map_err(|error| Error::Malformed {
            thing: path.display().to_string(),
            text: error.to_string(),
            expected: "what `bench experiments` writes",
        })
    }

    pub(super) fn json(&self) -> String {
        // The value consists of strings and numbers, so serialization can't fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Returns a failing verdict if an experiment failed or a figure misses its bound.
    pub(super) fn verdict(&self) -> Verdict {
        let fails = |outcome: &Outcome| {
            matches!(outcome.state, State::Failed { .. })
                || outcome.found.figures.iter().any(|line| line.pass == Some(false))
        };
        if self.experiments.iter().any(fails) { Verdict::Fail } else { Verdict::Pass }
    }
}
