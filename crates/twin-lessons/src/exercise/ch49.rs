//! Chapter 49: Sun's network file system, with the real server and a client as a part.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::json;
use twin_fs::{
    Cred, Data, FileSystem, Ino, Name, Op, ROOT_INO, RenameMode, Reply, Request, SetAttr, mode,
};
use twin_nfs::client::{Client, ClientSettings, Direct, Handles};
use twin_nfs::{Export, Handle, Keys, Rules, Served, Server, proc};
use twin_rt::{FixedMap, Rng, Rt, SECS};

use super::real::bench;
use super::{Chapter, Exercise, Made, Part, Question, hints};
use crate::volume::Bench;

pub(super) const CHAPTER: Chapter = Chapter {
    number: 49,
    title: "Sun's network file system",
    about: "Calls, handles, repeated requests and caches of clients.",
    exercises: &[
        Exercise { id: "49.1", title: "Counting calls", make: calls },
        Exercise { id: "49.2", title: "Sent twice", make: twice },
        Exercise { id: "49.3", title: "An old length", make: old_length },
    ],
};

const VOLUME: &str = "ffs:size=8M,group=1M";
const KEY: [u8; 16] = *b"lessons: the key";

/// A server of a bench's volume and a client of it.
fn served(bench: &Bench, settings: ClientSettings) -> Result<(Rc<Server>, Client), String> {
    let keys = Keys::of(KEY);
    let rules = Rules::default();
    let export = Export { path: "/".into(), volume: 0, below: Vec::new(), rules };
    let volume = bench.volume();
    let server =
        Rc::new(Server::new(KEY, vec![Served::of(volume, keys.clone())], vec![export.clone()]));
    let found = bench.ask(Op::Lookup { dir: ROOT_INO, name: Name::from(b".".as_slice()) })?;
    let Ok(Reply::Entry(root)) = found else { return Err("the root is no inode".into()) };
    let root = keys.seal(&Handle {
        volume: keys.volume,
        export: export.id(),
        ino: root.attr.ino,
        generation: root.generation,
    });
    let handles: Handles = Rc::new(RefCell::new(FixedMap::default()));
    let wire = Direct::to(bench.rt(), &server);
    let client = Client::new(bench.rt(), settings, Box::new(wire), handles, &root, 1);
    Ok((server, client))
}

fn reply(rt: &Rt, client: &Client, op: Op) -> Result<Reply, String> {
    let reply = rt.block_on(client.execute(Request { id: 1, client: 0, cred: Cred::root(), op }));
    reply.map_err(|_| "no answer".to_string())?.map_err(|why| why.to_string())
}

fn entry(reply: Reply) -> Result<Ino, String> {
    match reply {
        Reply::Entry(entry) => Ok(entry.attr.ino),
        _ => Err("no entry".into()),
    }
}

fn calls(rng: &mut Rng) -> Made {
    let depth = rng.range(1, 4);
    let rsize = *rng.pick(&[8_u64, 16, 32]);
    let kib = rng.range(1, 200);
    let bench = bench(VOLUME)?;
    let mut path = String::new();
    for n in 0..depth {
        path += &format!("/d{n}");
        bench.lines(&[format!("mkdir {path}")])?;
    }
    path += "/f";
    bench.lines(&[format!("write {path} {kib}K"), "sync".into()])?;
    let settings =
        ClientSettings { rsize: rsize << 10, read_ahead: 0, ..ClientSettings::default() };
    let (server, client) = served(&bench, settings)?;
    let rt = bench.rt();
    let mut ino = ROOT_INO;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let name = Name::from(name.as_bytes());
        ino = entry(reply(rt, &client, Op::Lookup { dir: ino, name })?)?;
    }
    reply(rt, &client, Op::Open { ino, read: true, write: false, truncate: false })?;
    let (size, mut off) = (kib << 10, 0);
    while off < size {
        let len = (size - off).min(rsize << 10) as u32;
        reply(rt, &client, Op::Read { ino, off, len })?;
        off += u64::from(len);
    }
    reply(rt, &client, Op::Release { ino })?;
    let count = |procedure| proc::index(procedure).map_or(0, |at| server.counters().calls[at]);
    Ok(Question {
        text: format!(
            "A client has just mounted a volume and has its root handle; its caches are empty. A program opens {path}, a file \
             of {kib} KiB, and reads all of it from beginning to end. A READ carries at most {rsize} KiB. How many LOOKUP calls \
             and how many READ calls does the server get, and how many OPEN calls?"
        ),
        given: json!({"path": path, "kib": kib, "rsize": rsize}),
        parts: vec![
            Part::new("lookup", "LOOKUP", count(proc::LOOKUP)),
            Part::new("read", "READ", count(proc::READ)),
            Part::new("open", "OPEN", 0),
        ],
        hints: hints(&[
            "The client walks the path itself, one component a call: a server must not know about mounts of the client.",
            "The protocol has no state at the server: there is nothing like an open file.",
        ]),
        known: None,
        attempt: Vec::new(),
    })
}

/// Calls that a client may send twice: the words, and the operation on a volume with a directory 'd' and files a and b.
const CALLS: &[&str] = &[
    "LOOKUP a in the root",
    "READ 100 bytes of a at offset 0",
    "WRITE 100 bytes to a at offset 50",
    "GETATTR of a",
    "SETATTR of a: size 10",
    "REMOVE b from the root",
    "MKDIR e in the root",
    "CREATE g in the root, guarded (an error if it exists)",
    "RENAME b to c in the root",
    "RMDIR d from the root",
];

