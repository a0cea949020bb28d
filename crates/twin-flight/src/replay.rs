//! Replaying a flight: a mounted run again, in the simulator, to the same event digest.
//!
//! The log replaces the outside world: its requests arrive, its completions end device requests,
//! its times pass. Reads of data that the replay has written return that data: see
//! [`crate::rewritten`]. The core is built from the settings in the log. The device requests of the
//! core enter the digest as they did on the mount, so the digest is the same if, and only if, the
//! core made the same requests to its device in the same order at the same times.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io::Read;
use std::rc::Rc;

use twin_disk::{
    Block, BlockDevice, Completion, DeviceInfo, Io, IoError, IoErrorKind, IoKind, IoResult,
    Pending, Recorded, pending,
};
use twin_fs::{Cpu, FsError, LayoutConfig, LayoutKind, Opened, Settings};
use twin_lab::layouts::layout;
use twin_rt::{Driver, Order, Rt, Time, order};
use twin_settings::{Choice, Key, Named, SettingsError, Unit, apply, grammar, outside, text_of};
use twin_trace::{FlightReader, FlightRecord, Piece, TraceError};

use crate::front_end::FrontEnd;
use crate::rewritten::{MOST_BYTES, Rewritten};

/// The command in a flight log which says that serving has ended and the volume is being closed.
pub const CLOSE: &str = "close";

/// The components of a mounted run.
#[derive(Clone, Debug)]
pub struct FlightSettings {
    /// Size and limits of the device.
    pub device: DeviceInfo,
    /// The volume's settings.
    pub settings: Settings,
    /// The layout.
    pub layout: &'static dyn LayoutKind,
    /// The layout's settings.
    pub of_layout: Box<dyn LayoutConfig>,
    /// The order of tasks.
    pub order: Choice<Order>,
}

const SIZE: Unit = Unit::bytes(0, MOST_BYTES);
const NAME: &str = "a policy's name";

/// The keys of the device and of the volume in a flight log.
const KEYS: &[Key<FlightSettings>] = &[
    Key::new("size", "bytes of the device", SIZE, |f| (&mut f.device.size).into()),
    Key::new("sector", "bytes of a sector", Unit::bytes(512, 1 << 16), |f| {
        (&mut f.device.sector).into()
    }),
    Key::new("max-io", "bytes of a request at the most", Unit::bytes(512, 1 << 30), |f| {
        (&mut f.device.max_io).into()
    }),
    Key::new("cache", "bytes of the cache", SIZE, |f| (&mut f.settings.cache_bytes).into()),
    Key::new("inodes", "inodes kept in memory", Unit::number(0, 1 << 32), |f| {
        (&mut f.settings.cached_inodes).into()
    }),
    Key::new("replacement", "replacement policy", Unit::Text(NAME), |f| {
        (&mut f.settings.replacement).into()
    }),
    Key::new("flush", "flush policy", Unit::Text(NAME), |f| (&mut f.settings.flush).into()),
    Key::new("flush-age", "age at which dirty blocks are flushed", Unit::SECONDS, |f| {
        (&mut f.settings.flush_age_ns).into()
    }),
    Key::new("durable-within", "time until changes are durable", Unit::SECONDS, |f| {
        (&mut f.settings.durable_within_ns).into()
    }),
    Key::new("read-ahead", "bytes read ahead", Unit::bytes(0, u32::MAX as u64), |f| {
        (&mut f.settings.read_ahead_bytes).into()
    }),
    Key::new("drop-behind", "what a sequential reader has read is dropped", Unit::YesNo, |f| {
        (&mut f.settings.drop_behind).into()
    }),
    Key::new("file-types", "attributes name the types of files", Unit::YesNo, |f| {
        (&mut f.settings.file_types).into()
    }),
    Key::new("order", "order of tasks", Unit::Text(NAME), |f| (&mut f.order).into()),
    Key::new("read-only", "nothing is written", Unit::YesNo, |f| {
        (&mut f.settings.read_only).into()
    }),
];

impl FlightSettings {
    /// The text that a flight log carries: `lfs:key=value,key=value`, and on a second line the
    /// settings of the layout.
    pub fn to_text(&self) -> String {
        let common = text_of(self, &FlightSettings::of(self.layout), KEYS);
        format!("{}:{common}\n{}", self.layout.name(), self.of_layout.text())
    }

    fn of(layout: &'static dyn LayoutKind) -> FlightSettings {
        FlightSettings {
            device: DeviceInfo { size: 0, sector: 512, max_io: 1 << 20, name: "flight".into() },
            settings: Settings { check_data: false, ..Settings::default() },
            layout,
            of_layout: layout.config(),
            order: Choice::first(&order::REGISTRY),
        }
    }

    fn parse(text: &str) -> Result<FlightSettings, SettingsError> {
        let (common, of_layout) = text.split_once('\n').unwrap_or((text, ""));
        let named = Named::parse(common)?;
        let mut all = FlightSettings::of(layout(named.name)?);
        outside::refuse_paths(named.settings)?;
        outside::refuse_paths(of_layout)?;
        apply(&mut all, KEYS, named.settings)?;
        for setting in grammar::settings(of_layout)? {
            all.of_layout.set_for_open(setting.key, setting.value)?;
        }
        let d = &all.device;
        if !d.sector.is_power_of_two() || d.max_io < d.sector {
            return Err(SettingsError::new("no device has such sizes"));
        }
        Ok(all)
    }
}

/// The result of replaying a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The digest in the log and its number of events; `None` if the log was cut off.
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
    Settings(SettingsError),
    /// The volume could not be opened or closed as in the mounted run.
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

