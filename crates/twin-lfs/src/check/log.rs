//! Checks the log itself: the segment usage table against a recount, and the summaries of each
//! segment against the pointers of files.
//!
//! The cleaner finds live blocks through summaries, so a live block that no summary names could
//! never move. Identities of what summaries name are added up for each segment and compared with
//! the sum over pointers; only where these differ are the blocks looked up one by one.

use std::collections::BTreeMap;

use twin_check::{Finding, FindingKind, NumberState, Phase, Progress, Report, Severity};
use twin_disk::{Block, Class, Io, Origin, Pending, gather};
use twin_fs::geometry::Ptr;
use twin_fs::{FsError, Ino, mode};

use super::image::{LfsImage, block_identity, inode_identity};
use crate::format::IFILE_INO;
use crate::format::{BlockContents, BlockInfo, PlacedBlock, Profile, Summary};
use crate::partial_segments::{Content, PartialSegment, PartialSegments};

/// The largest request for a part of a segment, in bytes.
const READ_MAX: u64 = 4 << 20;

/// A live block of a file that a summary names.
struct Named {
    at: u64,
    ino: Ino,
    generation: u32,
    block: BlockInfo,
}

/// The totals over the summaries of a segment.
#[derive(Default)]
struct Tally {
    sum: u64,
    /// Live fragments that a summary names: the number of the first one in the segment, and how
    /// many follow, for each run.
    frags: BTreeMap<u32, u32>,
    blocks: Vec<Named>,
}

impl Tally {
    /// True if a summary names the fragment.
    fn names(&self, nth: u32) -> bool {
        let before = self.frags.range(..=nth).next_back();
        before.is_some_and(|(&first, &count)| nth - first < count)
    }
}

/// A partial segment, with the content of its segment if that was read.
struct PartialSegmentRef<'a> {
    segment: u32,
    offset: u32,
    summary: &'a Summary,
    whole: Option<&'a [Block]>,
}

impl LfsImage {
    /// Compares the usage table with what was claimed.
    pub(super) fn check_usage(&self, report: &mut Report) {
        for segment in 0..self.view.sb.segments() {
            let live = self.claims.segment(segment).live_bytes;
            let said = self.table.get(segment as usize).map_or(0, |entry| entry.live_bytes.into());
            if said == live {
                continue;
            }
            let severity = if said < live { Severity::Serious } else { Severity::Minor };
            let what = format!("segment {segment}: {said} live bytes by the table, {live} counted");
            let at = self.view.sb.segment_start(segment);
            report.add(Finding::new(FindingKind::Usage, severity, what).at(at));
        }
        self.check_heads(report);
    }

    /// Checks that nothing lies where the log will be continued.
    fn check_heads(&self, report: &mut Report) {
        let sb = self.view.sb.clone();
        let heads = self.view.log_state.heads.clone();
        let mut taken = Vec::new();
        for (stream, head) in heads.iter().enumerate() {
            let wrong = |what: String| {
                let at = sb.segment_start(head.segment);
                Finding::serious(FindingKind::LogHead, what).at(at)
            };
            for segment in [head.segment, head.next] {
                if taken.contains(&segment) {
                    let what = format!("stream {stream} and another both fill segment {segment}");
                    report.add(wrong(what));
                }
                taken.push(segment);
            }
            let frag = sb.geometry.frag_size;
            let (first, all) = (head.offset.div_ceil(frag), sb.segment_size / frag);
            let account = self.claims.segment(head.segment);
            let ahead = (first..all).find(|&nth| account.is_claimed(nth));
            let next_live = self.claims.segment(head.next).live_bytes;
            if let Some(nth) = ahead {
                let what = format!(
                    "stream {stream} goes on at offset {} of segment {}, but {} is in use",
                    head.offset,
                    head.segment,
                    nth * frag
                );
                report.add(wrong(what));
            }
            if next_live > 0 {
                let what = format!(
                    "stream {stream} goes on in segment {}, where {next_live} bytes are live",
                    head.next
                );
                report.add(wrong(what));
            }
        }
    }

