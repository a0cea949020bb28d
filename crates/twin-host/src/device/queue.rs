//! The driver's queue of a device: the order in which its requests reach the kernel.
//!
//! Contract: reads and writes beyond the number that the device takes at once wait in a queue of
//! [`twin_disk::queue`], the code of simulated disks too. Flushes and discards pass. Without a queue
//! everything passes. What the kernel says of the device decides, unless the user does: a rotating
//! disk has a queue that sorts, any other device none. A device takes as many requests at once as its
//! own queue holds (NCQ, tagged queueing), or else the kernel's queue of that device.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use rustix::fs::{Stat, major, minor};
use twin_disk::IoKind;
use twin_disk::queue::{self, ByDistance, Maker, Scheduler, SchedulerInput, Waiting};
use twin_rt::Time;
use twin_settings::{Named, RegistryEntry, SettingsError, grammar, outside};

use super::Transfer;

/// The directory in which the kernel describes block devices by number.
const SYSFS: &str = "/sys/dev/block";
/// The name of passing everything on.
const NONE: &str = "none";
/// The name of deciding by what the kernel says.
const AUTOMATIC: &str = "auto";
/// The setting of a queue.
const DEPTH: &str = "depth";

/// The queue of an image, as it was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub enum QueueChoice {
    /// The queue that suits the device, as the kernel describes it.
    #[default]
    Automatic,
    /// No queue: every request goes to the device at once.
    PassThrough,
    /// This one; with the number of requests that the device takes at once, if it was given.
    Sorted(&'static RegistryEntry<Maker>, Option<u32>),
}

impl QueueChoice {
    /// Parses `auto`, `none`, or a queue's name, as `c-look` or `c-look:depth=4`.
    ///
    /// # Errors
    /// If there is no such queue or setting.
    pub fn parse(text: &str) -> Result<QueueChoice, SettingsError> {
        let named = Named::parse(text)?;
        let mut depth = None;
        for setting in grammar::settings(named.settings)? {
            if setting.key != DEPTH {
                return Err(SettingsError::unknown("setting of a queue", setting.key, [DEPTH]));
            }
            let number = setting.value.parse().ok().filter(|&n: &u32| n > 0);
            let wrong = || {
                SettingsError::new(format!("{DEPTH}={}: give a number from 1 on", setting.value))
            };
            depth = Some(number.ok_or_else(wrong)?);
        }
        match (named.name, depth) {
            (AUTOMATIC, None) => Ok(QueueChoice::Automatic),
            (NONE, None) => Ok(QueueChoice::PassThrough),
            (AUTOMATIC | NONE, Some(_)) => {
                Err(SettingsError::new(format!("{DEPTH} is for a queue that is named")))
            }
            (name, depth) => match queue::REGISTRY.reach(name) {
                Ok(entry) => Ok(QueueChoice::Sorted(entry, depth)),
                Err(why) if outside::is_path(name) => Err(why),
                Err(_) => {
                    let names = queue::REGISTRY.names().chain([AUTOMATIC, NONE]);
                    Err(SettingsError::unknown("disk queue", name, names))
                }
            },
        }
    }

    /// The names that it can have.
    pub fn names() -> Vec<&'static str> {
        [AUTOMATIC, NONE].into_iter().chain(queue::REGISTRY.names()).collect()
    }
}

/// The kernel's description of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Described {
    rotates: bool,
    /// Requests that it takes at once.
    depth: u32,
}

/// Reads the kernel's description, below `root`, of the device with this number; `None` for a file
/// on no device of its own (in memory, over a network).
fn described(root: &Path, device: u64) -> Option<Described> {
    let place = root.join(format!("{}:{}", major(device), minor(device)));
    // A partition has no queue of its own; its disk is the directory above.
    let number = |dir: &PathBuf, file: &str| -> Option<u32> {
        std::fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()
    };
    let place = std::fs::canonicalize(place).ok()?;
    let dirs = [place.clone(), place.parent()?.to_path_buf()];
    let disk = dirs.iter().find(|dir| dir.join("queue/rotational").exists())?;
    let depth = number(disk, "device/queue_depth").or_else(|| number(disk, "queue/nr_requests"));
    let rotates = number(disk, "queue/rotational")? != 0;
    Some(Described { rotates, depth: depth.unwrap_or(1).max(1) })
}

/// The queue of an open device.
pub(super) struct DriverQueue {
    name: &'static str,
    depth: usize,
    state: RefCell<Option<State>>,
}

struct State {
    scheduler: Box<dyn Scheduler>,
    /// Numbers given to waiting transfers so far, and those of them that are free again.
    numbers: u32,
    free: Vec<u32>,
    seq: u64,
    under_way: usize,
    /// The byte behind the request that was handed over last.
    head_at: u64,
}

impl DriverQueue {
    /// The queue for an image that was opened with this choice.
    pub(super) fn of(choice: QueueChoice, image: &Stat, is_device: bool) -> DriverQueue {
        let device = if is_device { image.st_rdev } else { image.st_dev };
        DriverQueue::chosen(choice, described(Path::new(SYSFS), device))
    }

