//! A benchmark on a simulated volume under virtual time.
//!
//! Contract: the operations of a volume replace the system calls of a directory: a path is looked
//! up part by part, and an open file is an inode that is referenced. Data is synthetic. Processor
//! and disk are those of the configuration, and the program's computing occupies the processor too.

use std::cell::RefCell;
use std::rc::Rc;

use twin_fs::{Cred, Data, FsError, Ino, Op, ROOT_INO, RenameMode, Reply, Request, Volume};
use twin_rt::{ClockOnly, Rt, join_all};

use super::meeting::TaskMeeting;
use super::{Act, BenchFailure, Benchmark, Mark, OpenMode, Phase, Script, Spans};
use twin_lab::LogFigures;
use twin_lab::Run;
use twin_lab::SimulateError;
use twin_lab::WatchedRun;
use twin_lab::{Below, OnVolume, on_volume};
use twin_lab::{History, Sampler};

/// Runs a benchmark on the volume of a run.
///
/// # Errors
/// If the configuration is impossible or an operation fails.
pub fn run(run: impl Into<Run>, bench: &dyn Benchmark) -> Result<Vec<Phase>, BenchFailure> {
    let run = run.into();
    let rt = Rt::new(ClockOnly::default(), run.clock_seed());
    carry_out(&rt, &run, BenchRun { bench, warm: false, watched: None })
}

/// As [`run`], with caches that stay warm between the phases.
///
/// # Errors
/// As [`run`].
pub fn run_warm(run: impl Into<Run>, bench: &dyn Benchmark) -> Result<Vec<Phase>, BenchFailure> {
    let run = run.into();
    let rt = Rt::new(ClockOnly::default(), run.clock_seed());
    carry_out(&rt, &run, BenchRun { bench, warm: true, watched: None })
}

/// As [`run`], and returns the history of one phase.
///
/// # Errors
/// As [`run`].
pub fn run_with_history(
    run: impl Into<Run>,
    bench: &dyn Benchmark,
    phase: &'static str,
) -> Result<(Vec<Phase>, History), BenchFailure> {
    let run = run.into();
    let sampler = Rc::new(RefCell::new(Sampler::default()));
    let watched_run = WatchedRun::new(sampler.clone());
    let phases = carry_out(
        &watched_run.runtime(run.clock_seed(), run.config.order.maker),
        &run,
        BenchRun { bench, warm: false, watched: Some((&watched_run, phase)) },
    );
    let _ = watched_run.leave();
    let history = sampler.borrow_mut().history();
    Ok((phases?, history))
}

fn carry_out(rt: &Rt, run: &Run, bench: BenchRun<'_>) -> Result<Vec<Phase>, BenchFailure> {
    if let Some(log) = &run.log {
        log.begin(rt);
    }
    let result = rt.block_on(on_volume(rt, run, bench));
    rt.crash();
    let failure = |e: &dyn std::fmt::Display| BenchFailure(format!("{}: {e}", run.config.name));
    result.map_err(|e| failure(&e))?.map_err(|e| failure(&e))
}

struct BenchRun<'a> {
    bench: &'a dyn Benchmark,
    /// Whether caches stay warm between the phases.
    warm: bool,
    /// The run as it is watched, and the phase in which it is.
    watched: Option<(&'a WatchedRun, &'static str)>,
}

impl OnVolume for BenchRun<'_> {
    type Output = Vec<Phase>;

    async fn run(
        self,
        rt: &Rt,
        below: &Below,
        volume: &Volume,
    ) -> Result<Vec<Phase>, SimulateError> {
        let BenchRun { bench, warm, watched } = self;
        let (spans, next_id) = (RefCell::default(), 1.into());
        let scripts = bench.users();
        let meeting = TaskMeeting::of(scripts.len());
        let shared = Shared { rt, below, volume, spans, meeting, next_id, warm, watched };
        let users = scripts.into_iter().enumerate().map(|(user, script)| {
            let user = User { shared: &shared, user, cred: Cred::root(), open: Vec::new() };
            user.all(script)
        });
        for result in join_all(users).await {
            result?;
        }
        Ok(shared.spans.into_inner().phases())
    }
}

struct Shared<'a> {
    rt: &'a Rt,
    below: &'a Below,
    volume: &'a Volume,
    spans: RefCell<Spans>,
    meeting: TaskMeeting,
    next_id: std::cell::Cell<u64>,
    warm: bool,
    watched: Option<(&'a WatchedRun, &'static str)>,
}

