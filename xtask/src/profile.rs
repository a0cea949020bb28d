//! `cargo xtask profile`: where the time of an operation goes, by room, for six loads in both worlds.
//!
//! Contract: each load runs once under `perf record`, with the program that users get (its symbols are in it);
//! a sample stands for a share of a second of a processor, and belongs to the room of the function that it hit. What the
//! compiler put into its caller counts for the caller. With `--instructions` the simulated loads, shorter, run
//! under callgrind, which counts what no neighbour on the machine changes. Nothing is judged: the table is for
//! `docs/speed-simulator.md`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::clock::pause_ms;
use crate::e2e::{self, tools::in_path};

/// What runs.
enum Kind {
    /// The words of `twinfs compare`: for perf, and shorter for callgrind.
    Simulated([&'static str; 2], [&'static str; 2]),
    /// What a client does on a mount; it returns the number of its operations.
    Mounted(fn(&Path) -> std::io::Result<u64>),
}

const LOADS: [(&str, Kind); 6] = [
    ("build", Kind::Simulated(["-w", "build:files=12000"], ["-t", "traces/libgit2-build.tw"])),
    (
        "small files",
        Kind::Simulated(
            ["-w", "small-files:files=60000,per-dir=1000"],
            ["-w", "small-files:files=3000,per-dir=1000"],
        ),
    ),
    ("server", Kind::Simulated(["-t", "traces/server.tw"], ["-t", "traces/server.tw"])),
    ("mail", Kind::Simulated(["-w", "mail:messages=20000"], ["-w", "mail:messages=1000"])),
    ("mounted: small files", Kind::Mounted(small_files)),
    ("mounted: large writes", Kind::Mounted(large_writes)),
];

/// Samples a second of a processor: a prime, so that they are in step with nothing.
const RATE: u64 = 1999;

/// Rooms by the beginnings of the paths that functions have in them; the first that fits counts.
const ROOMS: [(&str, &[&str]); 17] = [
    ("generating the load", &["twin_generate"]),
    ("replay", &["twin_trace::replay", "twin_trace::histogram"]),
    ("reading traces", &["twin_trace", "ZSTD_", "HUF_", "FSE_"]),
    ("watching the run", &["twin_lab", "twin_observe", "twin_remote"]),
    ("executor, events, locks", &["twin_rt"]),
    ("operations, inodes", &["twin_fs::ops", "twin_fs::inodes", "twin_fs::volume"]),
    ("directories", &["twin_fs::dir"]),
    ("file data", &["twin_fs::data"]),
    ("rest of twin-fs", &["twin_fs", "twin_check"]),
    ("cache", &["twin_cache"]),
    ("layout", &["twin_lfs", "twin_ffs", "twin_clean", "vsfs"]),
    ("content of the simulated disk", &["twin_sim::platter"]),
    ("simulated disk, machine", &["twin_sim"]),
    ("blocks, buffers, checksums", &["twin_disk", "crc32c"]),
    ("mount", &["twin_host", "twin_mount"]),
    (
        "allocator",
        &[
            "malloc",
            "_int_",
            "free",
            "cfree",
            "calloc",
            "realloc",
            "unlink_chunk",
            "tcache",
            "malloc_consolidate",
            "sysmalloc",
            "__libc_calloc",
            "alloc_perturb",
            "systrim",
        ],
    ),
    ("copying, comparing", &["__mem", "mem", "__str"]),
];
const KERNEL: &str = "kernel";
const REST: &str = "rest";

/// The weight of each room in one load, for one operation.
type Column = BTreeMap<&'static str, f64>;

/// The options of a profile.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    instructions: bool,
    /// A program to profile instead of the one that is built, for example an earlier one.
    program: Option<PathBuf>,
}

/// Parses the words after `profile`.
pub(crate) fn parse(words: &[String]) -> Result<Options, String> {
    let (mut options, mut words) = (Options::default(), words.iter());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--instructions" => options.instructions = true,
            "--program" => {
                let path = std::path::absolute(words.next().ok_or("--program needs a value")?);
                options.program = Some(path.map_err(|error| format!("--program: {error}"))?);
            }
            other => return Err(format!("{other}: is not understood")),
        }
    }
    Ok(options)
}

