//! The work of a [`Deputy`](super::deputy::Deputy), in its own process.
//!
//! Contract: the process holds nothing of the daemon but its end of the socket; above all it has no
//! descriptor of `/dev/fuse`. Its first thread never calls into the mount, so that it can always do its
//! duty: if the daemon's own thread has died and the daemon still exists (one of its threads waits in
//! the kernel for an answer of the daemon), it ends the mount's connection, which ends that wait. It
//! also tells the daemon of errands that take too long. The other threads read orders, each its next one,
//! and do them. Signals do not reach the process; it ends with the socket.
#![allow(unsafe_code)] // fork's child: descriptors, signal masks and the command line.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // It has threads and clocks.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, setrlimit};
use rustix::time::{
    TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use zerocopy::IntoBytes;

use super::errand::{Done, Errand, MOST_BYTES, MOST_UNDER_WAY, Place, Said};
use super::mountinfo::mounted_at;
use super::unmounter::Unmounter;

/// The name of the process in lists of processes.
const NAME: &[u8] = b"twinfs: deputy of a mount";
/// The longest time that an errand may take before the daemon is told that it is late.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a daemon whose first thread has died has to end by itself.
const DYING: Duration = Duration::from_millis(500);
/// How often the connection of such a daemon is ended: it is gone after the first time.
const ENDINGS: u32 = 20;
/// The type of handles of FUSE: a node in two halves, and a generation (FILEID_INO64_GEN).
const HANDLE_TYPE: i32 = 0x81;
/// Offsets in the front end's own file are multiples of this, the largest page of any machine.
const OWN_PAGE: u64 = 64 << 10;

/// Ends the process when it is dropped, so that nothing that unwinds returns into what belongs to the
/// daemon.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        // SAFETY: ends this process and touches nothing.
        unsafe { libc::_exit(0) }
    }
}

/// Lives as a deputy of `daemon` until the socket ends.
pub(super) fn live(socket: &OwnedFd, daemon: Pid) -> ! {
    let leave = Leave;
    let _ = stand_apart(socket).and_then(|signals| serve(socket, &signals, daemon));
    drop(leave);
    unreachable!("it has left")
}

/// Lets go of all that is the daemon's. Returns the descriptor that tells of the end of the daemon's
/// first thread.
fn stand_apart(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let signals = block_signals()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    drop(null);
    let mut kept = [socket.as_raw_fd(), signals.as_raw_fd()];
    kept.sort_unstable();
    let mut from = 3;
    for fd in kept {
        close_from(from, fd - 1);
        from = fd + 1;
    }
    close_from(from, i32::MAX);
    let _ = rustix::process::chdir("/");
    // Limits of the shell that started the daemon must not end what lets it end.
    for resource in [Resource::Cpu, Resource::Fsize, Resource::Nofile, Resource::As] {
        let most = getrlimit(resource).maximum;
        let _ = setrlimit(resource, Rlimit { current: most, maximum: most });
    }
    let _ = rustix::thread::set_name(c"deputy");
    let _ = rename(NAME);
    Ok(signals)
}

/// Closes the descriptors from one number to another.
fn close_from(first: i32, last: i32) {
    if first > last {
        return;
    }
    // SAFETY: the descriptors that are closed belong to values of the daemon, which this process never
    // uses and, since it does not return, never drops.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if closed != 0 {
        // Kernels before 5.9 have no such call.
        let open = getrlimit(Resource::Nofile).current.unwrap_or(1 << 16).min(1 << 20) as i32;
        for fd in first..=last.min(open) {
            // SAFETY: as above.
            unsafe { libc::close(fd) };
        }
    }
}