/// The next records of the log, and the parts of the run that wait for them.
#[derive(Default)]
struct Feed {
    /// Device requests in flight, by number.
    under_way: RefCell<BTreeMap<u64, (Io, Completion)>>,
    rewritten: RefCell<Rewritten>,
    submitted: Cell<u64>,
    front_end: Rc<FrontEnd>,
    digest: Cell<Option<(u64, u64)>>,
    error: RefCell<Option<TraceError>>,
}

impl Feed {
    /// Applies a successful request to the device, or returns the data found there; the log has
    /// `blocks`.
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
    /// How far civil time was ahead of the run's.
    ahead: i64,
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
                    self.feed.front_end.arrive(request);
                }
                FlightRecord::Complete { io, result, .. } => {
                    let waiting = self.feed.under_way.borrow_mut().remove(&io);
                    // If the replay made no such request, the digest will differ.
                    if let Some((io, completion)) = waiting {
                        let result = result.map(|pieces| pieces.iter().map(content).collect());
                        let result = result.and_then(|blocks| whole(&io, blocks));
                        completion.done(result.map(|blocks| self.feed.on_device(&io, blocks)));
                    }
                }
                FlightRecord::Command(word) => {
                    if word == CLOSE {
                        self.feed.front_end.close();
                    }
                }
                FlightRecord::Digest { value, events } => {
                    self.feed.digest.set(Some((value, events)));
                }
                FlightRecord::Civil(ahead) => self.ahead = ahead,
                FlightRecord::Park(now) => return Some(now),
            }
        }
    }

    fn civil(&self, now: Time) -> Time {
        Time(now.0.wrapping_add_signed(self.ahead))
    }
}

/// A read must return its full length, or the log belongs to another run.
fn whole(io: &Io, blocks: Vec<Block>) -> IoResult {
    let len: u64 = blocks.iter().map(|block| block.len() as u64).sum();
    if io.kind != IoKind::Read || len == io.len {
        return Ok(blocks);
    }
    let kind = IoErrorKind::Other("the log gives another length than was asked for".into());
    Err(IoError { op: io.kind, at: io.at, len: io.len, kind })
}

/// The data that a read returns in the replay. User data that was not kept reads as zeros, which no
/// code examines.
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
/// If the log is damaged, or has records that no mount writes.
pub fn verify_flight(log: impl Read + 'static) -> Result<Verified, FlightError> {
    let reader = FlightReader::new(log).map_err(FlightError::Trace)?;
    let header = reader.header().clone();
    let all = FlightSettings::parse(&header.text).map_err(FlightError::Settings)?;
    let feed = Rc::new(Feed::default());
    let driver = FlightDriver { reader, feed: Rc::clone(&feed), start: header.start, ahead: 0 };
    let rt = Rt::with_order(driver, header.seed, all.order.maker);
    let device = FlightDevice { info: all.device.clone(), feed: Rc::clone(&feed) };
    let device = Rc::new(Recorded::new(rt.clone(), device));
    let (cpu, settings) = (Cpu::none(), all.settings);
    let opening = all.of_layout.open(&rt, device, cpu, settings);
    let failed = open_and_run(&rt, &feed, opening);
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
    Ok(Verified { recorded: feed.digest.get(), replayed, operations: feed.front_end.operations() })
}

/// Opens a volume and feeds the records of the log to it. Returns the error that ended it.
fn open_and_run(
    rt: &Rt,
    feed: &Rc<Feed>,
    open: impl Future<Output = twin_fs::Result<Opened>>,
) -> Option<FsError> {
    // A stall is the end of the log: all of its records were fed.
    match rt.block_on(open).ok()? {
        Ok(Opened { volume, .. }) => {
            let serving = Rc::clone(&feed.front_end).serve(rt.clone(), volume);
            rt.block_on(serving).ok().and_then(Result::err)
        }
        Err(error) => Some(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_lab::layouts::LAYOUTS;

    #[test]
    fn settings_survive_the_log() {
        for kind in LAYOUTS {
            let mut all = FlightSettings::of(*kind);
            all.device.size = 99;
            (all.device.sector, all.device.max_io) = (4096, 9999);
            (all.settings.flush_age_ns, all.settings.durable_within_ns) = (Some(5), Some(7));
            all.order = Choice::named(&order::REGISTRY, "deadline").unwrap();
            // A layout may lack settings of its own.
            let has_own = all.of_layout.set_for_open("lazy-fsync", "yes").is_ok();
            let read = FlightSettings::parse(&all.to_text()).unwrap();
            assert_eq!(read.to_text(), all.to_text());
            assert_eq!((read.device.max_io, read.order), (9999, all.order));
            assert_eq!((read.settings.flush_age_ns, read.layout.name()), (Some(5), kind.name()));
            assert_eq!(read.of_layout.text(), if has_own { "lazy-fsync=yes" } else { "" });
        }
    }

    #[test]
    fn a_recording_has_no_module_loaded() {
        for text in ["lfs:replacement=./a.so\n", "lfs:\nvictim=modules/b.so"] {
            let why = FlightSettings::parse(text).unwrap_err().to_string();
            assert!(why.contains("policy of a module"), "{why}");
        }
    }

    #[test]
    fn an_unknown_setting_is_refused() {
        for text in ["colour=red\n", "lfs:colour=red\n", "lfs:\ncolour=red", "zfs:\n"] {
            assert!(FlightSettings::parse(text).is_err(), "{text}");
        }
    }
}
