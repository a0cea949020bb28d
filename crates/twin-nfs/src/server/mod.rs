//! The server: takes a call, executes its operations and makes the reply.
//!
//! Contract: [`Server::answer`] may run any number of times at once, on one thread. It accepts any
//! bytes. Each call stands alone: what it needs of earlier ones is in its handle, and what the
//! server remembers (replies to repeat, operations under way) may be forgotten at any time.

mod data;
mod dirs;
mod files;
mod gate;
mod held_inode;
mod leases;
mod mount;
mod names;
mod portmap;
pub mod proc;

pub(crate) use dirs::LISTING_MAX;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_disk::Bytes;
use twin_fs::quota::Quota;
use twin_fs::{FileSystem, Ino, Op, Reply, Request, Volume};
use twin_rt::BoxFuture;

use crate::changing::Changing;
use crate::export::{Export, Peer};
use crate::handle::{Keys, keyed};
use crate::lease;
use crate::replies::{Known, ReplyCache};
use crate::rpc::{self, Call, Refusal};
use crate::status::Status;
use crate::xdr::{Garbage, Reader, Writer};

/// The abilities of the files of a volume, for replies that tell clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest file, in bytes.
    pub file_bytes_max: u64,
    /// The most names of an inode.
    pub link_max: u32,
    /// The seconds of times that the volume can store.
    pub seconds: (i64, i64),
    /// Times are exact to a nanosecond; otherwise to a second.
    pub nanoseconds: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        let seconds = (0, u32::MAX.into());
        Limits { file_bytes_max: i64::MAX as u64, link_max: 65_000, seconds, nanoseconds: true }
    }
}

/// What a server needs of a file system. Behind it a server is one type and its code is made once, not by every
/// crate that awaits an answer of another file system.
trait Beneath {
    fn execute(&self, request: Request) -> BoxFuture<'_, twin_fs::Result<Reply>>;
    fn quota_of(&self, ino: Ino) -> Option<Quota>;
}

impl<F: FileSystem> Beneath for Rc<F> {
    fn execute(&self, request: Request) -> BoxFuture<'_, twin_fs::Result<Reply>> {
        Box::pin(F::execute(self, request))
    }

    fn quota_of(&self, ino: Ino) -> Option<Quota> {
        F::quota_of(self, ino)
    }
}

/// A volume that a server serves.
pub struct Served {
    fs: Box<dyn Beneath>,
    keys: Keys,
    limits: Limits,
    /// The number of times that data was lost which clients had written.
    losses: Box<dyn Fn() -> u64>,
    /// True if the volume takes no more changes because it failed.
    stopped: Box<dyn Fn() -> bool>,
    next_id: Cell<u64>,
    changing: Changing,
}

impl Served {
    /// A volume. `losses` returns a number that rises whenever written data is lost.
    pub fn new(
        fs: Rc<impl FileSystem>,
        keys: Keys,
        limits: Limits,
        losses: impl Fn() -> u64 + 'static,
    ) -> Served {
        let (next_id, changing) = (Cell::new(1), Changing::default());
        let (losses, stopped) = (Box::new(losses), Box::new(|| false));
        Served { fs: Box::new(fs), keys, limits, losses, stopped, next_id, changing }
    }

    /// The same, of a volume that takes no more changes after a failure, as `stopped` tells.
    #[must_use]
    pub fn stopping(self, stopped: impl Fn() -> bool + 'static) -> Served {
        Served { stopped: Box::new(stopped), ..self }
    }

    /// True if these are the keys of the volume.
    pub fn is_of(&self, keys: &Keys) -> bool {
        self.keys == *keys
    }

    /// Executes an operation on the volume for the user `cred`.
    async fn run(&self, cred: twin_fs::Cred, op: Op) -> twin_fs::Result<Reply> {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        self.fs.execute(Request { id, client: 0, cred, op }).await
    }

    /// An open volume, with the limits of its layout. It loses data when it stops: once.
    pub fn of(volume: &Volume, keys: Keys) -> Served {
        let features = &volume.core().features;
        let limits = Limits {
            file_bytes_max: features.file_bytes_max.min(i64::MAX as u64),
            link_max: features.link_max,
            seconds: features.seconds,
            nanoseconds: features.nanoseconds,
        };
        let weak = Rc::downgrade(volume.core());
        let stopped = move || {
            let core = weak.upgrade();
            core.is_none_or(|core| core.poisoned().is_some())
        };
        let losses = stopped.clone();
        Served::new(Rc::new(volume.clone()), keys, limits, move || u64::from(losses()))
            .stopping(stopped)
    }
}

