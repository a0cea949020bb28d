//! A file system that records the operations on it.
//!
//! [`Recorder`] executes every request on the file system inside it and adds the request and its
//! answer to a trace. Every use of an inode number gets a number of its own in the trace, and files
//! that existed before are described when they first occur, so that the trace can be replayed
//! elsewhere (see "What the records mean" in docs/trace-format.md).
//!
//! Recording never disturbs the file system: if the trace cannot be written any more, recording
//! ends, whoever asked for it is told ([`Recorder::on_end`]), the error is kept, and operations go on.

use std::cell::RefCell;
use std::hash::Hasher;
use std::io::Write;
use std::rc::Rc;

use twin_fs::quota::Quota;
use twin_fs::snapshots::leads_below;
use twin_fs::{
    Attr, DirEntry, FileSystem, FsError, Ino, LookupEntry, Name, Op, Peeked, ROOT_INO, Reply,
    Request, Room, Timestamp,
};
use twin_rt::{FixedHasher, FixedMap, FixedSet, Rt, Time};

use crate::error::{Problem, TraceError};
use crate::frame::{Header, Traits};
use crate::framed::Ended;
use crate::kind::Kind;
use crate::record::{Node, NodeAttr, Outcome};
use crate::replay::Clock;
use crate::stream::Writer;

/// A file system whose operations are recorded.
pub struct Recorder<F, W: Write> {
    inner: F,
    clock: Clock,
    log: RefCell<Log<W>>,
    on_end: RefCell<Option<OnEnd<W>>>,
}

/// Called when a recording has ended early because of an error.
type OnEnd<W> = Box<dyn FnOnce(Ended<W>)>;

/// Figures of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Number of recorded requests.
    pub requests: u64,
    /// Bytes of the trace so far, without the frame that is being filled.
    pub bytes: u64,
    /// Number of inodes seen, where each reuse of a number counts.
    pub inodes: u64,
    /// Requests that were left out: those about kept states below `.twinfs`, which a volume that replays the trace
    /// does not have, and those that the format cannot represent (names of more than 65,535 bytes,
    /// writes of more than 4 GiB), which no kernel sends.
    pub left_out: u64,
}

/// How the recorder learned of an inode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A request named it without an earlier lookup.
    Named,
    /// A listing contained it, without its attributes.
    Listed,
    /// The inode existed before the recording began.
    Found,
    /// The inode was created during the recording.
    Made,
    /// The inode is being created, and another client has seen it before the creator got an answer.
    Early,
}

/// One use of an inode number, from creation to deletion.
#[derive(Clone, Copy)]
struct Life {
    /// The number of this use in the trace.
    id: Ino,
    origin: Origin,
    /// Whether it had several names before the recording began.
    several: bool,
    generation: u32,
    btime: Timestamp,
}

struct Log<W: Write> {
    writer: Option<Writer<W>>,
    error: Option<TraceError>,
    /// The rest of a trace that could not be written, until it is reported.
    ended: Option<Ended<W>>,
    start: Time,
    recorded: Recorded,
    lives: FixedMap<Ino, Life>,
    next_id: Ino,
    /// Hashes of names that the trace contains or that were created during the recording. They are
    /// kept from the moment at which an inode that had several names before occurs.
    names: FixedSet<u64>,
    several: bool,
    /// Hashes of names that operations in flight are creating.
    making: Vec<u64>,
}

/// The action at the end of an operation.
enum After {
    Nothing,
    Found { dir: Ino, name: Name },
    Made { dir: Ino, name: Name, may_exist: bool },
    Listed { dir: Ino },
    Renamed { names: [u64; 2] },
}

impl After {
    /// The hashes of the names that the operation may create.
    fn names(&self) -> impl Iterator<Item = u64> + use<> {
        let names = match self {
            After::Made { dir, name, .. } => [Some(hash(*dir, name)), None],
            After::Renamed { names } => names.map(Some),
            _ => [None, None],
        };
        names.into_iter().flatten()
    }
}

fn hash(dir: Ino, name: &[u8]) -> u64 {
    let mut hasher = FixedHasher::default();
    hasher.write_u64(dir);
    hasher.write(name);
    hasher.finish()
}

