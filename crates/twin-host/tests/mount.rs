//! Tests of mounted file systems from outside: real mounts of a mirror, used as programs use them.
//!
//! Each test mounts in its own daemon, made with `in_background`. The test has its own main
//! function, because fork requires a single thread. A watchdog ends a daemon that hangs by its
//! process number, so that the test fails instead of waiting for ever.

#[path = "mount/mounted.rs"]
mod mounted;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::rc::Rc;

use rustix::fs::{
    AtFlags, FallocateFlags, RenameFlags, SeekFrom as RxSeek, StatxFlags, XattrFlags,
};
use rustix::mount::UnmountFlags;
use rustix::process::{Gid, Pid, Signal, Uid, WaitOptions};
use twin_fs::{FileSystem, Op, Reply, Request};
use twin_host::fuse::{
    Deputy, End, Mount, MountOptions, Ready, Session, SessionOptions, in_background, serve, unmount,
};
use twin_host::mirror::Mirror;
use twin_host::{Host, HostOptions, Signals};
use twin_rt::{MICROS, Rng, Rt, SECS};

use mounted::{Mounted, pause};

/// How long a test may take before its daemon is killed, in seconds: more than any takes on a machine that
/// ten others use, so that only what hangs is ended.
const PATIENCE: u32 = 900;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// What to mount and how.
#[derive(Clone, Default)]
struct Config {
    session: SessionOptions,
    threads: bool,
    /// Every operation waits a little, some longer than others.
    slow: bool,
    /// The most descriptors that the mirror may hold.
    fds: Option<usize>,
    grace_ns: u64,
    /// The user who serves the mount.
    user: Option<u32>,
    /// A thread of the daemon waits in the daemon's own mount, for the name `trap`, which is never
    /// answered for a slow one.
    trapped: bool,
}

/// A mirror whose operations end in another order than that in which they began.
struct Slow {
    rt: Rt,
    inner: Mirror,
}

impl FileSystem for Slow {
    async fn execute(&self, request: Request) -> twin_fs::Result<Reply> {
        if matches!(&request.op, Op::Lookup { name, .. } if **name == *b"trap") {
            std::future::pending::<()>().await;
        }
        let at_once = matches!(request.op, Op::Forget { .. });
        if !at_once {
            let span = Rng::new(request.id).range(1, 300) * MICROS;
            self.rt.sleep(span).await;
        }
        self.inner.execute(request).await
    }
}

/// A directory that is removed at the end of its test.
struct Temp(PathBuf);

