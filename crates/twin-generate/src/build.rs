//! `build`: compiling and linking a C project, as seen by a file system below a kernel that caches
//! names and pages for a while.
//!
//! Each client builds its own directories, file by file, with headers that all clients share.
//! Sources are looked up, opened and read. Headers are searched along a path, and mostly found in
//! its last directory only. Objects are written piece by piece, and their first bytes are rewritten
//! at the end. Dependency files are written under another name and renamed. At the end of a
//! directory its objects are read and a library is written.

use twin_fs::{Ino, SetAttr, SetTime};
use twin_rt::{MILLIS, Rng};
use twin_settings::{Param, RegistryEntry, Unit, Values};
use twin_trace::{Node, Source};

use crate::script::{Burst, FIRST_INO, Script, Scripted, log_normal, mix, node, word};
use crate::{Kind, Zipf};

pub(crate) const ENTRY: RegistryEntry<Kind> = RegistryEntry::new(
    "build",
    "compiling a C project: many lookups and small reads, objects, renames",
    Kind {
        params: &[
            Param::new("files", "1000", Unit::number(1, 10_000_000), "source files"),
            Param::new("per-dir", "25", Unit::number(1, 10_000), "source files in a directory"),
            Param::new(
                "headers",
                "200",
                Unit::number(1, 1_000_000),
                "header files, in four directories",
            ),
            Param::new(
                "includes",
                "20",
                Unit::number(0, 1000),
                "headers that a source file includes",
            ),
            Param::new(
                "source-bytes",
                "9000",
                Unit::bytes(1, 1 << 30),
                "median size of a source file",
            ),
        ],
        stands_for: None,
        start,
    },
);

/// Directories of headers, in the order of the search path.
const HEADER_DIRS: u64 = 4;

struct Build {
    seed: u64,
    files: u64,
    per_dir: u64,
    headers: u64,
    includes: u64,
    source_bytes: f64,
    popularity: Zipf,
    clients: Vec<Client>,
}

#[derive(Default)]
struct Client {
    /// The directory in which the client works, counted over all directories.
    dir: u64,
    /// The next file in it.
    file: u64,
    /// Objects created in it, with their sizes.
    objects: Vec<(Ino, u64)>,
}

fn start(values: Values, seed: u64) -> Box<dyn Source> {
    let clients = (0..values.number("clients")).map(|dir| Client { dir, ..Default::default() });
    let headers = values.number("headers");
    let build = Build {
        seed,
        files: values.number("files"),
        per_dir: values.number("per-dir"),
        headers,
        includes: values.number("includes"),
        source_bytes: values.number("source-bytes") as f64,
        popularity: Zipf::new(headers, 0.8),
        clients: clients.collect(),
    };
    Scripted::start(ENTRY.name, build, &values, seed)
}

impl Build {
    fn dirs(&self) -> u64 {
        self.files.div_ceil(self.per_dir)
    }

    /// The size of the node with this index.
    fn size(&self, index: u64, median: f64) -> u64 {
        log_normal(&mut Rng::new(mix(self.seed, index)), median, 1.0, 4 << 20)
    }

    fn header_node(&self, header: u64) -> u64 {
        HEADER_DIRS + header
    }

    fn header_name(header: u64) -> String {
        format!("{}{header}.h", word(header + 1_000_000))
    }

    fn dir_node(&self, dir: u64) -> u64 {
        HEADER_DIRS + self.headers + dir
    }

    fn source_node(&self, file: u64) -> u64 {
        HEADER_DIRS + self.headers + self.dirs() + file
    }

    fn source_stem(file: u64) -> String {
        format!("{}{file}", word(file))
    }

    /// Looks up headers that the kernel has dropped from its caches.
    fn include(&self, out: &mut Burst) {
        let header = self.popularity.draw(&mut out.rng);
        let (name, ino) = (Self::header_name(header), FIRST_INO + self.header_node(header));
        if out.rng.chance(0.35) {
            let home = header % HEADER_DIRS;
            (0..home).for_each(|dir| out.miss(FIRST_INO + dir, name.as_bytes()));
            out.lookup(FIRST_INO + home, name.as_bytes(), ino);
        }
        out.open(ino, false);
        if out.rng.chance(0.3) {
            out.read_whole(ino, self.size(self.header_node(header), 3_000.0));
        }
        out.release(ino);
    }

