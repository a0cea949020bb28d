//! `twinfs-bucket`: the program `twinfs` with volumes in buckets, `s3://BUCKET/NAME`.
//!
//! It is a program of its own because its client of object stores takes longer to build than all the rest. `twinfs`
//! becomes this program when it is given such a name.

mod coding;
mod key;
mod media;
mod owner;
mod store;

use std::process::ExitCode;

fn main() -> ExitCode {
    twin_mount::media::register(&media::S3);
    twinfs::main()
}
