//! A volume behind a network: clients of NFS, the network, and the product's own server before a simulated
//! volume. A configuration `nfs(lfs:disk=hp97560):biods=8,latency=1ms` is one.
//!
//! Contract: the server is the one that `twinfs serve` runs, with the settings that it gives a volume; calls
//! and replies are the bytes of the protocol. The operations of a workload's client `n` are those of a process
//! on machine `n` modulo the number of machines. Files that existed before are made on the server itself.
//!
//! Main types: [`Remote`] (the settings of clients, network and server), [`Machines`] (the clients before a server, as
//! the file system that a workload runs on), [`Site`] and [`Link`] (the place of a server, which may be down, and the
//! way of a call to it). Start at [`Machines::start`].

mod link;
mod settings;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_fs::{Cpu, FileSystem, FsError, LookupEntry, ROOT_INO, Reply, Request, Volume};
use twin_nfs::client::{CallStats, Client, Consistency, Handles, Writes};
use twin_nfs::{Address, Export, Handle, Keys, Peer, Rules, Served, Server, Squash};
use twin_rt::{FixedMap, Rt};
use twin_sim::network::{Network, NetworkStats};

pub use link::{Answer, Link, Site, answers};
pub use settings::{Remote, help, inner_of, keys, split};

/// The keys of simulated volumes' handles.
pub const KEY: [u8; 16] = *b"twinfs simulated";

/// The export of all of a simulated server to its clients.
pub fn export(lazy: bool) -> Export {
    let rules = Rules { from_all: true, squash: Squash::Nothing, lazy, ..Rules::default() };
    Export { path: "/".into(), volume: 0, below: Vec::new(), rules }
}

/// The address of a machine.
pub fn peer(machine: usize) -> Peer {
    let mut address = [0; 16];
    address[8..].copy_from_slice(&(1 + machine as u64).to_be_bytes());
    Peer { address: Address(address), port: 700 }
}

/// The handle of an inode through an export.
pub fn handle(keys: &Keys, export: &Export, entry: &LookupEntry) -> Vec<u8> {
    let (volume, export) = (keys.volume, export.id());
    let (ino, generation) = (entry.attr.ino, entry.generation);
    keys.seal(&Handle { volume, export, ino, generation }).to_vec()
}

/// The machines before a server, as the file system that a workload runs on.
pub struct Machines {
    volume: Volume,
    keys: Keys,
    export: Export,
    handles: Handles,
    clients: Vec<Client>,
    network: Rc<RefCell<Network>>,
    /// Requests go to the volume itself: the files that existed before are being made.
    direct: Cell<bool>,
}

impl Machines {
    /// Starts a server on a volume, and its clients.
    ///
    /// # Errors
    /// If the volume's root cannot be read.
    pub async fn start(rt: &Rt, remote: &Remote, volume: &Volume) -> Result<Machines, FsError> {
        let keys = Keys::of(KEY);
        let export = export(remote.client.writes == Writes::Async);
        let served = Served::of(volume, keys.clone());
        let mut server = Server::new(KEY, vec![served], vec![export.clone()]);
        if remote.client.consistency == Consistency::Lease {
            // The volume was never served before.
            server = server.with_leases(rt, remote.leases, false);
        }
        let network = Network::new(remote.network.clone(), rt.rng("network"));
        let network = Rc::new(RefCell::new(network));
        let cpu: Cpu = volume.core().cpu.clone();
        let site = Site::new(rt, cpu, remote.call_ns);
        site.up(answers(Rc::new(server)));
        let lookup = twin_fs::Op::Lookup { dir: ROOT_INO, name: (*b".").into() };
        let Reply::Entry(root) = volume.execute(Request::root(u64::MAX, lookup)).await? else {
            return Err(FsError::inconsistent("the root is no inode"));
        };
        let root = handle(&keys, &export, &root);
        let handles = Handles::new(RefCell::new(FixedMap::default()));
        let clients = (0..remote.machines as usize).map(|machine| {
            let link = Link::new(rt, &network, &site, machine);
            let (settings, handles) = (remote.client.clone(), Rc::clone(&handles));
            let client = Client::new(rt, settings, Box::new(link), handles, &root, 1);
            client.called(1 + machine as u64)
        });
        let clients = clients.collect();
        let direct = Cell::new(true);
        Ok(Machines { volume: volume.clone(), keys, export, handles, clients, network, direct })
    }

    /// The files that existed before are there: from now on requests come from the machines.
    pub fn begin(&self) {
        self.direct.set(false);
    }

    /// Everything is written to the server's disk.
    ///
    /// # Errors
    /// The first loss.
    pub async fn sync(&self) -> Result<(), FsError> {
        for client in &self.clients {
            client.sync().await?;
        }
        Ok(())
    }

    /// What the network has carried.
    pub fn carried(&self) -> NetworkStats {
        self.network.borrow().stats()
    }

    /// The calls of all machines.
    pub fn calls(&self) -> CallStats {
        self.clients.iter().map(Client::stats).fold(CallStats::default(), |sum, one| CallStats {
            calls: sum.calls + one.calls,
            resent: sum.resent + one.resent,
            late: sum.late + one.late,
        })
    }

    fn note(&self, entry: &LookupEntry) {
        let handle = handle(&self.keys, &self.export, entry);
        self.handles.borrow_mut().insert(entry.attr.ino, handle);
    }
}

impl FileSystem for Machines {
    async fn execute(&self, request: Request) -> Result<Reply, FsError> {
        if !self.direct.get() {
            let machine = request.client as usize % self.clients.len();
            return self.clients[machine].execute(request).await;
        }
        let reply = self.volume.execute(request).await?;
        if let Reply::Entry(entry) = &reply {
            self.note(entry);
        }
        Ok(reply)
    }
}
