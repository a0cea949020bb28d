//! Ten real programs under strace, in eleven of its settings: what the converted trace reads, writes, makes,
//! removes and syncs is what a counter of its own (`count.py`) sums from strace's text, and the replay
//! differs in no operation. Nothing is mounted: the programs run on the host's file system.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::super::bench::Bench;
use super::super::{Outcome, Scenario, Stop, text, tools};
use crate::clock::Stopwatch;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "strace",
    about: "ten programs under strace: the converted trace has the sums of strace's own text (each \
            program in four settings in the short form, in all eleven in the full one)",
    limit_s: (600, 1800),
    run,
};

/// The counter, whose arithmetic is not that of the reader.
const COUNTER: &str = include_str!("count.py");
/// A server, to which strace is attached.
const SERVER: &str = include_str!("server.py");

/// Settings of strace, and whether it writes to the program's standard error.
const SETTINGS: &[(&str, bool)] = &[
    ("-f -tt -T", false),
    ("-f -ttt -T -y", false),
    ("-f -t", false),
    ("-f -r", false),
    ("-f -yy -ttt -T", false),
    ("-f -s 0 -tt -T", false),
    ("-f -xx -ttt -T -y", false),
    ("-f -C -ttt -y", false),
    ("-ff -ttt -T -y", false),
    ("-f", false),
    ("-f -tt -T -y", true),
];

/// The settings in which a program runs in the short form.
const SHORT: usize = 4;

/// Programs and the Debian packages that have them.
type Needed = &'static [(&'static str, &'static str)];

/// The programs: a name, the command, and what is needed for it beside strace and python3.
const PROGRAMS: &[(&str, &str, Needed)] = &[
    ("shell", SHELL, &[]),
    ("git", GIT, &[("git", "git")]),
    ("sqlite", SQLITE, &[("sqlite3", "sqlite3")]),
    ("tar", TAR, &[]),
    ("cp", CP, &[]),
    ("python", "exec python3 -S -E ../files.py", &[]),
    ("server", "exec python3 -S -E ../server.py", &[]),
    (
        "make",
        "make -s -C mk -j2; make -s -C mk; touch mk/a.c; make -s -C mk",
        &[("make", "make"), ("cc", "gcc")],
    ),
    ("rsync", RSYNC, &[("rsync", "rsync")]),
    ("editors", EDITORS, &[("vim", "vim"), ("ed", "ed"), ("perl", "perl")]),
];

const SHELL: &str = r#"
echo hello > a; cat a a > b; mkdir d; cp b d/c; echo more >> b; mv d/c e; ln -s e l; cat l > m; ln e n
for i in 1 2 3; do echo $i >> log; done; ( cd d && echo sub > x && rm x ); sort in.txt > out.txt
grep -c line in.txt | tee cnt > /dev/null
while read w; do echo "$w"; done < tree/lines > copy; rm -r d; exec 5>> log; echo five >&5; exec 5>&-; : > a; sync
cat <<X > here
doc
X"#;

const GIT: &str = "git init -q r && cd r && git config user.email a@b.c && git config user.name a && \
    cp ../in.txt f && mkdir s && cp ../in.txt s/g && git add . && git commit -qm one && echo x >> f && \
    git commit -qam two && git checkout -qb side && git mv f h && git commit -qm three && git gc -q && \
    git checkout -q - && git log --stat > ../log && git status > ../st";

const SQLITE: &str = r#"
sqlite3 t.db "create table t(a,b); insert into t select 1,randomblob(1000); insert into t select a+1,randomblob(1000) from t; create index i on t(a);"
sqlite3 t.db "pragma journal_mode=wal; insert into t select a,b from t; update t set a=a+1; select count(*) from t;"
sqlite3 t.db "pragma wal_checkpoint; delete from t where a>3; vacuum; pragma integrity_check;""#;

const TAR: &str = "tar cf a.tar tree; tar tf a.tar > list; mkdir x; tar xf a.tar -C x; tar czf a.tgz tree; \
    mkdir y; tar xzf a.tgz -C y; tar rf a.tar in.txt; tar uf a.tar in.txt";

