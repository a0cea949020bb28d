//! Space in use again at once: seven clients on a volume that has hardly room for them, cut off by
//! power failures and kills, closed and opened, round after round on the same volume.
//!
//! Contract: the load of `cargo xtask e2e rewrite`, in simulation. Three clients rewrite and remove
//! files with indirect blocks, directories, links and attributes; four write files, fsync each and
//! remove a third. After each round every file is held against what was written:
//! - after closing, all of them;
//! - after a failure those that are promised: fsynced (not with asynchronous metadata), or there
//!   when the volume was last closed, and not touched since; whole, and where they are;
//! - under the log and the journal nothing has bytes that were never its own.
//!
//! What the other runs do not have is here: contents that are bytes and say whose they are (a
//! stamp that a block of pointers overwrites is found too, but only a file that is fsynced and
//! looked at can lose one), files long enough for indirect blocks that come and go, space so short
//! that a freed block is taken at once, and restarts that are worked on and then fail again.

mod client;
mod content;
mod states;

use std::cell::RefCell;
use std::rc::Rc;

use twin_fs::{Ino, Op, ROOT_INO, Reply};
use twin_rt::{Event, Rng, SECS, Time, join_all};

use super::{AnyWorld, Failure, Scenario, Subject, Timing, make};
use client::{Board, Client, Memory, named};
use content::foreign;
pub use states::{States, states};
use twin_sim::Platter;
use twin_sim::faults::{FaultPlan, WriteLog, WriteOutcome};

/// Clients that rewrite and remove.
const REWRITERS: u64 = 3;

/// What a campaign came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reused {
    /// Rounds ended by a power failure.
    pub power_failures: u64,
    /// Rounds ended by the end of the program alone: what was sent to the disk is on it.
    pub kills: u64,
    /// Rounds ended by closing.
    pub closed: u64,
    /// Files that were fsynced.
    pub fsynced: u64,
    /// Promised files looked at.
    pub promised: u64,
    /// Other files searched for bytes that are not their own.
    pub searched: u64,
    /// Times that there was no room.
    pub refused: u64,
}

impl std::ops::AddAssign for Reused {
    fn add_assign(&mut self, other: Reused) {
        self.power_failures += other.power_failures;
        self.kills += other.kills;
        self.closed += other.closed;
        self.fsynced += other.fsynced;
        self.promised += other.promised;
        self.searched += other.searched;
        self.refused += other.refused;
    }
}

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    PowerFailure,
    Kill,
    Close,
}

/// Works on a volume in so many rounds.
///
/// # Errors
/// The first file that is not as promised.
pub fn reuse<L: Subject>(scenario: &Scenario, rounds: u64) -> Result<Reused, Failure> {
    let kind = L::REUSE;
    Campaign::<L>::run(scenario, rounds).map_err(|what| Failure {
        kind,
        scenario: scenario.clone(),
        what,
    })
}

struct Campaign<'a, L: Subject> {
    scenario: &'a Scenario,
    clients: Vec<Rc<RefCell<Memory>>>,
    rng: Rng,
    reused: Reused,
    layout: std::marker::PhantomData<L>,
}

