//! Draws a line chart as SVG.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::found::{Chart, Series};

const SIZE: (u32, u32) = (880, 420);
const FONT: (&str, i32) = ("sans-serif", 14);
const COLOURS: [RGBColor; 6] = [
    RGBColor(9, 105, 218),
    RGBColor(188, 76, 0),
    RGBColor(26, 127, 55),
    RGBColor(130, 80, 223),
    RGBColor(87, 96, 106),
    RGBColor(191, 57, 137),
];
/// The top of the chart is the largest value times `MARGIN`. The bottom is the smallest value
/// divided by `MARGIN`.
const MARGIN: f64 = 1.05;

/// Returns the chart as an element of an HTML page.
pub(super) fn drawn(chart: &Chart) -> String {
    let mut svg = String::new();
    let values = || chart.series.iter().flat_map(|series| series.values.iter().copied());
    let most = values().fold(0.0, f64::max) * MARGIN;
    let least = values().filter(|value| *value > 0.0).fold(most, f64::min) / MARGIN;
    let done = match chart.is_log {
        true => draw(chart, &mut svg, (least..most).log_scale()),
        false => draw(chart, &mut svg, 0.0..most),
    };
    match done {
        Ok(()) => format!("<p>{}</p>\n", svg.trim_end()),
        Err(reason) => format!("<p>{} can't be drawn: {reason}.</p>\n", chart.title),
    }
}

fn draw<Y>(chart: &Chart, svg: &mut String, scale: Y) -> Result<(), String>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let Chart { title, unit, places, series, .. } = chart;
    let refused = |error: &dyn std::fmt::Display| error.to_string();
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(|error| refused(&error))?;
    let last = places.len().saturating_sub(1) as f64;
    let mut frame = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(-0.2..last + 0.2, scale)
        .map_err(|error| refused(&error))?;
    let place = |at: &f64| match at.fract().abs() < 1e-6 {
        true => places.get(at.round() as usize).cloned().unwrap_or_default(),
        false => String::new(),
    };
    frame
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(places.len())
        .x_label_formatter(&place)
        .y_desc(unit)
        .label_style(FONT)
        .draw()
        .map_err(|error| refused(&error))?;
    for (Series { name, values }, colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let points = || values.iter().enumerate().map(|(nth, value)| (nth as f64, *value));
        let line = LineSeries::new(points(), colour.stroke_width(2)).point_size(3);
        frame
            .draw_series(line)
            .map_err(|error| refused(&error))?
            .label(name)
            .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    frame
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(FONT)
        .draw()
        .map_err(|error| refused(&error))?;
    area.present().map_err(|error| refused(&error))
}