    /// Checks all segments that hold live data. If segments are read whole, the next one is read
    /// while one is checked.
    pub(super) async fn check_log(
        &mut self,
        report: &mut Report,
        progress: &mut dyn FnMut(Progress),
    ) {
        let segments = self.view.sb.segments();
        let live = |this: &Self, s: &u32| this.claims.segment(*s).live_bytes > 0;
        let list: Vec<u32> = (0..segments).filter(|s| live(self, s)).collect();
        let mut next = list.first().map(|&segment| self.start_reading(segment));
        for (nth, &segment) in list.iter().enumerate() {
            let (done, total) = (nth as u64, list.len() as u64);
            progress(Progress { phase: Phase::Layout, done, total });
            let reading = next.take();
            next = list.get(nth + 1).map(|&segment| self.start_reading(segment));
            let whole = self.finish_reading(segment, reading.unwrap_or_default(), report).await;
            self.check_segment(segment, whole.as_deref(), report).await;
        }
        let total = list.len() as u64;
        progress(Progress { phase: Phase::Layout, done: total, total });
    }

    /// Asks the device for a segment, unless only summaries are wanted.
    fn start_reading(&self, segment: u32) -> Vec<Pending> {
        if !self.options.data {
            return Vec::new();
        }
        let start = self.view.sb.segment_start(segment);
        let end = start + u64::from(self.view.sb.segment_size);
        let info = self.view.device.info();
        let piece = READ_MAX.min(u64::from(info.max_io) / 65536 * 65536).max(65536);
        let mut reads = Vec::new();
        let mut at = start;
        while at < end {
            let len = piece.min(end - at);
            let io = Io::read(at, len, Class::Mixed, Origin::Recovery);
            reads.push(self.view.device.submit(io));
            at += len;
        }
        reads
    }

    /// The content of a segment; `None` if it was not asked for or cannot be read whole.
    async fn finish_reading(
        &self,
        segment: u32,
        reads: Vec<Pending>,
        report: &mut Report,
    ) -> Option<Vec<Block>> {
        let mut whole = Vec::new();
        let mut failed = reads.is_empty();
        for read in reads {
            match read.await {
                Ok(blocks) => whole.extend(blocks),
                Err(error) => {
                    failed = true;
                    let what = format!("segment {segment} cannot be read whole");
                    let (kind, error) = (FindingKind::Device, FsError::Io(error));
                    report.add(Finding::from_error(kind, Severity::Serious, &error, &what));
                }
            }
        }
        (!failed).then_some(whole)
    }

    async fn check_segment(&mut self, segment: u32, whole: Option<&[Block]>, report: &mut Report) {
        let mut tally = Tally::default();
        let mut parts = PartialSegments::of(&self.view.sb, segment);
        while let Some(found) = self.next_part(&mut parts, segment, whole).await {
            let PartialSegment { offset, summary } = &found;
            let part = PartialSegmentRef { segment, offset: *offset, summary, whole };
            self.check_part(&part, &mut tally, report).await;
        }
        let offset = parts.offset();
        let account = self.claims.segment(segment);
        let frag = self.view.sb.geometry.frag_size;
        let mut frags = 0..self.view.sb.segment_size / frag;
        let unnamed = frags.find(|&nth| account.is_claimed(nth) && !tally.names(nth));
        let sums_differ = account.sum != tally.sum;
        if let Some(nth) = unnamed {
            let at = self.view.sb.segment_start(segment) + u64::from(nth * frag);
            let what = format!(
                "segment {segment}: what is live here is in no sound summary; they end at offset \
                 {offset}"
            );
            report.add(Finding::serious(FindingKind::Summary, what).at(at));
        }
        if unnamed.is_some() || sums_differ {
            self.moves.insert(segment);
        }
        if sums_differ {
            self.explain(segment, &tally, unnamed.is_some(), report).await;
        }
    }

