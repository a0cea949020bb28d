//! The build on a block device instead of an image file.

use std::process::Command;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, Stop, tools};
use super::build;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "loopdev",
    about: "unpacks and compiles on a loop block device (one library in the short form)",
    limit_s: (600, 2400),
    run,
};

fn run(bench: &Bench) -> Outcome {
    bench.needs_root("a loop device")?;
    tools::need(bench, &[("losetup", "util-linux")])?;
    let tarball = build::prepare(bench)?;
    if let Err(why) = bench.run(Command::new("losetup").arg("--find")) {
        return Err(Stop::Skipped(format!("no loop device: {why}")));
    }
    let mut volume = Volume::make_on_loop(bench, "4G")?;
    volume.mount()?;
    let target = if bench.full { "build_libs" } else { "libssl.a" };
    build::unpack_and_build(bench, &mut volume, &tarball, target)
}
