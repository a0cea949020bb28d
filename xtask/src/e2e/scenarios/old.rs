//! A volume that was made old: it mounts, its files are there, it checks clean after use, and
//! `layout` says of the image what the simulation said. An old FFS volume is used with
//! `--alloc whole-file`, and the blocks of a file that grows in small writes follow each other there.

use std::fs;
use std::io::Write;
use std::process::Command;

use super::super::bench::Bench;
use super::super::{Outcome, Scenario, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "old",
    about: "an aged volume mounts, has its files, checks clean, and has the scores that the \
            simulation said",
    limit_s: (120, 600),
    run,
};

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let size = format!("{}M", bench.size(128, 4096));
    let (image, dir) = (bench.dir.join("old.img"), bench.dir.join("mnt"));
    fs::create_dir(&dir).map_err(|error| error.to_string())?;
    let mut age = Command::new(&bench.program);
    age.args(["age", "--layout", bench.layout(), "--profile", "meyer", "--size", &size]);
    age.args(["--full", "75%", "--seed", "5", "--format", "csv", "-o"]).arg(&image);
    let said = bench.run(&mut age)?;
    let layout = || {
        let mut layout = Command::new(&bench.program);
        layout.args(["layout", "--json"]).arg(&image);
        bench.run(&mut layout)
    };
    let found = layout()?;
    for key in ["layout_score", "dynamic_score", "files"] {
        let (expected, value) = (cell(&said, key)?, member(&found, key)?);
        if expected != value {
            return Err(
                format!("{key}: the simulation said {expected}, layout says {value}").into()
            );
        }
    }
    let mut mount = Command::new(&bench.program);
    bench.run(mount.arg("mount").arg(&image).arg(&dir))?;
    let files = count(&dir)?;
    fs::write(dir.join("new"), vec![7; 100_000]).map_err(|error| error.to_string())?;
    let mut umount = Command::new(&bench.program);
    bench.run(umount.arg("umount").arg(&dir))?;
    if files.to_string() != cell(&said, "files")? {
        return Err(format!("{files} files are on the mount, not {}", cell(&said, "files")?).into());
    }
    let mut check = Command::new(&bench.program);
    bench.run(check.args(["check", "--quiet"]).arg(&image))?;
    let grown = grown(bench)?;
    let score = cell(&said, "layout_score")?;
    Ok(format!("{files} files, layout score {score}; of a file grown on old FFS {grown}"))
}

/// The layout score of a file that grew in small writes on an old FFS volume under `--alloc
/// whole-file`: 1, or this fails. The kernel collects so small a file, so that other policies do as
/// well: this shows that the mount works, not that the policy is better.
fn grown(bench: &Bench) -> Result<String, String> {
    let (image, dir) = (bench.dir.join("old-ffs.img"), bench.dir.join("mnt-ffs"));
    let text = |error: std::io::Error| error.to_string();
    fs::create_dir(&dir).map_err(text)?;
    let mut age = Command::new(&bench.program);
    age.args(["age", "--layout", "ffs", "--profile", "douceur", "--size", "64M", "--full", "75%"]);
    bench.run(age.args(["--seed", "5", "-o"]).arg(&image))?;
    let mut mount = Command::new(&bench.program);
    bench.run(mount.args(["mount", "--alloc", "whole-file"]).arg(&image).arg(&dir))?;
    let mut file = fs::File::create(dir.join("grown")).map_err(text)?;
    for piece in 0..30u8 {
        file.write_all(&[piece; 10_000]).map_err(text)?;
    }
    drop(file);
    let mut umount = Command::new(&bench.program);
    bench.run(umount.arg("umount").arg(&dir))?;
    let mut check = Command::new(&bench.program);
    bench.run(check.args(["check", "--quiet"]).arg(&image))?;
    let mut layout = Command::new(&bench.program);
    let files = bench.run(layout.args(["layout", "--files", "--format", "csv"]).arg(&image))?;
    let line = files.lines().find(|line| line.contains(",/grown,"));
    let names = files.lines().next().unwrap_or_default();
    let line = format!("{names}\n{}", line.ok_or("the file is not there")?);
    match (cell(&line, "size_bytes")?, cell(&line, "layout_score")?) {
        (size, score) if size == "300000" && score == "1.0" => Ok(score),
        (size, score) => Err(format!("the file has {size} bytes and the layout score {score}")),
    }
}

/// A cell of one line of comma-separated values under a line of names.
pub(super) fn cell(csv: &str, name: &str) -> Result<String, String> {
    let mut lines = csv.lines().map(split);
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let at = names.iter().position(|own| own == name);
    at.and_then(|at| values.get(at).cloned()).ok_or_else(|| format!("no {name} in {csv}"))
}

/// The cells of a line, with quotes around those that contain commas.
fn split(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match (c, cells.last_mut()) {
            ('"', _) => quoted = !quoted,
            (',', _) if !quoted => cells.push(String::new()),
            (c, Some(cell)) => cell.push(c),
            _ => {}
        }
    }
    cells
}

/// A member of the details of an answer.
fn member(json: &str, name: &str) -> Result<String, String> {
    let answer: serde_json::Value =
        serde_json::from_str(json).map_err(|error| error.to_string())?;
    answer["details"].get(name).map(|value| value.to_string()).ok_or_else(|| format!("no {name}"))
}

/// The number of files below a directory, each read once.
fn count(dir: &std::path::Path) -> Result<usize, String> {
    let mut files = 0;
    let mut waiting = vec![dir.to_path_buf()];
    while let Some(at) = waiting.pop() {
        let text = |error: std::io::Error| format!("{}: {error}", at.display());
        for entry in fs::read_dir(&at).map_err(text)? {
            let path = entry.map_err(text)?.path();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            files += 1;
            if fs::read(&path).map_err(text)?.iter().any(|&byte| byte != 0) {
                return Err(format!("{}: user data is not zeros", path.display()));
            }
        }
    }
    Ok(files)
}
