//! A benchmark on a directory of the host: real system calls, real time.
//!
//! Contract: all work happens in a new directory below the given one, which is removed at the end,
//! also after an error. The written data is a function of file, generation and offset and does not
//! compress; all data that is read is compared with it. A phase that writes ends with everything on
//! disk ([`SyncAll`]).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use super::meeting::Meeting;
use super::{Act, BenchFailure, Benchmark, Content, Mark, OpenMode, Phase, Script, Spans};

/// How caches are emptied between phases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cold {
    /// Through the kernel, as root; otherwise caches stay warm.
    #[default]
    DropCaches,
    /// By this shell command, such as a remount.
    Command(String),
    /// By this function of a place, such as a remount.
    Call(Call),
    /// Caches are not emptied.
    Never,
}

/// A function that empties caches, or returns an error.
#[derive(Clone)]
pub struct Call(pub Arc<dyn Fn() -> Result<(), String> + Send + Sync>);

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Call")
    }
}

impl PartialEq for Call {
    fn eq(&self, other: &Call) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Call {}

/// A directory as a target.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The path of an existing directory.
    pub path: PathBuf,
    /// How caches are emptied.
    pub cold: Cold,
    /// Setting this ends a run with an error, after it has cleaned up.
    pub stop: Arc<AtomicBool>,
    /// How everything becomes durable.
    pub sync: SyncAll,
}

/// Makes everything on the file system of a directory durable: syncfs alone does not reach the server
/// of a FUSE mount.
pub type SyncAll = fn(&File) -> io::Result<()>;

/// Seconds since some instant.
pub type Clock<'a> = &'a (dyn Fn() -> f64 + Sync);

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

impl Directory {
    /// Whether phases can begin with cold caches here.
    pub fn can_be_cold(&self) -> bool {
        match &self.cold {
            Cold::DropCaches => OpenOptions::new().write(true).open(DROP_CACHES).is_ok(),
            Cold::Command(_) | Cold::Call(_) => true,
            Cold::Never => false,
        }
    }

    /// Runs a benchmark and returns its phases.
    ///
    /// # Errors
    /// The first system call that fails, or the first byte that differs from the written one.
    pub fn run(&self, bench: &dyn Benchmark, clock: Clock<'_>) -> Result<Vec<Phase>, BenchFailure> {
        let top = Top::make(&self.path)?;
        let spans = Mutex::new(Spans::default());
        let scripts = bench.users();
        let start = Barrier::new(scripts.len());
        let meeting = Meeting::of(scripts.len());
        let one = |user: usize, script: Script| {
            let (cold, stop, top, sync) = (&self.cold, &*self.stop, &*top.0, self.sync);
            let (spans, meeting, open) = (&spans, &meeting, Vec::new());
            let mut user = User { user, top, cold, stop, sync, spans, meeting, clock, open };
            let _leaves = meeting.until_end();
            start.wait();
            user.all(script)
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let handles: Vec<_> = (scripts.into_iter().enumerate())
                .map(|(user, script)| scope.spawn(move || one(user, script)))
                .collect();
            handles.into_iter().map(|h| h.join()).collect()
        });
        for result in results {
            result.unwrap_or_else(|_| Err(BenchFailure("a user's thread ended".into())))?;
        }
        Ok(spans.into_inner().unwrap_or_else(PoisonError::into_inner).phases())
    }
}

/// The directory of one run.
struct Top(PathBuf);

impl Top {
    fn make(parent: &Path) -> Result<Top, BenchFailure> {
        for number in 0..1000 {
            let path = parent.join(format!("twinfs-bench-{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Top(path)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(failure("mkdir", &path, e)),
            }
        }
        Err(BenchFailure(format!("{}: no free name for a directory", parent.display())))
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        // A finished run leaves the directory empty; a failed one may leave files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn failure(what: &str, path: &Path, error: io::Error) -> BenchFailure {
    BenchFailure(format!("{what} {}: {error}", path.display()))
}

struct User<'a> {
    user: usize,
    top: &'a Path,
    cold: &'a Cold,
    stop: &'a AtomicBool,
    sync: SyncAll,
    spans: &'a Mutex<Spans>,
    meeting: &'a Meeting,
    clock: Clock<'a>,
    open: Vec<Option<(File, PathBuf)>>,
}

/// Lets time pass, as a program does that works on a real file system.
#[allow(clippy::disallowed_methods)]
fn pause(ns: u64) -> Result<(), BenchFailure> {
    std::thread::sleep(std::time::Duration::from_nanos(ns));
    Ok(())
}

impl User<'_> {
    fn all(&mut self, script: Script) -> Result<(), BenchFailure> {
        let mut buf = Vec::new();
        script.into_iter().try_for_each(|act| self.act(act, &mut buf))
    }

