use std::cell::RefCell;

use twin_fs::{Cred, ROOT_INO, RenameMode};
use twin_model::{ModelFs, Settings};
use twin_rt::{ClockOnly, Time};

use super::*;

/// A mount whose answers are the model's, with the requests that it got.
struct Mount {
    model: RefCell<ModelFs>,
    asked: RefCell<Vec<Op>>,
}

impl FileSystem for Mount {
    async fn execute(&self, request: Request) -> Result<Reply, FsError> {
        self.asked.borrow_mut().push(request.op.clone());
        self.model.borrow_mut().apply(Time(0), &request)
    }
}

/// A kernel before an empty mount, and what its clients ask.
struct Bench {
    rt: Rt,
    kernel: Kernel<Mount>,
}

impl Bench {
    fn new() -> Bench {
        let rt = Rt::new(ClockOnly::default(), 1);
        let model = RefCell::new(ModelFs::new(Settings::default(), Time(0)));
        let mount = Mount { model, asked: RefCell::default() };
        Bench { kernel: Kernel::new(&rt, mount), rt }
    }

    fn run(&self, op: Op) -> Result<Reply, FsError> {
        let request = Request { id: 1, client: 0, cred: Cred::root(), op };
        self.rt.block_on(self.kernel.execute(request)).unwrap()
    }

    fn create(&self, name: &str) -> Ino {
        let name = name.as_bytes().into();
        let made = self.run(Op::Create { dir: ROOT_INO, name, mode: 0o644, exclusive: false });
        let Ok(Reply::Entry(entry)) = made else { panic!("{made:?}") };
        entry.attr.ino
    }

    fn write(&self, ino: Ino, off: u64, len: u64) {
        self.run(Op::Write { ino, off, data: Data::Synthetic(len) }).unwrap();
    }

    /// Lets `ms` milliseconds pass.
    fn pass(&self, ms: u64) {
        self.rt.block_on(self.rt.sleep(ms * twin_rt::MILLIS)).unwrap();
    }

    /// The requests that the mount got since the last call.
    fn asked(&self) -> Vec<Op> {
        self.kernel.inner.asked.take()
    }

    fn size_behind(&self, ino: Ino) -> Option<u64> {
        self.kernel.inner.model.borrow().attr(ino).map(|attr| attr.size)
    }
}

#[test]
fn writes_are_collected_until_the_file_is_closed() {
    let bench = Bench::new();
    let ino = bench.create("a");
    bench.asked();
    bench.pass(5);
    (0..100).for_each(|i| bench.write(ino, i * 1000, 1000));
    let name = b"security.capability".as_slice().into();
    assert_eq!(bench.asked(), [Op::GetXattr { ino, name }], "once");
    bench.run(Op::Release { ino }).unwrap();
    let asked = bench.asked();
    let data = Data::Synthetic(100_000);
    assert_eq!(asked[0], Op::WriteBack { ino, off: 0, data });
    assert!(matches!(asked[1], Op::SetAttr { .. }), "its times follow");
    assert_eq!(bench.size_behind(ino), Some(100_000));
}

#[test]
fn a_long_file_becomes_requests_of_a_mebibyte() {
    let bench = Bench::new();
    let ino = bench.create("a");
    bench.write(ino, 0, 3 << 20);
    bench.asked();
    bench.run(Op::Fsync { ino, data_only: false }).unwrap();
    let asked = bench.asked();
    let writes = asked.iter().filter(|op| matches!(op, Op::WriteBack { .. }));
    assert_eq!(writes.count(), 3);
    assert!(matches!(asked.last(), Some(Op::Fsync { .. })), "fsync comes after the data");
}

#[test]
fn what_was_read_is_not_asked_for_again_and_a_sequential_reader_finds_the_next_pages() {
    let bench = Bench::new();
    let ino = bench.create("a");
    bench.write(ino, 0, 4 << 20);
    bench.rt.block_on(bench.kernel.write_out()).unwrap().unwrap();
    bench.kernel.drop_caches();
    bench.run(Op::Read { ino, off: 0, len: 4096 }).unwrap();
    bench.asked();
    bench.run(Op::Read { ino, off: 0, len: 4096 }).unwrap();
    assert_eq!(bench.asked(), [], "it is there");
    bench.run(Op::Read { ino, off: 4096, len: 4096 }).unwrap();
    bench.run(Op::Read { ino, off: 8192, len: 4096 }).unwrap();
    let asked = bench.asked();
    assert!(asked.len() <= 2, "{asked:?}");
}

