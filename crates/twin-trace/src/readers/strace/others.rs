//! Calls of no other file: those that touch no files, and those of which it is not known.
//!
//! Contract: a call is passed if it is known to change no file, or has no descriptor of one. Others are left out
//! with a reason.

use super::call::Call;
use super::maker::Maker;
use super::table::Slot;
use super::world::{Step, Stop};

/// Calls that change no file, though they may have descriptors of files.
const QUIET: &[&str] = &[
    "fadvise64",
    "fadvise64_64",
    "arm_fadvise64_64",
    "readahead",
    "sync_file_range",
    "sync_file_range2",
    "flock",
    "fstatfs",
    "fstatfs64",
    "statfs",
    "statfs64",
    "poll",
    "ppoll",
    "select",
    "_newselect",
    "pselect6",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "munmap",
    "mprotect",
    "madvise",
    "mremap",
    "msync",
    "inotify_add_watch",
    "inotify_rm_watch",
    "fanotify_mark",
    "cachestat",
    "kcmp",
    "sendmsg",
    "sendto",
    "recvfrom",
    "recvmsg",
    "close_range",
    "name_to_handle_at",
    "uselib",
    "swapoff",
    "landlock_add_rule",
    "tee",
    "vmsplice",
    "finit_module",
    "bpf",
    "perf_event_open",
];

impl Maker {
    /// Calls that are not known: do they touch files?
    pub(super) fn of_others(&mut self, call: &Call, pid: u32) -> Step<()> {
        call.result.ok_or(Stop::Failed)?;
        match call.name.as_str() {
            "io_uring_setup" | "io_uring_enter" | "io_uring_register" => {
                return Err(Stop::Left("calls, whose reads and writes are not in the text"));
            }
            "io_getevents" | "io_pgetevents" | "io_setup" | "io_destroy" => {
                return Err(Stop::NoFile);
            }
            "mount" | "umount" | "umount2" | "move_mount" | "chroot" | "pivot_root" | "setns"
            | "open_tree" => {
                return Err(Stop::Left("calls, after which paths may mean other files"));
            }
            "mmap" | "mmap2" => return self.mapped(call, pid),
            name if QUIET.contains(&name) => return Err(Stop::NoFile),
            _ => {}
        }
        let touches = (0..call.args.len()).any(|arg| {
            let Some((fd, path)) = call.descriptor(arg) else { return false };
            match path {
                Some(path) => path.is_file(),
                None => {
                    arg == 0
                        && fd > 2
                        && matches!(self.processes.slot(pid, fd), Some(Slot::File(_)))
                }
            }
        });
        match touches {
            true => Err(Stop::Left("calls on files, of which it is not known what they do")),
            false => Err(Stop::NoFile),
        }
    }

    /// Memory that is a file: what is read and written there has no calls.
    fn mapped(&mut self, call: &Call, pid: u32) -> Step<()> {
        if call.has(3, "MAP_ANONYMOUS", 0x20) {
            return Err(Stop::NoFile);
        }
        self.file(call, pid, 4)?;
        let is_shared = call.has(3, "MAP_SHARED", 1) || call.has(3, "MAP_SHARED_VALIDATE", 3);
        let what = match is_shared && call.has(2, "PROT_WRITE", 2) {
            true => {
                "mappings of files are shared and writable: what is written through them is not in the \
                 text"
            }
            false => "mappings of files: what is read through them is not in the text",
        };
        self.world.reading.assume_of(1, what);
        Err(Stop::NoFile)
    }
}