/// Blocks all signals in this thread and those to come, and returns a descriptor of the one that the
/// kernel sends when the daemon's thread dies.
fn block_signals() -> io::Result<OwnedFd> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut one = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset and sigemptyset initialize the sets, which the other calls get initialized and
    // live; a null pointer stands for the mask that is not asked for.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigemptyset(one.as_mut_ptr());
        libc::sigaddset(one.as_mut_ptr(), Signal::USR1.as_raw());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
        let fd = libc::signalfd(-1, one.as_ptr(), libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // The descriptor was just opened and has no other owner.
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Writes another name over the command line, so that who looks for the daemon by its command line
/// finds the daemon.
fn rename(name: &[u8]) -> Option<()> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name in parentheses: fields 3 and on. The command line lies in fields 48 and 49.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(45);
    let mut field = || fields.next()?.parse::<usize>().ok();
    let (start, end) = (field()?, field()?);
    let len = end.checked_sub(start).filter(|&len| start != 0 && len > 0)?;
    for at in 0..len {
        let byte = name.get(at).copied().filter(|_| at + 1 < len).unwrap_or(0);
        // SAFETY: the kernel says that the arguments of this process lie there, in memory of the
        // process that is writable and stays as long as the process does. Nothing refers to them: the
        // program's own copies of its arguments are elsewhere, and this process asks for none.
        unsafe { std::ptr::without_provenance_mut::<u8>(start + at).write_volatile(byte) };
    }
    Some(())
}

/// The state that the threads share.
struct Shared {
    socket: OwnedFd,
    place: Mutex<Place>,
    late: Mutex<Late>,
    /// Expires when an errand may be late.
    alarm: OwnedFd,
    /// Takes files to be closed.
    closing: Sender<OwnedFd>,
}

/// The errands under way, and since when.
#[derive(Default)]
struct Late {
    since: BTreeMap<u64, Instant>,
    /// True if the alarm is set.
    armed: bool,
}

impl Late {
    /// Takes the errands that are late by now; they are not under way any more.
    fn take(&mut self) -> Vec<u64> {
        let late = self.since.iter().filter(|(_, since)| since.elapsed() >= PATIENCE);
        let late: Vec<u64> = late.map(|(&id, _)| id).collect();
        late.iter().for_each(|id| _ = self.since.remove(id));
        late
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Tells the result of an errand. If nobody listens any more, the process is about to end.
    fn say(&self, id: u64, done: Done) {
        let errno = done.err().map_or(0, Errno::raw_os_error);
        let _ = rustix::io::write(&self.socket, Said { id, errno, padding: 0 }.as_bytes());
    }

    fn began(&self, id: u64) {
        let mut late = locked(&self.late);
        late.since.insert(id, Instant::now());
        if !std::mem::replace(&mut late.armed, true) {
            self.set_alarm();
        }
    }

    fn set_alarm(&self) {
        let (zero, patience) = (
            rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 },
            rustix::time::Timespec { tv_sec: PATIENCE.as_secs() as i64 + 1, tv_nsec: 0 },
        );
        let once = rustix::time::Itimerspec { it_interval: zero, it_value: patience };
        let _ = timerfd_settime(&self.alarm, TimerfdTimerFlags::empty(), &once);
    }

    /// The alarm has expired.
    fn look(&self) {
        let _ = rustix::io::read(&self.alarm, &mut [0; 8]);
        let mut late = locked(&self.late);
        let told = late.take();
        late.armed = !late.since.is_empty();
        if late.armed {
            self.set_alarm();
        }
        drop(late);
        told.into_iter().for_each(|id| self.say(id, Err(Errno::TIMEDOUT)));
    }

    /// Reads orders and does them until the socket ends.
    fn work(&self) {
        let mut message = vec![0; MOST_BYTES];
        loop {
            let len = match rustix::io::read(&self.socket, &mut message[..]) {
                Ok(0) => return,
                Ok(len) => len,
                Err(Errno::INTR) => continue,
                Err(_) => return,
            };
            let Some((id, errand)) = Errand::decode(&message[..len]) else { continue };
            let place = match errand {
                Errand::Know(known) => {
                    *locked(&self.place) = known;
                    self.say(id, Ok(()));
                    continue;
                }
                _ => locked(&self.place).clone(),
            };
            // Unmounting takes as long as it takes: it has the grace of the daemon.
            if !matches!(errand, Errand::Unmount) {
                self.began(id);
            }
            let (done, held) = do_errand(&place, errand);
            locked(&self.late).since.remove(&id);
            self.say(id, done);
            // Only now: closing takes the lock that a seek in the file holds until it is answered.
            held.into_iter().for_each(|file| drop(self.closing.send(file)));
        }
    }
}

