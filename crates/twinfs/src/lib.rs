//! `twinfs`: make, mount, check and simulate volumes.
//!
//! Each command is a file in `cmd`; `cli` says what they are called and what they take. All work is done in the
//! libraries below. The program itself only calls [`main`], so that it is linked in a moment after this library is
//! built beside the others. A program that carries out commands itself, as the bindings for Python do, starts at
//! [`call`].

mod choices;
mod cli;
mod cmd;
mod measuring;
mod size;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, Parser};
use twin_cli::{Call, Failure, Outcome, mount_helper, programs, status_of, usage};
use twin_host::Interrupts;
use twin_settings::outside;
use twin_trace::Source;

/// Carries out the command line of this process.
pub fn main() -> ExitCode {
    programs::for_media(|word| twin_mount::media::of(word).is_err());
    twin_host::load_policies();
    let mut arguments = std::env::args_os();
    match arguments.next() {
        Some(name) if mount_helper::is_name(&name) => ExitCode::from(mounted(arguments)),
        _ => ExitCode::from(carried_out(cli::Cli::parse())),
    }
}

/// What mount(8) wants of its helper.
fn mounted(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = cli::Cli::command();
    let mount = cli.find_subcommand("mount").unwrap_or(&cli);
    let ours = match mount_helper::translated(arguments, mount) {
        Ok(None) => 0,
        Ok(Some(words)) => match cli::Cli::try_parse_from(words) {
            Ok(cli) => carried_out(cli),
            Err(error) => {
                twin_host::note!("{error}");
                2
            }
        },
        Err(why) => {
            twin_host::note!("twinfs: {why}");
            2
        }
    };
    mount_helper::status(ours)
}

/// Carries out a call of a command on this thread.
///
/// # Errors
/// As the command line would say them. Commands that become another program or serve until a signal comes are
/// refused: they need a process of their own.
pub fn call(call: &Arc<Call>) -> Result<ExitCode, Failure> {
    twin_host::load_policies();
    let words = std::iter::once("twinfs".to_owned()).chain(call.arguments.iter().cloned());
    let parsed = cli::Cli::try_parse_from(words);
    call.carry_out(|interrupts| match parsed {
        Ok(cli::Cli { command }) if cmd::serves(&command) => {
            Err(usage("this command needs a process of its own: start the program `twinfs`"))
        }
        Ok(cli::Cli { command }) => {
            let outcome = sound(cmd::run(command, interrupts));
            // One that failed is no fault of the next call.
            outside::forget_fault();
            outcome
        }
        Err(error) => Err(Failure {
            why: error.to_string(),
            status: u8::try_from(error.exit_code()).unwrap_or(1),
        }),
    })
}

/// Carries out a command line, `words` with the name of the program first, as [`main`] does that of this process, and
/// returns its exit status.
pub fn main_with(words: Vec<String>) -> u8 {
    twin_host::load_policies();
    carried_out(cli::Cli::parse_from(words))
}

fn carried_out(cli: cli::Cli) -> u8 {
    let interrupts = match cmd::serves(&cli.command) {
        true => Ok(Interrupts::default()),
        false => Interrupts::listen(),
    };
    status_of(interrupts, |interrupts| sound(cmd::run(cli.command, interrupts)))
}

/// The outcome, unless a policy from outside failed: that makes void whatever was found with it.
fn sound(outcome: Outcome) -> Outcome {
    match outside::fault() {
        Some(words) if outcome.is_ok() => Err(words.into()),
        _ => outcome,
    }
}

/// The operations of a workload as the command line names it: a trace in any format that is read, or otherwise the
/// text of a generator or the description of a workload.
///
/// # Errors
/// As the command line would say them.
pub fn operations(
    workload: &str,
    format: Option<&str>,
    seed: u64,
) -> Result<Box<dyn Source>, Failure> {
    let workload = cmd::named_workload(workload, format, seed)?;
    workload.start().map_err(|error| Failure { why: error.to_string(), status: 1 })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use twin_cli::mount_helper::translated;

    use super::*;

    fn line(arguments: &str) -> Result<Option<String>, String> {
        let cli = cli::Cli::command();
        let mount = cli.find_subcommand("mount").unwrap();
        let words = translated(arguments.split(' ').map(OsString::from), mount)?;
        let text = |words: Vec<OsString>| {
            words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        Ok(words.map(text))
    }

    #[test]
    fn what_mount_passes_becomes_the_command_line() {
        assert_eq!(
            line("/v.img /mnt -o rw,nosuid,cache=64M,allow_other,nofail,x-systemd.automount -t fuse.twinfs"),
            Ok(Some(
                "twinfs mount --options=rw --options=nosuid --cache=64M --allow-other -- /v.img /mnt".into()
            ))
        );
        let quoted = line("/v /m -o cleaner=\"victim=twin,when=idle\",noatime").unwrap();
        assert_eq!(quoted.unwrap(), "twinfs mount --cleaner=victim=twin,when=idle -- /v /m");
        let follower = line("s3://b/v /m -o ro,follow=5s,_netdev").unwrap();
        assert_eq!(follower.unwrap(), "twinfs mount --options=ro --follow=5s -- s3://b/v /m");
        let user = line("/v /m -o user").unwrap().unwrap();
        assert!(user.contains("--options=nosuid --options=nodev --options=noexec"), "{user}");
        assert_eq!(line("-f /v /m -n"), Ok(None));
    }

    #[test]
    fn an_option_without_sense_is_refused_by_name() {
        for (option, word) in [
            ("relatime", "access times"),
            ("cach=64M", "there are cache"),
            ("write-through=yes", "takes no value"),
            ("memory", "needs a value"),
            ("foreground", "no such option"),
        ] {
            let why = line(&format!("/v /m -o {option}")).unwrap_err();
            assert!(why.starts_with(option) && why.contains(word), "{why}");
        }
        assert!(line("-s /v /m -o cach=64M").unwrap().is_some(), "sloppy");
        assert!(line("/v -o ro").unwrap_err().contains("IMAGE DIR"));
    }
}
