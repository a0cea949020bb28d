//! Loads of the file servers of the nineties, over months: home directories, news, mail, installed
//! software, systems and logs, as workloads that make a volume old.
//!
//! Contract: a [`Load`] is a source of records, given out in [`LoadPart`]s of days that go on where the
//! part before ended; same numbers, same records. Each session (four a day) deletes what has to go for
//! what will be written, and then writes its share of the daily turnover, as new files, files written
//! anew in place of old ones and additions to files, until the volume is as full as its course says.
//! What is written anew is a new file, as editors and compilers do it.
//!
//! Sizes are lognormal. The kinds follow what Smith and Seltzer 1994 say of their file systems
//! (section 3; news: "extremely small" files with "a high rate of file turnover"; software: files
//! "created or deleted only when new software is installed"; `/` and `usr`: "probably unchanged from
//! the day it was first installed"), what Baker et al. 1991 and Irlam 1993 say of the sizes of Unix files
//! (half of them below 2 to 4 KB, a mean near 20 KB), and what Satyanarayanan 1981, Ousterhout et al. 1985
//! and Baker et al. 1991 say of lifetimes: the younger a file, the sooner it is changed or deleted. Gibson,
//! Miller and Long ("Long-term File Activity and Inter-Reference Patterns", CMG 1998; abstract) have numbers
//! for Unix file systems over 120 to 280 days: 90% of the files are not used after their creation, those that
//! are used are mostly short-lived, and about 1% of all are used in a day. That nine of ten changes are of the
//! youngest tenth, and how much is written in a day, are assumptions in this spirit. News expires by newsgroup,
//! as the expiry of C News does. No number is fitted to layout scores or speeds.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use twin_fs::geometry::Geometry;
use twin_fs::{Data, Ino, Name, Op, ROOT_INO};
use twin_rt::{Nanos, Rng, SECS, Time};
use twin_trace::{Header, Kind, Outcome, Record, Traits};

use crate::ageing::room_of;
use crate::queue::{Queue, Steps, source_by_steps};

/// The choice of the files that are deleted, written anew or grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Any file, with the same probability.
    Random,
    /// Nine times of ten one of the youngest tenth, else any.
    Young,
    /// The file that was written longest ago.
    Oldest,
    /// The oldest for their newsgroup: these keep articles for 3, 7, 14 or 30 days, or shorter in the
    /// same proportion.
    ByGroup,
}

/// The behaviour of the users of a file system. Shares are of the written bytes.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Users, or newsgroups: not equally busy.
    pub users: u64,
    /// Number of directories of each user.
    pub dirs: u64,
    /// Bytes that each file has besides, as an article has its header.
    pub header: f64,
    /// The median of sizes in bytes, without the header.
    pub median: f64,
    /// The standard deviation of their natural logarithm.
    pub sigma: f64,
    /// The largest file in bytes.
    pub largest: f64,
    /// How often a file is written anew, of all operations that write.
    pub rewrites: f64,
    /// How often a file grows, of all operations that write.
    pub appends: f64,
    /// The mean of what is added, in bytes.
    pub added: f64,
    /// The most bytes of a write.
    pub piece: u64,
    /// The share of the capacity that is written in a day, once it is full.
    pub turnover: f64,
    /// The choice of the files that are deleted.
    pub expiry: Expiry,
}