    fn chosen(choice: QueueChoice, kernel: Option<Described>) -> DriverQueue {
        let (entry, depth) = match (choice, kernel) {
            (QueueChoice::Automatic, Some(Described { rotates: true, depth })) => {
                (queue::for_rotating(), depth)
            }
            (QueueChoice::Automatic | QueueChoice::PassThrough, _) => {
                return DriverQueue { name: NONE, depth: usize::MAX, state: RefCell::new(None) };
            }
            (QueueChoice::Sorted(entry, depth), kernel) => {
                (entry, depth.or(kernel.map(|kernel| kernel.depth)).unwrap_or(1))
            }
        };
        let state = State {
            scheduler: entry.make(),
            numbers: 0,
            free: Vec::new(),
            seq: 0,
            under_way: 0,
            head_at: 0,
        };
        DriverQueue { name: entry.name, depth: depth as usize, state: RefCell::new(Some(state)) }
    }

    /// The name of the queue, and how many requests it hands over at once; without a number it
    /// hands over everything.
    pub(super) fn described(&self) -> (&'static str, Option<usize>) {
        (self.name, (self.depth != usize::MAX).then_some(self.depth))
    }

    /// `None` if the transfer is to be started now; otherwise the number under which its host keeps it
    /// until [`ended`](Self::ended) names it.
    pub(super) fn admit(&self, transfer: &Transfer, now: impl FnOnce() -> Time) -> Option<u32> {
        let mut state = self.state.borrow_mut();
        let state = state.as_mut().filter(|_| scheduled(transfer.kind()))?;
        state.seq += 1;
        if state.under_way < self.depth {
            state.under_way += 1;
            state.head_at = transfer.position() + transfer.remaining();
            return None;
        }
        let id = state.free.pop().unwrap_or_else(|| {
            state.numbers += 1;
            state.numbers - 1
        });
        state.scheduler.push(transfer.waiting(id, state.seq, now()));
        Some(id)
    }

    /// A transfer of this kind has ended. Returns the number of the one to start in its place.
    pub(super) fn ended(&self, kind: IoKind, now: impl FnOnce() -> Time) -> Option<u32> {
        let mut state = self.state.borrow_mut();
        let state = state.as_mut().filter(|_| scheduled(kind))?;
        state.under_way -= 1;
        if state.scheduler.is_empty() {
            return None;
        }
        let view = SchedulerInput { now: now(), head_at: state.head_at, device: &ByDistance };
        let Waiting { id, at, len, .. } = state.scheduler.pop(&view)?.request;
        state.free.push(id);
        state.under_way += 1;
        state.head_at = at + len;
        Some(id)
    }
}

fn scheduled(kind: IoKind) -> bool {
    matches!(kind, IoKind::Read | IoKind::Write)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(PathBuf);

    impl Tree {
        /// A tree as the kernel's with these files.
        fn new(name: &str, files: &[(&str, &str)]) -> Tree {
            let root = std::env::temp_dir().join(format!("twin-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Tree(root)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_partition_is_described_by_its_disk_and_a_device_without_a_description_is_not() {
        let tree = Tree::new(
            "sysfs",
            &[
                ("sda/queue/rotational", "1\n"),
                ("sda/queue/nr_requests", "64\n"),
                ("sda/device/queue_depth", "32\n"),
                ("sda/sda1/partition", "1\n"),
                ("vdb/queue/rotational", "0\n"),
                ("vdb/queue/nr_requests", "128\n"),
            ],
        );
        let link = |number: &str, to: &str| {
            std::os::unix::fs::symlink(tree.0.join(to), tree.0.join(number)).unwrap();
        };
        link("8:0", "sda");
        link("8:1", "sda/sda1");
        link("254:16", "vdb");
        let of = |major, minor| described(&tree.0, rustix::fs::makedev(major, minor));
        let sda = Some(Described { rotates: true, depth: 32 });
        assert_eq!((of(8, 0), of(8, 1)), (sda, sda));
        assert_eq!(of(254, 16), Some(Described { rotates: false, depth: 128 }));
        assert_eq!(of(0, 30), None);
    }

    #[test]
    fn only_rotating_disks_are_sorted_unless_a_queue_is_named() {
        let named = |text: &str, rotates| {
            let kernel = Some(Described { rotates, depth: 7 });
            DriverQueue::chosen(QueueChoice::parse(text).unwrap(), kernel).described()
        };
        let sorted = queue::for_rotating().name;
        assert_eq!(named("auto", true), (sorted, Some(7)));
        assert_eq!(named("auto", false), ("none", None));
        assert_eq!(named("none", true), ("none", None));
        assert_eq!(named("fscan", false), ("fscan", Some(7)));
        assert_eq!(named("sstf:depth=2", true), ("sstf", Some(2)));
        let without = DriverQueue::chosen(QueueChoice::parse("look").unwrap(), None);
        assert_eq!(without.described(), ("look", Some(1)));
        assert_eq!(DriverQueue::chosen(QueueChoice::Automatic, None).described(), ("none", None));
    }

    #[test]
    fn mistakes_are_told_with_what_there_is() {
        for (text, words) in [
            ("c-lok", "did you mean \"c-look\"?"),
            ("autom", "did you mean \"auto\"?"),
            ("look:depth=0", "from 1 on"),
            ("look:width=2", "depth"),
            ("none:depth=2", "a queue that is named"),
        ] {
            let error = QueueChoice::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
