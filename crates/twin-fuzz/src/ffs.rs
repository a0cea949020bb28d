//! The structures of the clustered layout: superblock, maps of a cylinder group, journal.

use twin_ffs::MkfsOptions;
use twin_ffs::format::{
    CgCounts, CgImage, JournalHeader, Record, RecordEntry, RecordEntryKind, SUPERBLOCK_BYTES,
    Superblock, VolumeState,
};
use twin_fs::quota::QuotaNote;

use crate::Target;
use crate::bytes::{Input, seal, sized, trimmed};

/// The superblock of a clustered volume.
pub(crate) const SUPERBLOCK: Target = Target {
    name: "ffs_superblock",
    about: "the superblock of a clustered volume",
    run: superblock,
    seeds: || samples().iter().map(|sb| trimmed(sb.encode(0))).collect(),
};

/// The maps of a cylinder group.
pub(crate) const GROUP: Target = Target {
    name: "ffs_group",
    about: "the maps of a cylinder group",
    run: group,
    seeds: || (0..2).map(group_seed).collect(),
};

/// The journal: its headers and the lists of its records.
pub(crate) const JOURNAL: Target = Target {
    name: "ffs_journal",
    about: "headers and records of a journal, and the state of a volume",
    run: journal,
    seeds: journal_seeds,
};

const DEVICE: u64 = 1 << 50;

/// A modern volume with a journal, and a classic one.
fn samples() -> [Superblock; 2] {
    let options = [MkfsOptions::modern([7; 16]), MkfsOptions::classic([7; 16])];
    options.map(|options| options.superblock(20 << 20, 512).unwrap())
}

fn with(which: u8, raw: &[u8]) -> Vec<u8> {
    [vec![which], trimmed(raw.to_vec())].concat()
}

fn superblock(data: &[u8]) -> bool {
    let _ = Superblock::decode(data, 0, DEVICE);
    let mut raw = sized(data, SUPERBLOCK_BYTES as usize);
    raw[..8].copy_from_slice(twin_ffs::FFS.magic());
    seal(&mut raw, 8, 12);
    let Ok(sb) = Superblock::decode(&raw, 0, DEVICE) else { return false };
    assert_eq!(Superblock::decode(&sb.encode(0), 0, DEVICE).as_ref(), Ok(&sb));
    let last = sb.groups - 1;
    let end = sb.group_start(last) + u64::from(sb.frags_of(last));
    assert!(sb.geometry.byte_of(end) <= sb.size && sb.locate(end).is_none());
    for group in [0, last / 2, last] {
        let start = sb.group_start(group);
        assert_eq!(sb.locate(start), Some((group, 0)));
        assert!(
            sb.frags_of(group) >= sb.group_data_start(),
            "group {group} has no room for its maps"
        );
        assert!((start..start + u64::from(sb.frags_of(group))).contains(&sb.cg_addr(group)));
    }
    let (addr, off) = sb.inode_place(sb.inodes() - 1);
    assert!(
        sb.locate(addr).is_some()
            && off + sb.geometry.inode_size as usize <= sb.geometry.block_size as usize
    );
    assert!(sb.data_frags() > 0);
    true
}

fn group(data: &[u8]) -> bool {
    let mut input = Input(data);
    let sb = &samples()[usize::from(input.u8() & 1)];
    let group = u32::from(input.u8()) % sb.groups;
    let _ = CgImage::decode(sb, group, input.0);
    let mut raw = sized(input.0, sb.geometry.block_size as usize);
    let own = CgImage { group, ..group_of(0) }.encode(sb);
    raw[..4].copy_from_slice(&own[..4]);
    raw[8..24].copy_from_slice(&own[8..24]);
    seal(&mut raw, 4, 8);
    let Ok(image) = CgImage::decode(sb, group, &raw) else { return false };
    assert_eq!(CgImage::decode(sb, group, &image.encode(sb)).as_ref(), Ok(&image));
    true
}

fn group_seed(which: u8) -> Vec<u8> {
    let raw = group_of(which).encode(&samples()[usize::from(which)]);
    [vec![which, 0], trimmed(raw)].concat()
}