/// Home directories and sources of ten users: most files are small, many are written again and again. In
/// a day half of the 1% of files that are used change.
pub const HOMES: Habits = Habits {
    users: 10,
    dirs: 24,
    header: 0.0,
    median: 2_500.0,
    sigma: 1.9,
    largest: 4e6,
    rewrites: 0.5,
    appends: 0.05,
    added: 2_000.0,
    piece: PIECE,
    turnover: 0.005,
    expiry: Expiry::Young,
};
/// News: articles come all day and expire, as small as any file.
pub const NEWS: Habits = Habits {
    users: 300,
    dirs: 1,
    header: 0.0,
    median: 1_700.0,
    sigma: 0.9,
    largest: 256e3,
    rewrites: 0.0,
    appends: 0.0,
    added: 1.0,
    piece: PIECE,
    turnover: 0.08,
    expiry: Expiry::ByGroup,
};
/// News whose articles have headers: 586 bytes on average (2,380,588 in 4063 articles: R. Adams, "Usenet message
/// content", net.news, 30 May 1985), of 3000 in an article ("Usenet flow analysis for Jun 95: who stores how much
/// news", news.lists: 527.8 MB in 175,927 articles, on average of 336 sites); the median of the rest is that whose
/// mean is the difference.
pub const NEWS_WITH_HEADERS: Habits = Habits { header: 586.0, median: 1_610.0, ..NEWS };
/// Mail: boxes that grow and are written anew when they have been read.
pub const MAIL: Habits = Habits {
    users: 1,
    dirs: 4,
    header: 0.0,
    median: 12_000.0,
    sigma: 1.6,
    largest: 4e6,
    rewrites: 0.2,
    appends: 0.75,
    added: 2_500.0,
    piece: PIECE,
    turnover: 0.02,
    expiry: Expiry::Random,
};
/// Installed software: hardly anything changes, and files are larger.
pub const SOFTWARE: Habits = Habits {
    users: 10,
    dirs: 15,
    header: 0.0,
    median: 5_000.0,
    sigma: 1.8,
    largest: 8e6,
    rewrites: 0.1,
    appends: 0.0,
    added: 1.0,
    piece: PIECE,
    turnover: 0.002,
    expiry: Expiry::Young,
};
/// An operating system's own files: installed once.
pub const SYSTEM: Habits = Habits { users: 4, turnover: 0.0, rewrites: 0.0, ..SOFTWARE };
/// Logs and the files of daemons: they grow in small pieces.
pub const LOGS: Habits = Habits {
    users: 1,
    dirs: 8,
    header: 0.0,
    median: 6_000.0,
    sigma: 1.8,
    largest: 2e6,
    rewrites: 0.1,
    appends: 0.8,
    added: 800.0,
    piece: PIECE,
    turnover: 0.01,
    expiry: Expiry::Oldest,
};

const DAY: Nanos = 86_400 * SECS;
/// Sessions of a day.
pub const SESSIONS_A_DAY: u64 = 4;
/// The most bytes of a write: files are written at once, or nearly so.
const PIECE: u64 = 64 << 10;
/// The part of the files that are young, and how often a file that is changed or deleted is one of them.
const YOUNG: f64 = 0.1;
const ON_YOUNG: f64 = 0.9;
/// Days that the classes of newsgroups keep articles.
const KEPT_DAYS: [f64; 4] = [3.0, 7.0, 14.0, 30.0];

#[derive(Clone, Copy, Debug)]
struct File {
    number: u64,
    dir: u64,
    size: u64,
    /// The session in which it was created.
    session: u64,
}

/// A load on a volume. See the module.
struct State {
    habits: Habits,
    geometry: Geometry,
    /// Bytes that files may fill.
    capacity: u64,
    /// Days and the share of the capacity that is in use then; between them it changes evenly.
    course: Vec<(f64, f64)>,
    session: u64,
    /// The session with which the part began, and the one before which it ends.
    part: (u64, u64),
    dirs: Vec<Ino>,
    /// The files in the order of creation; of newsgroups, by their class.
    files: Vec<VecDeque<File>>,
    used: u64,
    rng: Rng,
    next_ino: Ino,
    created: u64,
    queue: Queue,
}

/// A load on a volume, of which parts are given out. See the module.
#[derive(Clone)]
pub struct Load(Rc<RefCell<State>>);

/// A load from one session to another.
pub struct LoadPart {
    header: Header,
    load: Load,
}

