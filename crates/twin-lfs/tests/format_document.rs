//! `docs/ondisk-lfs.md` says what the code does: its tables are read here and held against what
//! the encoders write.
//!
//! A table that is tested has a comment `<!-- struct: NAME -->` before it. A structure is encoded
//! with a value of its own in each field; each row must then have that value at its offset, and
//! the rows must follow one another without gaps.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::World;
use twin_fs::dinode::{Dinode, HIDDEN, INLINE, TRUNCATING};
use twin_fs::dir::block::Format;
use twin_fs::dir::index::{self, BlockMap, Frames, StepError};
use twin_fs::geometry::{Geometry, Ptr};
use twin_fs::{Op, Timestamp, XattrMode, mode};
use twin_lfs::MkfsOptions;
use twin_lfs::format::{
    BlockInfo, CHECKPOINT_BYTES, Checkpoint, HeadPos, Header, HolderVersion, IMAP_ENTRY_BYTES,
    ImapEntry, InodeInfo, LOG_WRITE_CHECKPOINT, LOG_WRITE_CLEANER, LOG_WRITE_LAST, Profile,
    RecordKind, SEG_ENTRY_BYTES, SegEntry, SnapshotRecord, SnapshotsFile, Summary, SummaryEntry,
    Superblock,
};
use twin_rt::Time;

const DOCUMENT: &str = include_str!("../../../docs/ondisk-lfs.md");

/// Rows of a table: their cells, trimmed.
fn table(marker: &str) -> Vec<Vec<String>> {
    let (_, rest) = DOCUMENT.split_once(marker).unwrap_or_else(|| panic!("no table {marker}"));
    let lines = rest.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    let cells = |line: &str| line.split('|').skip(1).map(|cell| cell.trim().into()).collect();
    rows.map(cells).collect()
}

/// The value of a sum of products, as `80+12·H`.
fn eval(text: &str, sizes: &[(&str, usize)]) -> usize {
    let factor = |word: &str| match word.parse() {
        Ok(number) => number,
        Err(_) => {
            let known = sizes.iter().find(|(name, _)| *name == word);
            known.unwrap_or_else(|| panic!("what is {word} in {text:?}?")).1
        }
    };
    text.split('+').map(|term| term.split('·').map(factor).product::<usize>()).sum()
}

/// The checksum that the document says is kept of this structure: where, and what it is.
fn checksum(structure: &str, raw: &[u8], summary_bytes: usize) -> Option<(usize, u32)> {
    let rows = table("<!-- checksums -->");
    let row = rows.iter().find(|row| row[0] == structure)?;
    let (from, to) = row[2].split_once(" to ").expect("a range");
    let to = eval(to.trim_matches('`'), &[("summary_bytes", summary_bytes)]);
    Some((row[1].parse().unwrap(), crc32c::crc32c(&raw[from.parse().unwrap()..to])))
}

/// Holds a structure against its table. Rows called `zero` and `crc` need no value.
fn hold(structure: &str, raw: &[u8], sizes: &[(&str, usize)], values: &[(&str, Vec<u8>)]) {
    let mut unused: BTreeSet<&str> = values.iter().map(|(name, _)| *name).collect();
    let mut end = 0;
    for row in table(&format!("<!-- struct: {structure} -->")) {
        let (at, len, field) = (eval(&row[0], sizes), eval(&row[1], sizes), row[2].as_str());
        let place = format!("{structure}: {field} at {at}");
        assert_eq!(at, end, "{place} does not follow the row before it");
        end = at + len;
        let found = raw.get(at..end).unwrap_or_else(|| panic!("{place} is outside"));
        let value = values.iter().find(|(name, _)| *name == field).map(|(_, value)| value.clone());
        let expected = match (field, value) {
            (_, Some(value)) => value,
            ("zero", None) => vec![0; len],
            ("crc", None) => {
                let (place, crc) = checksum(structure, raw, raw.len()).expect("a checksum");
                assert_eq!(place, at, "{structure}: two places for one checksum");
                crc.to_le_bytes().to_vec()
            }
            _ => panic!("{place} is in the document but not in the test"),
        };
        assert_eq!(found, expected, "{place}");
        unused.remove(field);
    }
    assert!(unused.is_empty(), "{structure}: the document lacks {unused:?}");
    assert_eq!(end, raw.len(), "{structure}: the document ends at {end}");
}