fn group_of(which: u8) -> CgImage {
    let sb = &samples()[usize::from(which)];
    CgImage {
        group: 0,
        counts: CgCounts { dirs: 1, free_blocks: 3, free_inodes: 4, free_frags: 5 },
        rotor: 8,
        frag_rotor: 9,
        inode_rotor: 10,
        inodes_written: sb.inodes_per_block(),
        frag_runs: [1; 8],
        clusters: [2; 16],
        inodes: vec![0x11; (sb.group_inodes as usize).div_ceil(8)],
        free: vec![0xf0; (sb.frags_of(0) as usize).div_ceil(8)],
    }
}

fn journal(data: &[u8]) -> bool {
    let sb = &samples()[0];
    let _ = (JournalHeader::decode(sb, data, 0), VolumeState::decode(sb, data));
    let mut input = Input(data);
    match input.u8() % 3 {
        0 => {
            let raw = sealed(
                input.0,
                &JournalHeader { number: 0, first_record: 0, tail: 0 }.encode(sb),
                512,
            );
            let Ok(header) = JournalHeader::decode(sb, &raw, 0) else { return false };
            assert_eq!(JournalHeader::decode(sb, &header.encode(sb), 0), Ok(header));
            true
        }
        1 => {
            let raw = sealed(
                input.0,
                &VolumeState { closed: true, opened: 1, quotas: QuotaNote::None }.encode(sb),
                512,
            );
            let state = VolumeState::decode(sb, &raw).unwrap();
            assert_eq!(VolumeState::decode(sb, &state.encode(sb)), Ok(state));
            true
        }
        _ => record(sb, input.0),
    }
}

/// Found by its first block and then read whole, as a replay does.
fn record(sb: &Superblock, data: &[u8]) -> bool {
    let block = sb.geometry.block_size as usize;
    let number = 12;
    let own = Record { number, entries: Vec::new() }.encode(sb);
    let first = sealed(data, &own, block);
    let mut first = first;
    first[16..24].copy_from_slice(&own[16..24]);
    let Some(blocks) = Record::peek(sb, &first, number) else { return false };
    // A list longer than the journal is not read: there would be no place for it.
    if blocks * block as u64 > sb.journal_bytes {
        return false;
    }
    let mut raw = sized(data, blocks as usize * block);
    raw[..block].copy_from_slice(&first);
    seal(&mut raw, 8, 12);
    let Some(record) = Record::decode(sb, &raw) else { return false };
    assert_eq!(record.list_blocks(sb), blocks);
    for entry in &record.entries {
        if let RecordEntryKind::Block { len, .. } = entry.kind {
            assert!(sb.geometry.byte_of(entry.addr) + u64::from(len) <= sb.size);
        }
    }
    assert_eq!(Record::decode(sb, &record.encode(sb)).as_ref(), Some(&record));
    true
}

/// With the magic and the tag of `own`, and the checksum that follows.
fn sealed(data: &[u8], own: &[u8], len: usize) -> Vec<u8> {
    let mut raw = sized(data, len);
    raw[..8].copy_from_slice(&own[..8]);
    raw[12..16].copy_from_slice(&own[12..16]);
    seal(&mut raw, 8, 12);
    raw
}

fn journal_seeds() -> Vec<Vec<u8>> {
    let sb = &samples()[0];
    let header = JournalHeader { number: 3, first_record: 12, tail: 5 };
    let entry = |addr, kind| RecordEntry { addr, kind };
    let entries = vec![
        entry(1000, RecordEntryKind::Block { len: 8192, crc: 9 }),
        entry(77, RecordEntryKind::Revoked),
        entry(5, RecordEntryKind::Orphan),
    ];
    let record = Record { number: 12, entries };
    vec![
        with(0, &header.encode(sb)),
        with(1, &VolumeState { closed: true, opened: 3, quotas: QuotaNote::Counted }.encode(sb)),
        with(2, &record.encode(sb)),
    ]
}
