//! What a daemon inherits from the shell that starts it, and what others do to it and to its image:
//! limits, stray signals, one image by two names, an image that is cut short, a recording on a disk
//! that fills.
//!
//! Each story is a script for the shell, in a folder of its own, with `$T` the program. It fails with
//! the first command that does, or with what it says itself.

use std::path::Path;

use super::super::bench::Bench;
use super::super::{Outcome, Scenario, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "shell",
    about: "limits and signals of the shell, one image by two names, cut images, full disks of traces",
    limit_s: (240, 240),
    run,
};

/// Found by the image, as every daemon of a run has its own.
const COMMON: &str = r#"
    fail() { echo "$*" >&2; exit 1; }
    daemon() { pgrep -f "twinfs mount $PWD/v.img" | head -1; }
    volume() { "$T" mkfs --layout $L --size 64M v.img; mkdir -p m n; }
    trap 'for m in m n; do mountpoint -q $m && umount -l $m || :; done' EXIT
"#;

/// A story: its name, whether it needs root, and its script.
type Story = (&'static str, bool, &'static str);

const STORIES: &[Story] = &[
    // A limit on the size of files ended the daemon in the middle of a write.
    (
        "file-size",
        true,
        r#"
        volume
        if (ulimit -f 40000; "$T" mount v.img m) 2>why; then
            for i in 1 2 3 4 5; do head -c 9M /dev/zero > m/f$i; sync m/f$i; done
            [ $(ls m | wc -l) = 5 ] || fail "files are missing"
            "$T" umount m; "$T" check -q v.img
        else
            grep -q 'ulimit -f' why || fail "refused without a reason: $(cat why)"
            mountpoint -q m && fail "refused, but mounted"; :
        fi"#,
    ),
    // What mount(8) calls for a line of /etc/fstab.
    (
        "mount-helper",
        true,
        r#"
        volume; ln -s "$T" mount.fuse.twinfs
        ./mount.fuse.twinfs $PWD/v.img $PWD/m -o rw,nosuid,cache=16M,nofail,x-systemd.automount -t fuse.twinfs
        grep " $PWD/m fuse.twinfs " /proc/mounts | grep -q nosuid || fail "how: $(grep $PWD/m /proc/mounts)"
        echo kept > m/f; "$T" umount m; ./mount.fuse.twinfs $PWD/v.img $PWD/m -o ro; [ "$(cat m/f)" = kept ]
        touch m/g && fail "not read-only"; "$T" umount m
        s=0; ./mount.fuse.twinfs $PWD/v.img $PWD/m -o relatime 2>why || s=$?
        [ $s = 1 ] && grep -q '^twinfs: relatime: ' why || fail "status $s: $(cat why)"
        s=0; ./mount.fuse.twinfs $PWD/none.img $PWD/m 2>why || s=$?; [ $s = 32 ] || fail "status $s: $(cat why)""#,
    ),
    // A soft limit is raised; what a hard one would end does not start.
    (
        "processor-time",
        false,
        r#"
        volume
        (ulimit -S -t 1; "$T" mount $PWD/v.img m)
        grep -q 'Max cpu time *unlimited' /proc/$(daemon)/limits || fail "the soft limit is left"
        "$T" umount m
        if (ulimit -t 60; "$T" mount v.img m) 2>why; then
            "$T" umount m
        else
            grep -q 'processor time, 60 s.*prlimit' why || fail "no reason: $(cat why)"
        fi"#,
    ),
    (
        "memory",
        false,
        r#"
        volume
        if (ulimit -v 400000; "$T" mount v.img m) 2>why; then
            "$T" umount m
        else
            grep -q 'address space.*--memory' why || fail "no reason: $(cat why)"
        fi"#,
    ),
    // A signal that means something to other programs left a dead mount behind.
    (
        "signals",
        false,
        r#"
        volume
        "$T" mount $PWD/v.img m; d=$(daemon)
        # All but those that end it (2, 3, 15) and those that nobody can ignore (9, 19).
        for s in 1 4 5 6 7 8 10 11 12 13 14 16 17 18 20 21 22 23 24 25 26 27 28 29 30 31 34 50 64; do
            kill -$s $d; echo $s > m/$s || fail "$s ended it"
        done
        sync m/1; [ $(ls m | wc -l) = 29 ] || fail "$(ls m)"
        kill -TERM $d
        for i in $(seq 100); do mountpoint -q m || break; sleep .1; done
        mountpoint -q m && fail "SIGTERM does not end it"
        while [ -e /proc/$d ]; do sleep .1; done; "$T" check -q v.img"#,
    ),
    // What the shell blocked or ignored counts for nothing.
    (
        "masks",
        false,
        r#"
        volume
        (trap '' TERM INT QUIT HUP CHLD USR1; "$T" mount $PWD/v.img m); d=$(daemon)
        echo 1 > m/f; kill -QUIT $d; while [ -e /proc/$d ]; do sleep .1; done
        mountpoint -q m && fail "it is mounted still"; "$T" check -q v.img"#,
    ),
    // An image was mounted as a file and as a loop device, and was destroyed.
    (
        "loop",
        true,
        r#"
        volume; lo=$(losetup -f --show v.img); lo2=; trap 'umount -l m n || :; losetup -d $lo2 $lo || :' EXIT
        refused() { "$@" 2>why && fail "$* was not refused"; grep -q 'another process\|in use' why || fail "$(cat why)"; }
        "$T" mount v.img m
        refused "$T" mount $lo n; refused "$T" check --repair $lo; refused "$T" mkfs --force $lo
        "$T" umount m
        "$T" mount $lo m
        refused "$T" mount v.img n; refused "$T" check v.img; ln v.img hard; refused "$T" mount hard n
        lo2=$(losetup -f --show $lo); refused "$T" check $lo2
        "$T" umount m; "$T" check -q v.img
        # Another file system on the device.
        truncate -s 64M other.img; mkfs.ext4 -qF other.img; losetup -d $lo2; lo2=$(losetup -f --show other.img)
        mount $lo2 n; refused "$T" mkfs --force other.img; umount n
        # Different parts of a file are different images.
        truncate -s 128M two.img; losetup -d $lo2; lo2=$(losetup -f --show --sizelimit 64M two.img)
        lo3=$(losetup -f --show -o 64M two.img)
        "$T" mkfs $lo2; "$T" mkfs $lo3; "$T" mount $lo2 m; "$T" mount $lo3 n; "$T" umount m; "$T" umount n
        losetup -d $lo3"#,
    ),
    // Both fsync and umount succeeded, and then the image could not be opened.
    (
        "cut",
        false,
        r#"
        volume
        "$T" mount v.img m; head -c 20M /dev/urandom > m/a; sync m/a
        truncate -s 8M v.img; echo more > m/b
        sync m/b 2>/dev/null && fail "what is not there was acknowledged"
        [ $(stat -c %s v.img) = 8388608 ] || fail "it was made long again"
        "$T" umount m 2>why && fail "unmounted without a word"; grep -q 'stopped taking changes' why"#,
    ),
    // A recording on a full disk was lost without a word.
    (
        "recording",
        true,
        r#"
        mkdir src m small; mount -t tmpfs -o size=12k none small
        trap 'umount -l m || :; umount -l small || :' EXIT
        (exec "$T" record --foreground --to small/t src m) 2>said & p=$!
        while ! mountpoint -q m; do sleep .1; done
        file() { echo $1 > m/$(echo $1$1$1 | md5sum | cut -c 1-32); }
        begun=$(stat -c %s small/t); for i in $(seq 50); do file $i; done
        for i in $(seq 50); do [ $(stat -c %s small/t) -gt $begun ] && break; sleep .1; done
        for i in $(seq 51 600); do file $i; done
        for i in $(seq 50); do grep -q 'recording has ended' said && break; sleep .1; done
        grep -q 'recording has ended.*small/t' said || fail "nothing was said: $(cat said)"
        [ $(ls src | wc -l) = 600 ] || fail "serving ended too"
        "$T" umount m 2>why && fail "umount says nothing"; grep -q 'recording of it had ended' why
        wait $p && fail "it ended with 0"
        # The disk may have had room for the last whole frame and not for the mark behind it that ends a trace. No
        # record is lost then, and --partial reads them all.
        whole() {
            "$T" $1 small/t >/dev/null 2>cut && return
            grep -q ' 0 bytes of an unfinished frame' cut || return
            "$T" $1 --partial small/t >/dev/null 2>cut && fail "$1 takes a part for all" || [ $? = 1 ]
        }
        whole convert || fail "no trace is left: $(cat cut)"; whole cache || fail "no accesses: $(cat cut)""#,
    ),
    // Images could be read by everybody, with all files in them.
    (
        "private",
        true,
        r#"
        umask 022; volume; [ $(stat -c %a v.img) = 600 ] || fail "mode $(stat -c %a v.img)"
        "$T" mount v.img m; grep " $PWD/m " /proc/mounts | grep -q nosuid && fail "root's own is nosuid"; "$T" umount m
        "$T" mount -o nosuid,nodev v.img m; grep " $PWD/m " /proc/mounts | grep -q nosuid,nodev; "$T" umount m
        chown nobody v.img
        "$T" mount v.img m; grep " $PWD/m " /proc/mounts | grep -q nosuid,nodev || fail "trusted"; "$T" umount m
        "$T" mount -o suid,dev v.img m; grep " $PWD/m " /proc/mounts | grep -q nosuid && fail "not trusted"
        "$T" umount m"#,
    ),
];

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    tools::need(
        bench,
        &[("losetup", "util-linux"), ("pgrep", "procps"), ("mkfs.ext4", "e2fsprogs")],
    )?;
    let is_root = rustix::process::geteuid().is_root();
    let mut told = 0;
    for (name, needs_root, script) in STORIES {
        if *needs_root && !is_root {
            continue;
        }
        let dir = bench.dir.join(name);
        std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        bench.shell(&dir, &line(bench, script)).map_err(|why| format!("{name}: {why}"))?;
        told += 1;
    }
    Ok(format!("{told} stories"))
}

fn line(bench: &Bench, script: &str) -> String {
    let quoted = |path: &Path| path.display().to_string();
    format!("T='{}'; L={}; {COMMON}{script}", quoted(&bench.program), bench.layout())
}
