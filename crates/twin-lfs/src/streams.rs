//! Streams of the log: how many there are, and which of them each item of a log write goes to.
//!
//! The choice is that of the placement policy (`segment_usage`); here is what it is told of an
//! item.

use twin_cache::Lbn;
use twin_clean::inputs::BlockKind;
use twin_fs::{Core, FsError, Inode, Result};

use crate::format::{HeadPos, IFILE_INO, ImapEntry};
use crate::inode_state::InodeState;
use crate::lfs::Lfs;
use crate::log_items::LogItem;
use crate::segment_usage::{BlockHistory, BlockToPlace, PolicySettings, placement_of};
use crate::sizing;

/// Streams that a policy gets which could use more, where the volume has room for them.
const STREAMS: usize = 6;

impl Lfs {
    /// The stream of each item, and what goes with it.
    pub(crate) fn assign(
        &self,
        core: &Core,
        items: &[LogItem],
        cleaner: bool,
    ) -> Vec<(u8, BlockHistory)> {
        let blocks: Vec<_> = items.iter().map(|item| self.as_block(core, item)).collect();
        self.usage.choose_streams(&self.position.heads(), &blocks, cleaner)
    }

    /// The item as a block; none if it takes no room.
    fn as_block(&self, core: &Core, item: &LogItem) -> Option<BlockToPlace> {
        let geometry = &self.sb.geometry;
        let inode_size = u64::from(geometry.inode_size);
        let old_inode = |entry| match entry {
            ImapEntry::Used { at, .. } if at != 0 => Some((at * inode_size, geometry.inode_size)),
            _ => None,
        };
        Some(match item {
            LogItem::Block { inode, frame, len, .. } => {
                let old = core.resident_ptr(inode, frame.lbn()).filter(|ptr| ptr.is_on_disk());
                BlockToPlace {
                    ino: inode.ino,
                    lbn: Some(frame.lbn()),
                    kind: kind_of(inode, frame.lbn()),
                    old: old.map(|ptr| (geometry.byte_of(ptr.addr), ptr.len)),
                    len: *len,
                }
            }
            LogItem::Inodes(list) => {
                let inode = list.first()?;
                let map_block = InodeState::of(inode).map_block();
                let entry = map_block.as_ref().map(|block| self.ifile.entry(block, inode.ino));
                let is_dir = inode.d.borrow().kind() == twin_fs::mode::DIRECTORY;
                BlockToPlace {
                    ino: inode.ino,
                    lbn: None,
                    kind: if is_dir { BlockKind::DirectoryInode } else { BlockKind::Inode },
                    old: entry.and_then(old_inode),
                    len: list.len() as u32 * geometry.inode_size,
                }
            }
            LogItem::RawInodes(list) => {
                let raw = list.first()?;
                BlockToPlace {
                    ino: raw.ino,
                    lbn: None,
                    kind: BlockKind::Inode,
                    old: old_inode(self.ifile.entry(&raw.anchor, raw.ino)),
                    len: list.len() as u32 * geometry.inode_size,
                }
            }
            LogItem::Freed { .. } => return None,
        })
    }

    /// Streams beyond the two that the reserve has room for.
    pub(crate) fn extra_streams(&self) -> u64 {
        sizing::extra_streams(self.position.streams())
    }

    /// Gives the log the streams that the placement policy can use, and the policy its streams.
    ///
    /// # Errors
    /// If the volume is too small, or too full, for those that the policy needs.
    pub(crate) fn set_streams(&self, core: &Core) -> Result<()> {
        let before = self.position.streams();
        if self.settings.placement.is_empty() {
            return Ok(());
        }
        let entry = placement_of(&self.settings, before)?;
        let clean = self.usage.clean_count() as usize;
        let fits = |&streams: &usize| {
            let more = 3 * streams.saturating_sub(2) as u64;
            streams <= 2.max(before)
                || (more * 12 <= u64::from(self.sb.segments())
                    && 2 * (streams - before.min(streams)) + 4 <= clean
                    && self.reservations.used() <= sizing::capacity(&self.sb, more))
        };
        let most = usize::from(entry.most_classes).min(STREAMS);
        let streams = (1..=most).rev().find(fits).unwrap_or(1);
        if streams < usize::from(entry.classes) {
            return Err(FsError::Invalid(
                "the volume has no room for as many streams as this placement policy needs: \
                 choose twin, sep-gc or none, or clean the volume first",
            ));
        }
        while self.position.streams() > streams {
            if let Some(head) = self.position.pop() {
                // The log since the last checkpoint may be there, though nothing of it lives.
                self.usage.set_used(head.segment);
                self.usage.set_clean(&[head.next]);
            }
        }
        while self.position.streams() < streams {
            let from = (u64::from(self.sb.segments()) * self.position.streams() as u64
                / streams as u64) as u32;
            let taken = (self.usage.take_clean(from), self.usage.take_clean(from));
            let (Some(segment), Some(next)) = taken else {
                return Err(FsError::inconsistent("the log has no clean segments for its streams"));
            };
            let stream = self.position.streams() as u8;
            self.usage.begin(segment, stream);
            self.position.push(HeadPos { segment, offset: 0, next });
        }
        let seed = core.rt.rng("cleaner policies").next_u64();
        let memory = core.settings.cache_bytes;
        let policies =
            PolicySettings { settings: &self.settings, streams, memory_bytes: memory, seed };
        self.usage.set_policies(&self.sb, policies)?;
        self.reservations.set_limit(sizing::capacity(&self.sb, 3 * self.extra_streams()));
        Ok(())
    }
}

/// What a block of a file is.
fn kind_of(inode: &Inode, lbn: Lbn) -> BlockKind {
    match lbn {
        _ if inode.ino <= IFILE_INO => BlockKind::Inode,
        ..0 => BlockKind::Indirect,
        _ if inode.d.borrow().kind() == twin_fs::mode::DIRECTORY => BlockKind::Directory,
        _ => BlockKind::Data,
    }
}
