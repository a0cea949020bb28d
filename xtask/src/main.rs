//! The project's own chores: `cargo xtask tidy`, `cargo xtask test`, `cargo xtask e2e`.
//!
//! Uses no crate of the project, so that it builds in seconds and can judge a tree that does
//! not build.

mod rust;
mod tidy;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy                  check the invariants that can be seen in the source
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["tidy"] => tree::Project::read(&tree::root()).map(|project| tidy::run(&project)),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok((passed, failed)) => {
            println!("\n{passed} passed, {failed} failed");
            ExitCode::from(u8::from(failed > 0))
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
