//! The ifile: the segment usage table, the inode map, and the list of free numbers.

use twin_cache::Lbn;
use twin_check::{Finding, FindingKind, NumberState, Report, Severity, Step, Walk};
use twin_fs::dinode::{HIDDEN, TRUNCATING};
use twin_fs::{Ino, ROOT_INO};

use super::claims::Refused;
use super::image::{LfsImage, block_identity};
use super::map_entry::MapEntry;
use crate::format::IFILE_INO;
use crate::format::{IMAP_ENTRY_BYTES, ImapEntry, SEG_ENTRY_BYTES, SegEntry};

impl LfsImage {
    /// Reads the whole ifile and fills the usage table and the inode map from it.
    pub(super) async fn read_ifile(&mut self, report: &mut Report) {
        (self.table, self.map) = (Vec::new(), Vec::new());
        self.ifile_bytes.clear();
        let d = self.view.log_state.ifile.clone();
        let geometry = self.view.sb.geometry.clone();
        let bad =
            |what: String| Finding::new(FindingKind::Ifile, Severity::Fatal, what).of(IFILE_INO);
        if (d.ino, d.mode, d.nlink, d.flags) != (IFILE_INO, 0, 1, HIDDEN) {
            report.add(bad("the checkpoint's inode is not that of an ifile".into()));
        }
        let blocks = geometry.blocks_for(d.size);
        if !d.size.is_multiple_of(geometry.block_size.into()) || d.size > self.view.sb.size() {
            report.add(bad(format!("a length of {} bytes", d.size)));
        }
        let blocks = blocks.min(self.view.sb.size() / u64::from(geometry.block_size));
        let (mut walk, mut next, mut allocated) = (Walk::new(&d), 0, 0);
        while let Some(step) = walk.next(&geometry) {
            if !self.claim_layout_block(IFILE_INO, step, d.generation, report) {
                continue;
            }
            allocated += u64::from(step.ptr.len);
            let Ok(lbn) = u64::try_from(step.lbn) else {
                match self.view.indirect(IFILE_INO, step.lbn, step.ptr).await {
                    Ok(content) => walk.descend(step, content),
                    Err(error) => {
                        let what = format!("indirect block {} and all behind it", step.lbn);
                        let kind = FindingKind::IndirectBlock;
                        let found = Finding::from_error(kind, Severity::Serious, &error, &what);
                        report.add(found.of(IFILE_INO));
                    }
                }
                continue;
            };
            let in_second_part = lbn >= self.view.sb.second_table_part();
            if in_second_part && self.view.sb.table_block_at(lbn).is_none()
                || !in_second_part && lbn >= blocks
            {
                let what = format!("block {lbn} lies past the end, {} bytes", d.size);
                report.add(Finding::minor(FindingKind::Size, what).of(IFILE_INO));
                continue;
            }
            if !in_second_part {
                self.skip_missing(next, lbn, report);
                next = lbn + 1;
            }
            match self.view.block(IFILE_INO, lbn as Lbn, step.ptr).await {
                Ok(content) => self.take_ifile_block(lbn, Some(&content)),
                Err(error) => {
                    let what = format!("block {lbn}, {}", self.ifile_block_name(lbn));
                    let found =
                        Finding::from_error(FindingKind::Ifile, Severity::Fatal, &error, &what);
                    report.add(found.of(IFILE_INO));
                    self.take_ifile_block(lbn, None);
                }
            }
        }
        self.skip_missing(next, blocks, report);
        self.table.resize(self.view.sb.segments() as usize, SegEntry::default());
        if let Some(table) = &self.view.log_state.table {
            self.table.clone_from(table);
        }
        if d.allocated != allocated && geometry.is_modern() {
            let what =
                format!("{} bytes of blocks are counted, there are {allocated}", d.allocated);
            report.add(Finding::minor(FindingKind::Allocated, what).of(IFILE_INO));
        }
        self.check_first_numbers(report);
    }

    /// Claims a block of a file of the layout. Gives false if its pointer leads to no possible place.
    pub(super) fn claim_layout_block(
        &mut self,
        ino: Ino,
        step: Step,
        generation: u32,
        report: &mut Report,
    ) -> bool {
        let Step { lbn, ptr } = step;
        if !ptr.is_on_disk() && self.view.log_state.overlays(ino, lbn) {
            return true;
        }
        let name = if lbn < 0 { "indirect block" } else { "block" };
        let geometry = &self.view.sb.geometry;
        let wrong = |what: &str| {
            let what = format!("{name} {lbn}: address {}, {} bytes: {what}", ptr.addr, ptr.len);
            Finding::serious(FindingKind::Pointer, what).of(ino)
        };
        if !ptr.is_on_disk() || geometry.check_ptr(ptr, self.view.frags).is_err() {
            report.add(wrong("leads to no possible place"));
            return false;
        }
        if ptr.len != geometry.block_size {
            report.add(wrong("is not a whole block"));
        }
        let at = geometry.byte_of(ptr.addr);
        let id = block_identity(ino, generation, lbn, at, ptr.len, ptr.crc);
        match self.claims.block(at, ptr.len, id) {
            Ok(()) => {
                let segment = self.view.sb.segment_of(at).unwrap_or_default();
                *self.ifile_bytes.entry(segment).or_default() += ptr.len;
                true
            }
            Err(refused) => {
                let taken = matches!(refused, Refused::Taken | Refused::Own);
                let kind = if taken { FindingKind::DoubleUse } else { FindingKind::Pointer };
                report.add(Finding { kind, ..wrong(refused.words()) }.at(at));
                taken && lbn >= 0
            }
        }
    }