impl Load {
    /// A load on a volume with room for `capacity` bytes, of which the share in use follows a course:
    /// days, ascending, and shares (0 to 1, or above for a volume that runs out of room). Loads of other names draw
    /// other numbers.
    pub fn new(
        habits: Habits,
        geometry: Geometry,
        capacity: u64,
        course: Vec<(f64, f64)>,
        name: &str,
    ) -> Load {
        let classes = if habits.expiry == Expiry::ByGroup { KEPT_DAYS.len() } else { 1 };
        Load(Rc::new(RefCell::new(State {
            habits,
            geometry,
            capacity,
            course,
            session: 0,
            part: (0, 0),
            dirs: Vec::new(),
            files: vec![VecDeque::new(); classes],
            used: 0,
            rng: Rng::stream(capacity, name),
            next_ino: ROOT_INO + 1,
            created: 0,
            queue: Queue::default(),
        })))
    }

    /// The load of the next sessions; the part before, if any, must have been used up.
    pub fn part(&self, sessions: u64) -> LoadPart {
        let traits = Traits { timed: true, nodes_first: true, ..Traits::default() };
        let text = "the load of a file server".into();
        let mut state = self.0.borrow_mut();
        state.part = (state.session, state.session + sessions);
        state.begin_part();
        let header = Header { kind: Kind::Operations, start: Time(0), seed: 1, traits, text };
        LoadPart { header, load: self.clone() }
    }

    /// Time from the first operation of a part to its end.
    pub fn span_ns(sessions: u64) -> Nanos {
        sessions * (DAY / SESSIONS_A_DAY)
    }
}

impl State {
    fn op(&mut self, op: Op, outcome: Option<Outcome>) {
        self.queue.op((self.session - self.part.0) * (DAY / SESSIONS_A_DAY), op, outcome);
    }

    fn new_ino(&mut self) -> Ino {
        self.next_ino += 1;
        self.next_ino - 1
    }

    /// Makes the directories, or looks them up once they are there.
    fn begin_part(&mut self) {
        let is_new = self.session == 0;
        self.dirs.clear();
        for number in 0..self.habits.users * self.habits.dirs {
            let (ino, name) = (self.new_ino(), Name::from(format!("d{number}").into_bytes()));
            self.dirs.push(ino);
            let op = match is_new {
                true => Op::MakeDir { dir: ROOT_INO, name, mode: 0o755 },
                false => Op::Lookup { dir: ROOT_INO, name },
            };
            self.op(op, Some(Outcome::Entry(ino)));
        }
    }

    fn room(&self, size: u64) -> u64 {
        room_of(&self.geometry, size)
    }

    /// A lognormal size, by the sum of twelve draws.
    fn size(&mut self) -> u64 {
        let normal = (0..12).map(|_| self.rng.unit()).sum::<f64>() - 6.0;
        let body = self.habits.median * (normal * self.habits.sigma).exp();
        let size = self.habits.header + body;
        size.min(self.habits.largest).max(1.0) as u64
    }

    /// The class of a directory's files.
    fn class(&self, dir: u64) -> usize {
        (dir % self.files.len() as u64) as usize
    }

    fn write(&mut self, ino: Ino, from: u64, to: u64) {
        let mut off = from;
        while off < to {
            let len = self.habits.piece.max(1).min(to - off);
            let op = Op::Write { ino, off, data: Data::Synthetic(len) };
            self.op(op, Some(Outcome::Written(len)));
            off += len;
        }
        self.op(Op::Release { ino }, Some(Outcome::Done));
        self.op(Op::Forget { ino, count: 1 }, None);
    }

    fn create(&mut self, dir: u64, size: u64) -> u64 {
        let (number, ino) = (self.created, self.new_ino());
        self.created += 1;
        let in_dir = self.dirs[dir as usize];
        let name = name_of(number);
        let op = Op::Create { dir: in_dir, name, mode: 0o644, exclusive: true };
        self.op(op, Some(Outcome::Entry(ino)));
        self.write(ino, 0, size);
        let class = self.class(dir);
        self.files[class].push_back(File { number, dir, size, session: self.session });
        self.used += self.room(size);
        size
    }

