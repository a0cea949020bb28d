//! The real workloads of `twinfs validate`: programs that people run, and loads of our own where the program
//! would be a server.
//!
//! Contract: a workload runs in an empty directory as a child process, needs the material that
//! [`prepare`] has put beside it, does the same work each time, and ends with its data written, not
//! necessarily durable. One whose programs are not installed is left out with a reason.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use twin_rt::Rng;

use crate::runner::Runner;

/// A real workload.
pub struct Load {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Programs that it needs.
    needs: &'static [&'static str],
    how: How,
    /// Whether the models were looked at with this workload in view while they were built.
    pub seen: bool,
}

enum How {
    /// A shell script; `$MATERIAL` is the directory of [`prepare`].
    Shell(&'static str),
    /// A function, run in a child process of this program.
    Own(fn() -> io::Result<()>),
}

/// The workload that starts from a repository.
const CLONE: &str = "clone";

/// All workloads.
pub(super) const LOADS: &[Load] = &[
    Load {
        name: "untar",
        about: "unpack a tree of 1,200 files",
        needs: &["tar"],
        how: How::Shell("tar -xf $MATERIAL/tree.tar"),
        seen: true,
    },
    Load {
        name: "git",
        about: "git: add and commit the tree, then ten small commits",
        needs: &["git", "tar"],
        how: How::Shell(
            "git init -q . && git config user.email a@example.org && git config user.name a && \
             git config gc.auto 0 && git config core.fsync all && tar -xf $MATERIAL/tree.tar && \
             git add -A && git commit -q -m all && for i in 1 2 3 4 5 6 7 8 9 10; do \
             echo $i >> dir-1/file-1; git commit -q -a -m $i; done",
        ),
        seen: true,
    },
    Load {
        name: "build",
        about: "make: compile and link 24 C files",
        needs: &["make", "cc"],
        how: How::Shell("cp -r $MATERIAL/project . && make -s -C project"),
        seen: true,
    },
    Load {
        name: "sqlite",
        about: "SQLite, rollback journal: 250 transactions",
        needs: &["sqlite3"],
        how: How::Shell("sqlite3 db < $MATERIAL/delete.sql > out"),
        seen: true,
    },
    Load {
        name: "sqlite-wal",
        about: "SQLite, write-ahead log, full synchronisation: 250 transactions",
        needs: &["sqlite3"],
        how: How::Shell("sqlite3 db < $MATERIAL/wal.sql > out"),
        seen: true,
    },
    Load {
        name: "mail",
        about: "deliver 300 messages durably, read and remove a third",
        needs: &[],
        how: How::Own(mail),
        seen: true,
    },
    Load {
        name: "database",
        about: "500 random writes of 8 KiB into a file of 32 MiB, each durable",
        needs: &[],
        how: How::Own(database),
        seen: true,
    },
    Load {
        name: "overwrite",
        about: "8,000 random writes of 4 KiB into a file of 64 MiB",
        needs: &[],
        how: How::Own(overwrite),
        seen: true,
    },
    Load {
        name: "clients",
        about: "four clients: 100 files of 8 KiB each, every fifth durable",
        needs: &[],
        how: How::Own(clients),
        seen: true,
    },
    Load {
        name: "copy",
        about: "copy a tree, search it, remove the copy",
        needs: &["tar", "cp", "grep", "rm"],
        how: How::Shell(
            "tar -xf $MATERIAL/tree.tar && cp -r dir-1 copy-1 && cp -r dir-2 copy-2 && \
             (grep -r nothing . || true) && rm -r copy-1 copy-2 dir-3",
        ),
        seen: false,
    },
    Load {
        name: "log",
        about: "append 600 lines to a log, each durable, with a rotation every 200",
        needs: &[],
        how: How::Own(log),
        seen: false,
    },
    Load {
        name: CLONE,
        about: "git: clone a repository of the tree, and check it",
        needs: &["git", "tar"],
        how: How::Shell(
            "git clone -q --no-local -c core.fsync=all $MATERIAL/repository clone && \
             git -C clone fsck --no-progress",
        ),
        seen: false,
    },
    Load {
        name: "small",
        about: "create 3,000 files of 2 KB, a third of them read again, then all durable",
        needs: &[],
        how: How::Own(small),
        seen: false,
    },
];

impl Load {
    /// Why it cannot run here.
    pub(super) fn missing(&self) -> Option<String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let has =
            |program: &&str| std::env::split_paths(&path).any(|dir| dir.join(program).exists());
        let missing = self.needs.iter().find(|program| !has(program))?;
        Some(format!("{missing} is not installed"))
    }

