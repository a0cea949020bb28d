//! Traces of others, in every format that is read.

use std::io::Cursor;

use twin_trace::{Source, block, readers};

use crate::Target;

/// A foreign trace.
pub(crate) const FOREIGN: Target = Target {
    name: "foreign_trace",
    about: "a trace of another program, of operations or of a device",
    run,
    seeds,
};

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

/// An example of some formats, by name.
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
];

fn seeds() -> Vec<Vec<u8>> {
    let names: Vec<&str> = block::REGISTRY.iter().map(|spec| spec.name).collect();
    let names = [names, readers::REGISTRY.iter().map(|spec| spec.name).collect()].concat();
    let place = |name| names.iter().position(|known| *known == name).unwrap() as u8;
    EXAMPLES.iter().map(|(name, text)| [&[place(*name)], text.as_bytes()].concat()).collect()
}