fn b2(n: u16) -> Vec<u8> {
    n.to_le_bytes().into()
}
fn b4(n: u32) -> Vec<u8> {
    n.to_le_bytes().into()
}
fn b8(n: u64) -> Vec<u8> {
    n.to_le_bytes().into()
}

fn superblock(profile: Profile) -> Superblock {
    let geometry = match profile {
        Profile::Classic => Geometry::classic(8192, 1024),
        Profile::Modern => Geometry::modern(8192, 1024),
    };
    let uuid = std::array::from_fn(|i| i as u8 + 1);
    Superblock::plan(uuid, profile, geometry, 1 << 20, (64 << 20) + 777, 2).unwrap()
}

const PROFILES: [(Profile, u32); 2] = [(Profile::Classic, 1), (Profile::Modern, 2)];

#[test]
fn superblocks_are_as_described() {
    for (profile, number) in PROFILES {
        let sb = superblock(profile);
        let values = [
            ("magic", b"twinlfs1".to_vec()),
            ("version", b4(2)),
            ("may_ignore", b8(0)),
            ("must_write", b8(0)),
            ("must_know", b8(0)),
            ("uuid", sb.uuid.to_vec()),
            ("profile", b4(number)),
            ("block_size", b4(8192)),
            ("frag_size", b4(1024)),
            ("segment_size", b4(1 << 20)),
            ("segments", b4(63)),
            ("align", b4(sb.align)),
            ("copies", b4(2)),
            ("size", b8((64 << 20) + 777)),
            ("minfree", b4(sb.minfree)),
            ("table_blocks", b4(0)),
        ];
        hold("superblock", &sb.encode(), &[], &values);
        let grown = sb.grown_to(1 << 30).unwrap();
        let values = values.map(|(name, bytes)| match name {
            "must_know" => (name, b8(1)),
            "segments" => (name, b4(1023)),
            "size" => (name, b8(1 << 30)),
            "table_blocks" => (name, b4(1)),
            _ => (name, bytes),
        });
        hold("superblock", &grown.encode(), &[], &values);
        assert_eq!(Superblock::decode(&grown.encode(), 0, 1 << 30), Ok(grown));
        assert_eq!(sb.align, if number == 1 { 1024 } else { 8192 });
    }
}

#[test]
fn a_reader_does_with_unknown_features_what_the_document_says() {
    let sb = superblock(Profile::Modern);
    let table = [(16, true, 0), (24, true, 1 << 8), (32, false, 0), (12, false, 0)];
    for (at, opens, must_write) in table {
        let mut raw = sb.encode();
        raw[at + 1] = 1;
        let crc = crc32c::crc32c(&raw[12..]);
        raw[8..12].copy_from_slice(&crc.to_le_bytes());
        let decoded = Superblock::decode(&raw, 0, 1 << 30);
        assert_eq!(decoded.is_ok(), opens, "byte {at}");
        // Opening for writing refuses these: see the tests of volumes.
        assert_eq!(decoded.map_or(0, |sb| sb.must_write), must_write, "byte {at}");
    }
}

#[test]
fn a_table_in_two_parts_is_where_the_document_says() {
    for (profile, _) in PROFILES {
        let sb = superblock(profile).grown_to(2 << 30).unwrap();
        let (pointers, levels) = (sb.geometry.per_block(), sb.geometry.levels as u32);
        let tree = sb.geometry.direct as u64 + (1..levels).map(|n| pointers.pow(n)).sum::<u64>();
        let far = tree + pointers.pow(levels) / 4;
        assert_eq!((sb.usage_blocks(), sb.first_table_blocks()), (4, 1));
        assert_eq!([0, 1, 2, 3].map(|nth| sb.table_lbn(nth)), [0, far, far + 1, far + 2]);
        assert_eq!(
            [0, 1, far, far + 2, far + 3].map(|lbn| sb.table_block_at(lbn)),
            [Some(0), None, Some(1), Some(3), None]
        );
    }
}