/// Prints the table.
///
/// # Errors
/// If the program does not build, or the tool that measures is missing or fails.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let instructions = options.instructions;
    let (tool, unit) = match instructions {
        true => ("valgrind", "instructions"),
        false => ("perf", "nanoseconds of a processor"),
    };
    if !in_path(tool) {
        return Err(format!("{tool} is missing"));
    }
    let program = options.program.clone().map_or_else(|| e2e::build(root), Ok)?;
    let dir = std::env::temp_dir().join(format!("twinfs-profile-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let place = Place { root, program, dir: dir.clone() };
    let columns = LOADS.iter().filter(|(_, kind)| !instructions || is_simulated(kind));
    let columns: Result<Vec<_>, String> = columns
        .map(|(name, kind)| {
            eprintln!("profile: {name}");
            Ok((*name, place.measure(kind, instructions)?))
        })
        .collect();
    let _ = fs::remove_dir_all(&dir);
    println!("An operation's {unit}:\n\n{}", table(&columns?));
    Ok(())
}

fn is_simulated(kind: &Kind) -> bool {
    matches!(kind, Kind::Simulated(..))
}

struct Place<'a> {
    root: &'a Path,
    program: PathBuf,
    dir: PathBuf,
}

impl Place<'_> {
    fn measure(&self, kind: &Kind, instructions: bool) -> Result<Column, String> {
        let (ops, lines) = match kind {
            Kind::Simulated(_, words) if instructions => self.callgrind(*words)?,
            Kind::Simulated(words, _) => self.simulated(*words)?,
            Kind::Mounted(client) => self.mounted(*client)?,
        };
        let mut column = Column::new();
        for (weight, function, in_kernel) in lines {
            let room = if in_kernel { KERNEL } else { room_of(&function) };
            *column.entry(room).or_default() += weight / ops as f64;
        }
        Ok(column)
    }

    fn simulated(&self, words: [&str; 2]) -> Result<(u64, Vec<Line>), String> {
        let mut perf = self.perf();
        perf.arg(&self.program).arg("compare").args(words).args(["lfs", "--json"]);
        let ops = operations(&said(perf.current_dir(self.root))?)?;
        Ok((ops, self.samples()?))
    }

    /// The daemon alone is measured, with what the kernel does for it.
    fn mounted(
        &self,
        client: fn(&Path) -> std::io::Result<u64>,
    ) -> Result<(u64, Vec<Line>), String> {
        let (image, mount) = (self.dir.join("disk.img"), self.dir.join("mnt"));
        let text = |error: std::io::Error| format!("{}: {error}", mount.display());
        let _ = fs::remove_file(&image);
        fs::create_dir_all(&mount).map_err(text)?;
        said(Command::new(&self.program).args(["mkfs", "--size", "2G"]).arg(&image))?;
        let mut perf = self.perf();
        perf.arg(&self.program).args(["mount", "-f"]).args([&image, &mount]);
        let daemon = perf.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(text)?;
        let ops = match wait_for_mount(&mount) {
            true => client(&mount).map_err(text),
            false => Err(format!("{}: is not mounted after ten seconds", mount.display())),
        };
        let unmounted = said(Command::new(&self.program).arg("umount").arg(&mount));
        end(daemon, unmounted.is_ok())?;
        Ok((ops?, self.samples()?))
    }

    fn perf(&self) -> Command {
        let mut perf = Command::new("perf");
        perf.args(["record", "--quiet", "--freq", &RATE.to_string(), "--event", "cpu-clock"]);
        perf.arg("--output").arg(self.dir.join("perf.data")).arg("--");
        perf
    }

    /// The samples that perf took, by function, in nanoseconds.
    fn samples(&self) -> Result<Vec<Line>, String> {
        let mut perf = Command::new("perf");
        perf.args(["report", "--stdio", "--quiet", "--no-children", "--field-separator", "|"]);
        perf.args(["--fields", "sample,dso,sym", "--input"]).arg(self.dir.join("perf.data"));
        let lines = said(&mut perf)?;
        Ok(lines.lines().filter_map(perf_line).collect())
    }

    fn callgrind(&self, words: [&str; 2]) -> Result<(u64, Vec<Line>), String> {
        let out = self.dir.join("callgrind.out");
        let mut valgrind = Command::new("valgrind");
        valgrind.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", out.display()));
        valgrind.arg(&self.program).arg("compare").args(words).args(["lfs", "--json"]);
        let ops = operations(&said(valgrind.current_dir(self.root))?)?;
        let mut annotate = Command::new("callgrind_annotate");
        let lines = said(annotate.args(["--threshold=100", "--auto=no"]).arg(&out))?;
        Ok((ops, lines.lines().filter_map(callgrind_line).collect()))
    }
}

