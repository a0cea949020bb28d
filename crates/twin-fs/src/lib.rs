//! The file system above its layout: operations, names, inodes, permissions, file data.
//!
//! Main types: [`Op`], [`Request`] and [`Reply`] (what clients ask and get), [`FileSystem`]
//! (what executes them), [`FsError`]. Start at [`Op`].

#![allow(missing_docs)] // Fields of `Op`'s variants are documented on their variant.

mod cpu;
pub mod dir;
mod error;
pub mod generate;
pub mod model;
mod op;
pub mod perm;

pub use cpu::{Cpu, CpuModel, OpKind, Work};
pub use error::{FsError, Result};
pub use op::*;
