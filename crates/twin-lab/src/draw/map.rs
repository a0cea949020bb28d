//! The map of a volume: a cell for each region, in a stronger colour the more of it is in use.

use std::fmt::Write;

use twin_fs::{RegionState, SpaceMap};

use super::axes::{WIDTH, open};
use super::{Colour, figure};

/// The most cells that are drawn; a volume with more regions has several of them in a cell.
const MOST: usize = 3000;
/// Shades between empty and full.
const SHADES: usize = 8;
const LARGEST: f64 = 26.0;
const EDGE: f64 = 10.0;
const FIRST: f64 = 32.0;

/// The shade of a share: 0 for nothing, and otherwise 1 to [`SHADES`].
fn shade(share: f64) -> usize {
    if share <= 0.0 { 0 } else { ((share * SHADES as f64).ceil() as usize).clamp(1, SHADES) }
}

/// The map of a volume's space, in shades of a colour.
pub(crate) fn map(space: &SpaceMap, colour: Colour) -> String {
    let in_cell = space.regions.len().div_ceil(MOST).max(1);
    let cells: Vec<_> = space.regions.chunks(in_cell).collect();
    // Cells as large as a height of half the width allows.
    let room = WIDTH - 2.0 * EDGE;
    let side = (room * room * 0.5 / cells.len().max(1) as f64).sqrt().min(LARGEST);
    let columns = (room / side).floor().max(1.0) as usize;
    let side = (room / columns as f64).min(LARGEST);
    let inner = side - if side > 6.0 { 2.0 } else { 0.8 };
    let mut shades = vec![String::new(); SHADES + 1];
    let mut marked = String::new();
    for (at, cell) in cells.iter().enumerate() {
        let share = cell.iter().map(|region| region.used).sum::<f64>() / cell.len() as f64;
        let x = EDGE + (at % columns) as f64 * side;
        let y = FIRST + (at / columns) as f64 * side;
        let square = format!("M{x:.1} {y:.1}h{inner:.1}v{inner:.1}h-{inner:.1}z");
        shades[shade(share)] += &square;
        if cell.iter().any(|region| region.state == RegionState::BeingWritten) {
            marked += &square;
        }
    }
    let rows = cells.len().div_ceil(columns);
    let end = FIRST + rows as f64 * side;
    let used: f64 = space.regions.iter().map(|region| region.used).sum();
    let many = if in_cell > 1 { format!(", {in_cell} in a cell") } else { String::new() };
    let title = format!(
        "{} {}, {}% in use{many}",
        space.regions.len(),
        space.kind,
        figure(used * 100.0 / space.regions.len().max(1) as f64)
    );
    let mut out = open(&title, end + 30.0);
    for (shade, path) in shades.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        out += &cell(path, shade, colour);
    }
    if !marked.is_empty() {
        let _ = write!(out, "<path d=\"{marked}\" class=\"open\"/>");
    }
    key(&mut out, end + 20.0, colour, !marked.is_empty());
    out + "</svg>"
}

fn cell(path: &str, shade: usize, colour: Colour) -> String {
    if shade == 0 {
        return format!("<path d=\"{path}\" class=\"clean\"/>");
    }
    let opacity = 0.12 + 0.88 * (shade as f64 / SHADES as f64).powf(1.3);
    format!("<path d=\"{path}\" class=\"f-{}\" fill-opacity=\"{opacity:.2}\"/>", colour.name)
}

/// What the shades mean.
fn key(out: &mut String, y: f64, colour: Colour, has_marked: bool) {
    let square = |x: f64| format!("M{x:.0} {:.0}h12v12h-12z", y - 10.0);
    let text = |x: f64, words: &str| {
        format!("<text x=\"{x:.0}\" y=\"{y:.0}\" class=\"name\">{words}</text>")
    };
    *out += &cell(&square(EDGE), 0, colour);
    *out += &text(EDGE + 18.0, "empty");
    for shade in 1..=SHADES {
        *out += &cell(&square(EDGE + 52.0 + 13.0 * shade as f64), shade, colour);
    }
    *out += &text(EDGE + 68.0 + 13.0 * SHADES as f64, "full");
    if has_marked {
        let x = EDGE + 210.0;
        let _ = write!(out, "<path d=\"{}\" class=\"open\"/>", square(x));
        *out += &text(x + 18.0, "being written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::BLUE;
    use twin_fs::Region;

    fn space(used: &[f64]) -> SpaceMap {
        let region = |&used: &f64| Region { used, state: RegionState::Idle };
        SpaceMap { kind: "segments", regions: used.iter().map(region).collect() }
    }

    #[test]
    fn each_region_has_a_cell_in_the_shade_of_its_use() {
        let mut space = space(&[0.0, 0.01, 0.5, 1.0]);
        space.regions[1].state = RegionState::BeingWritten;
        let text = map(&space, BLUE);
        assert!(text.contains("4 segments, 37.8% in use"), "{text}");
        // Three cells and eight of the key are shaded.
        assert_eq!(text.matches("fill-opacity").count(), 3 + SHADES, "{text}");
        assert_eq!(text.matches("class=\"open\"").count(), 2, "a cell and its key");
        assert_eq!([0.0, 0.001, 0.125, 0.126, 1.0].map(shade), [0, 1, 1, 2, SHADES]);
    }

    #[test]
    fn a_volume_of_any_size_can_be_drawn() {
        for regions in [0, 1, 2999, 3001, 100_000] {
            let text = map(&space(&vec![1.0; regions]), BLUE);
            assert!(text.len() < 100_000 && !text.contains("NaN"), "{regions}");
            assert!(text.contains(&format!("{regions} segments")), "{regions}");
        }
    }
}
