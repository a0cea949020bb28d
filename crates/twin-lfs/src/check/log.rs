//! The log itself: the segment usage table against a recount, and each segment's own description
//! of what lies in it against what the files' pointers say.
//!
//! The cleaner finds live blocks through summaries, so a live block that no summary names could
//! never move. Identities of what summaries name are added up for each segment and compared with
//! the sum over pointers; only where these differ are the blocks looked up one by one.

use std::collections::BTreeMap;

use twin_disk::{Block, Class, Io, Origin, Pending, gather};
use twin_fs::shape::Ptr;
use twin_fs::{FsError, Ino, mode};

use super::inode::inode_identity;
use super::tree::block_identity;
use super::{Checker, Finding, Kind, Phase, Severity, State};
use crate::format::IFILE_INO;
use crate::format::{BlockInfo, Placed, Profile, Summary, What};
use crate::partial_segments::{Content, PartialSegment, PartialSegments};

/// The most that one request reads of a segment, in bytes.
const READ_MAX: u64 = 4 << 20;

/// A block of a file that a summary names, and that is live.
struct Named {
    at: u64,
    ino: Ino,
    generation: u32,
    block: BlockInfo,
}

/// A segment's summaries, added up.
#[derive(Default)]
struct Tally {
    sum: u64,
    /// The live fragments that are named: first and count of each run, by number in the segment.
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

/// A partial segment that is looked at, and the content of its segment if that was read.
struct Part<'a> {
    segment: u32,
    offset: u32,
    summary: &'a Summary,
    whole: Option<&'a [Block]>,
}

