//! The file systems of the study: tables 1 to 4 of TR-35-94, an eighth as large, with cylinder groups of
//! the tables' size.

use twin_age::load::{
    Expiry, HOMES, Habits, LOGS, MAIL, NEWS, NEWS_WITH_HEADERS, SOFTWARE, SYSTEM,
};

use crate::variation::OtherAgeing;
use twin_lab::Config;

/// The day of the last snapshot: the study's days are counted from 26 January 1994.
pub(crate) const LAST_DAY: u64 = 300;
/// How much smaller they are than the paper's: this part of the cylinder groups.
pub(crate) const SCALE: u64 = 8;
/// The fewest cylinder groups.
const FEWEST_GROUPS: u64 = 2;
/// The machine and the file system of the study.
const MACHINE: &str = "sunos-ffs";
/// SunOS's newfs makes an inode for each 2 KB, 4.4BSD's for each 4 KB; small articles need them.
const INODES: &str = "bytes-per-inode=2K";
/// The most days of a file system's life before the study that are gone through.
const HISTORY_MOST: u64 = 300;
/// The fewest, and the days after which nothing that a news file system had is left.
const HISTORY_LEAST: u64 = 30;
const HISTORY_OF_NEWS: u64 = 60;

/// The pieces of programs that write by standard output with buffers of BUFSIZ.
const PIECE: u64 = 1 << 10;

/// A row of the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSystem {
    /// The file server.
    pub(crate) server: &'static str,
    /// The table's name.
    pub(crate) name: &'static str,
    /// Months of age on 1 December 1994, ten months after the study began.
    pub(crate) months: u64,
    /// Cylinder groups, and blocks of each.
    pub(crate) groups: (u64, u64),
    /// Bytes of a block.
    pub(crate) block: u64,
    /// What its users do.
    pub(crate) habits: Habits,
    /// How full it is, of what users may fill.
    pub(crate) full: f64,
    /// Days of the study and how full it is then, where the paper tells.
    pub(crate) events: &'static [(f64, f64)],
    /// Whether the benchmark is run on it: the paper chose nine active ones with blocks of 8 KB, for
    /// accounts, news and binaries, of which Seltzer et al. 1995 name six; the others are our choice.
    pub(crate) timed: bool,
}

type Groups = (u64, u64);

const fn row(
    server: &'static str,
    name: &'static str,
    months: u64,
    groups: Groups,
    (habits, full): (Habits, f64),
) -> FileSystem {
    FileSystem {
        server,
        name,
        months,
        groups,
        block: 8192,
        habits,
        full,
        events: &[],
        timed: false,
    }
}

impl FileSystem {
    const fn timed(self) -> FileSystem {
        FileSystem { timed: true, ..self }
    }

    const fn blocks_of_4k(self) -> FileSystem {
        FileSystem { block: 4096, ..self }
    }

    const fn with_events(self, events: &'static [(f64, f64)]) -> FileSystem {
        FileSystem { events, ..self }
    }
}

// How full a file system was is in the paper for `white` alone; the others get what file servers usually
// have.
const HOME: (Habits, f64) = (HOMES, 0.80);
const SOFT: (Habits, f64) = (SOFTWARE, 0.80);
const STATIC: (Habits, f64) = (SYSTEM, 0.80);
const LOG: (Habits, f64) = (LOGS, 0.60);
/// Scratch space and temporary files: little stays for long.
const SCRATCH: (Habits, f64) = (Habits { turnover: 0.1, ..HOMES }, 0.30);
/// Files that a program keeps: few, large, growing.
const DATABASE: (Habits, f64) =
    (Habits { median: 100_000.0, appends: 0.5, added: 20_000.0, ..SOFTWARE }, 0.70);
/// "The home for twenty different user accounts", "heavily used"; `usr12` has half as many, as we
/// give the others.
const BUSY: (Habits, f64) =
    (Habits { users: 2 * HOMES.users, turnover: 2.0 * HOMES.turnover, ..HOMES }, 0.80);

/// Section 5.3: low on space in January, out of room on 8 February, "a large amount of data was removed".
const CNEWS: &[(f64, f64)] = &[(0.0, 0.9), (13.0, 1.1), (13.25, 0.6), (300.0, 0.7)];
/// Section 4.1: on 13 July from 90% to 25%, and 36% by 15 October.
const WHITE: &[(f64, f64)] = &[(0.0, 0.85), (168.0, 0.9), (168.25, 0.25), (262.0, 0.36)];

const NEWS_SERVER: &str = "das-news";
const SPEED: &str = "speed";
const ENDOR: &str = "endor";
const VIRTUAL: &str = "virtual12";

