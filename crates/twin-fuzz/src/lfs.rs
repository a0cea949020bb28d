//! The structures of the log: superblock, checkpoint, summary.

use twin_fs::Timestamp;
use twin_fs::dinode::{self, Dinode};
use twin_fs::geometry::Geometry;
use twin_fs::quota::QuotaNote;
use twin_lfs::format::{
    BlockInfo, CHECKPOINT_BYTES, Checkpoint, HeadPos, Header, InodeInfo, LOG_WRITE_LAST, Profile,
    SUPERBLOCK_BYTES, Summary, SummaryEntry, Superblock,
};
use twin_rt::Time;

use crate::Target;
use crate::bytes::{Input, seal, sized, trimmed};

/// The superblock of a log.
pub(crate) const SUPERBLOCK: Target = Target {
    name: "lfs_superblock",
    about: "the superblock of a log",
    run: superblock,
    seeds: || samples().map(|sb| trimmed(sb.encode())).into(),
};

/// A checkpoint.
pub(crate) const CHECKPOINT: Target = Target {
    name: "lfs_checkpoint",
    about: "a checkpoint of a log",
    run: checkpoint,
    seeds: || (0..2).map(|which| with(which, checkpoint_of(which))).collect(),
};

/// The summary of a partial segment.
pub(crate) const SUMMARY: Target = Target {
    name: "lfs_summary",
    about: "the summary of a partial segment",
    run: summary,
    seeds: || (0..2).map(|which| with(which, summary_of(which))).collect(),
};

/// A volume of each profile, on which checkpoints and summaries are read.
fn samples() -> [Superblock; 2] {
    let plan = |profile, geometry| {
        Superblock::plan([3; 16], profile, geometry, 1 << 18, 8 << 20, 2).unwrap()
    };
    [
        plan(Profile::Modern, Geometry::modern(4096, 512)),
        plan(Profile::Classic, Geometry::classic(4096, 1024)),
    ]
}

fn with(which: u8, raw: Vec<u8>) -> Vec<u8> {
    [vec![which], trimmed(raw)].concat()
}

fn sample(input: &mut Input<'_>) -> Superblock {
    let [modern, classic] = samples();
    if input.u8() & 1 == 0 { modern } else { classic }
}

fn superblock(data: &[u8]) -> bool {
    const DEVICE: u64 = 1 << 50;
    let _ = Superblock::decode(data, 0, DEVICE);
    let mut raw = sized(data, SUPERBLOCK_BYTES as usize);
    raw[..8].copy_from_slice(twin_lfs::LFS.magic());
    seal(&mut raw, 8, 12);
    let Ok(sb) = Superblock::decode(&raw, 0, DEVICE) else { return false };
    assert_eq!(Superblock::decode(&sb.encode(), 0, DEVICE).as_ref(), Ok(&sb));
    let end = sb.segment_start(sb.segments() - 1) + u64::from(sb.segment_size);
    assert!(end <= sb.size() && sb.segment_of(end).is_none());
    assert_eq!(sb.segment_of(end - 1), Some(sb.segments() - 1));
    for place in Superblock::places(sb.size(), sb.copies) {
        assert!(place + SUPERBLOCK_BYTES <= sb.size());
    }
    for place in (0..2).flat_map(|slot| sb.checkpoint_places(slot)) {
        assert!(place + CHECKPOINT_BYTES <= sb.size());
    }
    sb.usage_blocks() > 0
}

/// Where a checkpoint has its list of heads, and before it the two counts that say how long its lists are.
const HEADS_AT: usize = 80;

