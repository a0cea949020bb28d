//! Policies in modules: what `twinfs new-policy` writes is built outside this repository by cargo alone, and runs in
//! studies, simulations and on mounts; what is wrong with a module is told.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Place, text, twinfs};
use serde_json::Value;

/// A directory outside the repository, removed at the end.
fn outside(name: &str) -> Place {
    let dir = std::env::temp_dir().join(format!("twinfs-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    Place(dir)
}

/// Runs cargo in a directory, as somebody would who has no part in this build. `None` if there is no cargo.
fn cargo(dir: &Path, args: &[&str]) -> Option<Output> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    for variable in ["CARGO_TARGET_DIR", "RUSTC_WORKSPACE_WRAPPER", "RUSTC_WRAPPER", "RUSTFLAGS"] {
        command.env_remove(variable);
    }
    match command.args(args).arg("--offline").current_dir(dir).output() {
        Ok(out) => Some(out),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: there is no cargo");
            None
        }
        Err(error) => panic!("cargo: {error}"),
    }
}

/// Writes a new policy of a kind.
fn new_policy(place: &Place, name: &str, kind: &str) -> PathBuf {
    let program = Command::new(env!("CARGO_BIN_EXE_twinfs"))
        .args(["new-policy", name, "--kind", kind])
        .current_dir(&place.0)
        .output()
        .unwrap();
    assert!(program.status.success(), "{}", text(&program.stderr));
    place.0.join(name)
}

/// Changes the text of a file of a new policy.
fn change(file: PathBuf, from: &str, to: &str) {
    let before = std::fs::read_to_string(&file).unwrap();
    assert!(before.contains(from), "{}: {from}", file.display());
    std::fs::write(file, before.replace(from, to)).unwrap();
}

/// Builds it; returns the path of the module.
fn build(dir: &Path) -> Option<String> {
    let out = cargo(dir, &["build", "--release"])?;
    let said = text(&out.stderr);
    assert!(out.status.success() && !said.contains("warning"), "{said}");
    let name = dir.file_name().unwrap().to_str().unwrap().replace('-', "_");
    Some(dir.join(format!("target/release/lib{name}.so")).to_str().unwrap().into())
}

