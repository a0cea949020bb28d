//! Named events, for people who want to see what a file system does and when.
//!
//! Contract: [`Rt::log`](crate::Rt::log) tells of an event; it costs one branch if nobody listens to the
//! event's category, and changes nothing of the run if somebody does. Where the events go is a value that the
//! run is given with [`Rt::log_to`](crate::Rt::log_to); nothing below prints.

use std::fmt;

use crate::Time;

/// What an event is about. [`Category::ALL`] is the registry of the categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Category {
    /// Operations that wait for room.
    Admission,
    /// Rounds of the cleaner of a log, and its victims.
    Cleaner,
    /// Checkpoints, of a log and of a journal.
    Checkpoint,
    /// Write-back of dirty data.
    Flush,
    /// Transactions of a journal.
    Journal,
    /// What opening a volume that was not closed had to do.
    Recovery,
    /// Blocks that are not in memory.
    Cache,
    /// Requests as they go to the device.
    Queue,
    /// Packets of the kernel.
    Fuse,
}

impl Category {
    /// All categories, with their names and a line each.
    pub const ALL: &[(Category, &str, &str)] = &[
        (Category::Admission, "admission", "operations that wait for room"),
        (Category::Cleaner, "cleaner", "what the cleaner of a log does, victim by victim"),
        (Category::Checkpoint, "checkpoint", "checkpoints of a log and of a journal"),
        (Category::Flush, "flush", "write-back of dirty data"),
        (Category::Journal, "journal", "transactions of a journal"),
        (Category::Recovery, "recovery", "what opening a volume that was not closed did"),
        (Category::Cache, "cache", "reads of blocks that are not in memory"),
        (Category::Queue, "queue", "requests as they go to the device"),
        (Category::Fuse, "fuse", "packets of the kernel, on a mount"),
    ];

    /// What users call it.
    pub fn name(self) -> &'static str {
        Category::ALL[self as usize].1
    }
}

/// A set of categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Categories(u16);

impl Categories {
    /// The set with one more.
    #[must_use]
    pub fn with(self, category: Category) -> Categories {
        Categories(self.0 | 1 << category as u16)
    }

    /// True if it has this one.
    #[inline]
    pub fn has(self, category: Category) -> bool {
        self.0 >> category as u16 & 1 == 1
    }

    /// The set of these names, with commas between them.
    ///
    /// # Errors
    /// The first name that is none.
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

/// Something that happened. As text it is one line: the time in seconds, the category, the name, and the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// When.
    pub time: Time,
    /// What it is about.
    pub category: Category,
    /// What happened.
    pub name: &'static str,
    /// Figures. Units come last in their names, as in `live_bytes`.
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
