//! SurrealKV: a key whose transaction was committed with Durability::Immediate is there, and the store opens.
//!
//! A program of its own, with surrealkv = "=0.21.2" and tokio (features "full") in its Cargo.toml. A memtable of the
//! given bytes is written to a table when it is full; by default none is.
//!
//! ```text
//! twinfs crashlab --check '/path/of/skv check' -- /path/of/skv run [MEMTABLE [KEYS]]
//! ```

use std::fs::{OpenOptions, read_to_string};
use std::io::Write;

use surrealkv::{Durability, Tree, TreeBuilder};

const VALUE: &[u8] = &[b'v'; 300];

fn open(memtable: usize) -> Tree {
    TreeBuilder::new().with_path("db".into()).with_max_memtable_size(memtable).build().unwrap()
}

fn acknowledge(label: &str) {
    let file = std::env::var("CRASHLAB_ACK").unwrap();
    let mut file = OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(format!("{label}\n").as_bytes()).unwrap();
}

fn acknowledged() -> Vec<String> {
    let labels = read_to_string(std::env::var("CRASHLAB_ACKED").unwrap()).unwrap();
    labels.lines().map(String::from).collect()
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or| words.get(at).map_or(or, |word| word.parse().unwrap());
    if words[0] == "run" {
        let tree = open(number(1, 100 << 20));
        for key in (0..number(2, 4)).map(|n| format!("key{n}")) {
            let mut transaction = tree.begin().unwrap().with_durability(Durability::Immediate);
            transaction.set(key.as_bytes(), VALUE).unwrap();
            transaction.commit().await.unwrap();
            acknowledge(&key);
        }
        // Nothing is closed in order.
        std::process::exit(0);
    }
    let keys = acknowledged();
    if keys.is_empty() && !std::path::Path::new("db").exists() {
        return;
    }
    let tree = open(100 << 20);
    let transaction = tree.begin().unwrap();
    for key in keys {
        let value = transaction.get(key.as_bytes()).unwrap();
        assert!(value.is_some_and(|value| value.as_slice() == VALUE), "{key} is gone");
    }
}
