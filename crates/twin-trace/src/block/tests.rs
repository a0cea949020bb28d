//! Each format parses an example of its kind, and names a line that is wrong.

use super::*;

/// A format, an example, and the requests in it.
type Example = (&'static str, &'static str, &'static [(u64, u64, BlockOp, u64, u64)]);

use BlockOp::{Read as R, Trim as D, Write as W};

const S: BlockOp = BlockOp::Sync { data_only: false };

const EXAMPLES: &[Example] = &[
    (
        "msr",
        "128166372003061629,usr,0,Read,7014609920,24576,41286\n\
             128166372016382155,usr,1,Write,1317441536,8192,1963\n",
        &[(0, 0, R, 7_014_609_920, 24_576), (1_332_052_600, 1, W, 1_317_441_536, 8192)],
    ),
    (
        "spc",
        "0,303567,3584,w,0.000000\n1,55590,3072,R,0.026214\n",
        &[(0, 0, W, 303_567 * 512, 3584), (26_214_000, 1, R, 55_590 * 512, 3072)],
    ),
    (
        "alibaba",
        "419,W,8792731648,16384,1577808000000046\n725,R,4096,512,1577808000000196\n",
        &[
            (1_577_808_000_000_046_000, 419, W, 8_792_731_648, 16_384),
            (1_577_808_000_000_196_000, 725, R, 4096, 512),
        ],
    ),
    (
        "tencent",
        "1538323200,12910952,128,0,1063\n1538323201,6338688,8,1,1627\n",
        &[
            (1_538_323_200_000_000_000, 1063, R, 12_910_952 * 512, 65_536),
            (1_538_323_201_000_000_000, 1627, W, 6_338_688 * 512, 4096),
        ],
    ),
    (
        "fio",
        "fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a write 8192 4096\n\
             /dev/a wait 250 0\n/dev/b trim 0 512\n/dev/a sync 0 0\n/dev/a close\n",
        &[(0, 0, W, 8192, 4096), (250_000, 1, D, 0, 512), (250_000, 0, S, 0, 0)],
    ),
    (
        "fio",
        "fio version 3 iolog\n0 /dev/a add\n3 /dev/a read 4096 512\n",
        &[(3000, 0, R, 4096, 512)],
    ),
    (
        "blkparse",
        "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n\
                  \x20 8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]\n\
                  \x20 8,0    3        3     0.000100000   697  D   W 223490 + 8 [kjournald]\n\
                  \x20 8,0    3        4     0.500000000   697  Q  DS 16 + 24 [fstrim]\n\
                  CPU3 (8,0):\n Reads Queued:           0,        0KiB\n",
        &[(0, 8 << 20, W, 223_490 * 512, 4096), (500_000_000, 8 << 20, D, 8192, 12_288)],
    ),
    (
        "blkreplay",
        "Copyright; whoever\nstart ; sector; length ; op ; delay; duration\n\
                   0.000000000 ; 8 ; 16 ; W ; 0.0 ; 0.0\n0.000016000 ; 8 ; 16 ; W ; 0.0 ; 0.0\n\
                   0.002000000 ; 8 ; 16 ; W ; 0.0 ; 0.0\n0.003000000 ; 0 ; 8 ; RA ; 0.0 ; 0.0\n",
        &[(0, 0, W, 4096, 8192), (2_000_000, 0, W, 4096, 8192), (3_000_000, 0, R, 0, 4096)],
    ),
    (
        "cloudphysics",
        "t_us,op,bytes,lbn512\n0,W,512,42932745\n",
        &[(0, 0, W, 42_932_745 * 512, 512)],
    ),
    (
        "hplajw",
        "t_us,kind,start_us,stop_us,op,bytes,sector,dev,driver,cyl,flags_hex,info_hex,qlen\n\
                22479,short,76,10038,R,4096,1040,0x8000107,4,1,1b,70000,1\n",
        &[(22_479_000, 0x800_0107, R, 1040 * 256, 4096)],
    ),
    (
        "rocksdb",
        "t_ns,ev,op,lba,sectors,io_class,flags,io_id,file,file_off_sectors,\
                 file_size_bytes,parent,name\n0,DEV,,,732585168,,,,,,,,nvme0n1\n\
                 7,IO,D,384,8,0,,1,,,,,\n9,IO,W,16,8,0,,2,,,,,\n9,IO,W,0,0,0,F,2,,,,,\n",
        &[(7, 0, D, 384 * 512, 4096), (9, 0, W, 8192, 4096), (9, 0, S, 0, 0)],
    ),
    (
        "references",
        "17\n3\n17\n",
        &[(0, 0, R, 69_632, 4096), (0, 0, R, 12_288, 4096), (0, 0, R, 69_632, 4096)],
    ),
    (
        "arc-lis",
        "230027 8 0 0\n1 1 0 1\n",
        &[(0, 0, R, 230_027 * 4096, 32_768), (0, 0, R, 4096, 4096)],
    ),
    (
        // libCacheSim's own sample: SCSI commands and sectors.
        "csv",
        "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n\n1,5633899,28,4096,16\n",
        &[(0, 0, W, 42_932_745 * 512, 512), (1_000_000_000, 0, R, 8192, 4096)],
    ),
    (
        // SNIA's Systor '17.
        "csv",
        "Timestamp,Response,IOType,LUN,Offset,Size\n1455592511.163069000,0.000266,W,6,1024,512\n\
         1455592511.5,0.1,R,3,0,4096\n",
        &[(0, 6, W, 1024, 512), (336_931_000, 3, R, 0, 4096)],
    ),
    (
        // NFS requests: what has no place, or is no read or write, is skipped.
        "csv",
        "t_req,client,op,fh,offset,bytes,type\n0.5,10.1,read,7,8192,16384,file\n\
         0.6,10.1,getattr,7,,,file\n",
        &[(0, 7, R, 8192, 16_384)],
    ),
    (
        "disksim",
        "938513000 4 264719034 16 0\n938828000 3 197570570 8 1\n",
        &[
            (938_513_000, 4, W, 264_719_034 * 512, 8192),
            (938_828_000, 3, R, 197_570_570 * 512, 4096),
        ],
    ),
    (
        // DiskSim's own: milliseconds, and flags of which the lowest bit is a read.
        "disksim",
        "0 0 1234 8 1\n2512.500000 0 5678 16 0\n2512.75 1 5678 16 1b\n",
        &[
            (0, 0, R, 1234 * 512, 4096),
            (2_512_500_000, 0, W, 5678 * 512, 8192),
            (2_512_750_000, 1, R, 5678 * 512, 8192),
        ],
    ),
    (
        // Zones, flushes, and the completion of what was queued before the capture began.
        "blkparse",
        "  8,0 3 1 0.000000000 0 C R 64 + 8 [0]\n\
         \x20 8,0 3 2 0.000000001 697 Q ZR 0 + 524288 [mkfs.f2fs]\n\
         \x20 8,0 3 3 0.000000002 697 Q ZO 0 + 524288 [mkfs.f2fs]\n\
         \x20 8,0 3 4 0.000000003 697 Q ZAS 524288 + 8 [kworker]\n\
         \x20 8,0 3 5 0.000000004 697 Q FWS [jbd2]\n\
         \x20 8,0 3 6 0.000000005 697 Q WFSM 16 + 8 [jbd2]\n\
         \x20 8,0 3 7 0.000000006 697 Q RA 0 + 8 [\u{fffd}]\n\
         \x20 8,0 3 8 0.000000007 697 C RA 0 + 8 [0]\n",
        &[
            (1, 8 << 20, D, 0, 268_435_456),
            (3, 8 << 20, W, 268_435_456, 4096),
            (4, 8 << 20, S, 0, 0),
            (5, 8 << 20, W, 8192, 4096),
            (5, 8 << 20, S, 0, 0),
            (6, 8 << 20, R, 0, 4096),
        ],
    ),
];

fn all(mut source: Box<dyn BlockSource>) -> Result<Vec<BlockRequest>, TraceError> {
    let mut requests = Vec::new();
    while let Some(request) = source.next_request()? {
        requests.push(request);
    }
    Ok(requests)
}

fn oracle_general() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (time, object, next) in [(5u32, 77u64, 3i64), (6, 12, -1), (7, 77, -1)] {
        bytes.extend(time.to_le_bytes());
        bytes.extend(object.to_le_bytes());
        bytes.extend(4096u32.to_le_bytes());
        bytes.extend(next.to_le_bytes());
    }
    bytes
}

