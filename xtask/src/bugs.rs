//! `cargo xtask nightly bugs`: bugs planted one at a time in a copy of the sources, each of which must be found within
//! two minutes of one processor: the first belongs to the exhaustive campaign, the second to the random ones, which
//! have what takes more than few names (clients side by side, the cleaner at work, space in use again).
//!
//! Contract: the sources that are built otherwise have none of these bugs, not even switched off. A copy of the tree
//! in the target directory gets all of them, each behind a switch that the environment throws, so that one build serves
//! for all. A bug whose place is not found any more is an error: the table follows the code. A bug that no campaign
//! finds is listed; more than one in twenty fail.

mod table;

use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use crate::totals::Totals;
use table::{BUGS, Bug, PATCHES};

/// Seconds of a processor that the exhaustive campaign has for a bug, and the random ones together.
const LIMIT_S: u32 = 60;
/// Seconds of a processor after which a campaign is taken for one that does not end. It is within the two minutes.
const HANG_S: u32 = 90;
/// SIGXCPU.
const XCPU: i32 = 24;
/// Bugs that are looked for at a time.
const AT_A_TIME: usize = 2;

/// What the copy's lowest crate gets: whether a bug is the one that is switched on.
const SWITCH: &str = "
/// Whether this planted bug is switched on.
pub fn bug(name: &str) -> bool {
    static ON: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    ON.get_or_init(|| std::env::var(\"TWINFS_BUG\").unwrap_or_default()) == name
}
";

/// Plants all bugs, or those named, and looks for each.
pub(crate) fn run(root: &Path, words: &[String]) -> Result<Totals, String> {
    if let Some(word) = words.iter().find(|word| !BUGS.iter().any(|bug| bug.name == **word)) {
        return Err(format!("{word}: there is no such bug"));
    }
    let tree = planted_tree(root)?;
    let programs = build(root, &tree)?;
    let wanted = |bug: &&Bug| words.is_empty() || words.iter().any(|word| word == bug.name);
    let rest: Mutex<Vec<&Bug>> = Mutex::new(BUGS.iter().filter(wanted).rev().collect());
    let found: Mutex<Vec<(&Bug, Option<f64>, String)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let next = rest.lock().ok().and_then(|mut rest| rest.pop());
                    let Some(bug) = next else { break };
                    let (seconds, how) = look_for(&programs, bug);
                    let line = row(bug, seconds, &how);
                    println!("{line}");
                    if let Ok(mut found) = found.lock() {
                        found.push((bug, seconds, how));
                    }
                }
            });
        }
    });
    let found = found.into_inner().map_err(|error| error.to_string())?;
    let caught = found.iter().filter(|(_, seconds, _)| seconds.is_some()).count();
    println!(
        "\n{caught} of {} planted bugs were found, each within {} s of a processor",
        found.len(),
        2 * LIMIT_S
    );
    let mut totals = Totals::default();
    // Survivors count as failures together, if there are too many of them.
    let few = (found.len() - caught) * 20 <= found.len();
    (0..caught).for_each(|_| totals += Totals::one(true));
    totals += Totals::one(few);
    Ok(totals)
}

fn row(bug: &Bug, seconds: Option<f64>, how: &str) -> String {
    let Bug { name, layout, about } = bug;
    match seconds {
        Some(seconds) => format!("| {name} | {layout} | {about} | {seconds:.1} s | {how} |"),
        None => format!("| {name} | {layout} | {about} | NOT FOUND | {how} |"),
    }
}

/// Looks for a bug with one campaign after the other. Gives how long it took to find it, and what found it.
fn look_for(programs: &Path, bug: &Bug) -> (Option<f64>, String) {
    let (layout, set) = bug.layout.split_once(' ').unwrap_or((bug.layout, ""));
    let (found, how) = exhaustively(programs, bug, layout, set);
    if found.is_some() {
        return (found, how);
    }
    let kinds: &[&str] =
        if layout == "lfs" { &["lfs-reuse", "crash"] } else { &["ffs-reuse", "ffs"] };
    let mut spent = f64::from(LIMIT_S);
    for kind in kinds {
        let share = LIMIT_S / kinds.len() as u32;
        match randomly(programs, bug, kind, set, share) {
            (Some(seconds), how) => return (Some(spent + seconds), how),
            (None, why) if why.is_empty() => spent += f64::from(share),
            (None, why) => return (None, why),
        }
    }
    (None, "the campaigns ended without a violation".into())
}

/// A program that is ended when it has used so much of a processor that it cannot come back to look at its own limit: with
/// some bugs a volume works for ever, which is a way to be found.
fn limited(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -t \"$0\" && exec \"$@\"", &HANG_S.to_string()]).arg(program);
    command
}