impl<L: Subject> Campaign<'_, L> {
    fn run(scenario: &Scenario, rounds: u64) -> Result<Reused, String> {
        let number = |n| Rc::new(RefCell::new(Memory::new(n)));
        let mut campaign = Campaign::<L> {
            scenario,
            clients: (0..u64::from(scenario.clients)).map(number).collect(),
            rng: Rng::stream(scenario.seed, "reuse"),
            reused: Reused::default(),
            layout: std::marker::PhantomData,
        };
        let mut platter = make::<L>(scenario)?;
        let mut end = End::Close;
        for round in 0..=rounds {
            let next = match campaign.rng.below(8) {
                _ if round == rounds => End::Close,
                0..3 => End::PowerFailure,
                3..5 => End::Kill,
                _ => End::Close,
            };
            let done = campaign.round(platter, round, end, next);
            platter = done.map_err(|what| format!("round {round}, after {end:?}: {what}"))?;
            end = next;
        }
        Ok(campaign.reused)
    }

    /// Opens what the last round left, looks at it, works on it and ends it.
    fn round(
        &mut self,
        platter: Platter,
        round: u64,
        last: End,
        end: End,
    ) -> Result<Platter, String> {
        let (log, start) = (WriteLog::new(), Time((round + 1) * 10_000 * SECS));
        let (timing, plan) = (Timing::Jitter, FaultPlan::none());
        let mut world =
            AnyWorld::<L>::build(self.scenario, platter.clone(), timing, start, plan, Some(&log));
        let looked = world.open().and_then(|_| self.look(&mut world, last));
        looked
            .map_err(|what| format!("{what}; it was left so: {:?}", self.left(platter, start)))?;
        let board = Rc::new(RefCell::new(Board::default()));
        let worked = self.work(&world, &board, end);
        worked?;
        let platter = match end {
            End::PowerFailure => {
                self.reused.power_failures += 1;
                world.disk.power_failure(&mut self.rng).ok_or("the disk keeps no log")?
            }
            End::Kill => {
                self.reused.kills += 1;
                let state = world.disk.crash_state().ok_or("the disk keeps no log")?;
                let all = vec![WriteOutcome::Whole; state.unstable_writes().len()];
                state.with(&all)
            }
            End::Close => {
                self.reused.closed += 1;
                world.close()?
            }
        };
        let board = board.borrow();
        self.reused.fsynced += board.fsynced;
        self.reused.refused += board.refused;
        drop(world);
        if end == End::Close {
            self.clients.iter().for_each(|memory| memory.borrow_mut().all_is_safe());
            self.expect_sound(platter.clone(), start + 5_000 * SECS)?;
        }
        Ok(platter)
    }

    /// Lets the clients work until so much has been fsynced, and in the middle of the rest unless
    /// the volume is to be closed.
    fn work(
        &mut self,
        world: &AnyWorld<L>,
        board: &Rc<RefCell<Board>>,
        end: End,
    ) -> Result<(), String> {
        let changed = Rc::new(Event::new());
        let holds = L::fsync_holds(self.scenario);
        let clients = self.clients.iter().enumerate().map(|(n, memory)| {
            let client = Client {
                volume: world.volume().clone(),
                board: Rc::clone(board),
                memory: Rc::clone(memory),
                rng: world.rt.rng(["a", "b", "c", "d", "e", "f", "g", "h"][n % 8]),
                rt: world.rt.clone(),
                think_ns: self.scenario.think_ns,
                fsync_holds: holds,
            };
            let changed = Rc::clone(&changed);
            let rewrites = (n as u64) < REWRITERS;
            world.rt.spawn("client", client.run(rewrites, move || changed.notify()))
        });
        let clients: Vec<_> = clients.collect();
        let enough = self.rng.range(2, 40);
        let is_enough = || {
            let board = board.borrow();
            board.fsynced + board.refused >= enough || board.error.is_some()
        };
        world.wait("clients", changed.wait_until(is_enough))?;
        if end == End::Close {
            board.borrow_mut().stop = true;
            world.wait("clients ending", join_all(clients))?;
        } else {
            let span = self.rng.below(20_000_000);
            world.wait("the moment", world.rt.sleep(span))?;
        }
        match board.borrow_mut().error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Holds what the last round left against what was promised.
    fn look(&mut self, world: &mut AnyWorld<L>, last: End) -> Result<(), String> {
        let closed = last == End::Close;
        for memory in self.clients.clone() {
            let known = memory.borrow().clone();
            let Some(dir) = lookup(world, ROOT_INO, &known.dir())? else {
                match known.files.iter().find(|file| closed || file.durable) {
                    Some(file) => return Err(format!("{} and its {file:?} are gone", known.dir())),
                    None => continue,
                }
            };
            for file in known.files.iter().filter(|file| closed || file.durable) {
                let there = read(world, dir, &file.name)?;
                let place = format!("{}/{}", known.dir(), file.name);
                let Some(is) = there else { return Err(format!("{place} is gone")) };
                if let Some(what) = file.content.differs(&is) {
                    return Err(format!("{place}: {what}"));
                }
                self.reused.promised += 1;
            }
            if L::keeps_own_bytes(self.scenario) {
                self.search(world, dir, &known)?;
            }
            if !closed {
                memory.borrow_mut().forget_unsafe();
            }
        }
        if !closed {
            empty_lost_and_found(world)?;
        }
        Ok(())
    }

    /// Searches the files that nothing is promised of for bytes that were never theirs.
    fn search(&mut self, world: &mut AnyWorld<L>, dir: Ino, known: &Memory) -> Result<(), String> {
        for file in known.removed.iter().chain(known.files.iter().filter(|file| !file.durable)) {
            let Some(is) = read(world, dir, &file.name)? else { continue };
            self.reused.searched += 1;
            let wrong = match file.durable {
                true => file.content.differs(&is),
                false => foreign(file.content.file, &is),
            };
            if let Some(what) = wrong {
                return Err(format!("{}/{}: {what}", known.dir(), file.name));
            }
        }
        Ok(())
    }

    /// The checker is content with a closed volume.
    fn expect_sound(&self, platter: Platter, start: Time) -> Result<(), String> {
        let complaint = self.left(platter, start)?;
        complaint.map_or(Ok(()), |what| Err(format!("after closing: {what}")))
    }

    /// What the checker says of a volume, if it is not content.
    fn left(&self, platter: Platter, start: Time) -> Result<Option<String>, String> {
        let world = AnyWorld::<L>::new(self.scenario, platter, Timing::Instant, start);
        world.wait("checking", L::complaint(&world.rt, world.device()))
    }
}

