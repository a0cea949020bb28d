//! The package as its user has it: installed into a Debian that has nothing else, mounted by a line of fstab and by
//! the unit, removed again.
//!
//! The Debian is a minimal root, made once by mmdebstrap and unpacked for each run, in namespaces of its own, so that
//! nothing of it reaches the host. No systemd runs in it: the scenario starts what the unit says and is the supervisor.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::super::bench::Bench;
use super::super::{Outcome, Scenario, Stop, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "package",
    about: "the package for Debian, installed in a new root, mounted by fstab and by its unit, purged",
    limit_s: (900, 900),
    run,
};

/// The release of Debian.
const DEBIAN: &str = "bookworm";
/// Inside the root: a volume by a line of fstab, twice, and by the habits of umount.
const BY_FSTAB: &str = "
    twinfs --version
    twinfs mkfs --size 64M /var/lib/disk.img
    mkdir -p /srv/data
    echo '/var/lib/disk.img /srv/data fuse.twinfs cache=32M,nofail,x-systemd.automount 0 0' >> /etc/fstab
    mount -a; mountpoint -q /srv/data; echo first > /srv/data/f
    umount /srv/data
    mount /srv/data; grep -qx first /srv/data/f; umount -v /srv/data
    mount -o ro /srv/data; ! touch /srv/data/g 2>/dev/null; twinfs umount /srv/data
    ! mount -t fuse.twinfs -o relatime /var/lib/disk.img /srv/data 2>said; grep -q relatime said
    echo '/var/lib/none.img /srv/data fuse.twinfs nofail 0 0' > other; ! mount -T other -a 2>said; test -s said
    twinfs check /var/lib/disk.img";
/// Inside the root: what the unit says, without a systemd.
const BY_UNIT: &str = "
    mkdir -p /etc/twinfs
    printf 'IMAGE=/var/lib/disk.img\\nDIR=/srv/data\\nOPTIONS=\"--cache 32M\"\\n' > /etc/twinfs/data.conf
    unit() { sed -n \"s/^$1=//p\" /usr/lib/systemd/system/twinfs@.service; }
    . /etc/twinfs/data.conf
    export WATCHDOG_USEC=1000000 NOTIFY_SOCKET=/run/notify
    eval \"exec $(unit ExecStart)\" & daemon=$!
    for n in $(seq 100); do mountpoint -q /srv/data && break; sleep .1; done
    unset NOTIFY_SOCKET; sleep 2
    grep -qx first /srv/data/f; echo second > /srv/data/s
    eval \"$(unit ExecStop)\"; wait $daemon
    eval \"exec $(unit ExecStart)\" & daemon=$!
    for n in $(seq 100); do mountpoint -q /srv/data && break; sleep .1; done
    grep -qx second /srv/data/s; kill $daemon; wait $daemon
    twinfs check /var/lib/disk.img";
/// Inside the root: nothing of the package stays, and all of its user.
const PURGED: &str = "
    test -x /usr/sbin/mount.fuse.twinfs; test -s /usr/share/man/man1/twinfs-mount.1.gz
    test -s /usr/share/bash-completion/completions/twinfs; test -s /usr/share/twinfs/grafana.json
    dpkg -V twinfs
    dpkg -P twinfs >/dev/null
    ! test -e /usr/bin/twinfs; ! test -e /usr/sbin/mount.fuse.twinfs; ! test -e /usr/lib/systemd/system/twinfs@.service
    test -s /var/lib/disk.img; test -s /etc/twinfs/data.conf";

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    bench.needs_root("a root of its own")?;
    tools::need(
        bench,
        &[("mmdebstrap", "mmdebstrap"), ("dpkg-deb", "dpkg"), ("objdump", "binutils")],
    )?;
    let archive = debian(bench)?;
    let package = crate::package::debian(&bench.root)?;
    let units = units_are_sound(bench)?;
    let root = bench.dir.join("root");
    let at = root.display();
    bench.shell(&bench.dir, &format!("mkdir root; tar -C root -xf '{}'", archive.display()))?;
    bench.shell(&bench.dir, &format!("cp '{}' root/tmp/t.deb", package.display()))?;
    let place = root.join("run/notify");
    let supervisor =
        UnixDatagram::bind(&place).map_err(|why| format!("{}: {why}", place.display()))?;
    let mounts = format!(
        "mount --bind '{at}' '{at}'; mount -t proc proc '{at}/proc'; mount --rbind /dev '{at}/dev'"
    );
    let inside = |script: &str| script.replace('\'', "'\\''");
    for script in [&format!("dpkg -i /tmp/t.deb >/dev/null;{BY_FSTAB}"), BY_UNIT, PURGED] {
        // The namespace of processes ends whatever a failed script leaves.
        let line = format!("{mounts}; chroot '{at}' sh -euc '{}'", inside(script));
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", &line]);
        bench.run(command.current_dir(&bench.dir))?;
    }
    let heard = heard_by(&supervisor)?;
    Ok(format!("{units} units; the supervisor heard {heard} messages"))
}

/// The archive of a minimal Debian, made if there is none yet.
fn debian(bench: &Bench) -> Result<PathBuf, Stop> {
    let archive = tools::target_dir(&bench.root).join(format!("tools/{DEBIAN}.tar"));
    if archive.exists() {
        return Ok(archive);
    }
    let parent = archive.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent).map_err(|why| format!("{}: {why}", parent.display()))?;
    let part = archive.with_extension("part.tar");
    let mut make = Command::new("mmdebstrap");
    make.args(["--quiet", "--variant=minbase", "--include=mount", DEBIAN]).arg(&part);
    bench.run(&mut make).map_err(|why| Stop::Skipped(format!("no Debian can be had: {why}")))?;
    std::fs::rename(&part, &archive).map_err(|why| format!("{}: {why}", archive.display()))?;
    Ok(archive)
}

/// systemd accepts the units, whose program is here the one under test. Gives their number.
fn units_are_sound(bench: &Bench) -> Result<usize, Stop> {
    tools::need(bench, &[("systemd-analyze", "systemd")])?;
    let from = bench.root.join("packaging/systemd");
    let program = bench.program.display();
    let line = format!(
        "mkdir units; for unit in '{}'/*.service; do sed 's|/usr/bin/twinfs|{program}|' \"$unit\" > units/$(basename \"$unit\"); done; \
         systemd-analyze --man=no verify units/*.service; ls units | wc -l",
        from.display()
    );
    let said = bench.shell(&bench.dir, &line)?;
    Ok(said.trim().parse().map_err(|_| format!("systemd-analyze: {said}"))?)
}

/// That a supervisor heard of a start, of life, and of an end, in this order. Gives the number of messages.
fn heard_by(supervisor: &UnixDatagram) -> Result<usize, String> {
    let text = |why: std::io::Error| format!("the supervisor: {why}");
    supervisor.set_read_timeout(Some(Duration::from_millis(10))).map_err(text)?;
    let (mut messages, mut buf) = (Vec::new(), [0; 4096]);
    while let Ok(len) = supervisor.recv(&mut buf) {
        messages.push(String::from_utf8_lossy(&buf[..len]).into_owned());
    }
    let at = |what: &str| messages.iter().position(|message| message.contains(what));
    let alive = messages.iter().filter(|message| message.contains("WATCHDOG=1")).count();
    match (at("READY=1"), at("STOPPING=1")) {
        (Some(ready), Some(stopping)) if ready < stopping && alive >= 3 => Ok(messages.len()),
        _ => Err(format!("the supervisor heard {messages:?}")),
    }
}
