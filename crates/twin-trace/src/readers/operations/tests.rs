use twin_fs::{Data, Op};

use super::*;

/// The records of a table, and what its reader assumed.
fn read(text: &'static str) -> Result<(Vec<Record>, Reading), TraceError> {
    let mut source = open(Again::new(move || Ok(text.as_bytes())))?;
    let mut records = Vec::new();
    while let Some(record) = source.next_record()? {
        records.push(record);
    }
    Ok((records, source.reading()))
}

fn requests(text: &'static str) -> Vec<Op> {
    let records = read(text).unwrap().0.into_iter();
    records
        .filter_map(|record| match record {
            Record::Request { request, .. } => Some(request.op),
            _ => None,
        })
        .collect()
}

fn nodes(text: &'static str) -> Vec<(String, bool, u64)> {
    let records = read(text).unwrap().0.into_iter();
    records
        .filter_map(|record| match record {
            Record::Node(node) => {
                let size = node.attr.map_or(0, |attr| attr.size);
                Some((String::from_utf8_lossy(&node.name).into(), node.is_dir(), size))
            }
            _ => None,
        })
        .collect()
}

fn why(text: &'static str) -> String {
    read(text).err().unwrap().to_string()
}

#[test]
fn a_file_is_made_and_opened_by_its_first_write_and_appended_to() {
    let ops =
        requests("op,path,length\nmkdir,d,\nwrite,d/a,100\nwrite,d/a,50\nfsync,d/a,\nclose,d/a,\n");
    let written: Vec<_> =
        ops.iter().filter_map(|op| op.written().map(|(_, off, data)| (off, data.len()))).collect();
    assert_eq!(written, [(0, 100), (100, 50)]);
    let creates = ops.iter().filter(|op| matches!(op, Op::Create { .. })).count();
    assert_eq!(creates, 1);
    assert!(matches!(ops[ops.len() - 1], Op::Release { .. }), "{ops:?}");
    assert!(matches!(ops[ops.len() - 2], Op::Fsync { .. }), "{ops:?}");
}

#[test]
fn what_is_used_before_it_is_made_existed_before_with_the_length_that_is_read() {
    let text = "op,path,to,offset,length\n\
                read,d/e/old,,4096,100\n\
                read,d/e/old,,0,10\n\
                write,d/e/old,,9000,10\n\
                read,d/e/old,,9000,10\n\
                list,empty,,,\n\
                rename,moved,d/new,,\n\
                read,d/new,,0,77\n\
                write,d/made,,,5\n";
    let mut found = nodes(text);
    found.sort();
    let expected = [
        ("d", true, 0),
        ("e", true, 0),
        ("empty", true, 0),
        ("moved", false, 77),
        ("old", false, 4196),
    ];
    assert_eq!(found, expected.map(|(name, is_dir, size)| (name.to_owned(), is_dir, size)));
}

#[test]
fn a_path_below_a_renamed_directory_is_the_one_that_was_made() {
    let text = "op,path,to,length\nmkdir,a,,\nwrite,a/f,,10\nrename,a,b,\nread,b/f,,\nremove,b/f,,\nremove,b,,\n";
    assert_eq!(nodes(text), []);
    let ops = requests(text);
    assert!(ops.iter().any(|op| matches!(op, Op::Read { len: 10, .. })), "{ops:?}");
    assert!(matches!(ops[ops.len() - 1], Op::RemoveDir { .. } | Op::Forget { .. }), "{ops:?}");
}

#[test]
fn times_and_clients_are_those_of_the_rows() {
    let (records, reading) =
        read("op,path,at_s,client\ncreate,a,100.5,1\ncreate,b,101,7\n").unwrap();
    let times: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            Record::Request { at_ns, request } if matches!(request.op, Op::Create { .. }) => {
                Some((*at_ns, request.client))
            }
            _ => None,
        })
        .collect();
    assert_eq!(times, [(0, 1), (500_000_000, 7)]);
    assert!(!format!("{reading:?}").contains("no times"), "{reading:?}");
    assert!(format!("{:?}", read("op,path\ncreate,a\n").unwrap().1).contains("no times"));
}

#[test]
fn large_writes_are_divided_and_huge_ones_refused() {
    let ops = requests("op,path,length\nwrite,a,2500000\n");
    let lens: Vec<u64> = ops
        .iter()
        .filter_map(|op| op.written().map(|(_, _, data): (_, _, &Data)| data.len()))
        .collect();
    assert_eq!(lens, [1 << 20, 1 << 20, 2_500_000 - (2 << 20)]);
    assert!(why("op,path,length\nwrite,a,5000000000\n").contains("divide the row"));
}

#[test]
fn rows_that_cannot_be_name_their_line() {
    for (text, expected) in [
        ("op,path\nmkdir,a\nmkdir,a\n", "line 3: \"a\" is there already"),
        ("op,path,to\ncreate,a,\ncreate,b,\nlink,a,b\n", "line 4: \"b\" is there already"),
        (
            "op,path\nmkdir,a\ncreate,a/b\nremove,a\n",
            "line 4: \"a\" is a directory that is not empty",
        ),
        ("op,path\ncreate,a\nremove,a\nread,a\n", "line 4"),
        ("op,path\ncreate,a/../b\n", "\"..\" cannot be a name"),
        ("op,path\nwrite,a\n", "a write needs a length"),
        ("op,path\nrename,a\n", "the column `to` is empty"),
        ("op,path\ncreate,/\n", "the root directory"),
    ] {
        let why = why(text);
        assert!(why.contains(expected), "{expected}: {why}");
    }
}

#[test]
fn a_table_is_known_by_its_first_line() {
    assert!(row::is_like(b"op,path,length\nwrite,a,3\n"));
    assert!(row::is_like(b"\"client\",\"op\",\"path\"\n"));
    assert!(!row::is_like(b"device,op,offset,length\n"));
}