    /// Runs it in `dir`.
    ///
    /// # Errors
    /// If it fails, in its words.
    pub(super) fn run(
        &self,
        runner: &Runner<'_>,
        dir: &Path,
        material: &Path,
    ) -> Result<(), String> {
        let mut command = match self.how {
            How::Shell(script) => {
                let mut command = Command::new("sh");
                command.args(["-e", "-c", script]).env("MATERIAL", material);
                command.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", material);
                command
            }
            How::Own(_) => {
                let mut command = Command::new(&runner.program);
                command.args(["validate", "--load", self.name]);
                command
            }
        };
        // A terminal's interrupt is ours to answer: it ends all of the group.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
        let output = command.output().map_err(|e| format!("{}: {e}", self.name))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{}: {}: {}", self.name, output.status, said.trim()))
    }
}

/// Runs a load of our own in the current directory: the child's side of `Load::run`.
///
/// # Errors
/// If there is none of this name, or the host fails.
pub fn run_own(name: &str) -> Result<(), String> {
    let load = LOADS.iter().find(|load| load.name == name);
    match load.map(|load| &load.how) {
        Some(How::Own(work)) => work().map_err(|e| format!("{name}: {e}")),
        _ => Err(format!("{name} is no load of this program's own")),
    }
}

/// Puts into `dir` what workloads start from, the same each time.
///
/// # Errors
/// If the host fails.
pub(super) fn prepare(dir: &Path, loads: &[&'static Load]) -> io::Result<()> {
    let mut rng = Rng::stream(1, "material");
    let tree = dir.join("tree");
    for d in 1..=12 {
        let sub = tree.join(format!("dir-{d}"));
        fs::create_dir_all(&sub)?;
        for f in 1..=100 {
            // Sizes of source trees: a median of 2 KiB, a mean of 5.
            let len = (2048.0 * (1.3 * normal(&mut rng)).exp()).clamp(16.0, 200_000.0) as usize;
            let line = format!("line of file {f} in {d}, {}\n", rng.next_u64());
            fs::write(sub.join(format!("file-{f}")), text(&line, len))?;
        }
    }
    // Without tar, workloads that need it are left out.
    let mut tar = Command::new("tar");
    let _ = tar.arg("-C").arg(&tree).arg("-cf").arg(dir.join("tree.tar")).arg(".").status();
    if loads.iter().any(|load| load.name == CLONE) {
        repository(&dir.join("repository"), &tree);
    }
    project(&dir.join("project"))?;
    for (file, mode) in [("delete.sql", "delete"), ("wal.sql", "wal")] {
        let mut sql = format!(
            "pragma journal_mode={mode}; pragma synchronous=full;\n\
             create table t(a integer primary key, b text);\n"
        );
        for i in 0..250 {
            sql += &format!("insert into t(b) values('{}');\n", text(&format!("row {i} "), 300));
        }
        fs::write(dir.join(file), sql)?;
    }
    Ok(())
}

fn text(line: &str, len: usize) -> String {
    line.repeat(len / line.len() + 1)[..len].to_owned()
}

/// A number with the normal distribution (Box and Muller 1958).
fn normal(rng: &mut Rng) -> f64 {
    let (a, b) = (rng.unit().max(1e-12), rng.unit());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// A repository of the tree with one commit. Without git, workloads that need it are left out.
fn repository(dir: &Path, tree: &Path) {
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(dir).arg("--work-tree").arg(tree).args(["-c", "user.name=a"]);
        git.args(["-c", "user.email=a@example.org", "-c", "gc.auto=0"]).args(args);
        let _ = git.env("GIT_CONFIG_NOSYSTEM", "1").stdout(Stdio::null()).status();
    };
    let _ = Command::new("git").args(["init", "-q"]).arg(dir).status();
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "all"]);
}

