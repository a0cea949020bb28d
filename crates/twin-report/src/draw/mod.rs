//! Charts as inline SVG: lines, bars, histograms and maps, for every page in one style.
//!
//! Contract: a drawing is one `svg` element of a fixed width in its own units that
//! scales with its place, so that its text stays legible on a telephone. It needs no script, and
//! its colours are classes of the style of pages, which has values for light, dark and print. All
//! texts are escaped here. Values that are not finite are left out.

mod axes;
mod bars;
mod colour;
mod lines;
mod map;

pub use axes::Chart;
pub use bars::{Bar, Group, Span, Stack, bars, histogram, stacks};
pub use colour::{BLUE, Colour, GREEN, GREY, PINK, RED, SKY, YELLOW, nth, part, swatch};
pub use lines::{
    Distribution, Line, Scaled, distribution, distribution_of, fitted, lines, over_time,
    whole_lines,
};
pub use map::{Region, map};