impl Checker<'_> {
    /// Compares the usage table with what was claimed.
    pub(super) fn check_usage(&mut self) {
        let counts = &mut self.report.counts;
        counts.live_bytes = self.claims.live_bytes();
        counts.segments = self.view.sb.segments.into();
        for segment in 0..self.view.sb.segments {
            let live = self.claims.segment(segment).live_bytes;
            let said = self.table.get(segment as usize).map_or(0, |entry| entry.live_bytes.into());
            self.report.counts.used_segments += u64::from(live > 0);
            if said == live {
                continue;
            }
            let severity = if said < live { Severity::Serious } else { Severity::Minor };
            let what = format!("segment {segment}: {said} live bytes by the table, {live} counted");
            let at = self.view.sb.segment_start(segment);
            self.add(Finding::new(Kind::Usage, severity, what).at(at));
        }
        self.check_heads();
    }

    /// Where the log goes on nothing may lie.
    fn check_heads(&mut self) {
        let sb = self.view.sb.clone();
        let heads = self.view.standing.heads.clone();
        let mut taken = Vec::new();
        for (stream, head) in heads.iter().enumerate() {
            let wrong = |what: String| {
                let at = sb.segment_start(head.segment);
                Finding::new(Kind::LogHead, Severity::Serious, what).at(at)
            };
            for segment in [head.segment, head.next] {
                if taken.contains(&segment) {
                    let what = format!("stream {stream} and another both fill segment {segment}");
                    self.add(wrong(what));
                }
                taken.push(segment);
            }
            let frag = sb.shape.frag_size;
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
                self.add(wrong(what));
            }
            if next_live > 0 {
                let what = format!(
                    "stream {stream} goes on in segment {}, where {next_live} bytes are live",
                    head.next
                );
                self.add(wrong(what));
            }
        }
    }

    /// Goes through all segments with something live. If they are read whole, the next is being
    /// read while one is looked at.
    pub(super) async fn check_log(&mut self) {
        let segments = self.view.sb.segments;
        let live = |this: &Self, s: &u32| this.claims.segment(*s).live_bytes > 0;
        let list: Vec<u32> = (0..segments).filter(|s| live(self, s)).collect();
        let mut next = list.first().map(|&segment| self.start_reading(segment));
        for (nth, &segment) in list.iter().enumerate() {
            self.progress(Phase::Log, nth as u64, list.len() as u64);
            let reading = next.take();
            next = list.get(nth + 1).map(|&segment| self.start_reading(segment));
            let whole = self.finish_reading(segment, reading.unwrap_or_default()).await;
            self.check_segment(segment, whole.as_deref()).await;
        }
        self.progress(Phase::Log, list.len() as u64, list.len() as u64);
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

    /// The content of a segment. None if it was not asked for, or cannot be read whole.
    async fn finish_reading(&mut self, segment: u32, reads: Vec<Pending>) -> Option<Vec<Block>> {
        let mut whole = Vec::new();
        let mut failed = reads.is_empty();
        for read in reads {
            match read.await {
                Ok(blocks) => whole.extend(blocks),
                Err(error) => {
                    failed = true;
                    let what = format!("segment {segment} cannot be read whole");
                    let (kind, error) = (Kind::Device, FsError::Io(error));
                    self.add(Finding::from_error(kind, Severity::Serious, error, &what));
                }
            }
        }
        (!failed).then_some(whole)
    }

    async fn check_segment(&mut self, segment: u32, whole: Option<&[Block]>) {
        let mut tally = Tally::default();
        let mut parts = PartialSegments::of(&self.view.sb, segment);
        while let Some(found) = self.next_part(&mut parts, segment, whole).await {
            self.report.counts.partial_segments += 1;
            let PartialSegment { offset, summary } = &found;
            let part = Part { segment, offset: *offset, summary, whole };
            self.check_part(&part, &mut tally).await;
        }
        let offset = parts.offset();
        let account = self.claims.segment(segment);
        let frag = self.view.sb.shape.frag_size;
        let mut frags = 0..self.view.sb.segment_size / frag;
        let unnamed = frags.find(|&nth| account.is_claimed(nth) && !tally.names(nth));
        let sums_differ = account.sum != tally.sum;
        if let Some(nth) = unnamed {
            let at = self.view.sb.segment_start(segment) + u64::from(nth * frag);
            let what = format!(
                "segment {segment}: what is live here is in no sound summary; they end at offset \
                 {offset}"
            );
            self.add(Finding::new(Kind::Summary, Severity::Serious, what).at(at));
        }
        if sums_differ {
            self.explain(segment, &tally, unnamed.is_some()).await;
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
        // A place that cannot be read has no summary; that something live is there unnamed will be
        // told.
        found.ok().flatten()
    }

    /// Adds up what a partial segment names, and compares checksums.
    async fn check_part(&mut self, part: &Part<'_>, tally: &mut Tally) {
        let sb = self.view.sb.clone();
        let mut any_live = false;
        for placed in part.summary.blocks(&sb) {
            let is_live = self.tally(part, &placed, tally);
            any_live |= is_live;
            if is_live && self.options.data {
                self.compare_block(part, &placed).await;
            }
        }
        if !any_live {
            return;
        }
        let header = part.summary.header;
        let at = sb.segment_start(part.segment) + u64::from(part.offset);
        if header.serial >= self.view.standing.serial {
            let what = format!(
                "segment {}: something live has serial number {}, but the log has come to {}",
                part.segment, header.serial, self.view.standing.serial
            );
            self.add(Finding::new(Kind::Summary, Severity::Serious, what).at(at));
        }
        if let (Some(blocks), Profile::Classic) = (part.whole, sb.profile) {
            let crc_at = |at: u32, len: u32| {
                gather(blocks, (part.offset + at) as usize, len as usize).crc32c()
            };
            self.report.counts.compared_bytes += u64::from(header.total_bytes);
            if !part.summary.verify(&sb, crc_at) {
                let what = format!(
                    "segment {}: the blocks of the partial segment of {} bytes here do not match \
                     their checksum",
                    part.segment, header.total_bytes
                );
                self.add(Finding::new(Kind::Data, Severity::Serious, what).at(at));
            }
        }
    }

    /// Adds up a block that a summary names; true if it is live.
    fn tally(&mut self, part: &Part<'_>, placed: &Placed<'_>, tally: &mut Tally) -> bool {
        let sb = &self.view.sb;
        let frag = sb.shape.frag_size;
        let offset = part.offset + placed.at;
        let (first, count) = (offset / frag, placed.len / frag);
        let account = self.claims.segment(part.segment);
        if !(first..first + count).any(|nth| account.is_claimed(nth)) {
            return false;
        }
        tally.frags.insert(first, count);
        let at = sb.segment_start(part.segment) + u64::from(offset);
        match placed.what {
            What::Block { ino, generation, block } if account.is_claimed(first) => {
                let id = block_identity(ino, generation, block.lbn, at, block.len, block.crc);
                tally.sum = tally.sum.wrapping_add(id);
                tally.blocks.push(Named { at, ino, generation, block });
                self.settle_double(at, ino, block);
            }
            What::Block { .. } => {}
            What::Inodes(list) => {
                let size = u64::from(sb.shape.inode_size);
                for (nth, info) in (0..).zip(list) {
                    let place = at + nth * size;
                    if self.node(info.ino).is_some_and(|node| {
                        node.state != State::Free && node.at.checked_mul(size) == Some(place)
                    }) {
                        let id = inode_identity(sb.profile, info.ino, place, info.crc);
                        tally.sum = tally.sum.wrapping_add(id);
                    }
                }
            }
        }
        true
    }

    /// Says of a place that two files use which of them the log wrote it for.
    fn settle_double(&mut self, at: u64, ino: Ino, block: BlockInfo) {
        for double in self.doubles.iter().filter(|double| double.at == at) {
            if let Some(finding) = self.report.findings.get_mut(double.finding) {
                let owner = format!("; the log wrote it as block {} of inode {ino}", block.lbn);
                finding.what.push_str(&owner);
            }
        }
    }

    /// Compares a live block of file data with its checksum. Metadata has been read by now.
    async fn compare_block(&mut self, part: &Part<'_>, placed: &Placed<'_>) {
        let What::Block { ino, block, .. } = placed.what else { return };
        let is_meta = self.node(ino).is_some_and(|node| {
            let kind = u32::from(node.kind) << 12;
            node.state == State::Read && (kind == 0 || kind == mode::DIRECTORY)
        });
        if block.lbn < 0 || ino == IFILE_INO || is_meta {
            return;
        }
        let (offset, len) = ((part.offset + placed.at) as usize, placed.len as usize);
        let at = self.view.sb.segment_start(part.segment) + offset as u64;
        let name = format!("block {}", block.lbn);
        let content = match part.whole {
            Some(blocks) => gather(blocks, offset, len),
            None => match self.view.read(at, len as u64).await {
                Ok(content) => content,
                Err(error) => {
                    return self.add_error(Kind::Data, Severity::Serious, ino, error, &name);
                }
            },
        };
        if self.view.sb.profile == Profile::Classic {
            // Its checksum covers the whole partial segment.
            return;
        }
        self.report.counts.compared_bytes += len as u64;
        if content.crc32c() != block.crc {
            let what = format!("{name}: the data does not match its checksum");
            self.add(Finding::new(Kind::Data, Severity::Serious, what).at(at).of(ino));
        }
    }

    /// Finds out in what the summaries of a segment and the pointers of files differ.
    async fn explain(&mut self, segment: u32, tally: &Tally, said_something: bool) {
        let mut said_something = said_something;
        for named in &tally.blocks {
            let Named { at, ino, generation, block } = *named;
            let wrong = match self.owner_ptr(ino, block.lbn).await {
                Ok((life, _)) if life != generation => format!("the inode is in life {life}"),
                Ok((_, ptr)) if self.view.sb.shape.byte_of(ptr.addr) != at => {
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
            self.add(Finding::new(Kind::Summary, Severity::Serious, what).at(at).of(ino));
        }
        if !said_something {
            let what =
                format!("segment {segment}: an inode lives where its summaries name another");
            let at = self.view.sb.segment_start(segment);
            self.add(Finding::new(Kind::Summary, Severity::Serious, what).at(at));
        }
    }

    /// The life of an inode and its pointer to a block.
    async fn owner_ptr(&self, ino: Ino, lbn: i64) -> Result<(u32, Ptr), FsError> {
        let d = match ino {
            IFILE_INO => self.view.standing.ifile.clone(),
            _ => self.read_inode(ino).await?.1,
        };
        let ptr = self.view.ptr(&d, lbn).await?;
        let ptr = if ptr.is_on_disk() { ptr } else { Ptr::HOLE };
        Ok((d.generation, ptr))
    }
}
