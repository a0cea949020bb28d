//! The file system above its layout: operations, names, inodes, permissions, file data.
//!
//! Main types: [`Op`], [`Request`] and [`Reply`] (what clients ask and get), [`FileSystem`]
//! (what executes them), [`Volume`] (the file system, over a [`Layout`]), [`OpenVolume`] (one of
//! whatever layout), [`Core`] (what its layers share), [`Features`] (what a layout can do),
//! [`LayoutKind`] (a layout as programs know it), [`FsError`]. Start at [`Op`], then [`Volume`],
//! which names the layers.

#![allow(missing_docs)] // Fields of `Op`'s variants are documented on their variant.

mod core;
mod cpu;
mod data;
pub mod dir;
pub mod dump;
mod error;
mod features;
mod forward;
pub mod generate;
mod inodes;
mod kind;
mod layout;
pub mod model;
mod op;
mod open_volume;
mod ops;
mod orphans;
pub mod perm;
pub mod reading;
mod reads;
mod room;
#[cfg(test)]
mod room_tests;
mod running;
mod settings;
pub mod shape;
mod stop;
mod volume;
#[cfg(test)]
mod volume_tests;
mod write_back;

pub use core::Core;
pub use cpu::{Cpu, CpuModel, OpKind, Work};
pub use data::dirty_parents;
pub use error::{FsError, Result};
pub use features::{DirFormat, Features};
pub use forward::{Form, Forwards, Holder};
pub use inodes::{Inode, Refs, dinode};
pub use kind::{
    CheckHow, CheckReport, Cleaned, Cleaning, Fact, Identity, KeyHelp, LayoutConfig, LayoutKind,
    Opened,
};
pub use layout::{Change, Layout, Need, Picked, Written};
pub use op::*;
pub use open_volume::{AnyVolume, OpenVolume};
pub use reads::{ReadGate, ReadPass};
pub use room::{Gate, Turn, Verdict, collected_bytes};
pub use running::Execution;
pub use settings::Settings;
pub use volume::Volume;
