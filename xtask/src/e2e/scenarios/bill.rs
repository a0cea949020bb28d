//! What a mount of a volume in a bucket asks its store, held against a simulation of what was recorded on it.
//!
//! Contract: the mount counts its requests and bytes itself (`twinfs stat`), opening included, and is asked when it
//! has written everything; the server's folder has what is stored; the simulation is of the recording alone, at its times.
//! Requests of each class and bytes in each direction may differ by [`MOST`]; where there are few of a class, by [`FEW`].

use std::process::Command;

use serde_json::Value;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, Stop, tools};
use super::served;
use crate::clock::pause_ms;
use crate::object_server::Server;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "bill",
    about: "what a mount in a bucket asks its store, beside a simulation of its recording (by nightly bucket)",
    limit_s: (600, 1800),
    run,
};

/// The largest difference, as a share of what the mount did.
const MOST: f64 = 0.05;
/// Requests of a class that do not count as a difference: heads are due by number and by time.
const FEW: f64 = 4.0;
/// Bytes of such requests: a map and a few headers.
const FEW_BYTES: f64 = 64.0 * 1024.0;

/// What is held against each other: its name in the figures, and what does not count as a difference.
const HELD: [(&str, &str, f64); 6] = [
    ("PUT", "puts", FEW),
    ("GET", "gets", FEW),
    ("DELETE", "deletes", FEW),
    ("bytes in", "in_bytes", FEW_BYTES),
    ("bytes out", "out_bytes", FEW_BYTES),
    ("bytes stored", "stored_bytes", FEW_BYTES),
];

/// How often a mount is looked at until its store is left alone. It writes everything within two seconds: a longer time
/// is between.
const LOOKS: u32 = 10;
const LOOK_MS: u64 = 4000;

/// A load.
struct Load {
    name: &'static str,
    /// The memory of the mount for blocks.
    cache: &'static str,
    /// What runs in the mounted directory.
    script: fn(&Bench) -> String,
}

const LOADS: [Load; 4] = [
    Load { name: "sqlite", cache: "256M", script: sqlite },
    Load { name: "git clone", cache: "256M", script: git },
    Load { name: "build", cache: "256M", script: build },
    Load { name: "reads", cache: "16M", script: reads },
];

fn run(bench: &Bench) -> Outcome {
    let server = served::server(bench)?;
    tools::need(bench, &[("sqlite3", "sqlite3"), ("git", "git"), ("cc", "gcc")])?;
    println!("{:<10} {:<13} {:>12} {:>12} {:>8}", "load", "", "mount", "simulation", "");
    let mut off = Vec::new();
    let mut worst: f64 = 0.0;
    for load in LOADS {
        let (mount, simulated) = both(bench, &server, &load)?;
        for (title, name, few) in HELD {
            let number = |of: &Value| of[name].as_f64().ok_or(format!("{name} is not told"));
            let (real, said) = (number(&mount)?, number(&simulated)?);
            let share = (said - real) / real.max(1.0);
            println!(
                "{:<10} {title:<13} {real:>12} {said:>12} {:>+7.1}%",
                load.name,
                share * 100.0
            );
            if (said - real).abs() > few {
                worst = worst.max(share.abs());
                if share.abs() > MOST {
                    off.push(format!(
                        "{} {title}: {real} on the mount, {said} simulated",
                        load.name
                    ));
                }
            }
        }
    }
    match off.is_empty() {
        true => Ok(format!("{} loads, at most {:.1}% off", LOADS.len(), worst * 100.0)),
        false => Err(Stop::Failed(off.join("; "))),
    }
}

