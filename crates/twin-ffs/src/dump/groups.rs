//! The cylinder groups: how full each is, and the maps of one.

use twin_fs::dump::{Column, DumpError, Value, number};

use super::Dumper;
use crate::bits::Bits;
use crate::format::CgImage;

const GROUPS: [Column; 9] = [
    number("group", 6),
    number("at", 14),
    number("frags", 8),
    number("free_blocks", 11),
    number("free_frags", 10),
    number("percent_used", 12),
    number("dirs", 6),
    number("free_inodes", 11),
    number("inodes_written", 14),
];

const FREE: [Column; 3] = [number("frag", 8), number("frags", 8), number("at", 14)];
const USED: [Column; 2] = [number("ino", 9), number("inodes", 8)];

/// The runs of bits that are set, each with its start and length.
pub(super) fn runs(bits: &Bits) -> Vec<(u32, u32)> {
    let (mut runs, mut at) = (Vec::new(), 0);
    while let Some(start) = bits.next_set(at, u32::MAX) {
        at = bits.next_clear(start, u32::MAX).unwrap_or(bits.len());
        runs.push((start, at - start));
    }
    runs
}

impl Dumper<'_> {
    pub(super) async fn groups(&mut self) {
        let sb = self.source.view.sb.clone();
        self.sink.begin("groups", "the cylinder groups; name one for its maps", &GROUPS);
        for group in 0..sb.groups {
            let image = match self.source.group(group).await {
                Ok(image) => image,
                Err(error) => {
                    self.problem(&format!("group {group}"), error);
                    continue;
                }
            };
            let c = &image.counts;
            let data = sb.frags_of(group).saturating_sub(sb.group_data_start());
            let free = u64::from(c.free_blocks) * u64::from(sb.frags_per_block())
                + u64::from(c.free_frags);
            let used = u64::from(data).saturating_sub(free) * 100 / u64::from(data.max(1));
            self.sink.row(vec![
                Value::Number(group.into()),
                Value::Number(sb.geometry.byte_of(sb.group_start(group))),
                Value::Number(sb.frags_of(group).into()),
                Value::Number(c.free_blocks.into()),
                Value::Number(c.free_frags.into()),
                Value::Number(used),
                Value::Number(c.dirs.into()),
                Value::Number(c.free_inodes.into()),
                Value::Number(image.inodes_written.into()),
            ]);
        }
        self.sink.end();
    }

    /// One group with its maps.
    pub(super) async fn group(&mut self, number: u64) -> Result<(), DumpError> {
        let sb = self.source.view.sb.clone();
        let Some(group) = u32::try_from(number).ok().filter(|group| *group < sb.groups) else {
            let what = format!("there is no group {number}: they are 0 to {}", sb.groups - 1);
            return Err(DumpError::NoSuch(what));
        };
        let image = match self.source.group(group).await {
            Ok(image) => image,
            Err(error) => {
                self.problem(&format!("group {group}"), error);
                return Ok(());
            }
        };
        self.group_fields(&image);
        let start = sb.group_start(group);
        self.sink.begin("free", "runs of free fragments, counted within the group", &FREE);
        for (frag, frags) in runs(&Bits::from_bytes(&image.free, sb.frags_of(group))) {
            let at = sb.geometry.byte_of(start + u64::from(frag));
            self.sink.row([frag.into(), frags.into(), at].map(Value::Number).into());
        }
        self.sink.end();
        self.sink.begin("used_inodes", "runs of inode numbers in use", &USED);
        let first = number * u64::from(sb.group_inodes);
        for (index, count) in runs(&Bits::from_bytes(&image.inodes, sb.group_inodes)) {
            self.sink.row([first + u64::from(index), count.into()].map(Value::Number).into());
        }
        self.sink.end();
        Ok(())
    }

    fn group_fields(&mut self, image: &CgImage) {
        let sb = &self.source.view.sb;
        let (group, c) = (image.group, &image.counts);
        let list = |counts: &[u32]| {
            Value::Text(counts.iter().map(u32::to_string).collect::<Vec<_>>().join(" "))
        };
        let fields = vec![
            ("group", Value::Number(group.into())),
            ("at", Value::Number(sb.geometry.byte_of(sb.group_start(group)))),
            ("maps_at", Value::Number(sb.geometry.byte_of(sb.cg_addr(group)))),
            ("frags", Value::Number(sb.frags_of(group).into())),
            ("data_start", Value::Number(sb.group_data_start().into())),
            ("dirs", Value::Number(c.dirs.into())),
            ("free_blocks", Value::Number(c.free_blocks.into())),
            ("free_frags", Value::Number(c.free_frags.into())),
            ("free_inodes", Value::Number(c.free_inodes.into())),
            ("rotor", Value::Number(image.rotor.into())),
            ("frag_rotor", Value::Number(image.frag_rotor.into())),
            ("inode_rotor", Value::Number(image.inode_rotor.into())),
            ("inodes_written", Value::Number(image.inodes_written.into())),
            ("frag_runs", list(&image.frag_runs)),
            ("clusters", list(&image.clusters)),
        ];
        self.sink.fields("cylinder_group", "counts and maps of one group", fields);
    }
}