/// Weight, function, and whether it is the kernel's.
type Line = (f64, String, bool);

/// A line `samples |object|[.] function` of a report.
fn perf_line(line: &str) -> Option<Line> {
    let mut fields = line.splitn(3, '|').map(str::trim);
    let samples: u64 = fields.next()?.parse().ok()?;
    let (object, function) = (fields.next()?, fields.next()?);
    let name = function.split_once("] ").map_or(function, |(_, name)| name);
    let weight = samples as f64 * 1e9 / RATE as f64;
    Some((weight, name.into(), object == "[kernel.kallsyms]" || function.starts_with("[k]")))
}

/// A line `12,345 (1.2%)  file:function [object]` of callgrind_annotate.
fn callgrind_line(line: &str) -> Option<Line> {
    let (count, rest) = line.trim_start().split_once(" (")?;
    let count: u64 = count.replace(',', "").parse().ok()?;
    let (_, place) = rest.split_once(')')?;
    let (_, function) = place.trim_start().split_once(':')?;
    Some((count as f64, function.into(), false))
}

/// The room of a function: by the first path of ours in its name, otherwise by its beginning.
fn room_of(function: &str) -> &'static str {
    let ours = ["twin_", "vsfs::"].iter().filter_map(|prefix| function.find(prefix)).min();
    let name = ours.map_or(function, |at| &function[at..]);
    let fits = |paths: &&[&str]| paths.iter().any(|path| name.starts_with(path));
    ROOMS.iter().find(|(_, paths)| fits(paths)).map_or(REST, |(room, _)| room)
}

/// The number of operations in the results of a comparison.
fn operations(json: &str) -> Result<u64, String> {
    let after = json.split_once("\"ops\":").map(|(_, after)| after.trim_start());
    let digits = after.and_then(|text| text.split(|c: char| !c.is_ascii_digit()).next());
    let ops = digits.and_then(|digits| digits.parse().ok()).filter(|ops| *ops > 0);
    ops.ok_or_else(|| "the results name no number of operations".into())
}

