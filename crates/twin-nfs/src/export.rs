//! Exports: which directories clients may mount, who may, and as whom they act.
//!
//! Contract: pure rules. Every call is judged by them anew, from the client's address and the
//! export in its handle, so nothing of a mount has to be remembered. No other code decides on who
//! may come in.

use twin_fs::Cred;

use crate::address::{Address, Network};
use crate::handle::keyed;
use crate::rpc::Caller;

/// The user and group of clients that are not believed: "nobody".
pub const NOBODY: u32 = 65_534;
/// The first port that every user of a machine may use.
const FREE_PORT: u16 = 1024;

/// Where a call comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address from which the client calls.
    pub address: Address,
    /// The port of its connection.
    pub port: u16,
}

impl Peer {
    /// A client on this machine whose port shows that the superuser opened it.
    pub const LOCAL_ROOT: Peer = Peer { address: Address::LOOPBACK, port: 1023 };

    fn is_privileged(self) -> bool {
        self.port < FREE_PORT
    }
}

/// Which users of clients become nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Squash {
    /// None: clients are believed.
    Nothing,
    /// The superuser, from whatever machine.
    Root,
    /// The superuser, unless the call comes from a privileged port of this machine, which only its
    /// superuser can open.
    FarRoot,
    /// All users of clients.
    All,
}

/// The rules of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The networks whose clients are let in; empty for this machine alone.
    pub from: Vec<Network>,
    /// Clients of any address may come in.
    pub from_all: bool,
    /// Clients may change nothing.
    pub read_only: bool,
    /// Which users become nobody.
    pub squash: Squash,
    /// User and group of nobody.
    pub nobody: (u32, u32),
    /// Only clients on privileged ports (below 1024) may come in.
    pub privileged_ports: bool,
    /// Replies to changes do not wait until the change is durable, against the protocol.
    pub lazy: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            from: Vec::new(),
            from_all: false,
            read_only: false,
            squash: Squash::FarRoot,
            nobody: (NOBODY, NOBODY),
            privileged_ports: false,
            lazy: false,
        }
    }
}

/// A directory that clients may mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The path that clients mount: begins with a slash, and ends with none unless it is the root.
    pub path: String,
    /// The index of the volume.
    pub volume: usize,
    /// The names that lead from the volume's root to the exported directory.
    pub below: Vec<Box<[u8]>>,
    /// The rules on who may do what.
    pub rules: Rules,
}

impl Export {
    /// The number of the export in handles. It depends on the path alone, so that it survives
    /// restarts.
    pub fn id(&self) -> u32 {
        keyed(b"twinfs: exports.", self.path.as_bytes()) as u32
    }

    /// True if calls from there may use the export.
    pub fn admits(&self, peer: Peer) -> bool {
        let rules = &self.rules;
        let known = if rules.from_all {
            true
        } else if rules.from.is_empty() {
            peer.address.is_loopback()
        } else {
            rules.from.iter().any(|network| network.has(peer.address))
        };
        known && (!rules.privileged_ports || peer.is_privileged())
    }

    /// The credentials with which a caller's operations run.
    pub fn credentials(&self, peer: Peer, caller: &Caller) -> Cred {
        let rules = &self.rules;
        let (uid, gid) = rules.nobody;
        let nobody = Cred { uid, gid, groups: Box::default(), checked: false };
        let Caller::User { uid, gid, groups } = caller else { return nobody };
        let squash_root = match rules.squash {
            Squash::Nothing => false,
            Squash::Root => true,
            Squash::FarRoot => !(peer.address.is_loopback() && peer.is_privileged()),
            Squash::All => return nobody,
        };
        if squash_root && *uid == 0 {
            return nobody;
        }
        // The group of root gives rights too.
        let group = |&gid: &u32| if squash_root && gid == 0 { rules.nobody.1 } else { gid };
        let groups = groups.iter().map(group).collect();
        Cred { uid: *uid, gid: group(gid), groups, checked: false }
    }

    /// The names of a path below the export; `None` if the path is not within it.
    pub fn names_below<'a>(&self, path: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        let rest = match self.path.as_str() {
            "/" => path,
            own => path.strip_prefix(own.as_bytes())?,
        };
        if !rest.is_empty() && !rest.starts_with(b"/") {
            return None;
        }
        Some(rest.split(|&b| b == b'/').filter(|name| !name.is_empty()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;

    fn peer(address: &str, port: u16) -> Peer {
        Peer { address: address.parse::<IpAddr>().unwrap().into(), port }
    }

    fn export(path: &str, rules: Rules) -> Export {
        Export { path: path.into(), volume: 0, below: Vec::new(), rules }
    }

    fn user(uid: u32, gid: u32) -> Caller {
        Caller::User { uid, gid, groups: vec![0, 5] }
    }

    #[test]
    fn without_rules_only_this_machine_comes_in() {
        let export = export("/", Rules::default());
        assert!(export.admits(peer("127.0.0.1", 2000)));
        assert!(export.admits(peer("::1", 2000)));
        assert!(!export.admits(peer("192.0.2.1", 1023)));
    }

    #[test]
    fn networks_and_ports_are_what_the_rules_say() {
        let from = vec![Network::parse("192.0.2.0/24").unwrap()];
        let export = export("/", Rules { from, privileged_ports: true, ..Rules::default() });
        assert!(export.admits(peer("192.0.2.1", 1023)));
        assert!(!export.admits(peer("192.0.2.1", 1024)), "a port of any user");
        assert!(!export.admits(peer("127.0.0.1", 1023)), "not in the network");
    }

    #[test]
    fn root_is_believed_where_its_port_proves_it() {
        let export = export("/", Rules::default());
        assert_eq!(export.credentials(peer("127.0.0.1", 1023), &user(0, 0)).uid, 0);
        assert_eq!(export.credentials(peer("127.0.0.1", 1024), &user(0, 0)).uid, NOBODY);
        assert_eq!(export.credentials(peer("192.0.2.1", 1023), &user(0, 0)).uid, NOBODY);
        let alice = export.credentials(peer("127.0.0.1", 1024), &user(7, 0));
        assert_eq!((alice.uid, alice.gid, &*alice.groups), (7, NOBODY, &[NOBODY, 5][..]));
    }

    #[test]
    fn squashing_makes_nobody_of_root_or_of_all() {
        let with = |squash| export("/", Rules { squash, nobody: (1, 2), ..Rules::default() });
        let uid = |squash, uid| with(squash).credentials(Peer::LOCAL_ROOT, &user(uid, 3)).uid;
        assert_eq!((uid(Squash::Nothing, 0), uid(Squash::Nothing, 7)), (0, 7));
        assert_eq!((uid(Squash::Root, 0), uid(Squash::Root, 7)), (1, 7));
        assert_eq!((uid(Squash::All, 0), uid(Squash::All, 7)), (1, 1));
        assert_eq!(with(Squash::Nothing).credentials(Peer::LOCAL_ROOT, &Caller::Nobody).uid, 1);
    }

    #[test]
    fn a_path_is_within_an_export_by_whole_names() {
        let export = export("/a", Rules::default());
        assert_eq!(export.names_below(b"/a"), Some(vec![]));
        assert_eq!(export.names_below(b"/a//b/c/"), Some(vec![&b"b"[..], b"c"]));
        assert_eq!(export.names_below(b"/ab"), None);
        assert_eq!(export.names_below(b"/"), None);
    }
}
