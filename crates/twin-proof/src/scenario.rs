//! What a run of a campaign is: a seed and sizes, as one line of text that repeats it.
//!
//! Contract: a [`Scenario`] determines its run wholly. Its text form, `key=value` pairs, is what
//! failures print and what the example `campaign` reads.

use std::fmt;
use std::str::FromStr;

use twin_cache::flush::FlushBy;
use twin_lfs::format::{Profile, Superblock};
use twin_lfs::{LfsSettings, MkfsOptions, PlantedFault};
use twin_model::generate::WorkloadParams;
use twin_rt::{MILLIS, Nanos, Order, Rng};
use twin_settings::grammar;

/// Everything that a run depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Of all random streams.
    pub seed: u64,
    /// Which structures the volume has.
    pub profile: Profile,
    /// Bytes of the device.
    pub size: u64,
    /// Bytes that it becomes, in two steps while clients work, and the volume with it; 0: it stays as it is.
    pub grow: u64,
    /// Bytes of a segment.
    pub segment: u32,
    /// Streams of the log.
    pub streams: u32,
    /// A workload of [`twin_model::generate`].
    pub workload: String,
    /// Requests that clients make.
    pub ops: u64,
    /// Clients at a time.
    pub clients: u32,
    /// Clients are users of their own; otherwise all are root.
    pub users: bool,
    /// In which order ready tasks run.
    pub order: Order,
    /// The longest time that a client thinks between requests.
    pub think_ns: Nanos,
    /// How full the volume is made before the clients begin, in percent of what it takes.
    pub fill: u32,
    /// Bytes that the files of a workload have together, about.
    pub space: u64,
    /// Files that a workload keeps, about.
    pub files: u64,
    /// The longest write, in bytes.
    pub write: u64,
    /// Bytes of the block cache.
    pub cache: u64,
    /// The flush policy, by name.
    pub flush: String,
    /// Operations that need room write back themselves.
    pub needer: bool,
    /// Bytes of memory that survives a power failure, for policies that use it.
    pub nvram: u64,
    /// Inodes kept in memory beyond those in use.
    pub inodes: usize,
    /// Stamps stand for user data; otherwise bytes.
    pub stamps: bool,
    /// Indirect blocks go with every log write.
    pub eager: bool,
    /// Segments between checkpoints.
    pub checkpoint: u32,
    /// The victim policy.
    pub victim: String,
    /// The age at which dirty data is written.
    pub age_ns: Nanos,
    /// The fault planted in the log.
    pub planted: PlantedFault,
    /// The metadata ordering of the clustered layout.
    pub ordering: String,
    /// Bytes of the clustered layout's journal; 0 for what suits the volume.
    pub journal: u64,
    /// The clustered layout has checksums of data.
    pub sums: bool,
    /// The client of an exhaustive campaign works through a server of NFS, which answers when a change is durable
    /// (`sync`), or before (`async`: it breaks its promises). Empty: on the volume itself.
    pub nfs: String,
    /// The fault planted in the clustered layout.
    pub ffs_planted: twin_ffs::PlantedFault,
    /// Print every request with its reply.
    pub trace: bool,
}

/// Placement policies that work on the smallest volume, and what a volume has by itself.
const PLACEMENTS: [&str; 5] = ["", "twin", "dac", "none", "age-sort"];

impl Scenario {
    /// A plain small run.
    pub fn new(seed: u64) -> Scenario {
        Scenario {
            seed,
            profile: Profile::Modern,
            size: 16 << 20,
            grow: 0,
            segment: 64 << 10,
            streams: 2,
            workload: "mixed".into(),
            ops: 300,
            clients: 1,
            users: true,
            order: Order::Fifo,
            think_ns: 20 * MILLIS,
            fill: 0,
            space: 2 << 20,
            files: 40,
            write: 20_000,
            cache: 4 << 20,
            flush: twin_fs::Settings::default().flush,
            needer: false,
            nvram: 256 << 10,
            inodes: 1000,
            stamps: true,
            eager: false,
            checkpoint: 8,
            victim: "cost-benefit".into(),
            age_ns: 200 * MILLIS,
            planted: PlantedFault::None,
            ordering: "journal".into(),
            journal: 0,
            sums: false,
            nfs: String::new(),
            ffs_planted: twin_ffs::PlantedFault::None,
            trace: false,
        }
    }