/// What a recorder keeps, and what it writes into the header.
#[derive(Clone, Default)]
pub struct RecorderOptions {
    /// Whether file contents are kept.
    pub contents: bool,
    /// Whether the requests come through a kernel that serves a mount: the pauses between them
    /// then contain its time (see [`Traits::mounted`]).
    pub mounted: bool,
    /// Description of the recording.
    pub text: String,
    /// The clock of requests and answers. The default is the run's own time, which stands still
    /// while tasks run: on a host an operation that does not wait would then take no time.
    pub clock: Option<Clock>,
}

impl<F: FileSystem, W: Write> Recorder<F, W> {
    /// Wraps a file system.
    ///
    /// # Errors
    /// If the beginning of the trace cannot be written.
    pub fn new(rt: &Rt, inner: F, out: W, options: RecorderOptions) -> Result<Self, TraceError> {
        let RecorderOptions { contents, mounted, text, clock } = options;
        let traits = Traits { contents, timed: true, mounted, ..Traits::default() };
        let of_run = rt.clone();
        let clock = clock.unwrap_or_else(|| Rc::new(move || of_run.now()));
        let (start, seed) = (clock(), rt.seed());
        let header = Header { kind: Kind::Operations, start, seed, traits, text };
        let root = Life {
            id: ROOT_INO,
            origin: Origin::Made,
            several: false,
            generation: 0,
            btime: Timestamp::default(),
        };
        let log = Log {
            writer: Some(Writer::new(out, &header)?),
            error: None,
            ended: None,
            start,
            recorded: Recorded::default(),
            lives: [(ROOT_INO, root)].into_iter().collect(),
            next_id: ROOT_INO + 1,
            names: FixedSet::default(),
            several: false,
            making: Vec::new(),
        };
        Ok(Recorder { inner, clock, log: RefCell::new(log), on_end: RefCell::default() })
    }

    /// Calls `tell`, once, as soon as the trace cannot be written any more.
    pub fn on_end(&self, tell: impl FnOnce(Ended<W>) + 'static) {
        *self.on_end.borrow_mut() = Some(Box::new(tell));
    }

    /// True if recording has ended because the trace could not be written.
    pub fn has_failed(&self) -> bool {
        self.log.borrow().error.is_some()
    }

    /// Reports the end of the recording, if it has come. The listener may use the recorder, so nothing
    /// is borrowed while it is called.
    fn tell_end(&self) {
        if self.log.borrow().ended.is_none() {
            return;
        }
        let (ended, tell) = (self.log.borrow_mut().ended.take(), self.on_end.take());
        if let (Some(ended), Some(tell)) = (ended, tell) {
            tell(ended);
        }
    }

    /// The file system inside.
    pub fn inner(&self) -> &F {
        &self.inner
    }

    /// The figures of the recording so far.
    pub fn recorded(&self) -> Recorded {
        let log = self.log.borrow();
        let bytes = log.writer.as_ref().map_or(log.recorded.bytes, Writer::written_bytes);
        Recorded { bytes, ..log.recorded }
    }

    /// Writes out all records so far. To be called about once a second, so that a crash loses no
    /// more than that even under low load.
    pub fn flush(&self) {
        self.log.borrow_mut().write(|writer| writer.flush());
        self.tell_end();
    }

    /// Closes the trace and returns its output; later operations are not recorded.
    ///
    /// # Errors
    /// The error at which recording stopped, if there was one.
    pub fn finish(&self) -> Result<Option<W>, TraceError> {
        // A full disk shows here, before the trace is closed, so that the end of the trace is
        // sound.
        self.flush();
        let mut log = self.log.borrow_mut();
        if let Some(error) = log.error.take() {
            return Err(error);
        }
        let Some(writer) = log.writer.take() else { return Ok(None) };
        log.recorded.bytes = writer.written_bytes();
        writer.finish().map(Some)
    }
}