/// What a command prints.
fn said(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn wait_for_mount(mount: &Path) -> bool {
    let place = format!(" {} ", mount.display());
    (0..1000).any(|_| {
        pause_ms(10);
        fs::read_to_string("/proc/self/mountinfo").is_ok_and(|table| table.contains(&place))
    })
}

/// Waits for the daemon, which ends when it is unmounted, or ends it.
fn end(mut daemon: Child, unmounted: bool) -> Result<(), String> {
    if !unmounted {
        crate::processes::kill_family(rustix::process::Pid::from_child(&daemon));
    }
    daemon.wait().map(drop).map_err(|error| format!("perf: {error}"))
}

/// Files made, looked at, read and removed; each is four operations.
fn small_files(mount: &Path) -> std::io::Result<u64> {
    const FILES: u64 = 10_000;
    let path = |i: u64| mount.join(format!("{}/{i}", i / 1000));
    for dir in 0..FILES / 1000 {
        fs::create_dir(mount.join(dir.to_string()))?;
    }
    (0..FILES).try_for_each(|i| fs::write(path(i), [7; 4096]))?;
    (0..FILES).try_for_each(|i| fs::metadata(path(i)).map(drop))?;
    (0..FILES).try_for_each(|i| fs::read(path(i)).map(drop))?;
    (0..FILES).try_for_each(|i| fs::remove_file(path(i)))?;
    Ok(4 * FILES)
}

/// A file written in pieces of a mebibyte, over and over; each is an operation.
fn large_writes(mount: &Path) -> std::io::Result<u64> {
    const PIECES: u64 = 256;
    const ROUNDS: u64 = 4;
    let piece = vec![7; 1 << 20];
    for _ in 0..ROUNDS {
        let mut file = fs::File::create(mount.join("large"))?;
        (0..PIECES).try_for_each(|_| file.write_all(&piece))?;
        file.sync_all()?;
    }
    Ok(PIECES * ROUNDS)
}

/// A table in Markdown: rooms down, loads across.
fn table(columns: &[(&str, Column)]) -> String {
    let mut out = String::from("| room |");
    columns.iter().for_each(|(name, _)| out += &format!(" {name} |"));
    out += &format!("\n|---|{}\n", "---|".repeat(columns.len()));
    let rooms = ROOMS.iter().map(|(room, _)| *room).chain([KERNEL, REST]);
    for room in rooms {
        let cells: Vec<f64> =
            columns.iter().map(|(_, column)| column.get(room).copied().unwrap_or(0.0)).collect();
        if cells.iter().any(|cell| *cell > 0.0) {
            out += &row(room, &cells);
        }
    }
    let all: Vec<f64> = columns.iter().map(|(_, column)| column.values().sum()).collect();
    out + &row("**all**", &all)
}

fn row(name: &str, cells: &[f64]) -> String {
    let cells: String = cells.iter().map(|cell| format!(" {cell:.0} |")).collect();
    format!("| {name} |{cells}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_in_the_room_of_its_own_path() {
        let name = "<twin_sim::daemon::Daemon<F> as twin_fs::op::FileSystem>::execute::{{closure}}";
        assert_eq!(room_of(name), "simulated disk, machine");
        assert_eq!(room_of("twin_fs::data::map::<impl twin_fs::core::Core>::ptr_in"), "file data");
        assert_eq!(room_of("core::ptr::drop_in_place<twin_fs::op::Reply>"), "rest of twin-fs");
        assert_eq!(room_of("_int_malloc"), "allocator");
        assert_eq!(room_of("__memmove_avx_unaligned_erms"), "copying, comparing");
        assert_eq!(room_of("core::fmt::write"), REST);
    }

    #[test]
    fn lines_of_both_tools_are_read() {
        let (weight, name, kernel) = perf_line(" 46 |libc.so.6 |[.] _int_free ").unwrap();
        assert_eq!((name.as_str(), kernel), ("_int_free", false));
        assert!((weight - 46e9 / RATE as f64).abs() < 1.0);
        assert!(perf_line("3|[kernel.kallsyms]|[k] fput").unwrap().2);
        assert_eq!(perf_line(""), None);
        let line = "1,234,567 (12.30%)  ./malloc/./malloc.c:free [/usr/lib/libc.so.6]";
        let (count, name, _) = callgrind_line(line).unwrap();
        assert_eq!((count as u64, room_of(&name)), (1_234_567, "allocator"));
        assert_eq!(callgrind_line("Ir  file:function"), None);
    }

    #[test]
    fn options_are_understood() {
        let parsed =
            |line: &str| parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>());
        let program = Some(PathBuf::from("/bin/twinfs"));
        let expected = Options { instructions: true, program };
        assert_eq!(parsed("--instructions --program /bin/twinfs"), Ok(expected));
        assert!(parsed("--program").is_err() && parsed("fast").is_err());
    }

    #[test]
    fn operations_are_found_in_results() {
        assert_eq!(operations("{\"rows\": [{\"ops\": 116981,"), Ok(116_981));
        assert!(operations("{}").is_err());
    }

    #[test]
    fn the_table_has_a_row_for_each_room_that_has_something() {
        let column = Column::from([("cache", 12.4), (KERNEL, 3.0)]);
        let text = table(&[("mail", column)]);
        assert!(text.contains("| cache | 12 |\n| kernel | 3 |\n| **all** | 15 |"), "{text}");
    }
}