    /// A scenario drawn at random: every choice comes up.
    pub fn draw(seed: u64) -> Scenario {
        let mut rng = Rng::stream(seed, "scenario");
        let profile = *rng.pick(&[Profile::Modern, Profile::Modern, Profile::Classic]);
        let several = rng.chance(0.7);
        let workload = *rng.pick(&["mixed", "mixed", "metadata", "small_files", "overwrite"]);
        // On some volumes the cleaner has to work hard.
        let pressed = rng.chance(0.3);
        let (size, space) = match pressed {
            true => (*rng.pick(&[3 << 20, 4 << 20]), *rng.pick(&[1 << 20, 3 << 19, 2 << 20])),
            false => (*rng.pick(&[8 << 20, 12 << 20, 24 << 20]), *rng.pick(&[1 << 20, 3 << 20])),
        };
        Scenario {
            profile,
            size,
            segment: if pressed { 64 << 10 } else { *rng.pick(&[64 << 10, 64 << 10, 128 << 10]) },
            streams: if profile == Profile::Classic { 1 } else { rng.range(1, 3) as u32 },
            workload: workload.into(),
            clients: if several { rng.range(2, 6) as u32 } else { 1 },
            users: !several,
            order: *rng.pick(&[Order::Fifo, Order::Shuffled]),
            think_ns: *rng.pick(&[0, MILLIS, 20 * MILLIS]),
            space,
            files: *rng.pick(&[15, 40]),
            write: *rng.pick(&[6_000, 20_000, 70_000]),
            cache: *rng.pick(&[256 << 10, 512 << 10, 4 << 20]),
            inodes: *rng.pick(&[4, 30, 1000]),
            stamps: rng.chance(0.7),
            eager: rng.chance(0.4),
            checkpoint: *rng.pick(&[1, 3, 8, 64]),
            victim: (*rng.pick(&["cost-benefit", "greedy"])).into(),
            age_ns: *rng.pick(&[5 * MILLIS, 200 * MILLIS, 5_000 * MILLIS]),
            ..Scenario::new(seed)
        }
    }

    /// One of the three kinds, in turn: anything, small durable changes, a nearly full volume.
    pub fn of_kind(seed: u64) -> Scenario {
        match seed % 3 {
            0 => Scenario::draw(seed),
            1 => Scenario::commits(seed),
            _ => Scenario::pressed(seed),
        }
    }

    /// A scenario of any kind under one of the flush policies.
    pub fn flushing(seed: u64) -> Scenario {
        let mut rng = Rng::stream(seed, "flushing");
        let all: Vec<&str> = twin_cache::flush::REGISTRY.names().collect();
        Scenario {
            flush: (*rng.pick(&all)).into(),
            needer: rng.chance(0.3),
            nvram: *rng.pick(&[64 << 10, 256 << 10]),
            ..Scenario::of_kind(seed)
        }
    }

    /// A scenario in which several clients make small changes and each change durable.
    pub fn commits(seed: u64) -> Scenario {
        let mut rng = Rng::stream(seed, "commits");
        Scenario {
            workload: "commits".into(),
            clients: rng.range(1, 7) as u32,
            write: *rng.pick(&[3_000, 9_000, 20_000]),
            think_ns: *rng.pick(&[0, MILLIS, 20 * MILLIS]),
            files: 15,
            ..Scenario::draw(seed)
        }
    }

    /// A scenario in which several users set, inherit and try ACLs.
    pub fn acls(seed: u64) -> Scenario {
        let scenario = Scenario::draw(seed);
        let clients = scenario.clients.max(3);
        Scenario { workload: "acls".into(), profile: Profile::Modern, clients, ..scenario }
    }

    /// A scenario on a small volume that is nearly full, with the cleaner at work.
    pub fn pressed(seed: u64) -> Scenario {
        let mut rng = Rng::stream(seed, "pressed");
        let workload = *rng.pick(&["overwrite", "small_files", "mixed", "commits", "fill"]);
        Scenario {
            size: *rng.pick(&[3 << 20, 4 << 20, 5 << 20]),
            segment: 64 << 10,
            workload: workload.into(),
            ops: 150,
            fill: rng.range(70, 96) as u32,
            space: *rng.pick(&[100 << 10, 300 << 10]),
            files: 10,
            ..Scenario::draw(seed)
        }
    }

