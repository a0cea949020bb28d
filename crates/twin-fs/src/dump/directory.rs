//! Directories: their entries, and the header of the index.

use twin_disk::Bytes;

use super::walk::{FileDump, kind_name, type_name};
use super::{Column, DumpError, File, Problem, Value, number, text};
use crate::dir::index::{self, Frames, StepError};
use crate::{FsError, Ino};

const ENTRIES: [Column; 5] =
    [number("offset", 10), number("lbn", 7), number("ino", 9), text("kind", 9), text("name", 20)];

/// The block with the header of an index, as the index code reads it.
struct Header<'a>(&'a Bytes);

impl Frames for Header<'_> {
    fn read<R>(&self, lbn: u64, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        (lbn == 0).then(|| f(self.0))
    }
    fn write<R>(&mut self, _: u64, _: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        None
    }
}

impl FileDump<'_> {
    pub(super) async fn directory(&mut self, file: &File) -> Result<(), DumpError> {
        let ino = self.resolve(file).await?;
        let (at, d) = match self.volume.inode(ino).await {
            Ok(read) => read,
            Err(error) => {
                self.problem(&format!("inode {ino}"), error);
                return Ok(());
            }
        };
        if !d.is_dir() {
            let what = format!("inode {ino} is a {}, not a directory", kind_name(&d));
            return Err(DumpError::NoSuch(what));
        }
        let mut fields = vec![
            ("ino", Value::Number(ino)),
            ("at", at.map_or(Value::None, Value::Number)),
            ("size", Value::Number(d.size)),
        ];
        if self.volume.features().indexed_directories {
            fields.push(("entries", Value::Number(d.entries)));
            fields.push(("index_ino", Value::Number(d.index_ino)));
        }
        self.sink.fields("directory", "from its inode; entries counts neither . nor ..", fields);
        if d.index_ino != 0 {
            self.index_header(d.index_ino).await;
        }
        let format = self.volume.features().directories;
        let blocks = self.dir_blocks(&d).await;
        self.sink.begin("entries", "in the order of their places", &ENTRIES);
        for (lbn, bytes) in &blocks {
            let first = (*lbn == 0).then_some(ino);
            if let Err(error) = format.validate(bytes, first) {
                let what =
                    format!("directory {ino}, block {lbn}, byte {}: {}", error.offset, error.what);
                self.sink.problem(Problem { at: None, what });
            }
            let start = lbn * u64::from(self.volume.geometry().block_size);
            for item in format.items(bytes, 0) {
                self.sink.row(vec![
                    Value::Number(start + item.offset as u64),
                    Value::Number(*lbn),
                    Value::Number(item.ino),
                    Value::Text(type_name(item.kind).into()),
                    Value::Name(item.name.to_vec()),
                ]);
            }
        }
        self.sink.end();
        Ok(())
    }

    async fn index_header(&mut self, ino: Ino) {
        let read = async {
            let (_, d) = self.volume.inode(ino).await?;
            let ptr = self.ptr(&d, 0).await?;
            let block = self.volume.block(ino, 0, ptr).await?;
            match index::header(&Header(&block)) {
                Ok(header) => Ok(header),
                Err(StepError::Bad(error)) => Err(error.into()),
                Err(_) => Err(FsError::inconsistent("its header leads nowhere")),
            }
        };
        match read.await {
            Ok(header) => self.sink.fields(
                "index",
                "the header of its hash index",
                vec![
                    ("ino", Value::Number(ino)),
                    ("key_0", Value::Hex(header.key[0])),
                    ("key_1", Value::Hex(header.key[1])),
                    ("entries", Value::Number(header.entries)),
                    ("buckets", Value::Number(header.buckets.into())),
                    ("entries_per_block", Value::Number(header.capacity() as u64)),
                    ("overflow", Value::Number(header.overflow.into())),
                    ("free", Value::Number(header.free)),
                ],
            ),
            Err(error) => self.problem(&format!("the index, inode {ino}"), error),
        }
    }
}
