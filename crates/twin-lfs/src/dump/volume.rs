//! What the volume is: superblock, checkpoints, the segment usage table.

use super::Dumper;
use crate::format::{Checkpoint, HeadPos, Profile, SEG_ENTRY_BYTES, SegEntry, Superblock};
use crate::recover::Recovered;
use crate::volume_reader::{checkpoint_at, superblock_at};
use twin_fs::dump::{Column, Fields, Problem, Value, number, text};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn profile_name(profile: Profile) -> Value {
    let name = match profile {
        Profile::Classic => "classic",
        Profile::Modern => "modern",
    };
    Value::Text(name.into())
}

fn heads(heads: &[HeadPos]) -> Value {
    let head = |head: &HeadPos| {
        vec![
            ("segment", Value::Number(head.segment.into())),
            ("offset", Value::Number(head.offset.into())),
            ("next", Value::Number(head.next.into())),
        ]
    };
    Value::List(heads.iter().map(head).collect())
}

impl Dumper<'_> {
    pub(super) async fn overview(&mut self, recovered: Option<Recovered>) {
        let sb = self.source.view.sb.clone();
        self.sink.fields(
            "volume",
            "what it is, from the superblock",
            vec![
                ("uuid", Value::Text(hex(&sb.uuid))),
                ("profile", profile_name(sb.profile)),
                ("size", Value::Number(sb.size())),
                ("block_size", Value::Number(sb.geometry.block_size.into())),
                ("frag_size", Value::Number(sb.geometry.frag_size.into())),
                ("segment_size", Value::Number(sb.segment_size.into())),
                ("segments", Value::Number(sb.segments().into())),
            ],
        );
        let Some(checkpoint) = self.source.checkpoint.clone() else { return };
        let log_state = &self.source.view.log_state;
        let mut fields = vec![
            ("checkpoint", Value::Number(checkpoint.number)),
            ("time", checkpoint.time.into()),
            ("closed", Value::Flag(checkpoint.closed)),
            ("serial", Value::Number(log_state.serial)),
            ("heads", heads(&log_state.heads)),
            ("ifile_bytes", Value::Number(log_state.ifile.size)),
            ("free_inodes", Value::Number(log_state.free_inodes)),
            ("orphans", Value::Number(log_state.orphans)),
        ];
        if let Some(recovered) = recovered {
            fields.push(("groups_to_recover", Value::Number(recovered.log_writes)));
            fields.push(("bytes_to_recover", Value::Number(recovered.log_bytes)));
        }
        let table = self.usage_table().await;
        let used = table.iter().flatten().filter(|entry| entry.live_bytes > 0).count();
        let live = table.iter().flatten().map(|entry| u64::from(entry.live_bytes)).sum();
        fields.push(("used_segments", Value::Number(used as u64)));
        fields.push(("live_bytes", Value::Number(live)));
        self.sink.fields("state", "where it stands", fields);
    }

    pub(super) async fn superblock(&mut self) {
        let sb = self.source.view.sb.clone();
        self.sink.fields(
            "superblock",
            "what the volume is; written by mkfs only",
            vec![
                ("uuid", Value::Text(hex(&sb.uuid))),
                ("tag", Value::Hex(sb.tag().into())),
                ("profile", profile_name(sb.profile)),
                ("block_size", Value::Number(sb.geometry.block_size.into())),
                ("frag_size", Value::Number(sb.geometry.frag_size.into())),
                ("inode_size", Value::Number(sb.geometry.inode_size.into())),
                ("align", Value::Number(sb.align.into())),
                ("segment_size", Value::Number(sb.segment_size.into())),
                ("segments", Value::Number(sb.segments().into())),
                ("first_segment_at", Value::Number(sb.segment_start(0))),
                ("size", Value::Number(sb.size())),
                ("copies", Value::Number(sb.copies.into())),
                ("minfree", Value::Number(sb.minfree.into())),
                ("largest_file", Value::Number(sb.geometry.max_file_size())),
            ],
        );
        const COLUMNS: [Column; 2] = [number("at", 14), text("state", 40)];
        self.sink.begin("copies", "where superblocks are", &COLUMNS);
        for at in Superblock::places(sb.size(), sb.copies) {
            let state = match superblock_at(&*self.source.view.device, at).await {
                Ok((copy, _)) if copy == sb => "sound".into(),
                Ok(_) => "sound, but of another volume".into(),
                Err(error) => error.to_string(),
            };
            self.sink.row(vec![Value::Number(at), Value::Text(state)]);
        }
        self.sink.end();
    }

    pub(super) async fn checkpoints(&mut self) {
        let sb = self.source.view.sb.clone();
        let newest = self.source.checkpoint.as_ref().map(|checkpoint| checkpoint.number);
        for slot in 0..2 {
            for (nth, at) in sb.checkpoint_places(slot).into_iter().enumerate() {
                let name = match nth {
                    0 => format!("slot_{slot}"),
                    _ => format!("slot_{slot}_copy"),
                };
                match checkpoint_at(&*self.source.view.device, &sb, at).await {
                    Ok((checkpoint, _)) => {
                        let counts = Some(checkpoint.number) == newest;
                        let about = if counts { "the newest, which counts" } else { "" };
                        self.sink.fields(&name, about, checkpoint_fields(at, &checkpoint));
                    }
                    // A crash, or a new volume, leaves a slot in any state: no damage by itself.
                    Err(error) => self.sink.fields(
                        &name,
                        "not sound",
                        vec![("at", Value::Number(at)), ("state", Value::Text(error.to_string()))],
                    ),
                }
            }
        }
    }

    /// The segment usage table, with gaps where it cannot be read.
    pub(super) async fn usage_table(&mut self) -> Vec<Option<SegEntry>> {
        let segments = self.source.view.sb.segments() as usize;
        if let Some(table) = &self.source.view.log_state.table {
            return table.iter().copied().map(Some).collect();
        }
        let mut table = Vec::with_capacity(segments);
        let per_block = self.source.view.sb.geometry.block_size as usize / SEG_ENTRY_BYTES;
        for nth in 0..self.source.view.sb.usage_blocks() {
            match self.source.table_block(nth).await {
                Ok(raw) => {
                    table.extend(
                        raw.chunks_exact(SEG_ENTRY_BYTES).map(|e| Some(SegEntry::decode(e))),
                    );
                }
                Err(error) => {
                    let first = nth * per_block as u64;
                    let last = first + per_block as u64 - 1;
                    let what = format!("the usage table, segments {first} to {last}");
                    self.problem(&what, error);
                    table.resize(table.len() + per_block, None);
                }
            }
        }
        table.truncate(segments);
        table
    }

    pub(super) async fn segments(&mut self) {
        const COLUMNS: [Column; 6] = [
            number("segment", 8),
            number("at", 14),
            text("state", 12),
            number("live_bytes", 10),
            number("percent", 7),
            text("written", 30),
        ];
        let table = self.usage_table().await;
        let heads = self.source.view.log_state.heads.clone();
        let sb = self.source.view.sb.clone();
        self.sink.begin("segments", "the segment usage table", &COLUMNS);
        for (segment, entry) in (0..).zip(table) {
            let head = heads.iter().position(|h| h.segment == segment);
            let next = heads.iter().position(|h| h.next == segment);
            let state = match (entry, head, next) {
                (_, Some(stream), _) => format!("head of {stream}"),
                (_, _, Some(stream)) => format!("next of {stream}"),
                (None, ..) => "unknown".into(),
                (Some(entry), ..) if entry.pins > 0 => format!("pinned by {}", entry.pins),
                (Some(entry), ..) if entry.live_bytes == 0 => "clean".into(),
                _ => "used".into(),
            };
            let live = entry.map(|entry| u64::from(entry.live_bytes));
            let share = live.map(|live| live * 100 / u64::from(sb.segment_size));
            let written = entry.filter(|e| e.written.0 > 0);
            self.sink.row(vec![
                Value::Number(segment.into()),
                Value::Number(sb.segment_start(segment)),
                Value::Text(state),
                live.map_or(Value::None, Value::Number),
                share.map_or(Value::None, Value::Number),
                written.map_or(Value::None, |entry| entry.written.into()),
            ]);
            if live.is_some_and(|live| live > sb.segment_size.into()) {
                let what = format!("segment {segment}: more bytes are live than it has");
                self.sink.problem(Problem { at: None, what });
            }
        }
        self.sink.end();
    }
}

fn checkpoint_fields(at: u64, checkpoint: &Checkpoint) -> Fields {
    let picked: Vec<String> = checkpoint.picked.iter().map(u64::to_string).collect();
    vec![
        ("at", Value::Number(at)),
        ("number", Value::Number(checkpoint.number)),
        ("serial", Value::Number(checkpoint.serial)),
        ("time", checkpoint.time.into()),
        ("closed", Value::Flag(checkpoint.closed)),
        ("free_head", Value::Number(checkpoint.free_head)),
        ("free_inodes", Value::Number(checkpoint.free_inodes)),
        ("orphans", Value::Number(checkpoint.orphans)),
        ("heads", heads(&checkpoint.heads)),
        ("picked", Value::Text(picked.join(" "))),
        ("ifile_bytes", Value::Number(checkpoint.ifile.size)),
    ]
}
