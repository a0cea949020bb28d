//! A mount that is recorded is forecast while it is in use: the forecast is of the load that was recorded,
//! no operation of it fails, and the same load for real then does what was said. Then the same from a
//! fork and the recording.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "forecast",
    about: "a mount is forecast from what it recorded, and the same load then does what was said",
    limit_s: (120, 300),
    run,
};

/// The largest error of the forecast of what is in use and of what is written, as a share.
const MOST: f64 = 0.1;
/// Files that come and go in a round.
const FILES: u64 = 400;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let mut said = Vec::new();
    for layout in ["lfs", "ffs"] {
        said.push(format!("{layout}: {}", of_layout(bench, layout)?));
    }
    Ok(said.join("; "))
}

fn of_layout(bench: &Bench, layout: &str) -> Result<String, String> {
    let told = |error: std::io::Error| error.to_string();
    let day = bench.dir.join(format!("{layout}.tw"));
    let word = day.to_str().ok_or("the path is not UTF-8")?;
    let mut volume = Volume::make_of(bench, layout, "256M")?;
    volume.mount()?;
    let dir = volume.dir().to_path_buf();
    fs::create_dir(dir.join("spool")).map_err(told)?;
    round(&dir, 0).map_err(told)?;
    volume.umount()?;
    volume.set_options(&["--record", word]);
    volume.mount()?;
    round(&dir, 1).map_err(told)?;
    let morning = used(bench, &dir)?;
    let forecast = forecast(bench, layout, &dir, &[])?;
    round(&dir, 2).map_err(told)?;
    let evening = used(bench, &dir)?;
    let twin = bench.dir.join(format!("{layout}.evening"));
    bench.run(Command::new(&bench.program).arg("fork").arg(&dir).arg("-o").arg(&twin))?;
    volume.umount_and_check()?;
    let of_fork = self::forecast(bench, layout, &twin, &["--trace", word, "--last", "1h"])?;
    for one in [&forecast, &of_fork] {
        let number = |name: &str| one[name].as_u64().ok_or(format!("{name} is not told"));
        let (failed, left_out) = (number("failed")?, number("left_out")?);
        let operations = number("ops")?;
        if failed > 0 || left_out > 0 || operations < 4 * FILES {
            return Err(format!("of {operations} operations {failed} failed, {left_out} left out"));
        }
    }
    let said = forecast["space"]["used_bytes"].as_u64().ok_or("no space is told")?;
    // The mount had not written everything when it was asked.
    let error = said as f64 / evening as f64 - 1.0;
    if error.abs() > MOST {
        return Err(format!(
            "{said} bytes in use were forecast, and {evening} are ({morning} before)"
        ));
    }
    Ok(format!(
        "{:.1} MiB in use forecast, {:.1} are ({:+.1}%)",
        said as f64 / f64::from(1 << 20),
        evening as f64 / f64::from(1 << 20),
        error * 100.0
    ))
}

/// A round: a log grows, a document is replaced, files come, and those of the round before go.
fn round(dir: &Path, round: u64) -> std::io::Result<()> {
    use std::io::Write;
    let mut log = fs::File::options().append(true).create(true).open(dir.join("log"))?;
    for n in 0..FILES {
        log.write_all(&[b'l'; 3000])?;
        let size = (n * 7919 + round * 131) % 60_000;
        fs::write(dir.join("spool").join(format!("r{round}-{n}")), vec![7; size as usize])?;
        if round > 0 {
            fs::remove_file(dir.join("spool").join(format!("r{}-{n}", round - 1)))?;
        }
        if n % 50 == 0 {
            fs::write(dir.join("doc.new"), vec![9; 200_000])?;
            fs::rename(dir.join("doc.new"), dir.join("doc"))?;
        }
    }
    log.sync_all()
}

/// Bytes in use on a mount.
fn used(bench: &Bench, dir: &Path) -> Result<u64, String> {
    // Until the kernel has sent what it collected.
    bench.run(Command::new("sync").arg("-f").arg(dir))?;
    let stat = bench.run(Command::new("stat").args(["-f", "-c", "%b %f %S"]).arg(dir))?;
    let numbers: Vec<u64> = stat.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    match numbers[..] {
        [blocks, free, size] => Ok((blocks - free) * size),
        _ => Err(format!("stat says {stat:?}")),
    }
}

/// The forecast of what is at a path.
fn forecast(bench: &Bench, layout: &str, what: &Path, more: &[&str]) -> Result<Value, String> {
    let mut forecast = Command::new(&bench.program);
    forecast.arg("forecast").arg(what).arg(format!("{layout}:disk=ssd-sata,cache=64M"));
    let text = bench.run(forecast.args(["--no-tries", "--json"]).args(more))?;
    let all: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    Ok(all["rows"][0].clone())
}
