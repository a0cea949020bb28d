//! Traces of others, in every format that is read.

use std::io::{Cursor, Read};

use twin_trace::{Source, block, readers};

use crate::Target;

/// A foreign trace.
pub(crate) const FOREIGN: Target = Target {
    name: "foreign_trace",
    about: "a trace of another program, of operations or of a device",
    run,
    seeds,
};

/// A file compressed with xz.
pub(crate) const XZ: Target = Target {
    name: "xz",
    about: "a file compressed with xz",
    run: |data| {
        // What does not begin as it should is passed on as it is.
        let input = Cursor::new(data.to_vec());
        let expanded = readers::is_compressed(data).then(|| readers::expanded(input));
        expanded.is_some_and(|input| {
            let read = input.and_then(|input| input.take(EXPANDED).read_to_end(&mut Vec::new()));
            read.is_ok()
        })
    },
    seeds: || vec![include_bytes!("../../twin-trace/tests/data/small.xz").to_vec()],
};

/// So many bytes of what is compressed are expanded.
const EXPANDED: u64 = 1 << 20;

/// So many records of one input are read: a short input may be compressed a thousand times.
const RECORDS: usize = 20_000;

/// Which format, and the trace.
fn run(data: &[u8]) -> bool {
    let Some((&which, text)) = data.split_first() else { return false };
    let input = || Cursor::new(text.to_vec());
    let which = usize::from(which);
    if let Ok((_, source)) = block::open_any(input()) {
        blocks(source);
    }
    if let Some(name) = block::REGISTRY.names().nth(which) {
        return block::open(name, input()).is_ok_and(blocks);
    }
    let name = readers::REGISTRY.names().nth(which - block::REGISTRY.len());
    let source = name.and_then(|name| readers::open(name, input()).ok());
    source.is_some_and(operations)
}

fn blocks(mut source: Box<dyn block::BlockSource>) -> bool {
    (0..RECORDS).take_while(|_| matches!(source.next_request(), Ok(Some(_)))).count() > 0
}

fn operations(mut source: Box<dyn Source>) -> bool {
    (0..RECORDS).take_while(|_| matches!(source.next_record(), Ok(Some(_)))).count() > 0
}

/// An example of each format, by name.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "msr",
        "128166372003061629,usr,0,Read,7014609920,24576,41286\n\
         128166372016382155,usr,1,Write,1317441536,8192,1963\n",
    ),
    ("spc", "0,303567,3584,w,0.000000\n1,55590,3072,R,0.026214\n"),
    ("alibaba", "419,W,8792731648,16384,1577808000000046\n725,R,4096,512,1577808000000196\n"),
    ("tencent", "1538323200,12910952,128,0,1063\n1538323201,6338688,8,1,1627\n"),
    ("fio", "fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a write 8192 4096\n/dev/a close\n"),
    ("blkparse", "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n"),
    ("blkreplay", "start ; sector; length ; op ; delay; duration\n0.0 ; 8 ; 16 ; W ; 0.0 ; 0.0\n"),
    ("cloudphysics", "t_us,op,bytes,lbn512\n0,W,512,42932745\n"),
    ("disksim", "938513000 4 264719034 16 0\n938828000 3 197570570 8 1\n"),
    (
        "hplajw",
        "t_us,kind,start_us,stop_us,op,bytes,sector,dev,driver,cyl,flags_hex,info_hex,qlen\n\
         5,2,6,20,W,8192,1024,0x8000008,3,7,0x0,0x0,1\n9,2,9,31,R,1024,52,0x8000008,3,7,0x0,0x0,1\n",
    ),
    (
        "rocksdb",
        "t_ns,ev,op,lba,sectors,io_class,flags,io_id,file,file_off_sectors,file_size_bytes,parent,name\n\
         10,IO,R,80,8,1,,1,4,0,4096,2,a\n12,IO,W,160,16,1,,2,4,8,8192,2,a\n",
    ),
    ("references", "17\n4\n17\n90\n"),
    ("arc-lis", "17 4 0 1\n90 1 0 2\n17 4 0 3\n"),
    ("csv", "time,op,offset,size\n1,W,4096,512\n2,R,0,8192\n"),
    (
        "oracle-general",
        "\x01\0\0\0\x07\0\0\0\0\0\0\0\0\x10\0\0\x05\0\0\0\0\0\0\0\
         \x02\0\0\0\x08\0\0\0\0\0\0\0\0\x20\0\0\x06\0\0\0\0\0\0\0",
    ),
    ("blocks", "0,303567,3584,w,0.000000\n1,55590,3072,R,0.026214\n"),
    (
        "rewrites",
        "commit,author_time,commit_time,op,file,dir,depth,size_bytes,ext\n\
         1,9,1000,A,7,3,1,3000000,c\n2,9,1060,M,7,3,1,10,c\n3,9,1050,D,7,3,1,,c\n",
    ),
    (
        "checkouts",
        "commit,author_time,commit_time,op,file,dir,depth,size_bytes,ext\n\
         1,9,1000,A,7,3,1,10,c\n2,9,1060,M,7,3,1,20,c\n",
    ),
    (
        "netbench",
        "Mkdir \"\\a\" NT_STATUS_OK\nNTCreateX \"\\a\\b c\" 0x1 0x2 5 NT_STATUS_OK\n\
         WriteX 5 0 100 100 NT_STATUS_OK\nClose 5 NT_STATUS_OK\n\
         Rename \"\\a\\b c\" \"\\a\\d\" NT_STATUS_OK\nDeltree \"\\a\" NT_STATUS_OK\n",
    ),
    (
        "path-operations",
        "op,path,to,offset,length,at_s,client\nmkdir,a,,,,0,1\nwrite,\"a/b c\",,,100,0.5,1\nread,d/old,,8,9,1,2\n\
         rename,\"a/b c\",a/e,,,1,1\ntruncate,a/e,,,3,2,1\nlink,a/e,f,,,2,1\nremove,f,,,,3,1\nlist,a,,,,3,1\n",
    ),
    (
        "strace",
        "7 1.0 openat(AT_FDCWD</w>, \"../a\", O_RDWR|O_CREAT, 0644) = 3</a> <0.5>\n\
         7 2.0 write(3</a>, \"x\\n\"..., 4096) = 4096 <0.1>\n7 2.1 vfork( <unfinished ...>\n\
         8 2.2 close(3</a>) = 0\n8 2.2 +++ exited with 0 +++\n7 2.3 <... vfork resumed>) = 8\n\
         7 3.0 rename(\"/a\", \"/b\") = 0\n7 3.1 unlink(\"/c\") = -1 ENOENT (No such file)\n",
    ),
];

