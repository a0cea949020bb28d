//! Forks of volumes in use: what a fork holds is the state of the model file system at the instant at
//! which operations were held, while a client goes on changing the volume.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use twin_ageing::fork::{Closed, Twin};
use twin_disk::{Block, BlockDevice, Buf, Class, Freezable, Io, MemDisk, Origin};
use twin_fs::{
    CheckRequest, Cpu, Identity, LayoutKind, Op, ROOT_INO, Reply, Request, SetTime, Settings,
    Volume,
};
use twin_lab::layouts::layout;
use twin_model::generate::{Generator, WorkloadParams};
use twin_model::{Compare, DataMode, Dump, ModelFs, diff};
use twin_rt::{ClockOnly, MILLIS, Rt, Time};
use twin_sim::{SimDisk, model};

const SIZE: u64 = 64 << 20;
const IDENTITY: Identity = Identity { uuid: [7; 16], root: (0, 0, 0o755) };
/// The most old content to keep, in bytes.
const KEPT: u64 = 2 * SIZE;
/// Clients of a real disk wait no longer for a fork in virtual time: sixteen rotations.
const LONGEST_WAIT_NS: u64 = 250 * MILLIS;

fn settings() -> Settings {
    Settings { expand_stamps: true, cache_bytes: 1 << 20, cached_inodes: 30, ..Settings::default() }
}

fn open(rt: &Rt, kind: &dyn LayoutKind, device: Rc<dyn BlockDevice>) -> Volume {
    let config = kind.config();
    let opening = config.open(rt, device, Cpu::none(), settings());
    rt.block_on(opening).unwrap().unwrap().volume
}

fn model_of(rt: &Rt, volume: &Volume) -> ModelFs {
    let geometry = volume.core().geometry.clone();
    let settings = twin_model::Settings {
        block_size: geometry.block_size,
        data: DataMode::Bytes,
        file_size_max: geometry.max_file_size(),
        link_max: 65_000,
        symlink_max: twin_fs::dir::SYMLINK_MAX.min(geometry.block_size as usize),
        xattr_total_max: 256 << 10,
        inline_max: geometry.inline_max.into(),
        promised_is_data: true,
        ..twin_model::Settings::default()
    };
    let mut model = ModelFs::new(settings, Time(0));
    match rt.block_on(volume.execute(Request::root(1 << 39, Op::GetAttr { ino: ROOT_INO }))) {
        Ok(Ok(Reply::Attr(attr))) => model.set_root_attr(&attr),
        other => panic!("the root of a new volume: {other:?}"),
    }
    model
}

/// A client that changes a volume until it is told to stop, with the model beside it.
struct Client {
    model: RefCell<ModelFs>,
    stops: Cell<bool>,
    done: Cell<u64>,
    /// The longest time that an operation took.
    longest_ns: Cell<u64>,
}

impl Client {
    fn start(rt: &Rt, volume: &Volume, seed: u64) -> Rc<Client> {
        let client = Rc::new(Client {
            model: RefCell::new(model_of(rt, volume)),
            stops: Cell::default(),
            done: Cell::default(),
            longest_ns: Cell::default(),
        });
        let params = WorkloadParams {
            block_size: volume.core().geometry.block_size.into(),
            ..WorkloadParams::default()
        };
        let mut generator = Generator::new("mixed", params, seed).unwrap();
        let (its, volume, rt) = (Rc::clone(&client), volume.clone(), rt.clone());
        rt.clone().spawn("client", async move {
            while !its.stops.get() {
                let mut request = generator.next();
                if let Op::SetAttr { set, .. } = &mut request.op {
                    for time in [&mut set.atime, &mut set.mtime].into_iter().flatten() {
                        if let SetTime::At(at) = time {
                            *at = volume.core().features.nearest_time(*at);
                        }
                    }
                }
                let begun = rt.now();
                let (at, reply) = execute(&rt, &volume, request.clone()).await;
                // Nothing waits between the end of the operation and the model's.
                let followed = its.model.borrow_mut().follow(at, &request, &reply);
                followed.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
                generator.learn(&request, &reply);
                its.done.set(its.done.get() + 1);
                its.longest_ns.set(its.longest_ns.get().max(rt.now().since(begun)));
                rt.sleep(20_000).await;
            }
        });
        client
    }
}

/// Executes a request. Returns when it first took effect, or ended, if it had none.
async fn execute(rt: &Rt, volume: &Volume, request: Request) -> (Time, twin_fs::Result<Reply>) {
    let mut future = pin!(volume.execute(request));
    let mut at = None;
    let reply = poll_fn(|cx| {
        let before = volume.core().changes();
        let polled = future.as_mut().poll(cx);
        if volume.core().changes() != before || polled.is_ready() {
            at.get_or_insert(rt.now());
        }
        polled
    });
    let reply = reply.await;
    (at.unwrap_or(rt.now()), reply)
}

