//! One figure: the measured value, its bound, and the rival's value.

use serde::{Deserialize, Serialize};

use super::Bound;
use crate::kernel::Rival;

/// A measured value with its bound and its rival's value.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a figure counts once it is added to a report"]
pub struct Figure {
    experiment: String,
    figure: String,
    value: Option<f64>,
    unit: &'static str,
    must: Option<Bound>,
    rival: Option<String>,
    rival_value: Option<f64>,
}

/// A figure in its serialized form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The experiment.
    pub experiment: String,
    /// The quantity that was measured.
    pub figure: String,
    /// The value, if it could be measured.
    pub value: Option<f64>,
    /// The value's unit; empty for a ratio.
    pub unit: String,
    /// The bound.
    pub must: Option<String>,
    /// The rival that was measured.
    pub rival: Option<String>,
    /// The rival's value.
    pub rival_value: Option<f64>,
    /// Whether the value meets the bound.
    pub pass: Option<bool>,
}

/// A figure with the settings of its measurement.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    line: Line,
    seed: u64,
    processor: &'a str,
}

impl Figure {
    /// Returns a figure with a measured value.
    pub fn new(
        experiment: impl Into<String>,
        figure: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) -> Figure {
        Figure { value: Some(value), ..Figure::missing(experiment, figure, unit) }
    }

    /// Returns a figure that could not be measured on this machine, and so meets no bound.
    pub fn missing(
        experiment: impl Into<String>,
        figure: impl Into<String>,
        unit: &'static str,
    ) -> Figure {
        Figure {
            experiment: experiment.into(),
            figure: figure.into(),
            value: None,
            unit,
            must: None,
            rival: None,
            rival_value: None,
        }
    }

    /// Sets the bound. A figure without a bound is reported but not checked.
    pub fn must(mut self, bound: impl Into<Option<Bound>>) -> Figure {
        self.must = bound.into();
        self
    }

    /// Sets the value of a rival, measured in the same run.
    pub fn rival(mut self, name: impl Into<String>, value: f64) -> Figure {
        self.rival = Some(name.into());
        self.rival_value = Some(value);
        self
    }

    /// Sets the value of a rival, or the reason why the rival could not be measured on this
    /// machine.
    pub fn beside(self, name: impl Into<String>, value: &Rival<f64>) -> Figure {
        match value {
            Rival::Present(value) => self.rival(name, *value),
            Rival::Absent(reason) => self.rival_absent(reason),
        }
    }

    /// Sets the reason why the rival could not be measured on this machine.
    pub fn rival_absent(mut self, reason: &str) -> Figure {
        self.rival = Some(format!("absent: {reason}"));
        self.rival_value = None;
        self
    }

    /// Returns whether the value meets the bound, or `None` if there is no bound.
    pub fn pass(&self) -> Option<bool> {
        self.must.map(|bound| self.value.is_some_and(|value| bound.met_by(value)))
    }

    /// Returns the serialized form.
    pub fn line(&self) -> Line {
        Line {
            experiment: self.experiment.clone(),
            figure: self.figure.clone(),
            value: self.value,
            unit: self.unit.to_owned(),
            must: self.must.map(|bound| bound.to_string()),
            rival: self.rival.clone(),
            rival_value: self.rival_value,
            pass: self.pass(),
        }
    }

    pub(super) fn json(&self, seed: u64, processor: &str) -> String {
        let told = Told { line: self.line(), seed, processor };
        // The line consists of strings and numbers, so serialization can't fail.
        serde_json::to_string(&told).unwrap_or_default()
    }

    pub(super) fn row(&self) -> [String; 8] {
        let number = |value: Option<f64>| value.map_or("-".into(), shown);
        [
            self.experiment.clone(),
            self.figure.clone(),
            number(self.value),
            self.unit.into(),
            self.must.map_or("-".into(), |bound| bound.to_string()),
            self.pass().map_or("-", |pass| if pass { "pass" } else { "FAIL" }).into(),
            self.rival.clone().unwrap_or_else(|| "-".into()),
            number(self.rival_value),
        ]
    }
}

fn shown(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}
