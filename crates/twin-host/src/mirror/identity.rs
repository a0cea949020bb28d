//! Acts with the identity of the client.
//!
//! For one operation, the superuser's thread assumes the file-system user, group and groups of the
//! client, so that the host applies its own rules: who owns a new inode, who may change attributes,
//! and when set-id bits are cleared. The kernel takes the file capabilities from a thread whose
//! file-system user is not root. If permission bits have been checked already, the capability that
//! overrides them is restored.
#![allow(unsafe_code)] // setfsuid and setfsgid have no safe wrapper.

use rustix::process::{Gid, geteuid, getgroups};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_thread_groups};
use twin_fs::Cred;

pub(super) struct Identity {
    /// True if this process may assume other identities.
    superuser: bool,
    groups: Vec<Gid>,
}

/// Restores the thread's own identity when it is dropped.
pub(super) struct Assumed<'a> {
    own: &'a Identity,
    groups_changed: bool,
}

impl Identity {
    pub(super) fn of_process() -> Identity {
        Identity { superuser: geteuid().is_root(), groups: getgroups().unwrap_or_default() }
    }

    /// Assumes an identity. Returns `None` if it is our own.
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
        // The kernel restores the file capabilities when the user becomes root again.
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
