//! The log as the shared dump of files sees it: inodes are found through the inode map.

use std::ops::Range;

use twin_cache::Lbn;
use twin_disk::{Buf, Bytes};
use twin_fs::dinode::Dinode;
use twin_fs::dump::{Fields, InUse, OnDisk, Value};
use twin_fs::geometry::{Geometry, Ptr};
use twin_fs::{Features, FsError, Ino, Result};
use twin_rt::BoxFuture;

use crate::format::IFILE_INO;
use crate::format::{Checkpoint, IMAP_ENTRY_BYTES, ImapEntry, SEG_ENTRY_BYTES, SegEntry};
use crate::volume_reader::VolumeReader;

/// A log for reading.
pub(super) struct Source {
    pub(super) view: VolumeReader,
    /// The newest sound one.
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) features: Features,
}

impl Source {
    /// The ifile's inode, if it is known.
    pub(super) fn ifile_inode(&self) -> Result<Dinode> {
        match self.checkpoint {
            Some(_) => Ok(self.view.log_state.ifile.clone()),
            None => Err(FsError::inconsistent("no checkpoint is sound, so no file can be found")),
        }
    }

    /// The content of a block of the ifile.
    pub(super) async fn ifile_block(&self, lbn: u64) -> Result<Bytes> {
        let ifile = self.ifile_inode()?;
        let ptr = self.view.ptr(&ifile, lbn as i64).await?;
        let bytes = self.view.block(IFILE_INO, lbn as i64, ptr).await?;
        match bytes.len() == self.view.sb.geometry.block_size as usize {
            true => Ok(bytes),
            false => Err(FsError::inconsistent("a block of the ifile is not whole")),
        }
    }

    /// The content of a block of the usage table.
    pub(super) async fn table_block(&self, nth: u64) -> Result<Bytes> {
        let lbn = self.view.sb.table_lbn(nth);
        let ptr = self.view.ptr(&self.ifile_inode()?, lbn as i64).await?;
        match ptr.is_hole() && lbn != nth {
            // The volume has grown, and what it has more is clean.
            true => Ok(Buf::zeroed(self.view.sb.geometry.block_size as usize).freeze()),
            false => self.ifile_block(lbn).await,
        }
    }

    /// Inode numbers that the map has entries for.
    fn map_len(&self) -> u64 {
        self.view.sb.map_blocks(self.view.log_state.ifile.size) * self.view.map_entries()
    }

    /// The inode map's entry of a number.
    pub(super) async fn entry(&self, ino: Ino) -> Result<ImapEntry> {
        self.ifile_inode()?;
        if ino >= self.map_len() {
            let what = format!("the inode map ends before inode {ino}");
            return Err(FsError::inconsistent(what));
        }
        let lbn = self.view.sb.first_table_blocks() + ino / self.view.map_entries();
        let raw = self.ifile_block(lbn).await?;
        let at = (ino % self.view.map_entries()) as usize * IMAP_ENTRY_BYTES;
        Ok(ImapEntry::decode(&raw[at..at + IMAP_ENTRY_BYTES]))
    }

    /// What is free in a segment: all of it if it is clean, and the rest of one that is being
    /// filled.
    fn free_in(&self, segment: u32, entry: SegEntry) -> Option<Range<u64>> {
        let sb = &self.view.sb;
        let start = sb.segment_start(segment);
        let end = start + u64::from(sb.segment_size);
        let mut heads = self.view.log_state.heads.iter();
        let from = match heads.find(|head| head.segment == segment) {
            Some(head) => start + u64::from(head.offset),
            None if entry.live_bytes == 0 => start,
            None => end,
        };
        (from < end).then_some(from..end)
    }

    async fn placed_inode(
        &self,
        ino: Ino,
        place: u64,
        crc: u32,
        generation: u32,
    ) -> Result<(u64, Dinode)> {
        let at = place.checked_mul(self.view.sb.geometry.inode_size.into());
        let at = at.filter(|&at| at > 0).ok_or_else(|| {
            FsError::inconsistent(format!("the map leads inode {ino} to the impossible {place}"))
        })?;
        let raw = self.view.raw_inode(at).await?;
        Ok((at, self.view.inode_in(&raw, at, ino, generation, crc)?))
    }
}

impl OnDisk for Source {
    fn geometry(&self) -> &Geometry {
        &self.view.sb.geometry
    }

    fn features(&self) -> &Features {
        &self.features
    }

    fn frags(&self) -> u64 {
        self.view.frags
    }

