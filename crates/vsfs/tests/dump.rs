//! The dump shows a volume structure by structure, under the names of `docs/ondisk-vsfs.md`.

use std::rc::Rc;

use twin_disk::MemDisk;
use twin_fs::dump::{Column, Fields, Problem, Request, Sink, Value};
use twin_rt::{ClockOnly, Rt};
use vsfs::{MkfsOptions, VSFS, Vsfs};

#[derive(Default)]
struct DumpOutput {
    fields: Fields,
    rows: Vec<Vec<Value>>,
}

impl Sink for DumpOutput {
    fn fields(&mut self, _name: &str, _about: &str, fields: Fields) {
        self.fields.extend(fields);
    }
    fn begin(&mut self, _name: &str, _about: &str, _columns: &[Column]) {}
    fn row(&mut self, row: Vec<Value>) {
        self.rows.push(row);
    }
    fn end(&mut self) {}
    fn problem(&mut self, problem: Problem) {
        panic!("{problem}");
    }
}

#[test]
fn the_volume_of_the_book_is_shown_as_in_the_book() {
    let (rt, disk) = (Rt::new(ClockOnly::default(), 1), Rc::new(MemDisk::new(64 * 4096)));
    let options = MkfsOptions { bytes_per_inode: 3300, ..MkfsOptions::new([7; 16]) };
    rt.block_on(Vsfs::mkfs(&rt, Rc::clone(&disk) as _, &options)).unwrap().unwrap();
    let show = |structure, which| {
        let request = Request::parse(VSFS.structures(), structure, which).unwrap();
        let mut parts = DumpOutput::default();
        let dump = VSFS.dump(&rt, Rc::clone(&disk) as _, &request, &mut parts);
        rt.block_on(dump).unwrap().unwrap();
        parts
    };
    let regions = show("overview", None).rows;
    assert_eq!(regions[3][1..], [3, 5, 3].map(Value::Number), "the inode table");
    assert_eq!(regions[4][1..], [8, 56, 1].map(Value::Number), "data");
    let superblock = show("superblock", None).fields;
    assert!(superblock.contains(&("state", Value::Text("unmounted".into()))), "{superblock:?}");
    assert!(superblock.contains(&("inodes", Value::Number(80))), "{superblock:?}");
    let runs = show("bitmaps", None).rows;
    assert_eq!(runs[0][1..], [0, 3].map(Value::Number), "inodes 0 and 1, and the root");
    assert_eq!(show("inodes", None).rows.len(), 1);
    assert_eq!(show("dir", Some("/")).rows.len(), 2, "the dots");
    assert_eq!(show("inode", Some("2")).fields[0], ("ino", Value::Number(2)));
    assert_eq!(show("file-map", Some("2")).rows.len(), 1);
}
