//! A file system that shows one state of a volume after another, as somebody else changes it.
//!
//! Contract: directories follow, files stay. A name leads to what it leads to in the newest state, also in a directory that was
//! found in an earlier one, for as long as it exists. A file that was found or opened is that of its state, so nobody reads half
//! of one state and half of another. The front end may keep what it has read of files, and nothing about names and directories.
//! What is asked about a file whose state is gone is stale ([`FsError::Stale`]), by which a kernel looks its name up again.
//!
//! A state is kept while it is the newest, and afterwards while files of it are open, at most [`STATES_MOST`] in all. If what it
//! needs has been deleted, directories wait for the next state, which is asked for at once ([`Following::wanted`]), and
//! its files are stale.
//!
//! Inode numbers are made of the inode's number on the volume and the number of a state: of a file, the one in which it was
//! found; of a directory, the one in which it was first found of those in which it is the same. [`number_on_volume`] is what
//! programs are shown, since they compare numbers. Numbers below `.twinfs` stay what they are: kept states never change.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

use twin_rt::Event;

use crate::below::concerns;
use crate::snapshots::is_below;
use crate::{
    DirEntry, FileSystem, FsError, Ino, LookupEntry, Op, ROOT_INO, Reply, Request, Result, Volume,
    mode,
};

/// The most states that are kept. Each has a cache of its own.
pub const STATES_MOST: usize = 8;
/// How often an operation on a directory is begun again in a newer state.
const AGAIN_MOST: u32 = 8;
/// The bits of an inode number that are its number on the volume; above them are those of the state.
const INO_BITS: u32 = 32;
/// The bit of directories.
const DIRECTORY: Ino = 1 << 61;
/// The largest number of a state.
const STATE_MOST: u64 = (DIRECTORY >> INO_BITS) - 1;

/// Tells whether something that a state needs has been deleted.
pub type HasLost = Rc<dyn Fn() -> bool>;

/// The number on the volume of an inode that has this one in a [`Following`]: what programs are shown.
pub fn number_on_volume(ino: Ino) -> Ino {
    if is_below(ino) { ino } else { ino & ((1 << INO_BITS) - 1) }
}

/// A state that is shown, or was.
struct State {
    number: u64,
    volume: Volume,
    has_lost: HasLost,
    /// Files of it that are open.
    opens: Cell<u64>,
    /// Operations on it.
    running: Cell<u64>,
}

/// A directory that the front end knows.
struct Directory {
    generation: u32,
    /// The number of the state in it.
    state: u64,
    /// The newest state in which it was seen.
    seen_in: u64,
    /// References that the front end has.
    entries: u64,
}

/// See the module.
pub struct Following {
    /// By number, the newest at the end.
    states: RefCell<BTreeMap<u64, Rc<State>>>,
    directories: RefCell<BTreeMap<Ino, Directory>>,
    /// Notified when somebody wants a newer state, or has looked for one.
    news: Event,
    is_wanted: Cell<bool>,
    /// Looks for newer states that have ended.
    looks: Cell<u64>,
}

impl Following {
    /// Begins with a state, which must be read-only.
    pub fn new(volume: Volume, has_lost: HasLost) -> Following {
        let first =
            State { number: 1, volume, has_lost, opens: Cell::new(0), running: Cell::new(0) };
        Following {
            states: RefCell::new(BTreeMap::from([(1, Rc::new(first))])),
            directories: RefCell::default(),
            news: Event::new(),
            is_wanted: Cell::new(false),
            looks: Cell::new(0),
        }
    }

    /// Shows a newer state in place of the one before.
    ///
    /// # Errors
    /// If a state that nobody uses any more cannot be closed; the newer one is shown all the same.
    pub async fn show(&self, volume: Volume, has_lost: HasLost) -> Result<()> {
        let number = self.newest().number + 1;
        let state = State { number, volume, has_lost, opens: Cell::new(0), running: Cell::new(0) };
        self.states.borrow_mut().insert(number, Rc::new(state));
        self.news.notify();
        self.sweep().await
    }

    /// The newest state.
    pub fn volume(&self) -> Volume {
        self.newest().volume.clone()
    }

