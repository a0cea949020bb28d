//! Finds inodes whose part of the inode map is lost, through the summaries of the log.
//!
//! Contract: for each number the newest inode counts. If that cannot be read, no older version
//! takes its place, because its pointers may lead to blocks that other files use now.

use std::collections::BTreeMap;

use twin_check::NumberState;
use twin_fs::dinode::{Dinode, TRUNCATING};
use twin_fs::{Ino, ROOT_INO};

use super::image::LfsImage;
use super::map_entry::{LostInodes, MapEntry};
use crate::format::{BlockContents, IFILE_INO, Profile, Summary, SummaryEntry};
use crate::partial_segments::PartialSegments;

impl LfsImage {
    /// Finds the inodes whose map entry cannot be read. The log is read once for all rounds,
    /// because nothing on the device changes between them.
    pub(super) async fn find_lost_inodes(&mut self) {
        let is_short = self.map.len() <= ROOT_INO as usize;
        let is_unknown = |entry: &MapEntry| entry.state == NumberState::Unknown;
        if !is_short && !self.map.iter().any(is_unknown) {
            return;
        }
        let found = match self.lost.take() {
            Some(found) => found,
            None => self.newest_inodes(is_short).await,
        };
        // A generation that no file has had, so that a handle of a lost file cannot lead to a new
        // one.
        let generations = self.map.iter().chain(found.values()).map(|entry| entry.generation);
        let unused = generations.max().unwrap_or(0).saturating_add(1);
        let last = found.keys().next_back().map_or(ROOT_INO, |&ino| ino.max(ROOT_INO));
        let len = self.map.len().max((last + 1).next_multiple_of(self.view.map_entries()) as usize);
        self.map.resize(len, MapEntry::default());
        for (ino, entry) in (0..).zip(&mut self.map).filter(|(_, entry)| is_unknown(entry)) {
            let free =
                MapEntry { state: NumberState::Free, generation: unused, ..MapEntry::default() };
            let is_known =
                |newest: &&MapEntry| newest.state == NumberState::Used || newest.generation > 0;
            let newest = found.get(&ino).filter(is_known);
            *entry = newest.copied().unwrap_or(free);
        }
        self.lost = Some(found);
    }

    /// Number of inodes in use that were found this way; `None` if the map was whole.
    pub(super) fn found_in_log(&self) -> Option<usize> {
        let used = |entry: &&MapEntry| entry.state == NumberState::Used;
        self.lost.as_ref().map(|found| found.values().filter(used).count())
    }

    async fn newest_inodes(&self, all: bool) -> LostInodes {
        let mut newest: BTreeMap<Ino, (u64, MapEntry)> = BTreeMap::new();
        for segment in 0..self.view.sb.segments() {
            let sb = &self.view.sb;
            let mut parts = PartialSegments::of(sb, segment);
            while let Ok(Some(part)) = parts.next(sb, &self.view).await {
                let serial = part.summary.header.serial;
                if serial >= self.view.log_state.serial {
                    break;
                }
                let start = sb.segment_start(segment) + u64::from(part.offset);
                for (ino, entry) in self.inodes_of(&part.summary, start, all).await {
                    let known = newest.get(&ino).map_or(0, |known| known.0);
                    if serial >= known {
                        newest.insert(ino, (serial, entry));
                    }
                }
            }
        }
        newest.into_iter().map(|(ino, (_, entry))| (ino, entry)).collect()
    }

    /// The entries that a partial segment gives for inode numbers whose map entry is lost.
    async fn inodes_of(&self, summary: &Summary, start: u64, all: bool) -> Vec<(Ino, MapEntry)> {
        let sb = &self.view.sb;
        let is_lost = |ino: Ino| {
            let unknown = self.entry(ino).is_none_or(|entry| entry.state == NumberState::Unknown);
            ino > IFILE_INO && (unknown && (all || self.entry(ino).is_some()))
        };
        let mut found = Vec::new();
        for entry in &summary.entries {
            if let SummaryEntry::Freed { ino, generation } = *entry
                && is_lost(ino)
            {
                let generation = generation.wrapping_add(1);
                let free = MapEntry { state: NumberState::Free, generation, ..MapEntry::default() };
                found.push((ino, free));
            }
        }
        let size = u64::from(sb.geometry.inode_size);
        for placed in summary.blocks(sb) {
            let BlockContents::Inodes(list) = placed.what else { continue };
            for (nth, info) in (0..).zip(list) {
                let is_named = sb.profile == Profile::Modern;
                if is_named && !is_lost(info.ino) {
                    continue;
                }
                let byte = start + u64::from(placed.at) + nth * size;
                let d = self.inode_at(byte, info.crc).await;
                let ino = if is_named { info.ino } else { d.as_ref().map_or(0, |d| d.ino) };
                let entry = match d.filter(|d| d.ino == ino) {
                    Some(d) => MapEntry {
                        at: byte / size,
                        crc: info.crc,
                        generation: d.generation,
                        state: NumberState::Used,
                        marked: d.nlink == 0 || d.flags & TRUNCATING != 0,
                        ..MapEntry::default()
                    },
                    None => MapEntry { state: NumberState::Free, ..MapEntry::default() },
                };
                if is_lost(ino) {
                    found.push((ino, entry));
                }
            }
        }
        found
    }

    /// Reads the inode at a byte of the device, if there is one with the checksum of the summary.
    async fn inode_at(&self, byte: u64, crc: u32) -> Option<Dinode> {
        let raw = self.view.raw_inode(byte).await.ok()?;
        let is_sound = !self.view.is_wide() || crc32c::crc32c(&raw) == crc;
        is_sound.then(|| self.view.decode_inode(&raw, byte).ok())?
    }
}
