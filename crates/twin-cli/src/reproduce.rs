//! The arguments of `twinfs reproduce`, which the program `twinfs-reproduce` carries out.
//!
//! They stand here because both programs read them: `twinfs` for its help, its completions and its manual.

use std::path::PathBuf;

use clap::Parser;

use crate::output::Output;

/// Repeat the measurements of five papers and judge them.
///
/// The papers' hardware is modelled. For each claim the command prints the paper's figure, ours, and
/// whether the claim holds. Only independent checks, those of the kinds paper and order, count in a
/// paper's tally. Without names it takes all claims, which --list shows; this takes some minutes.
#[derive(Debug, Parser)]
#[command(name = "twinfs-reproduce", bin_name = "twinfs reproduce", max_term_width = 100)]
#[command(
    after_help = "This command is a program of its own, twinfs-reproduce, beside twinfs or in PATH. In a checkout \
    `cargo build --release -p twin-papers` builds it."
)]
pub struct Reproduce {
    /// Claims, as `efs-table small-create`.
    pub claims: Vec<String>,
    /// The form of the results.
    #[command(flatten)]
    pub output: Output,
    /// Print the cells of the table of 1994 in place of statements: for the claim efs-table alone.
    #[arg(long, conflicts_with_all = ["sensitivity", "cross_validate", "choices", "wrong"])]
    pub cells: bool,
    /// Results of `twinfs bench --format json` on real directories to show on that page.
    #[arg(long, value_name = "FILE", requires = "html")]
    pub measured: Option<PathBuf>,
    /// Say what 5% of each fitted constant does to efs-table.
    #[arg(long)]
    pub sensitivity: bool,
    /// Fit the constants to half of efs-table's cells and score them on the other half.
    #[arg(long)]
    pub cross_validate: bool,
    /// Judge without this choice, a name that --choices prints; without names of claims, all of the
    /// papers that depend on it.
    #[arg(long, value_name = "NAME", conflicts_with = "html")]
    pub without: Option<String>,
    /// Judge with this experiment, a name in a cause of --failures, as no-skews or pieces; without names of claims,
    /// those whose causes name it.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["html", "without"])]
    pub with: Option<String>,
    /// Print all that was chosen with the answer in view or is settled by 4.4BSD's source, with the
    /// tallies with and without each. Takes a quarter of an hour.
    #[arg(long, conflicts_with_all = ["html", "without", "with", "wrong", "sensitivity", "cross_validate"])]
    pub choices: bool,
    /// Plant models that are wrong on purpose, and print for each the checks that find it; fails if
    /// none does. As JSON it is one object, with the tallies. Takes some minutes.
    #[arg(long, conflicts_with_all = ["html", "without", "with", "sensitivity", "cross_validate"])]
    pub wrong: bool,
    /// Print the counted checks that do not hold as a table in Markdown, with the cause of each: that of
    /// docs/reproduction.md.
    #[arg(long, conflicts_with_all = ["cells", "html", "wrong", "choices", "sensitivity", "cross_validate", "explain"])]
    pub failures: bool,
    /// With --failures: the table of these answers of `--format json`, which were kept, without any run. The causes
    /// are those of this program.
    #[arg(long, value_name = "FILE", requires = "failures")]
    pub of: Vec<PathBuf>,
    /// Explain one check: how far it is from its limit, the times of the runs behind it, and which declared choices
    /// turn it. CHECK is a claim and a number, as small-create:1, or words that only one check has.
    #[arg(long, value_name = "CHECK",
          conflicts_with_all = ["cells", "html", "without", "with", "wrong", "choices", "sensitivity", "cross_validate", "quick"])]
    pub explain: Option<String>,
    /// Print the loads that stand in for traces beside the published tables: what each was given, what was held out,
    /// and what it yields. All loads, or one: sprite-1991, file-server, homes, news.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "all",
          conflicts_with_all = ["claims", "cells", "measured", "without", "with", "wrong", "choices", "sensitivity",
                                "cross_validate", "failures", "explain", "quick", "resume", "fit"])]
    pub loads: Option<String>,
    /// Search the parameters of a load again and print them beside those that are declared: sprite-1991. Takes a
    /// minute.
    #[arg(long, value_name = "NAME",
          conflicts_with_all = ["claims", "cells", "measured", "without", "with", "wrong", "choices", "sensitivity",
                                "cross_validate", "failures", "explain", "quick", "resume"])]
    pub fit: Option<String>,
    /// Leave out the claims that take long: studies of servers and of aged volumes, and TPC-B with the cleaner.
    /// The verdict names them.
    #[arg(long, conflicts_with_all = ["claims", "wrong", "choices", "without", "with"])]
    pub quick: bool,
    /// Go on from where the same command was interrupted.
    #[arg(long)]
    pub resume: bool,
    /// List the claims.
    #[arg(long, exclusive = true)]
    pub list: bool,
}
