//! Bars beside each other.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{GRID, OTHER, OURS, anchored, picture};
use crate::Result;

const WIDTH: i32 = 760;
const LEFT: i32 = 130;
const RIGHT: i32 = 110;
const TOP: i32 = 64;
const BAR: i32 = 22;
const GROUP: i32 = 34;
const BOTTOM: i32 = 16;

/// A chart of groups of bars.
pub(super) struct Bars {
    pub(super) title: &'static str,
    /// What a bar shows, with its unit and which direction is better.
    pub(super) subtitle: String,
    /// Whether each step along a bar is a factor.
    pub(super) logarithmic: bool,
    pub(super) groups: Vec<Group>,
}

/// Bars below a heading.
pub(super) struct Group {
    /// Empty for none.
    pub(super) heading: String,
    pub(super) bars: Vec<Bar>,
}

/// A bar and the text at its end.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) text: String,
}

impl Bars {
    /// Draws it.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(super) fn draw(&self, path: &Path) -> Result<()> {
        let heads = self.groups.iter().filter(|group| !group.heading.is_empty()).count() as i32;
        let bars: usize = self.groups.iter().map(|group| group.bars.len()).sum();
        let height = TOP + heads * GROUP + bars as i32 * BAR + BOTTOM;
        picture(path, (WIDTH as u32, height as u32), |area| {
            area.draw(&Text::new(self.title, (16, 22), anchored(18, HPos::Left)))?;
            area.draw(&Text::new(self.subtitle.as_str(), (16, 46), anchored(13, HPos::Left)))?;
            let mut y = TOP;
            for group in &self.groups {
                if !group.heading.is_empty() {
                    let at = (16, y + GROUP / 2 + 4);
                    area.draw(&Text::new(group.heading.as_str(), at, anchored(14, HPos::Left)))?;
                    y += GROUP;
                }
                let (top, bottom) = (y, y + group.bars.len() as i32 * BAR);
                area.draw(&PathElement::new(vec![(LEFT, top), (LEFT, bottom)], GRID))?;
                for bar in &group.bars {
                    let colour = if bar.name == "ours" { OURS } else { OTHER };
                    let (middle, end) = (y + BAR / 2, LEFT + self.length(bar.value));
                    let name = anchored(13, HPos::Right);
                    area.draw(&Text::new(bar.name.as_str(), (LEFT - 8, middle), name))?;
                    let corners = [(LEFT, y + 3), (end, y + BAR - 3)];
                    area.draw(&Rectangle::new(corners, colour.filled()))?;
                    let text = anchored(13, HPos::Left);
                    area.draw(&Text::new(bar.text.as_str(), (end + 6, middle), text))?;
                    y += BAR;
                }
            }
            Ok(())
        })
    }

    /// The length of a bar, in pixels.
    fn length(&self, value: f64) -> i32 {
        let values = || self.groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value);
        let most = values().fold(f64::MIN_POSITIVE, f64::max);
        let part = if self.logarithmic {
            // From the power of ten below half the smallest bar, so that every bar has a length.
            let least = 10_f64.powf((values().fold(most, f64::min) / 2.0).log10().floor());
            (value / least).log10() / (most / least).log10()
        } else {
            value / most
        };
        (part.clamp(0.0, 1.0) * f64::from(WIDTH - LEFT - RIGHT)).round() as i32
    }
}