#[test]
fn the_places_on_the_device_are_as_described() {
    let sb = superblock(Profile::Modern);
    let end = (sb.size() - 4096) / 4096 * 4096;
    assert_eq!(Superblock::places(sb.size(), 2), [0, end]);
    assert_eq!(sb.checkpoint_places(0), [4096, end - 4096]);
    assert_eq!(sb.checkpoint_places(1), [8192, end - 8192]);
    assert_eq!(sb.segment_start(5), 65_536 + 5 * (1 << 20));
    assert_eq!(u64::from(sb.segments()), (sb.size() - 65_536 - 12_288) >> 20);
}

#[test]
fn checkpoints_are_as_described() {
    for (profile, _) in PROFILES {
        let sb = superblock(profile);
        let ifile = Dinode::new(&sb.geometry, 1, 0, 0, Timestamp { secs: 7, nanos: 8 });
        let ifile = Dinode { flags: HIDDEN, nlink: 1, ..ifile };
        let head = HeadPos { segment: 11, offset: 24 * 1024, next: 13 };
        let checkpoint = Checkpoint {
            number: 0x1122_3344_5566_7788,
            serial: 0x2233,
            time: Time(0x3344),
            closed: true,
            free_head: 0x4455,
            free_inodes: 0x5566,
            orphans: 0x6677,
            heads: vec![head; 2],
            picked: vec![0x88, 0x99, 0xaa],
            snapshots: Some(Dinode { ino: 0, ..ifile.clone() }),
            ifile,
            quotas: twin_fs::quota::QuotaNote::Counted,
        };
        let raw = checkpoint.encode(&sb);
        let mut inode = vec![0; sb.geometry.inode_size as usize];
        checkpoint.ifile.encode(&sb.geometry, &mut inode);
        let mut snapshots = vec![0; inode.len()];
        checkpoint.snapshots.as_ref().unwrap().encode(&sb.geometry, &mut snapshots);
        let heads: Vec<u8> = [b4(11), b4(24 * 1024), b4(13)].concat().repeat(2);
        hold(
            "head",
            &heads[..12],
            &[],
            &[("segment", b4(11)), ("offset", b4(24 * 1024)), ("next", b4(13))],
        );
        let values = [
            ("magic", b"twinckp1".to_vec()),
            ("crc", checksum("checkpoint", &raw, 0).unwrap().1.to_le_bytes().into()),
            ("tag", b4(crc32c::crc32c(&sb.uuid))),
            ("closed", b4(1)),
            ("number", b8(checkpoint.number)),
            ("serial", b8(0x2233)),
            ("time", b8(0x3344)),
            ("free_head", b8(0x4455)),
            ("free_inodes", b8(0x5566)),
            ("orphans", b8(0x6677)),
            ("streams", b4(2)),
            ("picked", b4(3)),
            ("heads", heads),
            ("picked_list", [b8(0x88), b8(0x99), b8(0xaa)].concat()),
            ("ifile", inode.clone()),
            ("snapshots", snapshots),
            ("quotas", b4(2)),
        ];
        let sizes = [("H", 2), ("P", 3), ("inode_size", inode.len())];
        let used = 80 + 24 + 24 + 2 * inode.len() + 4;
        hold("checkpoint", &raw[..used], &sizes, &values);
        assert!(raw[used..].iter().all(|&b| b == 0));
        assert_eq!(raw.len() as u64, CHECKPOINT_BYTES);
    }
}

