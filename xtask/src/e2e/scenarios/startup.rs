//! The first and the last moments of a mount.
//!
//! - A mount is ready when it is idle: `umount` right after `twinfs mount` once said "target is busy" in most
//!   tries, because the daemon opened a file in its own mount after it had said that it was ready.
//! - A daemon that dies then is gone: one that had a thread waiting in its own mount could not die, whatever
//!   killed it, and its mount hung.

use std::path::Path;
use std::process::Command;

use super::super::bench::Bench;
use super::super::daemon::Daemon;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use crate::clock::pause_ms;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "startup",
    about: "umount(8) right after a mount; daemons killed right after a mount",
    limit_s: (240, 900),
    run,
};

/// Within which time a daemon that was killed is gone.
const GONE_MS: u64 = 5000;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    bench.needs_root("umount(8)")?;
    let rounds = bench.size(20, 330);
    for layout in ["lfs", "ffs", "vsfs"] {
        let mut volume = Volume::make_of(bench, layout, "64M")?;
        let dir = volume.dir().to_path_buf();
        for round in 0..rounds {
            volume.mount()?;
            let daemon = Daemon::of_mount(&dir);
            bench
                .run(Command::new("umount").arg(&dir))
                .map_err(|why| format!("{layout}, round {round}: {why}"))?;
            wait_for_end(daemon.as_ref())?;
        }
        for round in 0..rounds / 2 {
            volume.mount()?;
            // Some while it makes its first calls into the mount, some when it is idle.
            pause_ms(round as u64 % 3);
            kill_and_wait(&dir, &format!("{layout}, round {round}"))?;
            volume.kill9();
        }
        volume.mount()?;
        volume.umount_and_check()?;
    }
    Ok(format!("{} mounts unmounted at once, {} killed", 3 * rounds, 3 * (rounds / 2)))
}

fn kill_and_wait(dir: &Path, which: &str) -> Result<(), String> {
    let daemon = Daemon::of_mount(dir).ok_or("no daemon after a mount")?;
    daemon.kill();
    wait_for_end(Some(&daemon)).map_err(|why| format!("{which}: {why}"))
}

fn wait_for_end(daemon: Option<&Daemon>) -> Result<(), String> {
    let Some(daemon) = daemon else { return Ok(()) };
    for _ in 0..GONE_MS / 10 {
        if !daemon.lives() {
            return Ok(());
        }
        pause_ms(10);
    }
    Err(format!("a daemon is there {GONE_MS} ms after its end"))
}