fn operation(call: &str, a: Ino) -> Op {
    let name = |name: &str| Name::from(name.as_bytes());
    let dir = ROOT_INO;
    match call.split(' ').next().unwrap_or_default() {
        "LOOKUP" => Op::Lookup { dir, name: name("a") },
        "READ" => Op::Read { ino: a, off: 0, len: 100 },
        "WRITE" => Op::Write { ino: a, off: 50, data: Data::Synthetic(100) },
        "GETATTR" => Op::GetAttr { ino: a },
        "SETATTR" => Op::SetAttr { ino: a, set: SetAttr { size: Some(10), ..SetAttr::default() } },
        "REMOVE" => Op::Unlink { dir, name: name("b") },
        "MKDIR" => Op::MakeDir { dir, name: name("e"), mode: 0o755 },
        "CREATE" => {
            Op::Create { dir, name: name("g"), mode: mode::REGULAR | 0o644, exclusive: true }
        }
        "RENAME" => {
            let (to_dir, to_name, mode) = (dir, name("c"), RenameMode::Replace);
            Op::Rename { dir, name: name("b"), to_dir, to_name, mode }
        }
        _ => Op::RemoveDir { dir, name: name("d") },
    }
}

fn twice(rng: &mut Rng) -> Made {
    let mut picked: Vec<&str> = CALLS.to_vec();
    rng.shuffle(&mut picked);
    picked.truncate(5);
    let mut different = Vec::new();
    for (call, number) in picked.iter().zip(1..) {
        let bench = bench(VOLUME)?;
        bench.lines(&["write a 4K".into(), "write b 4K".into(), "mkdir d".into()])?;
        let found = bench.ask(Op::Lookup { dir: ROOT_INO, name: Name::from(b"a".as_slice()) })?;
        let a = entry(found.map_err(|why| why.to_string())?)?;
        let first = bench.ask(operation(call, a))?.is_ok();
        let second = bench.ask(operation(call, a))?.is_ok();
        if first && !second {
            different.push(number.to_string());
        }
    }
    let answer = if different.is_empty() { "none".into() } else { different.join(" ") };
    Ok(Question {
        text: format!(
            "The root directory has files a and b and an empty directory d. A client sends a call, the server carries it out \
             and is restarted before the reply arrives, so that it has forgotten the call. The client sends it again. For \
             which of these calls does the second copy get an error although the first one succeeded? Give the numbers in \
             order, or none. (Each call by itself.)\n\n{}",
            picked
                .iter()
                .zip(1..)
                .map(|(call, n)| format!("  {n}. {call}"))
                .collect::<Vec<_>>()
                .join("\n")
        ),
        given: json!({"calls": picked}),
        parts: vec![Part::new("different", "Calls", answer)],
        hints: hints(&[
            "A call is idempotent if carrying it out twice does what carrying it out once does.",
            "What names a place and a value is; what makes or removes a name is not.",
        ]),
        known: None,
        attempt: Vec::new(),
    })
}

fn old_length(rng: &mut Rng) -> Made {
    let believed = rng.range(3, 30);
    let (change, look) = (rng.range(1, 40), rng.range(2, 60));
    if look <= change || look == believed {
        return old_length(rng);
    }
    let (old, new) = (1000 * rng.range(1, 9), 1000 * rng.range(10, 19));
    let bench = bench(VOLUME)?;
    bench.lines(&[format!("write f {old}"), "sync".into()])?;
    let settings = ClientSettings {
        attributes_ns: (believed * SECS, believed * SECS),
        ..ClientSettings::default()
    };
    let (_, client) = served(&bench, settings)?;
    let rt = bench.rt();
    let name = || Name::from(b"f".as_slice());
    let ino = entry(reply(rt, &client, Op::Lookup { dir: ROOT_INO, name: name() })?)?;
    let wait =
        |seconds: u64| rt.block_on(rt.sleep(seconds * SECS)).map_err(|_| "no time".to_string());
    let begun = rt.now();
    wait(change)?;
    bench.lines(&[format!("write f {new}")])?;
    let gone = (rt.now() - begun) / SECS;
    wait(look.saturating_sub(gone))?;
    let Reply::Attr(attr) = reply(rt, &client, Op::GetAttr { ino })? else {
        return Err("no attributes".into());
    };
    Ok(Question {
        text: format!(
            "A client believes the attributes of a file for {believed} seconds after the server has told them. At time 0 it \
             looks up f, which has {old} bytes. At {change} s another client, whose writes reach the server at once, makes it \
             {new} bytes long. At {look} s a program at the first client asks for the length (stat, the file is not opened). \
             Which length does it see, and does its question reach the server?"
        ),
        given: json!({"believed": believed, "change": change, "look": look, "old": old, "new": new}),
        parts: vec![
            Part::new("length", "Length", attr.size),
            Part::chosen(
                "asked",
                "It reaches the server",
                if attr.size == old { "no" } else { "yes" },
                &["yes", "no"],
            ),
        ],
        hints: hints(&[
            "Only the age of what the client knows counts, not when the file was changed.",
            "Opening the file would have asked the server: that is close-to-open consistency.",
        ]),
        known: None,
        attempt: Vec::new(),
    })
}
