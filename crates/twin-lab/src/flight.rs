//! Replaying a flight: a mounted run again, in the simulator, to the same event digest.
//!
//! The log stands in for the outside: its requests arrive, its completions end device requests,
//! its times pass. What the replay writes it also reads back: see [`crate::rewritten`]. The core is
//! put together from the settings in the log. Device requests that
//! the core makes enter the digest as they did on the mount, so the digest is the same if, and
//! only if, the core asked its device the same things in the same order at the same times.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::io::Read;
use std::rc::Rc;
use std::task::{Poll, Waker};

use twin_disk::{
    Block, BlockDevice, Completion, DeviceInfo, Io, IoError, IoErrorKind, IoKind, IoResult,
    Pending, Recorded, pending,
};
use twin_ffs::{Ffs, FfsSettings};
use twin_fs::{Cpu, FileSystem, FsError, Layout, Request, Settings, Volume};
use twin_lfs::{Lfs, LfsSettings};
use twin_rt::{Driver, Rt, Time};
use twin_trace::{FlightReader, FlightRecord, Piece, TraceError};

use crate::rewritten::{MOST_BYTES, Rewritten};

/// The word in a flight log for: serving ended, the volume is being closed.
pub const CLOSE: &str = "close";

/// What a mounted run was put together from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlightSettings {
    /// The device.
    pub device: DeviceInfo,
    /// The volume's settings.
    pub settings: Settings,
    /// The log's settings, if the volume is log-structured.
    pub lfs: LfsSettings,
    /// The clustered layout's settings, if the volume is such a one.
    pub ffs: Option<FfsSettings>,
}

impl FlightSettings {
    /// As the text that a flight log carries: a `key=value` a line.
    pub fn to_text(&self) -> String {
        let (d, s, l) = (&self.device, &self.settings, &self.lfs);
        let mut out = String::new();
        let mut line = |key: &str, value: &dyn fmt::Display| out += &format!("{key}={value}\n");
        line("size", &d.size);
        line("sector", &d.sector);
        line("max_io", &d.max_io);
        line("cache_bytes", &s.cache_bytes);
        line("cached_inodes", &s.cached_inodes);
        line("replacement", &s.replacement);
        line("flush", &s.flush);
        if let Some(age_ns) = s.flush_age_ns {
            line("flush_age_ns", &age_ns);
        }
        if let Some(within_ns) = s.durable_within_ns {
            line("durable_within_ns", &within_ns);
        }
        line("read_ahead_bytes", &s.read_ahead_bytes);
        line("drop_behind", &s.drop_behind);
        line("read_only", &s.read_only);
        if let Some(f) = &self.ffs {
            line("dir_placement", &f.dir_placement);
            line("write_behind", &f.write_behind);
            line("reallocate", &f.reallocate);
            return out;
        }
        line("eager_indirect", &l.eager_indirect);
        line("checkpoint_segments", &l.checkpoint_segments);
        line("checkpoint_age_ns", &l.checkpoint_age_ns);
        line("victim", &l.victim);
        line("placement", &l.placement);
        line("when", &l.when);
        line("clean_step_bytes", &l.clean_step_bytes);
        line("background_cleaning", &l.background_cleaning);
        line("in_flight_bytes", &l.in_flight_bytes);
        out
    }