/// A trace for `cache`.
fn trace(place: &Place) -> String {
    let path = place.path("trace.tw");
    let out = twinfs(&["convert", "-w", "build:files=60", "-o", &path]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    path
}

fn json(args: &[&str]) -> Value {
    let out = twinfs(args);
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// The words with which a command fails.
fn failure(args: &[&str]) -> String {
    let out = twinfs(args);
    assert!(!out.status.success(), "{args:?}: {}", text(&out.stdout));
    text(&out.stderr)
}

/// The values of a column, by the values of another.
fn column(of: &Value, by: &str, what: &str) -> Vec<(String, Value)> {
    let rows = of["rows"].as_array().unwrap_or_else(|| panic!("no rows: {of}"));
    rows.iter().map(|row| (row[by].as_str().unwrap().into(), row[what].clone())).collect()
}

/// The kinds with the setting that names one, and a line of the example that is at work in a run.
const KINDS: [(&str, &str, &str); 6] = [
    ("replacement", "replacement", "return Some(slot);"),
    ("flush", "flush", "let start = self.start_bytes(state);"),
    ("victim", "victim", "let mut best = None;"),
    ("placement", "placement", "*word = log.now;"),
    ("trigger", "when", "if input.idle_since_ns == u64::MAX"),
    ("queue", "queue", "self.next(head.head_at)\n"),
];

#[test]
fn a_new_policy_of_each_kind_passes_its_own_test_and_works_in_a_simulation() {
    let place = outside("kinds");
    for (kind, setting, line) in KINDS {
        let dir = new_policy(&place, &format!("my-{kind}"), kind);
        let Some(tested) = cargo(&dir, &["test"]) else { return };
        let said = text(&tested.stdout);
        assert!(tested.status.success() && said.contains("1 passed"), "{kind}: {said}");
        let Some(module) = build(&dir) else { return };
        let config = format!("lfs:size=16M,cache=1M,disk=disk-7200,{setting}={module}");
        let run = ["compare", &config, "-w", "mail:messages=1000", "--format", "json"];
        let all = json(&run);
        assert_eq!(column(&all, "config", "failed"), [(config.clone(), 0.into())], "{all}");
        // It is the one that is at work.
        change(dir.join("src/lib.rs"), line, &format!("assert!({line:?} == \"\");\n{line}"));
        cargo(&dir, &["build", "--release"]).unwrap();
        let words = failure(&run);
        assert!(words.contains(&format!("the policy my-{kind} panicked in")), "{kind}: {words}");
    }
}

#[test]
fn sieve_in_a_module_is_the_one_of_the_program() {
    let place = outside("sieve");
    let Some(module) = build(&new_policy(&place, "mine", "replacement")) else { return };
    let trace = trace(&place);
    let policies = format!("{module},sieve");
    let studied =
        json(&["cache", &trace, "--policies", &policies, "--sizes", "256K,1M", "--format", "json"]);
    let misses: Vec<Value> =
        column(&studied, "policy", "misses").into_iter().map(|(_, misses)| misses).collect();
    assert_eq!(misses.len(), 4);
    assert_eq!(misses[..2], misses[2..], "{studied}");
    let config = |name: &str| format!("lfs:size=48M,cache=1M,replacement={name}");
    let (ours, theirs) = (config(&module), config("sieve"));
    let both = json(&["compare", &ours, &theirs, "-t", &trace, "--format", "json"]);
    let digests = column(&both, "config", "digest");
    assert_eq!(digests.len(), 2);
    assert_eq!(digests[0].1, digests[1].1, "{both}");
}

/// The second module was taken for the first, because copies of both had the same name.
#[test]
fn several_modules_are_loaded_beside_each_other() {
    let place = outside("several");
    let mine = new_policy(&place, "mine", "replacement");
    let Some(sieve) = build(&mine) else { return };
    let other = new_policy(&place, "other", "replacement");
    // A frame that was used leaves like any other: first in, first out.
    change(other.join("src/lib.rs"), "place.was_used = true;", "place.was_used = false;");
    let fifo = build(&other).unwrap();
    let victim = build(&new_policy(&place, "victim", "victim")).unwrap();
    let (trace, policies) = (trace(&place), format!("{sieve},{fifo},sieve,fifo"));
    let all =
        json(&["cache", &trace, "--policies", &policies, "--sizes", "256K", "--format", "json"]);
    let misses = column(&all, "policy", "misses");
    let of = |name: &str| &misses.iter().find(|(policy, _)| policy == name).unwrap().1;
    assert_eq!((of(&sieve), of(&fifo)), (of("sieve"), of("fifo")), "{all}");
    assert_ne!(of("sieve"), of("fifo"));
    let config = format!("lfs:size=16M,cache=1M,replacement={fifo},victim={victim}");
    json(&["compare", &config, "-w", "mail:messages=100", "--format", "json"]);
}

#[test]
fn what_is_no_module_for_this_program_is_refused_with_words() {
    let place = outside("wrong");
    let dir = new_policy(&place, "mine", "replacement");
    let Some(module) = build(&dir) else { return };
    let trace = trace(&place);
    let with = |module: &str| failure(&["cache", &trace, "--policies", module]);
    assert!(
        with("./nowhere.so").contains("./nowhere.so: No such file"),
        "{}",
        with("./nowhere.so")
    );
    let no_library = with(&trace);
    assert!(no_library.contains("it is no shared library"), "{no_library}");
    let wrong_kind = failure(&["compare", &format!("lfs:flush={module}")]);
    assert!(
        wrong_kind.contains("holds a replacement policy, and a flush policy is wanted here"),
        "{wrong_kind}"
    );
    let interface = dir.join("src/twinfs/mod.rs");
    change(interface.clone(), "ABI: u32 = 1;", "ABI: u32 = 7;");
    change(interface, "TWINFS: &str = \"", "TWINFS: &str = \"9");
    let module = build(&dir).unwrap();
    let version = with(&module);
    assert!(version.contains("it was built with the interface of twinfs 9"), "{version}");
    assert!(version.contains("version 7; this is twinfs"), "{version}");
    assert!(version.contains("build it again"), "{version}");
    change(
        dir.join("src/lib.rs"),
        "crate::export!(",
        "macro_rules! nothing { ($($t:tt)*) => {} }\nnothing!(",
    );
    let out = cargo(&dir, &["build", "--release"]).unwrap();
    assert!(out.status.success());
    let nothing = with(&module);
    assert!(nothing.contains("it has no policy: it does not export twinfs_policy"), "{nothing}");
}

#[test]
fn a_policy_that_fails_ends_a_command_with_its_words() {
    let place = outside("fails");
    let dir = new_policy(&place, "mine", "replacement");
    change(dir.join("src/lib.rs"), "return Some(slot);", "return Some(slot + 100_000);");
    let Some(module) = build(&dir) else { return };
    let trace = trace(&place);
    let study = failure(&["cache", &trace, "--policies", &module, "--sizes", "256K"]);
    assert!(study.contains("the policy mine named frame 100"), "{study}");
    let config = format!("lfs:size=48M,cache=1M,replacement={module}");
    let run = failure(&["compare", &config, "-t", &trace]);
    assert!(run.contains("as victim, which it was not given"), "{run}");
    let file = place.path("x.toml");
    let text_of = format!(
        "workloads = ['mail:messages=200']\nconfigs = ['{config}', 'lfs:size=48M,cache=1M']\n"
    );
    std::fs::write(&file, text_of).unwrap();
    let out = twinfs(&["run", &file, "--store", &place.path("store"), "--format", "csv"]);
    let (said, rows) = (text(&out.stderr), text(&out.stdout));
    assert!(!out.status.success() && said.contains("the policy mine"), "{said}");
    let good = rows.lines().find(|row| row.contains("cache=1M") && !row.contains("libmine"));
    assert!(good.is_some_and(|row| !row.contains("the policy mine")), "others stand: {rows}");
    change(dir.join("src/lib.rs"), "return Some(slot + 100_000);", "panic!(\"no way out\");");
    build(&dir).unwrap();
    let panicked = failure(&["cache", &trace, "--policies", &module, "--sizes", "256K"]);
    assert!(panicked.contains("panicked in victim: no way out"), "{panicked}");
}

#[test]
fn experiments_know_a_module_by_its_content() {
    let place = outside("content");
    let dir = new_policy(&place, "mine", "replacement");
    let Some(module) = build(&dir) else { return };
    let copy = place.path("copy.so");
    std::fs::copy(&module, &copy).unwrap();
    let run = |module: &str| {
        let file = place.path("x.toml");
        let base = format!("configs = ['lfs:size=32M,cache=1M,replacement={module}']");
        std::fs::write(&file, format!("workloads = ['mail:messages=20']\n{base}\n")).unwrap();
        let out = twinfs(&["run", &file, "--store", &place.path("store")]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stdout)
    };
    assert!(run(&module).contains("1 runs were made") || run(&module).contains("1 run was made"));
    let again = run(&copy);
    assert!(again.contains("0 runs were made"), "{again}");
    change(dir.join("src/lib.rs"), "0..2 * self.ranked", "0..3 * self.ranked");
    build(&dir).unwrap();
    let changed = run(&module);
    assert!(!changed.contains("0 runs were made"), "{changed}");
}

/// Mounts a new volume with a policy, writes more than its cache holds, unmounts, and reads it all with the program's own.
fn survives(place: &Place, module: &str) -> Option<()> {
    if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: a mount needs root and /dev/fuse");
        return None;
    }
    let (image, dir) = (place.path("image"), place.path("mnt"));
    let _ = std::fs::remove_file(&image);
    std::fs::create_dir_all(&dir).unwrap();
    let must = |args: &[&str]| {
        let out = twinfs(args);
        assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    };
    let content = |file: u32| -> Vec<u8> {
        (0..400_000_u32).map(|byte| (byte.wrapping_mul(file + 7) >> 5) as u8).collect()
    };
    must(&["mkfs", "--layout", "lfs", "--size", "128M", &image]);
    must(&["mount", &image, &dir, "--cache", "4M", "--replacement", module]);
    for file in 0..40 {
        std::fs::write(Path::new(&dir).join(file.to_string()), content(file)).unwrap();
    }
    let read: Vec<Vec<u8>> = (0..40)
        .map(|file| std::fs::read(Path::new(&dir).join(file.to_string())).unwrap())
        .collect();
    must(&["umount", &dir]);
    must(&["check", &image]);
    must(&["mount", &image, &dir, "--cache", "4M"]);
    for (file, read) in (0..40).zip(&read) {
        assert!(*read == content(file), "{file}: while the policy was at work");
        let now = std::fs::read(Path::new(&dir).join(file.to_string())).unwrap();
        assert!(now == content(file), "{file}: later");
    }
    must(&["umount", &dir]);
    Some(())
}

#[test]
fn a_module_works_on_a_mount_and_nothing_is_lost_with_one_that_fails() {
    let place = outside("mounted");
    let dir = new_policy(&place, "mine", "replacement");
    let Some(module) = build(&dir) else { return };
    let volumes = Place::new("modules-mounted");
    if survives(&volumes, &module).is_none() {
        return;
    }
    change(dir.join("src/lib.rs"), "return Some(slot);", "panic!(\"no way out\");");
    build(&dir).unwrap();
    survives(&volumes, &module);
}