#[test]
fn each_text_format_is_told_and_read() {
    for (name, text, expected) in EXAMPLES {
        let (spec, source) = open_any(text.as_bytes()).unwrap();
        assert_eq!(spec.name, *name, "{text}");
        let found = all(source).unwrap();
        let found: Vec<_> =
            found.iter().map(|r| (r.at_ns, r.device, r.op, r.offset_bytes, r.bytes)).collect();
        assert_eq!(found, *expected, "{name}");
    }
}

#[test]
fn every_format_has_an_example() {
    for spec in &REGISTRY {
        let is_text = EXAMPLES.iter().any(|(name, ..)| *name == spec.name);
        assert!(is_text || spec.name == "oracle-general", "{}", spec.name);
    }
}

#[test]
fn objects_of_oracle_general_are_numbered_as_they_come() {
    let (spec, source) = open_any(std::io::Cursor::new(oracle_general())).unwrap();
    assert_eq!(spec.name, "oracle-general");
    let places: Vec<_> = all(source).unwrap().iter().map(|r| r.offset_bytes).collect();
    assert_eq!(places, [0, 4096, 0]);
}

/// Objects keep their sizes, whatever they are as blocks.
#[test]
fn objects_have_numbers_and_sizes() {
    let csv = "time,obj_id,obj_size\n1,photo,100\n2,page,7\n3,photo,100\n";
    let csv = open_any(csv.as_bytes()).unwrap().1;
    let binary = open_any(std::io::Cursor::new(oracle_general())).unwrap().1;
    for (mut source, sizes) in [(csv, [100, 7, 100]), (binary, [4096, 4096, 4096])] {
        let mut objects = Vec::new();
        while let Some(request) = source.next_request().unwrap() {
            assert_eq!(request.bytes, 4096);
            let object = source.object().unwrap();
            objects.push((object.number, object.bytes));
        }
        let expected = [(0, sizes[0]), (1, sizes[1]), (0, sizes[2])];
        assert_eq!(objects, expected);
    }
}

