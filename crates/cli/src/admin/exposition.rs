//! Metrics as Prometheus reads them: in its text format.

use prometheus::{Counter, Encoder as _, Gauge, Opts, Registry, TextEncoder};

/// Metrics that are told together.
#[derive(Default)]
pub(crate) struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// Adds a number that may fall.
    pub(crate) fn gauge(&self, options: Opts, value: f64) {
        // A name that is none, or is there twice, is left out: tests look for all of them.
        if let Ok(gauge) = Gauge::with_opts(options) {
            gauge.set(value);
            let _ = self.registry.register(Box::new(gauge));
        }
    }

    /// Adds a number that only grows.
    pub(crate) fn counter(&self, options: Opts, value: f64) {
        if let Ok(counter) = Counter::with_opts(options) {
            counter.inc_by(value);
            let _ = self.registry.register(Box::new(counter));
        }
    }

    /// Returns all of them, in text.
    pub(crate) fn text(&self) -> String {
        let mut text = Vec::new();
        // Each has a name, a help and a value: nothing can fail.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        String::from_utf8(text).unwrap_or_default()
    }
}
