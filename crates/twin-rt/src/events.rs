//! Named events, which show users what a file system does and when.
//!
//! Contract: code reports an event with [`Rt::log`](crate::Rt::log). The call costs one branch if
//! no listener wants the event's category, and a listener does not change the run. The program that
//! starts the run gives it the listener with [`Rt::log_to`](crate::Rt::log_to); the core itself
//! prints nothing.

use std::fmt;

use crate::Time;

/// The subject of an event. [`Category::ALL`] is the registry of the categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Category {
    /// Operations of clients, each when it has ended.
    Operation,
    /// Operations that wait for room on the volume.
    Admission,
    /// Rounds of the cleaner, and its victims.
    Cleaner,
    /// Checkpoints of a log or of a journal.
    Checkpoint,
    /// Write-back of dirty data.
    Flush,
    /// Transactions of a journal.
    Journal,
    /// Recovery when a volume is opened that was not closed.
    Recovery,
    /// Reads of blocks that are not in memory.
    Cache,
    /// Requests that are sent to the device.
    Queue,
    /// Packets from and to the kernel, on a mount.
    Fuse,
    /// Scrubs, and what they find.
    Scrub,
}

impl Category {
    /// All categories, each with its name and a description in one line.
    pub const ALL: &[(Category, &str, &str)] = &[
        (Category::Operation, "operation", "operations of clients, each with how long it took"),
        (Category::Admission, "admission", "operations that wait for room"),
        (Category::Cleaner, "cleaner", "rounds of the cleaner of a log, and its victims"),
        (Category::Checkpoint, "checkpoint", "checkpoints of a log and of a journal"),
        (Category::Flush, "flush", "write-back of dirty data"),
        (Category::Journal, "journal", "transactions of a journal"),
        (Category::Recovery, "recovery", "recovery of a volume that was not closed"),
        (Category::Cache, "cache", "reads of blocks that are not in memory"),
        (Category::Queue, "queue", "requests that are sent to the device"),
        (Category::Fuse, "fuse", "packets from and to the kernel, on a mount"),
        (Category::Scrub, "scrub", "scrubs of a volume in use, and what they find"),
    ];

    /// The name of the category in settings and in the log.
    pub fn name(self) -> &'static str {
        Category::ALL[self as usize].1
    }
}

/// A set of categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Categories(u16);

impl Categories {
    /// The set with this category added.
    #[must_use]
    pub fn with(self, category: Category) -> Categories {
        Categories(self.0 | 1 << category as u16)
    }

    /// True if the set contains this category.
    #[inline]
    pub fn has(self, category: Category) -> bool {
        self.0 >> category as u16 & 1 == 1
    }

    /// The set of the categories whose names `text` contains, with commas between them.
    ///
    /// # Errors
    /// The first name that is not the name of a category.
    pub fn parse(text: &str) -> Result<Categories, &str> {
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).try_fold(
            Categories::default(),
            |set, name| match Category::ALL.iter().find(|(_, known, _)| *known == name) {
                Some((category, ..)) => Ok(set.with(*category)),
                None => Err(name),
            },
        )
    }
}

/// One event. As text it is one line: the time in seconds, the category, the name and the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The time of the event.
    pub time: Time,
    /// The subject of the event.
    pub category: Category,
    /// The name of the event within its category, for example "begins".
    pub name: &'static str,
    /// Named figures. Units come last in their names, as in `live_bytes`.
    pub fields: &'a [(&'static str, u64)],
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, nanos) = (self.time.secs(), self.time.subsec_nanos());
        write!(f, "{secs}.{nanos:09} {} {}", self.category.name(), self.name)?;
        self.fields.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::{ClockOnly, MILLIS, Rt};

    #[test]
    fn the_registry_is_in_the_order_of_the_categories() {
        for (at, (category, name, _)) in Category::ALL.iter().enumerate() {
            assert_eq!((*category as usize, category.name()), (at, *name));
        }
    }

    #[test]
    fn names_make_a_set_and_an_unknown_one_is_named() {
        let set = Categories::parse("cleaner, flush,").unwrap();
        assert!(set.has(Category::Cleaner) && set.has(Category::Flush));
        assert!(!set.has(Category::Fuse));
        assert_eq!(Categories::parse("flush,cleaners"), Err("cleaners"));
    }

    #[test]
    fn events_of_chosen_categories_are_told_with_their_time_and_the_others_not_even_worked_out() {
        let rt = Rt::new(ClockOnly::default(), 1);
        rt.log(Category::Flush, "early", || -> [(&str, u64); 0] { panic!("nobody listens") });
        let lines = Rc::new(RefCell::new(Vec::new()));
        let heard = Rc::clone(&lines);
        let all = Categories::default().with(Category::Flush);
        rt.log_to(all, Rc::new(move |event| heard.borrow_mut().push(event.to_string())));
        rt.block_on(rt.sleep(5 * MILLIS)).unwrap();
        rt.log(Category::Flush, "begins", || [("dirty_bytes", 4096), ("inodes", 2)]);
        rt.log(Category::Cleaner, "round", || -> [(&str, u64); 0] { panic!("nobody listens") });
        assert_eq!(*lines.borrow(), ["0.005000000 flush begins dirty_bytes=4096 inodes=2"]);
    }
}
