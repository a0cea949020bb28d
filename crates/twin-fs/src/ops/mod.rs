//! The operations, by what they are about. Each file adds methods to [`Volume`](crate::Volume).

mod adopt;
mod attr;
mod create;
mod file;
mod names;
mod read_dir;
mod remove;
mod rename;
mod xattr;
