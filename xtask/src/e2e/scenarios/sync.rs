//! `sync` and syncfs: the kernel does not pass them on to the server of a FUSE mount, but only the
//! data that it had collected. That data must be durable within two seconds.

use std::fs;
use std::process::Command;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use crate::clock::pause_ms;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "sync",
    about: "files created before `sync` survive a kill of the daemon two seconds later",
    limit_s: (120, 120),
    run,
};

/// The time within which a mount makes data durable.
const PROMISED_MS: u64 = 2000;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    for layout in ["lfs", "ffs"] {
        for options in [&[][..], &["--write-through"]] {
            let mut volume = Volume::make_of(bench, layout, "256M")?;
            volume.set_options(options);
            volume.mount()?;
            for round in 0..3u8 {
                let content = vec![round; 300_000];
                let text = |what: &str, e: std::io::Error| format!("{layout}: {what}: {e}");
                for n in 0..20 {
                    let path = volume.dir().join(format!("file-{round}-{n}"));
                    fs::write(path, &content).map_err(|e| text("writing", e))?;
                }
                bench.run(Command::new("sync").arg("-f").arg(volume.dir()))?;
                pause_ms(PROMISED_MS);
                volume.kill9();
                volume.mount()?;
                for n in 0..20 {
                    let path = volume.dir().join(format!("file-{round}-{n}"));
                    let found = fs::read(path).map_err(|e| text("after the kill", e))?;
                    if found != content {
                        let len = found.len();
                        Err(format!("{layout}: file {n} of round {round} has {len} bytes"))?;
                    }
                }
            }
            volume.umount_and_check()?;
        }
    }
    Ok("240 files, 12 kills".into())
}