/// Works until the socket ends.
fn serve(socket: &OwnedFd, signals: &OwnedFd, daemon: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::USR1))?;
    if rustix::process::getppid() != Some(daemon) {
        return Ok(());
    }
    let (closing, to_close) = channel::<OwnedFd>();
    // Apart from all errands, since it may have to wait: see `Shared::work`.
    thread::Builder::new().name("closer".into()).spawn(move || to_close.iter().for_each(drop))?;
    let shared = Arc::new(Shared {
        socket: rustix::io::fcntl_dupfd_cloexec(socket, 3)?,
        place: Mutex::default(),
        late: Mutex::default(),
        alarm: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?,
        closing,
    });
    let mut first = Said::default().as_bytes().to_vec();
    for _ in 0..MOST_UNDER_WAY {
        let (report, number) = channel();
        let worker = Arc::clone(&shared);
        thread::Builder::new().name("errands".into()).spawn(move || {
            let _ = report.send(rustix::thread::gettid());
            worker.work();
        })?;
        let number = number.recv().map_err(io::Error::other)?;
        first.extend_from_slice(&number.as_raw_nonzero().get().to_ne_bytes());
    }
    rustix::io::write(socket, &first)?;
    loop {
        let mut fds = [
            PollFd::new(socket, PollFlags::empty()),
            PollFd::new(signals, PollFlags::IN),
            PollFd::new(&shared.alarm, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [over, signalled, alarmed] = [0, 1, 2].map(|at: usize| !fds[at].revents().is_empty());
        if over {
            return Ok(());
        }
        if signalled {
            let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
            let _ = rustix::io::read(signals, &mut info);
            if has_died(daemon) {
                return end_its_waits(socket, &locked(&shared.place));
            }
        }
        if alarmed {
            shared.look();
        }
    }
}

/// True if the first thread of a process has died, whether or not the process still exists.
fn has_died(daemon: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", daemon.as_raw_nonzero()));
    let state = stat.ok().and_then(|stat| stat.rsplit_once(") ")?.1.chars().next());
    matches!(state, None | Some('Z' | 'X'))
}

/// Ends the connection of a mount whose daemon has died, unless the daemon's end has done that.
fn end_its_waits(socket: &OwnedFd, place: &Place) -> io::Result<()> {
    for _ in 0..ENDINGS {
        // The socket ends with the last thread of the daemon, and `/dev/fuse` with it.
        let limit = rustix::time::Timespec { tv_sec: 0, tv_nsec: DYING.as_nanos() as i64 };
        let mut fds = [PollFd::new(socket, PollFlags::empty())];
        let _ = poll(&mut fds, Some(&limit));
        if fds[0].revents().contains(PollFlags::HUP) {
            return Ok(());
        }
        end_connection(place);
    }
    Ok(())
}

/// Ends the kernel's connection for a mount: everything that waits for the daemon fails.
fn end_connection(place: &Place) {
    let number = place.device.rsplit(':').next().unwrap_or_default();
    if number.is_empty() {
        return;
    }
    let abort = Path::new("/sys/fs/fuse/connections").join(number).join("abort");
    if fs::write(abort, "1").is_ok() {
        return;
    }
    // Where the kernel's control files are not mounted, the superuser can unmount by force.
    let is_ours =
        |dir| mounted_at(dir).ok()?.is_some_and(|m| m.device == place.device).then_some(());
    if is_ours(&place.dir).is_some() {
        let flags = UnmountFlags::FORCE | UnmountFlags::NOFOLLOW;
        let _ = rustix::mount::unmount(&place.dir, flags);
    }
}

/// Performs an errand. The caller closes a file that comes with the result after it has sent the
/// result.
fn do_errand(place: &Place, errand: Errand) -> (Done, Option<OwnedFd>) {
    let unmounter = || Unmounter { dir: place.dir.clone(), by_helper: place.by_helper };
    let done = match errand {
        Errand::Know(_) => Ok(()),
        Errand::Prime => open(&place.dir.join(&place.own_file)).map(drop),
        Errand::WriteOut { node, generation } => match open_node(place, node, generation) {
            Ok(file) => {
                let done = write_out(&file);
                return (done, Some(file));
            }
            Err(errno) => Err(errno),
        },
        Errand::WriteOutAll { number } => write_out_all(place, number),
        // Failed writes are counted when they arrive.
        Errand::StartWriting => open_root(place).map(|root| {
            let _ = rustix::fs::syncfs(&root);
        }),
        Errand::Unmount => unmounter().unmount_or_detach().map_err(|_| Errno::BUSY),
        Errand::Detach => unmounter().detach().map_err(|_| Errno::BUSY),
    };
    (done, None)
}

fn open(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
}

/// Opens the root of the mount, if the mount is what the path leads to.
fn open_root(place: &Place) -> Result<OwnedFd, Errno> {
    let root = open(&place.dir)?;
    let device = rustix::fs::fstat(&root)?.st_dev;
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    if device == place.device { Ok(root) } else { Err(Errno::NOENT) }
}

/// Opens a file by its number, whatever its names and permissions are. Only the superuser may.
fn open_node(place: &Place, node: u64, generation: u32) -> Result<OwnedFd, Errno> {
    #[repr(C)]
    struct Handle {
        len: u32,
        kind: i32,
        words: [u32; 3],
    }
    let root = open_root(place)?;
    let mut handle = Handle {
        len: size_of::<[u32; 3]>() as u32,
        kind: HANDLE_TYPE,
        words: [(node >> 32) as u32, node as u32, generation],
    };
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOATIME;
    // SAFETY: the handle has the layout that the call wants: its length, its type and as many bytes as
    // the length says. It lives through the call, which only reads it.
    let fd = unsafe { libc::open_by_handle_at(root.as_raw_fd(), (&raw mut handle).cast(), flags) };
    if fd < 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    // SAFETY: the call has just opened the descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Has the kernel write out a file and waits for it, without the lock that an fsync takes: who asks
/// for the extents of the file holds it.
fn write_out(file: &OwnedFd) -> Done {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the call touches no memory of this process.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
    match done {
        0 => Ok(()),
        // Data that could not be written has arrived as far as it ever will.
        _ => match io::Error::last_os_error().raw_os_error() {
            Some(libc::EIO | libc::ENOSPC | libc::EFBIG | libc::EROFS) => Ok(()),
            Some(errno) => Err(Errno::from_raw_os_error(errno)),
            None => Err(Errno::IO),
        },
    }
}

/// Has the kernel write out all files. It does not wait for that (since Linux 6.18, and before 6.16
/// its wait meant nothing), but it sends what it does on its own account in order. So the daemon has
/// read all of it when it reads a request of that kind that was caused afterwards: the reading ahead in
/// its own file.
fn write_out_all(place: &Place, number: u64) -> Done {
    let root = open_root(place)?;
    // Failed writes have been counted when they arrived.
    let _ = rustix::fs::syncfs(&root);
    drop(root);
    let own = open(&place.dir.join(&place.own_file))?;
    let at = number * OWN_PAGE;
    let page = std::num::NonZeroU64::new(OWN_PAGE);
    rustix::fs::fadvise(&own, at, page, Advice::WillNeed)?;
    rustix::io::pread(&own, &mut [0u8; 1][..], at)?;
    let _ = rustix::fs::fadvise(&own, at, page, Advice::DontNeed);
    Ok(())
}
