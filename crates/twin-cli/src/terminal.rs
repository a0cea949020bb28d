//! The terminal on which results are printed.

/// Characters of a line of the terminal; none if standard output is no terminal.
pub fn terminal_width() -> Option<u16> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0)
}
