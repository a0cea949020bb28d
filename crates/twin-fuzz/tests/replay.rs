//! Every input that the fuzzer has kept is read again, by the same functions, in every run of the tests.
//!
//! The corpora are what remained of long runs when each input was taken away that reached nothing new; a
//! crash that was mended stays in its target's corpus under a name of its own.

use std::fs;
use std::path::{Path, PathBuf};

use twin_fuzz::{TARGETS, Target};

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

/// Names what is being read if reading it panics.
struct Reading(String);

impl Drop for Reading {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("while reading {}", self.0);
        }
    }
}

fn replay(target: &Target) -> usize {
    let mut files: Vec<PathBuf> = fs::read_dir(corpora().join(target.name))
        .map(|files| files.map(|file| file.unwrap().path()).collect())
        .unwrap_or_default();
    files.sort();
    for file in &files {
        let _reading = Reading(file.display().to_string());
        (target.run)(&fs::read(file).unwrap());
    }
    files.len()
}

#[test]
fn every_input_that_was_kept_does_no_harm() {
    for target in TARGETS {
        assert!(replay(target) > 0, "{} has no corpus", target.name);
    }
}

#[test]
fn what_the_encoders_make_is_understood() {
    for target in TARGETS {
        for (n, seed) in (target.seeds)().iter().enumerate() {
            let _reading = Reading(format!("seed {n} of {}", target.name));
            assert!((target.run)(seed), "seed {n} of {} is refused", target.name);
        }
    }
}

#[test]
fn garbage_is_not_taken_for_anything() {
    let garbage: Vec<u8> = (0..64u8).map(|n| n.wrapping_mul(151) ^ 0xa5).collect();
    // Text, scripts and lists of changes have a meaning whatever they are.
    let takes_all = [
        "settings",
        "nfs_calls",
        "fuse_requests",
        "ffs_journal",
        "dir_index",
        "lfs_image",
        "ffs_image",
    ];
    for target in TARGETS.iter().filter(|target| !takes_all.contains(&target.name)) {
        assert!(!(target.run)(&garbage), "{} took garbage", target.name);
    }
}

#[test]
fn every_target_is_a_program_of_the_fuzzer() {
    let programs = fs::read_dir(corpora().join("../fuzz_targets")).unwrap();
    let mut names: Vec<String> = programs
        .map(|file| file.unwrap().file_name().into_string().unwrap().replace(".rs", ""))
        .collect();
    names.sort();
    let mut known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    known.sort_unstable();
    assert_eq!(names, known);
}