    fn remove(&mut self, class: usize, place: usize) -> Option<File> {
        let file = self.files[class].remove(place)?;
        self.used -= self.room(file.size).min(self.used);
        let dir = self.dirs[file.dir as usize];
        self.op(Op::Unlink { dir, name: name_of(file.number) }, Some(Outcome::Done));
        Some(file)
    }

    /// Adds to a file; returns the bytes.
    fn append(&mut self, class: usize, place: usize) -> u64 {
        let more = self.rng.exponential(self.habits.added).max(1.0) as u64;
        let File { number, dir, size, .. } = self.files[class][place];
        let (ino, in_dir) = (self.new_ino(), self.dirs[dir as usize]);
        let lookup = Op::Lookup { dir: in_dir, name: name_of(number) };
        self.op(lookup, Some(Outcome::Entry(ino)));
        let open = Op::Open { ino, read: false, write: true, truncate: false };
        self.op(open, Some(Outcome::Done));
        self.write(ino, size, size + more);
        self.used += self.room(size + more) - self.room(size);
        self.files[class][place].size = size + more;
        more
    }

    /// A file that is written anew or grows.
    fn busy(&mut self) -> Option<(usize, usize)> {
        let class = self.rng.below(self.files.len() as u64) as usize;
        let len = self.files[class].len();
        let unit = self.rng.unit();
        let share = match self.habits.expiry {
            Expiry::Young if self.rng.unit() < ON_YOUNG => 1.0 - YOUNG * unit,
            _ => unit,
        };
        (len > 0).then(|| (class, ((share * len as f64) as usize).min(len - 1)))
    }

    /// A file to be deleted.
    fn expiring(&mut self) -> Option<(usize, usize)> {
        if matches!(self.habits.expiry, Expiry::Random | Expiry::Young) {
            return self.busy();
        }
        let overdue = |class: usize| {
            let age = self.session - self.files[class].front()?.session;
            Some(((age + 1) as f64 / KEPT_DAYS[class], class))
        };
        let oldest = (0..self.files.len()).filter_map(overdue);
        oldest.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, class)| (class, 0))
    }

    /// Performs one operation that writes; returns its bytes.
    fn change(&mut self) -> u64 {
        let what = self.rng.unit();
        // Users are not equally busy.
        let (unit, of_user) = (self.rng.unit(), self.rng.below(self.habits.dirs));
        let user = (unit * unit * self.habits.users as f64) as u64;
        let dir = of_user * self.habits.users + user;
        if what < self.habits.rewrites
            && let Some((class, place)) = self.busy()
            && let Some(old) = self.remove(class, place)
        {
            let size = (old.size as f64 * (0.8 + 0.45 * self.rng.unit())) as u64;
            return self.create(old.dir, size.max(1));
        }
        if what < self.habits.rewrites + self.habits.appends
            && let Some((class, place)) = self.busy()
            && (self.files[class][place].size as f64) < self.habits.largest
        {
            return self.append(class, place);
        }
        let size = self.size();
        self.create(dir, size)
    }

    /// The share of the capacity that is in use at the end of this session.
    fn level(&self) -> f64 {
        let day = self.session as f64 / SESSIONS_A_DAY as f64;
        let after = self.course.partition_point(|(at, _)| *at <= day);
        match (after.checked_sub(1).and_then(|at| self.course.get(at)), self.course.get(after)) {
            (Some(before), Some(next)) => {
                let part = (day - before.0) / (next.0 - before.0);
                before.1 + part * (next.1 - before.1)
            }
            (Some(only), None) | (None, Some(only)) => only.1,
            (None, None) => 0.0,
        }
    }

    /// Deletes files until no more than this is in use.
    fn delete_to(&mut self, bytes: u64) {
        while self.used > bytes
            && let Some((class, place)) = self.expiring()
        {
            self.remove(class, place);
        }
    }

    /// A session; false at the end.
    fn session(&mut self) -> bool {
        if self.session >= self.part.1 {
            return false;
        }
        let level = (self.level() * self.capacity as f64) as u64;
        let turnover = self.habits.turnover / SESSIONS_A_DAY as f64;
        let mut left = (turnover * self.capacity as f64) as u64;
        if left > 0 {
            // What is written anew makes no file grow.
            let growth = left as f64 * (1.0 - self.habits.rewrites);
            self.delete_to(level.saturating_sub(growth as u64));
        }
        while left > 0 || self.used < level {
            left = left.saturating_sub(self.change().max(1));
        }
        if turnover > 0.0 {
            self.delete_to(level);
        }
        self.session += 1;
        true
    }
}

