//! The C project on a block device instead of an image file.

use std::process::Command;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, Stop, tools};
use super::build;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "loopdev",
    about: "unpacks on a loop block device, and compiles there in the long form",
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
    if bench.full {
        return build::unpack_and_build(bench, &mut volume, &tarball, "build_libs");
    }
    // What a compiler asks of a volume, the build on an image file has asked already.
    let (files, unpacked_s) = build::unpack(bench, &mut volume, &tarball)?;
    volume.umount_and_check()?;
    Ok(format!("{files} names unpacked in {unpacked_s:.1} s"))
}