impl<F: FileSystem, W: Write + 'static> FileSystem for Recorder<F, W> {
    async fn execute(&self, mut request: Request) -> Result<Reply, FsError> {
        if request.client == Request::NO_CLIENT {
            return self.inner.execute(request).await;
        }
        if leads_below(&request.op) {
            self.log.borrow_mut().recorded.left_out += 1;
            return self.inner.execute(request).await;
        }
        let (number, after) = self.log.borrow_mut().before((self.clock)(), &mut request);
        self.tell_end();
        let result = self.inner.execute(request).await;
        if let Some(number) = number {
            self.log.borrow_mut().after((self.clock)(), number, after, &result);
            self.tell_end();
        }
        result
    }

    fn room(&self) -> Option<Room> {
        self.inner.room()
    }

    fn room_of(&self, ino: Ino) -> Option<u64> {
        self.inner.room_of(ino)
    }

    fn quota_of(&self, ino: Ino) -> Option<Quota> {
        self.inner.quota_of(ino)
    }

    fn held(&self) -> Vec<Ino> {
        self.inner.held()
    }

    fn known(&self, ino: Ino) -> Option<LookupEntry> {
        self.inner.known(ino)
    }

    fn peek(&self, dir: Ino, name: &[u8]) -> Peeked {
        self.inner.peek(dir, name)
    }
}

impl<W: Write> Log<W> {
    /// Writes, unless an earlier write has failed.
    fn write<T>(
        &mut self,
        write: impl FnOnce(&mut Writer<W>) -> Result<T, TraceError>,
    ) -> Option<T> {
        match write(self.writer.as_mut()?) {
            Ok(written) => Some(written),
            Err(TraceError { problem: Problem::TooBig(_), .. }) => {
                self.recorded.left_out += 1;
                None
            }
            Err(error) => {
                self.recorded.bytes = self.writer.as_ref().map_or(0, Writer::written_bytes);
                self.ended = self.writer.take().map(|writer| writer.broken(&error));
                self.error = Some(error);
                None
            }
        }
    }

    /// Records a request: returns its number if an answer will be recorded, and the action at the
    /// end of the operation.
    fn before(&mut self, now: Time, request: &mut Request) -> (Option<u64>, After) {
        if self.writer.is_none() {
            return (None, After::Nothing);
        }
        let after = after(&request.op);
        self.making.extend(after.names());
        let at_ns = now.since(self.start);
        // The trace gets the trace's inode numbers; the file system gets the original ones.
        let own = swap(&mut request.op, |ino| self.id(ino));
        let number = self.write(|writer| writer.request(at_ns, request));
        let mut own = own.into_iter();
        swap(&mut request.op, |_| own.next().flatten().unwrap_or(0));
        self.recorded.requests += u64::from(number.is_some());
        let answered = !matches!(request.op, Op::Forget { .. });
        (number.filter(|_| answered), after)
    }

    /// The trace's number of an inode that a request names.
    fn id(&mut self, ino: Ino) -> Ino {
        match self.lives.get(&ino) {
            Some(life) => life.id,
            None => self.live(ino, Origin::Named, 0, Timestamp::default()),
        }
    }

    /// Begins a new use of an inode number.
    fn live(&mut self, ino: Ino, origin: Origin, generation: u32, btime: Timestamp) -> Ino {
        let id = self.next_id;
        self.next_id += 1;
        self.recorded.inodes += 1;
        self.lives.insert(ino, Life { id, origin, several: false, generation, btime });
        id
    }

    fn after(&mut self, now: Time, number: u64, after: After, result: &Result<Reply, FsError>) {
        for made in after.names() {
            if let Some(place) = self.making.iter().position(|&name| name == made) {
                self.making.swap_remove(place);
            }
        }
        match (after, result) {
            (After::Found { dir, name }, Ok(Reply::Entry(entry))) => {
                self.found(dir, &name, entry);
            }
            (After::Made { dir, name, may_exist }, Ok(Reply::Entry(entry))) => {
                self.made(dir, &name, may_exist, entry);
            }
            (After::Listed { dir }, Ok(Reply::Dir(entries))) => {
                entries.iter().for_each(|entry| self.listed(dir, entry));
            }
            (After::Renamed { names }, Ok(_)) if self.several => self.names.extend(names),
            _ => {}
        }
        let mut outcome = Outcome::of(result);
        match &mut outcome {
            Outcome::Entry(ino) => *ino = self.id(*ino),
            Outcome::Dir(dir) => dir.referenced.iter_mut().for_each(|ino| *ino = self.id(*ino)),
            _ => {}
        }
        let at_ns = now.since(self.start);
        self.write(|writer| writer.reply(at_ns, number, &outcome));
    }

