//! Devices against real files, a memory file system and a loop device, through both engines.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use twin_disk::{
    Block, BlockDevice, Buf, Class, DeviceInfo, Io, IoErrorKind, IoResult, Origin, Stamp,
};
use twin_fs::Request;
use twin_host::{
    FileDevice, FlightLog, Host, HostOptions, IdlePoll, IdlePolling, ImageError, ImageOptions,
    QueueChoice, create_image,
};
use twin_rt::{MILLIS, Rng, Time};

const SIZE: u64 = 8 << 20;

struct TempFile(PathBuf);

impl TempFile {
    fn in_dir(dir: &Path, name: &str) -> TempFile {
        let path = dir.join(format!("twin-host-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        TempFile(path)
    }

    fn new(name: &str) -> TempFile {
        TempFile::in_dir(&std::env::temp_dir(), name)
    }

    fn image(name: &str) -> TempFile {
        let file = TempFile::new(name);
        create_image(&file.0, SIZE).unwrap();
        file
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn host(io_uring: bool) -> Host {
    Host::start(HostOptions { io_uring, ..HostOptions::default() }).unwrap()
}

fn ask(host: &Host, disk: &FileDevice, io: Io) -> IoResult {
    host.rt().block_on(disk.submit(io)).unwrap()
}

fn write(at: u64, blocks: Vec<Block>) -> Io {
    Io::write(at, blocks, Class::Mixed, Origin::User)
}

fn read(at: u64, len: u64) -> Io {
    Io::read(at, len, Class::Mixed, Origin::User)
}

fn bytes(result: IoResult) -> Vec<u8> {
    result.unwrap().iter().flat_map(|block| block.to_bytes().to_vec()).collect()
}

fn random_block(rng: &mut Rng, len: usize) -> Block {
    match rng.below(3) {
        0 => Block::Zero(len as u32),
        1 => {
            let mut buf = Buf::zeroed(len + 3);
            buf.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
            // Some buffers begin at an odd address.
            let skip = rng.below(4) as usize;
            Block::Bytes(buf.freeze().slice(skip, len))
        }
        _ => {
            Block::Stamp(Stamp { ino: 9, lbn: 1, version: rng.next_u64(), off: 0, len: len as u32 })
        }
    }
}

fn random_write(rng: &mut Rng, info: &DeviceInfo) -> (u64, Vec<Block>) {
    let sector = u64::from(info.sector);
    let sectors = rng.range(1, 300);
    let at = rng.below(info.size / sector - sectors) * sector;
    let mut left = (sectors * sector) as usize;
    let mut blocks = Vec::new();
    while left > 0 {
        let len = if rng.chance(0.7) { 4096 } else { rng.range(1, 5000) as usize };
        let len = len.min(left);
        blocks.push(random_block(rng, len));
        left -= len;
    }
    (at, blocks)
}

/// Makes random reads and writes, several at a time, and compares each read with a copy in memory.
fn random_traffic(path: &Path, io_uring: bool, options: &ImageOptions, seed: u64) {
    println!("seed {seed}, {}, io_uring {io_uring}", path.display());
    let host = host(io_uring);
    let disk = FileDevice::open(&host, path, options).unwrap();
    let info = disk.info();
    let mut rng = Rng::new(seed);
    let mut copy = bytes(ask(&host, &disk, read(0, info.size)));
    for _ in 0..40 {
        let (at, blocks) = random_write(&mut rng, &info);
        let mut pos = at as usize;
        for block in &blocks {
            block.copy_to(&mut copy[pos..pos + block.len()]);
            pos += block.len();
        }
        let written = disk.submit(write(at, blocks));
        assert_eq!(disk.in_flight(), 1);
        assert_eq!(host.rt().block_on(written).unwrap(), Ok(vec![]));
        let sector = u64::from(info.sector);
        let asked: Vec<_> = (0..rng.range(1, 9))
            .map(|_| {
                let len = rng.range(1, 200) * sector;
                let at = rng.below((info.size - len) / sector) * sector;
                (at, len, disk.submit(read(at, len)))
            })
            .collect();
        for (at, len, pending) in asked {
            let got = bytes(host.rt().block_on(pending).unwrap());
            assert!(got == copy[at as usize..(at + len) as usize], "seed {seed} at {at}+{len}");
        }
    }
    assert_eq!(ask(&host, &disk, Io::flush(Origin::User)), Ok(vec![]));
    assert_eq!(disk.in_flight(), 0);
    drop((disk, host));
    let stored = std::fs::read(path).unwrap();
    assert!(stored == copy, "what was written is not what is stored, seed {seed}");
}

#[test]
fn random_traffic_on_a_file_through_io_uring() {
    let image = TempFile::image("uring");
    random_traffic(&image.0, true, &ImageOptions::default(), 1);
}

#[test]
fn random_traffic_on_a_file_through_threads() {
    let image = TempFile::image("threads");
    random_traffic(&image.0, false, &ImageOptions::default(), 2);
}

#[test]
fn random_traffic_without_direct_io() {
    let image = TempFile::image("buffered");
    let options = ImageOptions { direct: false, ..ImageOptions::default() };
    random_traffic(&image.0, true, &options, 3);
}

#[test]
fn random_traffic_in_a_memory_file_system() {
    let dir = Path::new("/dev/shm");
    if !dir.is_dir() {
        println!("skipped: no /dev/shm here");
        return;
    }
    let image = TempFile::in_dir(dir, "shm");
    create_image(&image.0, SIZE).unwrap();
    random_traffic(&image.0, true, &ImageOptions::default(), 4);
}

struct Loop(String);

impl Loop {
    fn attach(image: &Path) -> Result<Loop, String> {
        let run = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(image)
            .output();
        match run {
            Ok(out) if out.status.success() => {
                Ok(Loop(String::from_utf8_lossy(&out.stdout).trim().to_string()))
            }
            Ok(out) => Err(String::from_utf8_lossy(&out.stderr).trim().to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn random_traffic_on_a_loop_device() {
    let image = TempFile::image("loop");
    let device = match Loop::attach(&image.0) {
        Ok(device) => device,
        Err(why) => return println!("skipped: no loop device ({why})"),
    };
    for io_uring in [true, false] {
        random_traffic(Path::new(&device.0), io_uring, &ImageOptions::default(), 5);
    }
    let host = host(true);
    let path = Path::new(&device.0);
    let disk = FileDevice::open(&host, path, &ImageOptions::default()).unwrap();
    assert!(disk.is_direct());
    assert_eq!(disk.info().size, SIZE);
    assert_eq!(ask(&host, &disk, Io::discard(0, 1 << 20)), Ok(vec![]));
    assert_eq!(bytes(ask(&host, &disk, read(0, 4096))), vec![0; 4096]);
    let again = FileDevice::open(&host, path, &ImageOptions::default());
    assert!(matches!(again, Err(ImageError::InUse { mounted_at: None, .. })));
}

#[test]
fn a_write_of_more_pieces_than_one_call_takes_arrives_whole() {
    let image = TempFile::image("pieces");
    for io_uring in [true, false] {
        let host = host(io_uring);
        let disk = FileDevice::open(&host, &image.0, &ImageOptions::default()).unwrap();
        let one = Buf::copy_of(&[7u8; 512]).freeze();
        let two = Buf::copy_of(&[8u8; 512]).freeze();
        let blocks: Vec<_> =
            (0..3000).map(|i| Block::Bytes(if i % 2 == 0 { &one } else { &two }.clone())).collect();
        assert_eq!(ask(&host, &disk, write(0, blocks)), Ok(vec![]));
        let got = bytes(ask(&host, &disk, read(0, 3000 * 512)));
        let right = |(i, sector): (usize, &[u8])| sector.iter().all(|&b| b == 7 + (i % 2) as u8);
        assert!(got.chunks(512).enumerate().all(right));
    }
}

#[test]
fn an_image_in_use_is_refused_with_its_name() {
    let image = TempFile::image("inuse");
    let host = host(true);
    let first = FileDevice::open(&host, &image.0, &ImageOptions::default()).unwrap();
    let Err(error) = FileDevice::open(&host, &image.0, &ImageOptions::default()) else {
        panic!("opened twice");
    };
    let text = error.to_string();
    assert!(text.contains("in use") && text.contains(image.0.to_str().unwrap()), "{text}");
    drop(first);
    let read_only = ImageOptions { read_only: true, ..ImageOptions::default() };
    let _a = FileDevice::open(&host, &image.0, &read_only).unwrap();
    let _b = FileDevice::open(&host, &image.0, &read_only).unwrap();
}

#[test]
fn what_is_not_an_image_is_refused() {
    let host = host(true);
    let dir = FileDevice::open(&host, Path::new("/"), &ImageOptions::default());
    assert!(matches!(dir, Err(ImageError::NotAnImage(_))));
    let none = FileDevice::open(&host, Path::new("/no/such/image"), &ImageOptions::default());
    assert!(matches!(none, Err(ImageError::Host { .. })));
    let image = TempFile::image("exists");
    assert!(matches!(create_image(&image.0, SIZE), Err(ImageError::Exists(_))));
}

#[test]
fn requests_outside_the_device_or_off_its_sectors_are_refused() {
    let image = TempFile::image("range");
    let host = host(true);
    let disk = FileDevice::open(&host, &image.0, &ImageOptions::default()).unwrap();
    for (at, len) in [(SIZE, 512), (u64::MAX - 511, 512), (1, 512), (0, 100)] {
        let error = ask(&host, &disk, read(at, len)).unwrap_err();
        assert_eq!(error.kind, IoErrorKind::OutOfRange, "{at}+{len}");
    }
}

#[test]
fn a_file_cut_under_way_gives_an_error_not_old_data() {
    let image = TempFile::image("cut");
    for io_uring in [true, false] {
        let host = host(io_uring);
        let disk = FileDevice::open(&host, &image.0, &ImageOptions::default()).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&image.0).unwrap();
        file.set_len(1 << 20).unwrap();
        let error = ask(&host, &disk, read((1 << 20) - 4096, 8192)).unwrap_err();
        assert!(matches!(error.kind, IoErrorKind::Other(_)), "{error}");
        file.set_len(SIZE).unwrap();
    }
}

#[test]
fn a_full_host_file_system_gives_no_space() {
    // /dev/full is a character device, so a small memory file system is filled instead.
    let dir = std::env::temp_dir().join(format!("twin-host-full-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(&dir)
        .status()
        .is_ok_and(|status| status.success());
    if !mounted {
        let _ = std::fs::remove_dir(&dir);
        return println!("skipped: may not mount");
    }
    let path = dir.join("image");
    create_image(&path, SIZE).unwrap();
    let outcome = {
        let host = host(true);
        let disk = FileDevice::open(&host, &path, &ImageOptions::default()).unwrap();
        let block = || vec![Block::Bytes(Buf::copy_of(&[1; 1 << 20]).freeze())];
        (0..4).map(|i| ask(&host, &disk, write(i << 20, block()))).find_map(Result::err)
    };
    let _ = Command::new("umount").arg(&dir).status();
    let _ = std::fs::remove_dir(&dir);
    assert_eq!(outcome.map(|error| error.kind), Some(IoErrorKind::NoSpace));
}

#[derive(Default)]
struct Notes(RefCell<Vec<Note>>);

#[derive(Debug, PartialEq)]
enum Note {
    Parked(Time),
    Completed(u32, u64, bool),
}

impl FlightLog for Notes {
    fn started(&self, _: Time) {}
    fn parked(&self, now: Time, _: Time) {
        self.0.borrow_mut().push(Note::Parked(now));
    }
    fn arrived(&self, _: &Request) {}
    fn completed(&self, device: u32, id: u64, result: &IoResult) {
        self.0.borrow_mut().push(Note::Completed(device, id, result.is_ok()));
    }
}

#[test]
fn each_completion_enters_alone_and_after_its_time() {
    let image = TempFile::image("flight");
    for io_uring in [true, false] {
        let notes = Rc::new(Notes::default());
        let flight: Rc<dyn FlightLog> = Rc::clone(&notes) as Rc<dyn FlightLog>;
        let options = HostOptions { io_uring, flight: Some(flight), ..HostOptions::default() };
        let host = Host::start(options).unwrap();
        let disk = FileDevice::open(&host, &image.0, &ImageOptions::default()).unwrap();
        let asked: Vec<_> = (0..20).map(|i| disk.submit(read(i * 4096, 4096))).collect();
        for pending in asked {
            host.rt().block_on(pending).unwrap().unwrap();
        }
        let _ = ask(&host, &disk, read(1, 1));
        let rt = host.rt().clone();
        host.rt().block_on(async move { rt.sleep(2 * MILLIS).await }).unwrap();
        let notes = notes.0.take();
        let mut ids = Vec::new();
        let mut last = Time(0);
        for pair in notes.windows(2) {
            match pair {
                [Note::Parked(now), Note::Completed(0, id, ok)] => {
                    assert!(*now >= last);
                    assert_eq!(*ok, *id != 21);
                    (last, _) = (*now, ids.push(*id));
                }
                [_, Note::Parked(_)] => {}
                other => panic!("out of order: {other:?}"),
            }
        }
        ids.sort_unstable();
        assert_eq!(ids, (1..=21).collect::<Vec<_>>());
        assert!(matches!(notes.last(), Some(Note::Parked(_))), "the timer enters last");
    }
}

#[test]
fn a_deadline_is_kept_while_nothing_else_happens() {
    for io_uring in [true, false] {
        let host = host(io_uring);
        let rt = host.rt().clone();
        let before = rt.now();
        let after = host.rt().block_on(async move {
            rt.sleep(5 * MILLIS).await;
            rt.now()
        });
        let span = after.unwrap().since(before);
        assert!((5 * MILLIS..500 * MILLIS).contains(&span), "{span}");
    }
}

#[test]
fn dropping_the_host_with_requests_under_way_waits_for_them() {
    let image = TempFile::image("drop");
    for io_uring in [true, false] {
        let host = host(io_uring);
        let disk = FileDevice::open(&host, &image.0, &ImageOptions::default()).unwrap();
        let block = Block::Bytes(Buf::copy_of(&[0x5a; 1 << 20]).freeze());
        drop(disk.submit(write(0, vec![block])));
        host.rt().run_ready();
        drop((disk, host));
        assert!(std::fs::read(&image.0).unwrap()[..1 << 20].iter().all(|&byte| byte == 0x5a));
        std::fs::write(&image.0, vec![0; SIZE as usize]).unwrap();
    }
}

/// The order in which requests complete that are submitted at once to a device that takes one at a
/// time.
fn order(io_uring: bool, queue: &str, addresses: &[u64]) -> Vec<u64> {
    let image = TempFile::image(&format!("queue-{}", queue.split(':').next().unwrap()));
    let host = host(io_uring);
    let queue = QueueChoice::parse(queue).unwrap();
    let options = ImageOptions { queue, ..ImageOptions::default() };
    let disk = FileDevice::open(&host, &image.0, &options).unwrap();
    let ended = Rc::new(RefCell::new(Vec::new()));
    let (rt, tasks) = (host.rt().clone(), Rc::clone(&ended));
    let addresses = addresses.to_vec();
    host.rt()
        .block_on(async move {
            let zeros = || vec![Block::Zero(64 << 10)];
            let writes = addresses.into_iter().map(|at| (at, disk.submit(write(at, zeros()))));
            let tasks = writes.map(|(at, pending)| {
                let ended = Rc::clone(&tasks);
                rt.spawn("write", async move {
                    pending.await.unwrap();
                    ended.borrow_mut().push(at);
                })
            });
            let tasks: Vec<_> = tasks.collect();
            twin_rt::join_all(tasks).await;
        })
        .unwrap();
    ended.take()
}

#[test]
fn requests_that_wait_reach_the_kernel_in_the_queue_s_order() {
    let all = [5u64, 3, 7, 1, 6, 2].map(|k| k << 20);
    for io_uring in [false, true] {
        let sorted =
            |queue| order(io_uring, queue, &all).into_iter().map(|at| at >> 20).collect::<Vec<_>>();
        assert_eq!(sorted("fcfs:depth=1"), [5, 3, 7, 1, 6, 2]);
        assert_eq!(sorted("c-look:depth=1"), [5, 6, 7, 1, 2, 3]);
        assert_eq!(sorted("look:depth=1"), [5, 6, 7, 3, 2, 1]);
    }
}

/// The wake-up latency that all processes of this machine together ask of the kernel, in microseconds.
fn wanted_latency() -> std::io::Result<i32> {
    let mut value = [0; 4];
    File::open("/dev/cpu_dma_latency")?.read_exact(&mut value)?;
    Ok(i32::from_ne_bytes(value))
}

#[test]
fn idle_processors_poll_during_a_burst_and_not_after_it() {
    if let Err(error) = OpenOptions::new().write(true).open("/dev/cpu_dma_latency") {
        println!("skipped: /dev/cpu_dma_latency: {error}");
        return;
    }
    let image = TempFile::image("polls");
    let options = HostOptions { idle_poll: IdlePoll::Yes, ..HostOptions::default() };
    let host = Host::start(options).unwrap();
    let disk = FileDevice::open(&host, &image.0, &ImageOptions::default()).unwrap();
    assert_eq!(host.idle_polling(), Some(IdlePolling::default()));
    // Requests that the device never sees complete at once, so that no wait ends the burst.
    let burst = || {
        let reads: Vec<_> = (0..2000).map(|_| disk.submit(read(1, 1))).collect();
        for pending in reads {
            host.rt().block_on(pending).unwrap().unwrap_err();
        }
    };
    let pause = || {
        let rt = host.rt().clone();
        host.rt().block_on(async move { rt.sleep(5 * MILLIS).await }).unwrap();
        host.idle_polling().unwrap()
    };
    for nth in 1..=2 {
        burst();
        assert_eq!(host.idle_polling().unwrap().bursts, nth);
        assert_eq!(wanted_latency().unwrap(), 0);
        let polled = pause();
        assert_eq!(pause(), polled, "it ended with the burst");
    }
}

#[test]
fn idle_processors_poll_for_no_host_that_does_not_want_it() {
    let host = Host::start(HostOptions::default()).unwrap();
    assert_eq!(host.idle_polling(), None);
}
