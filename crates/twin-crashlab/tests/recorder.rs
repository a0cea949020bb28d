//! The history that a recorder keeps of a file system.

use std::cell::RefCell;
use std::rc::Rc;

use twin_crashlab::tree::ROOT;
use twin_crashlab::{Recorded, root_of};
use twin_disk::Bytes;
use twin_fs::{Data, FileSystem, Ino, Name, Op, ROOT_INO, RenameMode, Reply, Request};
use twin_model::{ModelFs, Mounted, Settings};
use twin_rt::{ClockOnly, Rt};

#[test]
fn operations_stand_in_their_order_with_acknowledgements_before_what_began_later() {
    let rt = Rt::new(ClockOnly::default(), 1);
    let model = ModelFs::new(Settings::default(), rt.now());
    let said: Rc<RefCell<Vec<String>>> = Rc::default();
    let heard = Rc::clone(&said);
    let acks = Box::new(move || std::mem::take(&mut *heard.borrow_mut()));
    let fs = Recorded::new(Mounted::new(rt.clone(), model), root_of(0, 0), acks);
    let ask = |op: Op| rt.block_on(fs.execute(Request::root(1, op))).unwrap();
    let name = |text: &str| Name::from(text.as_bytes());
    let create = |text: &str| -> Ino {
        let op = Op::Create { dir: ROOT_INO, name: name(text), mode: 0o644, exclusive: false };
        match ask(op).unwrap() {
            Reply::Entry(entry) => entry.attr.ino,
            other => panic!("{other:?}"),
        }
    };
    let a = create("a");
    let write = |ino, off, text: &[u8]| {
        ask(Op::Write { ino, off, data: Data::Bytes(Bytes::copy_of(text)) }).unwrap();
    };
    write(a, 0, b"one");
    // A file that exists is not made again.
    assert_eq!(create("a"), a);
    ask(Op::Fsync { ino: a, data_only: false }).unwrap();
    said.borrow_mut().push("promised".into());
    ask(Op::Append { ino: a, off: 0, data: Data::Bytes(Bytes::copy_of(b"two")) }).unwrap();
    assert!(ask(Op::Unlink { dir: ROOT_INO, name: name("none") }).is_err());
    let b = create("b");
    write(b, 0, b"b");
    let rename = Op::Rename {
        dir: ROOT_INO,
        name: name("b"),
        to_dir: ROOT_INO,
        to_name: name("a"),
        mode: RenameMode::Replace,
    };
    ask(rename).unwrap();
    let history = fs.cut();
    let words: Vec<String> = history.events.iter().map(|event| event.words()).collect();
    let expected = [
        "create a",
        "append a: 3 bytes at 0",
        "fsync a",
        "ack promised",
        "append a: 3 bytes at 3",
        "create b",
        "append b: 1 bytes at 0",
        "rename b to a, which existed",
    ];
    assert_eq!(words, expected);
    let last = history.last();
    assert_eq!(last.bytes(last.find(ROOT, b"a").unwrap()), b"b");
    assert_eq!(last.find(ROOT, b"b"), None);
    // The next history begins with that.
    assert_eq!(fs.cut().base.digest(), last.digest());
}
