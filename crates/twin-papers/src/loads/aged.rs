//! The loads that make the file systems of the layout study old: home directories and news.
//!
//! Contract: what is measured are the files that a load leaves after sixty days on a volume that is four fifths full.

use std::collections::BTreeMap;

use twin_age::load::{HOMES, Habits, Load as OldLoad, NEWS_WITH_HEADERS, SESSIONS_A_DAY};
use twin_fs::geometry::Geometry;
use twin_fs::{Ino, Op};
use twin_trace::{Outcome, Record, Source};

use super::{Figure, Load, Purpose};

const DAYS: u64 = 60;
const CAPACITY: u64 = 64 << 20;
const DAY_NS: u64 = 86_400 * 1_000_000_000;

pub(super) const HOMES_LOAD: Load = Load {
    name: "homes",
    about: "home directories of the layout study",
    numbers: 0,
    figures: |_, _| homes(),
    fitted: None,
};

pub(super) const NEWS_LOAD: Load = Load {
    name: "news",
    about: "the news file systems of the layout study",
    numbers: 0,
    figures: |_, _| news(),
    fitted: None,
};

/// The files that a load leaves: the size of each, and the day of its creation; and the files that were changed on
/// the last day.
struct Left {
    files: Vec<(u64, f64)>,
    changed: u64,
}

fn left_by(habits: Habits) -> Result<Left, String> {
    let course = vec![(0.0, 0.6), (DAYS as f64 / 2.0, 0.8), (DAYS as f64, 0.8)];
    let load = OldLoad::new(habits, Geometry::modern(8192, 1024), CAPACITY, course, "measured");
    let mut part = load.part(DAYS * SESSIONS_A_DAY);
    let mut files: BTreeMap<Vec<u8>, (u64, f64)> = BTreeMap::new();
    let mut names: BTreeMap<Ino, Vec<u8>> = BTreeMap::new();
    let (mut asked, mut changed) = (BTreeMap::new(), 0);
    while let Some(record) = part.next_record().map_err(|error| error.to_string())? {
        match record {
            Record::Request { at_ns, request } => {
                let day = at_ns as f64 / DAY_NS as f64;
                match request.op {
                    Op::Create { name, .. } => {
                        files.insert(name.to_vec(), (0, day));
                        changed += u64::from(day >= (DAYS - 1) as f64);
                        asked.insert(request.id, name.to_vec());
                    }
                    Op::Lookup { name, .. } => {
                        asked.insert(request.id, name.to_vec());
                    }
                    Op::Unlink { name, .. } => {
                        files.remove(&name.to_vec());
                    }
                    Op::Write { ino, off, data } => {
                        let file = names.get(&ino).and_then(|name| files.get_mut(name));
                        if let Some((size, _)) = file {
                            *size = (*size).max(off + data.len());
                        }
                    }
                    _ => {}
                }
            }
            Record::Reply { id, outcome: Outcome::Entry(ino), .. } => {
                if let Some(name) = asked.remove(&id) {
                    names.insert(ino, name);
                }
            }
            _ => {}
        }
    }
    Ok(Left { files: files.into_values().collect(), changed })
}

impl Left {
    fn mean(&self) -> f64 {
        self.files.iter().map(|(size, _)| *size as f64).sum::<f64>() / self.count()
    }

    fn count(&self) -> f64 {
        self.files.len().max(1) as f64
    }

    /// Percent of the files that are smaller.
    fn below(&self, bytes: u64) -> f64 {
        self.files.iter().filter(|(size, _)| *size < bytes).count() as f64 * 100.0 / self.count()
    }

    fn least(&self) -> f64 {
        self.files.iter().map(|(size, _)| *size).min().unwrap_or(0) as f64
    }

    /// The mean age of the files at the end, in days.
    fn mean_age(&self) -> f64 {
        self.files.iter().map(|(_, day)| DAYS as f64 - day).sum::<f64>() / self.count()
    }
}

fn figure(
    what: &str,
    (value, unit): (f64, &'static str),
    range: (f64, f64),
    source: &str,
    (generated, purpose): (f64, Purpose),
) -> Figure {
    let published = twin_report::units::figure(value);
    Figure { what: what.into(), unit, published, range, source: source.into(), generated, purpose }
}

/// Sizes are from memory, which the source says.
fn homes() -> Result<Vec<Figure>, String> {
    let left = left_by(HOMES)?;
    let from_memory = "Irlam 1993, from memory";
    Ok(vec![
        figure(
            "files below 4 KB",
            (60.0, "%"),
            (50.0, 70.0),
            from_memory,
            (left.below(4096), Purpose::Given),
        ),
        figure(
            "mean of a file",
            (20.0, "KB"),
            (10.0, 25.0),
            from_memory,
            (left.mean() / 1e3, Purpose::Given),
        ),
        figure(
            "files written in a day, of all: at most those used",
            (1.0, "%"),
            (0.0, 1.0),
            "Gibson 1998, abstract: 1% are used",
            (left.changed as f64 * 100.0 / left.count(), Purpose::HeldOut),
        ),
    ])
}

fn news() -> Result<Vec<Figure>, String> {
    let left = left_by(NEWS_WITH_HEADERS)?;
    let about = |value: f64| (value * 0.85, value * 1.15);
    let flow = "news.lists, flow analysis, June 1995";
    Ok(vec![
        figure(
            "mean of an article",
            (3.0, "KB"),
            about(3.0),
            flow,
            (left.mean() / 1e3, Purpose::Given),
        ),
        figure(
            "smallest article, beside the mean of headers",
            (586.0, "bytes"),
            about(586.0),
            "Adams, net.news, May 1985",
            (left.least(), Purpose::Given),
        ),
        figure(
            "mean age of the stored articles",
            (9.1, "d"),
            about(9.1),
            flow,
            (left.mean_age(), Purpose::HeldOut),
        ),
    ])
}
