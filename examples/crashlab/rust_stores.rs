//! sled and redb: a key whose write was made durable is there, and the database opens.
//!
//! A program of its own, with sled = "=0.34.6" and redb = "=4.1.0" in its Cargo.toml. It takes the store and what to do:
//!
//! ```text
//! twinfs crashlab --check '/path/of/stores sled check' -- /path/of/stores sled run
//! twinfs crashlab --depth 2 --setup '/path/of/stores redb setup' --check '/path/of/stores redb check' -- \
//!     /path/of/stores redb run
//! ```

use std::fs::{OpenOptions, read_to_string};
use std::io::Write;

use redb::{Database, ReadableDatabase, TableDefinition};

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

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
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