    /// The use of the number to which an entry belongs, if it is known.
    fn life(&self, entry: &LookupEntry) -> Option<Life> {
        let life = self.lives.get(&entry.attr.ino)?;
        let unseen = matches!(life.origin, Origin::Named | Origin::Listed);
        let same = (life.generation, life.btime) == (entry.generation, entry.attr.btime);
        (same || unseen || entry.attr.ino == ROOT_INO).then_some(*life)
    }

    fn origin(&mut self, entry: &LookupEntry, origin: Origin, several: bool) {
        let (generation, btime) = (entry.generation, entry.attr.btime);
        if let Some(life) = self.lives.get_mut(&entry.attr.ino) {
            *life = Life { origin, several, generation, btime, ..*life };
        }
    }

    /// A name led to an inode that this operation did not create.
    fn found(&mut self, dir: Ino, name: &[u8], entry: &LookupEntry) {
        if matches!(name, b"." | b"..") {
            return;
        }
        let attr = &entry.attr;
        let name_hash = hash(dir, name);
        let known = self.life(entry);
        let is_new = match known {
            Some(life) => match life.origin {
                Origin::Named | Origin::Listed => true,
                Origin::Found => life.several && !self.is_told(name_hash),
                Origin::Made | Origin::Early => false,
            },
            None => {
                // Another client is creating it, under this name or one from which it has been
                // renamed since.
                let young = attr.btime > Timestamp::from(self.start);
                let early = young || self.making.contains(&name_hash);
                let origin = if early { Origin::Early } else { Origin::Found };
                self.live(attr.ino, origin, entry.generation, attr.btime);
                !early
            }
        };
        if !is_new {
            return;
        }
        let several = known.is_some_and(|life| life.several) || (attr.nlink > 1 && !attr.is_dir());
        self.origin(entry, Origin::Found, several);
        if several {
            self.several = true;
            self.names.insert(name_hash);
        }
        let (mode, attr) = (attr.mode, Some(node_attr(attr)));
        self.node(dir, name, entry.attr.ino, mode, attr);
    }

    /// An operation created an inode, or found one where it might have created it.
    fn made(&mut self, dir: Ino, name: &[u8], may_exist: bool, entry: &LookupEntry) {
        let attr = &entry.attr;
        match self.life(entry) {
            Some(Life { origin: Origin::Early, .. }) => self.origin(entry, Origin::Made, false),
            // An existing file, opened. It is known, or it has bytes that no recorded request
            // wrote.
            Some(_) if may_exist => self.found(dir, name, entry),
            None if may_exist && (attr.size > 0 || self.is_older(attr)) => {
                self.found(dir, name, entry);
            }
            _ => drop(self.live(attr.ino, Origin::Made, entry.generation, attr.btime)),
        }
    }

    /// True if the trace contains the name, or its creation.
    fn is_told(&self, name: u64) -> bool {
        self.names.contains(&name) || self.making.contains(&name)
    }

    /// True if it was certainly created before the recording began.
    fn is_older(&self, attr: &Attr) -> bool {
        attr.btime != Timestamp::default() && attr.btime < Timestamp::from(self.start)
    }

    fn listed(&mut self, dir: Ino, item: &DirEntry) {
        if let Some(entry) = &item.entry {
            return self.found(dir, &item.name, entry);
        }
        let dots = matches!(&*item.name, b"." | b"..");
        if dots || self.lives.contains_key(&item.ino) {
            return;
        }
        if self.making.contains(&hash(dir, &item.name)) {
            self.live(item.ino, Origin::Early, 0, Timestamp::default());
            return;
        }
        self.live(item.ino, Origin::Listed, 0, Timestamp::default());
        self.node(dir, &item.name, item.ino, item.kind, None);
    }

    fn node(&mut self, dir: Ino, name: &[u8], ino: Ino, mode: u32, attr: Option<NodeAttr>) {
        let (dir, ino) = (self.id(dir), self.id(ino));
        self.write(|writer| writer.node(&Node { dir, name: name.into(), ino, mode, attr }));
    }
}