    /// A scenario for snapshots: half of the volumes are short of room, so that the cleaner works hard.
    pub fn snapshots(seed: u64) -> Scenario {
        let profile = if seed.is_multiple_of(3) { Profile::Classic } else { Profile::Modern };
        let streams = if profile == Profile::Classic { 1 } else { 2 };
        let scenario = match seed % 2 {
            0 => Scenario {
                size: 8 << 20,
                ops: 400,
                workload: "overwrite".into(),
                fill: 60 + (seed / 2 % 4) as u32 * 8,
                space: 1 << 20,
                files: 20,
                ..Scenario::draw(seed)
            },
            _ => Scenario { size: 16 << 20, ops: 120, fill: 10, ..Scenario::draw(seed) },
        };
        Scenario { profile, streams, segment: 64 << 10, ..scenario }
    }

    /// A scenario whose volume becomes larger while clients work: within a block of the usage table or beyond.
    pub fn growing(seed: u64) -> Scenario {
        let mut rng = Rng::stream(seed, "growing");
        let size = *rng.pick(&[4 << 20, 15 << 20, 15 << 20]);
        let more = *rng.pick(&[2 << 20, 12 << 20, 30 << 20]);
        let profile = if seed.is_multiple_of(3) { Profile::Classic } else { Profile::Modern };
        let streams = if profile == Profile::Classic { 1 } else { rng.range(1, 3) as u32 };
        Scenario {
            profile,
            streams,
            size,
            grow: size + more,
            segment: 64 << 10,
            // On a full volume what is clean afterwards is new.
            fill: *rng.pick(&[85, 95]),
            workload: (*rng.pick(&["fill", "fill", "small_files", "overwrite"])).into(),
            ops: 400,
            space: 12 << 20,
            write: 70_000,
            stamps: true,
            ..Scenario::draw(seed)
        }
    }

    /// A scenario that fills its volume to the brim, again and again.
    pub fn full(seed: u64) -> Scenario {
        let mut rng = Rng::stream(seed, "full");
        let profile = if seed.is_multiple_of(2) { Profile::Modern } else { Profile::Classic };
        Scenario {
            profile,
            size: *rng.pick(&[4 << 20, 6 << 20, 10 << 20]),
            segment: 64 << 10,
            streams: if profile == Profile::Classic { 1 } else { rng.range(1, 3) as u32 },
            ops: 100,
            fill: rng.range(90, 96) as u32,
            think_ns: *rng.pick(&[0, MILLIS]),
            users: false,
            stamps: true,
            ..Scenario::draw(seed)
        }
    }

    /// A scenario with many clients on a volume that is nearly full, to be closed in the end.
    pub fn ending(seed: u64) -> Scenario {
        let mut rng = Rng::stream(seed, "ending");
        let workload = *rng.pick(&["fill", "fill", "mixed", "overwrite", "commits", "small_files"]);
        Scenario {
            workload: workload.into(),
            clients: rng.range(4, 17) as u32,
            fill: *rng.pick(&[60, 85, 92, 95]),
            ops: *rng.pick(&[100, 400]),
            space: *rng.pick(&[300 << 10, 2 << 20]),
            write: *rng.pick(&[9_000, 70_000, 250_000]),
            ..Scenario::full(seed)
        }
    }

    /// The same for a clustered volume, every ordering in turn.
    pub fn clustered_ending(seed: u64) -> Scenario {
        let orderings = &twin_ffs::ordering::REGISTRY;
        let ordering = orderings[(seed % orderings.len() as u64) as usize].name.into();
        Scenario { ordering, size: 8 << 20, ..Scenario::ending(seed) }
    }

