//! Volumes in files and on devices: recognized, opened, mounted, served, observed and asked.
//!
//! This is the daemon's side of the program, and the side of those who ask a daemon. The crate stands above
//! twin-host (devices, FUSE, sockets) and the laboratory (the registry of layouts, observers), and parses no
//! arguments.
//!
//! Main types: [`content::Content`] (what a file or device holds), [`opening::OpenOptions`] (how a volume is
//! opened on a host of its own), [`mount::MountRequest`] and [`nfs::ServeRequest`] (what a daemon serves),
//! [`answers::Answers`] (what a mount tells of itself over its channel) and [`client::MountClient`] (who asks),
//! [`observers::Observers`] (who observes a mount), [`crashlab::LabRequest`] (whether a program survives power failures).
//!
//! Start at [`mount::serve_volume`].

pub mod answers;
pub mod client;
pub mod content;
pub mod crashlab;
pub mod git;
pub mod image;
pub mod image_volume;
pub mod input;
pub mod journal;
pub mod kept_states;
pub mod kept_volumes;
pub mod make;
pub mod media;
pub mod mount;
pub mod nfs;
pub mod observers;
pub mod opening;
pub mod record;
pub mod scrubbing;
pub mod source_map;
pub mod states;
mod status_file;