    fn region(&self) -> &'static str {
        "segment"
    }

    fn region_of(&self, at: u64) -> Option<u64> {
        self.view.sb.segment_of(at).map(u64::from)
    }

    fn areas(&self) -> Vec<Range<u64>> {
        let sb = &self.view.sb;
        let area = |segment| {
            let start = sb.segment_start(segment);
            start..start + u64::from(sb.segment_size)
        };
        (0..sb.segments()).map(area).collect()
    }

    fn free_from(&self, first: usize) -> BoxFuture<'_, (usize, Result<Vec<Range<u64>>>)> {
        Box::pin(async move {
            let (next, entries) = match &self.view.log_state.table {
                Some(table) => (table.len(), Ok(table[first..].to_vec())),
                None => {
                    let block = self.view.sb.geometry.block_size as usize;
                    let per_block = block / SEG_ENTRY_BYTES;
                    let raw = self.table_block((first / per_block) as u64).await;
                    let decode = |raw: Bytes| {
                        let entries = raw.chunks_exact(SEG_ENTRY_BYTES).map(SegEntry::decode);
                        entries.skip(first % per_block).collect::<Vec<_>>()
                    };
                    ((first / per_block + 1) * per_block, raw.map(decode))
                }
            };
            let free = entries.map(|entries| {
                let numbered = (first as u32..self.view.sb.segments()).zip(entries);
                numbered.filter_map(|(number, entry)| self.free_in(number, entry)).collect()
            });
            (next, free)
        })
    }

    fn numbers(&self) -> Ino {
        self.map_len().max(IFILE_INO + 1)
    }

    fn map_entry(&self, ino: Ino) -> BoxFuture<'_, Result<Option<(&'static str, Fields)>>> {
        Box::pin(async move {
            if ino == IFILE_INO {
                return Ok(None);
            }
            Ok(Some(("what the inode map says", entry_fields(ino, self.entry(ino).await?))))
        })
    }

    fn inode(&self, ino: Ino) -> BoxFuture<'_, Result<(Option<u64>, Dinode)>> {
        Box::pin(async move {
            if ino == IFILE_INO {
                // It is in the checkpoint.
                return Ok((None, self.ifile_inode()?));
            }
            match self.entry(ino).await? {
                ImapEntry::Free { .. } => {
                    Err(FsError::inconsistent(format!("inode {ino} is free: see `inodes`")))
                }
                ImapEntry::Used { at, crc, generation, .. } => {
                    let (at, d) = self.placed_inode(ino, at, crc, generation).await?;
                    Ok((Some(at), d))
                }
            }
        })
    }

    fn inodes_from(&self, first: Ino) -> BoxFuture<'_, (Ino, Result<Vec<InUse>>)> {
        Box::pin(async move {
            let per_block = self.view.map_entries();
            let lbn = first / per_block;
            let next = (lbn + 1) * per_block;
            let raw = match self.ifile_block(self.view.sb.first_table_blocks() + lbn).await {
                Ok(raw) => raw,
                Err(error) => return (next, Err(error)),
            };
            let mut found = Vec::new();
            let entries = raw.chunks_exact(IMAP_ENTRY_BYTES).map(ImapEntry::decode);
            for (ino, entry) in (lbn * per_block..).zip(entries).filter(|(ino, _)| *ino >= first) {
                if let ImapEntry::Used { at, crc, generation, orphan } = entry {
                    let read = self.placed_inode(ino, at, crc, generation).await;
                    let mark = if orphan { "orphan" } else { "" };
                    found.push(InUse { ino, generation: Some(generation), mark, read });
                }
            }
            (next, Ok(found))
        })
    }

    fn check_ptr(&self, ptr: Ptr) -> std::result::Result<(), &'static str> {
        self.view.sb.geometry.check_ptr(ptr, self.view.frags)
    }

    fn block(&self, ino: Ino, lbn: Lbn, ptr: Ptr) -> BoxFuture<'_, Result<Bytes>> {
        Box::pin(self.view.block(ino, lbn, ptr))
    }

    fn indirect(&self, ino: Ino, lbn: Lbn, ptr: Ptr) -> BoxFuture<'_, Result<Bytes>> {
        Box::pin(self.view.indirect(ino, lbn, ptr))
    }

    fn is_in_memory(&self, ino: Ino, lbn: Lbn) -> bool {
        self.view.log_state.overlays(ino, lbn)
    }
}

fn entry_fields(ino: Ino, entry: ImapEntry) -> Fields {
    match entry {
        ImapEntry::Free { next, generation } => vec![
            ("ino", Value::Number(ino)),
            ("free", Value::Flag(true)),
            ("next_free", Value::Number(next)),
            ("generation", Value::Number(generation.into())),
        ],
        ImapEntry::Used { at, crc, generation, orphan } => vec![
            ("ino", Value::Number(ino)),
            ("free", Value::Flag(false)),
            ("place", Value::Number(at)),
            ("crc", Value::Hex(crc.into())),
            ("generation", Value::Number(generation.into())),
            ("orphan", Value::Flag(orphan)),
        ],
    }
}