#[test]
fn the_snapshots_file_is_as_described() {
    for (profile, _) in PROFILES {
        let sb = superblock(profile);
        let ifile = Dinode::new(&sb.geometry, 1, 0, 0, Timestamp { secs: 7, nanos: 8 });
        let ifile = Dinode { flags: HIDDEN, nlink: 1, ..ifile };
        let mut inode = vec![0; sb.geometry.inode_size as usize];
        ifile.encode(&sb.geometry, &mut inode);
        let record = SnapshotRecord {
            name: "before".into(),
            kind: RecordKind::Branch,
            id: 0x11,
            serial: 0x22,
            time: Time(0x33),
            free_head: 0x44,
            free_inodes: 0x55,
            orphans: 0x66,
            picked: 0x77,
            live_bytes: 0x88,
            ifile,
        };
        let file = SnapshotsFile { head: "work".into(), next_id: 0x99, records: vec![record] };
        let raw = file.encode(&sb);
        let name = |name: &str| {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(128, 0);
            bytes
        };
        let values = [
            ("magic", b"twinsnps".to_vec()),
            ("version", b4(1)),
            ("count", b4(1)),
            ("next_id", b8(0x99)),
            ("name_len", b4(4)),
            ("head_name", name("work")),
        ];
        hold("snapshots header", &raw[..1024], &[], &values);
        let values = [
            ("kind", b4(2)),
            ("name_len", b4(6)),
            ("id", b8(0x11)),
            ("serial", b8(0x22)),
            ("time", b8(0x33)),
            ("free_head", b8(0x44)),
            ("free_inodes", b8(0x55)),
            ("orphans", b8(0x66)),
            ("picked", b4(0x77)),
            ("live_bytes", b8(0x88)),
            ("name", name("before")),
            ("ifile", inode.clone()),
        ];
        hold(
            "snapshot record",
            &raw[1024..1280 + inode.len()],
            &[("inode_size", inode.len())],
            &values,
        );
        assert!(raw[1280 + inode.len()..].iter().all(|&byte| byte == 0));
    }
}

/// A summary with these entries, and the bytes of the entries.
fn encoded(sb: &Superblock, entries: Vec<SummaryEntry>) -> (Vec<u8>, Vec<u8>) {
    let header = Header {
        serial: 0x1122_3344,
        group: 0x2233,
        flags: LOG_WRITE_LAST | LOG_WRITE_CLEANER,
        stream: 1,
        next_segment: 17,
        total_bytes: 64 * 1024,
        summary_bytes: 1024,
        time: Time(0x5566),
    };
    let summary = Summary::new(header, entries, &[0xaabb, 0xccdd]);
    let raw = summary.encode(sb);
    let used = u32::from_le_bytes(raw[60..64].try_into().unwrap()) as usize;
    assert!(raw[used..].iter().all(|&b| b == 0));
    let body = raw[80..used].to_vec();
    (raw, body)
}

fn file_entry() -> SummaryEntry {
    let block = |lbn, len, crc| BlockInfo { lbn, len, crc, holder: None };
    let blocks = vec![block(5, 8192, 0x1111), block(-12, 8192, 0x2222), block(7, 1024, 0x3333)];
    SummaryEntry::File { ino: 0x7788, generation: 0x99, blocks }
}

#[test]
fn summaries_are_as_described() {
    assert_eq!((LOG_WRITE_LAST, LOG_WRITE_CHECKPOINT, LOG_WRITE_CLEANER), (1, 2, 4));
    for (profile, _) in PROFILES {
        let sb = superblock(profile);
        let (raw, body) = encoded(&sb, vec![file_entry()]);
        let crcs = [b4(0xaabb), b4(0xccdd)].concat();
        let crc = checksum("summary", &raw, 1024).unwrap().1;
        let values = [
            ("magic", b"tseg".to_vec()),
            ("crc", b4(crc)),
            ("tag", b4(crc32c::crc32c(&sb.uuid))),
            ("flags", b4(5)),
            ("serial", b8(0x1122_3344)),
            ("group", b8(0x2233)),
            ("time", b8(0x5566)),
            ("stream", b4(1)),
            ("next_segment", b4(17)),
            ("total_bytes", b4(64 * 1024)),
            ("summary_bytes", b4(1024)),
            ("entries", b4(1)),
            ("used", b4(80 + body.len() as u32)),
            ("data_crc", b4(crc32c::crc32c(&crcs))),
        ];
        hold("summary", &raw[..80], &[], &values);
    }
}

