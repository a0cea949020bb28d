//! `cargo xtask nightly`: what is too long, or too much at the mercy of the clock, for every change.
//!
//! Contract: one door. Without arguments every part of [`PARTS`] runs in its turn, and the last line has
//! the totals; with the name of a part, that part alone, with its own arguments. A part that cannot run
//! counts as a failure and ends no other.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clock::Stopwatch;
use crate::totals::Totals;
use crate::{api, book, bucket, bugs, e2e, python, recipes, referee, soak, suite};

/// One part of the night.
pub(crate) struct Part {
    name: &'static str,
    about: &'static str,
    run: fn(&Path, &[String]) -> Result<Totals, String>,
}

/// The parts, in the order in which they run.
pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "tests",
        about: "the tests of all crates at their full length, on what users get",
        run: |root, words| no_more(words).and_then(|()| suite::long_tests(root)),
    },
    Part {
        name: "docs",
        about: "the documentation of the code, without a broken link",
        run: |root, words| no_more(words).and_then(|()| suite::docs(root)),
    },
    Part {
        name: "planted",
        about: "faults planted on purpose, each of which the campaigns must find",
        run: |root, words| no_more(words).and_then(|()| suite::planted(root)),
    },
    Part {
        name: "exhaustive",
        about: "[--layout L] [--length N] [--minutes N]: all workloads over few names, in all crashes",
        run: exhaustive,
    },
    Part {
        name: "bugs",
        about: "[NAME...]: bugs planted one at a time in a copy of the sources, which `exhaustive` must find",
        run: bugs::run,
    },
    Part {
        name: "golden",
        about: "the golden tables against the simulator; --accept rewrites them (say why in the commit)",
        run: golden,
    },
    Part {
        name: "e2e",
        about: "[OPTIONS] [NAME...]: all scenarios, or these, with the full sizes",
        run: |root, words| {
            e2e::parse(words, true).and_then(|options| suite::long_scenarios(root, &options))
        },
    },
    Part {
        name: "referee",
        about: "wrong models planted behind the reproductions of the papers, and their tallies",
        run: |root, words| no_more(words).and_then(|()| referee::run(root)),
    },
    Part {
        name: "soak",
        about: "[KIND] [--seeds A..B] [--minutes N]: more seeds than the tests; two minutes each",
        run: soak::night,
    },
    Part {
        name: "fuzz",
        about: "[--seconds N] [TARGET...]: every fuzz target once, a minute each by default",
        run: fuzz,
    },
    Part {
        name: "python",
        about: "the wheel for Python, installed into a fresh environment, with its tests, types and stubs",
        run: |root, words| no_more(words).and_then(|()| python::night(root)),
    },
    Part {
        name: "bucket",
        about: "volumes in a bucket of a server on this machine: kills, two writers, fsx, pjdfstest",
        run: |root, words| no_more(words).and_then(|()| bucket::night(root)),
    },
    Part {
        name: "recipes",
        about: "the recipes of docs/recipes, typed literally into a copy of the sources",
        run: |root, words| no_more(words).and_then(|()| recipes::run(root)),
    },
    Part {
        name: "api",
        about: "the public interface of the core against docs/api; --accept rewrites it (say why in the commit)",
        run: api::night,
    },
    Part {
        name: "book",
        about: "the book on one page, built and tried in a browser: every chapter, a crash, the keyboard alone",
        run: |root, words| no_more(words).and_then(|()| book::night(root)),
    },
    Part {
        name: "validate",
        about: "simulations against this machine's own file systems, as far as it has them",
        run: validate,
    },
];

/// The part that the first word names, with the words behind it, or all parts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    part: Option<usize>,
    words: Vec<String>,
}

/// Parses the words after `nightly`.
pub(crate) fn parse(words: &[String]) -> Result<Options, String> {
    let Some((name, words)) = words.split_first() else {
        return Ok(Options { part: None, words: Vec::new() });
    };
    let part = PARTS.iter().position(|part| part.name == *name);
    let names = || PARTS.iter().map(|part| part.name).collect::<Vec<_>>().join(", ");
    let part = part.ok_or_else(|| format!("nightly {name}: the parts are {}", names()))?;
    Ok(Options { part: Some(part), words: words.to_vec() })
}

/// The lines of the help on the parts.
pub(crate) fn help() -> String {
    let kinds = soak::KINDS.iter().map(|(name, _, _, about)| format!("      {name:<12} {about}\n"));
    let part = |part: &Part| format!("    {:<14} {}\n", part.name, part.about);
    let parts: String = PARTS.iter().map(part).collect();
    format!("the parts of nightly:\n{parts}\n    the kinds of soak:\n{}", kinds.collect::<String>())
}

