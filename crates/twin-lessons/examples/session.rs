//! A session at the terminal: a command in JSON a line, an answer a line.
//!
//! ```text
//! echo '{"do":"make","settings":"lfs:size=8M"}' | cargo run -p twin-lessons --example session
//! ```

use std::io::{self, BufRead, Write};

use twin_lessons::Session;

fn main() -> io::Result<()> {
    let mut session = Session::default();
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        writeln!(out, "{}", session.call(&line?))?;
    }
    Ok(())
}
