//! Traces that are empty, cut off or damaged: each command says how much of them is good, and what it
//! advises works.

use std::path::PathBuf;
use std::process::{Command, Output};

use twin_trace::{Header, Kind, Traits, Writer};

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/libgit2-build.tw");

fn twinfs(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_twinfs")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.into()).unwrap()
}

/// A file of this test's own.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("inputs-{name}"));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// The number before " operations" in a message.
fn operations(said: &str) -> u64 {
    let (front, _) = said.split_once(" operations").unwrap_or_else(|| panic!("{said}"));
    front.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_trace_that_was_cut_off_is_used_up_to_there_and_is_no_success() {
    let whole = std::fs::read(TRACE).unwrap();
    let path = file("cut.tw", &whole[..whole.len() / 3]);
    let path = path.to_str().unwrap();
    for args in [&["replay", path, "--json"][..], &["compare", "-t", path, "lfs", "--json"]] {
        let out = twinfs(args);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("cut off"), "{said}");
        let shown: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let rows = shown.get("rows").unwrap_or(&shown);
        assert_eq!(rows[0]["ops"].as_u64(), Some(operations(&said)), "{args:?}: {said}");
    }
    let path = file("no-frame.tw", &whole[..300]);
    let out = twinfs(&["compare", "-t", path.to_str().unwrap(), "lfs"]);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(1), String::new()));
    assert!(text(&out.stderr).contains("No operation is left"), "{}", text(&out.stderr));
}

#[test]
fn of_a_damaged_trace_the_good_part_can_be_had_as_advised() {
    let mut bytes = std::fs::read(TRACE).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 0xff;
    let path = file("damaged.tw", &bytes);
    let out = twinfs(&["replay", path.to_str().unwrap()]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1));
    let (_, advice) = said.split_once("`head -c ").unwrap_or_else(|| panic!("{said}"));
    let good: usize = advice.split(' ').next().unwrap().parse().unwrap();
    let rest = file("good.tw", &bytes[..good]);
    let out = twinfs(&["replay", rest.to_str().unwrap(), "--json"]);
    let rows: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(rows[0]["ops"].as_u64(), Some(operations(&said)), "{said}");
}

#[test]
fn a_trace_without_operations_is_said_to_be_one() {
    let header = Header {
        kind: Kind::Operations,
        start: twin_rt::Time(0),
        seed: 1,
        traits: Traits::default(),
        text: "nothing was done".into(),
    };
    let empty = Writer::new(Vec::new(), &header).unwrap().finish().unwrap();
    let path = file("empty.tw", &empty);
    let path = path.to_str().unwrap();
    for args in [&["compare", "-t", path][..], &["replay", path], &["top", "--plain", "-t", path]] {
        let out = twinfs(args);
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), text(&out.stdout)), (Some(1), String::new()), "{args:?}");
        assert!(said.contains("holds no operation") && said.contains("empty.tw"), "{said}");
    }
}

/// What `twinfs cache` prints for a trace as comma-separated values.
fn cached(args: &[&str]) -> String {
    let out = twinfs(&[&["cache"], args, &["--format", "csv"]].concat());
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

#[test]
fn caches_are_compared_with_plain_columns_and_more_for_a_disk() {
    let line = |block: u64| {
        format!("0,{},{},4096,{block}\n", ["R", "W"][block as usize % 2], (block % 97) << 12)
    };
    let trace = (0..3000u64).map(|at| line(at * at % 7919)).collect::<String>();
    let path = file("cache.csv", trace.as_bytes());
    let path = path.to_str().unwrap();
    let shown = cached(&[path, "--objects", "--policies", "lru,arc", "--sizes", "64K,1M"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "policy,size_bytes,requests,misses,miss_share");
    assert!(lines[1].starts_with("lru,65536,3000,") && lines[4].starts_with("arc,1048576,3000,97"));
    assert_eq!(lines.len(), 5, "{shown}");
    // For LRU blocks and objects of one size are the same.
    let of_blocks = cached(&[path, "--policies", "lru", "--frames", "16,256"]);
    assert!(shown.starts_with(&of_blocks), "{shown}{of_blocks}");
    let shown = cached(&[path, "--policies", "clock", "--sizes", "64K", "--disk", "hp97560"]);
    let columns = "device_reads,device_writes,read_ms,write_ms,device_ms,miss_share";
    assert!(
        shown.starts_with(&format!("policy,size_bytes,requests,misses,{columns}\n")),
        "{shown}"
    );
    let table = text(&twinfs(&["cache", path, "--disk", "ssd-sata"]).stdout);
    assert!(table.contains("misses, %") && table.contains("disk, s"), "{table}");
}

#[test]
fn of_a_damaged_trace_the_cache_tells_the_line_and_uses_the_rest_if_asked() {
    let path = file("cache-bad.csv", b"0,W,0,4096,1\n0,R,0,4096,2\n0,R,here,4096,3\n");
    let path = path.to_str().unwrap();
    let args = ["cache", path, "--trace-format", "alibaba", "--sizes", "1M", "--format", "csv"];
    let out = twinfs(&args);
    let said = text(&out.stderr);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(1), String::new()));
    assert!(
        said.contains("in line 3") && said.contains("2 accesses before that are good"),
        "{said}"
    );
    let out = twinfs(&[&args[..], &["--partial"]].concat());
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stdout).contains("lru,1048576,2,1,0.5\n"), "{}", text(&out.stdout));
    let letter = file("letter.txt", b"Dear Sir,\nthis is no trace.\n");
    let out = twinfs(&["cache", letter.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("a text file, not a trace"), "{}", text(&out.stderr));
}