    fn parse(text: &str) -> Result<FlightSettings, String> {
        let mut all = FlightSettings {
            device: DeviceInfo { size: 0, sector: 512, max_io: 1 << 20, name: "flight".into() },
            settings: Settings { check_data: false, ..Settings::default() },
            lfs: LfsSettings::default(),
            ffs: None,
        };
        for line in text.lines() {
            let (key, value) = line.split_once('=').ok_or(format!("{line:?} is not key=value"))?;
            all.set(key, value).map_err(|()| format!("{line:?} is not a setting"))?;
        }
        let d = &all.device;
        let sectors = d.sector.is_power_of_two() && (512..=1 << 16).contains(&d.sector);
        if !sectors || d.max_io < d.sector || d.size > MOST_BYTES {
            return Err("no device has such sizes".into());
        }
        Ok(all)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ()> {
        fn to<T: std::str::FromStr>(value: &str) -> Result<T, ()> {
            value.parse().map_err(|_| ())
        }
        let (d, s, l) = (&mut self.device, &mut self.settings, &mut self.lfs);
        let f = &mut self.ffs;
        match key {
            // Only a clustered volume has these.
            "dir_placement" => f.get_or_insert_default().dir_placement = value.into(),
            "write_behind" => f.get_or_insert_default().write_behind = value.into(),
            "reallocate" => f.get_or_insert_default().reallocate = to(value)?,
            "size" => d.size = to(value)?,
            "sector" => d.sector = to(value)?,
            "max_io" => d.max_io = to(value)?,
            "cache_bytes" => s.cache_bytes = to(value)?,
            "cached_inodes" => s.cached_inodes = to(value)?,
            "replacement" => s.replacement = value.into(),
            "flush" => s.flush = value.into(),
            "flush_age_ns" => s.flush_age_ns = Some(to(value)?),
            "durable_within_ns" => s.durable_within_ns = Some(to(value)?),
            "read_ahead_bytes" => s.read_ahead_bytes = to(value)?,
            "drop_behind" => s.drop_behind = to(value)?,
            "read_only" => s.read_only = to(value)?,
            "eager_indirect" => l.eager_indirect = to(value)?,
            "checkpoint_segments" => l.checkpoint_segments = to(value)?,
            "checkpoint_age_ns" => l.checkpoint_age_ns = to(value)?,
            "victim" => l.victim = value.into(),
            "placement" => l.placement = value.into(),
            "when" => l.when = value.into(),
            "clean_step_bytes" => l.clean_step_bytes = to(value)?,
            "background_cleaning" => l.background_cleaning = to(value)?,
            "in_flight_bytes" => l.in_flight_bytes = to(value)?,
            _ => return Err(()),
        }
        Ok(())
    }
}

/// What replaying a flight found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The digest in the log and its number of events; none if the log was cut off.
    pub recorded: Option<(u64, u64)>,
    /// The digest of the replay and its number of events.
    pub replayed: (u64, u64),
    /// Operations in the log.
    pub operations: u64,
}

impl Verified {
    /// True if the two digests are the same.
    pub fn is_same(&self) -> bool {
        self.recorded == Some(self.replayed)
    }
}

/// Why a flight could not be replayed.
#[derive(Debug)]
pub enum FlightError {
    /// The log is damaged.
    Trace(TraceError),
    /// The log's settings cannot be used.
    Settings(String),
    /// The volume could not be opened or closed as it was then.
    Fs(FsError),
}

impl fmt::Display for FlightError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlightError::Trace(error) => write!(f, "{error}"),
            FlightError::Settings(why) => write!(f, "the flight's settings: {why}"),
            FlightError::Fs(error) => write!(f, "replaying the flight: {error}"),
        }
    }
}

impl std::error::Error for FlightError {}

/// What the log has to say next, and who waits for it.
#[derive(Default)]
pub(crate) struct Feed {
    /// Device requests under way, by number.
    under_way: RefCell<BTreeMap<u64, (Io, Completion)>>,
    rewritten: RefCell<Rewritten>,
    submitted: Cell<u64>,
    pub(crate) arrivals: RefCell<VecDeque<Request>>,
    pub(crate) closing: Cell<bool>,
    digest: Cell<Option<(u64, u64)>>,
    error: RefCell<Option<TraceError>>,
    front_end: RefCell<Option<Waker>>,
    operations: Cell<u64>,
    in_flight: Cell<u64>,
    /// The front end runs.
    pub(crate) ready: Cell<bool>,
}