impl Temp {
    fn new(name: &str) -> Temp {
        let path = std::env::temp_dir().join(format!("twin-mount-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary directory");
        Temp(path)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn start(source: &Path, dir: &Path, config: &Config) -> Result<i32, String> {
    in_background(|ready| match child(source, dir, config, ready) {
        Ok(End::Unmounted) => 0,
        Ok(End::Abandoned) => 3,
        Err(_) => 1,
    })
}

fn child(source: &Path, dir: &Path, config: &Config, ready: Ready) -> Result<End, String> {
    let made = become_user(config.user).and_then(|()| prepare(source, dir, config));
    let (host, mount, mirror, signals) = match made {
        Ok(made) => made,
        Err(error) => {
            ready.failed(&error.to_string());
            return Err(error.to_string());
        }
    };
    let trap = config.trapped.then(|| dir.join("trap"));
    #[allow(clippy::disallowed_methods)] // What no daemon may do.
    let ready = move || {
        trap.map(|trap| std::thread::spawn(|| File::open(trap)));
        ready.mounted()
    };
    let (rt, grace) = (host.rt().clone(), config.grace_ns);
    let options = config.session.clone();
    let end = if config.slow {
        let fs = Rc::new(Slow { rt: rt.clone(), inner: mirror });
        let session = Session::new(&host, mount.fd(), fs, options);
        rt.block_on(async { serve(&host, mount, &session, Some(signals), grace, ready).await })
    } else {
        let session = Session::new(&host, mount.fd(), Rc::new(mirror), options);
        rt.block_on(async { serve(&host, mount, &session, Some(signals), grace, ready).await })
    };
    end.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
}

fn become_user(user: Option<u32>) -> io::Result<()> {
    let Some(user) = user else { return Ok(()) };
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    Ok(rustix::thread::set_thread_res_uid(uid, uid, uid)?)
}

fn prepare(
    source: &Path,
    dir: &Path,
    config: &Config,
) -> io::Result<(Host, Mount, Mirror, Rc<Signals>)> {
    let deputy = Deputy::start()?;
    let options = HostOptions { io_uring: !config.threads, ..HostOptions::default() };
    let host = Host::start(options)?;
    let signals = Rc::new(Signals::listen_for_stop(&host)?);
    let mirror = match config.fds {
        Some(most) => Mirror::with_fd_limit(source, most)?,
        None => Mirror::open(source)?,
    };
    let kernel_checks = config.session.kernel_checks;
    let options = MountOptions { kernel_checks, ..MountOptions::default() };
    let mount = Mount::new(dir, &options, deputy).map_err(|e| io::Error::other(e.to_string()))?;
    Ok((host, mount, mirror, signals))
}

fn default() -> Config {
    Config { grace_ns: 5 * SECS, ..Config::default() }
}

/// The ways to serve, which must all behave alike.
fn ways() -> Vec<(&'static str, Config)> {
    let with = |session| Config { session, ..default() };
    let base = SessionOptions::default;
    vec![
        ("default", default()),
        ("shared", with(SessionOptions::shared())),
        ("writeback", with(SessionOptions { writeback_cache: true, ..base() })),
        ("own checks", with(SessionOptions { kernel_checks: false, ..base() })),
        ("threads", Config { threads: true, ..default() }),
        ("slow", Config { slow: true, ..default() }),
        ("few descriptors", Config { fds: Some(40), ..default() }),
        ("small writes", with(SessionOptions { max_write: 8192, ..base() })),
    ]
}

fn check(right: bool, what: &str) -> Outcome {
    if right { Ok(()) } else { Err(what.into()) }
}

/// A tree as a program that walks it sees it.
fn snapshot(top: &Path) -> io::Result<Vec<String>> {
    fn walk(top: &Path, dir: &Path, out: &mut Vec<String>) -> io::Result<()> {
        let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, meta) = (entry.path(), entry.path().symlink_metadata()?);
            let name = path.strip_prefix(top).unwrap_or(&path).display().to_string();
            let kind = meta.file_type();
            let (content, nlink) = if kind.is_dir() {
                (String::new(), 0)
            } else if kind.is_symlink() {
                (fs::read_link(&path)?.display().to_string(), meta.nlink())
            } else if kind.is_file() {
                let bytes = fs::read(&path)?;
                (format!("{} bytes, sum {}", bytes.len(), sum(&bytes)), meta.nlink())
            } else {
                (format!("device {}", meta.rdev()), meta.nlink())
            };
            let (mode, uid, gid) = (meta.mode(), meta.uid(), meta.gid());
            out.push(format!("{name} {mode:o} {uid}:{gid} links {nlink} {content}"));
            if kind.is_dir() {
                walk(top, &path, out)?;
            }
        }
        Ok(())
    }
    let mut out = Vec::new();
    walk(top, top, &mut out)?;
    Ok(out)
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum: u64, &b| sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(b))
}

fn same(got: &[String], want: &[String], what: &str) -> Outcome {
    for (got, want) in got.iter().zip(want) {
        check(got == want, &format!("{what}: {got} instead of {want}"))?;
    }
    check(got.len() == want.len(), &format!("{what}: {} entries, not {}", got.len(), want.len()))
}

