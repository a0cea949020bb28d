//! Commands that are programs of their own: `twinfs NAME` becomes `twinfs-NAME`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory with this program in it and without others, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("programs-{name}"));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("elsewhere")).unwrap();
        // Another name of the same file: the directory is this program's, and copies nothing.
        std::fs::hard_link(env!("CARGO_BIN_EXE_twinfs"), dir.join("twinfs")).unwrap();
        Place(dir)
    }

    /// Makes a program that prints `word` and its arguments and exits with 7.
    fn program(&self, at: &str, word: &str) {
        let path = self.0.join(at);
        std::fs::write(&path, format!("#!/bin/sh\necho {word} \"$@\"\nexit 7\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, args: &[&str]) -> Output {
        let path = std::env::join_paths([&self.0.join("elsewhere"), Path::new("/bin")]).unwrap();
        Command::new(self.0.join("twinfs")).args(args).env("PATH", path).output().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_command_becomes_its_program_with_arguments_output_and_exit_status() {
    let place = Place::new("becomes");
    place.program("elsewhere/twinfs-reproduce", "elsewhere");
    let args = ["reproduce", "efs-table", "--without", "two words", "--format", "csv"];
    let out = place.run(&args);
    assert_eq!(out.status.code(), Some(7), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.stdout, b"elsewhere efs-table --without two words --format csv\n");
    place.program("twinfs-reproduce", "beside");
    assert_eq!(place.run(&["reproduce"]).stdout, b"beside\n", "that beside twinfs comes first");
}

#[test]
fn without_the_program_the_command_says_how_to_get_it_and_its_help_stays() {
    let place = Place::new("without");
    let out = place.run(&["reproduce"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("cargo build --release -p twin-papers"), "{said}");
    let help = place.run(&["reproduce", "--help"]);
    let text = String::from_utf8_lossy(&help.stdout);
    assert!(help.status.success() && text.contains("--sensitivity"), "{text}");
    assert!(text.contains("Usage: twinfs reproduce"), "{text}");
    assert!(text.contains("cargo build --release -p twin-papers"), "{text}");
    assert_eq!(place.run(&["reproduce", "--measured", "rows.json"]).status.code(), Some(2));
}
