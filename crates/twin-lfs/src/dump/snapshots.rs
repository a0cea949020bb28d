//! Snapshots and branches: the records of the states that are kept.

use twin_fs::dump::{Column, Value, number, text};

use super::Dumper;
use crate::format::RecordKind;

impl Dumper<'_> {
    /// The head's name, and all records.
    pub(super) async fn snapshots(&mut self) {
        let content = match self.source.view.snapshots().await {
            Ok(content) => content,
            Err(error) => return self.problem("the snapshots' file", error),
        };
        let bytes = self.source.view.log_state.snapshots.as_ref().map_or(0, |d| d.size);
        self.sink.fields(
            "file",
            "the snapshots' file",
            vec![
                ("head", Value::Text(content.head)),
                ("next_id", Value::Number(content.next_id)),
                ("bytes", Value::Number(bytes)),
            ],
        );
        const COLUMNS: [Column; 8] = [
            number("id", 6),
            text("kind", 8),
            text("time", 30),
            number("serial", 14),
            number("live_bytes", 12),
            number("orphans", 7),
            number("ifile_bytes", 11),
            text("name", 20),
        ];
        self.sink.begin("records", "the states that are kept", &COLUMNS);
        let mut records = content.records;
        records.sort_by_key(|record| record.id);
        for record in records {
            let kind = match record.kind {
                RecordKind::Snapshot => "snapshot",
                RecordKind::Branch => "branch",
            };
            self.sink.row(vec![
                Value::Number(record.id),
                Value::Text(kind.into()),
                record.time.into(),
                Value::Number(record.serial),
                Value::Number(record.live_bytes),
                Value::Number(record.orphans),
                Value::Number(record.ifile.size),
                Value::Text(record.name),
            ]);
        }
        self.sink.end();
    }
}