/// Counters of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls of each NFS procedure, whether or not they succeeded.
    pub calls: [u64; proc::COUNT],
    /// Calls of the programs MOUNT and portmapper.
    pub other_calls: u64,
    /// Calls that got an error of RPC, because they were malformed or asked for what is not there.
    pub refused: u64,
    /// Records that were not even calls.
    pub nonsense: u64,
    /// Calls that the rules of exports turned away.
    pub forbidden: u64,
    /// Calls that had been made before.
    pub repeated: u64,
}

/// Answers the calls of clients. See the module.
pub struct Server {
    volumes: Vec<Served>,
    exports: Vec<Export>,
    /// Differs from start to start.
    boot: u64,
    port: Cell<u16>,
    replies: ReplyCache,
    leases: Option<gate::Leases>,
    counters: RefCell<Counters>,
}

/// A call while it is being executed.
#[derive(Clone, Copy)]
struct Context<'a> {
    peer: Peer,
    call: &'a Call,
    record: &'a Bytes,
    /// The lease under which it is made.
    under: Option<gate::Under>,
}

impl Server {
    /// A server of volumes, through exports. `boot` is random: it differs from start to start, and
    /// clients cannot guess it.
    ///
    /// # Panics
    /// If an export names a volume that is not there.
    pub fn new(boot: [u8; 16], volumes: Vec<Served>, exports: Vec<Export>) -> Server {
        assert!(exports.iter().all(|export| export.volume < volumes.len()));
        Server {
            volumes,
            exports,
            boot: keyed(&boot, b"twinfs: write verifiers"),
            port: Cell::new(0),
            replies: ReplyCache::new(boot),
            leases: None,
            counters: RefCell::default(),
        }
    }

    /// Sets the port that the portmapper answers with.
    pub fn set_port(&self, port: u16) {
        self.port.set(port);
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        let repeated = self.replies.repeated();
        Counters { repeated, ..self.counters.borrow().clone() }
    }

    /// No less than the longest reply that depends on the exports: their list.
    pub fn longest_list(&self) -> usize {
        let mut out = Writer::default();
        self.list_exports(&mut out);
        out.len() + 256
    }

