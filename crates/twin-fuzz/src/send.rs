//! Streams of `twinfs send`.

use twin_send::{Header, MAGIC, PAYLOAD_MAX, Reader, Record, StateId, VERSION, Writer};

use crate::Target;

/// A stream. What the reader gives, a writer makes the same stream of, and no path leads up.
pub(crate) const STREAM: Target = Target {
    name: "send_stream",
    about: "a stream of a sent snapshot",
    run: |data| read(data) | read(&righted(data)),
    seeds: || vec![seed()],
};

/// Reads a stream; true if it has its end.
fn read(data: &[u8]) -> bool {
    let (mut reader, mut writer, mut again) = (Reader::new(), Writer::new(), Vec::new());
    for piece in data.chunks(97) {
        reader.push(piece);
        while let Ok(Some(record)) = reader.next_record() {
            if let Record::Directory(path) | Record::Remove(path) = &record {
                assert!(
                    path.split(|&byte| byte == b'/').all(|name| name != b".." && !name.is_empty())
                );
            }
            let written = writer.write(&record);
            again.extend(written.expect("a record that is read can be written"));
            assert_eq!(data[..again.len()], again, "it is written in the same form");
        }
    }
    reader.finish().is_ok()
}

/// The stream with right magic, version and checksums, as far as its lengths lead.
fn righted(data: &[u8]) -> Vec<u8> {
    let mut out = data.to_vec();
    let Some(begin) = out.first_chunk_mut::<12>() else { return out };
    begin[..8].copy_from_slice(&MAGIC);
    begin[8..].copy_from_slice(&VERSION.to_le_bytes());
    let (mut at, mut len, mut crc, mut is_head) = (0, 12, 0, false);
    while let Some(part) = out.get_mut(at..at + len + 4) {
        crc = crc32c::crc32c_append(crc, &part[..len]);
        part[len..].copy_from_slice(&crc.to_le_bytes());
        at += len + 4;
        is_head = !is_head;
        len = match is_head {
            true => 8,
            false => {
                let word = out[at - 8..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
                (word as usize).min(PAYLOAD_MAX)
            }
        };
    }
    out
}

fn seed() -> Vec<u8> {
    let state = |id| StateId { volume: [1; 16], id, time_ns: 2, name: "s".into() };
    let path = |path: &[u8]| path.to_vec();
    let records = [
        Record::Header(Header { state: state(2), base: Some(state(1)) }),
        Record::Remove(path(b"gone")),
        Record::Directory(path(b"d")),
        Record::File { path: path(b"d/f"), size: 9000 },
        Record::Data { off: 10, data: vec![1; 20] },
        Record::Update { path: path(b"e"), size: 5 },
        Record::Hole { off: 0, len: 5 },
        Record::Link { path: path(b"l"), to: path(b"e") },
        Record::Symlink { path: path(b"s"), target: path(b"..") },
    ];
    let mut writer = Writer::new();
    let written = records.iter().filter_map(|record| writer.write(record).ok());
    let mut bytes: Vec<u8> = written.flatten().collect();
    bytes.extend(writer.end().unwrap_or_default());
    bytes
}
