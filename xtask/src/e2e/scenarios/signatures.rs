//! `mkfs` on the volumes and files of other tools: all of them are refused by name, and nothing is
//! written.
//!
//! Our table of signatures is compared with the tools themselves, and with `blkid`, which
//! recognizes the content of a device with libblkid.

use std::path::Path;
use std::process::Command;

use super::super::bench::Bench;
use super::super::{Outcome, Scenario, Stop, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "signatures",
    about: "mkfs refuses volumes and files of other tools by name and leaves them unchanged",
    limit_s: (300, 300),
    run,
};

/// A command that makes a volume or file in `image`, a sparse file of 320 MiB; the program that it
/// needs, with its Debian package; our name for it, and that of blkid (empty if blkid does not
/// recognize it).
struct Made {
    by: &'static str,
    program: (&'static str, &'static str),
    ours: &'static str,
    blkid: &'static str,
}

const fn made(
    by: &'static str,
    program: (&'static str, &'static str),
    ours: &'static str,
    blkid: &'static str,
) -> Made {
    Made { by, program, ours, blkid }
}

const E2FS: (&str, &str) = ("mkfs.ext4", "e2fsprogs");
const DOSFS: (&str, &str) = ("mkfs.fat", "dosfstools");
const SFDISK: (&str, &str) = ("sfdisk", "fdisk");

const ALL: &[Made] = &[
    made("mkfs.ext4 -q -F image", E2FS, "an ext4 file system", "ext4"),
    made("mkfs.ext3 -q -F image", E2FS, "an ext3 file system", "ext3"),
    made("mkfs.ext2 -q -F image", E2FS, "an ext2 file system", "ext2"),
    made("mkfs.xfs -q -f image", ("mkfs.xfs", "xfsprogs"), "an XFS file system", "xfs"),
    made("mkfs.btrfs -q -f image", ("mkfs.btrfs", "btrfs-progs"), "a Btrfs file system", "btrfs"),
    made("mkfs.f2fs -q -f image", ("mkfs.f2fs", "f2fs-tools"), "an F2FS file system", "f2fs"),
    made("mkfs.fat -F 32 image", DOSFS, "a FAT file system", "vfat"),
    made("mkfs.fat -F 16 image", DOSFS, "a FAT file system", "vfat"),
    made("mkfs.ntfs -q -F -Q image", ("mkfs.ntfs", "ntfs-3g"), "an NTFS file system", "ntfs"),
    made("mkfs.exfat image", ("mkfs.exfat", "exfatprogs"), "an exFAT file system", "exfat"),
    made("mkfs.minix image", ("mkfs.minix", "util-linux-extra"), "a Minix file system", "minix"),
    made("mkfs.minix -3 image", ("mkfs.minix", "util-linux-extra"), "a Minix file system", "minix"),
    made(
        "rm image; mksquashfs /etc/default image -quiet -no-progress",
        ("mksquashfs", "squashfs-tools"),
        "a SquashFS image",
        "squashfs",
    ),
    made("mkswap image", ("mkswap", "util-linux"), "swap space", "swap"),
    made(
        "pvcreate -q --devicesfile '' --config 'devices {scan=\"/dev\"}' $DEVICE",
        ("pvcreate", "lvm2"),
        "an LVM physical volume",
        "LVM2_member",
    ),
    made(
        "printf key | cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 \
         --pbkdf-force-iterations 1000 image -",
        ("cryptsetup", "cryptsetup-bin"),
        "a LUKS volume",
        "crypto_LUKS",
    ),
    made("echo 'label: gpt' | sfdisk -q image", SFDISK, "a GPT partition table", "gpt"),
    made("printf 'label: dos\\n,8M\\n' | sfdisk -q image", SFDISK, "an MBR partition table", "dos"),
    made("tar cf image /etc/default", ("tar", "tar"), "a tar archive", ""),
    made("tar czf image /etc/default", ("gzip", "gzip"), "a gzip file", ""),
    made(
        "rm image; zip -q image /etc/hostname; mv image.zip image",
        ("zip", "zip"),
        "a zip archive",
        "",
    ),
    made("xz -c /etc/passwd > image", ("xz", "xz-utils"), "an xz file", ""),
    made("zstd -q -c /etc/passwd > image", ("zstd", "zstd"), "a zstd file", ""),
    made("cp /bin/sh image", ("sh", "dash"), "an ELF program", ""),
    made("printf '%%PDF-1.7\\n1 0 obj\\n' > image", ("sh", "dash"), "a PDF document", ""),
    made("cp /etc/passwd image", ("sh", "dash"), "a text file", ""),
    made(
        "head -c 3000000 /dev/urandom > image",
        ("sh", "dash"),
        "data that twinfs does not know",
        "",
    ),
];

