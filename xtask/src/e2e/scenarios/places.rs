//! Files of a daemon in places where the daemon would wait for itself are refused before anything
//! is mounted.
//!
//! `record` with its trace below the place where it mirrors hung in the kernel until it was killed,
//! and so did a mirror that could see its own mount. Each case must be refused within seconds, and
//! must leave no mount and no file behind. Files that describe a user's files are readable by their
//! owner only.

use std::process::Command;

use super::super::bench::Bench;
use super::super::{Outcome, Scenario, Stop, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "places",
    about: "record and mount refuse traces, images and mirrors that lie in their own mount",
    limit_s: (120, 120),
    run,
};

/// Arguments of `record`, and the message of the refusal.
const RECORD: &[(&str, &str)] = &[
    ("--to mnt/t src mnt", "would wait for itself"),
    ("--to src/t src mnt", "would record itself"),
    ("--to link/t src mnt", "would record itself"),
    ("--to mnt/../src/sub/t src mnt", "would record itself"),
    ("--to t src src/sub", "would contain itself"),
    ("--to t link src/sub", "would contain itself"),
    ("--to t src link/sub", "would contain itself"),
    ("--to t mnt/inner mnt", "would be hidden"),
    ("--to src/t src src", "would record itself"),
    ("--to t none mnt", "No such file"),
    ("--to t src none", "existing directory"),
];

/// The same through bind mounts, which need root.
const BOUND: &[(&str, &str)] = &[
    ("--to t src bound/deep", "would contain itself"),
    ("--to bound/t src mnt", "would record itself"),
    ("--to t bound src/sub/deep", "would contain itself"),
];

/// Arguments of `mount`.
const MOUNT: &[(&str, &str)] = &[
    ("--record mnt/t image mnt", "would wait for itself"),
    ("--flight mnt/t image mnt", "would wait for itself"),
    ("--status mnt/t image mnt", "would wait for itself"),
    ("--status link/t image src", "would wait for itself"),
    ("src/image2 src", "would wait for itself"),
    ("--status image image mnt", "the image itself"),
    ("--status hard image mnt", "the image itself"),
    ("--record t --status t image mnt", "--record itself"),
    ("--status src/letter image mnt", "is no status file"),
    ("--status s ffs mnt", "is for logs"),
    ("--cleaner when=idle ffs mnt", "is for logs"),
    ("--alloc nearest ffs mnt", "allocation"),
];

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let (dir, twinfs) = (&bench.dir, bench.program.display());
    bench.shell(
        dir,
        &format!(
            "mkdir -p src/sub/deep mnt/inner; ln -s src link; echo Dear > src/letter; \
             {twinfs} mkfs --size 32M image; cp image src/image2; ln image hard; \
             {twinfs} mkfs --size 32M --layout ffs ffs"
        ),
    )?;
    let files = || bench.shell(dir, "find . | sort");
    let before = files()?;
    for (words, says) in RECORD {
        refused(bench, "record", words, says)?;
    }
    for (words, says) in MOUNT {
        refused(bench, "mount", words, says)?;
    }
    let is_root = bench.needs_root("a bind mount").is_ok();
    if is_root {
        bench.shell(dir, "mkdir bound; mount --bind src/sub bound")?;
        let all = BOUND.iter().try_for_each(|(words, says)| refused(bench, "record", words, says));
        bench.shell(dir, "umount bound; rmdir bound")?;
        all?;
    }
    if files()? != before {
        return Err(Stop::Failed(format!("something was left behind: {}", files()?)));
    }
    if is_root {
        in_use(bench)?;
    }
    works(bench)?;
    let bound = if is_root { BOUND.len() } else { 0 };
    Ok(format!("{} refused, none hung", RECORD.len() + MOUNT.len() + bound))
}

/// Checks that a command is refused within seconds.
fn refused(bench: &Bench, command: &str, words: &str, says: &str) -> Result<(), Stop> {
    let mut line = Command::new("timeout");
    line.args(["-s", "KILL", "10"]).arg(&bench.program).arg(command);
    let found = bench.run(line.args(words.split(' ')).current_dir(&bench.dir));
    match found {
        Err(why) if why.contains(says) => Ok(()),
        Err(why) => Err(Stop::Failed(format!("is not refused with {says:?}: {why}"))),
        Ok(_) => Err(Stop::Failed(format!("twinfs {command} {words} was not refused"))),
    }
}

/// Checks that mkfs refuses what is in use, with --force too: an image that is mounted, also
/// through a loop device over it, a device that is mounted, and the file of a loop device.
fn in_use(bench: &Bench) -> Result<(), Stop> {
    let (dir, twinfs) = (&bench.dir, bench.program.display());
    let device =
        bench.shell(dir, "cp image copy; losetup -f --show copy").map_err(Stop::Skipped)?;
    let device = device.trim();
    // `set -e` does not end the script at a command with `!`.
    let line = format!(
        "no() {{ if \"$@\"; then echo \"$* went on\"; exit 9; fi; }}; no {twinfs} mkfs --force copy; \
         {twinfs} mount {device} mnt; no {twinfs} mkfs --force {device}; {twinfs} umount mnt; \
         losetup -d {device}; \
         {twinfs} mount copy mnt; no {twinfs} mkfs --force copy; \
         again=$(losetup -f --show copy); no {twinfs} mkfs --force $again; losetup -d $again; \
         {twinfs} umount mnt; {twinfs} check -q copy; rm copy"
    );
    let done = bench.shell(dir, &line);
    if done.is_err() {
        let _ = bench.shell(dir, &format!("{twinfs} umount mnt; true"));
    }
    Ok(done.map(drop)?)
}

/// Allowed places work: a trace outside, a directory mirrored at itself. Traces are private under
/// any umask.
fn works(bench: &Bench) -> Result<(), Stop> {
    let twinfs = bench.program.display();
    let line = format!(
        "umask 0; {twinfs} record --to t src mnt; echo one > mnt/new; {twinfs} umount mnt; \
         test \"$(cat src/new)\" = one; test $(stat -c %a t) = 600; \
         {twinfs} record --to t2 src src; echo two > src/new; {twinfs} umount src; \
         test \"$(cat src/new)\" = two; \
         {twinfs} mount --flight f --status s image mnt; {twinfs} umount mnt; \
         test $(stat -c %a f) = 600; test -s s; {twinfs} replay --verify f; \
         umask 027; {twinfs} mkfs --size 32M image3; test $(stat -c %a image3) = 600"
    );
    bench.shell(&bench.dir, &line)?;
    Ok(())
}
