//! `docs/ondisk-vsfs.md` says what the code does: its tables are read here and held against what the
//! encoders write. Each row must have the value of its field at its offset, without gaps.

use twin_fs::dinode::{Dinode, TRUNCATING};
use twin_fs::dir::block::Format;
use twin_fs::geometry::Ptr;
use twin_fs::{Timestamp, mode};
use vsfs::format::{IN_USE, INODE_BYTES, SUPERBLOCK_BYTES, Superblock};

const DOCUMENT: &str = include_str!("../../../docs/ondisk-vsfs.md");

/// Holds a structure against its table. Rows called `zero` need no value; a size may be `namlen`, 4.
fn hold(structure: &str, raw: &[u8], values: &[(&str, Vec<u8>)]) {
    let marker = format!("<!-- struct: {structure} -->");
    let (_, rest) = DOCUMENT.split_once(&marker).unwrap_or_else(|| panic!("no table {structure}"));
    let rows = rest.lines().skip(3).take_while(|line| line.starts_with('|'));
    let (mut end, mut tested) = (0, 0);
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (at, field) = (cells[1].parse::<usize>().unwrap(), cells[3]);
        let len = if cells[2] == "namlen" { 4 } else { cells[2].parse().unwrap() };
        assert_eq!(at, end, "{structure}: {field} does not follow the row before it");
        let value = values.iter().find(|(name, _)| *name == field).map(|(_, value)| value.clone());
        tested += usize::from(value.is_some());
        let value = value.or_else(|| (field == "zero").then(|| vec![0; len]));
        let value = value.unwrap_or_else(|| panic!("{structure}: {field} is not in the test"));
        end = at + len;
        assert_eq!(raw[at..end], value, "{structure}: {field} at {at}");
    }
    assert_eq!(
        (end, tested),
        (raw.len(), values.len()),
        "{structure}: the document lacks something"
    );
}

fn b2(n: u16) -> Vec<u8> {
    n.to_le_bytes().into()
}
fn b4(n: u32) -> Vec<u8> {
    n.to_le_bytes().into()
}

#[test]
fn superblocks_are_as_described() {
    let sb = Superblock::plan([9; 16], 256 << 20, 4096, 32_768).unwrap();
    let values = [
        ("magic", b"twinvsfs".to_vec()),
        ("version", b4(1)),
        ("state", b4(2)),
        ("uuid", vec![9; 16]),
        ("block_size", b4(4096)),
        ("inode_size", b4(256)),
        ("blocks", b4(65_536)),
        ("inodes", b4(32_768)),
        ("inode_bitmap", b4(1)),
        ("data_bitmap", b4(2)),
        ("inode_table", b4(4)),
        ("data", b4(4 + 2048)),
    ];
    let raw = sb.encode(IN_USE);
    hold("superblock", &raw[..SUPERBLOCK_BYTES], &values);
    assert!(raw.len() == 4096 && raw[SUPERBLOCK_BYTES..].iter().all(|&b| b == 0));
}

#[test]
fn inodes_are_as_described() {
    let geometry = Superblock::plan([9; 16], 256 << 20, 4096, 32_768).unwrap().geometry();
    let time = |n: u32| Timestamp { secs: i64::from(n), nanos: n + 1 };
    let mut d = Dinode::new(&geometry, 0x1122, 0x2233, mode::REGULAR | 0o4755, time(10));
    (d.nlink, d.uid, d.gid, d.flags) = (0x33, 0x4444, 0x5555, TRUNCATING);
    (d.size, d.allocated) = (0x1_6666, 512 * 0x77);
    (d.atime, d.mtime, d.ctime) = (time(20), time(30), time(40));
    for (addr, ptr) in (0x900..).zip(&mut d.ptrs) {
        *ptr = Ptr { addr, len: 4096, crc: 0 };
    }
    let mut raw = vec![7; INODE_BYTES as usize];
    d.encode(&geometry, &mut raw);
    let values = [
        ("mode", b2(0o104_755)),
        ("nlink", b2(0x33)),
        ("ino", b4(0x1122)),
        ("size", 0x1_6666_u64.to_le_bytes().into()),
        ("atime", b4(20)),
        ("atime_ns", b4(21)),
        ("mtime", b4(30)),
        ("mtime_ns", b4(31)),
        ("ctime", b4(40)),
        ("ctime_ns", b4(41)),
        ("direct", (0x900..0x90c).flat_map(b4).collect()),
        ("indirect", b4(0x90c)),
        ("double", b4(0x90d)),
        ("flags", b4(4)),
        ("allocated", b4(0x77)),
        ("generation", b4(0x2233)),
        ("uid", b4(0x4444)),
        ("gid", b4(0x5555)),
    ];
    hold("inode", &raw, &values);
    (d.mode, d.rdev) = (mode::CHAR | 0o600, 0x501);
    d.encode(&geometry, &mut raw);
    assert_eq!(raw[40..48], 0x501_u64.to_le_bytes());
    assert_eq!(geometry.max_blocks(), 12 + 1024 + 1024 * 1024);
}

#[test]
fn directory_entries_are_as_described() {
    let mut chunk = vec![0; 512];
    Format::Classic.init_first(&mut chunk, 5, 2);
    let at = Format::Classic.insert(&mut chunk, b"name", 0x1234, mode::SYMLINK).unwrap().offset;
    let values = [
        ("ino", b4(0x1234)),
        ("reclen", b2((512 - at) as u16)),
        ("kind", vec![0o12]),
        ("namlen", vec![4]),
        ("name", b"name".to_vec()),
    ];
    hold("directory entry", &chunk[at..at + 12], &values);
}