/// A C project of 24 files.
fn project(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut all = String::from("OBJECTS =");
    let mut main = String::from("#include \"all.h\"\nint main(void) { int sum = 0;\n");
    let mut header = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    for i in 0..24 {
        all += &format!(" part{i}.o");
        header += &format!("int part{i}(int);\n");
        main += &format!("sum += part{i}(sum);\n");
        let mut part = String::from("#include \"all.h\"\n");
        for f in 0..20 {
            part += &format!(
                "static int f{f}(int a) {{ char s[64]; snprintf(s, 64, \"%d\", a * {f}); \
                 return (int)strlen(s) + a; }}\n"
            );
        }
        let calls: String = (0..20).map(|f| format!("a = f{f}(a); ")).collect();
        part += &format!("int part{i}(int a) {{ {calls}return a; }}\n");
        fs::write(dir.join(format!("part{i}.c")), part)?;
    }
    fs::write(dir.join("all.h"), header)?;
    fs::write(dir.join("main.c"), main + "printf(\"%d\\n\", sum); return 0; }\n")?;
    let rules = "program: main.o $(OBJECTS)\n\tcc -o $@ main.o $(OBJECTS)\n\
                 %.o: %.c all.h\n\tcc -O0 -c -o $@ $<\n";
    fs::write(dir.join("Makefile"), format!("{all}\n{rules}"))
}

fn mail() -> io::Result<()> {
    let mut rng = Rng::stream(2, "messages");
    for dir in ["tmp", "new"] {
        fs::create_dir(dir)?;
    }
    let inbox = File::open("new")?;
    for i in 0..300u32 {
        let (tmp, new) = (format!("tmp/{i}"), format!("new/{i}"));
        let mut file = File::create(&tmp)?;
        file.write_all(&vec![b'm'; 500 + rng.below(8000) as usize])?;
        file.sync_all()?;
        fs::rename(tmp, new)?;
        inbox.sync_all()?;
        if i % 3 == 2 {
            let old = format!("new/{}", i - 2);
            fs::read(&old)?;
            fs::remove_file(old)?;
        }
    }
    Ok(())
}

fn database() -> io::Result<()> {
    let mut rng = Rng::stream(3, "database");
    let mut file = File::create("table")?;
    for _ in 0..32 {
        file.write_all(&vec![b'd'; 1 << 20])?;
    }
    file.sync_all()?;
    for _ in 0..500 {
        file.write_all_at(&[b'x'; 8192], rng.below(4096) * 8192)?;
        file.sync_data()?;
    }
    Ok(())
}

fn overwrite() -> io::Result<()> {
    let mut rng = Rng::stream(4, "overwrite");
    let mut file = File::create("file")?;
    for _ in 0..64 {
        file.write_all(&vec![b'o'; 1 << 20])?;
    }
    file.sync_all()?;
    for _ in 0..8000 {
        file.write_all_at(&[b'x'; 4096], rng.below(16_384) * 4096)?;
    }
    file.sync_all()
}

/// Threads are clients of their own to the kernel.
fn clients() -> io::Result<()> {
    let client = |c: u32| {
        let dir = format!("client-{c}");
        fs::create_dir(&dir)?;
        for i in 0..100 {
            let mut file = File::create(format!("{dir}/{i}"))?;
            file.write_all(&[b'c'; 8192])?;
            if i % 5 == 4 {
                file.sync_all()?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|c| scope.spawn(move || client(c))).collect();
        let ended = all
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|_| Err(io::Error::other("a client"))));
        ended.collect::<io::Result<Vec<()>>>().map(|_| ())
    })
}

fn log() -> io::Result<()> {
    for part in 0..3 {
        let mut file = File::options().create(true).append(true).open("log")?;
        for i in 0..200 {
            file.write_all(text(&format!("{part} {i} something happened "), 180).as_bytes())?;
            file.sync_data()?;
        }
        drop(file);
        fs::rename("log", format!("log.{part}"))?;
    }
    Ok(())
}

fn small() -> io::Result<()> {
    for i in 0..3000u32 {
        fs::write(format!("file-{i}"), text(&format!("{i} of many "), 2000))?;
    }
    for i in (0..3000u32).step_by(3) {
        fs::read(format!("file-{i}"))?;
    }
    File::open(".")?.sync_all()
}
