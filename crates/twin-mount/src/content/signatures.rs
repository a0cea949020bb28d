//! What file systems, volume managers, partition tables and common files begin (or end) with.
//!
//! One table, [`SIGNATURES`]: to add one is to add a line. What is more particular stands before
//! what is more general, for the first that fits is named. Magic numbers and their places are those
//! of the formats' own descriptions; `cargo xtask e2e signatures` holds the table against what the
//! tools of a Linux machine make.

use Place::{At, BeforeEnd, End, Every};

/// Packets, in pcap (in either byte order, with micro- or nanoseconds) or pcapng.
pub const CAPTURE: &str = "a packet capture";

/// Where a magic number stands.
pub(super) enum Place {
    /// This many bytes from the start.
    At(u64),
    /// This many bytes before the end.
    End(u64),
    /// The end, cut to a multiple of the first number, minus the second number in bytes.
    BeforeEnd(u64, u64),
    /// `(from, distance, count)`: matches `count` times, `distance` bytes apart, beginning at `from`.
    Every(u64, u64, u64),
}

/// Reads bytes: as many as there are, for a length that was asked.
pub(super) type Read<'a> = &'a dyn Fn(u64, usize) -> Vec<u8>;

/// What something is known by.
pub(super) struct Signature {
    /// What it is, with its article: "an ext4 file system".
    pub(super) name: &'static str,
    places: &'static [Place],
    magic: &'static [u8],
    /// What must be true besides, where the magic number is short or shared. It is given the place
    /// at which the magic number was found.
    also: Option<fn(Read<'_>, u64) -> bool>,
}

impl Signature {
    /// Where it is found in something of `size` bytes.
    pub(super) fn found<'a>(&'a self, read: Read<'a>, size: u64) -> impl Iterator<Item = u64> + 'a {
        let fits = move |at: &u64| {
            let found = read(*at, self.magic.len());
            found == self.magic && self.also.is_none_or(|also| also(read, *at))
        };
        self.places.iter().flat_map(move |place| place.all(size)).filter(fits)
    }
}

impl Place {
    fn all(&self, size: u64) -> Vec<u64> {
        match *self {
            At(at) => vec![at],
            End(before) => size.checked_sub(before).into_iter().collect(),
            BeforeEnd(unit, before) => {
                (size / unit * unit).checked_sub(before).into_iter().collect()
            }
            Every(from, step, count) => (0..count).map(|i| from + i * step).collect(),
        }
    }
}

const fn line(name: &'static str, places: &'static [Place], magic: &'static [u8]) -> Signature {
    Signature { name, places, magic, also: None }
}

const fn with(
    name: &'static str,
    places: &'static [Place],
    magic: &'static [u8],
    also: fn(Read<'_>, u64) -> bool,
) -> Signature {
    Signature { name, places, magic, also: Some(also) }
}

/// The pages at whose ends Linux has the signature of swap space.
const SWAP: &[Place] =
    &[At(4096 - 10), At(8192 - 10), At(16384 - 10), At(32768 - 10), At(65536 - 10)];

const EXT: &[Place] = &[At(1024 + 56)];
const UFS1: &[Place] = &[At(1372), At(8192 + 1372)];
const UFS2: &[Place] = &[At(65536 + 1372), At(262_144 + 1372)];

/// All that is known, the more particular first.
pub(super) const SIGNATURES: &[Signature] = &[
    // File systems.
    with("an ext4 file system", EXT, b"\x53\xef", is_ext4),
    with("an ext3 file system", EXT, b"\x53\xef", is_ext3),
    with("an ext2 file system", EXT, b"\x53\xef", is_ext),
    line("an XFS file system", &[At(0)], b"XFSB"),
    line("a Btrfs file system", &[At(65536 + 64), At((64 << 20) + 64)], b"_BHRfS_M"),
    line(
        "a bcachefs file system",
        &[At(4096 + 24)],
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
    ),
    line(
        "a bcache device",
        &[At(4096 + 24)],
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
    ),
    line("an F2FS file system", &[At(1024), At(1024 + 4096)], b"\x10\x20\xf5\xf2"),
    line("an EROFS file system", &[At(1024)], b"\xe2\xe1\xf5\xe0"),
    with("a NILFS2 file system", &[At(1024 + 6)], b"\x34\x34", is_nilfs),
    line("a JFS file system", &[At(32768)], b"JFS1"),
    line("a ReiserFS file system", &[At(65536 + 52), At(8192 + 52)], b"ReIsEr"),
    line("a Reiser4 file system", &[At(65536)], b"ReIsEr4"),
    line("an NTFS file system", &[At(3)], b"NTFS    "),
    line("an exFAT file system", &[At(3)], b"EXFAT   "),
    line("a BitLocker volume", &[At(3)], b"-FVE-FS-"),
    line("a FAT file system", &[At(82)], b"FAT32   "),
    line("a FAT file system", &[At(54)], b"FAT16   "),
    line("a FAT file system", &[At(54)], b"FAT12   "),
    line("a FAT file system", &[At(54)], b"FAT     "),
    line("an HFS+ file system", &[At(1024)], b"H+\0\x04"),
    line("an HFSX file system", &[At(1024)], b"HX\0\x05"),
    line("an APFS container", &[At(32)], b"NXSB"),
    line("a UFS file system", UFS1, b"\x54\x19\x01\x00"),
    line("a UFS file system", UFS1, b"\x00\x01\x19\x54"),
    line("a UFS file system", UFS2, b"\x19\x01\x54\x19"),
    line("a UFS file system", UFS2, b"\x19\x54\x01\x19"),
    line("a ZFS pool", ZFS, b"\x0c\xb1\xba\x00\0\0\0\0"),
    line("a ZFS pool", ZFS, b"\0\0\0\0\x00\xba\xb1\x0c"),
    line("an OCFS2 file system", &[At(1024), At(2048), At(4096), At(8192)], b"OCFSV2"),
    line("a GFS2 file system", &[At(65536)], b"\x01\x16\x19\x70"),
    line("a VMFS volume", &[At(1 << 20)], b"\x5e\xf1\xab\x2f"),
    line("a VMFS volume", &[At(2 << 20)], b"\x0d\xd0\x01\xc0"),
    line("a SquashFS image", &[At(0)], b"hsqs"),
    line("a cramfs image", &[At(0), At(512)], b"\x45\x3d\xcd\x28"),
    line("a romfs image", &[At(0)], b"-rom1fs-"),
    line("an ISO 9660 image", &[At(32769)], b"CD001"),
    line("a UDF file system", &[Every(32769, 2048, 8)], b"NSR02"),
    line("a UDF file system", &[Every(32769, 2048, 8)], b"NSR03"),
    line("a UDF file system", &[Every(32769, 4096, 8)], b"NSR03"),
    with("a Minix file system", &[At(1024 + 16)], b"\x7f\x13", is_minix),
    with("a Minix file system", &[At(1024 + 16)], b"\x8f\x13", is_minix),
    with("a Minix file system", &[At(1024 + 16)], b"\x68\x24", is_minix),
    with("a Minix file system", &[At(1024 + 16)], b"\x78\x24", is_minix),
    with("a Minix file system", &[At(1024 + 24)], b"\x5a\x4d", is_minix3),
    // What lies below file systems.
    line("swap space", SWAP, b"SWAPSPACE2"),
    line("swap space", SWAP, b"SWAP-SPACE"),
    line("a hibernated system", SWAP, b"S1SUSPEND\0"),
    line("a hibernated system", SWAP, b"S2SUSPEND\0"),
    line("a LUKS volume", &[At(0)], b"LUKS\xba\xbe"),
    line("a LUKS volume", &[At(16384), At(32768), At(65536)], b"SKUL\xba\xbe"),
    with("an LVM physical volume", &[Every(0, 512, 4)], b"LABELONE", is_lvm),
    line("a member of a Linux RAID", &[At(0), At(4096)], b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
    line("a member of a Linux RAID", RAID_AT_END, b"\xfc\x4e\x2b\xa9"),
    line("a dm-integrity volume", &[At(0)], b"integrt\0"),
    line("a dm-verity volume", &[At(0)], b"verity\0\0"),
    line("a VDO volume", &[At(0)], b"dmvdo001"),
    line("a Stratis device", &[At(512 + 4), At(4608 + 4)], b"!Stra0tis\x86\xff\x02^\x41rh"),
    line("a Ceph device", &[At(0)], b"bluestore block device"),
    line("an Oracle ASM disk", &[At(32)], b"ORCLDISK"),
    // Images of disks.
    line("a QCOW image", &[At(0)], b"QFI\xfb"),
    line("a VMDK image", &[At(0)], b"KDMV"),
    line("a VDI image", &[At(64)], b"\x7f\x10\xda\xbe"),
    line("a VHDX image", &[At(0)], b"vhdxfile"),
    line("a VHD image", &[At(0), End(512)], b"conectix"),
    line("an Android sparse image", &[At(0)], b"\x3a\xff\x26\xed"),
    // Archives, and files that are easily taken for an image.
    line("a tar archive", &[At(257)], b"ustar"),
    line("a zip archive", &[At(0)], b"PK\x03\x04"),
    line("a zip archive", &[At(0)], b"PK\x05\x06"),
    line(CAPTURE, &[At(0)], b"\xa1\xb2\xc3\xd4"),
    line(CAPTURE, &[At(0)], b"\xd4\xc3\xb2\xa1"),
    line(CAPTURE, &[At(0)], b"\xa1\xb2\x3c\x4d"),
    line(CAPTURE, &[At(0)], b"\x4d\x3c\xb2\xa1"),
    line(CAPTURE, &[At(0)], b"\x0a\x0d\x0d\x0a"),
    line("a gzip file", &[At(0)], b"\x1f\x8b\x08"),
    line("a bzip2 file", &[At(0)], b"BZh"),
    line("an xz file", &[At(0)], b"\xfd7zXZ\0"),
    line("a zstd file", &[At(0)], b"\x28\xb5\x2f\xfd"),
    // A skippable frame (RFC 8878, 3.1.2), with which pzstd begins: its first byte is 0x50 to 0x5f.
    line("a zstd file", &[At(1)], b"\x2a\x4d\x18"),
    line("an lz4 file", &[At(0)], b"\x04\x22\x4d\x18"),
    line("a 7z archive", &[At(0)], b"7z\xbc\xaf\x27\x1c"),
    line("a RAR archive", &[At(0)], b"Rar!\x1a\x07"),
    line("a cpio archive", &[At(0)], b"07070"),
    line("an ar archive or Debian package", &[At(0)], b"!<arch>\n"),
    line("an RPM package", &[At(0)], b"\xed\xab\xee\xdb"),
    line("a PDF document", &[At(0)], b"%PDF-"),
    line("a PostScript document", &[At(0)], b"%!PS"),
    line("an office document", &[At(0)], b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
    line("a PNG picture", &[At(0)], b"\x89PNG\r\n\x1a\n"),
    line("a JPEG picture", &[At(0)], b"\xff\xd8\xff"),
    line("a GIF picture", &[At(0)], b"GIF8"),
    line("a RIFF file (WebP, WAV, AVI)", &[At(0)], b"RIFF"),
    line("a Matroska video", &[At(0)], b"\x1a\x45\xdf\xa3"),
    line("an MP4 or HEIF file", &[At(4)], b"ftyp"),
    line("an Ogg file", &[At(0)], b"OggS"),
    line("a FLAC file", &[At(0)], b"fLaC"),
    line("an MP3 file", &[At(0)], b"ID3"),
    line("an ELF program", &[At(0)], b"\x7fELF"),
    line("a Windows program", &[At(0)], b"MZ"),
    line("a script", &[At(0)], b"#!"),
    line("an SQLite database", &[At(0)], b"SQLite format 3\0"),
    line("a git pack", &[At(0)], b"PACK\0\0\0"),
    line("a twinfs trace or flight log", &[At(0)], b"\x89TWT\r\n\x1a\n"),
    // Partition tables come last: images of CDs and FAT file systems may have one as well.
    line("a GPT partition table", &[At(512), At(4096), End(512), End(4096)], b"EFI PART"),
    line("an Apple partition map", &[At(512), At(2048)], b"PM\0\0"),
    line("a BSD disk label", &[At(0), At(64), At(512)], b"\x57\x45\x56\x82"),
    line("a Sun disk label", &[At(508)], b"\xda\xbe"),
    with("an MBR partition table", &[At(510)], b"\x55\xaa", has_partitions),
    line("a boot sector", &[At(510)], b"\x55\xaa"),
];

/// The uberblocks of the first two labels, and those of larger sectors.
const ZFS: &[Place] = &[Every(131_072, 1024, 128), Every(393_216, 1024, 128)];

/// Versions 0.90 and 1.0 of Linux RAID.
const RAID_AT_END: &[Place] = &[BeforeEnd(65536, 65536), BeforeEnd(4096, 8192)];

fn number(read: Read<'_>, at: u64) -> u32 {
    read(at, 4).try_into().map_or(0, u32::from_le_bytes)
}

/// Ext's magic number has two bytes only: its other fields must make sense.
fn is_ext(read: Read<'_>, _: u64) -> bool {
    let inodes = number(read, 1024);
    let blocks = number(read, 1024 + 4);
    let block_size_log = number(read, 1024 + 24);
    // An external journal has no inodes.
    (inodes > 0 || number(read, 1024 + 96) & 8 != 0) && blocks > 0 && block_size_log <= 6
}

/// With a journal and nothing that ext3 does not know.
fn is_ext3(read: Read<'_>, at: u64) -> bool {
    is_ext(read, at) && number(read, 1024 + 92) & 4 != 0
}

/// With a feature that ext3 does not know.
fn is_ext4(read: Read<'_>, at: u64) -> bool {
    let (incompatible, read_only) = (number(read, 1024 + 96), number(read, 1024 + 100));
    is_ext(read, at) && (incompatible & !0x16 != 0 || read_only & !0x7 != 0)
}

fn is_nilfs(read: Read<'_>, _: u64) -> bool {
    number(read, 1024) == 2
}

/// Inodes, and the logarithm of blocks in a zone.
fn is_minix(read: Read<'_>, _: u64) -> bool {
    let head = read(1024, 12);
    head.len() == 12 && head[..2] != [0, 0] && head[10..12] == [0, 0]
}

fn is_minix3(read: Read<'_>, _: u64) -> bool {
    let inodes = number(read, 1024);
    let block_size = number(read, 1024 + 28) & 0xffff;
    inodes > 0 && block_size.is_power_of_two() && (1024..=4096).contains(&block_size)
}

fn is_lvm(read: Read<'_>, at: u64) -> bool {
    read(at + 24, 8) == b"LVM2 001"
}

/// Four entries, each of which is active or not and one of which is used.
fn has_partitions(read: Read<'_>, _: u64) -> bool {
    let table = read(446, 64);
    let entries = table.chunks_exact(16);
    table.len() == 64
        && entries.clone().all(|entry| entry[0] & 0x7f == 0)
        && entries.clone().any(|entry| entry[4] != 0)
}