    /// A scenario for a clustered volume: any workload, any number of clients, every ordering in
    /// turn.
    pub fn clustered(seed: u64) -> Scenario {
        let mut rng = Rng::stream(seed, "ffs");
        let orderings = &twin_ffs::ordering::REGISTRY;
        let workload = *rng.pick(&["mixed", "metadata", "small_files", "overwrite", "commits"]);
        let base = match workload {
            "commits" => Scenario::commits(seed),
            _ => Scenario { workload: workload.into(), ..Scenario::draw(seed) },
        };
        Scenario {
            size: *rng.pick(&[8 << 20, 16 << 20]),
            ordering: orderings[(seed % orderings.len() as u64) as usize].name.into(),
            // Maps and groups are small, so that clients meet in them.
            space: *rng.pick(&[1 << 20, 3 << 20]),
            cache: *rng.pick(&[512 << 10, 4 << 20]),
            fill: *rng.pick(&[0, 0, 10, 60]),
            ..base
        }
    }

    /// A scenario for clients who rewrite, fsync and remove where space is short: volumes of either
    /// layout that have little more room than they need, every ordering in turn.
    pub fn reusing(seed: u64) -> Scenario {
        let mut rng = Rng::stream(seed, "reuse");
        let orderings = &twin_ffs::ordering::REGISTRY;
        Scenario {
            size: *rng.pick(&[6 << 20, 8 << 20]),
            // A longer one keeps blocks from their places for longer.
            journal: *rng.pick(&[0, 2 << 20]),
            segment: 64 << 10,
            clients: 7,
            users: false,
            stamps: false,
            order: *rng.pick(&[Order::Fifo, Order::Shuffled]),
            think_ns: *rng.pick(&[0, MILLIS, 5 * MILLIS]),
            cache: *rng.pick(&[1 << 20, 4 << 20]),
            inodes: *rng.pick(&[30, 1000]),
            eager: rng.chance(0.4),
            age_ns: *rng.pick(&[5 * MILLIS, 50 * MILLIS, 5_000 * MILLIS]),
            ordering: orderings[(seed % orderings.len() as u64) as usize].name.into(),
            ..Scenario::new(seed)
        }
    }

    /// A small clustered volume that is filled until there is hardly room, every ordering in turn.
    /// The log needs twice the size.
    pub fn crowded(seed: u64) -> Scenario {
        let orderings = &twin_ffs::ordering::REGISTRY;
        let ordering = orderings[(seed % orderings.len() as u64) as usize].name.into();
        Scenario { size: 3 << 20, users: false, stamps: false, ordering, ..Scenario::new(seed) }
    }

    /// A small volume of either layout for workloads over few names.
    pub fn exhaustive(seed: u64) -> Scenario {
        Scenario { size: 2 << 20, users: false, cache: 1 << 20, ..Scenario::new(seed) }
    }

    /// A scenario that leaves a small volume with something of everything, to be damaged.
    pub fn image(seed: u64) -> Scenario {
        Scenario { size: 3 << 20, segment: 64 << 10, fill: 10, ops: 150, ..Scenario::draw(seed) }
    }

    /// The same for a small clustered volume, every ordering in turn.
    pub fn clustered_image(seed: u64) -> Scenario {
        let orderings = &twin_ffs::ordering::REGISTRY;
        let ordering = orderings[(seed % orderings.len() as u64) as usize].name.into();
        Scenario { ordering, size: 4 << 20, ..Scenario::image(seed) }
    }

    /// Draws a small volume to be damaged and repaired: its data is stamps.
    pub fn repair(seed: u64) -> Scenario {
        Scenario { stamps: true, ..Scenario::image(seed) }
    }

    /// The same for a small clustered volume.
    pub fn clustered_repair(seed: u64) -> Scenario {
        Scenario { stamps: true, ..Scenario::clustered_image(seed) }
    }

    /// How its volume is made.
    pub fn mkfs(&self) -> MkfsOptions {
        let uuid = std::array::from_fn(|i| (self.seed >> (i % 8 * 8)) as u8 ^ i as u8);
        let options = match self.profile {
            Profile::Modern => MkfsOptions::modern(uuid),
            Profile::Classic => MkfsOptions::classic(uuid),
        };
        // As full as a volume gets that was made before it could be said.
        let minfree = Superblock::MINFREE_UNSAID;
        MkfsOptions { segment_size: Some(self.segment), streams: self.streams, minfree, ..options }
    }