#[test]
fn entries_of_wide_summaries_are_as_described() {
    let sb = superblock(Profile::Modern);
    let (_, body) = encoded(&sb, vec![file_entry()]);
    let blocks = body[24..].to_vec();
    let values = [
        ("kind", b4(1)),
        ("count", b4(3)),
        ("ino", b8(0x7788)),
        ("generation", b4(0x99)),
        ("blocks", blocks.clone()),
    ];
    hold("wide file entry", &body, &[("N", 3)], &values);
    let values = [("lbn", b8(-12i64 as u64)), ("len", b4(8192)), ("crc", b4(0x2222))];
    hold("wide block", &blocks[16..32], &[], &values);
    let holder = Some(HolderVersion { at: 0x4444, crc: 0x5555 });
    let blocks = [5, -12].map(|lbn| BlockInfo { lbn, len: 8192, crc: 0x3333, holder });
    let entry = SummaryEntry::File { ino: 0x7788, generation: 0x99, blocks: blocks.into() };
    let (_, body) = encoded(&sb, vec![entry]);
    let blocks = body[24..].to_vec();
    let values = [
        ("kind", b4(4)),
        ("count", b4(2)),
        ("ino", b8(0x7788)),
        ("generation", b4(0x99)),
        ("blocks", blocks.clone()),
    ];
    hold("wide forwarded entry", &body, &[("N", 2)], &values);
    let values = [
        ("lbn", b8(-12i64 as u64)),
        ("len", b4(8192)),
        ("crc", b4(0x3333)),
        ("holder", b8(0x4444)),
        ("holder_crc", b4(0x5555)),
    ];
    hold("wide forwarded block", &blocks[32..], &[], &values);
    let infos = vec![InodeInfo { ino: 3, crc: 4 }, InodeInfo { ino: 0x55, crc: 0x66 }];
    let (_, body) = encoded(&sb, vec![SummaryEntry::Inodes(infos)]);
    let inodes = body[8..].to_vec();
    let values = [("kind", b4(2)), ("count", b4(2)), ("inodes", inodes.clone())];
    hold("wide inodes entry", &body, &[("N", 2)], &values);
    let values = [("ino", b8(0x55)), ("crc", b4(0x66))];
    hold("wide inode info", &inodes[16..], &[], &values);
    let (_, body) = encoded(&sb, vec![SummaryEntry::Freed { ino: 0x77, generation: 0x88 }]);
    let values = [("kind", b4(3)), ("generation", b4(0x88)), ("ino", b8(0x77))];
    hold("wide freed entry", &body, &[], &values);
}

#[test]
fn entries_of_narrow_summaries_are_as_described() {
    let sb = superblock(Profile::Classic);
    let (_, body) = encoded(&sb, vec![file_entry()]);
    let values = [
        ("count", vec![3, 0, 0]),
        ("kind", vec![1]),
        ("ino", b4(0x7788)),
        ("generation", b4(0x99)),
        ("last_len", b4(1024)),
        ("blocks", [b4(5), b4(-12i32 as u32), b4(7)].concat()),
    ];
    hold("narrow file entry", &body, &[("N", 3)], &values);
    let (_, body) = encoded(&sb, vec![SummaryEntry::Inodes(vec![InodeInfo { ino: 0, crc: 0 }; 6])]);
    hold("narrow inodes entry", &body, &[], &[("count", vec![6, 0, 0]), ("kind", vec![2])]);
    let (_, body) = encoded(&sb, vec![SummaryEntry::Freed { ino: 0x77, generation: 0x88 }]);
    let values = [("kind", vec![3]), ("ino", b4(0x77)), ("generation", b4(0x88))];
    hold("narrow freed entry", &body, &[], &values);
}