fn seeds() -> Vec<Vec<u8>> {
    let names: Vec<&str> = block::REGISTRY.iter().map(|spec| spec.name).collect();
    let names = [names, readers::REGISTRY.iter().map(|spec| spec.name).collect()].concat();
    let place = |name| names.iter().position(|known| *known == name).unwrap() as u8;
    EXAMPLES.iter().map(|(name, text)| [&[place(*name)], text.as_bytes()].concat()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use twin_trace::block::{BlockRequest, BlockSource};

    use super::*;

    /// Bytes of a record of oracleGeneral, the one binary format.
    const RECORD_BYTES: usize = 24;

    /// Everything that can be read of a block trace, and the error that ends it.
    fn requests(name: &str, text: &[u8]) -> (Vec<BlockRequest>, Option<String>) {
        let mut source: Box<dyn BlockSource> = match block::open(name, Cursor::new(text.to_vec())) {
            Ok(source) => source,
            Err(error) => return (Vec::new(), Some(error.to_string())),
        };
        let mut read = Vec::new();
        loop {
            match source.next_request() {
                Ok(Some(request)) => read.push(request),
                Ok(None) => return (read, None),
                Err(error) => return (read, Some(error.to_string())),
            }
        }
    }

    fn block_examples() -> impl Iterator<Item = (&'static str, &'static [u8])> {
        let is_block = |name: &str| block::REGISTRY.get(name).is_ok();
        let examples = EXAMPLES.iter().filter(move |(name, _)| is_block(name));
        examples.map(|(name, text)| (*name, text.as_bytes()))
    }

    /// Where the line or record begins in which a byte lies.
    fn record_start(name: &str, text: &[u8], at: usize) -> usize {
        match name {
            "oracle-general" => at - at % RECORD_BYTES,
            _ => text[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1),
        }
    }

    /// That what lies before a damaged byte was read as it was, and that an error names its place.
    fn assert_kept(name: &str, damaged: &[u8], whole: &[u8], at: usize) {
        let (before, _) = requests(name, &whole[..record_start(name, whole, at)]);
        let (read, error) = requests(name, damaged);
        let place = String::from_utf8_lossy(damaged);
        assert!(read.starts_with(&before), "{name}, byte {at}: {read:?} of {place:?}");
        if let Some(error) = error {
            assert!(error.contains("line "), "{name}, byte {at}: {error:?} names no line");
        }
    }

    #[test]
    fn every_format_has_an_example() {
        let formats = block::REGISTRY.names().chain(readers::REGISTRY.names());
        let examples = EXAMPLES.iter().map(|(name, _)| *name);
        assert_eq!(examples.collect::<BTreeSet<_>>(), formats.collect::<BTreeSet<_>>());
    }

    #[test]
    fn a_trace_that_is_cut_is_read_up_to_the_cut() {
        for (name, whole) in block_examples() {
            for at in 0..whole.len() {
                assert_kept(name, &whole[..at], whole, at);
            }
        }
    }

    #[test]
    fn a_flipped_bit_spoils_nothing_before_its_line() {
        for (name, whole) in block_examples() {
            for bit in 0..whole.len() * 8 {
                let mut damaged = whole.to_vec();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_kept(name, &damaged, whole, bit / 8);
            }
        }
    }

    #[test]
    fn no_cut_and_no_flipped_bit_harms_a_reader_of_any_format() {
        for seed in seeds() {
            for at in 1..seed.len() {
                run(&seed[..at]);
                for bit in 0..8 {
                    let mut damaged = seed.clone();
                    damaged[at] ^= 1 << bit;
                    run(&damaged);
                }
            }
        }
    }
}
