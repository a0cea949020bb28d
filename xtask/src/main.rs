//! The development tools of the project: `cargo xtask tidy`, `rooms`, `test`, `e2e`, `bucket`, `wheel`, `book`, `profile`, `nightly`.
//!
//! They use no crate of the project, so that they build in seconds and can check a tree that does
//! not build.

mod api;
mod book;
mod bucket;
mod bugs;
mod cargo;
mod clock;
mod e2e;
mod nightly;
mod object_server;
mod package;
mod processes;
mod profile;
mod python;
mod recipes;
mod referee;
mod rust;
mod skeleton;
mod soak;
mod suite;
mod tidy;
mod totals;
mod tree;

use std::path::Path;
use std::process::ExitCode;

use totals::Totals;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy [--write]            check the invariants that can be seen in the source; --write enters the
                            drawing of the rooms and what is left of the words that are going
  rooms                     draw the rooms: crates, and which of them each uses
  test [OPTIONS]            all that a change must pass: tidy, format, lints, docs, tests, end to end
  e2e [OPTIONS] [NAME...]   run the mounted program under real work; all scenarios or those named
  e2e --list                list the scenarios
  bucket                    build the program for volumes in buckets: target/bucket/release/twinfs-bucket
  wheel                     build the package for Python: target/wheels/*.whl
  book                      build the book on one page: target/book/twinfs.html
  package [--static]        build the package for Debian, or programs that need no library: target/package
  skeleton NAME             write crates/NAME, a file system with holes for a course: docs/recipes/build-your-own.md
  profile [--instructions] [--program PATH]
                            where the time of an operation goes, by room, for six loads (perf), or the
                            instructions of the simulated ones (callgrind)
  nightly [PART [ARGUMENTS]]
                            what is too long for every change, or measures time: all or one part

options of test and e2e:
  --seed N        seed of random choices (default 1)
  --keep          keep images and logs
  --program PATH  test this twinfs, do not build it
  --bucket S3     make volumes in this bucket (s3://BUCKET; the program must be that of `bucket`)
  --loop          make volumes on loop devices instead of image files (as root)
  --mkfs WORDS    make volumes with these options, for example --layout ffs

";

/// The task on the command line.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    Tidy { write: bool },
    Rooms,
    Test(e2e::Options),
    EndToEnd(e2e::Options),
    List,
    Bucket,
    Wheel,
    Book,
    Package { without_libraries: bool },
    Skeleton(String),
    Profile(profile::Options),
    Nightly(nightly::Options),
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // The second process of an end-to-end run, see `e2e::janitor`.
    if let [command, dir, keep] = &words[..]
        && command == e2e::janitor::COMMAND
    {
        e2e::janitor::watch(Path::new(dir), keep == "keep");
        return ExitCode::SUCCESS;
    }
    let task = match parse(&words) {
        Ok(task) => task,
        Err(why) => {
            eprint!("{why}\n\n{USAGE}{}", nightly::help());
            return ExitCode::from(2);
        }
    };
    match perform(task) {
        Ok(Some(totals)) => {
            println!("\n{totals}");
            ExitCode::from(u8::from(totals.failed > 0))
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Performs a task; `None` for tasks that test nothing.
fn perform(task: Task) -> Result<Option<Totals>, String> {
    let root = tree::root();
    match task {
        Task::Tidy { write: false } => {
            tree::Project::read(&root).map(|project| Some(tidy::run(&project)))
        }
        Task::Tidy { write: true } => {
            tidy::write(&root, &tree::Project::read(&root)?)?;
            tree::Project::read(&root).map(|project| Some(tidy::run(&project)))
        }
        Task::Rooms => {
            print!("{}", tidy::drawing(&tree::Project::read(&root)?));
            Ok(None)
        }
        Task::Test(options) => Ok(Some(suite::run(&root, &options))),
        Task::EndToEnd(options) => e2e::run(&root, &options).map(Some),
        Task::Bucket => {
            println!("{}", bucket::build(&root)?.display());
            Ok(None)
        }
        Task::Wheel => {
            println!("{}", python::wheel(&root)?.display());
            Ok(None)
        }
        Task::Book => {
            println!("{}", book::page(&root)?.display());
            Ok(None)
        }
        Task::Package { without_libraries } => {
            let build =
                if without_libraries { package::without_libraries } else { package::debian };
            println!("{}", build(&root)?.display());
            Ok(None)
        }
        Task::Skeleton(name) => {
            println!("{}", skeleton::write(&root, &name)?);
            Ok(None)
        }
        Task::Profile(options) => profile::run(&root, &options).map(|()| None),
        Task::Nightly(options) => nightly::run(&root, &options).map(Some),
        Task::List => {
            for scenario in e2e::SCENARIOS {
                println!("{:<10} {}", scenario.name, scenario.about);
            }
            Ok(None)
        }
    }
}

fn parse(words: &[String]) -> Result<Task, String> {
    let (task, words) = words.split_first().ok_or("say what to do")?;
    match (task.as_str(), words) {
        ("tidy", []) => Ok(Task::Tidy { write: false }),
        ("tidy", [write]) if write == "--write" => Ok(Task::Tidy { write: true }),
        ("rooms", []) => Ok(Task::Rooms),
        ("bucket", []) => Ok(Task::Bucket),
        ("wheel", []) => Ok(Task::Wheel),
        ("book", []) => Ok(Task::Book),
        ("package", []) => Ok(Task::Package { without_libraries: false }),
        ("package", [word]) if word == "--static" => Ok(Task::Package { without_libraries: true }),
        ("skeleton", [name]) => Ok(Task::Skeleton(name.clone())),
        ("profile", words) => profile::parse(words).map(Task::Profile),
        ("e2e", [list]) if list == "--list" => Ok(Task::List),
        ("e2e", words) => e2e::parse(words, false).map(Task::EndToEnd),
        ("test", words) => {
            let options = e2e::parse(words, false)?;
            match options.names.first() {
                Some(name) => Err(format!("test {name}: is not understood")),
                None => Ok(Task::Test(options)),
            }
        }
        ("nightly", words) => nightly::parse(words).map(Task::Nightly),
        _ => Err(format!("{task}: there is no such command, or not with these options")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn commands_and_options_are_understood() {
        assert_eq!(parsed("tidy"), Ok(Task::Tidy { write: false }));
        assert_eq!(parsed("tidy --write"), Ok(Task::Tidy { write: true }));
        assert_eq!(parsed("rooms"), Ok(Task::Rooms));
        assert!(matches!(parsed("profile --instructions"), Ok(Task::Profile(_))));
        let options = e2e::Options { names: vec!["git".into()], seed: 7, ..Default::default() };
        assert_eq!(parsed("e2e git --seed 7"), Ok(Task::EndToEnd(options)));
        assert_eq!(parsed("e2e --list"), Ok(Task::List));
        assert!(matches!(parsed("nightly soak full --minutes 2"), Ok(Task::Nightly(_))));
        assert!(matches!(parsed("test --keep"), Ok(Task::Test(options)) if options.keep));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, word) in [
            ("", "say what"),
            ("fly", "fly"),
            ("tidy --full", "tidy"),
            ("test git", "git"),
            ("nightly fly", "fly"),
            ("e2e --seed x", "x"),
            ("e2e --seed", "--seed"),
            ("e2e --fast", "--fast"),
        ] {
            assert!(parsed(line).unwrap_err().contains(word), "{line}");
        }
    }
}
