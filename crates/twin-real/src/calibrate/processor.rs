//! The processor's costs: what the core computes for an operation, by layout.
//!
//! Operations that find all they need in memory are timed one by one, in a loop without a kernel between:
//! their time is the processor's. Where a mount can be had, the costs of those that [`served`] measures
//! replace them. Building and sending what they made dirty is timed by the processor clock of the thread,
//! because it waits for the device.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use rustix::time::{ClockId, clock_gettime};
use twin_disk::{BlockDevice, Buf, Bytes};
use twin_fs::{
    Cpu, Data, FileSystem, FsError, Identity, Ino, LayoutConfig, LayoutKind, Op, Opened, ROOT_INO,
    RenameMode, Reply, Request, Settings, mode,
};
use twin_host::{
    FileDevice, Host, HostOptions, ImageOptions, create_image, random_bytes, real_clock,
};
use twin_lab::Processor;
use twin_lab::layouts::LAYOUTS;

use super::bench::{Bench, LARGE, SMALL};
use super::fuse::can_mount;
use super::rounds::kept;
use super::served;
use crate::probe::Probe;
use crate::runner::median;

const IMAGE: u64 = 256 << 20;
/// Files that are made a round.
const FILES: usize = 200;
/// Bytes that are written back to see what building and sending them takes.
const BULK: usize = 32 << 20;
/// Device requests to see what the processor takes for one.
const REQUESTS: usize = 400;

/// Steps of a round.
pub(super) fn steps() -> u64 {
    LAYOUTS.len() as u64
}

/// The results of all rounds, in microseconds.
#[derive(Default)]
pub(super) struct Samples {
    /// By layout and operation.
    costs: BTreeMap<&'static str, BTreeMap<&'static str, Vec<f64>>>,
    /// The processor's time for a device request.
    requests: Vec<f64>,
}

