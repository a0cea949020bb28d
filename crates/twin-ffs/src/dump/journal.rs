//! The journal: its headers, and the records that are valid from the newer header on.

use twin_disk::{Class, Io, Origin, gather};
use twin_fs::Result;
use twin_fs::dump::{Column, Value, number};

use super::Dumper;
use crate::format::{JOURNAL_HEADERS, JournalHeader, Record, RecordEntryKind};
use crate::journal::LiveRecord;
use crate::replay::{read_header, read_records};
use crate::settings::PlantedFault;

const HEADERS: [Column; 5] = [
    number("slot", 5),
    number("at", 12),
    number("number", 8),
    number("first_record", 12),
    number("tail", 8),
];

const RECORDS: [Column; 6] = [
    number("number", 8),
    number("at", 14),
    number("blocks", 7),
    number("places", 7),
    number("revoked", 8),
    number("orphans", 8),
];

impl Dumper<'_> {
    pub(super) async fn journal(&mut self) {
        let sb = self.source.view.sb.clone();
        self.sink.begin("headers", "the one with the larger number counts", &HEADERS);
        let slots = if sb.journal_bytes > 0 { JOURNAL_HEADERS } else { 0 };
        for slot in 0..slots {
            let at = sb.journal_start + slot * u64::from(sb.geometry.block_size);
            // A crash, or a new volume, leaves a slot in any state, so this alone is no damage.
            let said = match self.header_at(at).await {
                Ok(h) => [h.number, h.first_record, h.tail].map(Value::Number),
                Err(_) => [const { Value::None }; 3],
            };
            let place = [slot, at].map(Value::Number);
            self.sink.row(place.into_iter().chain(said).collect());
        }
        self.sink.end();
        if slots == 0 {
            return;
        }
        let mut records = Vec::new();
        let device = &*self.source.view.device;
        let read = async {
            let header = read_header(device, &sb).await?;
            read_records(device, &sb, &header, PlantedFault::None, &mut |live, record, _| {
                records.push(record_row(live, record, sb.journal_start, sb.geometry.block_size));
            })
            .await
        };
        let read = read.await;
        let about = "those that a restart would replay, if the volume was not closed";
        self.sink.begin("records", about, &RECORDS);
        records.into_iter().for_each(|row| self.sink.row(row));
        self.sink.end();
        if let Err(error) = read {
            self.problem("the journal", error);
        }
    }

    async fn header_at(&self, at: u64) -> Result<JournalHeader> {
        let view = &self.source.view;
        let len = u64::from(view.sb.geometry.block_size);
        let blocks = view.device.submit(Io::read(at, len, Class::Meta, Origin::Recovery)).await?;
        JournalHeader::decode(&view.sb, &gather(&blocks, 0, 512).to_bytes(), at)
    }
}

fn record_row(live: LiveRecord, record: &Record, start: u64, block: u32) -> Vec<Value> {
    let count = |is: fn(&RecordEntryKind) -> bool| {
        record.entries.iter().filter(|entry| is(&entry.kind)).count() as u64
    };
    let places = count(|kind| matches!(kind, RecordEntryKind::Block { .. }));
    let revoked = count(|kind| *kind == RecordEntryKind::Revoked);
    let orphans = count(|kind| *kind == RecordEntryKind::Orphan);
    let at = start + (JOURNAL_HEADERS + live.at) * u64::from(block);
    [live.number, at, live.len, places, revoked, orphans].map(Value::Number).into()
}
