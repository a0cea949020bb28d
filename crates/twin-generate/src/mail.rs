//! `mail`: mailboxes of one file a message, and news groups that expire.
//!
//! Each client is a mailbox (or group) that is kept at a certain number of messages. Mail arrives
//! as in a Maildir: a message is written under `tmp`, made durable and renamed to `new`; it is read
//! after a listing of `new` and renamed to `cur`; later any message may be deleted. News is written
//! without fsync under rising numbers and deleted in batches, oldest first.

use std::collections::VecDeque;

use twin_fs::{Ino, Op, ROOT_INO};
use twin_settings::{Param, RegistryEntry, Unit, Values};
use twin_trace::{DirOutcome, Node, Outcome, Source};

use crate::Kind;
use crate::script::{Burst, FIRST_INO, Script, Scripted, log_normal, mix, node};

pub(crate) const ENTRY: RegistryEntry<Kind> = RegistryEntry::new(
    "mail",
    "mailboxes and news groups: small files made durable, renamed, read, expired",
    Kind {
        params: &[
            Param::new(
                "messages",
                "10000",
                Unit::number(1, u64::MAX),
                "messages that come for each client",
            ),
            Param::new(
                "keep",
                "500",
                Unit::number(1, 1 << 20),
                "messages that each client has at the start",
            ),
            Param::new("bytes", "4000", Unit::bytes(1, 1 << 26), "median size of a message"),
            Param::new("news", "0%", Unit::Percent(100), "how many of the clients are news groups"),
            Param::new("read", "70%", Unit::Percent(100), "messages that are read after they came"),
        ],
        stands_for: None,
        start,
    },
);

/// The number of directories of a client: its own and the three in it.
const DIRS: u64 = 4;
/// The number of articles that expire at a time.
const EXPIRED: usize = 50;

struct Mail {
    seed: u64,
    messages: u64,
    keep: u64,
    bytes: f64,
    read: f64,
    /// Clients below this number are news groups.
    groups: u64,
    clients: Vec<Client>,
}

#[derive(Default)]
struct Client {
    came: u64,
    /// The messages in `cur`, oldest first.
    kept: VecDeque<Message>,
    /// The messages in `new`.
    unread: VecDeque<Message>,
}

#[derive(Clone, Copy)]
struct Message {
    number: u64,
    ino: Ino,
    size: u64,
    /// References that the client holds, one for each entry that it was given.
    refs: u64,
}

impl Message {
    fn find(&mut self, dir: Ino, name: &[u8], out: &mut Burst) {
        out.lookup(dir, name, self.ino);
        self.refs += 1;
    }

    fn remove(mut self, dir: Ino, name: &[u8], out: &mut Burst) {
        self.find(dir, name, out);
        out.unlink(dir, name);
        out.forget(self.ino, self.refs);
    }

    fn read(&self, out: &mut Burst) {
        out.open(self.ino, false);
        out.read_whole(self.ino, self.size);
        out.release(self.ino);
    }
}

fn start(values: Values, seed: u64) -> Box<dyn Source> {
    let clients = values.number("clients");
    let mut mail = Mail {
        seed,
        messages: values.number("messages"),
        keep: values.number("keep"),
        bytes: values.number("bytes") as f64,
        read: values.number("read") as f64 / 100.0,
        groups: clients * values.number("news") / 100,
        clients: Vec::new(),
    };
    for client in 0..clients {
        let kept = (0..mail.keep).map(|number| {
            let index = client * mail.per_client() + DIRS + number;
            Message { number, ino: FIRST_INO + index, size: mail.initial_size(index), refs: 0 }
        });
        let kept = kept.collect();
        mail.clients.push(Client { came: 0, kept, unread: VecDeque::new() });
    }
    Scripted::start(ENTRY.name, mail, &values, seed)
}

fn message_name(client: usize, number: u64) -> Vec<u8> {
    format!("{}.M{number}P{client}.host", 1_000_000_000 + number * 37).into_bytes()
}

fn read_name(client: usize, number: u64) -> Vec<u8> {
    [message_name(client, number), b":2,S".to_vec()].concat()
}

fn article_name(number: u64) -> Vec<u8> {
    format!("{}", number + 1).into_bytes()
}

impl Mail {
    fn per_client(&self) -> u64 {
        DIRS + self.keep
    }

    fn initial_size(&self, index: u64) -> u64 {
        let mut rng = twin_rt::Rng::new(mix(self.seed, index));
        log_normal(&mut rng, self.bytes, 1.2, 1 << 26)
    }