    /// The exports of the server, in the order in which they were given.
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.counters.borrow_mut());
    }

    /// Executes the call in a record and returns the reply, with its record mark. `None` if the
    /// bytes are no call, so that there is nothing to answer.
    pub fn answer(&self, peer: Peer, record: Bytes) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(self.answered(peer, record))
    }

    async fn answered(&self, peer: Peer, record: Bytes) -> Option<Vec<u8>> {
        let refuse = |xid: Option<u32>, refusal| {
            self.count(|counters| match refusal {
                Refusal::Silent => counters.nonsense += 1,
                _ => counters.refused += 1,
            });
            rpc::refused(xid, refusal)
        };
        let call = match rpc::parse(&record) {
            Ok(call) => call,
            Err((xid, refusal)) => return refuse(xid, refusal),
        };
        let context = Context { peer, call: &call, record: &record, under: None };
        let once = match (call.program, call.version) {
            (proc::NFS, 3) => proc::is_changing(call.procedure),
            _ => Self::once(&call, &record),
        };
        if !once {
            return match self.execute(context).await {
                Ok(reply) => Some(reply),
                Err(refusal) => refuse(Some(call.xid), refusal),
            };
        }
        let key = self.replies.key(peer.address, call.xid, &record);
        match self.replies.begin(key) {
            Known::New => {}
            Known::Done(reply) => return Some(reply.to_vec()),
            Known::Running(event) => {
                event.wait().await;
                return self.replies.reply(key).map(|reply| reply.to_vec());
            }
        }
        let reply = match self.execute(context).await {
            Ok(reply) => reply,
            Err(refusal) => refuse(Some(call.xid), refusal).unwrap_or_default(),
        };
        self.replies.finish(key, &reply);
        Some(reply)
    }

    async fn execute(&self, context: Context<'_>) -> Result<Vec<u8>, Refusal> {
        let Context { call, record, .. } = context;
        let args = &record[call.args_at..];
        let mut out = rpc::accepted(call.xid);
        let done = match (call.program, call.version) {
            (proc::NFS, 3) => {
                let Some(count) = proc::index(call.procedure) else {
                    return Err(Refusal::Procedure);
                };
                self.count(|counters| counters.calls[count] += 1);
                self.nfs(context, Reader::new(args), &mut out).await
            }
            (proc::MOUNT, 3) => {
                self.count(|counters| counters.other_calls += 1);
                self.mount(context, Reader::new(args), &mut out).await?
            }
            (proc::PORTMAP, 2) => {
                self.count(|counters| counters.other_calls += 1);
                self.portmap(context, Reader::new(args), &mut out)?
            }
            (lease::proc::LEASE, lease::proc::VERSION) => {
                self.count(|counters| counters.other_calls += 1);
                self.lease(context, Reader::new(args), &mut out).await?
            }
            (proc::NFS | proc::MOUNT, _) => return Err(Refusal::Version(3, 3)),
            (proc::PORTMAP, _) => return Err(Refusal::Version(2, 2)),
            _ => return Err(Refusal::Program),
        };
        match done {
            Ok(()) => Ok(rpc::finish(out)),
            Err(Garbage) => Err(Refusal::Arguments),
        }
    }

    async fn nfs(&self, c: Context<'_>, args: Reader<'_>, out: &mut Writer) -> Result<(), Garbage> {
        let at = out.len();
        self.procedure(c, args, out).await?;
        if let Some(status) = out.u32_at(at).filter(|&status| tells_of_names(status))
            && c.call.procedure != proc::NULL
        {
            let handle =
                Reader::new(&c.record[c.call.args_at..]).opaque(crate::handle::HANDLE_MAX)?;
            if self.doubts(handle, status).await {
                // The rest of the reply is the same for every error.
                out.set_u32(at, Status::Io as u32);
            }
        }
        Ok(())
    }

    /// True if an error is in doubt because it says something about names and files. The memory of
    /// a volume is ahead of its disk: a file whose removal has not been answered yet is gone in
    /// memory, but if the disk fails, the removal fails, and the file is there after a restart. So
    /// no client may be told for good that such a file does not exist.
    async fn doubts(&self, handle: &[u8], status: u32) -> bool {
        let fields = handle.try_into().map(crate::handle::parse);
        let volume = fields.ok().and_then(|fields| {
            self.volumes.iter().find(|volume| volume.keys.volume == fields.volume)
        });
        let Some(volume) = volume else { return false };
        if status == Status::Stale as u32 {
            // The change is durable when the calls that make it durable have ended.
            volume.changing.ends().await;
        }
        (volume.stopped)()
    }

    async fn procedure(
        &self,
        c: Context<'_>,
        args: Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Garbage> {
        match c.call.procedure {
            proc::NULL => args.end(),
            proc::GETATTR => self.getattr(c, args, out).await,
            proc::SETATTR => self.setattr(c, args, out).await,
            proc::LOOKUP => self.lookup(c, args, out).await,
            proc::ACCESS => self.access(c, args, out).await,
            proc::READLINK => self.readlink(c, args, out).await,
            proc::READ => self.read(c, args, out).await,
            proc::WRITE => self.write(c, args, out).await,
            proc::CREATE => self.create(c, args, out).await,
            proc::MKDIR => self.mkdir(c, args, out).await,
            proc::SYMLINK => self.symlink(c, args, out).await,
            proc::MKNOD => self.mknod(c, args, out).await,
            proc::REMOVE => self.remove(c, args, out, false).await,
            proc::RMDIR => self.remove(c, args, out, true).await,
            proc::RENAME => self.rename(c, args, out).await,
            proc::LINK => self.link(c, args, out).await,
            proc::READDIR => self.readdir(c, args, out, false).await,
            proc::READDIRPLUS => self.readdir(c, args, out, true).await,
            proc::FSSTAT => self.fsstat(c, args, out).await,
            proc::FSINFO => self.fsinfo(c, args, out).await,
            proc::PATHCONF => self.pathconf(c, args, out).await,
            _ => self.commit(c, args, out).await,
        }
    }

    /// The write verifier of a volume now: it differs from start to start, and after each loss of
    /// written data.
    fn verifier(&self, volume: &Served) -> u64 {
        let losses = (volume.losses)();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.boot.to_le_bytes());
        keyed(&bytes, &losses.to_le_bytes())
    }
}

/// True for the errors that say that something is there or is not.
fn tells_of_names(status: u32) -> bool {
    [Status::NoEntry, Status::Exists, Status::NotEmpty, Status::Stale]
        .iter()
        .any(|&of_names| of_names as u32 == status)
}
