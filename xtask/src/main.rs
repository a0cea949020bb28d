//! The development tools of the project: `cargo xtask tidy`, `test`, `e2e`, `soak`, `golden`,
//! `referee`.
//!
//! They use no crate of the project, so that they build in seconds and can check a tree that does
//! not build.

mod clock;
mod e2e;
mod processes;
mod referee;
mod rust;
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

  tidy                      check the invariants that can be seen in the source
  test [OPTIONS]            run all tests: tidy, format, lints, docs, cargo test, end to end
  e2e [OPTIONS] [NAME...]   run the mounted program under real work; all scenarios or those named
  e2e --list                list the scenarios
  soak KIND [--seeds A..B] [--minutes N]
                            run more seeds than the tests do, for ten minutes by default;
                            a failure prints the command that repeats it. KIND is
                              crash   power failures at every write of random runs
                              full    volumes that are filled again and again
                              faults  failing disks under clients at work
                              images  damaged images, opened, walked and used
                              ffs     power failures of clustered volumes
                              ffs-reuse   clustered volumes short of space, failing in turn
                              lfs-reuse   the same on the log
                              ffs-images  damaged clustered volumes, used and repaired
                              lfs-repair  damaged logs, repaired, and power failures in it
                              ffs-repair  damaged FFS volumes, repaired, and power failures in it
                              traces  damaged traces and flight logs, replayed
  golden                    accept the present results of the simulator: rewrite the golden tables
                            (give the reason in the commit)
  referee                   plant wrong models behind the reproductions of the papers: each must be
                            found by a counted check of each paper that it concerns

options of test and e2e:
  --full          use the full sizes (about half an hour)
  --seed N        seed of random choices (default 1)
  --keep          keep images and logs
  --program PATH  test this twinfs, do not build it
  --loop          make volumes on loop devices instead of image files (as root)
  --mkfs WORDS    make volumes with these options, for example --layout ffs
";

/// The task on the command line.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    Tidy,
    Test(e2e::Options),
    EndToEnd(e2e::Options),
    List,
    Soak(soak::Options),
    Golden,
    Referee,
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
            eprint!("{why}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match perform(task) {
        Ok(totals) => {
            println!("\n{totals}");
            ExitCode::from(u8::from(totals.failed > 0))
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> Result<Totals, String> {
    let root = tree::root();
    match task {
        Task::Tidy => tree::Project::read(&root).map(|project| tidy::run(&project)),
        Task::Test(options) => Ok(suite::run(&root, &options)),
        Task::EndToEnd(options) => e2e::run(&root, &options),
        Task::Soak(options) => soak::run(&root, &options),
        Task::Golden => suite::golden(&root),
        Task::Referee => referee::run(&root),
        Task::List => {
            for scenario in e2e::SCENARIOS {
                println!("{:<10} {}", scenario.name, scenario.about);
            }
            Ok(Totals::default())
        }
    }
}

fn parse(words: &[String]) -> Result<Task, String> {
    let mut words = words.iter().map(String::as_str);
    if words.clone().next() == Some("soak") {
        let rest: Vec<&str> = words.skip(1).collect();
        return soak::parse(&rest).map(Task::Soak);
    }
    let task = words.next().ok_or("say what to do")?;
    let mut options = e2e::Options { seed: 1, ..e2e::Options::default() };
    let mut list = false;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word {
            "--full" => options.full = true,
            "--keep" => options.keep = true,
            "--loop" => options.on_loop = true,
            "--list" => list = true,
            "--seed" => {
                let text = value()?;
                let seed = text.parse();
                options.seed = seed.map_err(|_| format!("--seed {text}: must be a number"))?;
            }
            "--program" => {
                let path = std::path::absolute(value()?);
                options.program = Some(path.map_err(|error| format!("--program: {error}"))?);
            }
            "--mkfs" => {
                options.mkfs = value()?.split_whitespace().map(String::from).collect();
            }
            name if !name.starts_with('-') && task == "e2e" => options.names.push(name.into()),
            other => return Err(format!("{other}: is not understood")),
        }
    }
    match (task, list) {
        (plain @ ("tidy" | "golden" | "referee"), false)
            if options == (e2e::Options { seed: 1, ..Default::default() }) =>
        {
            Ok(match plain {
                "tidy" => Task::Tidy,
                "golden" => Task::Golden,
                _ => Task::Referee,
            })
        }
        ("test", false) => Ok(Task::Test(options)),
        ("e2e", false) => Ok(Task::EndToEnd(options)),
        ("e2e", true) => Ok(Task::List),
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
        assert_eq!(parsed("tidy"), Ok(Task::Tidy));
        let options = e2e::Options {
            names: vec!["git".into()],
            full: true,
            seed: 7,
            ..e2e::Options::default()
        };
        assert_eq!(parsed("e2e --full git --seed 7"), Ok(Task::EndToEnd(options)));
        assert_eq!(parsed("e2e --list"), Ok(Task::List));
        assert_eq!(parsed("golden"), Ok(Task::Golden));
        assert_eq!(parsed("referee"), Ok(Task::Referee));
        assert!(matches!(parsed("soak full --minutes 2"), Ok(Task::Soak(_))));
        assert!(matches!(parsed("test --keep"), Ok(Task::Test(options)) if options.keep));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, word) in [
            ("", "say what"),
            ("fly", "fly"),
            ("tidy --full", "tidy"),
            ("test git", "git"),
            ("golden --full", "golden"),
            ("soak the car", "the"),
            ("e2e --seed x", "x"),
            ("e2e --seed", "--seed"),
            ("e2e --fast", "--fast"),
        ] {
            assert!(parsed(line).unwrap_err().contains(word), "{line}");
        }
    }
}