    /// Every policy of when to clean comes up, also one that is new in the registry.
    fn when_to_clean(&self) -> &'static str {
        let all: Vec<&str> = twin_clean::trigger::REGISTRY.names().collect();
        all[self.seed as usize / PLACEMENTS.len() % all.len()]
    }

    /// The layout's settings. Where blocks go and when they are cleaned follows from the seed.
    pub fn lfs(&self) -> LfsSettings {
        LfsSettings {
            writers_wait: false,
            lazy_fsync: false,
            gathering: Default::default(),
            copies: false,
            discard: self.seed % 5 == 3,
            eager_indirect: self.eager,
            checkpoint_segments: self.checkpoint,
            checkpoint_age_ns: 2_000 * MILLIS,
            victim: self.victim.clone(),
            placement: PLACEMENTS[self.seed as usize % PLACEMENTS.len()].into(),
            trigger: self.when_to_clean().into(),
            background_cleaning: true,
            clean_step_bytes: 16 << 10,
            in_flight_bytes: 4 * u64::from(self.segment),
            #[cfg(feature = "planted-faults")]
            planted: self.planted,
        }
    }

    /// How its volume is made, if it is a clustered one.
    pub fn ffs_mkfs(&self) -> twin_ffs::MkfsOptions {
        let uuid = self.mkfs().uuid;
        let options = match self.profile {
            Profile::Modern => twin_ffs::MkfsOptions::modern(uuid),
            Profile::Classic => twin_ffs::MkfsOptions::classic(uuid),
        };
        let journal_bytes = (self.journal > 0).then_some(self.journal);
        let (ordering, data_checksums) = (self.ordering.clone(), self.sums);
        twin_ffs::MkfsOptions { ordering, journal_bytes, data_checksums, ..options }
    }

    /// The clustered layout's settings. Where blocks go follows from the seed; planted faults are
    /// looked for with the default.
    pub fn ffs(&self) -> twin_ffs::FfsSettings {
        let policies = &twin_ffs::allocation::REGISTRY;
        let policy = match self.ffs_planted {
            twin_ffs::PlantedFault::None => self.seed / twin_ffs::ordering::REGISTRY.len() as u64,
            _ => 0,
        };
        twin_ffs::FfsSettings {
            allocation: policies[(policy % policies.len() as u64) as usize].name.into(),
            #[cfg(feature = "planted-faults")]
            planted: self.ffs_planted,
            ..twin_ffs::FfsSettings::default()
        }
    }

    /// The settings of the volume above it.
    pub fn settings(&self) -> twin_fs::Settings {
        twin_fs::Settings {
            cache_bytes: self.cache,
            cached_inodes: self.inodes,
            flush: self.flush.clone(),
            flush_age_ns: Some(self.age_ns),
            flush_by: self.needer.then_some(FlushBy::Needer),
            nvram_bytes: self.nvram,
            read_ahead_bytes: 64 << 10,
            // As on mounts, in half of the runs.
            drop_behind: self.files.is_multiple_of(2),
            expand_stamps: !self.stamps,
            ..twin_fs::Settings::default()
        }
    }

    /// What the workload goes by.
    pub fn workload_params(&self) -> WorkloadParams {
        WorkloadParams {
            clients: self.clients,
            users: self.users,
            files: self.files,
            dirs: self.files / 5 + 2,
            file_size_max: (self.space / 4).max(300_000),
            far_size_max: if self.profile == Profile::Classic { 1 << 31 } else { 1 << 40 },
            write_max: self.write,
            space_max: self.space,
            names: self.files,
            // Bytes that clients give cannot be told apart from stamps when stamps are kept.
            bytes: if self.stamps { 0.0 } else { 0.2 },
            ..WorkloadParams::default()
        }
    }

    /// The fields with their names, in the order of the text form.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let flag = |on: bool| u64::from(on).to_string();
        vec![
            ("seed", self.seed.to_string()),
            ("profile", if self.profile == Profile::Classic { "classic" } else { "modern" }.into()),
            ("size", self.size.to_string()),
            ("grow", self.grow.to_string()),
            ("segment", self.segment.to_string()),
            ("streams", self.streams.to_string()),
            ("workload", self.workload.clone()),
            ("ops", self.ops.to_string()),
            ("clients", self.clients.to_string()),
            ("users", flag(self.users)),
            ("shuffled", number_of(self.order).to_string()),
            ("think-ns", self.think_ns.to_string()),
            ("fill", self.fill.to_string()),
            ("space", self.space.to_string()),
            ("files", self.files.to_string()),
            ("write", self.write.to_string()),
            ("cache", self.cache.to_string()),
            ("flush", self.flush.clone()),
            ("needer", flag(self.needer)),
            ("nvram", self.nvram.to_string()),
            ("inodes", self.inodes.to_string()),
            ("stamps", flag(self.stamps)),
            ("eager", flag(self.eager)),
            ("checkpoint", self.checkpoint.to_string()),
            ("victim", self.victim.clone()),
            ("age-ns", self.age_ns.to_string()),
            ("planted", planted_name(self.planted).into()),
            ("ordering", self.ordering.clone()),
            ("journal", self.journal.to_string()),
            ("sums", flag(self.sums)),
            ("nfs", self.nfs.clone()),
            ("ffs-planted", ffs_planted_name(self.ffs_planted).into()),
            ("trace", flag(self.trace)),
        ]
    }

    /// True if a fault is planted in one of the layouts.
    pub fn is_planted(&self) -> bool {
        self.planted != PlantedFault::None || self.ffs_planted != twin_ffs::PlantedFault::None
    }

    /// A fault that is not built in would be one that no check can find.
    fn can_be_planted(&self) -> Result<(), String> {
        if self.is_planted() && !cfg!(feature = "planted-faults") {
            return Err("planted faults need `--features planted-faults`".into());
        }
        Ok(())
    }

    /// Changes one field by its name.
    ///
    /// # Errors
    /// If there is no such field, or the value is none of its values.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let bad = || format!("{value:?} is no value of {key:?}");
        fn number<T: FromStr>(value: &str) -> Result<T, String> {
            value.parse().map_err(|_| format!("{value:?} is not a number"))
        }
        let flag = || match value {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(bad()),
        };
        match key {
            "seed" => self.seed = number(value)?,
            "profile" => {
                self.profile = match value {
                    "classic" => Profile::Classic,
                    "modern" => Profile::Modern,
                    _ => return Err(bad()),
                }
            }
            "size" => self.size = number(value)?,
            "grow" => self.grow = number(value)?,
            "segment" => self.segment = number(value)?,
            "streams" => self.streams = number(value)?,
            "workload" => self.workload = value.into(),
            "ops" => self.ops = number(value)?,
            "clients" => self.clients = number(value)?,
            "users" => self.users = flag()?,
            "shuffled" => self.order = order_of(value).ok_or_else(bad)?,
            "think-ns" => self.think_ns = number(value)?,
            "fill" => self.fill = number(value)?,
            "space" => self.space = number(value)?,
            "files" => self.files = number(value)?,
            "write" => self.write = number(value)?,
            "cache" => self.cache = number(value)?,
            "flush" => self.flush = flush_named(value)?,
            "needer" => self.needer = flag()?,
            "nvram" => self.nvram = number(value)?,
            "inodes" => self.inodes = number(value)?,
            "stamps" => self.stamps = flag()?,
            "eager" => self.eager = flag()?,
            "checkpoint" => self.checkpoint = number(value)?,
            "victim" => self.victim = value.into(),
            "age-ns" => self.age_ns = number(value)?,
            "planted" => {
                let found = PLANTED.into_iter().find(|s| planted_name(*s) == value);
                self.planted = found.ok_or_else(bad)?;
                self.can_be_planted()?;
            }
            "ordering" => {
                let entry = twin_ffs::ordering::REGISTRY.get(value).map_err(|_| bad())?;
                self.ordering = entry.name.into();
            }
            "journal" => self.journal = number(value)?,
            "sums" => self.sums = flag()?,
            "nfs" if matches!(value, "" | "sync" | "async") => self.nfs = value.into(),
            "nfs" => return Err(bad()),
            "ffs-planted" => {
                let found = FFS_PLANTED.into_iter().find(|s| ffs_planted_name(*s) == value);
                self.ffs_planted = found.ok_or_else(bad)?;
                self.can_be_planted()?;
            }
            "trace" => self.trace = flag()?,
            _ => return Err(format!("a scenario has no {key:?}")),
        }
        Ok(())
    }
}