#[test]
fn a_cut_record_of_oracle_general_is_named() {
    let mut bytes = oracle_general();
    bytes.pop();
    let source = open("oracle-general", std::io::Cursor::new(bytes)).unwrap();
    let error = all(source).unwrap_err().to_string();
    assert!(error.contains("in line 3") && error.contains("23 of 24"), "{error}");
}

#[test]
fn a_wrong_line_is_named_by_its_number_in_every_text_format() {
    for (name, text, _) in EXAMPLES {
        // Turns digits of the last line with a request into letters.
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate().rev() {
            let mut broken: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
            broken[at] = line.replace(|c: char| c.is_ascii_digit(), "x");
            let broken = broken.join("\n");
            let Ok(source) = open(name, std::io::Cursor::new(broken)) else { continue };
            let Err(error) = all(source) else { continue };
            let place = format!("in line {}:", at + 1);
            assert!(error.to_string().contains(&place), "{name}: {error}");
        }
        // blkparse's text contains lines of other kinds, such as those that name no device.
        let last = match *name {
            "blkparse" => "8,0 3 5 0.7 697 Q W 8 + many [x]",
            "fio" => "4 write write 1 many",
            "rocksdb" => "9,IO,W,many,8,0,,2,,,,,",
            "csv" => "1,many,W,many,many,many,many",
            _ => "one,two;three four",
        };
        let source = open(name, std::io::Cursor::new(format!("{text}{last}\n"))).unwrap();
        let error = all(source).expect_err(name).to_string();
        let place = format!("in line {}:", text.lines().count() + 1);
        assert!(error.contains(&place), "{name}: {error}");
    }
}

#[test]
fn absurd_requests_are_refused() {
    for text in ["0,R,0,1099511627777,0\n", "0,R,18446744073709551615,512,0\n"] {
        assert!(all(open("alibaba", text.as_bytes()).unwrap()).is_err(), "{text}");
    }
}

#[test]
fn what_looks_like_nothing_is_refused_with_the_formats_there_are() {
    let error = open_any(&b"once upon a time\n"[..]).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("msr") && error.contains("blkparse"), "{error}");
}

#[test]
fn a_block_trace_becomes_operations_on_a_file() {
    let text = "0,W,0,1048577,5\n0,R,4096,512,6\n1,W,0,512,7\n";
    let mut source = crate::readers::open("blocks", text.as_bytes()).unwrap();
    let (mut written, mut files) = (0, 0);
    while let Some(record) = source.next_record().unwrap() {
        if let crate::Record::Request { request, .. } = record {
            match request.op {
                twin_fs::Op::Write { data, .. } => written += data.len(),
                twin_fs::Op::Open { .. } => files += 1,
                _ => {}
            }
        }
    }
    assert_eq!((written, files), (1_048_577 + 512, 2));
}
