//! A mount is observed: by `mount --observe` for as long as it lives, and by `stat --observe` for a while.
//! What both say of the operations agrees with what the mount counts itself, and with a simulation of the
//! recorded operations, verb by verb.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use crate::clock::pause_ms;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "observers",
    about: "a mount is observed by the observers of simulations: the same counts in both",
    limit_s: (60, 120),
    run,
};

/// Operations by verb, from the rows of the whole run of the observer of latencies.
type Counts = BTreeMap<String, u64>;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let mut said = Vec::new();
    for layout in ["lfs", "ffs"] {
        said.push(format!("{layout}: {}", of_layout(bench, layout)?));
    }
    Ok(said.join("; "))
}

fn of_layout(bench: &Bench, layout: &str) -> Result<String, String> {
    let mut volume = Volume::make_of(bench, layout, "256M")?;
    let (day, file) = (bench.dir.join(format!("{layout}.tw")), bench.dir.join("observed.csv"));
    for path in [&day, &file] {
        let _ = fs::remove_file(path);
    }
    let word = |path: &Path| path.to_str().map(str::to_owned).ok_or("the path is not UTF-8");
    let (day_word, file_word) = (word(&day)?, word(&file)?);
    let options = ["--record", &day_word, "--observe", "all", "--every", "200ms", "--observed"];
    volume.set_options(&[&options[..], &[&file_word]].concat());
    volume.mount()?;
    work(volume.dir(), "a").map_err(|error| format!("the work: {error}"))?;
    let of_while = for_a_while(bench, &volume)?;
    let counted = operations(bench, volume.dir())?;
    volume.umount_and_check()?;
    let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
    let whole = counts(&text);
    let all = whole.get("all").copied().unwrap_or(0);
    // What unmounting does comes after the question.
    if all < counted || all > counted + 20 {
        return Err(format!("{all} operations were observed, and {counted} counted"));
    }
    let intervals = text.lines().filter(|line| line.contains(",interval,")).count();
    if intervals < 10 {
        return Err(format!("only {intervals} rows of intervals in {file_word}"));
    }
    let mut compare = Command::new(&bench.program);
    compare.args(["compare", layout, "--observe", "latencies", "--format", "csv", "-t"]).arg(&day);
    let simulated = counts(&bench.run(&mut compare)?);
    if simulated != whole {
        return Err(format!("on the mount {whole:?}, in the simulation {simulated:?}"));
    }
    Ok(format!("{all} operations of {} verbs in both worlds, {of_while}", whole.len() - 1))
}

/// `stat --observe` beside work: its operations are those that the mount counts meanwhile.
fn for_a_while(bench: &Bench, volume: &Volume<'_>) -> Result<String, String> {
    let told = |error: std::io::Error| error.to_string();
    let mut stat = Command::new(&bench.program);
    stat.args(["stat", "--observe", "all", "--every", "500ms", "--times", "4", "--format", "csv"]);
    let child = stat.arg(volume.dir()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.map_err(told)?;
    pause_ms(700);
    let before = operations(bench, volume.dir())?;
    work(volume.dir(), "b").map_err(|error| format!("the work: {error}"))?;
    let after = operations(bench, volume.dir())?;
    let output = child.wait_with_output().map_err(told)?;
    if !output.status.success() {
        return Err(format!("stat --observe: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    for observer in ["seek-distance", "rotational-delay", "transfers", "bus-use"] {
        if !said.contains(&format!("{observer}: not on a mount:")) {
            return Err(format!("it does not say that {observer} is not seen: {said}"));
        }
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let seen = counts(&text).get("all").copied().unwrap_or(0);
    // Between the two questions is a part of what it has seen.
    if seen < after - before {
        return Err(format!("{seen} operations were seen of {}", after - before));
    }
    for observer in ["queue-length", "response-times", "idle-periods", "cache-state", "at-risk"] {
        if !text.contains(&format!("{observer},")) {
            return Err(format!("nothing of {observer}"));
        }
    }
    Ok(format!("{seen} of them seen by stat"))
}

/// The operations that a mount has counted.
fn operations(bench: &Bench, dir: &Path) -> Result<u64, String> {
    let answer = bench.run(Command::new(&bench.program).args(["stat", "--json"]).arg(dir))?;
    let answer: serde_json::Value =
        serde_json::from_str(&answer).map_err(|error| error.to_string())?;
    let figures = &answer[0]["figures"]["operations"];
    figures.as_u64().ok_or_else(|| format!("the mount does not say its operations: {answer}"))
}

/// From rows `observer,what,of,unit,over,from_s,to_s,count,...`, perhaps with others around them.
fn counts(text: &str) -> Counts {
    let mut lines = text.lines().skip_while(|line| !line.contains("observer,"));
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let at = |name: &str| names.iter().position(|own| *own == name);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let cell = |name: &str| Some(*cells.get(at(name)?)?);
        (cell("observer")? == "latencies" && cell("over")? == "run")
            .then(|| Some((cell("of")?.to_owned(), cell("count")?.parse().ok()?)))?
    };
    lines.filter_map(row).collect()
}

/// Files are made, read, renamed and removed.
fn work(dir: &Path, name: &str) -> std::io::Result<()> {
    let dir = dir.join(name);
    fs::create_dir(&dir)?;
    for n in 0..300usize {
        let path = dir.join(format!("f{n}"));
        fs::write(&path, vec![7; n * 331])?;
        fs::read(&path)?;
        fs::rename(&path, dir.join(format!("g{n}")))?;
        if n % 3 == 0 {
            fs::remove_file(dir.join(format!("g{n}")))?;
        }
    }
    fs::File::open(&dir)?.sync_all()
}