const CP: &str = "cp in.txt big; cp -a tree copy; cp -r tree copy2; cp --sparse=always hole hole2; \
    cp --reflink=auto big big2; cp -f in.txt big; cp -l big big3; cp -u in.txt big; \
    install -m 600 in.txt inst; cp -t copy2 in.txt big2; mv copy2 moved; \
    dd if=big of=big4 bs=1000 conv=fsync status=none; \
    dd if=in.txt of=big4 bs=100 count=3 seek=2 conv=notrunc oflag=append status=none; \
    truncate -s 5000 big4; touch new; split -b 5000 in.txt part.; cat part.* > joined";

const RSYNC: &str = "rsync -a tree/ dst/; echo more >> tree/f3; rm tree/f4; rsync -a --delete tree/ dst/; \
    rsync -a --inplace in.txt dst/in; rsync -a --append in.txt dst/in; rsync -rc tree/ dst2/";

const EDITORS: &str = r#"
vim -u NONE -N -es -c 'set backup' -c '%s/line/row/' -c 'wq' in.txt
vim -u NONE -N -es -c 'set nobackup writebackup backupcopy=no fsync' -c 'normal Gonew' -c 'wq' in.txt
printf '%s\n' 'a' 'text' '.' 'w' 'q' | ed -s ed.txt
sed -i s/row/col/ in.txt; perl -pi -e 's/col/bar/' in.txt
cp in.txt .t.new && sync .t.new && mv .t.new in.txt"#;

fn run(bench: &Bench) -> Outcome {
    tools::need(bench, &[("strace", "strace"), ("python3", "python3")])?;
    for (name, content) in
        [("count.py", COUNTER), ("server.py", SERVER), ("files.py", include_str!("files.py"))]
    {
        fs::write(bench.dir.join(name), content).map_err(text)?;
    }
    let (mut runs, mut missing) = (0, Vec::new());
    let count = bench.size(SHORT, SETTINGS.len());
    for (at, (name, command, needs)) in PROGRAMS.iter().enumerate() {
        match tools::need(bench, needs) {
            Ok(()) => {}
            Err(Stop::Skipped(why)) => {
                missing.push(format!("{name} ({why})"));
                continue;
            }
            Err(failed) => return Err(failed),
        }
        for round in 0..count {
            let setting = (at * SHORT + round) % SETTINGS.len();
            let case = Case::new(bench, name, command, SETTINGS[setting])?;
            case.run(bench)
                .map_err(|why| format!("{name}, strace {}: {why}", SETTINGS[setting].0))?;
            runs += 1;
        }
    }
    match missing.as_slice() {
        [] => Ok(format!("{runs} runs of {} programs", PROGRAMS.len())),
        _ => Ok(format!("{runs} runs; not run: {}", missing.join(", "))),
    }
}

/// A program in a setting.
struct Case {
    is_server: bool,
    command: String,
    settings: &'static str,
    to_stderr: bool,
    /// The program's folder, what strace says, and the names that there are before.
    dir: PathBuf,
    log: PathBuf,
    existing: PathBuf,
}

impl Case {
    fn new(
        bench: &Bench,
        name: &str,
        command: &str,
        (settings, to_stderr): (&'static str, bool),
    ) -> Result<Case, String> {
        let dir = bench.dir.join("w");
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(text)?;
        }
        files(&dir).map_err(text)?;
        let is_server = name == "server";
        Ok(Case {
            is_server,
            command: command.to_owned(),
            settings,
            // Attached, it has no program whose output could stand between.
            to_stderr: to_stderr && !is_server,
            log: bench.dir.join("calls.txt"),
            existing: bench.dir.join("existing"),
            dir,
        })
    }

    fn run(&self, bench: &Bench) -> Result<(), String> {
        let folder = self.log.parent().unwrap_or(Path::new("/"));
        for old in fs::read_dir(folder).map_err(text)?.flatten() {
            if old.file_name().to_string_lossy().starts_with("calls.txt") {
                fs::remove_file(old.path()).map_err(text)?;
            }
        }
        match self.is_server {
            true => self.record_server(bench)?,
            false => self.record(bench)?,
        }
        if self.settings.starts_with("-ff") {
            let log = self.log.display();
            bench.shell(&self.dir, &format!("strace-log-merge {log} > {log}"))?;
        }
        let mut counter = Command::new("python3");
        counter.arg(bench.dir.join("count.py")).arg(&self.log).arg(&self.dir).arg(&self.existing);
        let counted = bench.run(&mut counter)?;
        let counted: Vec<u64> = counted.split_whitespace().flat_map(str::parse).collect();
        let found = self.converted(bench)?;
        if counted != found || found.iter().sum::<u64>() == 0 {
            return Err(format!(
                "bytes read and written, made, removed, links, syncs: strace says {counted:?}, the trace \
                 {found:?}"
            ));
        }
        self.compared(bench, found[0])
    }

