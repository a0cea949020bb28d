//! Seeded random requests that tests and fuzzers send to a volume and to the model.
//!
//! A [`Generator`] draws requests from a [`Workload`], tells it the replies, and maintains a
//! [`World`]: the inodes that the clients hold and the names that they have seen. Therefore most
//! requests are valid, and some are invalid on purpose. Everything follows from the seed and the
//! replies. Several requests may be under way at a time, one for each client; the world is then out
//! of date, and is corrected by the replies.
//!
//! To add a workload, add a file here and a line in [`WORKLOADS`].
//!
//! ```
//! use twin_model::generate::{Generator, WorkloadParams};
//! use twin_model::{ModelFs, Settings};
//! use twin_rt::Time;
//! let mut model = ModelFs::new(Settings::default(), Time(0));
//! let mut generator = Generator::new("mixed", WorkloadParams::default(), 7).unwrap();
//! for _ in 0..100 {
//!     let request = generator.next();
//!     let reply = model.apply(Time(request.id), &request);
//!     generator.learn(&request, &reply);
//! }
//! ```

mod acls;
mod commits;
mod fill;
mod metadata;
mod mixed;
mod overwrite;
mod script;
mod small_files;
mod verbs;
mod world;

use twin_rt::Rng;

pub use verbs::Verb;
pub use world::World;

use twin_fs::{Cred, Op, Reply, Request, Result};

/// Sizes and shares for workloads.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadParams {
    /// The number of clients. Each is a different user, except client 0, which is root.
    pub clients: u32,
    /// Whether clients other than 0 are users rather than root.
    pub users: bool,
    /// The number of files around which workloads keep the tree.
    pub files: u64,
    /// The number of directories, likewise.
    pub dirs: u64,
    /// The longest file, in bytes, except for rare far ends.
    pub file_size_max: u64,
    /// The farthest end of a file, in bytes: where sparse writes go.
    pub far_size_max: u64,
    /// The longest write, in bytes.
    pub write_max: u64,
    /// The number of bytes written minus bytes removed above which workloads remove rather than
    /// write.
    pub space_max: u64,
    /// The number of different names that are drawn; with few names, clients often use the same
    /// ones.
    pub names: u64,
    /// The share of requests that are made wrong on purpose.
    pub invalid: f64,
    /// The share of writes that carry bytes; the others are synthetic.
    pub bytes: f64,
    /// Bytes of a block: where aligned writes begin and end.
    pub block_size: u64,
}

impl Default for WorkloadParams {
    fn default() -> WorkloadParams {
        WorkloadParams {
            clients: 4,
            users: true,
            files: 60,
            dirs: 12,
            file_size_max: 200_000,
            far_size_max: 1 << 32,
            write_max: 20_000,
            space_max: 4 << 20,
            names: 40,
            invalid: 0.04,
            bytes: 0.2,
            block_size: 4096,
        }
    }
}

/// The behaviour of clients: draws operations.
pub trait Workload {
    /// The next operation of a client.
    fn next(&mut self, client: u32, world: &World, rng: &mut Rng) -> Op;
    /// Learns the result of an operation of this workload. The world has learned it already.
    fn learn(&mut self, _client: u32, _op: &Op, _reply: &Result<Reply>) {}
}

/// A workload that can be asked for by name.
pub struct Spec {
    /// The name by which the workload is chosen.
    pub name: &'static str,
    /// The description of the workload in one line.
    pub about: &'static str,
    make: fn(&WorkloadParams) -> Box<dyn Workload>,
}

/// All workloads that a name can choose.
pub const WORKLOADS: [Spec; 7] = [
    mixed::SPEC,
    metadata::SPEC,
    fill::SPEC,
    overwrite::SPEC,
    small_files::SPEC,
    commits::SPEC,
    acls::SPEC,
];

/// Draws requests at random, knowing what the clients hold.
pub struct Generator {
    params: WorkloadParams,
    rng: Rng,
    world: World,
    workload: Box<dyn Workload>,
    make: fn(&WorkloadParams) -> Box<dyn Workload>,
    next_id: u64,
}

impl Generator {
    /// A generator of the workload called `name`; none if there is no such workload.
    pub fn new(name: &str, params: WorkloadParams, seed: u64) -> Option<Generator> {
        let spec = WORKLOADS.iter().find(|spec| spec.name == name)?;
        let workload = (spec.make)(&params);
        let rng = Rng::stream(seed, "generate");
        let (world, make) = (World::new(), spec.make);
        Some(Generator { params, rng, world, workload, make, next_id: 1 })
    }

    /// Sets the number of the next request, if others used numbers meanwhile.
    pub fn set_next_id(&mut self, id: u64) {
        self.next_id = id;
    }

    /// The files that the clients hold and know.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The next request of some client.
    #[allow(clippy::should_implement_trait)] // An iterator would end.
    pub fn next(&mut self) -> Request {
        let client = self.rng.below(u64::from(self.params.clients.max(1))) as u32;
        self.next_for(client)
    }

    /// The next request of a client, whose last one has been answered.
    pub fn next_for(&mut self, client: u32) -> Request {
        let id = self.next_id;
        self.next_id += 1;
        let op = if id == 1 && self.params.users {
            verbs::open_root_to_all()
        } else {
            self.workload.next(client, &self.world, &mut self.rng)
        };
        let cred = if id == 1 { Cred::root() } else { self.cred(client) };
        Request { id, client, cred, op }
    }

    /// Users share one group in pairs, and client 3 has a second group.
    fn cred(&self, client: u32) -> Cred {
        if client == 0 || !self.params.users {
            return Cred::root();
        }
        let groups: &[u32] = if client % 4 == 3 { &[500] } else { &[] };
        Cred { groups: groups.into(), ..Cred::user(1000 + client, 500 + client / 2) }
    }

    /// Learns the reply to a request of this generator.
    pub fn learn(&mut self, request: &Request, reply: &Result<Reply>) {
        self.world.learn(&request.op, reply);
        self.workload.learn(request.client, &request.op, reply);
    }

    /// Begins again on the existing tree, as clients do after a crash or an unmount: nothing is
    /// held, and names are found by listing.
    pub fn remount(&mut self) {
        self.world = World::new();
        self.workload = (self.make)(&self.params);
    }
}

#[cfg(test)]
mod tests;