    /// Reports the blocks that the ifile lacks.
    fn skip_missing(&mut self, first: u64, end: u64, report: &mut Report) {
        if first >= end {
            return;
        }
        let what = format!("there are no blocks {first} to {}", end - 1);
        report.add(Finding::new(FindingKind::Ifile, Severity::Fatal, what).of(IFILE_INO));
        for lbn in first..end {
            self.take_ifile_block(lbn, None);
        }
    }

    /// Applies the changes of a repair to the map that was read from the device.
    pub(super) fn lay_over(&mut self) {
        for (&ino, &generation) in &self.freed {
            if let Some(entry) = self.map.get_mut(ino as usize) {
                *entry = MapEntry { generation, state: NumberState::Free, ..MapEntry::default() };
            }
        }
        for &ino in &self.replaced {
            if let Some(entry) = self.map.get_mut(ino as usize) {
                *entry = MapEntry::default();
            }
        }
        for d in self.view.log_state.inodes() {
            if let Some(entry) = self.map.get_mut(d.ino as usize) {
                (entry.state, entry.generation) = (NumberState::Used, d.generation);
                if self.repairs {
                    // A repair finishes truncations and removals itself.
                    entry.marked &= d.nlink == 0 || d.flags & TRUNCATING != 0;
                }
            }
        }
    }

    fn ifile_block_name(&self, lbn: u64) -> String {
        let sb = &self.view.sb;
        match sb.table_block_at(lbn) {
            Some(_) => "of the segment usage table".into(),
            None => {
                let first = (lbn - sb.first_table_blocks()) * self.view.map_entries();
                format!("with inodes {first} to {}", first + self.view.map_entries() - 1)
            }
        }
    }

    fn take_ifile_block(&mut self, lbn: u64, content: Option<&[u8]>) {
        let blank = vec![0; self.view.sb.geometry.block_size as usize];
        if let Some(nth) = self.view.sb.table_block_at(lbn) {
            let raw = content.unwrap_or(&blank);
            // What lies between was not there before the volume grew.
            let first = nth as usize * (blank.len() / SEG_ENTRY_BYTES);
            self.table.resize(first, SegEntry::default());
            self.table.extend(raw.chunks_exact(SEG_ENTRY_BYTES).map(SegEntry::decode));
            return;
        }
        let entries = content.unwrap_or(&blank).chunks_exact(IMAP_ENTRY_BYTES);
        self.map.extend(entries.map(|raw| match content {
            Some(_) => MapEntry::new(ImapEntry::decode(raw)),
            None => MapEntry::default(),
        }));
    }

    /// Checks that inodes 0 and 1 are not in use, and that the root exists.
    fn check_first_numbers(&mut self, report: &mut Report) {
        for ino in 0..ROOT_INO {
            if self.entry(ino).is_none_or(|entry| entry.state != NumberState::Free) {
                let what = "a number that no file can have is not free in the inode map";
                report.add(Finding::minor(FindingKind::MapEntry, what).of(ino));
            }
        }
        if self.entry(ROOT_INO).is_none_or(|entry| entry.state == NumberState::Free) {
            let what = "the root directory is not in the inode map";
            report.add(Finding::new(FindingKind::MapEntry, Severity::Fatal, what).of(ROOT_INO));
        }
    }

    /// Checks that the list has every free number once, but for picked ones, and nothing else.
    pub(super) fn check_free_list(&mut self, report: &mut Report) {
        let mut at = self.view.log_state.free_head;
        let (mut from, mut count): (Ino, u64) = (0, 0);
        while at != 0 {
            let place = if from == 0 { "it begins".into() } else { format!("inode {from} leads") };
            let wrong = match self.entry_mut(at) {
                _ if at <= ROOT_INO => "a number that is never free",
                None => "a number past the end of the map",
                Some(entry) if entry.state == NumberState::Unknown => "a number that the map lacks",
                Some(entry) if entry.state != NumberState::Free => "a number that is in use",
                Some(entry) if entry.listed => "a number that it has been at: a circle",
                Some(entry) => {
                    entry.listed = true;
                    count += 1;
                    (from, at) = (at, entry.next);
                    continue;
                }
            };
            let what = format!("the list of free numbers: {place} at {at}, {wrong}");
            report.add(Finding::serious(FindingKind::FreeList, what).of(at));
            break;
        }
        let said = self.view.log_state.free_inodes;
        if said != count {
            let what = format!("{said} free numbers are counted, the list has {count}");
            report.add(Finding::minor(FindingKind::FreeList, what));
        }
        self.check_unlisted(report);
    }

    /// Reports free numbers that are not on the list.
    fn check_unlisted(&mut self, report: &mut Report) {
        if self.is_record {
            // A record has only the number of those that were picked.
            return;
        }
        let picked = self.view.log_state.picked.clone();
        for ino in picked {
            match self.entry_mut(ino) {
                Some(entry) if entry.state == NumberState::Free && !entry.listed => {
                    entry.listed = true
                }
                _ => {
                    let what = "a number that was picked for a new file is not a free one";
                    report.add(Finding::minor(FindingKind::FreeList, what).of(ino));
                }
            }
        }
        let missing = |(ino, entry): &(usize, &MapEntry)| {
            *ino as Ino > ROOT_INO && entry.state == NumberState::Free && !entry.listed
        };
        let mut leaked = self.map.iter().enumerate().filter(missing).map(|(ino, _)| ino as Ino);
        if let Some(first) = leaked.next() {
            let more = leaked.count();
            let what = format!("free, but not on the list of free numbers; so are {more} more");
            report.add(Finding::minor(FindingKind::FreeList, what).of(first));
        }
    }
}