/// Makes one random operation in the tree at `top`, the same for every `top`. Returns what a
/// program would see of its result.
fn random_step(top: &Path, rng: &mut Rng) -> String {
    let name = |rng: &mut Rng| {
        let dirs = ["", "a", "b", "a/c"];
        let file = ["x", "y", "z", "c", "longer-name-than-the-others"];
        top.join(rng.pick(&dirs)).join(rng.pick(&file))
    };
    let (one, two) = (name(rng), name(rng));
    let (off, len) = (rng.below(100_000), rng.below(20_000) as usize);
    let bytes: Vec<u8> = (0..len).map(|i| (i as u64 * off) as u8).collect();
    let done = |result: io::Result<()>| match result {
        Ok(()) => "done".to_string(),
        Err(error) => format!("{}", error.raw_os_error().unwrap_or(-1)),
    };
    match rng.below(14) {
        0 | 1 => done(fs::create_dir(&one)),
        2 | 3 => done(fs::write(&one, &bytes)),
        4 => done(OpenOptions::new().append(true).open(&one).and_then(|mut f| f.write_all(&bytes))),
        5 => done(
            OpenOptions::new().write(true).open(&one).and_then(|f| f.write_all_at(&bytes, off)),
        ),
        6 => done(OpenOptions::new().write(true).open(&one).and_then(|f| f.set_len(off))),
        7 | 8 => done(fs::rename(&one, &two)),
        9 => done(fs::hard_link(&one, &two)),
        10 => done(symlink("some/target", &one)),
        11 => done(fs::remove_file(&one)),
        12 => done(fs::remove_dir(&one)),
        _ => match fs::read(&one) {
            Ok(bytes) => format!("{} bytes, sum {}", bytes.len(), sum(&bytes)),
            Err(error) => format!("{}", error.raw_os_error().unwrap_or(-1)),
        },
    }
}

fn a_mount_behaves_as_the_host_s_file_system() -> Outcome {
    for (seed, (way, config)) in ways().into_iter().enumerate() {
        println!("    {way}, seed {seed}");
        let mounted = Mounted::new("random", config)?;
        let reference = mounted.base.0.join("reference");
        for top in [mounted.dir(), reference.clone()] {
            fs::create_dir_all(top.join("a/c"))?;
            fs::create_dir_all(top.join("b"))?;
        }
        for step in 0..600 {
            let step_seed = (seed as u64) << 32 | step;
            let got = random_step(&mounted.dir(), &mut Rng::new(step_seed));
            let want = random_step(&reference, &mut Rng::new(step_seed));
            check(got == want, &format!("seed {seed}, step {step}: {got} instead of {want}"))?;
        }
        let want = snapshot(&reference)?;
        same(&snapshot(&mounted.dir())?, &want, "in the mount")?;
        mounted.unmount()?;
        same(&snapshot(&mounted.source())?, &want, "in the source")?;
    }
    Ok(())
}

fn large_files_keep_every_byte() -> Outcome {
    for (seed, (way, config)) in ways().into_iter().enumerate() {
        println!("    {way}, seed {seed}");
        let mounted = Mounted::new("large", config)?;
        let mut rng = Rng::new(seed as u64);
        let mut want = vec![0u8; 6 << 20];
        let options = || OpenOptions::new().read(true).write(true).create(true).to_owned();
        let mut file = options().open(mounted.at("large"))?;
        file.set_len(want.len() as u64)?;
        for _ in 0..60 {
            let len = [100, 4096, 70_000, 1 << 20][rng.below(4) as usize].min(want.len());
            let at = rng.below((want.len() - len) as u64) as usize;
            let fill = rng.next_u64() as u8;
            want[at..at + len].iter_mut().enumerate().for_each(|(i, b)| *b = fill ^ i as u8);
            file.write_all_at(&want[at..at + len], at as u64)?;
            let at = rng.below((want.len() - len) as u64) as usize;
            let mut got = vec![0; len];
            file.read_exact_at(&mut got, at as u64)?;
            check(got == want[at..at + len], &format!("seed {seed}: read back at {at}+{len}"))?;
        }
        file.sync_all()?;
        file.seek(SeekFrom::Start(0))?;
        let mut got = Vec::new();
        file.read_to_end(&mut got)?;
        check(got == want, "read as a whole")?;
        drop(file);
        mounted.unmount()?;
        check(fs::read(mounted.source().join("large"))? == want, "stored")?;
    }
    Ok(())
}

