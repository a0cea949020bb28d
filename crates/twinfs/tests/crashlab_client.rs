//! The crash lab as the tests of a Rust program use it, with every call of its client.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use twinfs_crashlab::{CrashLab, Error, Fault, Nth, Result};

/// The lab on a small volume; none, with the reason, where it cannot mount.
fn lab() -> Option<CrashLab> {
    let can = rustix::process::geteuid().is_root() && twinfs_crashlab::is_possible();
    if !can {
        eprintln!("skipped: the crash lab is tested as root with /dev/fuse");
        return None;
    }
    Some(CrashLab::default().program(env!("CARGO_BIN_EXE_twinfs")).size("64M").limit(400))
}

/// Replaces a file with all syncs that it takes, or without that of its content.
fn replace(path: &Path, content: &str, synced: bool) -> io::Result<()> {
    let next = path.with_extension("new");
    let mut file = File::create(&next)?;
    file.write_all(content.as_bytes())?;
    if synced {
        file.sync_all()?;
    }
    fs::rename(&next, path)?;
    File::open(path.parent().unwrap_or(path))?.sync_all()
}

/// In a state of such a file: it has what was promised last, or what came after.
fn has_what_was_promised(path: &Path, acked: &[String]) {
    let found = fs::read_to_string(path.join("f")).unwrap_or_default();
    match acked {
        [] => {}
        [.., last] => assert!(found == *last || found == "new", "{found:?} in place of {last}"),
    }
}

#[test]
fn a_file_that_is_replaced_with_its_syncs_survives() -> Result<()> {
    let Some(lab) = lab() else { return Ok(()) };
    for like in ["ext4", "posix", "strict"] {
        let volume = lab.clone().like(like).seed(7).volume()?;
        for content in ["old", "new"] {
            replace(&volume.path().join("f"), content, true).unwrap();
            volume.ack(content)?;
        }
        let mut states = volume.end()?;
        let counts = states.counts();
        assert_eq!((counts.syncs, counts.acknowledgements), (4, 2), "{counts:?}");
        states.check(|state| has_what_was_promised(state.path(), state.acked()))?;
    }
    Ok(())
}

#[test]
fn a_missing_sync_is_lost_and_the_error_says_which() -> Result<()> {
    let Some(lab) = lab() else { return Ok(()) };
    let volume = lab.like("posix").volume()?;
    replace(&volume.path().join("f"), "old", false).unwrap();
    // A label through the file, as any program can add it.
    writeln!(OpenOptions::new().append(true).open(volume.acks()).unwrap(), "old").unwrap();
    let mut states = volume.end()?;
    let lost = states.check(|state| has_what_was_promised(state.path(), state.acked()));
    let Err(Error::Lost(text)) = lost else { panic!("{lost:?}") };
    assert!(text.contains("no fsync of"), "{text}");
    // The state of the report, once more by its name, and one moment alone.
    let report = states.report()?;
    let name = report["classes"][0]["state"].as_str().unwrap().to_string();
    let state = states.state(&name)?;
    assert_eq!((state.name(), state.acked()), (name.as_str(), &["old".to_string()][..]));
    assert_ne!(fs::read_to_string(state.path().join("f")).ok().as_deref(), Some("old"));
    state.failed("it is not there")?;
    // Of one moment alone: at the end everything that was acknowledged is promised.
    states.at("end")?;
    let mut seen = 0;
    while let Some(state) = states.next()? {
        assert_eq!(state.acked(), ["old"]);
        state.passed()?;
        seen += 1;
    }
    assert!(seen > 0);
    Ok(())
}

#[test]
fn calls_fail_as_wanted_and_what_comes_after_the_cut_is_in_no_state() -> Result<()> {
    let Some(lab) = lab() else { return Ok(()) };
    let volume = lab.layout("ffs").volume()?;
    let path = volume.path().join("f");
    volume.fail("create", Nth::Only(2), Fault::NoSpace)?;
    replace(&path, "old", true).unwrap();
    let full = replace(&path, "new", true).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    volume.fail("fsync", Nth::Every, Fault::Device)?;
    let failed = File::open(&path).and_then(|file| file.sync_all()).unwrap_err();
    assert!(failed.to_string().starts_with("Input/output error"), "{failed}");
    volume.heal()?;
    volume.cut()?;
    replace(&path, "late", true).unwrap();
    let mut states = volume.end()?;
    let mut seen = 0;
    while let Some(state) = states.next()? {
        seen += 1;
        assert_ne!(fs::read_to_string(state.path().join("f")).ok().as_deref(), Some("late"));
        state.passed()?;
    }
    assert!(seen > 2, "{seen} states");
    Ok(())
}

#[test]
fn what_the_lab_cannot_do_is_an_error_with_its_reason() -> Result<()> {
    let nothing = CrashLab::default().program("/nonexistent/twinfs").volume().unwrap_err();
    assert!(nothing.to_string().contains("/nonexistent/twinfs"), "{nothing}");
    let Some(lab) = lab() else { return Ok(()) };
    let model = lab.clone().like("zfs").volume().unwrap_err();
    assert!(model.to_string().contains("zfs"), "{model}");
    let volume = lab.volume()?;
    assert!(volume.ack("two\nlines").is_err());
    let call = volume.fail("levitate", Nth::Every, Fault::Device).unwrap_err();
    assert!(call.to_string().contains("levitate"), "{call}");
    let path = volume.path().to_path_buf();
    drop(volume);
    assert!(!path.exists(), "a volume that was given up is unmounted and removed");
    Ok(())
}