    /// States that were shown, and those that are kept.
    pub fn counts(&self) -> (u64, usize) {
        (self.newest().number, self.states.borrow().len())
    }

    /// Waits until somebody wants a newer state before it is time to look for one.
    pub async fn wanted(&self) {
        self.news.wait_until(|| self.is_wanted.get()).await;
        self.is_wanted.set(false);
    }

    /// A look for a newer state has ended, with or without one.
    pub fn has_looked(&self) {
        self.looks.set(self.looks.get() + 1);
        self.news.notify();
    }

    /// Ends all states.
    ///
    /// # Errors
    /// If one cannot be closed.
    pub async fn close(&self) -> Result<()> {
        let all: Vec<Rc<State>> = self.states.borrow().values().cloned().collect();
        for state in all {
            state.volume.close().await?;
        }
        Ok(())
    }

    fn newest(&self) -> Rc<State> {
        let states = self.states.borrow();
        let (_, newest) = states.last_key_value().expect("the newest one is never removed");
        Rc::clone(newest)
    }

    /// Ends the states that nobody uses, and the oldest of too large a number of them.
    async fn sweep(&self) -> Result<()> {
        loop {
            let unused = {
                let mut states = self.states.borrow_mut();
                let (newest, len) = (*states.keys().next_back().unwrap_or(&0), states.len());
                let is_unused = |state: &State| {
                    state.running.get() == 0 && (state.opens.get() == 0 || len > STATES_MOST)
                };
                let old = states.range(..newest).find(|(_, state)| is_unused(state));
                let old = old.map(|(number, _)| *number);
                old.and_then(|number| states.remove(&number))
            };
            match unused {
                Some(state) => state.volume.close().await?,
                None => return Ok(()),
            }
        }
    }

    /// Executes one request.
    async fn run(&self, request: Request) -> Result<Reply> {
        let op = &request.op;
        if op.changes_volume() || matches!(op, Op::Open { write: true, .. }) {
            return Err(FsError::ReadOnly);
        }
        let subject = op.subject();
        let is_file = subject > ROOT_INO && !concerns(op) && subject & DIRECTORY == 0;
        match op {
            _ if is_file => return self.run_on_file(request).await,
            // What holds nothing in a state was given back at once.
            Op::Forget { ino, count } => self.forget(*ino, *count),
            Op::Release { .. } => {}
            _ => return self.run_on_newest(request).await,
        }
        Ok(Reply::Done)
    }

    /// Executes a request about a directory, the volume, or something below `.twinfs`.
    async fn run_on_newest(&self, request: Request) -> Result<Reply> {
        let asked = request.op.subject();
        let mut again = 0;
        loop {
            let state = match self.check_directory(asked, request.id).await {
                Ok(state) => state,
                Err((state, error)) => {
                    self.or_newer(&state, error, &mut again).await?;
                    continue;
                }
            };
            let mut of_state = request.clone();
            if let [Some(subject), _] = of_state.op.inos_mut() {
                *subject = number_on_volume(asked);
            }
            match self.run_in(&state, of_state).await {
                Ok(reply) => {
                    if matches!(request.op, Op::Open { .. }) {
                        // It may end in another state.
                        let ino = number_on_volume(asked);
                        self.give_back(&state, Op::Release { ino }, request.id).await;
                    }
                    return self.reply(&state, asked, reply, request.id).await;
                }
                Err(error) => self.or_newer(&state, error, &mut again).await?,
            }
        }
    }

    /// The newest state, in which a directory is still there and the same. Nothing is waited for between the last look at it
    /// and the return.
    async fn check_directory(
        &self,
        asked: Ino,
        id: u64,
    ) -> Result<Rc<State>, (Rc<State>, FsError)> {
        let (number, ino) = (asked >> INO_BITS & STATE_MOST, number_on_volume(asked));
        loop {
            let state = self.newest();
            if asked & DIRECTORY == 0 || is_below(asked) {
                return Ok(state);
            }
            let generation = match self.directories.borrow().get(&ino) {
                Some(known) if known.state == number && known.seen_in >= state.number => {
                    return Ok(state);
                }
                Some(known) if known.state == number => known.generation,
                _ => return Err((state, FsError::Stale)),
            };
            match self.generation(&state, ino, id).await {
                Ok(now) if now == generation => {
                    // Another one may have taken its place meanwhile.
                    let mut all = self.directories.borrow_mut();
                    if let Some(known) = all.get_mut(&ino).filter(|known| known.state == number) {
                        known.seen_in = known.seen_in.max(state.number);
                    }
                }
                Ok(_) => return Err((state, FsError::Stale)),
                Err(error) => return Err((state, error)),
            }
        }
    }

