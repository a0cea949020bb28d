//! Where the pictures of `top` go: a terminal, in place, or anything else, one below the other.
//!
//! Contract: a picture never exceeds the terminal as large as it is at that moment, because a line that
//! wraps or scrolls would spoil the next one. Colours are for terminals whose user has not set NO_COLOR
//! (<https://no-color.org>).

use std::io::IsTerminal;

use twin_cli::say;
use twin_lab::segment_map::Look;

/// The width of pictures that go to no terminal.
const COLUMNS: usize = 80;

/// Where pictures go.
pub struct Screen {
    is_terminal: bool,
    colours: bool,
}

impl Screen {
    /// Standard output; `plain`: as text one below the other on a terminal too.
    pub fn of(plain: bool) -> Screen {
        let is_terminal = std::io::stdout().is_terminal() && !plain;
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Screen { is_terminal, colours: is_terminal && !no_colour }
    }

    /// How the next picture is drawn: the terminal may have another size by now.
    pub fn look(&self) -> Look {
        let columns = terminal_size::terminal_size().map_or(COLUMNS, |(width, _)| width.0.into());
        Look { columns, colours: self.colours, marked: None }
    }

    /// Shows a picture.
    ///
    /// # Errors
    /// If standard output fails.
    pub fn show(&self, picture: &str) -> Result<(), String> {
        if !self.is_terminal {
            return say(picture);
        }
        let size = terminal_size::terminal_size_of(std::io::stdout());
        let (columns, rows) = size
            .map_or((usize::MAX, usize::MAX), |(width, height)| (width.0.into(), height.0.into()));
        // The last row stays free for the cursor.
        let lines = picture.lines().take(rows.saturating_sub(1).max(1));
        // Home, the picture, and what was behind and below the last one goes.
        let lines: String =
            lines.map(|line| format!("{}\x1b[K\n", cropped(line, columns))).collect();
        say(format_args!("\x1b[H{}\x1b[J", lines.trim_end_matches('\n')))
    }
}

/// The first `columns` characters of a line, with the escape sequences between them.
fn cropped(line: &str, columns: usize) -> String {
    let (mut text, mut shown, mut in_escape) = (String::new(), 0, false);
    for c in line.chars() {
        if c == '\x1b' {
            in_escape = true;
        }
        if in_escape {
            text.push(c);
            in_escape = !c.is_ascii_alphabetic();
        } else if shown < columns {
            text.push(c);
            shown += 1;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_at_the_width_and_its_colours_end() {
        assert_eq!(cropped("abcdef", 4), "abcd");
        assert_eq!(
            cropped("ab\x1b[31mc\x1b[0m\x1b[33md\x1b[0m", 3),
            "ab\x1b[31mc\x1b[0m\x1b[33m\x1b[0m"
        );
        assert_eq!(cropped("", 3), "");
    }
}
