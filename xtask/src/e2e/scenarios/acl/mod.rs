//! ACLs on a mount: what users may do by them, inheritance, chmod, copies. Every outcome must be that of
//! ext4; a remount and a daemon that was killed keep all, and a volume without extended attributes
//! refuses them.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use super::pjdfstest::mount_ext4;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "acl",
    about: "ACLs: every outcome on lfs and ffs is that on ext4; remounts and kills keep them",
    limit_s: (240, 400),
    run,
};

/// What is done, with its outcomes on standard output.
const ACTS: &str = include_str!("acts.sh");

/// Some of what must be said, so that outcomes that are all alike because nothing works do not pass.
const CERTAIN: &[&str] = &[
    "  1002 may: cat file",
    "  1004 may not: cat file",
    "  1003,3001 may: cat file",
    "  1002 may not: setfacl -m u:1004:rwx file",
    "  1002 may: cat given/file",
    "default:user:1002:rwx",
    "  copied: the same",
    "  unpacked/from: the same",
    "  synced: the same",
];

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    bench.needs_root("changing users")?;
    let programs = [("mkfs.ext4", "e2fsprogs"), ("setfacl", "acl"), ("rsync", "rsync")];
    tools::need(bench, &programs)?;
    let ext4 = mount_ext4(bench)?;
    let expected = outcomes(bench, &ext4)?;
    bench.run(Command::new("umount").arg(&ext4))?;
    for line in CERTAIN {
        if !expected.lines().any(|said| said == *line) {
            return Err(format!("on ext4 nothing says \"{line}\":\n{expected}").into());
        }
    }
    for layout in ["lfs", "ffs"] {
        let mut volume = Volume::make_of(bench, layout, "256M")?;
        volume.mount()?;
        let got = outcomes(bench, volume.dir())?;
        same(&expected, &got).map_err(|why| format!("{layout}, where ext4 differs: {why}"))?;
        let before = acls(bench, volume.dir())?;
        volume.remount()?;
        same(&before, &acls(bench, volume.dir())?)
            .map_err(|why| format!("{layout}, mounted again: {why}"))?;
        bench.shell(
            volume.dir(),
            "setfacl -m u:4242:rwx file && mkdir -p from/new/one && sync file from/new/one",
        )?;
        let before = acls(bench, volume.dir())?;
        volume.kill9();
        volume.mount()?;
        same(&before, &acls(bench, volume.dir())?)
            .map_err(|why| format!("{layout}, killed and mounted again: {why}"))?;
        volume.umount_and_check()?;
    }
    refused(bench)?;
    Ok(format!("{} lines of outcomes as on ext4", expected.lines().count()))
}

fn outcomes(bench: &Bench, dir: &Path) -> Result<String, String> {
    let script = bench.dir.join("acts.sh");
    fs::write(&script, ACTS).map_err(|error| format!("{}: {error}", script.display()))?;
    bench.shell(dir, "chmod 755 . && rm -rf lost+found")?;
    bench.run(Command::new("sh").arg(&script).current_dir(dir))
}

/// The ACLs of the whole tree.
fn acls(bench: &Bench, dir: &Path) -> Result<String, String> {
    bench.shell(dir, "find . ! -type l ! -name .twinfs | sort | xargs getfacl -nE 2>/dev/null")
}

fn same(expected: &str, got: &str) -> Result<(), String> {
    let lines = |text: &str| text.lines().map(String::from).collect::<Vec<_>>();
    let (expected, got) = (lines(expected), lines(got));
    let Some(at) = (0..expected.len().max(got.len())).find(|&at| expected.get(at) != got.get(at))
    else {
        return Ok(());
    };
    let before = expected[at.saturating_sub(12)..at.min(expected.len())].join("\n");
    let end = "(the end)".to_owned();
    let (wanted, is) = (expected.get(at).unwrap_or(&end), got.get(at).unwrap_or(&end));
    Err(format!("after\n{before}\nit should say\n{wanted}\nand says\n{is}"))
}

/// A volume without extended attributes has no ACLs, and the umask counts.
fn refused(bench: &Bench) -> Result<(), String> {
    let image = bench.dir.join("classic.img");
    let mut volume = Volume::make_with(bench, &image, "64M", "lfs", &["--profile", "classic"])?;
    volume.mount()?;
    let acts = "umask 027; mkdir dir; touch file; stat -c %a dir file; \
                setfacl -m u:1002:rwx dir 2>&1 || :; setfacl -d -m u:1002:rwx dir 2>&1 || :; \
                getfacl -cnE dir";
    let said = bench.shell(volume.dir(), acts)?;
    let expected = "750\n640\nsetfacl: dir: Operation not supported\n\
                    setfacl: dir: Operation not supported\nuser::rwx\ngroup::r-x\nother::---\n\n";
    if said != expected {
        return Err(format!("without extended attributes: {said}"));
    }
    volume.umount_and_check()
}