/// The orders of tasks, by the number that `shuffled` has for them.
const ORDERS: [Order; 3] = [Order::Fifo, Order::Shuffled, Order::Yielding];

fn number_of(order: Order) -> usize {
    ORDERS.iter().position(|&one| one == order).unwrap_or(ORDERS.len())
}

/// What `shuffled` says of the order of tasks.
fn order_of(value: &str) -> Option<Order> {
    ORDERS.into_iter().find(|&order| number_of(order).to_string() == value)
}

fn flush_named(name: &str) -> Result<String, String> {
    let entry = twin_cache::flush::REGISTRY.get(name).map_err(|error| error.to_string())?;
    Ok(entry.name.into())
}

fn planted_name(planted: PlantedFault) -> &'static str {
    match planted {
        PlantedFault::None => "none",
        PlantedFault::SkipFlush => "skip-flush",
        PlantedFault::SkipChecksum => "skip-checksum",
        PlantedFault::SummaryFirst => "summary-first",
        PlantedFault::ReuseEarly => "reuse-early",
    }
}

/// The faults that can be planted in a log.
const PLANTED: [PlantedFault; 5] = [
    PlantedFault::None,
    PlantedFault::SkipFlush,
    PlantedFault::SkipChecksum,
    PlantedFault::SummaryFirst,
    PlantedFault::ReuseEarly,
];
const FFS_PLANTED: [twin_ffs::PlantedFault; 9] = [
    twin_ffs::PlantedFault::None,
    twin_ffs::PlantedFault::SkipFlush,
    twin_ffs::PlantedFault::ReuseAtOnce,
    twin_ffs::PlantedFault::DataLate,
    twin_ffs::PlantedFault::SkipChecksum,
    twin_ffs::PlantedFault::SkipRevoked,
    twin_ffs::PlantedFault::RevokeLate,
    twin_ffs::PlantedFault::HeaderStays,
    twin_ffs::PlantedFault::FlushEarly,
];

