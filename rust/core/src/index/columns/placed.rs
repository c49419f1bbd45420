//! Columns whose sizes are known before their values: each buffer is written once, at its place in the file.

use std::fs::File;
use std::iter;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use arrow_ipc::FieldNode;
use arrow_schema::{DataType, Schema};

use super::column::{Frame, padded};
use crate::error::{Error, Result};

/// A file whose buffers grow from their places on, side by side. What stands around them is written at the end.
#[derive(Debug)]
pub struct Placed {
    file: File,
    rows: u64,
    nodes: Vec<FieldNode>,
    /// Bytes of all buffers, validity bitmaps among them.
    lens: Vec<u64>,
    /// What of each buffer is not written yet, validity bitmaps left out.
    left: Vec<Range<u64>>,
    /// Bytes before the first buffer, and where the last ends.
    head: u64,
    tail: u64,
}

impl Placed {
    /// Places for `rows` rows of numbers and texts, all texts of which have `text_bytes` bytes, in an empty file. What
    /// `schema` says beside the columns may be other values at the end, if they are as long.
    #[must_use]
    pub fn new(file: File, schema: &Schema, rows: u64, text_bytes: u64) -> Self {
        let buffers = |kind: &DataType| match kind {
            DataType::LargeUtf8 => vec![8 * (rows + 1), text_bytes],
            kind => vec![kind.primitive_width().unwrap_or(1) as u64 * rows],
        };
        let columns: Vec<Vec<u64>> = schema.fields().iter().map(|field| buffers(field.data_type())).collect();
        let lens: Vec<u64> = columns.iter().flat_map(|lens| iter::once(0).chain(lens.iter().copied())).collect();
        let nodes = vec![FieldNode::new(rows as i64, 0); columns.len()];
        let head = Frame::new(schema, rows, &nodes, &lens).head.len() as u64;
        let mut next = head;
        let place = |len: u64| {
            let start = next;
            next += padded(len);
            start..start + len
        };
        let left = columns.into_iter().flatten().map(place).collect();
        Self { file, rows, nodes, lens, left, head, tail: next }
    }

    /// Adds bytes to a buffer, after those it has.
    pub fn append(&mut self, buffer: usize, bytes: &[u8]) -> Result<()> {
        let left = &mut self.left[buffer];
        if bytes.len() as u64 > left.end - left.start {
            return Err(unlike());
        }
        self.file.write_all_at(bytes, left.start)?;
        left.start += bytes.len() as u64;
        Ok(())
    }

    /// Writes what stands around the buffers, all of which must be full.
    pub fn finish(self, schema: &Schema) -> Result<()> {
        let frame = Frame::new(schema, self.rows, &self.nodes, &self.lens);
        if self.left.iter().any(|left| !left.is_empty()) || frame.head.len() as u64 != self.head {
            return Err(unlike());
        }
        self.file.write_all_at(&frame.head, 0)?;
        self.file.write_all_at(&frame.tail, self.tail)?;
        Ok(())
    }
}

#[cold]
fn unlike() -> Error {
    Error::Mismatch("there are more or fewer values than were counted: an index changed while it was read".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow_schema::Field;

    use super::*;
    use crate::index::columns::{Column, write};
    use crate::io::Spills;

    const NAMES: &[u8] = b"abc";
    const ENDS: [u64; 3] = [0, 1, 3];
    const SIZES: [u32; 2] = [7, 8];

    fn schema(value: &str) -> Schema {
        let fields = [("name", DataType::LargeUtf8), ("size", DataType::UInt32)];
        let fields = fields.map(|(name, kind)| Field::new(name, kind, false)).to_vec();
        Schema::new_with_metadata(fields, HashMap::from([("key".to_owned(), value.to_owned())]))
    }

    fn placed(file: &File) -> Placed {
        Placed::new(file.try_clone().unwrap(), &schema("00"), 2, 3)
    }

    #[test]
    fn a_placed_file_is_the_one_that_spools_give() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut placed = placed(file.as_file());
        // Side by side, a part at a time.
        for (buffer, bytes) in [
            (2, bytemuck::cast_slice(&SIZES[..1])),
            (1, &NAMES[..2]),
            (0, bytemuck::cast_slice(&ENDS)),
            (1, &NAMES[2..]),
            (2, bytemuck::cast_slice(&SIZES[1..])),
        ] {
            placed.append(buffer, bytes).unwrap();
        }
        placed.finish(&schema("ff")).unwrap();
        let spool = |bytes: &[u8]| {
            let mut spool = Spills::elsewhere().spool(1 << 10);
            spool.append(bytes).unwrap();
            spool
        };
        let mut columns = [
            Column::Text(spool(bytemuck::cast_slice(&ENDS)), spool(NAMES)),
            Column::Numbers(spool(bytemuck::cast_slice(&SIZES))),
        ];
        let mut expected = Vec::new();
        write(&mut expected, &schema("ff"), 2, &mut columns, || Ok(())).unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), expected);
    }

    #[test]
    fn more_or_fewer_values_than_were_counted_are_refused() {
        let file = tempfile::tempfile().unwrap();
        assert!(placed(&file).append(1, b"abcd").is_err());
        let mut short = placed(&file);
        short.append(1, b"ab").unwrap();
        assert!(short.finish(&schema("ff")).is_err());
    }
}