/// What the store was asked by a load: on a mount, and in a simulation of what was recorded there.
fn both(bench: &Bench, server: &Server, load: &Load) -> Result<(Value, Value), String> {
    let (trace, name) = (bench.dir.join("bill.tw"), load.name.replace(' ', "-"));
    let word = trace.to_str().ok_or("the path is not UTF-8")?;
    let _ = std::fs::remove_file(&trace);
    let mut volume =
        Volume::make_in(bench, &server.volume(&name), server.environment(), &["--size", "16G"])?;
    volume.set_options(&["--cache", load.cache, "--record", word]);
    volume.mount()?;
    bench.shell(volume.dir(), &(load.script)(bench))?;
    bench.run(Command::new("sync").arg("-f").arg(volume.dir()))?;
    let mut mount = counts(bench, &volume)?;
    mount["stored_bytes"] = server.stored(&name).into();
    volume.umount_and_check()?;
    let mut compare = Command::new(&bench.program);
    compare.args(["compare", "--trace", word, "--pace", "recorded", "--json"]);
    compare.arg(format!("lfs:disk=s3-express,size=16G,cache={}", load.cache));
    let text = bench.run(&mut compare)?;
    let all: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let row = &all["rows"][0];
    if row["failed"].as_u64() != Some(0) {
        return Err(format!("{name}: {} operations failed when simulated", row["failed"]));
    }
    Ok((mount, row["disk_use"]["bill"].clone()))
}

/// What a mount says that it asked its store, once it leaves that alone.
fn counts(bench: &Bench, volume: &Volume<'_>) -> Result<Value, String> {
    let mut before = Value::Null;
    for _ in 0..LOOKS {
        let mut stat = Command::new(&bench.program);
        let text = bench.run(stat.args(["stat", "--json"]).arg(volume.dir()))?;
        let all: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let now = all[0]["figures"]["bucket"].clone();
        if now.is_object() && now == before {
            return Ok(now);
        }
        before = now;
        pause_ms(LOOK_MS);
    }
    Err("the mount does not leave its store alone although nobody uses it".into())
}

/// Transactions of a database, each durable, then a query over all of it.
fn sqlite(bench: &Bench) -> String {
    let rows = bench.size(200, 1000);
    let values = "hex(randomblob(100))";
    format!(
        "for mode in delete wal; do {{ echo \"pragma journal_mode=$mode; create table if not exists t (v text);\"; \
         for n in $(seq {rows}); do echo \"insert into t values ({values});\"; done; \
         echo 'select count(*), sum(length(v)) from t;'; }} | sqlite3 -bail test.db > result; done"
    )
}

/// A clone of this repository, and a look at all of it.
fn git(bench: &Bench) -> String {
    let root = bench.root.display();
    format!(
        "git -c safe.directory='*' clone --quiet --depth {} 'file://{root}' clone && \
         git -C clone status --short && git -C clone fsck --no-progress",
        bench.size(1, 50)
    )
}

/// Sources that are unpacked, compiled one by one and linked.
fn build(bench: &Bench) -> String {
    let files = bench.size(40, 400);
    format!(
        "mkdir src && cd src && for n in $(seq {files}); do \
         printf '#include <stdio.h>\\nint f%d(int n) {{ return printf(\"%%d\", n) + %d; }}\\n' $n $n > f$n.c; done && \
         printf 'int f1(int);\\nint main(void) {{ return f1(1) < 0; }}\\n' > main.c && tar -cf ../src.tar . && \
         mkdir ../tree && tar -C ../tree -xf ../src.tar && cd ../tree && \
         for c in *.c; do cc -g -c $c || exit 1; done && cc *.o -o program && ./program && rm -rf ../src"
    )
}

/// Files that memory does not hold, read here and there, past the kernel's cache. (Of reads in order it depends on the speed
/// of the store how much is read ahead.)
fn reads(bench: &Bench) -> String {
    format!(
        "for n in $(seq 8); do head -c 12M /dev/urandom > f$n; done; sync .; \
         for n in $(seq {}); do \
         dd if=f$((n % 8 + 1)) of=/dev/null iflag=direct status=none bs=4k count=1 skip=$((n * 7919 % 3000)) || exit 1; \
         done",
        bench.size(500, 3000)
    )
}