/// Runs one part or all of them, and returns the totals.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Totals, String> {
    if let Some(part) = options.part {
        return (PARTS[part].run)(root, &options.words);
    }
    let (mut all, mut lines) = (Totals::default(), Vec::new());
    for part in PARTS {
        println!("\n==== {}", part.name);
        let watch = Stopwatch::start();
        let totals = (part.run)(root, &[]).unwrap_or_else(|error| {
            println!("{}: {error}", part.name);
            Totals::one(false)
        });
        lines.push(format!("{:<28} {totals}, {:.0} s", part.name, watch.seconds()));
        all += totals;
    }
    println!("\n==== summary\n{}", lines.join("\n"));
    Ok(all)
}

fn no_more(words: &[String]) -> Result<(), String> {
    words.first().map_or(Ok(()), |word| Err(format!("{word}: is not understood")))
}

/// The layouts of the exhaustive campaign, and how their volumes are made.
const EXHAUSTIVE: [(&str, &str); 4] = [
    ("lfs", "profile=modern"),
    ("ffs", "ordering=journal"),
    ("ffs", "ordering=sync"),
    ("ffs", "ordering=async"),
];

/// Runs the exhaustive campaign of each layout and ordering, or of one layout, a quarter of an hour each.
fn exhaustive(root: &Path, words: &[String]) -> Result<Totals, String> {
    let (mut layout, mut rest, mut limited) = (None, Vec::new(), false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        match word.as_str() {
            "--layout" if EXHAUSTIVE.iter().any(|(name, _)| name == value) => layout = Some(value),
            "--length" | "--minutes" if value.parse::<u64>().is_ok() => {
                limited |= word == "--minutes";
                rest.extend([word, value]);
            }
            _ => return Err(format!("{word} {value}: is not understood")),
        }
    }
    let mut totals = Totals::default();
    for (name, set) in EXHAUSTIVE.iter().filter(|(name, _)| layout.is_none_or(|l| l == name)) {
        let mut command = suite::cargo(root, &["run", "--quiet", "--release", "--locked"]);
        command.args(["-p", "twin-proof", "--example", "exhaustive", "--", "--coverage"]);
        command.args(["--layout", name, "--set", set]).args(&rest);
        if !limited {
            command.args(["--minutes", "15"]);
        }
        println!("\n{name}, {set}:");
        totals += suite::passes(command)?;
    }
    Ok(totals)
}

fn golden(root: &Path, words: &[String]) -> Result<Totals, String> {
    match words {
        [] => suite::golden(root, false),
        [accept] if accept == "--accept" => suite::golden(root, true),
        [word, ..] => Err(format!("{word}: is not understood")),
    }
}

/// Runs every target once, over its corpus and what it comes to; a crash ends the script with an error.
fn fuzz(root: &Path, words: &[String]) -> Result<Totals, String> {
    let (mut seconds, mut targets) = ("60".to_string(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => seconds.clone_from(words.next().ok_or("--seconds needs a value")?),
            option if option.starts_with('-') => {
                return Err(format!("{option}: is not understood"));
            }
            _ => targets.push(word),
        }
    }
    let mut command = Command::new(root.join("fuzz/run"));
    command.args(["--seconds", &seconds, "--rounds", "1"]).args(targets);
    suite::passes(command)
}

/// Compares this machine's file systems with their simulations. Errors are results and fail nothing: what
/// is tested is that it comes to its end.
fn validate(root: &Path, words: &[String]) -> Result<Totals, String> {
    let program: PathBuf = e2e::build(root)?;
    let dir = std::env::temp_dir().join(format!("twinfs-validate-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut command = Command::new(program);
    command.arg("validate").args(words).arg(&dir);
    let totals = suite::passes(command);
    std::fs::remove_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_part_is_named_with_its_arguments_and_none_means_all() {
        assert_eq!(parsed("").unwrap().part, None);
        let soak = parsed("soak crash --minutes 3").unwrap();
        assert_eq!(PARTS[soak.part.unwrap()].name, "soak");
        assert_eq!(soak.words, ["crash", "--minutes", "3"]);
        assert!(parsed("sleep").unwrap_err().contains("referee"));
    }

    #[test]
    fn arguments_that_a_part_does_not_have_are_refused() {
        let words = ["--loud".to_string()];
        for part in PARTS.iter().filter(|part| part.name != "validate") {
            assert!((part.run)(Path::new("."), &words).is_err(), "{}", part.name);
        }
    }
}