    fn strace(&self) -> Command {
        let mut strace = Command::new("strace");
        strace.args(self.settings.split(' ')).current_dir(&self.dir).env_clear();
        strace.env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").env("LANG", "C");
        strace.env("GIT_CONFIG_NOSYSTEM", "1");
        strace
    }

    fn record(&self, bench: &Bench) -> Result<(), String> {
        self.list_existing()?;
        let mut strace = self.strace();
        if self.to_stderr {
            let shell = format!("exec strace {} sh -c \"$1\" 2> \"$2\"", self.settings);
            let mut command = Command::new("sh");
            command.args(["-c", &shell, "sh", &self.command]).arg(&self.log);
            command.current_dir(&self.dir).env_clear().envs(strace.get_envs().flat_map(pair));
            // The exit status is that of the program, which does not matter.
            let _ = bench.run(&mut command);
            return Ok(());
        }
        strace.arg("-o").arg(&self.log).args(["sh", "-c", &self.command]);
        let _ = bench.run(&mut strace);
        Ok(())
    }

    /// Attaches strace to a server that has files open, and lets it work.
    fn record_server(&self, bench: &Bench) -> Result<(), String> {
        thread::scope(|scope| {
            let server = scope
                .spawn(|| bench.shell(&self.dir, &format!("{} & echo $!; wait", self.command)));
            let answer = self.attach(bench, scope);
            // It ends however the attempt went.
            let told = UnixStream::connect(self.dir.join("sock"))
                .and_then(|mut sock| sock.write_all(b"quit"));
            let ended = server.join().map_err(|_| "the server's thread panicked".to_owned())?;
            let tracer = answer?;
            tracer.join().map_err(|_| "strace's thread panicked".to_owned())??;
            told.map_err(text)?;
            ended.map(|_| ())
        })
    }

    fn attach<'scope>(
        &'scope self,
        bench: &'scope Bench,
        scope: &'scope thread::Scope<'scope, '_>,
    ) -> Result<thread::ScopedJoinHandle<'scope, Result<String, String>>, String> {
        let ready = self.dir.join("ready");
        wait_until("the server is ready", || {
            fs::read_to_string(&ready).is_ok_and(|pid| !pid.is_empty())
        })?;
        let pid = fs::read_to_string(&ready).map_err(text)?;
        self.ask(0..2)?;
        self.list_existing()?;
        let strace = scope.spawn(move || {
            let mut strace = self.strace();
            strace.arg("-o").arg(&self.log).arg("-p").arg(pid.trim());
            bench.run(&mut strace)
        });
        let status = format!("/proc/{}/status", fs::read_to_string(&ready).map_err(text)?.trim());
        wait_until("strace is attached", || {
            fs::read_to_string(&status).is_ok_and(|text| !text.contains("TracerPid:\t0\n"))
        })?;
        self.ask(0..5)?;
        Ok(strace)
    }

    fn ask(&self, numbers: std::ops::Range<u32>) -> Result<(), String> {
        for number in numbers {
            let mut sock = UnixStream::connect(self.dir.join("sock")).map_err(text)?;
            sock.write_all(number.to_string().as_bytes()).map_err(text)?;
            let mut answer = [0; 2];
            sock.read_exact(&mut answer).map_err(text)?;
        }
        Ok(())
    }

    /// Lists what there is, for the counter.
    fn list_existing(&self) -> Result<(), String> {
        let mut list = String::new();
        let mut waiting = vec![self.dir.clone()];
        while let Some(at) = waiting.pop() {
            list += &format!("{}\n", at.display());
            if at.is_dir() && !at.is_symlink() {
                let inside = fs::read_dir(&at).map_err(text)?;
                waiting.extend(inside.flatten().map(|entry| entry.path()));
            }
        }
        fs::write(&self.existing, list).map_err(text)
    }

    /// The sums of the converted trace, in the order of the counter.
    fn converted(&self, bench: &Bench) -> Result<[u64; 6], String> {
        let mut convert = Command::new(&bench.program);
        let rows = bench.run(convert.arg("convert").arg(&self.log).args(["--format", "csv"]))?;
        let rows: BTreeMap<&str, u64> = rows
            .lines()
            .filter_map(|line| {
                let mut cells = line.split(',').skip(1);
                Some((cells.next()?, cells.next()?.parse().ok()?))
            })
            .collect();
        let sum = |names: &[&str]| names.iter().filter_map(|name| rows.get(name)).sum();
        Ok([
            sum(&["bytes read"]),
            sum(&["bytes written"]),
            sum(&["create", "mkdir", "mknod"]),
            sum(&["unlink", "rmdir"]),
            sum(&["symlink"]),
            sum(&["fsync", "sync"]),
        ])
    }

    /// Replays the trace: nothing fails or differs, and all bytes are read.
    fn compared(&self, bench: &Bench, read: u64) -> Result<(), String> {
        let mut compare = Command::new(&bench.program);
        compare.arg("compare").arg("-t").arg(&self.log).arg(bench.layout());
        let rows = bench.run(compare.args(["--format", "csv"]))?;
        for (name, expected) in [("failed", 0), ("diverged", 0), ("read_bytes", read)] {
            let found = super::old::cell(&rows, name)?;
            if found != expected.to_string() {
                return Err(format!("the replay has {name} {found}, not {expected}"));
            }
        }
        Ok(())
    }
}