fn many_processes_at_once_do_not_mix() -> Outcome {
    let mounted = Mounted::new("many", Config { slow: true, ..default() })?;
    let script = "set -e; d=$1/p$2; mkdir $d; cd $d
        for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
            echo $2-$i > f$i; mv f$i g$i; ln g$i h$i; cat g$i >> all; rm h$i
        done; n=$(ls | wc -l); echo $n > count";
    let start = |i: i32| {
        let dir = mounted.dir();
        Command::new("sh").args(["-c", script, "sh"]).arg(dir).arg(i.to_string()).spawn()
    };
    let children = (0..8).map(start).collect::<io::Result<Vec<_>>>()?;
    for mut child in children {
        check(child.wait()?.success(), "a client failed")?;
    }
    mounted.unmount()?;
    for i in 0..8 {
        let dir = mounted.source().join(format!("p{i}"));
        let want: String = (1..=15).map(|n| format!("{i}-{n}\n")).collect();
        check(fs::read_to_string(dir.join("all"))? == want, "what a client wrote")?;
        check(fs::read_to_string(dir.join("count"))?.trim() == "16", "what a client listed")?;
    }
    Ok(())
}

fn a_directory_of_thousands_lists_each_name_once() -> Outcome {
    for fds in [None, Some(100)] {
        let mounted = Mounted::new("names", Config { fds, ..default() })?;
        let name = |i: u32| format!("name-{i}-{}", "x".repeat(i as usize % 100));
        for i in 0..3000 {
            File::create_new(mounted.at(&name(i)))?;
        }
        let list = || -> io::Result<Vec<String>> {
            let mut names = fs::read_dir(mounted.dir())?
                .map(|entry| entry.map(|e| e.file_name().to_string_lossy().into_owned()))
                .collect::<io::Result<Vec<_>>>()?;
            names.sort();
            Ok(names)
        };
        let mut want: Vec<_> = (0..3000).map(name).collect();
        want.sort();
        check(list()? == want, "listed at first")?;
        for i in (0..3000).step_by(2) {
            fs::remove_file(mounted.at(&name(i)))?;
        }
        want = (0..3000).skip(1).step_by(2).map(name).collect();
        want.sort();
        check(list()? == want, "listed after half were removed")?;
        mounted.unmount()?;
    }
    Ok(())
}

fn a_removed_file_lives_while_it_is_open() -> Outcome {
    for (way, config) in ways() {
        println!("    {way}");
        let mounted = Mounted::new("removed", config)?;
        let open = |name: &str| {
            OpenOptions::new().read(true).write(true).create_new(true).open(mounted.at(name))
        };
        let (file, replaced) = (open("file")?, open("replaced")?);
        file.write_all_at(b"before", 0)?;
        replaced.write_all_at(b"old", 0)?;
        // Enough others that a mirror with few descriptors would replace the descriptors of these
        // by handles.
        for i in 0..100 {
            fs::write(mounted.at(&format!("other{i}")), b"other")?;
        }
        fs::remove_file(mounted.at("file"))?;
        fs::rename(mounted.at("other0"), mounted.at("replaced"))?;
        for i in 100..200 {
            fs::write(mounted.at(&format!("other{i}")), b"other")?;
        }
        file.write_all_at(b"after", 6)?;
        let mut text = [0; 11];
        file.read_exact_at(&mut text, 0)?;
        check(&text == b"beforeafter" && file.metadata()?.nlink() == 0, "the removed file")?;
        let mut text = [0; 3];
        replaced.read_exact_at(&mut text, 0)?;
        check(&text == b"old", "the replaced file")?;
        check(fs::read(mounted.at("replaced"))? == b"other", "what replaced it")?;
        drop((file, replaced));
        mounted.unmount()?;
    }
    Ok(())
}

