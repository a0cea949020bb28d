//! One content of the medium: opened, compared, checked, written to, closed and checked.
//!
//! Contract: [`restart`] fails if anything that was promised is not there, if any accounts are wrong, or if
//! the volume does not go on working. Restarts have one start time, so that a content has one tree.

use twin_disk::Block;
use twin_fs::{Data, Op, ROOT_INO, Reply};
use twin_model::Dump;
use twin_rt::{SECS, Time};

use crate::drive::Journal;
use crate::oracle::{self, History, Place, digest};
use crate::promise::Promises;
use crate::{AnyWorld, Scenario, Subject, Timing};
use twin_sim::Platter;
use twin_sim::faults::{FaultPlan, WriteLog};

/// When restarts are.
const START: Time = Time(10_000 * SECS);
/// One restart of this number ends with opening the volume once more.
const REOPEN_EVERY: u64 = 16;
/// Bytes that are written after a restart.
const WRITTEN: u64 = 5_000;

/// What a workload had promised, by the rules of its layout.
pub(super) enum Promised {
    /// A prefix of all requests, whole.
    Prefix(History),
    /// What an ordering promises, by its name.
    Ordering(Box<Promises>, String),
}

impl Promised {
    pub(super) fn new<L: Subject>(
        scenario: &Scenario,
        history: History,
        journal: Journal,
    ) -> Promised {
        match L::MARKS_REPLIES {
            false => Promised::Prefix(history),
            true => {
                let promises = Box::new(Promises::new(history, journal));
                Promised::Ordering(promises, L::ordering(scenario).into())
            }
        }
    }

    /// Whether a tree of this digest is right at this mark beyond doubt.
    pub(super) fn is_plainly_right(&self, mark: u64, tree: u64) -> bool {
        match self {
            Promised::Prefix(history) => history.is_one_of(history.kept(mark)..=usize::MAX, tree),
            Promised::Ordering(promises, ordering) => {
                promises.is_plainly_right(ordering, promises.moment(mark as usize), tree)
            }
        }
    }

    /// A number for what is promised at this mark: where it is the same, a content that was right is right. None
    /// where the tree alone says what is right.
    pub(super) fn class(&self, mark: u64) -> Option<u64> {
        match self {
            Promised::Prefix(_) => None,
            Promised::Ordering(promises, _) => Some(promises.class(promises.moment(mark as usize))),
        }
    }

    /// A recovery that is interrupted comes to the tree to which it would have come.
    pub(super) fn recovers_to_one_tree(&self) -> bool {
        match self {
            Promised::Prefix(_) => true,
            Promised::Ordering(_, ordering) => ordering == "journal",
        }
    }

    fn judge<L: Subject>(
        &self,
        mark: u64,
        tree: &Dump,
        world: &mut AnyWorld<L>,
    ) -> Result<(), String> {
        match self {
            Promised::Prefix(history) => match history.find(tree, history.kept(mark)) {
                Place::At(_) => Ok(()),
                Place::Wrong(what) => {
                    let nearest = history.state(history.nearest(tree).0);
                    let more = oracle::explain(nearest, tree, world).unwrap_or_default();
                    Err(format!("{what}; {more}"))
                }
            },
            Promised::Ordering(promises, ordering) => {
                let mut read = |ino, off, len| world.read_file(ino, off, len);
                let moment = promises.moment(mark as usize);
                promises.judge(ordering, moment, tree, &mut read).map(drop)
            }
        }
    }
}

/// What a restart came to.
pub(super) struct Restarted {
    /// The digest of the tree.
    pub(super) tree: u64,
    /// The writes of the recovery, and more behind them.
    pub(super) recovery: WriteLog,
    /// Events of the log when the volume was open.
    pub(super) opened: usize,
    /// It was opened once more after closing.
    pub(super) reopened: bool,
}

/// Restarts from a content, and with `full` goes on to work and closes.
pub(super) fn restart<L: Subject>(
    scenario: &Scenario,
    platter: Platter,
    key: u64,
    promised: &Promised,
    mark: u64,
    full: bool,
) -> Result<Restarted, String> {
    let (recovery, faults) = (WriteLog::new(), FaultPlan::none());
    let timing = Timing::Instant;
    let mut world = AnyWorld::<L>::build(scenario, platter, timing, START, faults, Some(&recovery));
    world.open()?;
    let opened = recovery.len();
    let dump = world.dump()?;
    if let Some(what) = dump.contradiction() {
        return Err(what);
    }
    promised.judge(mark, &dump, &mut world)?;
    L::recount(&world, &dump)?;
    let tree = digest(&dump, |_| false);
    let reopened = full && key.is_multiple_of(REOPEN_EVERY);
    if full {
        write(&mut world).map_err(|what| format!("written to after the restart: {what}"))?;
        let last = reopened.then(|| world.dump()).transpose()?;
        let platter = world.close()?;
        drop(world);
        let mut world = AnyWorld::<L>::new(scenario, platter, Timing::Instant, START + 100 * SECS);
        if let Some(what) = world.wait("checking", L::complaint(&world.rt, world.device()))? {
            return Err(format!("the check after closing: {what}"));
        }
        if let Some(last) = last {
            world.open()?;
            let again = world.dump()?;
            let names = ["closed", "opened"];
            if let Some(what) = twin_model::diff(&last, &again, names, &Default::default()) {
                return Err(format!("after opening again: {what}"));
            }
        }
    }
    Ok(Restarted { tree, recovery, opened, reopened })
}

/// Makes a file, writes to it, makes it durable, reads it, and gives it another name.
fn write<L: Subject>(world: &mut AnyWorld<L>) -> Result<(), String> {
    let ok = |what: &str, reply: twin_fs::Result<Reply>| {
        reply.map_err(|error| format!("{what}: {error}"))
    };
    let named = |name: &str| name.as_bytes().into();
    let op = Op::Create { dir: ROOT_INO, name: named("w"), mode: 0o644, exclusive: true };
    let Reply::Entry(entry) = ok("creating", world.ask(op)?)? else {
        return Err("creating gives no entry".into());
    };
    let ino = entry.attr.ino;
    ok("writing", world.ask(Op::Write { ino, off: 0, data: Data::Synthetic(WRITTEN) })?)?;
    ok("fsync", world.ask(Op::Fsync { ino, data_only: false })?)?;
    let read = world.read_file(ino, 0, 2 * WRITTEN as u32)?;
    let len: u64 = read.iter().map(|block| block.len() as u64).sum();
    if len != WRITTEN || read.iter().any(|block| matches!(block, Block::Zero(_))) {
        return Err(format!("{len} bytes are read of {WRITTEN}: {read:?}"));
    }
    let (dir, name, to_name) = (ROOT_INO, named("w"), named("v"));
    let mode = twin_fs::RenameMode::Replace;
    ok("renaming", world.ask(Op::Rename { dir, name, to_dir: dir, to_name, mode })?)?;
    world.ask(Op::Release { ino })?.map_err(|error| error.to_string())?;
    world.ask(Op::Forget { ino, count: 1 })?.map_err(|error| error.to_string())?;
    Ok(())
}
