//! The arguments of `twinfs mount` and `twinfs umount`.

use std::path::PathBuf;

use clap::Args;
use twin_host::QueueChoice;
use twin_lab::log_categories;
use twin_rt::Categories;

use super::{Beside, ObserveMount, log_help};
use crate::choices::{disk_queue, disk_queue_help, replacement, replacement_help};
use crate::size::Size;

/// Mount a volume. Returns once it is mounted; a process in the background serves it.
///
/// Stop it with `twinfs umount DIR` (or umount, or SIGTERM to that process): everything is on disk
/// when the process has gone. After a crash the next mount recovers what had been fsynced.
///
/// The kernel does not tell a FUSE server of sync(2) and syncfs(2): it hands over what it has
/// collected, and returns. What it hands over is on the device within two seconds, so wait for
/// these after `sync`; only fsync, fdatasync and `twinfs umount` return when it is there.
#[derive(Args)]
pub(crate) struct Mount {
    /// Stay in the foreground and print what happens.
    #[arg(long, short)]
    pub(crate) foreground: bool,
    /// Allow no changes.
    #[arg(long, short)]
    pub(crate) read_only: bool,
    /// Options as mount(8) has them: suid or nosuid, dev or nodev, exec or noexec, ro or rw. An
    /// ordinary user's mounts are nosuid,nodev. Root's are unless root alone can have made what is in
    /// the image: its file (or device, and what that lies on) belongs to root, and nobody else may
    /// write to it; `-o suid,dev` trusts another one.
    #[arg(short = 'o', long = "options", value_name = "LIST", value_delimiter = ',')]
    pub(crate) options: Vec<MountChoice>,
    /// Memory for blocks, in bytes.
    #[arg(long, default_value = "256M")]
    pub(crate) cache: Size,
    #[arg(long, value_name = "POLICY", value_parser = replacement, help = replacement_help(),
        default_value = twin_cache::replacement::REGISTRY.first().name)]
    pub(crate) replacement: &'static str,
    /// Memory that the daemon may take in all, in place of --cache: blocks get what is left beside
    /// what they take with them. `twinfs stat DIR` tells what it has.
    #[arg(long, value_name = "SIZE", conflicts_with = "cache")]
    pub(crate) memory: Option<Size>,
    /// Pass every write on at once. Otherwise the kernel collects writes until the file is closed
    /// or fsynced, or for some seconds. When room gets short it has to ask before each write, so
    /// that a full volume says so in the write itself; what is left is one write of more than some
    /// MiB, and mapped memory: of these close, fsync and msync tell. Before Linux 5.16 they tell of
    /// every write. With --record, the recording has writes as they were made.
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) write_through: bool,
    /// Let other users in (an ordinary user needs user_allow_other in /etc/fuse.conf). Root's
    /// mounts always do.
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Microseconds to look for the next request before sleeping.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 200)]
    pub(crate) spin: u32,
    /// Use ordinary I/O through the host's page cache, not direct I/O.
    #[arg(long)]
    pub(crate) buffered: bool,
    /// Do not use io_uring.
    #[arg(long)]
    pub(crate) no_io_uring: bool,
    /// Files are of the type that their attributes name (user.twinfs.type, .rate, .replacement):
    /// docs/media.md.
    #[arg(long)]
    pub(crate) file_types: bool,
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = disk_queue,
          help = disk_queue_help())]
    pub(crate) queue: QueueChoice,
    /// How the log is cleaned, as victim=twin,placement=twin,when=idle: which segment is cleaned
    /// first, which blocks are written together, and when the cleaner works although no
    /// operation waits for it (it always begins when clean segments get few). A log only. The policies are
    /// listed by `twinfs compare --list`.
    #[arg(long, value_name = "LIST", default_value = "", conflicts_with = "read_only")]
    pub(crate) cleaner: String,
    /// Where blocks of FFS go, as whole-file (see `twinfs compare --list`).
    #[arg(long, value_name = "POLICY", conflicts_with = "read_only")]
    pub(crate) alloc: Option<String>,
    /// When changes that nobody asked to be durable are written: a policy, as update or
    /// delayed:flush-age=10s,flush-by=needer. It replaces the limit of two seconds: a crash may lose
    /// what the policy had not written yet, for how long is up to it (`twinfs frontier` shows it).
    /// fsync and unmounting write as always. The policies are listed by `twinfs compare --list`.
    #[arg(long, value_name = "POLICY", conflicts_with_all = ["read_only", "flight"])]
    pub(crate) flush: Option<String>,
    /// Write what the log does into this file twice a second and at the end, as JSON: for
    /// `twinfs top --mount FILE`. A log only.
    #[arg(long, value_name = "FILE")]
    pub(crate) status: Option<PathBuf>,
    /// Write down every operation in this file, for replays: names and sizes, no contents.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// With --record: keep contents too.
    #[arg(long, requires = "record", conflicts_with = "flight")]
    pub(crate) contents: bool,
    /// Log everything that enters the core in this file, so that `twinfs replay --verify` can
    /// repeat the run.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "observe"])]
    pub(crate) flight: Option<PathBuf>,
    #[arg(long, value_name = "CATEGORIES", value_parser = log_categories, help = log_help())]
    pub(crate) log: Option<Categories>,
    /// With --log: the file to which lines are added. A mount in the background needs one.
    #[arg(long, value_name = "FILE", requires = "log")]
    pub(crate) log_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) observe: ObserveMount,
    /// The new file to which figures of --observe go, as comma-separated values.
    #[arg(long, value_name = "FILE", requires = "observe")]
    pub(crate) observed: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) nfs: Beside,
    /// The image file or block device.
    pub(crate) image: PathBuf,
    /// Where to mount it: an existing directory.
    pub(crate) dir: PathBuf,
}

/// An option of mount(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MountChoice {
    Suid,
    Nosuid,
    Dev,
    Nodev,
    Exec,
    Noexec,
    Ro,
    Rw,
}

impl MountChoice {
    /// What it says of set-id bits.
    pub(crate) fn is_suid(self) -> Option<bool> {
        self.says(MountChoice::Suid, MountChoice::Nosuid)
    }

    /// What it says of device nodes.
    pub(crate) fn is_dev(self) -> Option<bool> {
        self.says(MountChoice::Dev, MountChoice::Nodev)
    }

    /// What it says of programs.
    pub(crate) fn is_exec(self) -> Option<bool> {
        self.says(MountChoice::Exec, MountChoice::Noexec)
    }

    /// What it says of changes.
    pub(crate) fn is_read_only(self) -> Option<bool> {
        self.says(MountChoice::Ro, MountChoice::Rw)
    }

    fn says(self, yes: MountChoice, no: MountChoice) -> Option<bool> {
        (self == yes || self == no).then_some(self == yes)
    }
}

/// Unmount a directory. Returns once everything is on disk and the background process has gone.
///
/// A volume that could not be written (its disk failed, the host is full) is unmounted too, with
/// an error that says so.
#[derive(Args)]
pub(crate) struct Umount {
    /// Where it is mounted.
    pub(crate) dir: PathBuf,
    /// Say what it waits for, and return, when it has not ended after so many seconds; it goes on
    /// in the background. 0: wait however long it takes.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub(crate) limit: u64,
    /// Print what is waited for: the part in the background.
    #[arg(long, hide = true)]
    pub(crate) tell: bool,
}