impl Samples {
    /// All costs, by round.
    pub(super) fn figures(&self) -> Vec<Vec<f64>> {
        self.costs.values().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Forgets the rounds that do not stay.
    pub(super) fn keep(&mut self, stays: &[bool]) {
        let costs = self.costs.values_mut().flat_map(BTreeMap::values_mut);
        costs
            .chain([&mut self.requests])
            .for_each(|rounds| *rounds = kept(std::mem::take(rounds), stays));
    }

    /// Measures all once.
    pub(super) fn round(&mut self, bench: &Bench<'_>) -> Result<(), String> {
        for kind in LAYOUTS {
            let mut found: BTreeMap<_, _> = round(bench, *kind)?.into_iter().collect();
            if can_mount() {
                found.extend(served::measure(bench, *kind)?);
            }
            let costs = self.costs.entry(kind.name()).or_default();
            for (what, us) in found {
                costs.entry(what).or_default().push(us);
            }
            bench.step()?;
        }
        self.requests.push(request(bench)?);
        Ok(())
    }
}

/// The costs of each layout, and the processor's time for a device request, in microseconds.
pub(super) fn tables(
    bench: &mut Bench<'_>,
    samples: Samples,
) -> (BTreeMap<String, Processor>, f64) {
    let request_us = median(samples.requests);
    let mut tables = BTreeMap::new();
    for (layout, costs) in samples.costs {
        // A sync waits for the device, and its time is not used.
        for (what, rounds) in costs.iter().filter(|(what, _)| **what != "write out") {
            bench.judge(&format!("{layout}, {what}"), rounds);
        }
        let of = |what| costs.get(what).cloned().map_or(0.0, median);
        let (small, large, read) = (of("write 4K"), of("write 128K"), of("read 4K"));
        let copy_4k_us = (large - small).max(0.0) / 31.0;
        let at_least = |us: f64| (us.max(0.0) * 100.0).round() / 100.0;
        let table = Processor {
            lookup_us: at_least(of("lookup")),
            create_us: at_least(of("create")),
            remove_us: at_least(of("remove")),
            rename_us: at_least(of("rename")),
            open_us: at_least(of("open")),
            read_us: at_least(read - copy_4k_us),
            write_us: at_least(small - copy_4k_us),
            attr_us: at_least(of("attributes")),
            read_dir_us: at_least(of("list")),
            sync_us: at_least(of("fsync")),
            copy_4k_us: at_least(copy_4k_us),
            request_us: at_least(request_us),
            send_4k_us: at_least(of("send")),
            // Only a daemon has it: a loop finds memory that it has just given back.
            part_us: costs
                .get("write in part")
                .map_or(0.0, |_| at_least(of("write in part") - small)),
        };
        tables.insert(layout.to_owned(), table);
    }
    (tables, request_us)
}

/// Processor time of this thread, in seconds.
fn processor_clock() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The processor's time for a device request, in microseconds.
fn request(bench: &Bench<'_>) -> Result<f64, String> {
    let path = bench.dir().join("requests");
    create_image(&path, IMAGE).map_err(|e| e.to_string())?;
    // A host that looks for completions before it sleeps uses the processor while it waits.
    let mut probe = Probe::open(&path, 0, 0)?;
    let found = probe.run(async |probe| {
        let before = processor_clock();
        for i in 0..REQUESTS {
            probe.submit(probe.write_at((i * SMALL) as u64, SMALL as u64)).await?;
        }
        Ok((processor_clock() - before) * 1e6 / REQUESTS as f64)
    })?;
    drop(probe);
    std::fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(found)
}

/// The medians of a round, in microseconds.
fn round(
    bench: &Bench<'_>,
    kind: &'static dyn LayoutKind,
) -> Result<Vec<(&'static str, f64)>, String> {
    let path = bench.dir().join("volume");
    create_image(&path, IMAGE).map_err(|e| e.to_string())?;
    let found = on_volume(&path, kind).map_err(|e| format!("{}: {e}", kind.name()))?;
    std::fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(found)
}

/// A host and the image as its device.
fn open(path: &Path) -> Result<(Host, Rc<dyn BlockDevice>), String> {
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let device = FileDevice::open(&host, path, &ImageOptions::default());
    Ok((host, Rc::new(device.map_err(|e| e.to_string())?)))
}

/// Makes a volume, on a host of its own: the image is free when this returns.
fn make(path: &Path, config: &dyn LayoutConfig) -> Result<(), String> {
    let identity = Identity { uuid: random_bytes()?, root: (0, 0, 0o755) };
    let (host, device) = open(path)?;
    let making = config.mkfs(host.rt(), device, identity);
    let made = host.rt().block_on(making).map_err(|e| e.to_string())?.map_err(|e| e.to_string());
    host.rt().crash();
    made.map(|_| ())
}

fn on_volume(
    path: &Path,
    kind: &'static dyn LayoutKind,
) -> Result<Vec<(&'static str, f64)>, String> {
    let config = kind.config();
    make(path, &*config)?;
    let (host, device) = open(path)?;
    let settings = Settings { cache_bytes: 128 << 20, ..Settings::default() }.mounted();
    let opening = config.open(host.rt(), device, Cpu::none(), settings);
    let opened = host.rt().block_on(opening).map_err(|e| e.to_string())?;
    let Opened { volume, .. } = opened.map_err(|e| e.to_string())?;
    let mut round = Round {
        fs: &volume,
        clock: Box::new(real_clock()),
        next: 1,
        times: BTreeMap::new(),
        content: Buf::copy_of(&vec![0x5a; LARGE]).freeze(),
    };
    let work = async {
        round.all().await?;
        let send = round.send().await?;
        volume.close().await?;
        Ok::<f64, FsError>(send)
    };
    let send = host.rt().block_on(work).map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
    let mut found: Vec<_> =
        round.times.into_iter().map(|(what, all)| (what, median(all))).collect();
    found.push(("send", send));
    Ok(found)
}

/// Operations on a volume, timed one by one.
struct Round<'a, F> {
    fs: &'a F,
    clock: Box<dyn Fn() -> f64>,
    next: u64,
    times: BTreeMap<&'static str, Vec<f64>>,
    content: Bytes,
}