fn lookup<L: Subject>(
    world: &mut AnyWorld<L>,
    dir: Ino,
    name: &str,
) -> Result<Option<Ino>, String> {
    match world.ask(Op::Lookup { dir, name: named(name) })? {
        Ok(Reply::Entry(entry)) => Ok(Some(entry.attr.ino)),
        Err(twin_fs::FsError::NotFound) => Ok(None),
        other => Err(format!("looking for {name}: {other:?}")),
    }
}

/// A file's content, if it is there.
fn read<L: Subject>(
    world: &mut AnyWorld<L>,
    dir: Ino,
    name: &str,
) -> Result<Option<Vec<u8>>, String> {
    let Some(ino) = lookup(world, dir, name)? else { return Ok(None) };
    let pieces = match world.ask(Op::Read { ino, off: 0, len: 1 << 20 })? {
        Ok(Reply::Data(pieces)) => pieces,
        other => return Err(format!("reading {name}: {other:?}")),
    };
    let _ = world.ask(Op::Forget { ino, count: 1 })?;
    Ok(Some(pieces.iter().flat_map(|piece| piece.to_bytes().to_vec()).collect()))
}

/// What a repair found without a name would fill the volume in time.
fn empty_lost_and_found<L: Subject>(world: &mut AnyWorld<L>) -> Result<(), String> {
    let Some(dir) = lookup(world, ROOT_INO, "lost+found")? else { return Ok(()) };
    for _ in 0..3 {
        let op = Op::ReadDir { dir, cookie: 0, max_bytes: 1 << 20, plus: false };
        let Ok(Reply::Dir(entries)) = world.ask(op)? else { return Ok(()) };
        for entry in entries.into_iter().filter(|entry| !entry.name.starts_with(b".")) {
            let name = entry.name;
            let gone = world.ask(Op::Unlink { dir, name: name.clone() })?;
            if gone.is_err() {
                // A directory: what is in it goes first.
                empty(world, dir, &name)?;
                let _ = world.ask(Op::RemoveDir { dir, name })?;
            }
        }
    }
    Ok(())
}

fn empty<L: Subject>(world: &mut AnyWorld<L>, dir: Ino, name: &[u8]) -> Result<(), String> {
    let Ok(Reply::Entry(entry)) = world.ask(Op::Lookup { dir, name: name.into() })? else {
        return Ok(());
    };
    let dir = entry.attr.ino;
    let op = Op::ReadDir { dir, cookie: 0, max_bytes: 1 << 20, plus: false };
    if let Ok(Reply::Dir(entries)) = world.ask(op)? {
        for entry in entries {
            let _ = world.ask(Op::Unlink { dir, name: entry.name })?;
        }
    }
    let _ = world.ask(Op::Forget { ino: dir, count: 1 })?;
    Ok(())
}