struct User<'a> {
    shared: &'a Shared<'a>,
    user: usize,
    cred: Cred,
    open: Vec<Option<Ino>>,
}

impl User<'_> {
    async fn all(mut self, script: Script) -> Result<(), SimulateError> {
        let mut done = Ok(());
        for act in script {
            done = self.act(act).await;
            if done.is_err() {
                break;
            }
        }
        self.shared.meeting.leave();
        done
    }

    fn mark(&self) -> Mark {
        let shared = self.shared;
        let counts = LogFigures::of(shared.volume);
        let disk = shared.below.disk.stats();
        let seconds = |ns: u64| ns as f64 / 1e9;
        Mark {
            log_writes: Some(counts.log_writes as f64),
            written_bytes: Some(counts.log_bytes as f64),
            time_s: shared.rt.now().0 as f64 / 1e9,
            cpu_s: Some(shared.volume.core().cpu.busy_ns() as f64 / 1e9),
            disk_s: Some(seconds(disk.busy_ns)),
            reads: Some(disk.reads.requests as f64),
            read_service_s: Some(seconds(disk.reads.service_ns)),
            write_service_s: Some(seconds(disk.writes.service_ns)),
        }
    }

    async fn op(&self, op: Op) -> Result<Reply, SimulateError> {
        let id = self.shared.next_id.get();
        self.shared.next_id.set(id + 1);
        let request = Request { id, client: self.user as u32, cred: self.cred.clone(), op };
        Ok(self.shared.volume.execute(request).await?)
    }

    async fn act(&mut self, act: Act) -> Result<(), SimulateError> {
        match act {
            Act::Begin(phase) => {
                let mark = self.mark();
                self.shared.spans.borrow_mut().begin(self.user, phase, mark);
                if let Some((watched_run, _)) =
                    self.shared.watched.filter(|(_, which)| *which == phase)
                {
                    watched_run.begin(self.shared.below, self.shared.volume);
                }
            }
            Act::End { amount, unit } => {
                let mark = self.mark();
                self.shared.spans.borrow_mut().end(self.user, mark, amount, unit);
                if let Some((watched_run, _)) = self.shared.watched {
                    watched_run.end();
                }
            }
            Act::MakeDir(path) => {
                let (dir, name) = self.parent(&path).await?;
                let made = self.op(Op::MakeDir { dir, name: name.into(), mode: 0o755 }).await?;
                self.forget(&made);
            }
            Act::RemoveDir(path) => {
                let (dir, name) = self.parent(&path).await?;
                self.op(Op::RemoveDir { dir, name: name.into() }).await?;
            }
            Act::Unlink(path) => {
                let (dir, name) = self.parent(&path).await?;
                self.op(Op::Unlink { dir, name: name.into() }).await?;
            }
            Act::Stat { path, .. } => {
                let ino = self.look_up(&path).await?;
                self.op(Op::GetAttr { ino }).await?;
            }
            Act::Rename { .. } | Act::Link { .. } | Act::Symlink { .. } => self.name(act).await?,
            Act::List { path, names } => self.list(&path, names).await?,
            Act::Open { slot, path, how } => self.open(slot, &path, how).await?,
            Act::Write { slot, off, len, .. } => {
                let ino = self.ino(slot)?;
                self.op(Op::Write { ino, off, data: Data::Synthetic(len) }).await?;
            }
            Act::Read { slot, off, len, .. } => {
                let ino = self.ino(slot)?;
                let len = u32::try_from(len).unwrap_or(u32::MAX);
                self.op(Op::Read { ino, off, len }).await?;
            }
            // The systems of the papers have no fdatasync.
            Act::Fsync { slot, .. } => {
                let ino = self.ino(slot)?;
                self.op(Op::Fsync { ino, data_only: false }).await?;
            }
            Act::Close { slot } => {
                let ino = self.ino(slot)?;
                self.open[slot] = None;
                self.op(Op::Release { ino }).await?;
            }
            Act::SyncAll => {
                self.op(Op::Sync).await?;
            }
            Act::Cold | Act::ColdKernel if self.shared.warm => {}
            Act::Cold | Act::ColdKernel => self.shared.meeting.once(self.go_cold()).await?,
            Act::Compute { ns } => self.shared.volume.core().cpu.compute(ns).await,
            Act::Pause { ns } => self.shared.volume.core().rt.sleep(ns).await,
        }
        Ok(())
    }

    async fn go_cold(&self) -> Result<(), SimulateError> {
        self.op(Op::Sync).await?;
        self.shared.volume.core().drop_caches();
        Ok(())
    }

    async fn open(&mut self, slot: usize, path: &str, how: OpenMode) -> Result<(), SimulateError> {
        let ino = match how {
            OpenMode::Create => {
                let (dir, name) = self.parent(path).await?;
                let name = name.into();
                let op =
                    Op::Create { dir, name, mode: twin_fs::mode::REGULAR | 0o644, exclusive: true };
                let made = self.op(op).await?;
                self.forget(&made)
            }
            _ => {
                let ino = self.look_up(path).await?;
                let write = how == OpenMode::Write;
                self.op(Op::Open { ino, read: true, write, truncate: false }).await?;
                Some(ino)
            }
        };
        if self.open.len() <= slot {
            self.open.resize(slot + 1, None);
        }
        self.open[slot] = ino;
        Ok(())
    }

    /// The acts that give names to existing files, and symbolic links.
    async fn name(&self, act: Act) -> Result<(), SimulateError> {
        match act {
            Act::Rename { from, to } => {
                let ((dir, name), (to_dir, to_name)) =
                    (self.parent(&from).await?, self.parent(&to).await?);
                let (name, to_name, mode) = (name.into(), to_name.into(), RenameMode::Replace);
                self.op(Op::Rename { dir, name, to_dir, to_name, mode }).await?;
            }
            Act::Link { from, to } => {
                let ino = self.look_up(&from).await?;
                let (dir, name) = self.parent(&to).await?;
                let made = self.op(Op::Link { ino, dir, name: name.into() }).await?;
                self.forget(&made);
            }
            Act::Symlink { path, target } => {
                let (dir, name) = self.parent(&path).await?;
                let target = target.as_bytes().into();
                let made = self.op(Op::Symlink { dir, name: name.into(), target }).await?;
                self.forget(&made);
            }
            _ => unreachable!("the caller chooses"),
        }
        Ok(())
    }

    async fn list(&self, path: &str, names: u64) -> Result<(), SimulateError> {
        let dir = self.look_up(path).await?;
        let (mut cookie, mut seen) = (0, 0);
        loop {
            let op = Op::ReadDir { dir, cookie, max_bytes: 32 << 10, plus: false };
            let Reply::Dir(entries) = self.op(op).await? else { break };
            let Some(last) = entries.last() else { break };
            cookie = last.next;
            seen += entries.iter().filter(|e| *e.name != *b"." && *e.name != *b"..").count() as u64;
        }
        if seen == names {
            return Ok(());
        }
        Err(FsError::Invalid("a directory does not list all of its names"))?
    }

    fn ino(&self, slot: usize) -> Result<Ino, SimulateError> {
        let ino = self.open.get(slot).copied().flatten();
        Ok(ino.ok_or(FsError::Invalid("the benchmark's slot is not open"))?)
    }

    /// The directory and the last name of a path.
    async fn parent<'p>(&self, path: &'p str) -> Result<(Ino, &'p [u8]), SimulateError> {
        match path.rsplit_once('/') {
            Some((dir, name)) => Ok((self.look_up(dir).await?, name.as_bytes())),
            None => Ok((ROOT_INO, path.as_bytes())),
        }
    }

    async fn look_up(&self, path: &str) -> Result<Ino, SimulateError> {
        let mut dir = ROOT_INO;
        for name in path.split('/') {
            let found = self.op(Op::Lookup { dir, name: name.as_bytes().into() }).await?;
            let missing = FsError::Invalid("a look-up gave no entry");
            dir = self.forget(&found).ok_or(missing)?;
        }
        Ok(dir)
    }

    /// Returns the reference that a reply carries, as a kernel does that keeps no inode which is
    /// not open. An inode without names is held by its open.
    fn forget(&self, reply: &Reply) -> Option<Ino> {
        let Reply::Entry(entry) = reply else { return None };
        let ino = entry.attr.ino;
        self.shared.volume.core().change_refs(ino, |refs| refs.entries -= 1);
        Some(ino)
    }
}
