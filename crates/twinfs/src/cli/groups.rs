//! The list of commands in `twinfs --help`, in groups by what people want to do.
//!
//! clap has no headings for commands, so the list is a part of the help's template. It is made from
//! the commands' own descriptions; a test holds that every command is in one group.

use clap::Command;

/// The groups in the order in which they are shown, each with its commands.
const GROUPS: &[(&str, &[&str])] = &[
    ("Try and choose", &["compare", "advise", "presets"]),
    ("Experiments as files", &["run", "merge", "diff"]),
    ("Get a workload", &["record", "convert", "gather", "replay"]),
    (
        "Make, mount and serve volumes",
        &["mkfs", "mount", "umount", "serve", "grow", "quota", "clean"],
    ),
    ("Does a program survive power failures?", &["crashlab", "ack"]),
    ("Back up volumes", &["send", "receive"]),
    ("Look at volumes", &["check", "scrub", "stat", "dump", "layout", "top"]),
    ("Old volumes, and the next hours of one", &["age", "snapshot", "fork", "forecast"]),
    (
        "Study policies and papers",
        &["cache", "frontier", "volume", "reproduce", "new-policy", "arena"],
    ),
    ("Teach and learn", &["lab"]),
    ("Measure this machine", &["bench", "calibrate", "validate"]),
    ("Shell and manual", &["completions", "man"]),
];

/// The template of the help of `command`, which has all subcommands.
pub(super) fn template(command: &Command) -> String {
    let width = command.get_subcommands().map(|sub| sub.get_name().len()).max().unwrap_or(0);
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (title, names) in GROUPS {
        text.push_str(&format!("\n{title}:\n"));
        for sub in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {:<width$}  {about}\n", sub.get_name()));
        }
    }
    text.push_str(
        "\n`twinfs COMMAND --help` explains a command.\n\nOptions:\n{options}{after-help}",
    );
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for sub in Cli::command().get_subcommands() {
            let count = grouped.iter().filter(|name| **name == sub.get_name()).count();
            assert_eq!(count, 1, "{}", sub.get_name());
        }
    }

    #[test]
    fn a_line_of_the_list_fits_into_80_columns() {
        let help = Cli::command().render_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(help.contains("Try and choose:\n  compare"), "{help}");
    }
}