#[test]
fn the_tables_of_the_ifile_are_as_described() {
    let mut raw = [9; SEG_ENTRY_BYTES];
    SegEntry { live_bytes: 0x1234, forwards: true, pins: 0x77, written: Time(0x5678) }
        .encode(&mut raw);
    let values =
        [("live_bytes", b4(0x1234)), ("flags", b2(1)), ("pins", b2(0x77)), ("written", b8(0x5678))];
    hold("segment entry", &raw, &[], &values);
    let used = ImapEntry::Used { at: 0x1234, crc: 0x55, generation: 0x66, orphan: false };
    let orphan = ImapEntry::Used { at: 0x1234, crc: 0x55, generation: 0x66, orphan: true };
    let free = ImapEntry::Free { next: 0x1234, generation: 0x66 };
    for (entry, place, crc) in
        [(used, 0x1234, 0x55), (orphan, 0x1234 | 1u64 << 62, 0x55), (free, 0x1234 | 1u64 << 63, 0)]
    {
        let mut raw = [9; IMAP_ENTRY_BYTES];
        entry.encode(&mut raw);
        let values = [("place", b8(place)), ("crc", b4(crc)), ("generation", b4(0x66))];
        hold("map entry", &raw, &[], &values);
    }
}

fn inode(geometry: &Geometry) -> Dinode {
    let time = |n: u32| Timestamp { secs: i64::from(n), nanos: n + 1 };
    let mut d = Dinode::new(geometry, 0x1122, 0x2233, mode::REGULAR | 0o4755, time(10));
    (d.nlink, d.uid, d.gid, d.flags) = (0x33, 0x4444, 0x5555, TRUNCATING);
    (d.size, d.allocated) = (0x1_6666, 512 * 0x77);
    (d.atime, d.mtime, d.ctime, d.btime) = (time(20), time(30), time(40), time(50));
    for (i, ptr) in (1..).zip(&mut d.ptrs) {
        *ptr = Ptr { addr: 256 * i, len: 8192, crc: 0xc0 + i as u32 };
    }
    d
}

fn encode(d: &Dinode, geometry: &Geometry) -> Vec<u8> {
    let mut raw = vec![9; geometry.inode_size as usize];
    d.encode(geometry, &mut raw);
    raw
}

#[test]
fn wide_inodes_are_as_described() {
    let geometry = Geometry::modern(8192, 1024);
    let mut d = inode(&geometry);
    (d.rdev, d.index_ino, d.xattr_ino) = (0x8888, 0x9999, 0xaaaa);
    d.xattrs = vec![0xbb; 100];
    let pointer = |ptr: &Ptr| [b8(ptr.addr), b4(ptr.len), b4(ptr.crc)].concat();
    let mut values: BTreeMap<&str, Vec<u8>> = BTreeMap::from([
        ("version", b2(1)),
        ("flags", b2(4)),
        ("ino", b8(0x1122)),
        ("generation", b4(0x2233)),
        ("mode", b4(0o104_755)),
        ("nlink", b4(0x33)),
        ("uid", b4(0x4444)),
        ("gid", b4(0x5555)),
        ("inline_len", b2(0)),
        ("xattr_len", b2(100)),
        ("size", b8(0x1_6666)),
        ("allocated", b8(512 * 0x77)),
        ("device_or_entries", b8(0x8888)),
        ("index_ino", b8(0x9999)),
        ("xattr_ino", b8(0xaaaa)),
        ("pointers", d.ptrs.iter().flat_map(pointer).collect()),
        ("xattrs", [vec![0xbb; 100], vec![0; 28]].concat()),
    ]);
    for (name, n) in [("atime", 20), ("mtime", 30), ("ctime", 40), ("btime", 50)] {
        values.insert(name, b8(n));
    }
    for (name, n) in [("atime_ns", 21), ("mtime_ns", 31), ("ctime_ns", 41), ("btime_ns", 51)] {
        values.insert(name, b4(n));
    }
    let values: Vec<_> = values.into_iter().collect();
    hold("wide inode", &encode(&d, &geometry), &[], &values);
    let ptr = d.ptrs[3];
    let values = [("addr", b8(ptr.addr)), ("len", b4(ptr.len)), ("crc", b4(ptr.crc))];
    let mut content = vec![0; 8192];
    geometry.set_ptr(&mut content, 5, ptr);
    hold("wide pointer", &content[80..96], &[], &values);
    // With data in place of pointers.
    d.flags = INLINE;
    (d.inline, d.size) = (vec![0xdd; 200], 200);
    let raw = encode(&d, &geometry);
    assert_eq!((&raw[36..38], &raw[128..328]), (&b2(200)[..], &d.inline[..]));
}

