//! Traces and flight logs.

use twin_disk::{Block, Class};
use twin_fs::{Cred, Data, Op, ROOT_INO, Request};
use twin_rt::{EventDigest, Time};
use twin_trace::{
    FlightReader, FlightWriter, Header, Kind, Outcome, Reader, Record, Source, Traits, Writer,
};

use crate::Target;
use crate::bytes::Input;

/// A trace of operations.
pub(crate) const TRACE: Target = Target {
    name: "trace",
    about: "a trace of operations",
    run: |data| read(data, Kind::Operations),
    seeds: || vec![body(trace().unwrap())],
};

/// A flight log.
pub(crate) const FLIGHT: Target = Target {
    name: "flight",
    about: "a flight log",
    run: |data| read(data, Kind::Flight),
    seeds: || vec![body(flight().unwrap())],
};

const FRAME_HEADER: usize = 52;
/// The most columns that a frame has, and the bytes of one in a frame's directory.
const COLUMNS: usize = 9;
/// Bytes of a frame's head that an input chooses: records, nodes, time, request.
const CHOSEN: usize = 24;

/// The input as a file; then as the inside of the only frame of a file, whose lengths and checksums are right.
fn read(data: &[u8], kind: Kind) -> bool {
    survive(data, kind);
    let mut input = Input(data);
    let (records, nodes, at, request) = (input.u32(), input.u32(), input.u64(), input.u64());
    let mut frame = b"TWfr\x01\0\0\0\0\0\0\0".to_vec();
    frame.extend([records, nodes].map(u32::to_le_bytes).concat());
    frame.extend((input.0.len() as u32).to_le_bytes());
    frame.extend(crc32c::crc32c(input.0).to_le_bytes());
    frame.extend([0; 4]);
    frame.extend([at, request].map(u64::to_le_bytes).concat());
    frame.resize(FRAME_HEADER, 0);
    let crc = crc32c::crc32c(&frame[..48]);
    frame[48..].copy_from_slice(&crc.to_le_bytes());
    let header = header(kind, records & 1 == 0);
    let whole = match kind {
        Kind::Operations => Writer::new(Vec::new(), &header).and_then(|writer| writer.finish()),
        Kind::Flight => flight_writer().and_then(|writer| writer.finish()),
    };
    // The header of an empty file, without its closing frame.
    let mut whole = whole.unwrap();
    whole.truncate(whole.windows(4).position(|w| w == b"TWfr").unwrap());
    whole.extend(frame);
    whole.extend(input.0);
    survive(&whole, kind) > 0
}

/// Reads all that can be read: the number of records. What is read can be written, and reads the same again.
fn survive(bytes: &[u8], kind: Kind) -> usize {
    if kind == Kind::Flight {
        let Ok(mut reader) = FlightReader::new(bytes) else { return 0 };
        return std::iter::from_fn(|| reader.next_record().ok().flatten()).count();
    }
    let Ok(mut reader) = Reader::new(bytes) else { return 0 };
    let mut records = Vec::new();
    while let Ok(Some(record)) = reader.next_record() {
        records.push(record);
    }
    let Ok(mut nodes) = Reader::new(bytes) else { return 0 };
    while let Ok(Some(_)) = nodes.next_node() {}
    let count = records.len();
    write_again(reader.header(), records);
    count
}

/// Nodes and requests can be written, and are the same when they are read again but for their numbers and times. (A
/// reply names its request by the number, which is another one then.)
fn write_again(header: &Header, mut records: Vec<Record>) {
    records.retain(|record| !matches!(record, Record::Reply { .. }));
    let traits = Traits { contents: true, ..header.traits };
    let mut writer = Writer::new(Vec::new(), &Header { traits, ..header.clone() }).unwrap();
    // What a writer refuses it refuses with an error, and what it takes it gives back.
    let taken = records.iter().take_while(|record| writer.record(record).is_ok()).count();
    let bytes = writer.finish().unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    for record in &records[..taken] {
        match (reader.next_record().unwrap().unwrap(), record) {
            (Record::Request { request: again, .. }, Record::Request { request, .. }) => {
                assert_eq!(again, Request { id: again.id, ..request.clone() });
            }
            (again, record) => assert_eq!(again, *record),
        }
    }
    assert_eq!(reader.next_record().unwrap(), None);
}