fn checkpoint(data: &[u8]) -> bool {
    let mut input = Input(data);
    let sb = sample(&mut input);
    let _ = Checkpoint::decode(&sb, input.0, 0);
    let mut raw = sized(input.0, CHECKPOINT_BYTES as usize);
    // Magic and tag are those of any checkpoint of this volume.
    let own = checkpoint_of(u8::from(sb.profile == Profile::Classic));
    raw[..8].copy_from_slice(&own[..8]);
    raw[16..20].copy_from_slice(&own[16..20]);
    let count = |at| Input(&raw[at..]).u32() as usize;
    let inode = HEADS_AT + (count(72) & 0xffff) * 12 + (count(76) & 0xffff) * 8;
    let size = sb.geometry.inode_size as usize;
    if sb.profile == Profile::Modern && inode + size <= raw.len() {
        seal(&mut raw[inode..inode + size], 0, 4);
    }
    seal(&mut raw, 8, 16);
    let Ok(checkpoint) = Checkpoint::decode(&sb, &raw, 0) else { return false };
    assert_eq!(Checkpoint::decode(&sb, &checkpoint.encode(&sb), 0).as_ref(), Ok(&checkpoint));
    true
}

fn checkpoint_of(which: u8) -> Vec<u8> {
    let sb = &samples()[usize::from(which)];
    let ifile = Dinode {
        flags: dinode::HIDDEN,
        ..Dinode::new(&sb.geometry, 1, 0, 0, Timestamp::default())
    };
    let checkpoint = Checkpoint {
        number: 5,
        serial: 77,
        time: Time(99),
        closed: which == 0,
        free_head: 12,
        free_inodes: 3,
        orphans: 1,
        heads: vec![HeadPos { segment: 1, offset: 8192, next: 2 }; 2],
        picked: vec![9, 10],
        snapshots: (which > 0).then(|| Dinode { ino: 0, ..ifile.clone() }),
        quotas: QuotaNote::Counted,
        ifile,
    };
    checkpoint.encode(sb)
}

fn summary(data: &[u8]) -> bool {
    let mut input = Input(data);
    let sb = sample(&mut input);
    let _ = Summary::decode(&sb, input.0, sb.segment_size);
    let own = summary_of(u8::from(sb.profile == Profile::Classic));
    // As long as it says, or longer: zeros follow what an input has.
    let mut raw = sized(input.0, input.0.len().max(1 << 12));
    raw[..4].copy_from_slice(&own[..4]);
    raw[8..12].copy_from_slice(&own[8..12]);
    let len = Summary::len_of(&raw).map_or(raw.len(), |len| len.min(raw.len()));
    seal(&mut raw[..len], 4, 8);
    let Some(summary) = Summary::decode(&sb, &raw, sb.segment_size) else { return false };
    for placed in summary.blocks(&sb) {
        let end = u64::from(placed.at) + u64::from(placed.len);
        assert!(end <= u64::from(summary.header.total_bytes), "{placed:?}");
    }
    let total = summary.header.total_bytes;
    summary.verify(&sb, |at, len| {
        assert!(at.checked_add(len).is_some_and(|end| end <= total), "{len} bytes at {at}");
        at ^ len
    });
    let again = Summary::decode(&sb, &summary.encode(&sb), sb.segment_size);
    assert_eq!(again.as_ref(), Some(&summary));
    true
}

fn summary_of(which: u8) -> Vec<u8> {
    let sb = &samples()[usize::from(which)];
    let block = |lbn| BlockInfo { lbn, len: 4096, crc: 0, holder: None };
    let entries = vec![
        SummaryEntry::File { ino: 7, generation: 1, blocks: vec![block(0), block(1), block(-12)] },
        SummaryEntry::Inodes(vec![InodeInfo { ino: 7, crc: 0 }; if which == 0 { 2 } else { 1 }]),
        SummaryEntry::Freed { ino: 9, generation: 2 },
    ];
    let header = Header {
        serial: 77,
        group: 77,
        flags: LOG_WRITE_LAST,
        stream: 0,
        next_segment: 3,
        total_bytes: 20_480,
        summary_bytes: 1024,
        time: Time(99),
    };
    Summary::new(header, entries, &[0; 4]).encode(sb)
}
