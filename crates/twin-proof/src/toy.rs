//! A host as small as can be: a volume on a device in memory, whose requests and completions come
//! from outside at times of their own, and are written down as a mount's flight recorder does.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use twin_disk::{
    BlockDevice, Buf, Class, Completion, DeviceInfo, Io, IoKind, MemDisk, Pending, Recorded,
    pending,
};
use twin_flight::{CLOSE, FlightSettings, FrontEnd};
use twin_fs::{Cpu, Data, Identity, Op, Opened, ROOT_INO, Request, Settings};
use twin_lab::layouts::LAYOUTS;
use twin_rt::{ClockOnly, Driver, Rng, Rt, Time, order};
use twin_settings::Choice;
use twin_sim::Platter;
use twin_trace::FlightWriter;

const SIZE: u64 = 4 << 20;

/// What is outside the core.
struct Outside {
    platter: RefCell<Platter>,
    under_way: RefCell<Vec<(u64, Io, Completion)>>,
    submitted: Cell<u64>,
    to_come: RefCell<VecDeque<Request>>,
    writer: RefCell<Option<FlightWriter<Vec<u8>>>>,
    front_end: Rc<FrontEnd>,
    /// The volume is open.
    ready: Cell<bool>,
}

struct ToyDevice(Rc<Outside>);

fn info() -> DeviceInfo {
    DeviceInfo { size: SIZE, sector: 512, max_io: 1 << 20, name: "flight".into() }
}

impl BlockDevice for ToyDevice {
    fn info(&self) -> DeviceInfo {
        info()
    }

    fn submit(&self, io: Io) -> Pending {
        let id = self.0.submitted.get() + 1;
        self.0.submitted.set(id);
        let (completion, pending) = pending();
        self.0.under_way.borrow_mut().push((id, io, completion));
        pending
    }

    fn in_flight(&self) -> usize {
        self.0.under_way.borrow().len()
    }
}

struct ToyDriver {
    outside: Rc<Outside>,
    now: Time,
    rng: Rng,
}

impl ToyDriver {
    fn write(
        &self,
        f: impl FnOnce(&mut FlightWriter<Vec<u8>>) -> Result<(), twin_trace::TraceError>,
    ) {
        if let Some(writer) = self.outside.writer.borrow_mut().as_mut() {
            // A vector takes everything.
            let _ = f(writer);
        }
    }

    fn complete(&mut self) {
        let outside = Rc::clone(&self.outside);
        let nth = self.rng.below(outside.under_way.borrow().len() as u64) as usize;
        let (id, io, completion) = outside.under_way.borrow_mut().swap_remove(nth);
        let mut platter = outside.platter.borrow_mut();
        let result = match io.kind {
            IoKind::Read => Ok(platter.read(io.at, io.len)),
            IoKind::Write => {
                platter.write(io.at, &io.blocks);
                Ok(Vec::new())
            }
            IoKind::Flush | IoKind::Discard => Ok(Vec::new()),
        };
        drop(platter);
        // A read of both kinds steers the run as metadata does.
        let class = if io.class == Class::Data { Class::Data } else { Class::Meta };
        self.write(|writer| writer.complete(id, class, false, &result));
        completion.done(result);
    }

    fn arrive(&mut self) {
        let Some(request) = self.outside.to_come.borrow_mut().pop_front() else { return };
        self.write(|writer| writer.arrive(&request));
        self.outside.front_end.arrive(request);
    }
}

impl Driver for ToyDriver {
    fn start(&mut self) -> Time {
        self.now
    }

    fn park(&mut self, deadline: Option<Time>) -> Option<Time> {
        let outside = Rc::clone(&self.outside);
        let waits = !self.outside.under_way.borrow().is_empty();
        let comes = outside.ready.get() && !self.outside.to_come.borrow().is_empty();
        match (waits, comes) {
            (true, true) if self.rng.chance(0.3) => self.arrive(),
            (true, _) => self.complete(),
            (false, true) => self.arrive(),
            (false, false) if outside.ready.get() && !outside.front_end.is_closing() => {
                self.write(|writer| writer.command(CLOSE));
                outside.front_end.close();
            }
            (false, false) => self.now = self.now.max(deadline?),
        }
        self.now += self.rng.range(100, 50_000);
        let now = self.now;
        self.write(|writer| writer.park(now));
        Some(now)
    }
}