    fn mark(&self) -> Mark {
        Mark { time_s: (self.clock)(), ..Mark::default() }
    }

    fn spans(&self) -> std::sync::MutexGuard<'_, Spans> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn act(&mut self, act: Act, buf: &mut Vec<u8>) -> Result<(), BenchFailure> {
        let at = |path: &str| self.top.join(path);
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchFailure::interrupted());
        }
        match act {
            Act::Begin(phase) => {
                let mark = self.mark();
                self.spans().begin(self.user, phase, mark);
                Ok(())
            }
            Act::End { amount, unit } => {
                let mark = self.mark();
                self.spans().end(self.user, mark, amount, unit);
                Ok(())
            }
            Act::MakeDir(path) => {
                fs::create_dir(at(&path)).map_err(|e| failure("mkdir", &at(&path), e))
            }
            Act::RemoveDir(path) => {
                fs::remove_dir(at(&path)).map_err(|e| failure("rmdir", &at(&path), e))
            }
            Act::Unlink(path) => {
                fs::remove_file(at(&path)).map_err(|e| failure("unlink", &at(&path), e))
            }
            Act::Rename { from, to } => {
                fs::rename(at(&from), at(&to)).map_err(|e| failure("rename", &at(&from), e))
            }
            Act::Link { from, to } => {
                fs::hard_link(at(&from), at(&to)).map_err(|e| failure("link", &at(&from), e))
            }
            Act::Symlink { path, target } => std::os::unix::fs::symlink(target, at(&path))
                .map_err(|e| failure("symlink", &at(&path), e)),
            Act::List { path, names } => match fs::read_dir(at(&path)).map(Iterator::count) {
                Ok(seen) if seen as u64 == names => Ok(()),
                Ok(seen) => Err(BenchFailure(format!("{path} lists {seen} names, not {names}"))),
                Err(e) => Err(failure("readdir", &at(&path), e)),
            },
            Act::Stat { path, size } => match fs::symlink_metadata(at(&path)) {
                Ok(meta) if meta.len() == size => Ok(()),
                Ok(meta) => Err(BenchFailure(format!("{path} has {} bytes", meta.len()))),
                Err(e) => Err(failure("stat", &at(&path), e)),
            },
            Act::Open { slot, path, how } => self.open(slot, &path, how),
            Act::Write { slot, off, len, content } => {
                fill(buf, off, len, content);
                self.with(slot, "write", |file| file.write_all_at(buf, off))
            }
            Act::Read { slot, off, len, content } => {
                buf.resize(len as usize, 0);
                self.with(slot, "read", |file| file.read_exact_at(buf, off))?;
                self.check(slot, buf, off, content)
            }
            Act::Fsync { slot, data_only: false } => self.with(slot, "fsync", File::sync_all),
            Act::Fsync { slot, .. } => self.with(slot, "fdatasync", File::sync_data),
            Act::Close { slot } => {
                if let Some(place) = self.open.get_mut(slot) {
                    *place = None;
                }
                Ok(())
            }
            Act::SyncAll => self.sync_all(),
            Act::Cold => self.meeting.once(|| self.go_cold(self.cold)),
            Act::ColdKernel if *self.cold == Cold::Never => Ok(()),
            Act::ColdKernel => self.meeting.once(|| self.go_cold(&Cold::DropCaches)),
            Act::Compute { .. } => Ok(()),
            Act::Pause { ns } => pause(ns),
        }
    }

    fn open(&mut self, slot: usize, path: &str, how: OpenMode) -> Result<(), BenchFailure> {
        let path = self.top.join(path);
        let mut options = OpenOptions::new();
        match how {
            OpenMode::Read => options.read(true),
            OpenMode::Write => options.read(true).write(true),
            OpenMode::Create => options.read(true).write(true).create_new(true),
        };
        let file = options.open(&path).map_err(|e| failure("open", &path, e))?;
        if self.open.len() <= slot {
            self.open.resize_with(slot + 1, || None);
        }
        self.open[slot] = Some((file, path));
        Ok(())
    }

    fn with(
        &self,
        slot: usize,
        what: &str,
        f: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<(), BenchFailure> {
        match self.open.get(slot) {
            Some(Some((file, path))) => f(file).map_err(|e| failure(what, path, e)),
            _ => Err(BenchFailure(format!("{what}: slot {slot} is not open"))),
        }
    }

    fn check(
        &self,
        slot: usize,
        got: &[u8],
        off: u64,
        content: Content,
    ) -> Result<(), BenchFailure> {
        let mut want = Vec::new();
        fill(&mut want, off, got.len() as u64, content);
        // All at once first: this is part of what is timed.
        if got == want {
            return Ok(());
        }
        let same = got.iter().zip(&want).take_while(|(got, want)| got == want).count() as u64;
        self.with(slot, "read", |_| {
            let what = format!("byte {} differs from the written one", off + same);
            Err(io::Error::other(what))
        })
    }

    fn sync_all(&self) -> Result<(), BenchFailure> {
        let top = File::open(self.top).map_err(|e| failure("open", self.top, e))?;
        (self.sync)(&top).map_err(|e| failure("syncing all of", self.top, e))
    }

    fn go_cold(&self, how: &Cold) -> Result<(), BenchFailure> {
        match how {
            Cold::Never => Ok(()),
            Cold::DropCaches => {
                self.sync_all()?;
                let Ok(file) = OpenOptions::new().write(true).open(DROP_CACHES) else {
                    return Ok(()); // Not root: caches stay warm, and the report says so.
                };
                file.write_all_at(b"3", 0).map_err(|e| failure("write", DROP_CACHES.as_ref(), e))
            }
            Cold::Call(call) => {
                self.sync_all()?;
                (call.0)().map_err(BenchFailure)
            }
            Cold::Command(command) => {
                self.sync_all()?;
                let status = std::process::Command::new("sh").arg("-c").arg(command).status();
                match status {
                    Ok(status) if status.success() => Ok(()),
                    Ok(status) => Err(BenchFailure(format!("{command}: {status}"))),
                    Err(e) => Err(BenchFailure(format!("{command}: {e}"))),
                }
            }
        }
    }
}

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The bytes `off..off + len` of a content: lines of 64 bytes, each made from a hashed number.
fn fill(buf: &mut Vec<u8>, off: u64, len: u64, content: Content) {
    let base = mix(content.file << 20 ^ content.generation << 56);
    buf.clear();
    let (mut line, end) = (off / 64, off + len);
    while line * 64 < end {
        let mut word = mix(base ^ line);
        let from = (off.max(line * 64) - line * 64) as usize;
        let to = (end.min(line * 64 + 64) - line * 64) as usize;
        let mut bytes = [0; 64];
        for piece in bytes.as_chunks_mut::<8>().0 {
            *piece = word.to_le_bytes();
            word = word.wrapping_add(0xd134_2543_de82_ef95);
        }
        buf.extend_from_slice(&bytes[from..to]);
        line += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: Content = Content { file: 3, generation: 1 };

    #[test]
    fn a_part_of_a_content_is_cut_from_the_whole() {
        let (mut whole, mut part) = (Vec::new(), Vec::new());
        fill(&mut whole, 0, 1000, CONTENT);
        fill(&mut part, 130, 300, CONTENT);
        assert_eq!(part, whole[130..430]);
    }

    #[test]
    fn generations_differ() {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        fill(&mut a, 0, 64, CONTENT);
        fill(&mut b, 0, 64, Content { generation: 2, ..CONTENT });
        assert_ne!(a, b);
    }
}
