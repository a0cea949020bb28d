//! The arguments of `twinfs reproduce`.

use std::path::PathBuf;

use clap::Args;

use super::Output;

/// Repeat the measurements of five papers and judge them.
///
/// The papers' hardware is modelled. For each claim the command prints the paper's figure, ours, and
/// whether the claim holds. Only independent checks, those of the kinds paper and order, count in a
/// paper's tally. Without names it takes all claims, which --list shows; this takes some minutes.
#[derive(Args)]
pub(crate) struct Reproduce {
    /// Claims, as `efs-table small-create`.
    pub(crate) claims: Vec<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Print the cells of the table of 1994 in place of statements: for the claim efs-table alone.
    #[arg(long, conflicts_with_all = ["sensitivity", "cross_validate", "choices", "wrong"])]
    pub(crate) cells: bool,
    /// Results of `twinfs bench --format json` on real directories to show on that page.
    #[arg(long, value_name = "FILE", requires = "html")]
    pub(crate) measured: Option<PathBuf>,
    /// Say what 5% of each fitted constant does to efs-table.
    #[arg(long)]
    pub(crate) sensitivity: bool,
    /// Fit the constants to half of efs-table's cells and score them on the other half.
    #[arg(long)]
    pub(crate) cross_validate: bool,
    /// Judge without this choice, a name that --choices prints; without names of claims, all of the
    /// papers that depend on it.
    #[arg(long, value_name = "NAME", conflicts_with = "html")]
    pub(crate) without: Option<String>,
    /// Print all that was chosen with the answer in view or is settled by 4.4BSD's source, with the
    /// tallies with and without each. Takes a quarter of an hour.
    #[arg(long, conflicts_with_all = ["html", "without", "wrong", "sensitivity", "cross_validate"])]
    pub(crate) choices: bool,
    /// Plant models that are wrong on purpose, and print for each the checks that find it; fails if
    /// none does. As JSON it is one object, with the tallies. Takes some minutes.
    #[arg(long, conflicts_with_all = ["html", "without", "sensitivity", "cross_validate"])]
    pub(crate) wrong: bool,
    /// List the claims.
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
}