const START: Time = Time(1_700_000_000_000_000_001);

fn header(kind: Kind, contents: bool) -> Header {
    let traits = Traits { contents, timed: true, ..Traits::default() };
    Header { kind, start: START, seed: 7, traits, text: "a seed".into() }
}

fn flight_writer() -> Result<FlightWriter<Vec<u8>>, twin_trace::TraceError> {
    FlightWriter::new(Vec::new(), START, 7, "a seed", true)
}

/// Requests of several kinds.
fn requests() -> Vec<Request> {
    let name = |text: &str| text.as_bytes().into();
    let ops = [
        Op::Create { dir: ROOT_INO, name: name("a"), mode: 0o644, exclusive: true },
        Op::Write { ino: 9, off: 4096, data: Data::Synthetic(100) },
        Op::Write { ino: 9, off: 0, data: Data::Bytes(twin_disk::Bytes::copy_of(b"some bytes")) },
        Op::Read { ino: 9, off: 0, len: 10 },
        Op::MakeDir { dir: ROOT_INO, name: name("d"), mode: 0o755 },
        Op::Symlink { dir: ROOT_INO, name: name("s"), target: name("../a") },
        Op::Rename {
            dir: ROOT_INO,
            name: name("a"),
            to_dir: 10,
            to_name: name("b"),
            mode: Default::default(),
        },
        Op::SetAttr { ino: 9, set: twin_fs::SetAttr { size: Some(0), ..Default::default() } },
        Op::SetXattr { ino: 9, name: name("user.x"), value: name("v"), mode: Default::default() },
        Op::Fallocate { ino: 9, off: 0, len: 9000, mode: twin_fs::Fallocate::PunchHole },
        Op::ReadDir { dir: ROOT_INO, cookie: 0, max_bytes: 4096, plus: true },
        Op::Fsync { ino: 9, data_only: true },
        Op::Unlink { dir: 10, name: name("b") },
        Op::StatFs,
        Op::Sync,
    ];
    let cred = |id: u64| {
        if id.is_multiple_of(2) { Cred::root() } else { Cred { uid: 7, gid: 7, ..Cred::root() } }
    };
    let request = |(id, op)| Request { id, client: (id % 3) as u32, cred: cred(id), op };
    (1..).zip(ops).map(request).collect()
}

fn trace() -> Result<Vec<u8>, twin_trace::TraceError> {
    let mut writer = Writer::new(Vec::new(), &header(Kind::Operations, true))?;
    for request in requests() {
        let id = writer.request(request.id * 1000, &request)?;
        writer.reply(request.id * 1000 + 500, id, &Outcome::Done)?;
    }
    writer.finish()
}

fn flight() -> Result<Vec<u8>, twin_trace::TraceError> {
    let mut writer = flight_writer()?;
    for request in requests() {
        writer.arrive(&request)?;
        writer.park(Time(START.0 + request.id * 1000))?;
    }
    writer.complete(1, Class::Meta, false, &Ok(vec![Block::Zero(4096)]))?;
    writer.command("unmount")?;
    writer.digest(EventDigest::default())?;
    writer.finish()
}

/// The inside of the first frame of a file, its columns not compressed, as [`read`] takes it.
fn body(whole: Vec<u8>) -> Vec<u8> {
    let frame = whole.windows(4).position(|w| w == b"TWfr").unwrap();
    let word = |at: usize| Input(&whole[at..]).u32();
    let mut out = Vec::with_capacity(CHOSEN);
    out.extend_from_slice(&whole[frame + 12..frame + 20]);
    out.extend_from_slice(&whole[frame + 32..frame + 48]);
    let directory = frame + FRAME_HEADER;
    let mut from = directory + COLUMNS * 8;
    let mut columns = Vec::new();
    for column in 0..COLUMNS {
        let (raw, stored) = (word(directory + column * 8), word(directory + column * 8 + 4));
        let bytes = &whole[from..from + stored as usize];
        from += stored as usize;
        match raw == stored {
            true => columns.extend_from_slice(bytes),
            false => columns.extend(zstd::bulk::decompress(bytes, raw as usize).unwrap()),
        }
        out.extend([raw, raw].map(u32::to_le_bytes).concat());
    }
    out.extend(columns);
    out
}
