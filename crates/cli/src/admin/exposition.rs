//! Metrics in the text format of Prometheus.

use prometheus::{Counter, Encoder as _, Gauge, Opts, Registry, TextEncoder};

#[derive(Default)]
pub(crate) struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// Adds a metric whose value can decrease.
    pub(crate) fn gauge(&self, options: Opts, value: f64) {
        // A metric with an invalid or duplicate name is left out. The tests check that each metric
        // exists.
        if let Ok(gauge) = Gauge::with_opts(options) {
            gauge.set(value);
            let _ = self.registry.register(Box::new(gauge));
        }
    }

    /// Adds a metric whose value only increases.
    pub(crate) fn counter(&self, options: Opts, value: f64) {
        if let Ok(counter) = Counter::with_opts(options) {
            counter.inc_by(value);
            let _ = self.registry.register(Box::new(counter));
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = Vec::new();
        // Encoding can't fail, because each metric has a name, a help text and a value.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        String::from_utf8(text).unwrap_or_default()
    }
}