fn pair<'a>(
    (name, value): (&'a std::ffi::OsStr, Option<&'a std::ffi::OsStr>),
) -> Option<(&'a std::ffi::OsStr, &'a std::ffi::OsStr)> {
    Some((name, value?))
}

#[allow(clippy::disallowed_methods)] // A development tool waits in real time.
fn wait_until(what: &str, is_so: impl Fn() -> bool) -> Result<(), String> {
    let watch = Stopwatch::start();
    while !is_so() {
        if watch.seconds() > 30.0 {
            return Err(format!("{what}: not within 30 s"));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The files with which each program begins.
fn files(dir: &Path) -> std::io::Result<()> {
    fs::create_dir_all(dir.join("tree/sub/deep"))?;
    fs::create_dir(dir.join("mk"))?;
    let lines: String =
        (0..1000).map(|n| format!("line {} of the text\n", n * 7919 % 1000)).collect();
    fs::write(dir.join("in.txt"), &lines)?;
    fs::write(dir.join("tree/lines"), &lines[..1000])?;
    for n in 0..6 {
        fs::write(dir.join(format!("tree/f{n}")), "f".repeat(n * 3000))?;
    }
    fs::write(dir.join("tree/sub/g"), "g".repeat(70_000))?;
    fs::write(dir.join("tree/sub/deep/h"), "h")?;
    std::os::unix::fs::symlink("f1", dir.join("tree/link"))?;
    fs::hard_link(dir.join("tree/f2"), dir.join("tree/hard"))?;
    let hole = fs::File::create(dir.join("hole"))?;
    std::os::unix::fs::FileExt::write_all_at(&hole, &[b'a'; 4096], 0)?;
    std::os::unix::fs::FileExt::write_all_at(&hole, &[b'b'; 4096], 200_000)?;
    for (name, content) in [
        ("ed.txt", "one\n"),
        ("db", &"d".repeat(40_960)),
        ("conf", &"c".repeat(1000)),
        ("mk/Makefile", "prog: a.o b.o\n\tcc -o prog a.o b.o\n%.o: %.c h.h\n\tcc -c $< -o $@\n"),
        ("mk/h.h", "int f(void);\n"),
        ("mk/a.c", "#include \"h.h\"\nint main(void){return f();}\n"),
        ("mk/b.c", "#include \"h.h\"\nint f(void){return 0;}\n"),
    ] {
        fs::write(dir.join(name), content)?;
    }
    Ok(())
}