    fn compile(&self, dir: u64, file: u64, out: &mut Burst) -> (Ino, u64) {
        let dir_ino = FIRST_INO + self.dir_node(dir);
        let stem = Self::source_stem(file);
        let name = |suffix: &str| format!("{stem}{suffix}").into_bytes();
        let (source, source_bytes) = {
            let index = self.source_node(file);
            (FIRST_INO + index, self.size(index, self.source_bytes))
        };
        out.miss(dir_ino, &name(".o"));
        out.lookup(dir_ino, &name(".c"), source);
        out.pause(2 * MILLIS);
        out.getattr(source);
        out.open(source, false);
        out.read_whole(source, source_bytes);
        out.release(source);
        (0..self.includes).for_each(|_| self.include(out));
        // The time that the compiler computes.
        out.pause(20 * MILLIS);
        let depend = out.create(dir_ino, &name(".d.tmp"));
        let depend_bytes = 40 * self.includes.max(1) + out.rng.below(200);
        out.write(depend, 0, depend_bytes);
        out.release(depend);
        let object = out.create(dir_ino, &name(".o"));
        let bytes = log_normal(&mut out.rng, source_bytes as f64 * 1.3, 0.4, 16 << 20).max(512);
        out.write(object, 0, 64);
        out.write_whole(object, bytes, 32 << 10);
        out.write(object, 0, 64);
        out.release(object);
        out.lookup(dir_ino, &name(".o"), object);
        out.rename(dir_ino, &name(".d.tmp"), dir_ino, &name(".d"));
        if out.rng.chance(0.2) {
            out.forget(depend, 1);
        }
        (object, bytes)
    }

    fn archive(&self, dir: u64, objects: &[(Ino, u64)], out: &mut Burst) {
        let dir_ino = FIRST_INO + self.dir_node(dir);
        let library = out.create(dir_ino, b"lib.a.tmp");
        let mut off = 8;
        out.write(library, 0, off);
        for &(object, bytes) in objects {
            out.getattr(object);
            out.open(object, false);
            out.read_whole(object, bytes);
            out.release(object);
            out.write(library, off, 60);
            let mut at = 0;
            while at < bytes {
                let len = (bytes - at).min(64 << 10);
                out.write(library, off + 60 + at, len);
                at += len;
            }
            off += (60 + bytes).next_multiple_of(2);
        }
        out.release(library);
        let now = Some(SetTime::Now);
        out.setattr(library, SetAttr { mtime: now, atime: now, ..Default::default() });
        out.rename(dir_ino, b"lib.a.tmp", dir_ino, b"lib.a");
    }
}

impl Script for Build {
    fn nodes(&self) -> u64 {
        self.source_node(self.files)
    }

    fn node(&mut self, index: u64) -> Node {
        if index < HEADER_DIRS {
            return node(index, twin_fs::ROOT_INO, format!("include{index}").into_bytes(), None);
        }
        let header = index - HEADER_DIRS;
        if header < self.headers {
            let dir = FIRST_INO + header % HEADER_DIRS;
            let size = self.size(index, 3_000.0);
            return node(index, dir, Self::header_name(header).into_bytes(), Some(size));
        }
        let dir = header - self.headers;
        if dir < self.dirs() {
            let name = format!("{}{dir}", word(dir + 2_000_000));
            return node(index, twin_fs::ROOT_INO, name.into_bytes(), None);
        }
        let file = dir - self.dirs();
        let home = FIRST_INO + self.dir_node(file / self.per_dir);
        let name = format!("{}.c", Self::source_stem(file));
        node(index, home, name.into_bytes(), Some(self.size(index, self.source_bytes)))
    }

    fn burst(&mut self, client: usize, out: &mut Burst) -> bool {
        let Client { dir, file, .. } = self.clients[client];
        if dir >= self.dirs() {
            return false;
        }
        let number = dir * self.per_dir + file;
        if file < self.per_dir && number < self.files {
            let object = self.compile(dir, number, out);
            let state = &mut self.clients[client];
            state.objects.push(object);
            state.file += 1;
        } else {
            let objects = std::mem::take(&mut self.clients[client].objects);
            self.archive(dir, &objects, out);
            let step = self.clients.len() as u64;
            let state = &mut self.clients[client];
            (state.dir, state.file) = (dir + step, 0);
        }
        true
    }
}
