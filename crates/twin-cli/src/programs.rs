//! Commands that are programs of their own, found as cargo and git find theirs.
//!
//! Contract: the command NAME is the program `twinfs-NAME`. One that stands beside this program is taken first, because
//! it was built with it, then the first one in PATH. This process becomes that program: arguments, input and output,
//! signals and the exit status are the program's, without anybody between. A process that listens for interrupts must
//! not come here, since the signals that it holds back would stay held back.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outcome::Outcome;

/// Words of a command line before the arguments of a command: the program and the command.
const BEFORE_ARGUMENTS: usize = 2;

/// Becomes the program of a command, with the arguments of this process; returns only if that is not possible.
///
/// # Errors
/// If there is no such program, with the way to get it from the `package` that holds it, or if it cannot be run.
pub fn take_over(command: &str, package: &str) -> Outcome {
    let name = format!("twinfs-{command}");
    let beside = beside();
    let Some(program) = installed(&name) else {
        let beside = beside.map_or(String::new(), |dir| format!("in {} or ", dir.display()));
        return Err(format!(
            "`twinfs {command}` is a program of its own, {name}, and there is none {beside}in PATH. In a checkout \
             `cargo build --release -p {package}` builds it; then this command works"
        )
        .into());
    };
    let arguments: Vec<OsString> = std::env::args_os().skip(BEFORE_ARGUMENTS).collect();
    let error = Command::new(&program).args(arguments).exec();
    Err(format!("{}: {error}", program.display()).into())
}

/// Becomes the program that knows volumes in buckets, if a word of the command line names one and this program does
/// not know it (`is_unknown`). Returns if there is no such word or no such program: then the command says what is missing.
pub fn for_media(is_unknown: impl Fn(&Path) -> bool) {
    let mut words = std::env::args_os();
    let name = words.next();
    let words: Vec<OsString> = words.collect();
    if !words.iter().any(|word| is_unknown(Path::new(word))) {
        return;
    }
    if let Some(program) = installed("twinfs-bucket") {
        // As mount(8) calls it, it is a helper of that there too.
        let name = name.unwrap_or_else(|| "twinfs".into());
        let error = Command::new(&program).arg0(name).args(&words).exec();
        twin_host::note!("twinfs: {}: {error}", program.display());
    }
}

/// The directory of this program.
fn beside() -> Option<PathBuf> {
    std::env::current_exe().ok()?.parent().map(Path::to_owned)
}

/// The program of this name, wherever this machine has it.
fn installed(name: &str) -> Option<PathBuf> {
    find(name, beside().as_deref(), std::env::var_os("PATH").as_deref())
}

/// The program of this name: beside this one, or in the directories of `path`.
fn find(name: &str, beside: Option<&Path>, path: Option<&OsStr>) -> Option<PathBuf> {
    let of_path = path.map(std::env::split_paths).into_iter().flatten();
    let places = beside.map(Path::to_owned).into_iter().chain(of_path);
    places.map(|dir| dir.join(name)).find(|file| is_program(file))
}

/// Whether somebody may run the file.
fn is_program(file: &Path) -> bool {
    let data = std::fs::metadata(file);
    data.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories with a file of this name and mode in each.
    fn places(test: &str, modes: [u32; 2]) -> [PathBuf; 2] {
        let root =
            std::env::temp_dir().join(format!("twinfs-programs-{}-{test}", std::process::id()));
        let mut number = 0;
        modes.map(|mode| {
            number += 1;
            let dir = root.join(number.to_string());
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("twinfs-x"), "").unwrap();
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(dir.join("twinfs-x"), mode).unwrap();
            dir
        })
    }

    #[test]
    fn the_program_beside_this_one_comes_before_those_in_path() {
        let [first, second] = places("order", [0o755, 0o755]);
        let path = std::env::join_paths([&second]).unwrap();
        let found = |beside| find("twinfs-x", beside, Some(&path));
        assert_eq!(found(Some(&first)), Some(first.join("twinfs-x")));
        assert_eq!(found(None), Some(second.join("twinfs-x")));
        std::fs::remove_dir_all(first.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_nobody_may_run_is_no_program() {
        let [first, second] = places("mode", [0o644, 0o700]);
        let path = std::env::join_paths([&first, &second]).unwrap();
        assert_eq!(find("twinfs-x", None, Some(&path)), Some(second.join("twinfs-x")));
        assert_eq!(find("twinfs-x", Some(&first), None), None);
        assert_eq!(find("twinfs-y", Some(&second), Some(&path)), None);
        std::fs::remove_dir_all(first.parent().unwrap()).unwrap();
    }
}
