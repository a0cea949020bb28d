//! Messages made by hand after the definitions of the RFCs.

use super::*;

const V3: u32 = 3;

fn target(version: u32, procedure: u32) -> Target {
    Target { program: PROGRAM, version, procedure }
}

/// Words and strings, encoded.
#[derive(Default)]
struct Encoded(Vec<u8>);

impl Encoded {
    fn words(mut self, words: &[u32]) -> Encoded {
        self.0.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        self
    }

    fn string(mut self, bytes: &[u8]) -> Encoded {
        self = self.words(&[bytes.len() as u32]);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Encoded {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Attributes of version 3 of a regular file of this length.
    fn attr(self, kind: u32, size: u32) -> Encoded {
        self.words(&[kind, 0o640, 1, 7, 8, 0, size, 0, 4096, 0, 0, 0, 1, 0, 99]).words(&[0; 6])
    }
}

const FILE: &[u8] = b"handle-1";

#[test]
fn reads_and_writes_have_their_ranges() {
    let arguments = Encoded::default().string(FILE).words(&[1, 2, 4096]).0;
    let read = call(target(V3, 6), &arguments).unwrap();
    let off = (1 << 32) + 2;
    assert_eq!(read, Call::Read { file: FILE.into(), off, len: 4096 });
    let results = Encoded::default().words(&[0, 1]).attr(1, 5000).words(&[100, 1]).0;
    let answer_ = answer(target(V3, 6), &read, &results).unwrap();
    let attr =
        Attr { mode: mode::REGULAR | 0o640, nlink: 1, uid: 7, gid: 8, size: 5000, used: 4096 };
    assert_eq!((answer_.count, answer_.attr), (Some(100), Some(attr)));

    // The data of a write need not be there.
    let arguments = Encoded::default().string(FILE).words(&[0, 512, 1000, 2]).0;
    let write = call(target(V3, 7), &arguments).unwrap();
    assert_eq!(write, Call::Write { file: FILE.into(), off: 512, len: 1000, stable: true });
    let before = Encoded::default().words(&[0, 1, 0, 512, 0, 0, 0, 0, 1]);
    let results = before.attr(1, 1512).words(&[1000, 2, 0, 0]).0;
    let answer_ = answer(target(V3, 7), &write, &results).unwrap();
    assert_eq!((answer_.size_before, answer_.count), (Some(512), Some(1000)));
    assert_eq!(answer_.attr.unwrap().size, 1512);
}

#[test]
fn a_cut_answer_is_used_as_far_as_it_goes() {
    let lookup = Call::Lookup { dir: FILE.into(), name: b"a"[..].into() };
    let results = Encoded::default().words(&[0]).string(b"found").words(&[1]).attr(2, 1).0;
    for len in 0..=results.len() {
        let answer = answer(target(V3, 3), &lookup, &results[..len]);
        assert_eq!(answer.is_some(), len >= 4, "{len}");
        if let Some(answer) = answer {
            assert_eq!(answer.handle.is_some(), len >= 16, "{len}");
            assert_eq!(answer.attr.is_some(), len == results.len(), "{len}");
        }
    }
}

#[test]
fn numbers_that_the_protocol_does_not_have_are_malformed() {
    let get = Call::GetAttr { file: FILE.into() };
    assert!(answer(target(V3, 1), &get, &Encoded::default().words(&[0]).attr(8, 1).0).is_none());
    assert!(answer(target(V3, 1), &get, &Encoded::default().words(&[3]).0).is_none());
    assert!(answer(target(V3, 1), &get, &Encoded::default().words(&[70]).0).is_some());
    let write = Encoded::default().string(FILE).words(&[0, 0, 10, 3]).0;
    assert!(call(target(V3, 7), &write).is_none());
    let set = Encoded::default().string(FILE).words(&[0, 0, 0, 0, 3, 0, 0]).0;
    assert!(call(target(V3, 2), &set).is_none());
    assert!(call(target(V3, 22), &[]).is_none());
    assert!(call(target(4, 1), &write).is_none());
}

#[test]
fn creations_tell_type_mode_and_length() {
    let set = [1, 0o600, 0, 0, 1, 0, 0, 0, 0];
    let arguments = Encoded::default().string(FILE).string(b"new").words(&[0]).words(&set).0;
    let Some(Call::Create { mode, exclusive, size, name, .. }) = call(target(V3, 8), &arguments)
    else {
        panic!("no creation")
    };
    assert_eq!((mode, exclusive, size), (mode::REGULAR | 0o600, false, Some(0)));
    assert_eq!(&*name, b"new");
    let arguments = Encoded::default().string(FILE).string(b"new").words(&[2, 1, 2]).0;
    let exclusive = call(target(V3, 8), &arguments).unwrap();
    assert!(matches!(exclusive, Call::Create { exclusive: true, size: None, .. }));
    let link = Encoded::default().string(FILE).string(b"l").words(&[0; 6]).string(b"to").0;
    let Some(Call::Create { mode, target: to, .. }) = call(target(V3, 10), &link) else {
        panic!("no link")
    };
    assert_eq!((mode & mode::TYPE, &*to), (mode::SYMLINK, &b"to"[..]));
}

#[test]
fn a_listing_with_attributes_has_handles() {
    let dir = Call::ReadDir { dir: FILE.into(), cookie: 0, bytes: 4096, plus: true };
    let one = Encoded::default().words(&[0, 0, 0, 0, 1, 0, 5]).string(b"one").words(&[0, 1, 1]);
    let two = one.attr(1, 10).words(&[1]).string(b"h1").words(&[1, 0, 6]).string(b"two");
    let results = two.words(&[0, 2, 0, 0, 0, 1]).0;
    let answer = answer(target(V3, 17), &dir, &results).unwrap();
    let names: Vec<_> = answer.entries.iter().map(|e| (&*e.name, e.handle.is_some())).collect();
    assert_eq!(names, [(&b"one"[..], true), (&b"two"[..], false)]);
}

#[test]
fn version_2_means_the_same_in_other_words() {
    let file = [9; 32];
    let read = Encoded::default().bytes(&file).words(&[512, 100, 0]).0;
    let read = call(target(2, 6), &read).unwrap();
    assert_eq!(read, Call::Read { file: file.into(), off: 512, len: 100 });
    let attr = [1, 0o100_644, 1, 7, 8, 600, 4096, 0, 2, 1, 99, 0, 0, 0, 0, 0, 0];
    let results = Encoded::default().words(&[0]).words(&attr).string(&[1; 88]).0;
    let answer_ = answer(target(2, 6), &read, &results).unwrap();
    assert_eq!((answer_.count, answer_.attr.unwrap().size), (Some(88), 600));
    assert_eq!(answer_.attr.unwrap().mode, mode::REGULAR | 0o644);

    let create = Encoded::default().bytes(&file).string(b"new");
    let create = create.words(&[0o600, u32::MAX, u32::MAX, 0, u32::MAX, 0, u32::MAX, 0]).0;
    let create = call(target(2, 9), &create).unwrap();
    assert!(matches!(create, Call::Create { size: Some(0), exclusive: false, .. }));
    let results = Encoded::default().words(&[0]).bytes(&[8; 32]).words(&attr).0;
    assert_eq!(answer(target(2, 9), &create, &results).unwrap().handle, Some([8; 32].into()));
    let write = Encoded::default().bytes(&file).words(&[0, 7, 0]).string(b"data").0;
    let write = call(target(2, 8), &write).unwrap();
    assert_eq!(write, Call::Write { file: file.into(), off: 7, len: 4, stable: true });
}

#[test]
fn any_bytes_are_survived() {
    let mut rng = twin_rt::Rng::new(1);
    for _ in 0..20_000 {
        let mut bytes = vec![0; rng.below(120) as usize];
        for byte in &mut bytes {
            // Small numbers get further.
            *byte = if rng.below(3) > 0 { 0 } else { rng.below(256) as u8 >> rng.below(8) };
        }
        let target = target(2 + rng.below(2) as u32, rng.below(23) as u32);
        if let Some(call) = call(target, &bytes) {
            answer(target, &call, &bytes);
        }
    }
}