    /// The inode numbers of a client's directories: its own, `tmp`, `new`, `cur`.
    fn dirs(&self, client: usize) -> [Ino; DIRS as usize] {
        let first = FIRST_INO + client as u64 * self.per_client();
        std::array::from_fn(|i| first + i as u64)
    }

    fn is_group(&self, client: usize) -> bool {
        (client as u64) < self.groups
    }

    fn deliver(&mut self, client: usize, number: u64, out: &mut Burst) {
        let [_, tmp, new, _] = self.dirs(client);
        let name = message_name(client, number);
        let size = log_normal(&mut out.rng, self.bytes, 1.2, 1 << 26);
        out.miss(tmp, &name);
        let ino = out.create(tmp, &name);
        out.write_whole(ino, size, 64 << 10);
        out.fsync(ino, false);
        out.release(ino);
        out.rename(tmp, &name, new, &name);
        self.clients[client].unread.push_back(Message { number, ino, size, refs: 1 });
    }

    /// Lists the new messages and reads one of them.
    fn read(&mut self, client: usize, out: &mut Burst) {
        let [_, _, new, cur] = self.dirs(client);
        let unread = &mut self.clients[client].unread;
        let entries = unread.len() as u32 + 2;
        list(new, entries, out);
        let Some(mut message) = unread.pop_front() else { return };
        let name = read_name(client, message.number);
        out.rename(new, &message_name(client, message.number), cur, &name);
        message.find(cur, &name, out);
        message.read(out);
        self.clients[client].kept.push_back(message);
    }

    fn delete(&mut self, client: usize, out: &mut Burst) {
        let cur = self.dirs(client)[3];
        let kept = &mut self.clients[client].kept;
        let chosen = out.rng.below(kept.len() as u64) as usize;
        if let Some(message) = kept.remove(chosen) {
            message.remove(cur, &read_name(client, message.number), out);
        }
    }

    fn post(&mut self, client: usize, number: u64, out: &mut Burst) {
        let group = self.dirs(client)[0];
        let size = log_normal(&mut out.rng, self.bytes, 1.2, 1 << 26);
        let ino = out.create(group, &article_name(number));
        out.write_whole(ino, size, 64 << 10);
        out.release(ino);
        let kept = &mut self.clients[client].kept;
        kept.push_back(Message { number, ino, size, refs: 1 });
        if kept.len() as u64 >= self.keep + EXPIRED as u64 {
            for message in kept.drain(..EXPIRED) {
                message.remove(group, &article_name(message.number), out);
            }
        } else if out.rng.chance(self.read) {
            let pick = out.rng.below(kept.len() as u64) as usize;
            let message = &mut kept[pick];
            message.find(group, &article_name(message.number), out);
            message.read(out);
        }
    }
}

/// Lists a directory completely.
fn list(dir: Ino, entries: u32, out: &mut Burst) {
    let max_bytes = 32 << 10;
    let next = u64::from(entries);
    let some = DirOutcome { entries, next, referenced: Vec::new() };
    out.op(Op::ReadDir { dir, cookie: 0, max_bytes, plus: false }, Outcome::Dir(some));
    let none = Outcome::Dir(DirOutcome::default());
    out.op(Op::ReadDir { dir, cookie: next, max_bytes, plus: false }, none);
}

impl Script for Mail {
    fn nodes(&self) -> u64 {
        self.clients.len() as u64 * self.per_client()
    }

    fn node(&mut self, index: u64) -> Node {
        let (client, place) = (index / self.per_client(), index % self.per_client());
        let group = self.is_group(client as usize);
        let [own, _, _, cur] = self.dirs(client as usize);
        if place == 0 {
            let name = format!("{}{client}", if group { "group" } else { "box" });
            return node(index, ROOT_INO, name.into_bytes(), None);
        }
        if place < DIRS {
            let name = ["tmp", "new", "cur"][place as usize - 1];
            return node(index, own, name.as_bytes(), None);
        }
        let number = place - DIRS;
        let size = Some(self.initial_size(index));
        match group {
            true => node(index, own, article_name(number), size),
            false => node(index, cur, read_name(client as usize, number), size),
        }
    }

    fn burst(&mut self, client: usize, out: &mut Burst) -> bool {
        let came = self.clients[client].came;
        if came == self.messages {
            return false;
        }
        self.clients[client].came += 1;
        let number = self.keep + came;
        if self.is_group(client) {
            self.post(client, number, out);
            return true;
        }
        self.deliver(client, number, out);
        if out.rng.chance(self.read) {
            self.read(client, out);
        }
        if self.clients[client].kept.len() as u64 > self.keep {
            self.delete(client, out);
        }
        true
    }
}