/// Runs the exhaustive campaign with a bug. Gives how long it took to find it, and the workload that did.
fn exhaustively(programs: &Path, bug: &Bug, layout: &str, set: &str) -> (Option<f64>, String) {
    let set = if set.is_empty() { "profile=modern" } else { set };
    let output = limited(&programs.join("exhaustive"))
        .args(["--layout", layout, "--set", set, "--violations", "1", "--threads", "1"])
        .args(["--processor-seconds", &LIMIT_S.to_string(), "--interrupt-every", "4"])
        .env("TWINFS_BUG", bug.name)
        .stderr(Stdio::null())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return (None, error.to_string()),
    };
    if output.status.signal() == Some(XCPU) {
        return (Some(f64::from(HANG_S)), "a workload that does not end".into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let workload = text.lines().find_map(|line| line.split("workload=").nth(1));
    let how = workload.and_then(|rest| rest.split(',').next());
    // A campaign that cannot even begin has found the bug too.
    match (output.status.success(), how) {
        (true, _) => (None, String::new()),
        (false, how) => {
            let took = text.lines().rev().find_map(|line| line.strip_suffix(" s of processors"));
            let took = took.and_then(|line| line.rsplit(' ').next()?.parse().ok());
            (Some(took.unwrap_or(0.0)), how.unwrap_or("the volume itself").into())
        }
    }
}

/// Runs a random campaign with a bug for at most `limit_s` seconds of a processor. Gives how long it took to find
/// it, and the seed that did; without it, why the campaign could not be run, or nothing.
fn randomly(
    programs: &Path,
    bug: &Bug,
    kind: &str,
    set: &str,
    limit_s: u32,
) -> (Option<f64>, String) {
    let seeds = if set.is_empty() { "1..100000".into() } else { format!("1..100000,{set}") };
    // The kernel's limit ends the campaign wherever it is, and counts what the processor did.
    let limited = format!("ulimit -t {limit_s}; \"$@\"; code=$?; times; exit $code");
    let output = Command::new("bash")
        .args(["-c", &limited, "bash"])
        .arg(programs.join("campaign"))
        .args([kind, "--first", &seeds])
        .env("TWINFS_BUG", bug.name)
        .stderr(Stdio::null())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return (None, format!("bash: {error}")),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let seed =
        text.lines().find(|line| line.contains("FAILED:")).and_then(|line| line.split(' ').nth(1));
    let took = text.lines().next_back().and_then(user_seconds);
    match seed {
        Some(seed) => (Some(took.unwrap_or(0.0)), format!("{kind}, seed {seed}")),
        None => (None, String::new()),
    }
}

/// The seconds of the first time in a line of the shell's `times` (`0m12.345s 0m0.1s`).
fn user_seconds(line: &str) -> Option<f64> {
    let (minutes, seconds) = line.split_whitespace().next()?.split_once('m')?;
    let (minutes, seconds): (f64, f64) =
        (minutes.parse().ok()?, seconds.strip_suffix('s')?.parse().ok()?);
    Some(minutes * 60.0 + seconds)
}

/// A copy of the sources with all bugs in it.
fn planted_tree(root: &Path) -> Result<PathBuf, String> {
    let tree = root.join("target/bugs/tree");
    let text = |error: std::io::Error| format!("{}: {error}", tree.display());
    crate::tree::copy_to(root, &tree)?;
    for (file, old, new) in PATCHES {
        let path = tree.join(file);
        let was = std::fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
        if was.matches(old).count() != 1 {
            let count = was.matches(old).count();
            return Err(format!("{file} has this {count} times, and a bug belongs there:\n{old}"));
        }
        let new = new.replace("bug(\"", "twin_rt::bug(\"");
        std::fs::write(&path, was.replace(old, &new)).map_err(text)?;
    }
    let lowest = tree.join("crates/twin-rt/src/lib.rs");
    let mut lib = std::fs::read_to_string(&lowest).map_err(text)?;
    let _ = write!(lib, "{SWITCH}");
    std::fs::write(&lowest, lib).map_err(text)?;
    Ok(tree)
}

/// Builds the campaigns from the copy, and returns the directory that they are in.
fn build(root: &Path, tree: &Path) -> Result<PathBuf, String> {
    let target = root.join("target/bugs/build");
    let mut command = crate::suite::cargo(tree, &["build", "--profile", "quick", "--locked"]);
    command.args(["-p", "twin-proof", "--example", "exhaustive", "--example", "campaign"]);
    // Warnings of code that a switch makes unusual say nothing.
    command.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", "-Awarnings");
    let status = command.status().map_err(|error| format!("cargo: {error}"))?;
    match status.success() {
        true => Ok(target.join("quick/examples")),
        false => Err("the sources with the bugs do not build".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_time_of_a_campaign_is_read_from_the_shells_words() {
        assert_eq!(user_seconds("2m3.250s 0m0.010s"), Some(123.25));
        assert_eq!(user_seconds("seed 7: fine"), None);
    }

    #[test]
    fn each_bug_has_one_switch_and_each_switch_a_bug() {
        let mut switches = BTreeSet::new();
        for (_, _, new) in PATCHES {
            for rest in new.split("bug(\"").skip(1) {
                let name = rest.split('"').next().unwrap_or_default();
                assert!(switches.insert(name), "{name} twice");
            }
        }
        let names: BTreeSet<&str> = BUGS.iter().map(|bug| bug.name).collect();
        assert_eq!(names, switches);
        assert_eq!(names.len(), BUGS.len());
        assert!(BUGS.len() >= 50, "{}", BUGS.len());
    }

    #[test]
    fn the_place_of_each_bug_is_in_the_sources_once() {
        let root = crate::tree::root();
        let mut texts = std::collections::BTreeMap::new();
        for (file, old, new) in PATCHES {
            let text = texts
                .entry(*file)
                .or_insert_with(|| std::fs::read_to_string(root.join(file)).unwrap_or_default());
            assert_eq!(text.matches(old).count(), 1, "{file}: {old}");
            *text = text.replace(old, new);
        }
    }
}
