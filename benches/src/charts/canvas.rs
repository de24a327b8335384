//! What all charts share: colours, text, and files that suit light and dark pages.

use std::fs;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::Result;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(super) const PAPER: RGBColor = RGBColor(255, 255, 255);
pub(super) const INK: RGBColor = RGBColor(36, 41, 47);
pub(super) const GRID: RGBColor = RGBColor(208, 215, 222);
pub(super) const OURS: RGBColor = RGBColor(9, 105, 218);
pub(super) const OTHER: RGBColor = RGBColor(140, 149, 159);

/// Colours for lines, which people with any vision can tell apart; see Okabe and Ito.
const LINES: [(&str, RGBColor); 8] = [
    ("ours", OURS),
    ("floor", OTHER),
    ("rslock", RGBColor(213, 94, 0)),
    ("Redisson", RGBColor(0, 158, 115)),
    ("redsync", RGBColor(204, 121, 167)),
    ("rueidislock", RGBColor(190, 140, 0)),
    ("client", OURS),
    ("server", RGBColor(213, 94, 0)),
];

/// Dark pages swap paper, ink and grid.
const DARK: &str = "<style>@media (prefers-color-scheme: dark) { \
                    [fill=\"#FFFFFF\"] { fill: #0D1117 } [fill=\"#24292F\"] { fill: #E6EDF3 } \
                    [stroke=\"#24292F\"] { stroke: #E6EDF3 } [stroke=\"#D0D7DE\"] { stroke: #30363D } }</style>\n";

/// The colour of a line.
pub(super) fn line_colour(name: &str) -> RGBColor {
    LINES.iter().find(|(known, _)| *known == name).map_or(INK, |(_, colour)| *colour)
}

/// What plotters makes of a size of one.
const PLOTTERS_SIZE: f64 = 1.24;

/// Text of this size in pixels.
pub(super) fn font(size: i32) -> TextStyle<'static> {
    ("sans-serif", f64::from(size) * PLOTTERS_SIZE).into_font().color(&INK)
}

/// Text of this size, placed so.
pub(super) fn anchored(size: i32, horizontal: HPos) -> TextStyle<'static> {
    font(size).pos(Pos::new(horizontal, VPos::Center))
}

/// Writes a picture that `draw` fills.
///
/// # Errors
///
/// When it cannot be drawn, or the file cannot be written.
pub(super) fn picture(
    path: &Path,
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<()>,
) -> Result<()> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&PAPER)?;
        draw(&area)?;
        area.present()?;
    }
    let (head, rest) = svg.split_once('\n').ok_or("plotters wrote no picture")?;
    Ok(fs::write(path, format!("{head}\n{DARK}{rest}"))?)
}
