//! The arguments of `twinfs lab`.

use std::path::PathBuf;

use clap::Args;

/// Exercises for a course on file systems, with checked answers.
///
/// `twinfs lab` lists the chapters (those of "Operating Systems: Three Easy Pieces"), `twinfs lab 43 --seed 7` shows
/// the exercises of one, in the variant of a seed. With --json they are a file with places for the answers, which
/// `twinfs lab grade FILE` checks: it exits with 0 if all are right. The exercises, their numbers and their answers are
/// the same as on the page of the book (docs/teaching.md).
///
/// `twinfs lab lines FILE` carries out what was done on the page, in simulation; with --image it keeps the volume, which
/// can be mounted, and with --sh it prints a script that does the same in a directory, such as that of a mount.
#[derive(Args)]
pub(crate) struct Lab {
    /// A chapter, or one of the words grade and lines.
    #[arg(value_name = "CHAPTER|grade|lines")]
    pub(crate) what: Option<String>,
    /// With grade: the file with the answers. With lines: the file that the page has saved.
    pub(crate) file: Option<PathBuf>,
    /// The variant: a number, or any text, such as a student's name.
    #[arg(long, value_name = "SEED", default_value = "1")]
    pub(crate) seed: String,
    /// Also show the hints.
    #[arg(long)]
    pub(crate) hints: bool,
    /// JSON: the paper with places for answers; with grade the result for graders.
    #[arg(long)]
    pub(crate) json: bool,
    /// With lines: write the volume to this file, which must not exist.
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<PathBuf>,
    /// With lines: print a script of sh instead.
    #[arg(long, conflicts_with_all = ["image", "json"])]
    pub(crate) sh: bool,
}
