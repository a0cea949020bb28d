//! After a remount everything is as before: times to the nanosecond, modes, capabilities and
//! contents, for every way of writing a file.
//!
//! If the kernel collects writes, the times of a file are kept in two places: by the kernel while
//! the file is in its memory, and by the volume after that.

use std::process::Command;

use super::super::bench::Bench;
use super::super::manifest::Manifest;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "times",
    about: "writes files in many ways, by several users; times, modes and contents after a remount",
    limit_s: (120, 120),
    run,
};

/// A user that every Debian has.
const USER: &str = "nobody";

/// Ways to change a file, each with pauses in which the kernel's clock advances: before the write,
/// after the write, and while the file is still open.
const WORK: &str = r"
    chmod 777 .; pause() { sleep 0.03; }
    for n in $(seq 40); do seq $n >new-$n; done
    seq 9 >append; pause; seq 9 >>append
    seq 5000 >cut; pause; truncate -s 100 cut
    seq 5000 >emptied; pause; : >emptied
    truncate -s 1M grown; pause; truncate -s 2M grown
    seq 5000 >part; pause; dd if=/dev/zero of=part bs=100 count=3 seek=7 conv=notrunc status=none
    seq 5000 >held; { pause; echo more; pause; echo still; pause; } >>held
    seq 5000 >moved; mv moved away; seq 5000 >linked; pause; ln linked link
    seq 5000 >dated; touch -d '2001-02-03 04:05:06.789' dated; pause; chmod 600 dated
    seq 5000 >dated-open; { echo more; touch -d 2002-02-02 dated-open; pause; } >>dated-open
    seq 5000 >synced; pause; echo more >>synced; sync synced
    seq 5000 >room; pause; fallocate -l 100000 room; pause; fallocate -p -o 4096 -l 4096 room
    seq 5000 >copied; cp -p copied copy; pause; cp --reflink=never copied copied-later
    head -c 3000000 /dev/urandom >large; pause; echo more >>large
    seq 9 >others; chmod 666 others; seq 9 >others-cut; chmod 666 others-cut
    for f in set-id set-id-cut; do seq 5000 >$f; chmod 6777 $f; done
    for f in able able-cut able-owned; do seq 9 >$f; chmod 777 $f; done";
/// Changes by another user than the owner, which clear set-id bits.
const OTHERS: &str = "
    sleep 0.03; echo more >>others; : >others-cut; touch others
    echo more >>set-id; truncate -s 10 set-id-cut
    echo more >>able; truncate -s 3 able-cut; seq 9 >theirs";

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    bench.needs_root("becoming another user")?;
    tools::need(bench, &[("runuser", "util-linux"), ("setcap", "libcap2-bin")])?;
    let mut told = Vec::new();
    for options in [&[][..], &["--write-through"]] {
        let mut volume = Volume::make(bench, "1G")?;
        volume.set_options(options);
        volume.mount()?;
        let dir = volume.dir().to_path_buf();
        bench.shell(&dir, WORK)?;
        for file in ["able", "able-cut", "able-owned"] {
            bench.shell(&dir, &format!("setcap cap_net_raw+ep {file}"))?;
        }
        let mut others = Command::new("runuser");
        others.args(["-u", USER, "--", "sh", "-euc"]);
        bench.run(others.arg(format!("cd '{}'; {OTHERS}", dir.display())))?;
        bench.shell(&dir, "chown nobody able-owned")?;
        // Asking for the mode alone could be answered from the kernel's memory, so blocks are
        // requested too.
        let modes = bench.shell(&dir, "stat -c '%a blocks %b' set-id set-id-cut")?;
        if modes.lines().any(|line| !line.starts_with("777 ")) {
            Err(format!("{options:?}: set-id bits outlive writes of others: {modes}"))?;
        }
        let before = Manifest::of(&dir)?;
        no_capability_left(bench, &volume)?;
        volume.remount()?;
        before.expect_same(&Manifest::of(&dir)?, &format!("after the remount, {options:?}"))?;
        no_capability_left(bench, &volume)?;
        volume.umount_and_check()?;
        std::fs::remove_file(bench.dir.join("disk.img")).map_err(|error| error.to_string())?;
        told.push(before.len().to_string());
    }
    Ok(format!("{} names, collecting writes and writing through", told.join(" and ")))
}

/// A changed file must not keep the capabilities that its old content was given.
fn no_capability_left(bench: &Bench, volume: &Volume<'_>) -> Result<(), String> {
    let left = bench.shell(volume.dir(), "getcap able able-cut able-owned")?;
    match left.trim() {
        "" => Ok(()),
        left => Err(format!("capabilities outlive a change of the file: {left}")),
    }
}
