//! Acting as the user who asks.
//!
//! The superuser's thread takes on the client's file-system user, group and groups for one
//! operation, so that the host decides by its own rules: who owns what is made, who may change
//! attributes, when set-id bits fall. The kernel takes file capabilities off a thread whose
//! file-system user is not root; where permission bits have been checked already, the one that
//! overrides them is put back.
#![allow(unsafe_code)] // setfsuid and setfsgid have no safe wrapper.

use rustix::process::{Gid, geteuid, getgroups};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_thread_groups};
use twin_fs::Cred;

pub(super) struct Identity {
    /// This process may take on others.
    superuser: bool,
    groups: Vec<Gid>,
}

/// Gives the thread its own identity back when it is dropped.
pub(super) struct Assumed<'a> {
    own: &'a Identity,
    groups_changed: bool,
}

impl Identity {
    pub(super) fn of_process() -> Identity {
        Identity { superuser: geteuid().is_root(), groups: getgroups().unwrap_or_default() }
    }

    /// Takes on an identity. `None` if it is our own.
    pub(super) fn assume(&self, cred: &Cred) -> Option<Assumed<'_>> {
        if !self.superuser || (cred.uid == 0 && cred.gid == 0) {
            return None;
        }
        let groups_changed = cred.uid != 0;
        if groups_changed {
            let groups: Vec<_> = cred.groups.iter().map(|&id| Gid::from_raw(id)).collect();
            let _ = set_thread_groups(&groups);
        }
        set_fs_ids(cred.uid, cred.gid);
        if cred.uid != 0
            && cred.checked
            && let Ok(mut sets) = capabilities(None)
        {
            let over = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
            sets.effective |= over & sets.permitted;
            let _ = set_capabilities(None, sets);
        }
        Some(Assumed { own: self, groups_changed })
    }
}

impl Drop for Assumed<'_> {
    fn drop(&mut self) {
        // Becoming root again gives the file capabilities back.
        set_fs_ids(0, 0);
        if self.groups_changed {
            let _ = set_thread_groups(&self.own.groups);
        }
    }
}

fn set_fs_ids(uid: u32, gid: u32) {
    // SAFETY: both only change this thread's credentials and touch no memory.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
    }
}
