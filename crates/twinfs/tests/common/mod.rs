//! What tests of the program share.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs the program.
pub(crate) fn twinfs(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_twinfs")).args(args).output().unwrap()
}

/// What it said.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.into()).unwrap()
}

/// A directory of a test's own, removed at the end.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    /// An empty one. Names of tests that run at once differ.
    pub(crate) fn new(name: &str) -> Place {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Place(dir)
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().into()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
