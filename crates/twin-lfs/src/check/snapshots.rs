//! Snapshots and branches: their records, the pins of segments, and the states themselves.
//!
//! The records' own usage tables say which segments each state needs; the pins in the volume's table are compared with
//! that. Each state is checked like a volume: always its tables, and with the option that reads all data its files.

use std::rc::Rc;

use twin_check::{Finding, FindingKind, Progress, Report, Severity, Step, Walk};
use twin_fs::Result;
use twin_fs::dinode::{Dinode, HIDDEN};

use super::CheckOptions;
use super::found_snapshots::FoundSnapshots;
use super::image::LfsImage;
use crate::format::{SEG_ENTRY_BYTES, SNAPSHOTS_INO, SegEntry, SnapshotRecord, SnapshotsFile};
use crate::volume_reader::{LogState, VolumeReader};

impl LfsImage {
    /// Reads the records, claims the places of their file, and counts what each needs.
    pub(super) async fn read_snapshots(&mut self, report: &mut Report) {
        self.snapshots = FoundSnapshots::default();
        let Some(d) = self.view.log_state.snapshots.clone() else { return };
        match self.read_snapshots_file(&d, report).await {
            Ok(content) => self.snapshots.content = content,
            Err(error) => {
                let what = "the file with the snapshots";
                report.add(Finding::from_error(
                    FindingKind::Snapshot,
                    Severity::Serious,
                    &error,
                    what,
                ));
                self.snapshots
                    .lost
                    .push("all snapshots and branches: their records cannot be read".into());
                return;
            }
        }
        let mut kept = Vec::new();
        for record in std::mem::take(&mut self.snapshots.content.records) {
            match self.segments_of(&record).await {
                Ok(segments) => {
                    for segment in segments {
                        *self.snapshots.pins.entry(segment).or_default() += 1;
                    }
                    kept.push(record);
                }
                Err(error) => {
                    let what = format!("{:?}: its usage table", record.name);
                    report.add(Finding::from_error(
                        FindingKind::Snapshot,
                        Severity::Serious,
                        &error,
                        &what,
                    ));
                    let what = format!(
                        "the snapshot {:?}: it is not known which segments it needs",
                        record.name
                    );
                    self.snapshots.lost.push(what);
                }
            }
        }
        self.snapshots.content.records = kept;
    }

    /// Reads the file and claims its blocks.
    async fn read_snapshots_file(
        &mut self,
        d: &Dinode,
        report: &mut Report,
    ) -> Result<SnapshotsFile> {
        let geometry = self.view.sb.geometry.clone();
        if (d.ino, d.mode, d.flags) != (SNAPSHOTS_INO, 0, HIDDEN) {
            let what = "the checkpoint's inode is not that of a file of snapshots";
            report.add(Finding::serious(FindingKind::Snapshot, what));
        }
        let mut walk = Walk::new(d);
        while let Some(step) = walk.next(&geometry) {
            let Step { lbn, ptr } = step;
            if self.claim_layout_block(SNAPSHOTS_INO, step, d.generation, report) && lbn < 0 {
                walk.descend(step, self.view.indirect(SNAPSHOTS_INO, lbn, ptr).await?);
            }
        }
        self.view.snapshots().await
    }

    /// The state of a record, for reading.
    fn state_of(&self, record: &SnapshotRecord) -> VolumeReader {
        let log_state = LogState::of_record(record);
        VolumeReader::new(Rc::clone(&self.view.device), self.view.sb.clone(), log_state)
    }

    /// The segments that a state needs, by its own table.
    async fn segments_of(&self, record: &SnapshotRecord) -> Result<Vec<u32>> {
        let state = self.state_of(record);
        let mut segments = Vec::new();
        let mut live = 0;
        for nth in 0..state.sb.usage_blocks() {
            let lbn = state.sb.table_lbn(nth) as i64;
            let ptr = state.ptr(&record.ifile, lbn).await?;
            if ptr.is_hole() && lbn as u64 != nth {
                // The volume has grown since.
                break;
            }
            let raw = state.block(record.ifile.ino, lbn, ptr).await?;
            for entry in raw.chunks_exact(SEG_ENTRY_BYTES).map(SegEntry::decode) {
                let segment = segments.len() as u32;
                live += u64::from(entry.live_bytes);
                segments.push((segment, entry.live_bytes));
            }
        }
        segments.truncate(state.sb.segments() as usize);
        if live != record.live_bytes {
            let what = format!(
                "{live} bytes live by its usage table, {} by its record",
                record.live_bytes
            );
            return Err(twin_fs::FsError::inconsistent(what));
        }
        Ok(segments.into_iter().filter(|(_, live)| *live > 0).map(|(segment, _)| segment).collect())
    }

    /// Compares the pins of all segments with what the records need.
    pub(super) fn check_pins(&self, report: &mut Report) {
        for (segment, entry) in (0..self.view.sb.segments()).zip(&self.table) {
            let needed = self.snapshots.pins.get(&segment).copied().unwrap_or(0);
            if entry.pins != needed {
                let severity =
                    if entry.pins < needed { Severity::Serious } else { Severity::Minor };
                let what = format!(
                    "segment {segment}: {} snapshots need it by the table, {needed} by their records",
                    entry.pins
                );
                let at = self.view.sb.segment_start(segment);
                report.add(Finding::new(FindingKind::Usage, severity, what).at(at));
            }
        }
    }

    /// Checks the states of all records.
    pub(super) async fn check_states(&self, report: &mut Report) -> Result<()> {
        for record in &self.snapshots.content.records {
            let found = self.check_state(record).await?;
            for mut finding in found.findings {
                finding.what = format!("in {:?}: {}", record.name, finding.what);
                // Another state may have other files under these numbers.
                finding.ino = None;
                report.add(finding);
            }
            report.more_findings += found.more_findings;
        }
        let records = self.snapshots.content.records.len();
        if records > 0 {
            let held: u64 = self.snapshots.pins.len() as u64;
            report.notes.push(format!("{records} snapshots and branches need {held} segments"));
        }
        Ok(())
    }

    async fn check_state(&self, record: &SnapshotRecord) -> Result<Report> {
        let mut report = Report::default();
        let state = self.state_of(record);
        if let Err(error) = state.load_forwards().await {
            let what = "the summaries of forwarded blocks";
            report.add(Finding::from_error(FindingKind::Summary, Severity::Serious, &error, what));
        }
        let mut image = LfsImage::new(state, CheckOptions { data: self.options.data });
        image.is_record = true;
        match self.options.data {
            true => {
                let mut ignore = |_: Progress| {};
                twin_check::check(&mut image, &mut report, &mut ignore).await?;
            }
            false => image.read_ifile(&mut report).await,
        }
        Ok(report)
    }
}
