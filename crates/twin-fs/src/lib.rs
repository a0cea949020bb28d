//! The file system above its layout: operations, names, inodes, permissions, file data.
//!
//! Main types: [`Op`], [`Request`] and [`Reply`] (what clients ask and get), [`FileSystem`]
//! (what executes them), [`Volume`] (the file system, over a [`Layout`]), [`Core`] (what its
//! parts share), [`FsError`]. Start at [`Op`], then [`Volume`].

#![allow(missing_docs)] // Fields of `Op`'s variants are documented on their variant.

mod by_block;
mod core;
mod cpu;
mod data;
pub mod dinode;
pub mod dir;
mod error;
mod features;
mod forward;
pub mod generate;
mod layout;
mod map;
pub mod model;
mod op;
mod ops;
pub mod perm;
pub mod reading;
mod room;
#[cfg(test)]
mod room_tests;
mod running;
pub mod shape;
mod space;
mod truncate;
mod volume;

pub use core::{Core, Inode, ReadGate, ReadPass, Refs, Settings};
pub use cpu::{Cpu, CpuModel, OpKind, Work};
pub use error::{FsError, Result};
pub use features::{DirFormat, Features};
pub use forward::{Form, Forwards, Holder};
pub use layout::{Change, Layout, Need, Picked};
pub use op::*;
pub use room::{Gate, Room, Turn, Verdict, collected_bytes};
pub use space::dirty_parents;
pub use volume::Volume;
