//! docs/tutorial.md: what it shows is what the commands print.
//!
//! A block marked `console` has commands behind `$ ` and what they print on standard output; `...` stands for any
//! lines. They run in one directory, in their order. Blocks marked otherwise show what only a person's own machine
//! prints, and do not run. TWIN_BLESS=1 writes what the commands print into the page, all lines of it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A command, and the lines that it should print.
struct Step {
    command: String,
    expected: Vec<String>,
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial.md")
}

/// The pieces of the page: text as it is, or the steps of a block.
fn pieces(text: &str) -> Vec<Result<String, Vec<Step>>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("```console\n") {
        let (block, after) = behind.split_once("```\n").expect("a block has an end");
        pieces.extend([Ok(before.to_string()), Err(steps(block))]);
        rest = after;
    }
    pieces.push(Ok(rest.to_string()));
    pieces
}

/// What a command ends in whose input are the next lines, to the line END.
const HERE: &str = "<<'END'";

fn steps(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for line in block.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => {
                steps.push(Step { command: command.into(), expected: Vec::new() });
                goes_on = command.ends_with('\\') || command.ends_with(HERE);
            }
            (None, Some(step)) if goes_on => {
                step.command += &format!("\n{line}");
                goes_on = line.ends_with('\\') || step.command.contains(HERE) && line != "END";
            }
            (None, Some(step)) => step.expected.push(line.into()),
            (None, None) => panic!("a block begins with a command: {line}"),
        }
    }
    steps
}

/// True if the lines are as expected, where `...` stands for any.
fn matches(expected: &[String], lines: &[&str]) -> bool {
    match expected.split_first() {
        None => lines.is_empty(),
        Some((any, others)) if any == "..." => {
            (0..=lines.len()).any(|skipped| matches(others, &lines[skipped..]))
        }
        Some((line, others)) => {
            lines.first() == Some(&line.as_str()) && matches(others, &lines[1..])
        }
    }
}

#[test]
fn the_commands_of_the_tutorial_print_what_it_shows() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tutorial");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    std::fs::copy(traces.join("libgit2-build.tw"), dir.join("work.tw")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_twinfs")).parent().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.display());
    let text = std::fs::read_to_string(page()).unwrap();
    let bless = std::env::var_os("TWIN_BLESS").is_some();
    let (mut written, mut count) = (String::new(), 0);
    for piece in pieces(&text) {
        let steps = match piece {
            Ok(text) => {
                written += &text;
                continue;
            }
            Err(steps) => steps,
        };
        written += "```console\n";
        for Step { command, expected } in steps {
            let mut shell = Command::new("sh");
            let out = shell.args(["-c", &command]).current_dir(&dir).env("PATH", &path).output();
            let out = out.unwrap();
            let said = String::from_utf8(out.stdout).unwrap();
            let lines: Vec<&str> = said.lines().map(str::trim_end).collect();
            let failed = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(
                bless || matches(&expected, &lines),
                "$ {command}\n{said}\n{failed}\nexpected:\n{}",
                expected.join("\n")
            );
            written += &format!(
                "$ {command}\n{}",
                lines.iter().map(|l| format!("{l}\n")).collect::<String>()
            );
            count += 1;
        }
        written += "```\n";
    }
    assert!(count >= 5, "{count} commands ran");
    if bless {
        std::fs::write(page(), written).unwrap();
    }
    let _ = std::fs::remove_dir_all(&dir);
}