impl Feed {
    pub(crate) fn wake_front_end(&self) {
        if let Some(waker) = self.front_end.borrow_mut().take() {
            waker.wake();
        }
    }

    /// What a request that succeeded does to the device, or finds there: its log says `blocks`.
    fn on_device(&self, io: &Io, blocks: Vec<Block>) -> Vec<Block> {
        match io.kind {
            IoKind::Read => return self.rewritten.borrow().over(io.at, blocks),
            IoKind::Write => self.rewritten.borrow_mut().wrote(io),
            IoKind::Flush | IoKind::Discard => {}
        }
        blocks
    }
}

struct FlightDriver<R: Read> {
    reader: FlightReader<R>,
    feed: Rc<Feed>,
    start: Time,
}

impl<R: Read + 'static> Driver for FlightDriver<R> {
    fn start(&mut self) -> Time {
        self.start
    }

    fn park(&mut self, _deadline: Option<Time>) -> Option<Time> {
        loop {
            let record = match self.reader.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => return None,
                Err(error) => {
                    *self.feed.error.borrow_mut() = Some(error);
                    return None;
                }
            };
            match record {
                FlightRecord::Arrive(request) => {
                    self.feed.arrivals.borrow_mut().push_back(request);
                    self.feed.wake_front_end();
                }
                FlightRecord::Complete { io, result, .. } => {
                    let waiting = self.feed.under_way.borrow_mut().remove(&io);
                    // A request that the replay did not make: the digest will tell.
                    if let Some((io, completion)) = waiting {
                        let result = result.map(|pieces| pieces.iter().map(content).collect());
                        let result = result.and_then(|blocks| whole(&io, blocks));
                        completion.done(result.map(|blocks| self.feed.on_device(&io, blocks)));
                    }
                }
                FlightRecord::Command(word) => {
                    if word == CLOSE {
                        self.feed.closing.set(true);
                        self.feed.wake_front_end();
                    }
                }
                FlightRecord::Digest { value, events } => {
                    self.feed.digest.set(Some((value, events)));
                }
                FlightRecord::Park(now) => return Some(now),
            }
        }
    }
}

/// A read gives as much as was asked for, or the log is not one of this run.
fn whole(io: &Io, blocks: Vec<Block>) -> IoResult {
    let len: u64 = blocks.iter().map(|block| block.len() as u64).sum();
    if io.kind != IoKind::Read || len == io.len {
        return Ok(blocks);
    }
    let kind = IoErrorKind::Other("the log gives another length than was asked for".into());
    Err(IoError { op: io.kind, at: io.at, len: io.len, kind })
}

/// What a read gives in the replay. User data that was not kept reads as zeros: nothing looks.
fn content(piece: &Piece) -> Block {
    match piece {
        Piece::Dropped { len, .. } => Block::Zero(*len),
        kept => kept.block().unwrap_or(Block::Zero(0)),
    }
}

/// A device whose completions come from the log.
struct FlightDevice {
    info: DeviceInfo,
    feed: Rc<Feed>,
}

impl BlockDevice for FlightDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn submit(&self, io: Io) -> Pending {
        let id = self.feed.submitted.get() + 1;
        self.feed.submitted.set(id);
        let (completion, pending) = pending();
        self.feed.under_way.borrow_mut().insert(id, (io, completion));
        pending
    }

    fn in_flight(&self) -> usize {
        self.feed.under_way.borrow().len()
    }
}