#[test]
fn narrow_inodes_are_as_described() {
    let geometry = Geometry::classic(8192, 1024);
    let mut d = inode(&geometry);
    let values = [
        ("mode", b2(0o104_755)),
        ("nlink", b2(0x33)),
        ("ino", b4(0x1122)),
        ("size", b8(0x1_6666)),
        ("atime", b4(20)),
        ("atime_ns", b4(21)),
        ("mtime", b4(30)),
        ("mtime_ns", b4(31)),
        ("ctime", b4(40)),
        ("ctime_ns", b4(41)),
        ("pointers", d.ptrs.iter().flat_map(|ptr| b4(ptr.addr as u32)).collect()),
        ("flags", b4(4)),
        ("allocated", b4(0x77)),
        ("generation", b4(0x2233)),
        ("uid", b4(0x4444)),
        ("gid", b4(0x5555)),
        ("inline_len", b2(0)),
    ];
    hold("narrow inode", &encode(&d, &geometry), &[], &values);
    (d.mode, d.rdev) = (mode::CHAR | 0o600, 0x501);
    assert_eq!(encode(&d, &geometry)[40..48], b8(0x501));
}

#[test]
fn numbers_of_indirect_blocks_are_as_described() {
    for geometry in [Geometry::classic(4096, 1024), Geometry::modern(4096, 512)] {
        let n = geometry.per_block() as i64;
        assert_eq!(geometry.inode_child(12), -12);
        assert_eq!(geometry.inode_child(13), -(12 + n) - 1);
        assert_eq!(geometry.inode_child(14), -(12 + n + n * n) - 2);
        if geometry.levels > 3 {
            assert_eq!(geometry.inode_child(15), -(12 + n + n * n + n * n * n) - 3);
        }
    }
}

#[test]
fn directory_entries_are_as_described() {
    for (format, structure, len) in [
        (Format::Modern, "wide directory entry", 4096),
        (Format::Classic, "narrow directory entry", 512),
    ] {
        let mut block = vec![0; len];
        format.init_first(&mut block, 5, 2);
        let at = format.insert(&mut block, b"name", 0x1234, mode::SYMLINK).unwrap().offset;
        let tail = if format == Format::Modern { 8 } else { 0 };
        let mut ino = b4(0x1234);
        ino.resize(if tail > 0 { 8 } else { 4 }, 0);
        let end = at + ino.len() + 8;
        let values = [
            ("ino", ino),
            ("reclen", b2((len - tail - at) as u16)),
            ("kind", vec![0o12]),
            ("namlen", vec![4]),
            ("name", b"name".to_vec()),
        ];
        hold(structure, &block[at..end], &[("namlen", 4)], &values);
        assert!(block[end..].iter().all(|&b| b == 0));
    }
}

/// Runs a step on an index, with blocks of zeros where it wants new ones.
fn drive<T>(map: &mut BlockMap, step: impl Fn(&mut BlockMap) -> Result<T, StepError>) -> T {
    loop {
        match step(map) {
            Ok(done) => return done,
            Err(StepError::Make(lbn) | StepError::Load(lbn)) => map.put(lbn, vec![0; 4096]),
            Err(StepError::Bad(error)) => panic!("{error}"),
        }
    }
}

