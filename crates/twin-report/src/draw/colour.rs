//! The colours of charts: of configurations, of parts of a whole, and the patterns of lines.

/// A colour, and the pattern of its lines. Its classes are `f-NAME` (filled) and `s-NAME` (drawn).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    pub(super) name: &'static str,
    /// The pattern of lines: the number in [`DASHES`].
    dashes: usize,
}

const fn colour(name: &'static str) -> Colour {
    Colour { name, dashes: 0 }
}

/// Colours that people with colour blindness can distinguish (after Okabe and Ito).
pub const BLUE: Colour = colour("blue");
/// Sky blue.
pub const SKY: Colour = colour("sky");
/// Red.
pub const RED: Colour = colour("red");
/// Yellow.
pub const YELLOW: Colour = colour("yellow");
/// Green.
pub const GREEN: Colour = colour("green");
/// Pink.
pub const PINK: Colour = colour("pink");
/// Grey.
pub const GREY: Colour = colour("grey");

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
pub fn nth(number: usize) -> Colour {
    let dashes = (number / PALETTE.len()) % DASHES.len();
    Colour { dashes, ..PALETTE[number % PALETTE.len()] }
}

/// The colour of the part with this number.
pub fn part(number: usize) -> Colour {
    PARTS[number % PARTS.len()]
}

impl Colour {
    /// The same colour with dashed lines.
    pub const fn dashed(self) -> Colour {
        Colour { dashes: 1, ..self }
    }

    /// The attribute for a dashed line; nothing for a solid one.
    pub(super) fn dash(self) -> String {
        match DASHES[self.dashes] {
            "" => String::new(),
            dashes => format!(" stroke-dasharray=\"{dashes}\""),
        }
    }
}

/// A sample of a colour, for texts that name what is drawn in it.
pub fn swatch(colour: Colour) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 26 12\" aria-hidden=\"true\"><line x1=\"0\" x2=\"26\" \
         y1=\"6\" y2=\"6\" class=\"s-{}\" stroke-width=\"6\"{}/></svg>",
        colour.name,
        colour.dash()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::STYLE;

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
