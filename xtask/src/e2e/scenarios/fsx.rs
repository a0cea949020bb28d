//! The crate fsx: random operations on one file, every read compared with what was written.

use std::fs;
use std::process::Command;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "fsx",
    about: "fsx, 100,000 operations (20,000 in the short form), and with the write-back cache",
    limit_s: (300, 3600),
    run,
};

/// The settings of fsx: the longest file, and the weights of the operations that a client of NFS lacks.
pub(super) fn settings(file_bytes: u32, [allocate, punch, copy]: [u32; 3]) -> String {
    format!(
        "\
flen = {file_bytes}
[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = {allocate}
punch_hole = {punch}
sendfile = 3
posix_fadvise = 1
copy_file_range = {copy}
"
    )
}

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let fsx = tools::installed(bench, "fsx", "0.3.2")?;
    let settings = bench.dir.join("fsx.toml");
    // All operations that fsx supports on Linux.
    fs::write(&settings, self::settings(1_000_000, [2, 3, 3]))
        .map_err(|error| error.to_string())?;
    let count = bench.size(10_000, 100_000);
    let mut volume = Volume::make(bench, "4G")?;
    // With and without collecting of writes by the kernel: two very different streams of requests.
    for (options, count) in [(&[][..], count), (&["--write-through"][..], count / 4)] {
        volume.set_options(options);
        volume.mount()?;
        let mut command = Command::new(&fsx);
        command.arg("-N").arg(count.to_string()).arg("-S").arg(bench.seed.to_string());
        command.arg("-f").arg(&settings).arg("-P").arg(&bench.dir);
        command.arg(volume.dir().join("file"));
        bench.run(&mut command).map_err(|why| format!("mounted with {options:?}: {why}"))?;
        volume.umount_and_check()?;
    }
    Ok(format!("{count} operations, {} with --write-through, seed {}", count / 4, bench.seed))
}
