//! Snapshots and branches of a volume for people and programs: as JSON, and why something was refused.

use serde_json::{Value, json};
use twin_fs::FsError;
use twin_fs::snapshots::{StateKind, States};

/// The states of a volume, as a mount answers and `twinfs snapshot list` prints them.
pub fn states_as_json(states: &States) -> Value {
    let rows = states.states.iter().map(|state| {
        json!({
            "name": state.name,
            "kind": match state.kind {
                StateKind::Head => "head",
                StateKind::Snapshot => "snapshot",
                StateKind::Branch => "branch",
            },
            "made_ns": state.time.0,
            "live_bytes": state.live_bytes,
        })
    });
    json!({ "states": rows.collect::<Vec<_>>(), "held_bytes": states.held_bytes })
}

/// Why a state was not kept, in words.
pub fn why_not_kept(name: &str, error: &FsError) -> String {
    match error {
        FsError::Exists => format!("there is a snapshot or branch {name:?} already"),
        FsError::NotFound => "there is no such state to make a branch of".into(),
        FsError::NoSpace => format!(
            "there is no room for {name:?}: what is in use now would be held, with the garbage between it, and too little \
             would be left; delete files or another snapshot, or wait until the cleaner has worked"
        ),
        FsError::Invalid(why) => (*why).into(),
        error => error.to_string(),
    }
}

/// Why states were not deleted, in words.
pub fn why_not_deleted(names: &[String], error: &FsError) -> String {
    let names = names.join(", ");
    match error {
        FsError::NotFound => format!("there is no snapshot or branch of that name: {names}"),
        FsError::Busy => format!("one of these is the head, or is being read: {names}"),
        error => error.to_string(),
    }
}

/// Why another state did not become the head, in words.
pub fn why_not_head(name: &str, error: &FsError) -> String {
    match error {
        FsError::NotFound => format!("there is no snapshot or branch {name:?}"),
        FsError::NoSpace => {
            "there is no room for the present state beside the other one: delete a snapshot, or clean the volume".into()
        }
        FsError::Invalid(why) => (*why).into(),
        error => error.to_string(),
    }
}