    /// Executes a request about a file of a state.
    async fn run_on_file(&self, request: Request) -> Result<Reply> {
        let (asked, id) = (request.op.subject(), request.id);
        let (number, ino) = (asked >> INO_BITS, number_on_volume(asked));
        let state = self.states.borrow().get(&number).cloned();
        let state = match (&request.op, state) {
            (Op::Forget { .. }, _) | (Op::Release { .. }, None) => return Ok(Reply::Done),
            (_, state) => &state.ok_or(FsError::Stale)?,
        };
        let mut of_state = request;
        for number in of_state.op.inos_mut().into_iter().flatten() {
            *number = ino;
        }
        let (opens, releases) =
            (matches!(of_state.op, Op::Open { .. }), matches!(of_state.op, Op::Release { .. }));
        // Counted from its beginning, so that the state is there when it has succeeded.
        state.opens.set(state.opens.get() + u64::from(opens));
        let result = self.run_in(state, of_state).await;
        if releases || opens && result.is_err() {
            state.opens.set(state.opens.get().saturating_sub(1));
            drop(self.sweep().await);
        }
        match result {
            Ok(reply) => self.reply(state, asked, reply, id).await,
            Err(error) if is_lost(state, &error) => {
                // Who looks the name up again finds it in a state that can be read.
                let mut again = 0;
                self.or_newer(state, error, &mut again).await?;
                Err(FsError::Stale)
            }
            Err(error) => Err(error),
        }
    }

    /// Executes a request on a state.
    async fn run_in(&self, state: &Rc<State>, request: Request) -> Result<Reply> {
        state.running.set(state.running.get() + 1);
        let result = state.volume.execute(request).await;
        state.running.set(state.running.get() - 1);
        if state.running.get() == 0 && state.number != self.newest().number {
            // What was read is right all the same.
            drop(self.sweep().await);
        }
        result
    }

    /// Waits for a state that is newer than one that has failed because something in it was deleted.
    ///
    /// # Errors
    /// The error itself, if it has another reason or there is none newer.
    async fn or_newer(&self, state: &State, error: FsError, again: &mut u32) -> Result<()> {
        *again += 1;
        if !is_lost(state, &error) || *again > AGAIN_MOST {
            return Err(error);
        }
        let looked = self.looks.get();
        // A look that is under way may have begun too early.
        let is_over = || self.newest().number > state.number || self.looks.get() > looked + 1;
        while !is_over() {
            self.is_wanted.set(true);
            self.news.notify();
            let now = self.looks.get();
            self.news.wait_until(|| is_over() || self.looks.get() > now).await;
        }
        if self.newest().number > state.number { Ok(()) } else { Err(error) }
    }

    /// A reply of a state, to a request about `asked`, with our numbers.
    async fn reply(&self, state: &Rc<State>, asked: Ino, reply: Reply, id: u64) -> Result<Reply> {
        Ok(match reply {
            Reply::Attr(mut attr) => {
                attr.ino = if asked == 0 { attr.ino } else { asked };
                Reply::Attr(attr)
            }
            Reply::Entry(mut entry) => {
                self.number(state, &mut entry, id).await?;
                Reply::Entry(entry)
            }
            Reply::Dir(mut entries) => {
                for listed in &mut entries {
                    match &mut listed.entry {
                        Some(entry) => {
                            self.number(state, entry, id).await?;
                            listed.ino = entry.attr.ino;
                        }
                        None => listed.ino = self.number_of_name(state, listed, id).await,
                    }
                }
                Reply::Dir(entries)
            }
            reply => reply,
        })
    }

