//! Curves over a number of tasks, locks or processes; both axes are logarithmic.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{GRID, INK, anchored, font, line_colour, picture};
use crate::Result;

const SIZE: (u32, u32) = (760, 400);

/// A chart of curves.
pub(super) struct Curves {
    pub(super) title: &'static str,
    /// With units.
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) lines: Vec<Line>,
}

/// A curve.
pub(super) struct Line {
    pub(super) name: String,
    /// Sorted by the first number; both are above zero.
    pub(super) points: Vec<(f64, f64)>,
}

impl Curves {
    /// Draws it.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(super) fn draw(&self, path: &Path) -> Result<()> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let (low, high) = bounds(points().map(|point| point.1));
        let ((left, right), mut marks) = (bounds_of(points().map(|point| point.0)), Vec::new());
        marks.extend(points().map(|point| point.0));
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        picture(path, SIZE, |area| {
            area.draw(&Text::new(self.title, (16, 22), anchored(18, HPos::Left)))?;
            let (_, below) = area.split_vertically(40);
            let mut chart = ChartBuilder::on(&below)
                .margin(8)
                .margin_right(110)
                .x_label_area_size(44)
                .y_label_area_size(76)
                .build_cartesian_2d(
                    (left..right).log_scale().with_key_points(marks),
                    (low..high).log_scale(),
                )?;
            let mut mesh = chart.configure_mesh();
            mesh.bold_line_style(GRID).light_line_style(TRANSPARENT).axis_style(INK);
            mesh.label_style(font(13)).x_desc(self.x).y_desc(self.y).axis_desc_style(font(13));
            mesh.x_label_formatter(&short).y_label_formatter(&short);
            mesh.draw()?;
            let mut ends = Vec::new();
            for line in &self.lines {
                let colour = line_colour(&line.name);
                let style = colour.stroke_width(if line.name == "ours" { 3 } else { 2 });
                chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
                let dots = line.points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
                chart.draw_series(dots)?;
                if let Some(end) = line.points.last() {
                    ends.push((chart.backend_coord(end), line.name.as_str()));
                }
            }
            for (at, name) in apart(ends) {
                let colour = line_colour(name);
                let label = anchored(13, HPos::Left).color(&colour);
                area.draw(&Text::new(name, at, label))?;
            }
            Ok(())
        })
    }
}

/// Names beside the ends of their lines, moved apart where they would overlap.
fn apart(mut ends: Vec<((i32, i32), &str)>) -> Vec<((i32, i32), &str)> {
    const LINE: i32 = 16;
    ends.sort_by_key(|(at, _)| *at);
    let mut free = (i32::MIN, i32::MIN);
    for (at, _) in &mut ends {
        at.0 += 8;
        // Lines that end elsewhere are not in the way.
        if at.0 == free.0 {
            at.1 = at.1.max(free.1);
        }
        free = (at.0, at.1 + LINE);
    }
    ends
}

/// The powers of ten around these numbers.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = bounds_of(values);
    let low = 10_f64.powf(low.log10().floor());
    let high = 10_f64.powf(high.log10().ceil());
    if low < high { (low, high) } else { (low, 10.0 * low) }
}

fn bounds_of(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(low, high), value| (value.min(low), value.max(high)))
}

/// 64, 512, 4 k, 100 k, 1 M.
fn short(value: &f64) -> String {
    match *value {
        1e6.. => format!("{} M", value / 1e6),
        10_000.0.. => format!("{} k", value / 1e3),
        value => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_powers_of_ten() {
        assert_eq!(bounds([300.0, 42_000.0].into_iter()), (100.0, 100_000.0));
        assert_eq!(bounds([100.0].into_iter()), (100.0, 1000.0));
        assert_eq!(short(&100_000.0), "100 k");
    }

    #[test]
    fn names_do_not_overlap() {
        let ends = apart(vec![((0, 50), "b"), ((0, 45), "a"), ((90, 50), "c")]);
        assert_eq!(ends, [((8, 45), "a"), ((8, 61), "b"), ((98, 50), "c")]);
    }
}