fn every_kind_of_inode_and_attribute_passes_through() -> Outcome {
    let mounted = Mounted::new("kinds", default())?;
    let file = mounted.at("file");
    fs::write(&file, vec![1; 100_000])?;
    rustix::fs::setxattr(&file, "user.a", b"value", XattrFlags::CREATE)?;
    let mut value = [0; 20];
    check(rustix::fs::getxattr(&file, "user.a", &mut value)? == 5, "an attribute's value")?;
    let again = rustix::fs::setxattr(&file, "user.a", b"v", XattrFlags::CREATE);
    check(again == Err(rustix::io::Errno::EXIST), "an attribute made twice")?;
    let mut names = [0; 100];
    let len = rustix::fs::listxattr(&file, &mut names)?;
    check(&names[..len] == b"user.a\0", "attribute names")?;
    rustix::fs::removexattr(&file, "user.a")?;
    let gone = rustix::fs::getxattr(&file, "user.a", &mut value);
    check(gone == Err(rustix::io::Errno::NODATA), "a removed attribute")?;

    let dir = File::open(mounted.dir())?;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(&dir, "fifo", fifo, 0o640.into(), 0)?;
    let device = rustix::fs::FileType::CharacterDevice;
    rustix::fs::mknodat(&dir, "null", device, 0o666.into(), rustix::fs::makedev(1, 3))?;
    symlink("file", mounted.at("link"))?;
    fs::hard_link(mounted.at("link"), mounted.at("link2"))?;
    check(fs::read_link(mounted.at("link2"))? == Path::new("file"), "a link to a link")?;
    check(fs::metadata(mounted.at("null"))?.rdev() == rustix::fs::makedev(1, 3), "a device")?;
    rustix::fs::renameat_with(&dir, "fifo", &dir, "null", RenameFlags::EXCHANGE)?;
    check(fs::metadata(mounted.at("fifo"))?.rdev() != 0, "exchanged names")?;
    let clash = rustix::fs::renameat_with(&dir, "fifo", &dir, "null", RenameFlags::NOREPLACE);
    check(clash == Err(rustix::io::Errno::EXIST), "a rename onto a name that exists")?;

    let times = rustix::fs::statx(&dir, "file", AtFlags::empty(), StatxFlags::BTIME)?;
    check(times.stx_btime.tv_sec > 0, "a birth time")?;
    drop(dir);
    same(&snapshot(&mounted.dir())?, &snapshot(&mounted.source())?, "kinds")?;
    mounted.unmount()
}

fn holes_are_found_and_made() -> Outcome {
    let mounted = Mounted::new("holes", default())?;
    let file = File::create_new(mounted.at("sparse"))?;
    file.write_all_at(&[1; 4096], 1 << 20)?;
    check(rustix::fs::seek(&file, RxSeek::Data(0))? == 1 << 20, "where data begins")?;
    check(rustix::fs::seek(&file, RxSeek::Hole(1 << 20))? == (1 << 20) + 4096, "where it ends")?;
    let none = rustix::fs::seek(&file, RxSeek::Data(2 << 20));
    check(none == Err(rustix::io::Errno::NXIO), "no data after the end")?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 2 << 20)?;
    check(file.metadata()?.len() == 2 << 20, "allocated")?;
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 1 << 20, 4096)?;
    let mut bytes = [9; 4096];
    File::open(mounted.at("sparse"))?.read_exact_at(&mut bytes, 1 << 20)?;
    check(bytes == [0; 4096], "punched out")?;
    let collapse = rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    check(collapse == Err(rustix::io::Errno::OPNOTSUPP), "an unknown mode")?;
    drop(file);
    mounted.unmount()
}