#[test]
fn a_page_that_is_written_in_part_is_read_first_unless_it_is_new() {
    let bench = Bench::new();
    let ino = bench.create("a");
    bench.write(ino, 0, 8192);
    bench.rt.block_on(bench.kernel.write_out()).unwrap().unwrap();
    bench.kernel.drop_caches();
    bench.asked();
    bench.write(ino, 100, 10);
    assert!(bench.asked().contains(&Op::Read { ino, off: 0, len: 4096 }));
    bench.write(ino, 8192, 10);
    bench.write(ino, 4096, 4096);
    assert!(!bench.asked().iter().any(|op| matches!(op, Op::Read { .. })));
}

#[test]
fn names_are_kept_and_so_is_that_there_is_none() {
    let bench = Bench::new();
    let ino = bench.create("a");
    bench.asked();
    let lookup = |name: &str| bench.run(Op::Lookup { dir: ROOT_INO, name: name.as_bytes().into() });
    assert!(matches!(lookup("a"), Ok(Reply::Entry(entry)) if entry.attr.ino == ino));
    assert_eq!(bench.asked(), [Op::GetAttr { ino: ROOT_INO }], "its names have changed");
    assert_eq!(lookup("b"), Err(FsError::NotFound));
    assert_eq!(lookup("b"), Err(FsError::NotFound));
    assert_eq!(bench.asked().len(), 1);
    let (name, to_name) = (b"a".as_slice().into(), b"b".as_slice().into());
    let (dir, to_dir, mode) = (ROOT_INO, ROOT_INO, RenameMode::default());
    bench.run(Op::Rename { dir, name, to_dir, to_name, mode }).unwrap();
    bench.asked();
    assert!(matches!(lookup("b"), Ok(Reply::Entry(entry)) if entry.attr.ino == ino));
    assert_eq!(lookup("a"), Err(FsError::NotFound));
    assert_eq!(bench.asked(), [Op::GetAttr { ino: ROOT_INO }]);
}

/// What Linux was seen to ask a mount: `cargo xtask e2e kernel`.
#[test]
fn a_small_file_from_its_creation_to_its_end_makes_nine_requests() {
    let bench = Bench::new();
    bench.create("before");
    bench.asked();
    let ino = bench.create("a");
    bench.write(ino, 0, 1000);
    bench.run(Op::Release { ino }).unwrap();
    bench.run(Op::Unlink { dir: ROOT_INO, name: b"a".as_slice().into() }).unwrap();
    bench.run(Op::Forget { ino, count: 1 }).unwrap();
    let asked: Vec<String> = bench
        .asked()
        .iter()
        .filter(|op| !matches!(op, Op::Release { .. }))
        .map(|op| format!("{op:?}").split([' ', '(']).next().unwrap_or_default().to_owned())
        .collect();
    let expected = [
        "GetAttr",
        "Lookup",
        "Create",
        "GetXattr",
        "WriteBack",
        "GetAttr",
        "Unlink",
        "SetAttr",
        "Forget",
    ];
    assert_eq!(asked, expected);
}

#[test]
fn a_file_that_is_removed_before_it_is_closed_is_never_written() {
    let bench = Bench::new();
    let ino = bench.create("a");
    bench.write(ino, 0, 1 << 20);
    bench.run(Op::Unlink { dir: ROOT_INO, name: b"a".as_slice().into() }).unwrap();
    bench.run(Op::Release { ino }).unwrap();
    bench.run(Op::Forget { ino, count: 1 }).unwrap();
    let asked = bench.asked();
    assert!(!asked.iter().any(|op| matches!(op, Op::WriteBack { .. })), "{asked:?}");
    assert_eq!(bench.size_behind(ino), None, "the inode is given back");
}

#[test]
fn a_client_sees_the_size_of_what_it_wrote() {
    let bench = Bench::new();
    let ino = bench.create("a");
    bench.write(ino, 0, 5000);
    let Ok(Reply::Attr(attr)) = bench.run(Op::GetAttr { ino }) else { panic!() };
    assert_eq!(attr.size, 5000);
    let set = SetAttr { size: Some(100), ..SetAttr::default() };
    bench.run(Op::SetAttr { ino, set }).unwrap();
    let Ok(Reply::Attr(attr)) = bench.run(Op::GetAttr { ino }) else { panic!() };
    assert_eq!((attr.size, bench.size_behind(ino)), (100, Some(100)));
    let Ok(Reply::Data(read)) = bench.run(Op::Read { ino, off: 0, len: 4096 }) else { panic!() };
    assert_eq!(read.iter().map(|block| block.len()).sum::<usize>(), 100);
}