/// What clients ask: files made, written, read, made durable, removed.
fn requests(rng: &mut Rng) -> VecDeque<Request> {
    let mut ops = Vec::new();
    for nth in 0..14u64 {
        let name = || format!("file{nth}").into_bytes().into();
        let ino = 3 + nth;
        ops.push(Op::Create { dir: ROOT_INO, name: name(), mode: 0o644, exclusive: true });
        let len = rng.range(1, 30_000);
        let data = match rng.chance(0.5) {
            true => Data::Synthetic(len),
            // Bytes that the log does not keep, so that the replay has other checksums.
            false => Data::Bytes(Buf::copy_of(&vec![nth as u8 + 1; len as usize]).freeze()),
        };
        ops.push(Op::Write { ino, off: rng.below(9000), data });
        ops.push(Op::Read { ino: 3 + rng.below(nth + 1), off: 0, len: 20_000 });
        if rng.chance(0.4) {
            ops.push(Op::Fsync { ino, data_only: false });
        }
        ops.push(Op::Release { ino });
        if rng.chance(0.3) {
            ops.push(Op::Unlink { dir: ROOT_INO, name: name() });
        }
        // Most inodes leave memory, and are read again by who looks for them.
        ops.push(Op::Forget { ino, count: 1 });
        let name = format!("file{}", rng.below(nth + 1)).into_bytes().into();
        ops.push(Op::Lookup { dir: ROOT_INO, name });
    }
    (1..).zip(ops).map(|(id, op)| Request::root(id, op)).collect()
}

/// A flight's log.
pub(super) fn flight(seed: u64) -> Result<Vec<u8>, String> {
    let mkfs = Rt::new(ClockOnly::default(), seed);
    let disk = Rc::new(MemDisk::new(SIZE));
    let kind = LAYOUTS[0];
    let identity = Identity { uuid: [7; 16], root: (0, 0, 0o755) };
    let config = kind.config();
    let making = config.mkfs(&mkfs, Rc::clone(&disk) as _, identity);
    mkfs.block_on(making).map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
    mkfs.crash();
    let mut rng = Rng::stream(seed, "toy");
    let settings = FlightSettings {
        device: info(),
        settings: Settings {
            check_data: false,
            cache_bytes: 1 << 20,
            cached_inodes: 2,
            ..Settings::default()
        },
        layout: kind,
        of_layout: kind.config(),
        order: Choice::first(&order::REGISTRY),
    };
    let start = Time(1_000_000_000);
    let writer = FlightWriter::new(Vec::new(), start, seed, &settings.to_text(), false);
    let outside = Rc::new(Outside {
        platter: RefCell::new(Platter::from_bytes(&disk.to_bytes())),
        under_way: RefCell::default(),
        submitted: Cell::new(0),
        to_come: RefCell::new(requests(&mut rng)),
        writer: RefCell::new(Some(writer.map_err(|error| error.to_string())?)),
        front_end: Rc::default(),
        ready: Cell::new(false),
    });
    let rt = Rt::new(ToyDriver { outside: Rc::clone(&outside), now: start, rng }, seed);
    let device = Rc::new(Recorded::new(rt.clone(), ToyDevice(Rc::clone(&outside))));
    let FlightSettings { settings, of_layout, .. } = settings;
    let open = of_layout.open(&rt, device, Cpu::none(), settings);
    let opened = rt.block_on(open).map_err(|e| e.to_string())?;
    let Opened { volume, .. } = opened.map_err(|e| e.to_string())?;
    outside.ready.set(true);
    let serving = Rc::clone(&outside.front_end).serve(rt.clone(), volume);
    let ran = rt.block_on(serving).map_err(|e| e.to_string())?;
    ran.map_err(|error| error.to_string())?;
    let digest = rt.digest();
    rt.crash();
    let writer = outside.writer.take();
    let mut writer = writer.ok_or("no log")?;
    writer.digest(digest).map_err(|error| error.to_string())?;
    writer.finish().map_err(|error| error.to_string())
}