/// Runs a shell command as another user.
fn as_user(user: u32, dir: &Path, script: &str) -> io::Result<bool> {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]);
    let status = command.args(["sh", "-c", script]).current_dir(dir).status()?;
    Ok(status.success())
}

fn other_users_own_what_they_make_and_no_more() -> Outcome {
    for (way, config) in ways() {
        println!("    {way}");
        let mounted = Mounted::new("users", config)?;
        fs::set_permissions(mounted.dir(), PermissionsExt::from_mode(0o1777))?;
        fs::write(mounted.at("secret"), b"root's")?;
        fs::set_permissions(mounted.at("secret"), PermissionsExt::from_mode(0o600))?;
        let script = "umask 027; echo hi > mine; mkdir dir; ln -s mine link; chmod 4755 mine
            ! cat secret 2>/dev/null && ! rm -f secret 2>/dev/null && ! chmod 777 secret 2>/dev/null
            ";
        check(as_user(1234, &mounted.dir(), script)?, "what a user may and may not")?;
        for name in ["mine", "dir", "link"] {
            let meta = fs::symlink_metadata(mounted.source().join(name))?;
            check((meta.uid(), meta.gid()) == (1234, 1234), &format!("the owner of {name}"))?;
        }
        check(fs::metadata(mounted.at("dir"))?.mode() & 0o7777 == 0o750, "the umask")?;
        let mode = || -> io::Result<u32> { Ok(fs::metadata(mounted.at("mine"))?.mode() & 0o7777) };
        check(mode()? == 0o4755, "a set-id bit")?;
        OpenOptions::new().append(true).open(mounted.at("mine"))?.write_all(b"root")?;
        check(mode()? == 0o4755, "a set-id bit after the superuser's write")?;
        check(as_user(1234, &mounted.dir(), "echo more >> mine")?, "a user's write")?;
        check(mode()? == 0o755, "a set-id bit after a user's write")?;
        mounted.unmount()?;
    }
    Ok(())
}

fn unmounting_waits_for_the_daemon() -> Outcome {
    let mounted = Mounted::new("umount", default())?;
    let busy = File::create_new(mounted.at("file"))?;
    let refused = unmount(&mounted.dir()).err().map(|e| e.to_string()).unwrap_or_default();
    check(refused.contains("busy"), &format!("unmounting while in use: {refused}"))?;
    drop(busy);
    mounted.unmount()?;
    check(!mounted.is_mounted(), "still mounted")?;
    let none = unmount(&mounted.dir()).err().map(|e| e.to_string()).unwrap_or_default();
    check(none.contains("no twinfs"), &format!("unmounting what is not mounted: {none}"))
}

fn a_signal_unmounts_and_ends_the_daemon() -> Outcome {
    for signal in [Signal::TERM, Signal::INT] {
        let mounted = Mounted::new("signal", default())?;
        fs::write(mounted.at("file"), b"data")?;
        mounted.kill(signal)?;
        check(mounted.wait_for_daemon()? == 0, "the daemon's status")?;
        check(!mounted.is_mounted(), "still mounted")?;
        check(fs::read(mounted.source().join("file"))? == b"data", "what was written")?;
    }
    Ok(())
}

fn a_signal_while_in_use_lets_users_finish() -> Outcome {
    let mounted = Mounted::new("finish", default())?;
    let file = File::create_new(mounted.at("file"))?;
    mounted.kill(Signal::TERM)?;
    while mounted.is_mounted() {
        pause();
    }
    file.write_all_at(b"late", 0)?;
    check(mounted.daemon_status()?.is_none(), "it ended under its user")?;
    drop(file);
    check(mounted.wait_for_daemon()? == 0, "the daemon's status")?;
    check(fs::read(mounted.source().join("file"))? == b"late", "what was written late")
}

