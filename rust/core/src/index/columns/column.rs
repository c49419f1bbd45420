//! Columns under way to a file: what stands around their buffers, and one batch written from spools.

use std::io::{self, Write};

use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::{
    Block, Buffer, FieldNode, FooterBuilder, MessageBuilder, MessageHeader, MetadataVersion, RecordBatchBuilder,
};
use arrow_schema::Schema;
use flatbuffers::FlatBufferBuilder;

use super::{ALIGN, END, MAGIC};
use crate::error::Result;
use crate::io::spool::Spool;

const CONTINUATION: [u8; 4] = [0xff; 4];

/// The buffers of one column, under way to a file.
#[derive(Debug)]
pub enum Column<'a> {
    /// Numbers of one width.
    Numbers(Spool),
    /// Text: where each value ends (starting with a 0), and the bytes.
    Text(Spool, Spool),
    /// Lists of numbers: where each list ends (starting with a 0), and the numbers.
    Lists(Spool, Spool, usize),
    /// Numbers of one width that are in memory as a whole.
    HeldNumbers(&'a [u8]),
    /// Lists of numbers that are in memory as a whole.
    HeldLists(&'a [u8], &'a [u8], usize),
}

/// What goes into a file as it is.
enum Part<'a> {
    Spooled(&'a mut Spool),
    Held(&'a [u8]),
}

impl Part<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::Spooled(spool) => spool.len(),
            Self::Held(bytes) => bytes.len() as u64,
        }
    }

    fn copy_to(self, out: &mut impl Write, go_on: impl FnMut() -> Result<()>) -> Result<()> {
        match self {
            Self::Spooled(spool) => spool.copy_to(out, go_on),
            Self::Held(bytes) => Ok(out.write_all(bytes)?),
        }
    }
}

impl Column<'_> {
    /// The column's buffers; `None` is the validity bitmap, which is left out because nothing is null.
    fn buffers(&mut self) -> Vec<Option<Part<'_>>> {
        use Part::{Held, Spooled};
        match self {
            Self::Numbers(values) => vec![None, Some(Spooled(values))],
            Self::Text(ends, bytes) => vec![None, Some(Spooled(ends)), Some(Spooled(bytes))],
            Self::Lists(ends, values, _) => vec![None, Some(Spooled(ends)), None, Some(Spooled(values))],
            Self::HeldNumbers(values) => vec![None, Some(Held(values))],
            Self::HeldLists(ends, values, _) => vec![None, Some(Held(ends)), None, Some(Held(values))],
        }
    }

    fn nodes(&self, rows: u64) -> Vec<FieldNode> {
        let node = |n: u64| FieldNode::new(n as i64, 0);
        match self {
            Self::Numbers(_) | Self::Text(..) | Self::HeldNumbers(_) => vec![node(rows)],
            Self::Lists(_, values, width) => vec![node(rows), node(values.len() / *width as u64)],
            Self::HeldLists(_, values, width) => vec![node(rows), node((values.len() / width) as u64)],
        }
    }
}

/// Writes one batch of `rows` rows as an Arrow IPC file, and asks `go_on` now and then.
pub fn write(
    out: &mut impl Write,
    schema: &Schema,
    rows: u64,
    columns: &mut [Column<'_>],
    mut go_on: impl FnMut() -> Result<()>,
) -> Result<()> {
    let nodes: Vec<FieldNode> = columns.iter().flat_map(|column| column.nodes(rows)).collect();
    let lens: Vec<u64> = columns.iter_mut().flat_map(Column::buffers).map(|part| part.map_or(0, |p| p.len())).collect();
    let frame = Frame::new(schema, rows, &nodes, &lens);
    out.write_all(&frame.head)?;
    for part in columns.iter_mut().flat_map(Column::buffers).flatten() {
        let len = part.len();
        part.copy_to(out, &mut go_on)?;
        go_on()?;
        io::copy(&mut io::Read::take(io::repeat(0), padded(len) - len), out)?;
    }
    out.write_all(&frame.tail)?;
    Ok(())
}

pub(super) fn padded(len: u64) -> u64 {
    len.next_multiple_of(ALIGN)
}

/// What stands before and after the buffers of a file.
pub(super) struct Frame {
    pub head: Vec<u8>,
    pub tail: Vec<u8>,
}

impl Frame {
    /// The frame of one batch, whose buffers, validity bitmaps among them, are so long and follow each other padded.
    pub fn new(schema: &Schema, rows: u64, nodes: &[FieldNode], lens: &[u64]) -> Self {
        let mut head = MAGIC.to_vec();
        head.resize(8, 0);
        push_message(&mut head, &schema_message(schema));
        let (start, body) = (head.len(), lens.iter().copied().map(padded).sum());
        push_message(&mut head, &batch_message(rows, nodes, lens, body));
        let block = Block::new(start as i64, (head.len() - start) as i32, body as i64);
        let footer = footer(schema, block);
        let len = (footer.len() as i32).to_le_bytes();
        Self { head, tail: [&END[..], &footer, &len, MAGIC].concat() }
    }
}

/// Adds an encapsulated message, padded so that what follows is aligned.
fn push_message(out: &mut Vec<u8>, flatbuffer: &[u8]) {
    let start = out.len();
    let end = padded((start + 8 + flatbuffer.len()) as u64) as usize;
    out.extend_from_slice(&CONTINUATION);
    out.extend_from_slice(&((end - start - 8) as i32).to_le_bytes());
    out.extend_from_slice(flatbuffer);
    out.resize(end, 0);
}

fn schema_message(schema: &Schema) -> Vec<u8> {
    let mut fbb = FlatBufferBuilder::new();
    let schema = IpcSchemaEncoder::new().schema_to_fb_offset(&mut fbb, schema);
    let mut message = MessageBuilder::new(&mut fbb);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::Schema);
    message.add_bodyLength(0);
    message.add_header(schema.as_union_value());
    let root = message.finish();
    fbb.finish(root, None);
    fbb.finished_data().to_vec()
}

fn batch_message(rows: u64, nodes: &[FieldNode], lens: &[u64], body: u64) -> Vec<u8> {
    let mut at = 0;
    let place = |&len: &u64| {
        let buffer = Buffer::new(at as i64, len as i64);
        at += padded(len);
        buffer
    };
    let buffers: Vec<Buffer> = lens.iter().map(place).collect();
    let mut fbb = FlatBufferBuilder::new();
    let (nodes, buffers) = (fbb.create_vector(nodes), fbb.create_vector(&buffers));
    let mut batch = RecordBatchBuilder::new(&mut fbb);
    batch.add_length(rows as i64);
    batch.add_nodes(nodes);
    batch.add_buffers(buffers);
    let batch = batch.finish();
    let mut message = MessageBuilder::new(&mut fbb);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::RecordBatch);
    message.add_bodyLength(body as i64);
    message.add_header(batch.as_union_value());
    let root = message.finish();
    fbb.finish(root, None);
    fbb.finished_data().to_vec()
}

fn footer(schema: &Schema, batch: Block) -> Vec<u8> {
    let mut fbb = FlatBufferBuilder::new();
    let schema = IpcSchemaEncoder::new().schema_to_fb_offset(&mut fbb, schema);
    let batches = fbb.create_vector(&[batch]);
    let mut footer = FooterBuilder::new(&mut fbb);
    footer.add_version(MetadataVersion::V5);
    footer.add_schema(schema);
    footer.add_recordBatches(batches);
    let root = footer.finish();
    fbb.finish(root, None);
    fbb.finished_data().to_vec()
}