impl<F: FileSystem> Round<'_, F> {
    async fn time(&mut self, what: &'static str, op: Op) -> Result<Reply, FsError> {
        let request = Request::root(self.next, op);
        self.next += 1;
        let start = (self.clock)();
        let reply = self.fs.execute(request).await;
        self.times.entry(what).or_default().push(((self.clock)() - start) * 1e6);
        reply
    }

    async fn all(&mut self) -> Result<(), FsError> {
        let name = |i: usize| -> twin_fs::Name { format!("file-{i}").into_bytes().into() };
        let dir = ROOT_INO;
        let mut files: Vec<Ino> = Vec::new();
        for i in 0..FILES {
            let mode = mode::REGULAR | 0o644;
            let create = Op::Create { dir, name: name(i), mode, exclusive: false };
            if let Reply::Entry(entry) = self.time("create", create).await? {
                files.push(entry.attr.ino);
            }
        }
        for (i, &ino) in files.iter().enumerate() {
            let len = if i % 4 == 0 { LARGE } else { SMALL };
            let what = if i % 4 == 0 { "write 128K" } else { "write 4K" };
            let data = Data::Bytes(self.content.slice(0, len));
            self.time(what, Op::Write { ino, off: 0, data }).await?;
        }
        for (i, &ino) in files.iter().enumerate() {
            self.time("lookup", Op::Lookup { dir, name: name(i) }).await?;
            self.time("attributes", Op::GetAttr { ino }).await?;
            self.time("open", Op::Open { ino, read: true, write: false, truncate: false }).await?;
            self.time("read 4K", Op::Read { ino, off: 0, len: SMALL as u32 }).await?;
            self.time("open", Op::Release { ino }).await?;
        }
        for _ in 0..10 {
            let list = Op::ReadDir { dir, cookie: 0, max_bytes: 4096, plus: false };
            self.time("list", list).await?;
        }
        self.time("write out", Op::Sync).await?;
        for &ino in files.iter().take(20) {
            // Some layouts flush the device, which is not the processor's time.
            let before = processor_clock();
            self.time("write out", Op::Fsync { ino, data_only: false }).await?;
            let us = (processor_clock() - before) * 1e6;
            self.times.entry("fsync").or_default().push(us);
        }
        for i in 0..FILES {
            let to_name = format!("renamed-{i}").into_bytes().into();
            let mode = RenameMode::Replace;
            let rename = Op::Rename { dir, name: name(i), to_dir: dir, to_name, mode };
            self.time("rename", rename).await?;
        }
        for i in 0..FILES {
            let name = format!("renamed-{i}").into_bytes().into();
            self.time("remove", Op::Unlink { dir, name }).await?;
        }
        Ok(())
    }

    /// The processor's time to write back 4 KiB of a large file.
    async fn send(&mut self) -> Result<f64, FsError> {
        let (dir, mode) = (ROOT_INO, mode::REGULAR | 0o644);
        let name: twin_fs::Name = (*b"bulk").into();
        let create = Op::Create { dir, name, mode, exclusive: false };
        let Reply::Entry(entry) = self.time("create", create).await? else { return Ok(0.0) };
        let ino = entry.attr.ino;
        let (mut sent, mut off) = (0.0, 0);
        while off < BULK {
            for _ in 0..16 {
                let data = Data::Bytes(self.content.clone());
                self.time("write 128K", Op::Write { ino, off: off as u64, data }).await?;
                off += LARGE;
            }
            let before = processor_clock();
            self.time("write out", Op::Sync).await?;
            sent += processor_clock() - before;
        }
        Ok(sent * 1e6 / (off / SMALL) as f64)
    }
}