fn ffs_planted_name(planted: twin_ffs::PlantedFault) -> &'static str {
    match planted {
        twin_ffs::PlantedFault::None => "none",
        twin_ffs::PlantedFault::SkipFlush => "skip-flush",
        twin_ffs::PlantedFault::ReuseAtOnce => "reuse-at-once",
        twin_ffs::PlantedFault::DataLate => "data-late",
        twin_ffs::PlantedFault::SkipChecksum => "skip-checksum",
        twin_ffs::PlantedFault::SkipRevoked => "skip-revoked",
        twin_ffs::PlantedFault::RevokeLate => "revoke-late",
        twin_ffs::PlantedFault::HeaderStays => "header-stays",
        twin_ffs::PlantedFault::FlushEarly => "flush-early",
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is as in `Scenario::new` reads so when it is missing; that has another seed.
        let usual = Scenario::new(self.seed.wrapping_add(1)).fields();
        let fields = self.fields().into_iter().zip(usual);
        let told = fields.filter(|(field, usual)| field != usual);
        let pairs: Vec<String> = told.map(|((k, v), _)| format!("{k}={v}")).collect();
        f.write_str(&pairs.join(","))
    }
}

impl FromStr for Scenario {
    type Err = String;

    /// Reads `key=value` pairs, parted by commas; what is missing is as in [`Scenario::new`].
    fn from_str(text: &str) -> Result<Scenario, String> {
        let mut scenario = Scenario::new(1);
        for setting in grammar::settings(text).map_err(|error| error.to_string())? {
            scenario.set(setting.key, setting.value)?;
        }
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_survives_its_text() {
        for seed in 0..200 {
            let scenario = Scenario::draw(seed);
            assert_eq!(scenario.to_string().parse(), Ok(scenario));
        }
    }

    #[test]
    fn a_misspelt_field_is_refused() {
        assert!("sede=4".parse::<Scenario>().is_err());
        assert!("seed=four".parse::<Scenario>().is_err());
        assert!("seed".parse::<Scenario>().is_err());
    }
}
