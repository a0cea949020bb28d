//! sled, redb and SurrealKV: a key whose write was made durable is there, and the database opens.
//!
//! A program of its own, with sled = "=0.34.6", redb = "=4.1.0", surrealkv = "=0.21.2" and tokio (features "full") in its
//! Cargo.toml. It takes the store and what to do; of SurrealKV also the bytes after which a memtable is full, and keys:
//!
//! ```text
//! twinfs crashlab --check '/path/of/stores sled check' -- /path/of/stores sled run
//! twinfs crashlab --depth 2 --setup '/path/of/stores redb setup' --check '/path/of/stores redb check' -- \
//!     /path/of/stores redb run
//! twinfs crashlab --check '/path/of/stores surrealkv check' -- /path/of/stores surrealkv run 20000 200
//! ```

use std::fs::{OpenOptions, read_to_string};
use std::io::Write;

use redb::{Database, ReadableDatabase, TableDefinition};
use surrealkv::{Durability, Tree, TreeBuilder};

const TABLE: TableDefinition<&str, &[u8]> = TableDefinition::new("table");
const VALUE: &[u8] = &[b'v'; 300];

fn acknowledge(label: &str) {
    let file = std::env::var("CRASHLAB_ACK").unwrap();
    let mut file = OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(format!("{label}\n").as_bytes()).unwrap();
}

fn acknowledged() -> Vec<String> {
    let labels = read_to_string(std::env::var("CRASHLAB_ACKED").unwrap()).unwrap();
    labels.lines().map(String::from).collect()
}

fn surrealkv(memtable: usize) -> Tree {
    TreeBuilder::new().with_path("surreal".into()).with_max_memtable_size(memtable).build().unwrap()
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or| words.get(at).map_or(or, |word| word.parse().unwrap());
    match (words[0].as_str(), words[1].as_str()) {
        ("sled", "run") => {
            let db = sled::open("db").unwrap();
            for key in (0..4).map(|n| format!("key{n}")) {
                db.insert(&key, VALUE).unwrap();
                db.flush().unwrap();
                acknowledge(&key);
            }
            // Nothing is closed in order.
            std::process::exit(0);
        }
        ("sled", _) => {
            let db = sled::open("db").unwrap();
            for key in acknowledged() {
                assert!(db.get(&key).unwrap().is_some_and(|value| value == VALUE), "{key} is gone");
            }
        }
        ("surrealkv", "run") => {
            let tree = surrealkv(number(2, 100 << 20));
            for key in (0..number(3, 4)).map(|n| format!("key{n}")) {
                let mut transaction = tree.begin().unwrap().with_durability(Durability::Immediate);
                transaction.set(key.as_bytes(), VALUE).unwrap();
                transaction.commit().await.unwrap();
                acknowledge(&key);
            }
            std::process::exit(0);
        }
        ("surrealkv", _) => {
            let keys = acknowledged();
            if keys.is_empty() && !std::path::Path::new("surreal").exists() {
                return;
            }
            let tree = surrealkv(100 << 20);
            let transaction = tree.begin().unwrap();
            for key in keys {
                let value = transaction.get(key.as_bytes()).unwrap();
                assert!(value.is_some_and(|value| value.as_slice() == VALUE), "{key} is gone");
            }
        }
        (_, "setup") => drop(Database::create("db.redb").unwrap()),
        (_, "run") => {
            let db = Database::create("db.redb").unwrap();
            for key in (0..4).map(|n| format!("key{n}")) {
                let transaction = db.begin_write().unwrap();
                transaction.open_table(TABLE).unwrap().insert(&*key, VALUE).unwrap();
                transaction.commit().unwrap();
                acknowledge(&key);
            }
            std::process::exit(0);
        }
        _ => {
            let keys = acknowledged();
            let db = Database::create("db.redb").unwrap();
            for key in keys {
                let table = db.begin_read().unwrap().open_table(TABLE).unwrap();
                let value = table.get(&*key).unwrap();
                assert!(value.is_some_and(|value| value.value() == VALUE), "{key} is gone");
            }
        }
    }
}