#[test]
fn directory_indexes_are_as_described() {
    let mut map = BlockMap::default();
    drive(&mut map, |m| index::create(m, [0x1111_2222, 0x3333_4444]));
    for i in 0..5000u32 {
        drive(&mut map, |m| index::insert(m, i.wrapping_mul(0x9e37_79b9), i));
        drive(&mut map, index::grow);
    }
    // Two buckets that overflow, one of which becomes shorter again: a chain and a free block.
    for hash in [5, 6] {
        (0..900).for_each(|i| drive(&mut map, |m| index::insert(m, hash, 10_000 + i)));
    }
    (0..900).for_each(|i| assert!(drive(&mut map, |m| index::remove(m, 6, 10_000 + i))));
    let header = index::header(&map).unwrap();
    let raw = map.read(0, <[u8]>::to_vec).unwrap();
    let generation = u32::BITS - (header.buckets - 1).leading_zeros();
    let values = [
        ("magic", b"tdhx".to_vec()),
        ("version", b4(1)),
        ("block_size", b4(4096)),
        ("key", [b8(0x1111_2222), b8(0x3333_4444)].concat()),
        ("entries", b8(5900)),
        ("buckets", b4(header.buckets)),
        ("overflow", b4(header.overflow)),
        ("free", b4(header.free as u32)),
        ("generation", b4(generation)),
        ("spares", raw[56..188].to_vec()),
    ];
    assert!(header.buckets > 8 && header.overflow > 0 && header.free > 0, "{header:?}");
    hold("index header", &raw[..188], &[], &values);
    assert!(raw[188..].iter().all(|&b| b == 0));
    // The formulas of the text.
    for bucket in 0..header.buckets {
        let g = (u32::BITS - bucket.leading_zeros()) as usize;
        let spare = u32::from_le_bytes(raw[56 + 4 * g..60 + 4 * g].try_into().unwrap());
        assert_eq!(header.primary(bucket), u64::from(1 + bucket + spare));
    }
    let round = header.buckets.next_power_of_two();
    for hash in (0..10_000).map(|i: u32| i.wrapping_mul(0x9e37_79b9)) {
        let bucket = if hash % round < header.buckets { hash % round } else { hash % (round / 2) };
        assert_eq!(header.bucket_of(hash), bucket);
    }
    let bucket = header.bucket_of(5);
    let chain = drive(&mut map, |m| index::check_bucket(m, bucket)).blocks;
    let block = map.read(header.primary(bucket), <[u8]>::to_vec).unwrap();
    let slots: Vec<_> = index::bucket_entries(&block).collect();
    let bytes = |slot: &index::Slot| [b4(slot.hash), b4(slot.position)].concat();
    let values = [
        ("magic", b"tdhb".to_vec()),
        ("bucket", b4(bucket)),
        ("count", b4(slots.len() as u32)),
        ("next", b4(chain[1] as u32)),
        ("slots", slots.iter().flat_map(bytes).collect()),
    ];
    let used = 24 + 8 * slots.len();
    hold("index bucket", &block[..used], &[("count", slots.len())], &values);
}

#[test]
fn extended_attributes_are_as_described() {
    let mut w = World::new(&MkfsOptions::modern([1; 16]), 32 << 20);
    let ino = w.create("f");
    for (name, value) in [(&b"user.z"[..], &b"first"[..]), (b"user.a", b"the value")] {
        let (name, value) = (name.into(), value.into());
        w.op(Op::SetXattr { ino, name, value, mode: XattrMode::Any });
    }
    let raw = w.volume.core().cached_inode(ino).unwrap().d.borrow().xattrs.clone();
    let values = [
        ("name_len", b2(6)),
        ("value_len", b4(9)),
        ("name", b"user.a".to_vec()),
        ("value", b"the value".to_vec()),
    ];
    hold("attribute", &raw[..21], &[("name_len", 6), ("value_len", 9)], &values);
}

#[test]
fn every_table_of_the_document_is_tested() {
    let source = include_str!("format_document.rs");
    for line in DOCUMENT.lines().filter_map(|line| line.strip_prefix("<!-- struct: ")) {
        let name = line.trim_end_matches(" -->");
        assert!(source.contains(&format!("\"{name}\"")), "{name} is not tested");
    }
}