fn run(bench: &Bench) -> Outcome {
    tools::need(bench, &[("blkid", "util-linux"), ("sha256sum", "coreutils")])?;
    let (mut refused, mut without) = (0, Vec::new());
    for made in ALL {
        match tools::need(bench, &[made.program]).and_then(|()| one(bench, made)) {
            Ok(()) => refused += 1,
            Err(Stop::Skipped(why)) => {
                println!("e2e: signatures: without {}: {why}", made.ours);
                without.push(made.program.0);
            }
            Err(failed) => return Err(failed),
        }
    }
    blank_is_taken(bench)?;
    Ok(format!("{refused} kinds refused by name, {} tools missing", without.len()))
}

/// Makes it, and checks that all commands name it and none writes to it.
fn one(bench: &Bench, made: &Made) -> Result<(), Stop> {
    let Made { by, ours, blkid, .. } = made;
    let dir = &bench.dir;
    bench.shell(dir, "rm -f image; truncate -s 320M image")?;
    if by.contains("$DEVICE") {
        bench.needs_root("a loop device")?;
        let attach = "losetup -f --show image";
        let device = bench.shell(dir, attach).map_err(Stop::Skipped)?;
        let device = device.trim();
        let done = bench.shell(dir, &format!("DEVICE={device}; {by}; blkid -p {device}"));
        bench.shell(dir, &format!("losetup -d {device}"))?;
        done?;
    } else {
        bench.shell(dir, &format!("PATH=$PATH:/usr/sbin:/sbin; {by}"))?;
    }
    if !blkid.is_empty() {
        let says = bench.shell(dir, "PATH=$PATH:/usr/sbin:/sbin; blkid -p image")?;
        if !says.contains(&format!("TYPE=\"{blkid}\"")) {
            return Err(Stop::Failed(format!("{by}: blkid calls it {says}")));
        }
    }
    let sum = || bench.shell(dir, "sha256sum image; stat -c %s image");
    let before = sum()?;
    for words in [&["mkfs"][..], &["mkfs", "--layout", "ffs"], &["check"], &["dump"], &["stat"]] {
        must_fail(bench, words, &dir.join("image"), ours)?;
    }
    if sum()? != before {
        return Err(Stop::Failed(format!("{by}: was written to")));
    }
    overwritten(bench, made)
}

/// Checks that an old volume is not recognized any more once a volume was made over it, although
/// copies of its superblock remain far behind the first one.
fn overwritten(bench: &Bench, made: &Made) -> Result<(), Stop> {
    let dir = &bench.dir;
    if made.blkid.is_empty() || bench.shell(dir, "stat -c %s image")?.trim() != "335544320" {
        return Ok(());
    }
    let twinfs = bench.program.display();
    for layout in ["lfs", "ffs"] {
        bench.shell(dir, &format!("{twinfs} mkfs --force --layout {layout} image"))?;
        let says = bench.shell(dir, "PATH=$PATH:/usr/sbin:/sbin; blkid -p image || test $? = 2")?;
        if says.contains("TYPE=") {
            return Err(Stop::Failed(format!("{}: and mkfs, and blkid says {says}", made.by)));
        }
        bench.shell(dir, &format!("{twinfs} check -q image"))?;
    }
    Ok(())
}

/// Checks that a command on an image is refused with this message.
fn must_fail(bench: &Bench, words: &[&str], image: &Path, text: &str) -> Result<(), Stop> {
    let found = bench.run(Command::new(&bench.program).args(words).arg(image));
    // Only mkfs examines unknown data.
    let text = match (text.starts_with("data"), words[0]) {
        (true, "check" | "dump" | "stat") => "no twinfs volume",
        _ => text,
    };
    match found {
        Err(why) if why.contains(text) && !why.contains("damaged") => Ok(()),
        Err(why) => Err(Stop::Failed(format!("{text} is not what it says: {why}"))),
        Ok(_) => Err(Stop::Failed(format!("{words:?} went on over {text}"))),
    }
}

/// New, sparse and zeroed files are accepted, and with `--force` any file.
fn blank_is_taken(bench: &Bench) -> Result<(), Stop> {
    let twinfs = bench.program.display();
    let line = format!(
        "rm -f image; truncate -s 64M image; {twinfs} mkfs image; {twinfs} check -q image; \
         rm image; {twinfs} mkfs --size 64M image; {twinfs} mkfs --force --layout ffs image; \
         {twinfs} check -q image; \
         dd if=/dev/zero of=image bs=1M count=64 status=none; {twinfs} mkfs image; \
         mkdir -p mnt; echo text > image2; {twinfs} mkfs --force image2 2>&1 || true; \
         test \"$(cat image2)\" = text"
    );
    bench.shell(&bench.dir, &line)?;
    Ok(())
}
