//! A mount by an ordinary user, through fusermount3.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "user",
    about: "an ordinary user makes, mounts, fills, unmounts and checks a volume",
    limit_s: (120, 120),
    run,
};

/// A user that every Debian has.
pub(super) const USER: &str = "nobody";

/// Creates files, links and renames; then lists them, with checksums.
const WORK: &str = "
    mkdir -p a/b; for n in $(seq 200); do seq $n > a/b/$n; done
    cp -r a c; ln a/b/7 hard; ln -s a/b/9 soft; mv c/b/11 c/twelve; rm c/b/1?
    head -c 3000000 /dev/urandom > large; sync";
/// ACLs of an ordinary user's own files.
const ACLS: &str = "
    setfacl -m u:daemon:r large; getfacl -c large | grep -q '^user:daemon:r--$'
    mkdir given; setfacl -d -m u:daemon:rwx given; umask 077; touch given/file
    getfacl -cE given/file | grep -q '^mask::rw-$'; getfacl -cE given/file | grep -q '^user:daemon:rwx$'";
const NO_ACLS: &str = "
    setfacl -m u:daemon:r large 2>&1 | grep -q 'not supported'";
const DESCRIBE: &str = "find . -printf '%p %y %m %u %n %s %T@ %l\\n' | sed 's/^\\(.* d .*\\)$/\\1/' | sort; \
     find . -type f -print0 | sort -z | xargs -0 sha256sum";

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    bench.needs_root("becoming another user")?;
    let programs = [("fusermount3", "fuse3"), ("runuser", "util-linux"), ("setfacl", "acl")];
    tools::need(bench, &programs)?;
    bench.run(Command::new("chown").arg("-R").arg(USER).arg(&bench.dir))?;
    let _open = FuseForAll::open()?;
    let mut volume = Volume::make_as(bench, USER, "1G")?;
    let dir = volume.dir().to_path_buf();
    bench.run(Command::new("chown").arg(USER).arg(&dir))?;
    volume.mount()?;
    as_user(bench, &dir, WORK)?;
    // vsfs has no extended attributes, and says so.
    as_user(bench, &dir, if bench.layout() == "vsfs" { NO_ACLS } else { ACLS })?;
    let before = as_user(bench, &dir, DESCRIBE)?;
    if let Ok(seen) = fs::read_dir(&dir) {
        Err(format!("root sees {} names without allow_other", seen.count()))?;
    }
    volume.umount_and_check()?;
    volume.mount()?;
    let after = as_user(bench, &dir, DESCRIBE)?;
    if before != after {
        let differ = before.lines().zip(after.lines()).find(|(a, b)| a != b);
        Err(format!("after the remount: {differ:?}"))?;
    }
    volume.umount_and_check()?;
    Ok(format!("{} names as {USER}", before.lines().count() / 2))
}

/// Makes `/dev/fuse` usable by all users, as udev does on every distribution, until it is dropped,
/// if it is not so already.
pub(super) struct FuseForAll {
    mode_before: u32,
}

const FUSE: &str = "/dev/fuse";

impl FuseForAll {
    pub(super) fn open() -> Result<FuseForAll, String> {
        let text = |error: std::io::Error| format!("{FUSE}: {error}");
        let mode_before = fs::metadata(FUSE).map_err(text)?.permissions().mode() & 0o777;
        fs::set_permissions(FUSE, Permissions::from_mode(mode_before | 0o666)).map_err(text)?;
        Ok(FuseForAll { mode_before })
    }
}

impl Drop for FuseForAll {
    fn drop(&mut self) {
        let _ = fs::set_permissions(FUSE, Permissions::from_mode(self.mode_before));
    }
}

fn as_user(bench: &Bench, dir: &Path, line: &str) -> Result<String, String> {
    let mut command = Command::new("runuser");
    command.args(["-u", USER, "--", "sh", "-euc"]);
    bench.run(command.arg(format!("cd '{}'; {line}", dir.display())))
}