    /// The next partial segment of a segment.
    async fn next_part(
        &self,
        parts: &mut PartialSegments,
        segment: u32,
        whole: Option<&[Block]>,
    ) -> Option<PartialSegment> {
        let sb = &self.view.sb;
        let found = match whole {
            Some(blocks) => {
                let start = sb.segment_start(segment);
                parts.next(sb, &Content { start, blocks }).await
            }
            None => parts.next(sb, &self.view).await,
        };
        // A place that cannot be read counts as the end of the summaries. If live blocks follow,
        // the comparison reports that no summary names them.
        found.ok().flatten()
    }

    /// Adds the blocks that a partial segment names to the totals, and compares checksums.
    async fn check_part(
        &mut self,
        part: &PartialSegmentRef<'_>,
        tally: &mut Tally,
        report: &mut Report,
    ) {
        let sb = self.view.sb.clone();
        let mut any_live = false;
        for placed in part.summary.blocks(&sb) {
            let is_live = self.tally(part, &placed, tally);
            any_live |= is_live;
            if is_live && self.options.data {
                self.compare_block(part, &placed, report).await;
            }
        }
        if !any_live {
            return;
        }
        let header = part.summary.header;
        let at = sb.segment_start(part.segment) + u64::from(part.offset);
        if header.serial >= self.view.log_state.serial {
            let what = format!(
                "segment {}: something live has serial number {}, but the log has come to {}",
                part.segment, header.serial, self.view.log_state.serial
            );
            report.add(Finding::serious(FindingKind::Summary, what).at(at));
        }
        if let (Some(blocks), Profile::Classic) = (part.whole, sb.profile) {
            let crc_at = |at: u32, len: u32| {
                gather(blocks, (part.offset + at) as usize, len as usize).crc32c()
            };
            report.counts.compared_bytes += u64::from(header.total_bytes);
            if !part.summary.verify(&sb, crc_at) {
                let what = format!(
                    "segment {}: the blocks of the partial segment of {} bytes here do not match \
                     their checksum",
                    part.segment, header.total_bytes
                );
                report.add(Finding::serious(FindingKind::Data, what).at(at));
                self.note_doubtful(part, report);
            }
        }
    }

    /// Adds one block that a summary names to the totals. Gives true if the block is live.
    fn tally(
        &self,
        part: &PartialSegmentRef<'_>,
        placed: &PlacedBlock<'_>,
        tally: &mut Tally,
    ) -> bool {
        let sb = &self.view.sb;
        let frag = sb.geometry.frag_size;
        let offset = part.offset + placed.at;
        let (first, count) = (offset / frag, placed.len / frag);
        let account = self.claims.segment(part.segment);
        if !(first..first + count).any(|nth| account.is_claimed(nth)) {
            return false;
        }
        tally.frags.insert(first, count);
        let at = sb.segment_start(part.segment) + u64::from(offset);
        match placed.what {
            BlockContents::Block { ino, generation, block } if account.is_claimed(first) => {
                let id = block_identity(ino, generation, block.lbn, at, block.len, block.crc);
                tally.sum = tally.sum.wrapping_add(id);
                tally.blocks.push(Named { at, ino, generation, block });
            }
            BlockContents::Block { .. } => {}
            BlockContents::Inodes(list) => {
                let size = u64::from(sb.geometry.inode_size);
                for (nth, info) in (0..).zip(list) {
                    let place = at + nth * size;
                    if self.entry(info.ino).is_some_and(|entry| {
                        entry.state != NumberState::Free
                            && entry.at.checked_mul(size) == Some(place)
                    }) {
                        let id = inode_identity(sb.profile, info.ino, place, info.crc);
                        tally.sum = tally.sum.wrapping_add(id);
                    }
                }
            }
        }
        true
    }

