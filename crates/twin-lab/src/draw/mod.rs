//! Charts as inline SVG: lines, bars, histograms and maps, for every page in one style.
//!
//! Contract: a drawing is one `svg` element of a fixed width in its own units that
//! scales with its place, so that its text stays legible on a telephone. It needs no script, and
//! its colours are classes of [`STYLE`], which has values for light, dark and print. All texts are
//! escaped here. Values that are not finite are left out.

mod axes;
mod bars;
mod lines;
mod map;
mod style;

pub(crate) use axes::Chart;
pub(crate) use bars::{Bar, Group, Span, Stack, bars, histogram, stacks};
pub(crate) use lines::{
    Distribution, Line, Scaled, distribution, distribution_of, lines, over_time,
};
pub(crate) use map::map;
pub(crate) use style::STYLE;

/// A colour, and the pattern of its lines. Its classes are `f-NAME` (filled) and `s-NAME` (drawn).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Colour {
    name: &'static str,
    /// The pattern of lines: the number in [`DASHES`].
    dashes: usize,
}

const fn colour(name: &'static str) -> Colour {
    Colour { name, dashes: 0 }
}

/// Colours that people with colour blindness can distinguish (after Okabe and Ito).
pub(crate) const BLUE: Colour = colour("blue");
pub(crate) const SKY: Colour = colour("sky");
pub(crate) const RED: Colour = colour("red");
pub(crate) const YELLOW: Colour = colour("yellow");
pub(crate) const GREEN: Colour = colour("green");
pub(crate) const PINK: Colour = colour("pink");
pub(crate) const GREY: Colour = colour("grey");

const PALETTE: [Colour; 7] = [BLUE, RED, GREEN, PINK, YELLOW, SKY, GREY];

/// The colours of parts of a whole, which differ from those of [`nth`] (after Tol's muted scheme).
const PARTS: [Colour; 10] = [
    colour("p0"),
    colour("p1"),
    colour("p2"),
    colour("p3"),
    colour("p4"),
    colour("p5"),
    colour("p6"),
    colour("p7"),
    colour("p8"),
    colour("p9"),
];

/// Patterns of lines: lines beyond the palette have its colours again and a pattern each.
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// The colour of the configuration with this number.
pub(crate) fn nth(number: usize) -> Colour {
    let dashes = (number / PALETTE.len()) % DASHES.len();
    Colour { dashes, ..PALETTE[number % PALETTE.len()] }
}

/// The colour of the part with this number.
pub(crate) fn part(number: usize) -> Colour {
    PARTS[number % PARTS.len()]
}

impl Colour {
    /// The same colour with dashed lines.
    pub(crate) const fn dashed(self) -> Colour {
        Colour { dashes: 1, ..self }
    }

    /// The attribute for a dashed line; nothing for a solid one.
    fn dash(self) -> String {
        match DASHES[self.dashes] {
            "" => String::new(),
            dashes => format!(" stroke-dasharray=\"{dashes}\""),
        }
    }
}

/// A sample of a colour, for texts that name what is drawn in it.
pub(crate) fn swatch(colour: Colour) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 26 12\" aria-hidden=\"true\"><line x1=\"0\" x2=\"26\" \
         y1=\"6\" y2=\"6\" class=\"s-{}\" stroke-width=\"6\"{}/></svg>",
        colour.name,
        colour.dash()
    )
}

/// A figure with two or three significant digits; whole numbers from 10 on as such.
pub fn figure(x: f64) -> String {
    match x.abs() {
        a if a >= 10.0 && a.fract() == 0.0 => format!("{x:.0}"),
        a if a >= 100.0 => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        a if a < 0.1 => {
            let long = format!("{x:.3}");
            long.strip_suffix('0').map_or(long.clone(), str::to_owned)
        }
        _ => format!("{x:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_matter() {
        let texts = [0.0, 0.05, 0.053, 0.64, 12.0, 12.34, 456.7].map(figure);
        assert_eq!(texts, ["0.00", "0.05", "0.053", "0.64", "12", "12.3", "457"]);
    }

    #[test]
    fn every_colour_has_its_classes_in_the_style() {
        for colour in PALETTE {
            assert!(STYLE.contains(&format!(".s-{}{{", colour.name)), "{colour:?}");
            assert!(STYLE.contains(&format!(".f-{}{{", colour.name)), "{colour:?}");
        }
        for colour in PARTS {
            assert!(STYLE.contains(&format!(".f-{}{{", colour.name)), "{colour:?}");
            // Once for light and once for dark.
            assert_eq!(STYLE.matches(&format!("--{}:", colour.name)).count(), 2, "{colour:?}");
        }
    }

    #[test]
    fn lines_beyond_the_palette_differ_in_their_pattern() {
        let all: Vec<Colour> = (0..28).map(nth).collect();
        for (i, colour) in all.iter().enumerate() {
            assert!(!all[..i].contains(colour), "{i}");
        }
    }
}