/// The population.
pub(crate) const POPULATION: [FileSystem; 48] = [
    row(NEWS_SERVER, "/", 36, (3, 720), STATIC),
    row(NEWS_SERVER, "cnews", 34, (50, 1539), (NEWS_WITH_HEADERS, 0.9)).timed().with_events(CNEWS),
    row(NEWS_SERVER, "export", 36, (21, 720), STATIC),
    row(NEWS_SERVER, "newsspool", 15, (141, 1729), (NEWS_WITH_HEADERS, 0.8)).blocks_of_4k(),
    row(NEWS_SERVER, "services", 15, (142, 1729), SOFT).blocks_of_4k(),
    row(NEWS_SERVER, "staff", 32, (32, 1539), HOME).timed(),
    row(NEWS_SERVER, "usr", 36, (18, 720), STATIC),
    row(NEWS_SERVER, "usr15", 27, (22, 1539), SOFT),
    row(NEWS_SERVER, "var", 36, (3, 720), LOG),
    row(SPEED, "/", 19, (3, 720), STATIC),
    row(SPEED, "bespin-new", 15, (74, 1520), SOFT),
    row(SPEED, "local", 17, (86, 1520), SOFT),
    row(SPEED, "speed", 5, (52, 1520), SCRATCH),
    row(SPEED, "usr", 19, (42, 720), STATIC),
    row(SPEED, "usr3", 18, (86, 1520), HOME),
    row(SPEED, "usr4", 18, (86, 1520), HOME).timed(),
    row(SPEED, "usr5", 18, (86, 1520), HOME),
    row(SPEED, "usr12", 18, (86, 1520), HOME).timed(),
    row(SPEED, "usr16", 15, (46, 1520), SOFT),
    row(SPEED, "var", 19, (6, 720), LOG),
    row(ENDOR, "/", 15, (2, 1360), STATIC),
    row(ENDOR, "adm", 15, (9, 1360), LOG),
    row(ENDOR, "backupdatabase", 15, (171, 1520), DATABASE),
    row(ENDOR, "ftp", 15, (9, 1360), SOFT),
    row(ENDOR, "local", 15, (86, 1520), SOFT).timed(),
    row(ENDOR, "mail", 15, (18, 1360), (MAIL, 0.6)),
    row(ENDOR, "rabin", 15, (41, 1520), HOME),
    row(ENDOR, "root", 15, (2, 1360), STATIC),
    row(ENDOR, "software", 15, (86, 1520), SOFT),
    row(ENDOR, "software2", 15, (91, 1520), SOFT),
    row(ENDOR, "tmp", 15, (9, 1360), SCRATCH),
    row(ENDOR, "usr", 15, (23, 1360), STATIC),
    row(ENDOR, "usr0", 9, (23, 1360), STATIC),
    row(ENDOR, "usr1", 15, (63, 1520), HOME),
    row(ENDOR, "usr2", 15, (51, 1520), HOME),
    row(ENDOR, "usr6", 15, (86, 1520), BUSY).timed(),
    row(ENDOR, "usr8", 15, (86, 1520), HOME),
    row(ENDOR, "var", 15, (7, 1360), LOG),
    row(ENDOR, "var/tmp", 15, (9, 1360), SCRATCH),
    row(ENDOR, "white", 15, (41, 1520), HOME).timed().with_events(WHITE),
    row(VIRTUAL, "/", 26, (6, 456), STATIC),
    row(VIRTUAL, "glan5", 25, (90, 2596), SOFT).timed(),
    row(VIRTUAL, "glan6", 19, (27, 2596), HOME).timed(),
    row(VIRTUAL, "glan7", 19, (21, 2596), HOME),
    row(VIRTUAL, "glan8", 19, (21, 2596), HOME),
    row(VIRTUAL, "glan9", 19, (21, 2596), HOME),
    row(VIRTUAL, "usr", 26, (26, 456), STATIC),
    row(VIRTUAL, "var", 26, (20, 456), LOG),
];

impl FileSystem {
    /// The configuration of the machine with this file system.
    pub(crate) fn config(&self) -> Option<Config> {
        let (groups, blocks) = self.groups;
        let group = blocks * self.block;
        let groups = ((groups + SCALE / 2) / SCALE).max(FEWEST_GROUPS);
        // A block before the first group.
        let size = (groups * group).next_multiple_of(65536);
        let (block, frag) = (self.block, self.block / 8);
        let text =
            format!("{MACHINE}:size={size},group={group},block={block},frag={frag},{INODES}");
        Config::parse(&text).ok()
    }

    /// The same file system with a change of how it grows old.
    pub(crate) fn varied(&self, change: Option<OtherAgeing>) -> FileSystem {
        let (habits, events) = (self.habits, self.events);
        let (habits, events) = match change {
            None => return *self,
            Some(OtherAgeing::DeletesNothing) => {
                (Habits { turnover: 0.0, rewrites: 0.0, appends: 0.0, ..habits }, &[][..])
            }
            Some(OtherAgeing::Pieces) => (Habits { piece: PIECE, ..habits }, events),
            Some(OtherAgeing::NoHeaders) if habits.header > 0.0 => (NEWS, events),
            Some(OtherAgeing::NoHeaders) => (habits, events),
        };
        FileSystem { habits, events, ..*self }
    }

    /// The days before the study that are gone through.
    pub(crate) fn history_days(&self) -> u64 {
        let most =
            if self.habits.expiry == Expiry::ByGroup { HISTORY_OF_NEWS } else { HISTORY_MOST };
        (self.months.saturating_sub(10) * 30).clamp(HISTORY_LEAST, most)
    }

    /// Days from the beginning of its history on, and how full it is then: it begins with what was
    /// installed or restored at once, and fills up to the end of the study.
    pub(crate) fn course(&self) -> Vec<(f64, f64)> {
        let before = self.history_days() as f64;
        let installed = if self.habits.turnover > 0.0 { 0.6 } else { 1.0 };
        let full = self.events.first().map_or(self.full, |first| first.1);
        let mut course = vec![(0.0, installed * full)];
        if self.events.is_empty() {
            course.push((before + LAST_DAY as f64, full));
        }
        course.extend(self.events.iter().map(|(day, level)| (before + day, *level)));
        course
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_system_has_a_configuration_and_nine_are_timed() {
        for system in POPULATION {
            assert!(system.config().is_some(), "{}:{}", system.server, system.name);
            let course = system.course();
            assert!(course.windows(2).all(|two| two[0].0 < two[1].0), "{course:?}");
        }
        assert_eq!(POPULATION.iter().filter(|system| system.timed).count(), 9);
    }
}