/// Replays a flight and compares the digests.
///
/// # Errors
/// If the log is damaged, or says things that no mount can have said.
pub fn verify_flight(log: impl Read + 'static) -> Result<Verified, FlightError> {
    let reader = FlightReader::new(log).map_err(FlightError::Trace)?;
    let header = reader.header().clone();
    let all = FlightSettings::parse(&header.text).map_err(FlightError::Settings)?;
    let feed = Rc::new(Feed::default());
    let driver = FlightDriver { reader, feed: Rc::clone(&feed), start: header.start };
    let rt = Rt::new(driver, header.seed);
    let device = FlightDevice { info: all.device.clone(), feed: Rc::clone(&feed) };
    let device = Rc::new(Recorded::new(rt.clone(), device));
    let (cpu, settings) = (Cpu::none(), all.settings);
    let failed = match all.ffs {
        None => open_and_run(&rt, &feed, Lfs::open(&rt, device, cpu, settings, all.lfs)),
        Some(ffs) => open_and_run(&rt, &feed, Ffs::open(&rt, device, cpu, settings, ffs)),
    };
    let digest = rt.digest();
    let replayed = (digest.value(), digest.events());
    // The digest may be the last thing in the log.
    while feed.digest.get().is_none() && feed.error.borrow().is_none() {
        if !rt.turn() {
            break;
        }
    }
    rt.crash();
    if let Some(error) = feed.error.take() {
        return Err(FlightError::Trace(error));
    }
    if let (Some(error), None) = (failed, feed.digest.get()) {
        return Err(FlightError::Fs(error));
    }
    Ok(Verified { recorded: feed.digest.get(), replayed, operations: feed.operations.get() })
}

/// Opens a volume and hands it what arrives. Gives the error that ended it.
fn open_and_run<L: Layout, R>(
    rt: &Rt,
    feed: &Rc<Feed>,
    open: impl Future<Output = twin_fs::Result<(Rc<Volume<L>>, R)>>,
) -> Option<FsError> {
    // A stall is the end of the log: everything that it has was fed.
    match rt.block_on(open).ok()? {
        Ok((volume, _)) => {
            let run = run(rt.clone(), volume, Rc::clone(feed));
            rt.block_on(run).ok().and_then(Result::err)
        }
        Err(error) => Some(error),
    }
}

/// The front end: hands arriving requests to the volume as the mount's did, until it closes.
pub(crate) async fn run<L: Layout>(
    rt: Rt,
    volume: Rc<Volume<L>>,
    feed: Rc<Feed>,
) -> Result<(), FsError> {
    std::future::poll_fn(|cx| {
        while let Some(request) = feed.arrivals.borrow_mut().pop_front() {
            feed.operations.set(feed.operations.get() + 1);
            feed.in_flight.set(feed.in_flight.get() + 1);
            let (volume, feed) = (Rc::clone(&volume), Rc::clone(&feed));
            rt.run_or_spawn("operation", async move {
                let _ = volume.execute(request).await;
                feed.in_flight.set(feed.in_flight.get() - 1);
                if feed.in_flight.get() == 0 && feed.closing.get() {
                    feed.wake_front_end();
                }
            });
        }
        *feed.front_end.borrow_mut() = Some(cx.waker().clone());
        let done = feed.closing.get() && feed.in_flight.get() == 0;
        if done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    volume.close().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_the_log() {
        let all = FlightSettings {
            device: DeviceInfo { size: 99, sector: 4096, max_io: 9999, name: "flight".into() },
            settings: Settings {
                flush_age_ns: Some(5),
                durable_within_ns: Some(7),
                check_data: false,
                ..Settings::default()
            },
            lfs: LfsSettings {
                victim: "greedy".into(),
                placement: "twin".into(),
                when: "idle".into(),
                ..LfsSettings::default()
            },
            ffs: None,
        };
        assert_eq!(FlightSettings::parse(&all.to_text()), Ok(all.clone()));
        let ffs = FfsSettings { reallocate: false, ..FfsSettings::default() };
        let all = FlightSettings { lfs: LfsSettings::default(), ffs: Some(ffs), ..all };
        assert_eq!(FlightSettings::parse(&all.to_text()), Ok(all));
    }

    #[test]
    fn an_unknown_setting_is_refused() {
        assert!(FlightSettings::parse("colour=red\n").is_err());
    }
}
