//! Scrubs of a mount: begun, watched and cancelled over its channel.
//!
//! Contract: a mount has one scrub at a time. It belongs to the client that began it and is cancelled when
//! that client has gone; where it was is remembered for as long as the mount lives. What it finds is
//! told in the mount's log as well, and its figures are a part of the mount's.

use std::rc::Rc;

use serde_json::{Value, json};
use twin_fs::scrub::{NamedFlaw, Scrub, ScrubHow, ScrubPhase};
use twin_fs::{FsError, Volume};
use twin_host::Host;
use twin_rt::MILLIS;

/// The most flaws in an answer.
const FLAWS_AT_ONCE: usize = 500;
/// How often is looked whether a scrub that was cancelled has ended.
const LOOK_NS: u64 = 10 * MILLIS;
/// The most flaws of a scrub that go to the log.
const LOGGED_MOST: usize = 100;

/// The scrubs of a mount.
#[derive(Clone, Default)]
pub struct Scrubbing(Rc<Scrub>);

/// Held by the client that began a scrub; cancels it when dropped.
pub(crate) struct Begun(Rc<Scrub>);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Scrubbing {
    /// Begins a scrub of the volume, after the end of one that was cancelled. `say` gets a line for each flaw
    /// when it has ended.
    pub(crate) async fn begin(
        &self,
        host: &Host,
        volume: &Volume,
        how: ScrubHow,
        say: impl Fn(&str) + 'static,
    ) -> Result<Begun, String> {
        while self.0.is_ending() {
            host.rt().sleep(LOOK_NS).await;
        }
        if self.0.is_running() {
            return Err("a scrub of this mount runs already".into());
        }
        if volume.layout().views().scrub.is_none() {
            return Err(FsError::NotSupported("this layout cannot be scrubbed").to_string());
        }
        let running = volume.scrub(&self.0, how);
        let scrub = Rc::clone(&self.0);
        // Polled once here, so that whoever asks next finds it running.
        host.rt().run_or_spawn("scrub", async move {
            let done = running.await;
            for flaw in scrub.flaws().iter().take(LOGGED_MOST) {
                say(&format!("scrub: {}", in_words(flaw)));
            }
            if let Err(error) = done {
                say(&format!("scrub: it could not go on: {error}"));
            }
        });
        Ok(Begun(Rc::clone(&self.0)))
    }

    /// Ends the scrub that runs.
    pub(crate) fn cancel(&self) {
        self.0.cancel();
    }

    /// The figures of the scrub that runs, or of the last one; null if there was none.
    pub(crate) fn figures(&self) -> Value {
        let figures = self.0.figures();
        if figures.phase == ScrubPhase::Never {
            return Value::Null;
        }
        json!({
            "phase": figures.phase.name(),
            "read_bytes": figures.read_bytes,
            "used_bytes": figures.used_bytes,
            "inodes": figures.inodes,
            "skipped": figures.skipped,
            "uncompared_bytes": figures.uncompared_bytes,
            "flaws": figures.flaws,
            "began_seconds": figures.began.map(twin_rt::Time::secs),
            "ended_seconds": figures.ended.map(twin_rt::Time::secs),
        })
    }

    /// What it has found, from a number on.
    pub(crate) fn found(&self, from: usize) -> Value {
        let flaws = self.0.flaws();
        let some: Vec<Value> = flaws.iter().skip(from).take(FLAWS_AT_ONCE).map(row).collect();
        json!({ "flaws": some })
    }
}

fn row(named: &NamedFlaw) -> Value {
    let flaw = &named.flaw;
    json!({
        "path": named.path,
        "ino": flaw.ino,
        "offset": flaw.offset,
        "length": flaw.len,
        "what": flaw.what,
        "device_byte": flaw.at,
    })
}

fn in_words(named: &NamedFlaw) -> String {
    let flaw = &named.flaw;
    let whose = match (&named.path, flaw.ino) {
        (Some(path), _) => format!("{path}: "),
        (None, Some(ino)) => format!("inode {ino}: "),
        (None, None) => String::new(),
    };
    format!("{whose}{} ({} bytes at byte {} of the device)", flaw.what, flaw.len, flaw.at)
}