fn dump_of(rt: &Rt, volume: &Volume) -> Dump {
    let mut next_id = 1 << 40;
    rt.block_on(twin_model::dump(volume, &mut next_id)).unwrap().unwrap()
}

fn must_be_clean(rt: &Rt, kind: &dyn LayoutKind, device: Rc<dyn BlockDevice>, what: &str) {
    let mut progress = |_, _| {};
    let check = kind.check(rt, device, CheckRequest::default(), &mut progress);
    let report = rt.block_on(check).unwrap().unwrap();
    assert!(report.is_clean(), "{what}: {:?}", report.findings);
}

fn must_equal(model: &Dump, volume: &Dump, compare: Compare, what: &str) {
    if let Some(difference) = diff(model, volume, ["model", "fork"], &compare) {
        panic!("{what}: {difference}");
    }
}

/// One fork of a volume in use. Returns the bytes of old content that had to be kept.
fn fork_once(kind: &'static dyn LayoutKind, disk: &str, seed: u64) -> u64 {
    let what = format!("{}, {disk}, seed {seed}", kind.name());
    let rt = Rt::new(ClockOnly::default(), seed);
    let options = model::Options { size: Some(SIZE), ..model::Options::default() };
    let built = model::REGISTRY.get(disk).unwrap().build(&options).unwrap();
    let device = Freezable::new(&rt, Rc::new(SimDisk::builder(&rt, built).start()));
    let below = Rc::new(device.clone()) as Rc<dyn BlockDevice>;
    let config = kind.config();
    rt.block_on(config.mkfs(&rt, Rc::clone(&below), IDENTITY)).unwrap().unwrap();
    let volume = open(&rt, kind, Rc::clone(&below));
    let client = Client::start(&rt, &volume, seed);

    let instant = async {
        rt.sleep(400 * MILLIS + seed * 37 * MILLIS).await;
        let clock = rt.clone();
        let guard = volume.freeze(Rc::new(move || clock.now())).await.unwrap();
        let expected = client.model.borrow().dump();
        let done = client.done.get();
        let frozen = device.freeze(KEPT).await.unwrap();
        assert_eq!(client.done.get(), done, "{what}: no operation ends while they are held");
        let held_ns = rt.now().since(guard.since());
        drop(guard);
        // Much of what the volume has written is written over before the fork is read.
        rt.sleep(1500 * MILLIS).await;
        (expected, Rc::new(frozen), done, held_ns)
    };
    let (expected, frozen, done, held_ns) = rt.block_on(instant).unwrap();
    assert!(done > 50 && client.done.get() > done + 50, "{what}: {done} before");
    assert!(held_ns < LONGEST_WAIT_NS, "{what}: held for {held_ns} ns");

    let closed = Closed::of(&rt, kind, Rc::new(frozen.device())).unwrap();
    let held = open(&rt, kind, closed.device());
    must_equal(&expected, &dump_of(&rt, &held), Compare::default(), &what);
    rt.block_on(held.close()).unwrap().unwrap();

    let twin = Twin::of(&closed, &mut |_, _| {}).unwrap();
    let copy = Rc::new(MemDisk::new(twin.size()));
    let put = |at: u64, block: &Block| -> Result<(), twin_lab::SimulateError> {
        let bytes = Buf::copy_of(&block.to_bytes()).freeze();
        let io = Io::write(at, vec![Block::Bytes(bytes)], Class::Meta, Origin::User);
        rt.block_on(copy.submit(io)).unwrap().unwrap();
        Ok(())
    };
    twin.copy(put).unwrap();
    let kept = frozen.kept_bytes();
    client.stops.set(true);
    rt.block_on(rt.sleep(500 * MILLIS)).unwrap();
    rt.block_on(volume.close()).unwrap().unwrap();
    must_be_clean(&rt, kind, below, "the volume itself");

    must_be_clean(&rt, kind, Rc::clone(&copy) as _, &what);
    let fork = open(&rt, kind, Rc::clone(&copy) as _);
    let found = dump_of(&rt, &fork);
    must_equal(&expected, &found, Compare { content: false, ..Compare::default() }, &what);
    for (path, node) in &expected.nodes {
        let is_file = node.attr.mode & twin_fs::mode::TYPE == twin_fs::mode::REGULAR;
        let same = node.attr.size == found.nodes[path].attr.size;
        assert!(same || !is_file, "{what}: {}", path.escape_ascii());
    }
    rt.block_on(fork.close()).unwrap().unwrap();
    must_be_clean(&rt, kind, copy, &what);
    rt.crash();
    println!("{what}: held {:.1} ms, kept {kept} bytes", held_ns as f64 / 1e6);
    kept
}

#[test]
fn a_fork_is_the_state_of_one_instant() {
    for name in ["lfs", "ffs"] {
        let kind = layout(name).unwrap();
        let kept =
            ["hp97560", "ssd-sata"].map(|disk| (1..=4).map(|s| fork_once(kind, disk, s)).sum());
        let kept: u64 = kept.iter().sum();
        assert!(kept > 0, "{name}: nothing was written over while forks were read");
    }
}