    /// Gives an entry of a state our number.
    async fn number(&self, state: &Rc<State>, entry: &mut LookupEntry, id: u64) -> Result<()> {
        let ino = entry.attr.ino;
        self.give_back(state, Op::Forget { ino, count: 1 }, id).await;
        if is_below(ino) || ino == ROOT_INO {
            return Ok(());
        }
        if ino >> INO_BITS != 0 || state.number > STATE_MOST {
            return Err(FsError::NotSupported("too large a number for a mount that follows"));
        }
        entry.attr.ino = match entry.attr.is_dir() {
            true => DIRECTORY | self.refer(state.number, ino, entry.generation) << INO_BITS | ino,
            false => state.number << INO_BITS | ino,
        };
        Ok(())
    }

    /// The number of an inode that was listed without more about it.
    async fn number_of_name(&self, state: &Rc<State>, listed: &DirEntry, id: u64) -> Ino {
        let ino = listed.ino;
        if is_below(ino) || ino == ROOT_INO {
            return ino;
        }
        if listed.kind != mode::DIRECTORY {
            return state.number << INO_BITS | ino;
        }
        let known = |known: &Directory| (known.state, known.generation, known.seen_in);
        let known = self.directories.borrow().get(&ino).map(known);
        let number = match known {
            Some((number, _, seen_in)) if seen_in >= state.number => number,
            // Another directory may have its number by now.
            Some((number, generation, _)) => match self.generation(state, ino, id).await {
                Ok(now) if now == generation => number,
                _ => state.number,
            },
            None => state.number,
        };
        DIRECTORY | number << INO_BITS | ino
    }

    /// The generation of a directory in a state.
    async fn generation(&self, state: &Rc<State>, ino: Ino, id: u64) -> Result<u32> {
        let itself = Op::Lookup { dir: ino, name: (*b".").into() };
        match self.run_in(state, Request::root(id, itself)).await {
            Ok(Reply::Entry(entry)) => {
                self.give_back(state, Op::Forget { ino, count: 1 }, id).await;
                match entry.attr.is_dir() {
                    true => Ok(entry.generation),
                    false => Err(FsError::Stale),
                }
            }
            Ok(_) | Err(FsError::NotFound) => Err(FsError::Stale),
            Err(error) => Err(error),
        }
    }

    /// Adds a reference to a directory that was found in a state, and returns the number of the state in its number.
    fn refer(&self, number: u64, ino: Ino, generation: u32) -> u64 {
        let mut directories = self.directories.borrow_mut();
        match directories.get_mut(&ino) {
            Some(known) if known.generation == generation => {
                known.entries += 1;
                known.seen_in = known.seen_in.max(number);
                known.state
            }
            // The answer is late: who uses the number finds it stale.
            Some(known) if known.seen_in > number => number,
            _ => {
                let known = Directory { generation, state: number, seen_in: number, entries: 1 };
                directories.insert(ino, known);
                number
            }
        }
    }

    /// Takes references of the front end to a directory away.
    fn forget(&self, asked: Ino, count: u64) {
        let (number, ino) = (asked >> INO_BITS & STATE_MOST, number_on_volume(asked));
        let mut directories = self.directories.borrow_mut();
        let Some(known) = directories.get_mut(&ino).filter(|known| known.state == number) else {
            return;
        };
        known.entries = known.entries.saturating_sub(count);
        if known.entries == 0 {
            directories.remove(&ino);
        }
    }

    /// Gives back a reference or an open, which hold nothing in a state that does not change.
    async fn give_back(&self, state: &State, what: Op, id: u64) {
        let request = Request { client: Request::NO_CLIENT, ..Request::root(id, what) };
        // It cannot fail.
        drop(state.volume.execute(request).await);
    }
}

/// Whether an error comes from what was deleted.
fn is_lost(state: &State, error: &FsError) -> bool {
    matches!(error, FsError::Io(_) | FsError::Corrupt { .. }) && (state.has_lost)()
}

impl FileSystem for Following {
    fn execute(&self, request: Request) -> impl Future<Output = Result<Reply>> {
        self.run(request)
    }
}