fn node_attr(attr: &Attr) -> NodeAttr {
    let Attr { nlink, uid, gid, rdev, size, .. } = *attr;
    let allocated = attr.blocks.saturating_mul(512).min(size);
    // A small file may be inline: it has no blocks, but no hole either.
    let allocated = if size < 4096 { size } else { allocated };
    NodeAttr { nlink, uid, gid, rdev, size, allocated }
}

fn after(op: &Op) -> After {
    match op {
        Op::Lookup { dir, name } => After::Found { dir: *dir, name: name.clone() },
        Op::Create { dir, name, exclusive, .. } => {
            After::Made { dir: *dir, name: name.clone(), may_exist: !exclusive }
        }
        Op::MakeNode { dir, name, .. }
        | Op::MakeDir { dir, name, .. }
        | Op::Symlink { dir, name, .. } => {
            After::Made { dir: *dir, name: name.clone(), may_exist: false }
        }
        Op::ReadDir { dir, .. } => After::Listed { dir: *dir },
        // An exchange moves both names.
        Op::Rename { dir, name, to_dir, to_name, .. } => {
            After::Renamed { names: [hash(*dir, name), hash(*to_dir, to_name)] }
        }
        Op::Link { dir, name, .. } => After::Renamed { names: [hash(*dir, name); 2] },
        _ => After::Nothing,
    }
}

/// Replaces the inode numbers of an operation; returns the original ones.
fn swap(op: &mut Op, mut number: impl FnMut(Ino) -> Ino) -> [Option<Ino>; 2] {
    let [first, second] = op.inos_mut();
    [first, second].map(|ino| ino.map(|ino| std::mem::replace(ino, number(*ino))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ending, Reader, Source as _};
    use std::cell::Cell;
    use std::io;
    use twin_rt::ClockOnly;

    /// A file system of which only the recorder is of interest.
    struct Nothing;

    impl FileSystem for Nothing {
        async fn execute(&self, _: Request) -> Result<Reply, FsError> {
            Ok(Reply::Done)
        }
    }

    /// A disk with room for a number of bytes; a write that does not fit is written in part.
    struct Small {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Write for Small {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            let n = buf.len().min(self.room - self.bytes.len());
            if n == 0 && !buf.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes.extend_from_slice(&buf[..n]);
            Ok(n)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A recording on a disk that filled was lost without a word, and its end was half a frame.
    #[test]
    fn a_recording_that_does_not_fit_is_told_of_at_once_and_its_whole_frames_are_a_trace() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let out = Small { bytes: Vec::new(), room: 20_000 };
        let recorder =
            Recorder::new(&rt, Nothing, out, RecorderOptions::default()).expect("a header fits");
        type Told = Rc<RefCell<Vec<(u64, Vec<u8>)>>>;
        let told = Told::default();
        let (heard, at) = (Rc::clone(&told), Rc::new(Cell::new(0)));
        let now = Rc::clone(&at);
        recorder.on_end(move |ended| {
            assert!(ended.out.bytes.len() as u64 > ended.whole_bytes, "half a frame is there");
            assert!(ended.why.contains("no storage space"), "{}", ended.why);
            let mut bytes = ended.out.bytes;
            bytes.truncate(ended.whole_bytes as usize);
            bytes.extend_from_slice(&ended.closing);
            heard.borrow_mut().push((now.get(), bytes));
        });
        let mut failed_at = None;
        for nth in 0..3000u64 {
            at.set(nth);
            let name = format!("{:x}", nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes();
            let op = Op::Lookup { dir: ROOT_INO, name: name.into() };
            rt.block_on(recorder.execute(Request::root(nth + 1, op))).unwrap().unwrap();
            if nth % 100 == 99 {
                recorder.flush();
            }
            if recorder.has_failed() {
                failed_at.get_or_insert(nth);
            }
        }
        let told = told.borrow();
        assert_eq!(told.len(), 1, "once");
        assert_eq!(Some(told[0].0), failed_at, "in the operation in which it happened");
        assert!(recorder.finish().is_err());
        let mut reader = Reader::new(&told[0].1[..]).unwrap();
        let mut requests = 0;
        while let Some(record) = reader.next_record().unwrap() {
            requests += u64::from(matches!(record, crate::Record::Request { .. }));
        }
        assert_eq!(reader.ending(), Some(Ending::Closed));
        assert!(requests >= 300 && requests.is_multiple_of(100), "{requests} requests");
    }
}
