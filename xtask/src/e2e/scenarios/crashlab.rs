//! The crash lab: a program that renames without a sync is found, one that syncs survives, what cannot be
//! measured says so; and nothing stays mounted, whoever runs it.
//!
//! Each case is a program, its check, and the exit status of the lab, with a word of its report.

use std::path::Path;
use std::process::Command;

use super::super::bench::Bench;
use super::super::{Outcome, Scenario, Stop, tools};
use super::user::{FuseForAll, USER};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "crashlab",
    about: "the crash lab finds a missing sync, and leaves alone what has none missing",
    limit_s: (180, 180),
    run,
};

/// A program, its check, the exit status, and what the report has.
type Case = (&'static str, &'static str, &'static str, i32, &'static str);

/// A new content under an old name.
const CHECK: &str =
    "grep -qx old f || grep -qx new f && { ! grep -q new $CRASHLAB_ACKED || grep -qx new f; }";

const CASES: &[Case] = &[
    (
        "rename without a sync",
        "echo new > f.tmp; mv f.tmp f; $T ack new",
        CHECK,
        1,
        "no fsync of|LOST device: write",
    ),
    (
        "rename with its syncs",
        "echo new > f.tmp; sync f.tmp; mv f.tmp f; sync .; $T ack new",
        CHECK,
        0,
        "survived",
    ),
    ("a check that never passes", "echo new > f; $T ack new", "false", 3, "not measured"),
    ("a program that fails", "exit 7", "true", 3, "not measured"),
];

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let mounts = mounts()?;
    for layout in ["lfs", "ffs"] {
        for like in ["ext4", "strict"] {
            for case in CASES {
                lab(bench, None, layout, like, case)?;
            }
        }
    }
    let is_root = rustix::process::geteuid().is_root();
    if is_root && tools::in_path("fusermount3") && tools::in_path("runuser") {
        let _open = FuseForAll::open()?;
        bench.run(Command::new("chown").arg("-R").arg(USER).arg(&bench.dir))?;
        for case in CASES {
            lab(bench, Some(USER), "lfs", "ext4", case)?;
        }
    }
    match self::mounts()?.iter().find(|mount| !mounts.contains(mount)) {
        Some(left) => Err(Stop::Failed(format!("it left {left} mounted"))),
        None => Ok(format!("{} cases", CASES.len())),
    }
}

/// The mounts of labs.
fn mounts() -> Result<Vec<String>, String> {
    let all = std::fs::read_to_string("/proc/self/mounts")
        .map_err(|error| format!("/proc/self/mounts: {error}"))?;
    Ok(all.lines().filter(|line| line.contains("crashlab")).map(String::from).collect())
}

fn lab(
    bench: &Bench,
    user: Option<&str>,
    layout: &str,
    like: &str,
    case: &Case,
) -> Result<(), String> {
    let (what, program, check, expected, says) = case;
    let quoted = |path: &Path| path.display().to_string();
    // What is not to be measured needs no states.
    let line = format!(
        "export T='{}'; s=0; $T crashlab --layout {layout} --like {like} --states 60 --time 60 --setup 'echo old > f; sync f .' \
         --check '{check}' -- sh -c '{program}' > said 2>&1 || s=$?; [ $s = {expected} ] || \
         {{ echo status $s; cat said; exit 1; }}; grep -qiE '{says}' said || {{ cat said; exit 1; }}",
        quoted(&bench.program)
    );
    let mut command = match user {
        Some(user) => {
            let mut command = Command::new("runuser");
            command.args(["-u", user, "--", "sh", "-euc"]);
            command
        }
        None => {
            let mut command = Command::new("sh");
            command.arg("-euc");
            command
        }
    };
    let dir = &bench.dir;
    bench
        .run(command.arg(format!("cd '{}'; {line}", dir.display())))
        .map(drop)
        .map_err(|why| format!("{what}, {layout} like {like}: {why}"))
}
