//! Old volumes, in simulation: how they are made, what they are like, and what becomes of them.
//!
//! Contract: everything here is simulated and depends on its arguments alone; what is read from a mount or an
//! image comes as a device or a map.
//!
//! Main types: [`make_old`] (a workload on a new volume, at the times of its records), [`copy`] (a volume with the
//! files of a snapshot where they lay), [`old_volumes`] (the volumes on which the configurations of a comparison
//! begin), [`began`] (what their runs say), [`fork`] (a volume of one instant, without the contents of its files),
//! [`forecast`] (what the next period does to it), [`layout_report`] (how files lie, for people and for scripts),
//! [`aged_report`] (what became of a volume that was made old). The ages themselves (scores, snapshots, profiles and
//! loads) are pure functions, in [`twin_age`]. Start at [`make_old`].

mod age;
pub mod aged_report;
pub mod began;
pub mod copy;
pub mod forecast;
pub mod fork;
pub mod layout_report;
pub mod old_volumes;

pub use age::{
    AgeSettings, Aged, END, IMAGE_SECTOR, NewVolume, ageing_settings, cleaned, make_old, map_of,
    map_of_platter, new_volume, planned_of, with_space_of,
};
