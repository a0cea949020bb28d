use std::path::PathBuf;

use super::*;

// What the superblocks of our layouts begin with: not to change for as long as there are volumes.
const LFS_MAGIC: &[u8] = b"twinlfs1";
const FFS_MAGIC: &[u8] = b"twinffs1";

/// A file that goes with this value.
struct Scratch(PathBuf, File);

impl Scratch {
    fn new(name: &str, size: u64) -> Scratch {
        let path =
            std::env::temp_dir().join(format!("twinfs-content-{}-{name}", std::process::id()));
        let options = File::options().read(true).write(true).create(true).truncate(true).to_owned();
        let file = options.open(&path).unwrap();
        file.set_len(size).unwrap();
        Scratch(path, file)
    }

    fn put(self, at: u64, bytes: &[u8]) -> Scratch {
        self.1.write_all_at(bytes, at).unwrap();
        self
    }

    fn content(&self) -> Content {
        of(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn zeros_and_holes_are_blank_and_a_file_of_no_bytes_is_empty() {
    assert_eq!(Scratch::new("none", 0).content(), Content::Empty);
    assert_eq!(Scratch::new("sparse", 1 << 40).content(), Content::Blank);
    let written = Scratch::new("zeros", 3 << 20).put(0, &vec![0; 3 << 20]);
    assert_eq!(written.content(), Content::Blank);
    assert_eq!(of(Path::new("/")), None);
    assert_eq!(of(Path::new("/dev/null")), None);
}

/// Data far inside a sparse file was not seen by a look at its first block alone.
#[test]
fn a_byte_anywhere_in_a_sparse_file_is_found() {
    for at in [511, (1 << 20) + 7, 777_777_777, (8 << 30) - 1] {
        let file = Scratch::new("byte", 8 << 30).put(at, &[1]);
        assert_eq!(file.content(), Content::Unknown(at));
    }
    // More data than is read in full: zeros with a sample's length of something else.
    let size = ALL_BYTES + (32 << 20);
    let zeros = Scratch::new("much", size).put(0, &vec![0; size as usize]);
    assert_eq!(zeros.content(), Content::Blank);
    let data = vec![7; (size / SAMPLES + SAMPLE_BYTES) as usize];
    let much = zeros.put(50_000_000, &data);
    assert!(matches!(much.content(), Content::Unknown(at) if at >= 50_000_000));
}

#[test]
fn own_volumes_are_known_by_their_superblock_or_a_copy_of_it() {
    let size = 16 << 20;
    assert_eq!(Scratch::new("lfs", size).put(0, LFS_MAGIC).content(), Content::Volume("lfs"));
    assert_eq!(Scratch::new("ffs", size).put(0, FFS_MAGIC).content(), Content::Volume("ffs"));
    // The first superblock is gone; the file is no multiple of a sector.
    let copy = Scratch::new("copy", size + 100).put(0, &[9; 64]).put(size - 4096, LFS_MAGIC);
    assert_eq!(copy.content(), Content::Volume("lfs"));
    let replica = Scratch::new("replica", size).put(0, &[9; 64]).put(5 << 20, FFS_MAGIC);
    assert_eq!(replica.content(), Content::Volume("ffs"));
}

#[test]
fn what_is_known_is_named() {
    type Bytes = &'static [u8];
    let cases: &[(&[(u64, Bytes)], &str)] = &[
        (&[(0, b"XFSB")], "an XFS file system"),
        (&[(0, b"PK\x03\x04...")], "a zip archive"),
        (&[(257, b"ustar\x0000")], "a tar archive"),
        (&[(0, b"%PDF-1.7")], "a PDF document"),
        (&[(4086, b"SWAPSPACE2")], "swap space"),
        (&[(512, b"EFI PART"), (510, b"\x55\xaa")], "a GPT partition table"),
        (&[((8 << 20) - 512, b"EFI PART")], "a GPT partition table"),
        (&[(450, b"\x83"), (510, b"\x55\xaa")], "an MBR partition table"),
        (&[(0, b"\xeb\x3c\x90"), (510, b"\x55\xaa")], "a boot sector"),
        (&[(512, b"LABELONE"), (536, b"LVM2 001")], "an LVM physical volume"),
    ];
    for (bytes, name) in cases {
        let blank = Scratch::new("known", 8 << 20);
        let file = bytes.iter().fold(blank, |file, (at, bytes)| file.put(*at, bytes));
        assert_eq!(file.content(), Content::Known(name));
    }
    let text = Scratch::new("text", 0).put(0, "Dear Grüße\n".as_bytes());
    assert_eq!(text.content(), Content::Text);
}

#[test]
fn all_marks_of_others_are_found_copies_included() {
    let btrfs = Scratch::new("marks", 80 << 20).put(65536 + 64, b"_BHRfS_M");
    let btrfs = btrfs.put((64 << 20) + 64, b"_BHRfS_M").put(0, FFS_MAGIC);
    let btrfs = btrfs.put((80 << 20) - 4096, LFS_MAGIC);
    assert_eq!(marks(&btrfs.0).unwrap(), [65536 + 64, (64 << 20) + 64, (80 << 20) - 4096]);
}

/// Two bytes are not much: a random file is not to be called a file system.
#[test]
fn random_data_is_hardly_ever_named() {
    let mut rng = twin_rt::Rng::stream(1, "random files");
    let mut named = 0;
    for _ in 0..400 {
        let bytes: Vec<u8> = (0..2048).map(|_| rng.below(256) as u8).collect();
        named += u32::from(!matches!(
            Scratch::new("random", 1 << 20).put(0, &bytes).content(),
            Content::Unknown(_)
        ));
    }
    assert!(named <= 2, "{named} of 400");
}