fn name_of(number: u64) -> Name {
    format!("f{number:x}").into_bytes().into()
}

impl Steps for State {
    fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    fn step(&mut self) -> bool {
        self.session()
    }
}

impl LoadPart {
    fn next_queued(&mut self) -> Option<Record> {
        self.load.0.borrow_mut().next_queued()
    }
}

source_by_steps!(LoadPart);

#[cfg(test)]
mod tests {
    use super::*;
    use twin_trace::Source;

    const CAPACITY: u64 = 16 << 20;

    fn filling(habits: Habits) -> Load {
        let course = vec![(0.0, 0.6), (15.0, 0.8), (60.0, 0.8)];
        Load::new(habits, Geometry::modern(8192, 1024), CAPACITY, course, "a load")
    }

    #[test]
    fn the_volume_gets_as_full_as_asked_and_is_written_as_often_as_the_turnover_says() {
        for habits in [HOMES, NEWS, NEWS_WITH_HEADERS, MAIL, SOFTWARE, SYSTEM, LOGS] {
            let load = filling(habits);
            let (mut written, mut last) = (0, 0);
            let mut part = load.part(60 * SESSIONS_A_DAY);
            while let Some(record) = part.next_record().unwrap() {
                if let Record::Request { at_ns, request } = record {
                    assert!(at_ns >= last, "time never goes back");
                    last = at_ns;
                    if let Op::Write { data, .. } = request.op {
                        written += data.len();
                    }
                }
            }
            let used = load.0.borrow().used as f64 / CAPACITY as f64;
            let most = if habits.turnover > 0.0 { 0.8 } else { 1.3 };
            assert!((0.7..=most).contains(&used), "{used} in use");
            let least = habits.turnover * 45.0 * CAPACITY as f64;
            assert!(written as f64 > least, "{written} bytes written, {least} at least");
        }
    }

    /// The names that a part creates and deletes.
    fn names(part: &mut LoadPart) -> Vec<Name> {
        let mut all = Vec::new();
        while let Some(record) = part.next_record().unwrap() {
            if let Record::Request { request, .. } = record {
                match request.op {
                    Op::Create { name, .. } | Op::Unlink { name, .. } => all.push(name),
                    _ => {}
                }
            }
        }
        all
    }

    #[test]
    fn parts_do_together_what_the_whole_does() {
        let whole = names(&mut filling(HOMES).part(8));
        let load = filling(HOMES);
        let first = names(&mut load.part(3));
        let second = names(&mut load.part(5));
        assert_eq!(whole, [first, second].concat());
        assert!(!whole.is_empty());
    }

    #[test]
    fn newsgroups_keep_their_articles_for_different_times() {
        let load = filling(NEWS);
        names(&mut load.part(60 * SESSIONS_A_DAY));
        let state = load.0.borrow();
        let ages: Vec<u64> = state
            .files
            .iter()
            .map(|files| files.front().map_or(0, |file| state.session - file.session))
            .collect();
        assert!(ages.windows(2).all(|two| two[0] < two[1]), "{ages:?}");
    }
}