fn a_second_signal_ends_it_at_once() -> Outcome {
    let mounted = Mounted::new("second", Config { grace_ns: 1000 * SECS, ..default() })?;
    let _file = File::create_new(mounted.at("file"))?;
    mounted.kill(Signal::TERM)?;
    while mounted.is_mounted() {
        pause();
    }
    mounted.kill(Signal::TERM)?;
    check(mounted.wait_for_daemon()? == 3, "the daemon's status")
}

fn a_dead_daemon_s_mount_is_replaced() -> Outcome {
    let mounted = Mounted::new("dead", default())?;
    mounted.kill(Signal::KILL)?;
    mounted.wait_for_daemon()?;
    check(fs::metadata(mounted.at("file")).is_err(), "a dead mount")?;
    let pid = start(&mounted.source(), &mounted.dir(), &default())?;
    fs::write(mounted.at("again"), b"alive")?;
    let twice = start(&mounted.source(), &mounted.dir(), &default()).err().unwrap_or_default();
    check(twice.contains("already"), &format!("mounting twice: {twice}"))?;
    unmount(&mounted.dir())?;
    rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty())?;
    check(fs::read(mounted.source().join("again"))? == b"alive", "what was written")?;
    // A dead mount that was not replaced can be removed.
    let pid = start(&mounted.source(), &mounted.dir(), &default())?;
    rustix::process::kill_process(Pid::from_raw(pid).ok_or("a pid")?, Signal::KILL)?;
    rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty())?;
    unmount(&mounted.dir())?;
    check(!mounted.is_mounted(), "still mounted")
}

fn what_cannot_be_mounted_is_told_to_the_parent() -> Outcome {
    let base = Temp::new("refused");
    let none = base.0.join("none");
    let told = start(&base.0, &none, &default()).err().unwrap_or_default();
    check(told.contains("none") && told.contains("existing directory"), &told)?;
    fs::write(&none, b"")?;
    let told = start(&base.0, &none, &default()).err().unwrap_or_default();
    check(told.contains("ot a directory"), &told)?;
    while rustix::process::waitpid(None, WaitOptions::NOHANG).is_ok_and(|ended| ended.is_some()) {}
    Ok(())
}

fn an_ordinary_user_mounts_through_the_helper() -> Outcome {
    let has = |program: &str| {
        Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
    };
    if !has("fusermount3") || !has("setpriv") {
        println!("    skipped: no fusermount3 or setpriv here");
        return Ok(());
    }
    if fs::metadata("/dev/fuse")?.mode() & 0o006 != 0o006 {
        println!("    skipped: /dev/fuse is for root alone here");
        return Ok(());
    }
    // A user with a name, which the helper requires.
    let user = 65_534;
    let mounted = Mounted::new("user", Config { user: Some(user), ..default() })?;
    let place = mounted.dir().display().to_string();
    let script = "echo hi > file && mkdir dir && mv file dir && cat dir/file > copy";
    let script = format!("cd {place} && {script}");
    check(as_user(user, Path::new("/"), &script)?, "the user's commands")?;
    check(fs::read(mounted.source().join("copy"))? == b"hi\n", "what was written")?;
    check(fs::read_dir(mounted.dir()).is_err(), "others are let in")?;
    check(as_user(user, Path::new("/"), &format!("fusermount3 -u {place}"))?, "unmounting")?;
    check(mounted.wait_for_daemon()? == 0, "the daemon's status")
}

fn direct_and_synchronous_writes_arrive() -> Outcome {
    let mounted = Mounted::new("direct", default())?;
    for (name, flags) in [("sync", libc::O_SYNC), ("direct", libc::O_DIRECT)] {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).custom_flags(flags).open(mounted.at(name))?;
        let bytes = twin_disk::Buf::copy_of(&[5; 256 << 10]);
        file.write_all_at(&bytes, 0)?;
        let stored = fs::read(mounted.source().join(name))?;
        check(stored == *bytes, &format!("{name}: {} bytes are stored", stored.len()))?;
    }
    mounted.unmount()
}