#[test]
fn a_block_trace_is_compared_by_its_name_alone_and_the_reader_is_told() {
    let lines: String = (0..50u64)
        .map(|i| format!("{},hm,1,Write,{},4096,413\n", 128_166_372_003_061_629 + i, i % 7 * 4096))
        .collect();
    let path = file("msr.csv", lines.as_bytes());
    let out = twinfs(&["compare", "-t", path.to_str().unwrap(), "lfs:size=64M", "--json"]);
    let (said, shown) = (text(&out.stderr), text(&out.stdout));
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(said.contains("msr.csv is read as blocks"), "{said}");
    let named = ["--trace-format", "blocks", "lfs:size=64M", "--json"];
    let again = twinfs(&[&["compare", "-t", path.to_str().unwrap()], &named[..]].concat());
    assert!(!text(&again.stderr).contains("is read as"), "{}", text(&again.stderr));
    assert_eq!(shown, text(&again.stdout));
}

/// Every trace that is there and has reads or writes, by its name alone.
#[test]
fn every_shared_trace_is_recognized() {
    let shared = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces"));
    for name in [
        "anim-nfs-2003-2007/nfs-2.set-1.20k.csv.zst",
        "anim-nfs-2003-2007/nfs.set6.20k.csv.zst",
        "blkreplay-web-mysql/linux-mysql.load.gz",
        "cache-reference-strings/lirs-sprite.trace.zst",
        "cloudphysics-vm/cloudphysics.csv.zst",
        "dbench-netbench/client.txt.zst",
        "hplajw-1992/hplajw.csv.zst",
        "mqsim-tpcc-wsrch/tpcc-small.trace.zst",
        "sprite-kernel-checkins-1987-1993/sprite_kernel.csv.zst",
        "tcpdump-history-1999-2026/tcpdump.csv.zst",
    ] {
        let path = shared.join(name);
        if !path.exists() {
            println!("skipped: ../shared/traces/{name} is missing");
            continue;
        }
        let shown = cached(&[path.to_str().unwrap(), "--policies", "lru", "--sizes", "1M"]);
        let requests = shown.lines().nth(1).and_then(|line| line.split(',').nth(2));
        let requests: u64 = requests.unwrap().parse().unwrap();
        assert!(requests > 1000, "{name}: {shown}");
    }
    let shown = cached(&[TRACE, "--policies", "sieve", "--sizes", "1M"]);
    assert!(shown.lines().count() == 2, "{shown}");
}

/// What strace prints of a shell that copies a file which was there before.
const CALLS: &str = "\
7 1.00 openat(AT_FDCWD</w>, \"in\", O_RDONLY) = 3</w/in> <0.01>
7 1.02 newfstatat(3</w/in>, \"\", {st_mode=S_IFREG|0644, st_size=100000, ...}, AT_EMPTY_PATH) = 0 <0.01>
7 1.04 vfork( <unfinished ...>
8 1.05 openat(AT_FDCWD</w>, \"out\", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 4</w/out> <0.01>
8 1.07 read(3</w/in>, \"x\"..., 65536) = 65536 <0.01>
8 1.09 write(4</w/out>, \"x\"..., 65536) = 65536 <0.01>
8 1.11 fsync(4</w/out>) = 0 <0.2>
8 1.32 exit_group(0) = ?
8 1.32 +++ exited with 0 +++
7 1.33 <... vfork resumed>) = 8 <0.29>
7 1.34 wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0, NULL) = 8 <0.01>
7 1.36 rename(\"/w/out\", \"/w/copy\") = 0 <0.01>
7 1.38 close(3</w/in>) = 0 <0.01>
";

#[test]
fn calls_of_strace_are_converted_and_all_of_them_succeed_again() {
    let path = file("calls.txt", CALLS.as_bytes());
    let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("inputs-calls.tw");
    let _ = std::fs::remove_file(&to);
    let (path, to) = (path.to_str().unwrap(), to.to_str().unwrap());
    let out = twinfs(&["convert", path, "-o", to, "--format", "json"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let count = |name: &str| {
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name);
        row.map(|row| row["count"].as_u64().unwrap())
    };
    assert_eq!((count("bytes read"), count("bytes written")), (Some(65_536), Some(65_536)));
    assert_eq!((count("clients"), count("rename"), count("fsync")), (Some(2), Some(1), Some(1)));
    for trace in [path, to] {
        let out = twinfs(&["compare", "-t", trace, "lfs", "ffs", "--format", "json"]);
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        let answer: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let rows = &answer["rows"];
        assert_eq!((&rows[0]["failed"], &rows[1]["failed"]), (&0.into(), &0.into()));
        assert!(rows[1]["read_bytes"].as_u64() >= Some(65_536), "{rows}");
    }
}

#[test]
fn of_a_damaged_foreign_trace_the_good_part_is_converted_when_asked() {
    let path = file("calls-damaged.txt", format!("{CALLS}nonsense\n").as_bytes());
    let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("inputs-good.tw");
    let _ = std::fs::remove_file(&to);
    let (path, to) = (path.to_str().unwrap(), to.to_str().unwrap());
    let out = twinfs(&["convert", path, "-o", to]);
    assert_eq!(out.status.code(), Some(1));
    let said = text(&out.stderr);
    assert!(said.contains("line 14") && said.contains("--partial"), "{said}");
    assert!(!std::path::Path::new(to).exists());
    let out = twinfs(&["convert", path, "-o", to, "--partial"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert_eq!(twinfs(&["compare", "-t", to, "lfs"]).status.code(), Some(0));
}
