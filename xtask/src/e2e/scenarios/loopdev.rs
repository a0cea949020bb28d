//! The build on a block device in place of an image file.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, Stop, tools};
use super::build;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "loopdev",
    about: "unpacks and compiles on a loop block device (one library in the short form)",
    limit_s: (300, 1200),
    run,
};

fn run(bench: &Bench) -> Outcome {
    bench.needs_root("a loop device")?;
    tools::need(bench, &[("losetup", "util-linux")])?;
    let tarball = build::prepare(bench)?;
    let device = attach(bench)?;
    let mut volume = Volume::make_on(bench, &device)?;
    volume.mount()?;
    let target = if bench.full { "build_libs" } else { "libssl.a" };
    let figures = build::unpack_and_build(bench, &mut volume, &tarball, target);
    drop(volume);
    bench.run(Command::new("losetup").arg("-d").arg(&device))?;
    Ok(format!("{}: {}", device.display(), figures?))
}

/// A loop device over a file of 4 GiB.
fn attach(bench: &Bench) -> Result<PathBuf, Stop> {
    let file = bench.dir.join("disk.img");
    let made = File::create(&file).and_then(|file| file.set_len(4 << 30));
    made.map_err(|error| format!("{}: {error}", file.display()))?;
    let mut command = Command::new("losetup");
    let device = bench.run(command.args(["--find", "--show"]).arg(&file));
    let device = device.map_err(|why| Stop::Skipped(format!("no loop device: {why}")))?;
    Ok(PathBuf::from(device.trim()))
}
