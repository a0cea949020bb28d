//! The volume as a whole: the superblock, its replicas, and its state.

use twin_disk::{Class, Io, Origin, gather};
use twin_fs::Result;
use twin_fs::dump::{Column, Fields, Value, number, text};

use super::Dumper;
use crate::format::{Profile, SUPERBLOCK_BYTES, Superblock};
use crate::ordering;

fn uuid(sb: &Superblock) -> Value {
    Value::Text(sb.uuid.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn profile(sb: &Superblock) -> Value {
    let name = match sb.profile {
        Profile::Classic => "classic",
        Profile::Modern => "modern",
    };
    Value::Text(name.into())
}

fn ordering_name(sb: &Superblock) -> Value {
    Value::Text(ordering::by_number(sb.ordering).map_or("unknown", |entry| entry.name).into())
}

impl Dumper<'_> {
    pub(super) async fn overview(&mut self) {
        let sb = &self.source.view.sb;
        let fields = vec![
            ("uuid", uuid(sb)),
            ("profile", profile(sb)),
            ("ordering", ordering_name(sb)),
            ("size", Value::Number(sb.size)),
            ("block_size", Value::Number(sb.geometry.block_size.into())),
            ("frag_size", Value::Number(sb.geometry.frag_size.into())),
            ("groups", Value::Number(sb.groups.into())),
            ("group_bytes", Value::Number(sb.geometry.byte_of(sb.group_frags.into()))),
            ("journal_bytes", Value::Number(sb.journal_bytes)),
        ];
        self.sink.fields("volume", "what it is, from the superblock", fields);
        let (mut dirs, mut blocks, mut frags, mut inodes) = (0, 0, 0, 0);
        for group in 0..sb.groups {
            match self.source.group(group).await {
                Ok(image) => {
                    dirs += u64::from(image.counts.dirs);
                    blocks += u64::from(image.counts.free_blocks);
                    frags += u64::from(image.counts.free_frags);
                    inodes += u64::from(image.counts.free_inodes);
                }
                Err(error) => self.problem(&format!("group {group}"), error),
            }
        }
        let state = &self.source.state;
        let fields = vec![
            ("closed", Value::Flag(state.closed)),
            ("opened", Value::Number(state.opened)),
            ("records_to_replay", Value::Number(self.source.records)),
            ("directories", Value::Number(dirs)),
            ("free_blocks", Value::Number(blocks)),
            ("free_frags", Value::Number(frags)),
            ("free_inodes", Value::Number(inodes)),
            ("inodes", Value::Number(sb.inodes())),
        ];
        self.sink.fields("state", "where it stands, from the groups' counts", fields);
    }

    pub(super) async fn superblock(&mut self) {
        let sb = self.source.view.sb.clone();
        let about = "what the volume is; written by mkfs only";
        self.sink.fields("superblock", about, superblock_fields(&sb));
        const COLUMNS: [Column; 3] = [number("group", 6), number("at", 14), text("state", 40)];
        self.sink.begin("copies", "where superblocks are; the first counts", &COLUMNS);
        let replicas = (0..sb.groups).map(|group| sb.geometry.byte_of(sb.group_start(group)));
        for (group, at) in std::iter::once((None, 0)).chain((0..).map(Some).zip(replicas)) {
            let state = match self.superblock_at(at).await {
                Ok(copy) if copy == sb => "sound".into(),
                Ok(_) => "sound, but of another volume".into(),
                Err(error) => error.to_string(),
            };
            let group = group.map_or(Value::None, |group: u32| Value::Number(group.into()));
            self.sink.row(vec![group, Value::Number(at), Value::Text(state)]);
        }
        self.sink.end();
    }

    async fn superblock_at(&self, at: u64) -> Result<Superblock> {
        let device = &self.source.view.device;
        let io = Io::read(at, SUPERBLOCK_BYTES, Class::Meta, Origin::Recovery);
        let raw = gather(&device.submit(io).await?, 0, SUPERBLOCK_BYTES as usize).to_bytes();
        Superblock::decode(&raw, at, device.info().size)
    }
}

fn superblock_fields(sb: &Superblock) -> Fields {
    let (g, t) = (&sb.disk_geometry, &sb.tuning);
    vec![
        ("uuid", uuid(sb)),
        ("tag", Value::Hex(sb.tag().into())),
        ("profile", profile(sb)),
        ("ordering", ordering_name(sb)),
        ("size", Value::Number(sb.size)),
        ("block_size", Value::Number(sb.geometry.block_size.into())),
        ("frag_size", Value::Number(sb.geometry.frag_size.into())),
        ("inode_size", Value::Number(sb.geometry.inode_size.into())),
        ("journal_start", Value::Number(sb.journal_start)),
        ("journal_bytes", Value::Number(sb.journal_bytes)),
        ("first_group_at", Value::Number(sb.geometry.byte_of(sb.group_start(0)))),
        ("groups", Value::Number(sb.groups.into())),
        ("group_frags", Value::Number(sb.group_frags.into())),
        ("group_inodes", Value::Number(sb.group_inodes.into())),
        ("rpm", Value::Number(g.rpm.into())),
        ("sectors_per_track", Value::Number(g.sectors_per_track.into())),
        ("tracks_per_cylinder", Value::Number(g.tracks_per_cylinder.into())),
        ("minfree", Value::Number(t.minfree.into())),
        ("maxcontig", Value::Number(t.maxcontig.into())),
        ("rotdelay_ms", Value::Number(t.rotdelay_ms.into())),
        ("maxbpg", Value::Number(t.maxbpg.into())),
        ("cpc", Value::Number(t.cpc.into())),
        ("optimize_time", Value::Flag(t.optimize_time)),
        ("must_write", Value::Hex(sb.must_write)),
        ("largest_file", Value::Number(sb.geometry.max_file_size())),
    ]
}