    /// Compares a live block of file data with its checksum. Metadata has been compared when it was
    /// read.
    async fn compare_block(
        &mut self,
        part: &PartialSegmentRef<'_>,
        placed: &PlacedBlock<'_>,
        report: &mut Report,
    ) {
        let BlockContents::Block { ino, block, .. } = placed.what else { return };
        let is_meta = self.entry(ino).is_some_and(|entry| {
            let kind = u32::from(entry.kind) << 12;
            entry.state == NumberState::Used && (kind == 0 || kind == mode::DIRECTORY)
        });
        if block.lbn < 0 || ino == IFILE_INO || is_meta {
            return;
        }
        let (offset, len) = ((part.offset + placed.at) as usize, placed.len as usize);
        let at = self.view.sb.segment_start(part.segment) + offset as u64;
        // Where in the file it is, which is what its owner asks.
        let first = block.lbn as u64 * u64::from(self.view.sb.geometry.block_size);
        let last = first + len as u64 - 1;
        let name = format!("block {} (bytes {first} to {last})", block.lbn);
        let content = match part.whole {
            Some(blocks) => gather(blocks, offset, len),
            None => match self.view.read(at, len as u64).await {
                Ok(content) => content,
                Err(error) => {
                    let found =
                        Finding::from_error(FindingKind::Data, Severity::Serious, &error, &name);
                    return report.add(found.of(ino));
                }
            },
        };
        if self.view.sb.profile == Profile::Classic {
            // In the classic profile one checksum covers the whole partial segment.
            return;
        }
        report.counts.compared_bytes += len as u64;
        if content.crc32c() != block.crc {
            let what = format!("{name}: the data does not match its checksum");
            report.add(Finding::serious(FindingKind::Data, what).at(at).of(ino));
            self.rotten.insert((ino, block.lbn));
        }
    }

    /// Reports a partial segment that does not match its only checksum. Nothing tells which blocks
    /// have changed, so a repair keeps all and reports each file.
    fn note_doubtful(&mut self, part: &PartialSegmentRef<'_>, report: &mut Report) {
        self.moves.insert(part.segment);
        for placed in part.summary.blocks(&self.view.sb) {
            let first = (part.offset + placed.at) / self.view.sb.geometry.frag_size;
            if let BlockContents::Block { ino, block, .. } = placed.what
                && self.repairs
                && self.claims.segment(part.segment).is_claimed(first)
            {
                let what = format!("block {} may have changed", block.lbn);
                report.add_loss(ino, what);
            }
        }
    }

    /// Finds and reports where the summaries of a segment and the pointers of files differ.
    async fn explain(
        &self,
        segment: u32,
        tally: &Tally,
        said_something: bool,
        report: &mut Report,
    ) {
        let mut said_something = said_something;
        for named in &tally.blocks {
            let Named { at, ino, generation, block } = *named;
            let wrong = match self.owner_ptr(ino, block.lbn).await {
                Ok((life, _)) if life != generation => format!("the inode is in life {life}"),
                Ok((_, ptr)) if self.view.sb.geometry.byte_of(ptr.addr) != at => {
                    "the inode has it elsewhere".into()
                }
                Ok((_, ptr)) if ptr.len != block.len => {
                    format!("the pointer says {} bytes", ptr.len)
                }
                Ok((_, ptr)) if ptr.crc != block.crc => "the pointer has another checksum".into(),
                Ok(_) => continue,
                Err(error) => format!("{error}"),
            };
            said_something = true;
            let what = format!(
                "segment {segment}: something lives here that the summary calls block {} ({} \
                 bytes) in life {generation} of the inode: {wrong}",
                block.lbn, block.len
            );
            report.add(Finding::serious(FindingKind::Summary, what).at(at).of(ino));
        }
        if !said_something {
            let what =
                format!("segment {segment}: an inode lives where its summaries name another");
            let at = self.view.sb.segment_start(segment);
            report.add(Finding::serious(FindingKind::Summary, what).at(at));
        }
    }

    /// The generation of an inode and its pointer to a block.
    async fn owner_ptr(&self, ino: Ino, lbn: i64) -> Result<(u32, Ptr), FsError> {
        let d = match ino {
            IFILE_INO => self.view.log_state.ifile.clone(),
            _ => self.inode(ino).await?.d,
        };
        let ptr = self.view.ptr(&d, lbn).await?;
        let ptr = if ptr.is_on_disk() { ptr } else { Ptr::HOLE };
        Ok((d.generation, ptr))
    }
}