fn a_daemon_that_waits_in_its_own_mount_can_be_killed() -> Outcome {
    let config = Config { slow: true, trapped: true, ..default() };
    let mounted = Mounted::new("trapped", config)?;
    (0..20).for_each(|_| pause());
    mounted.kill(Signal::KILL)?;
    let ended = (0..500).any(|_| {
        pause();
        mounted.daemon_status().is_ok_and(|status| status.is_some())
    });
    check(ended, "the daemon could not die")?;
    check(fs::metadata(mounted.at("file")).is_err(), "a dead mount")
}

fn a_mount_is_idle_when_it_is_ready() -> Outcome {
    for (name, config) in ways().into_iter().cycle().take(24) {
        let mounted = Mounted::new("idle", config)?;
        let unmounted = rustix::mount::unmount(mounted.dir(), UnmountFlags::NOFOLLOW);
        check(unmounted.is_ok(), &format!("{name}: {unmounted:?}"))?;
        check(mounted.wait_for_daemon()? == 0, "the daemon's status")?;
    }
    Ok(())
}

fn pages_that_only_the_kernel_holds_are_data() -> Outcome {
    for (name, config) in ways() {
        let mounted = Mounted::new("pages", config)?;
        let script = "import mmap, os, sys
f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); os.ftruncate(f, 1 << 20); os.unlink(sys.argv[1])
m = mmap.mmap(f, 1 << 20); m[700000] = 1
assert os.lseek(f, 0, os.SEEK_DATA) <= 700000 and os.fstat(f).st_blocks > 0";
        let ran = Command::new("python3").args(["-c", script]).arg(mounted.at("f")).status()?;
        check(ran.success(), name)?;
        mounted.unmount()?;
    }
    Ok(())
}

type Test = (&'static str, fn() -> Outcome);

macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name)),*] };
}

const TESTS: &[Test] = tests![
    a_mount_behaves_as_the_host_s_file_system,
    large_files_keep_every_byte,
    many_processes_at_once_do_not_mix,
    a_directory_of_thousands_lists_each_name_once,
    a_removed_file_lives_while_it_is_open,
    every_kind_of_inode_and_attribute_passes_through,
    holes_are_found_and_made,
    other_users_own_what_they_make_and_no_more,
    unmounting_waits_for_the_daemon,
    a_signal_unmounts_and_ends_the_daemon,
    a_signal_while_in_use_lets_users_finish,
    a_second_signal_ends_it_at_once,
    a_dead_daemon_s_mount_is_replaced,
    what_cannot_be_mounted_is_told_to_the_parent,
    an_ordinary_user_mounts_through_the_helper,
    direct_and_synchronous_writes_arrive,
    a_daemon_that_waits_in_its_own_mount_can_be_killed,
    a_mount_is_idle_when_it_is_ready,
    pages_that_only_the_kernel_holds_are_data,
];

fn main() -> ExitCode {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let chosen = |name: &str| filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    let root = rustix::process::geteuid().is_root();
    if !root || File::open("/dev/fuse").is_err() {
        println!("skipped: mounting here needs root and /dev/fuse");
        println!("\ntest result: ok. 0 passed; 0 failed; {} ignored", TESTS.len());
        return ExitCode::SUCCESS;
    }
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in TESTS.iter().filter(|(name, _)| chosen(name)) {
        let outcome = std::panic::catch_unwind(test).unwrap_or_else(|_| Err("it panicked".into()));
        match outcome {
            Ok(()) => {
                passed += 1;
                println!("test {name} ... ok");
            }
            Err(why) => {
                failed += 1;
                println!("test {name} ... FAILED: {why}");
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
