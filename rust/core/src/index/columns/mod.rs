//! Columns in an Arrow IPC file: written as a stream, or each at its place; read in place.
//!
//! The container is Arrow's, so that pyarrow, polars and duckdb open an index as it is. Two things are done here rather
//! than by arrow-rs: a batch is written without ever being in memory as a whole, and a file is opened in
//! constant time over a mapping, with every access checked, because arrow-rs either validates all of a file or trusts it.

mod column;
mod placed;

pub use column::{Column, write};
pub use placed::Placed;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use arrow_ipc::{Block, Footer, Message};
use arrow_schema::{DataType, Schema};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Place, Result};
use crate::io::Store;

const MAGIC: &[u8; 6] = b"ARROW1";
/// What stands after the last message: a continuation without a message.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
const ALIGN: u64 = 64;

const SEAL: &str = "seekset.check";

/// Metadata under their full names, with a checksum of them all.
#[must_use]
pub fn sealed(pairs: impl IntoIterator<Item = (&'static str, String)>) -> HashMap<String, String> {
    let named = pairs.into_iter().map(|(key, value)| (format!("seekset.{key}"), value));
    let mut metadata: HashMap<String, String> = named.collect();
    let seal = format!("{:016x}", seal(&metadata));
    metadata.insert(SEAL.to_owned(), seal);
    metadata
}

/// A checksum of all that a schema says, but for the checksum itself.
fn seal(metadata: &HashMap<String, String>) -> u64 {
    let sorted: BTreeMap<_, _> = metadata.iter().filter(|(key, _)| *key != SEAL).collect();
    let lines: String = sorted.into_iter().flat_map(|(key, value)| [key, "=", value, "\n"]).collect();
    xxh3_64(lines.as_bytes())
}

/// Where the schema says what kind of index a file is.
const KIND: &str = "seekset.kind";

/// The kinds of index, and what they are.
const KINDS: [(&str, &str); 3] = [
    ("fasta", "the index of one FASTA file, which Fasta reads"),
    ("sequences", "an index over many FASTA files, which SequenceIndex.load reads"),
    ("plan", "a plan of batches, which Plan.load reads"),
];

/// What makes a file of a kind.
/// A schema lies within so many bytes from the start, whatever it says of files.
const SCHEMA: usize = 64 << 20;

const MADE: [(&str, &str); 2] = [
    ("sequences", "`seekset index FILES -o INDEX` makes a sequence index"),
    ("plan", "`seekset plan INDEX -o PLAN` makes a plan"),
];

/// An error if bytes are plainly something else than a file of this kind: what they are, and what makes the right one.
pub(crate) fn refuse_other(bytes: &[u8], kind: &str) -> Result<()> {
    let start = bytes.trim_ascii_start();
    let found = match start.first() {
        None => Some("an empty file"),
        Some(b'>') => Some("a FASTA file, which Fasta reads"),
        Some(b'{') if kind == "plan" => Some("JSON, as a sequence index may be, which SequenceIndex.load reads"),
        _ if start.starts_with(&[0x1f, 0x8b]) => Some("a compressed file, as a FASTA file may be, which Fasta reads"),
        _ => open_file(bytes).ok().and_then(|file| {
            let found = file.schema.metadata().get(KIND).filter(|found| *found != kind)?;
            KINDS.iter().find(|(known, _)| known == found).map(|(_, what)| *what)
        }),
    };
    let Some(found) = found else { return Ok(()) };
    let made = MADE.iter().find(|(known, _)| *known == kind).map_or(String::new(), |(_, made)| format!("; {made}"));
    Err(Error::Format { path: None, place: Place::default(), message: format!("this is {found}{made}") })
}

/// What a file of another kind is, in words.
fn told(kind: &str) -> String {
    let known = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, what)| format!(": {what}"));
    format!("found '{kind}'{}", known.unwrap_or_default())
}

/// What bytes are, in words, if they are an index of another kind.
pub(crate) fn other_kind(bytes: &[u8], kind: &str) -> Option<String> {
    let file = open_file(bytes).ok()?;
    let found = file.schema.metadata().get(KIND)?;
    (found != kind && KINDS.iter().any(|(known, _)| known == found)).then(|| told(found))
}

/// Whether an Arrow file is one of seekset's; a damaged one still has the names of its metadata, if anything.
pub(crate) fn is_ours(bytes: &[u8]) -> bool {
    match open_file(bytes) {
        Ok(file) => file.schema.metadata().contains_key(KIND),
        Err(_) => memchr::memmem::find(&bytes[..bytes.len().min(SCHEMA)], b"seekset.").is_some(),
    }
}

/// A file of one batch, open for reading in place.
#[derive(Debug, Clone)]
pub struct Columns {
    store: Store,
    /// What the schema says beside the columns.
    pub metadata: HashMap<String, String>,
    rows: u64,
    /// Where each buffer lies in the store, validity bitmaps left out, in the order of the columns.
    buffers: Vec<Range<usize>>,
}

impl Columns {
    /// Opens a file whose columns must be those of `fields`. Costs the same for a thousand rows and for a billion.
    pub fn open(store: Store, fields: &[(&str, DataType)]) -> Result<Self> {
        let parsed = open_file(store.bytes()).and_then(|file| parse(&file, fields));
        let Parsed { metadata, rows, buffers } =
            parsed.map_err(|why| Error::format(0, format!("not a usable index: {why}")))?;
        Ok(Self { store, metadata, rows, buffers })
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// An error unless the file is of this kind and version.
    pub fn check_kind(&self, kind: &str, version: u32) -> Result<()> {
        let found = self.text("kind")?;
        if found != kind {
            return Err(Error::format(0, format!("expected an index of kind '{kind}', {}", told(found))));
        }
        if self.number("version", 10)? != i128::from(version) {
            let found = self.text("version")?;
            return Err(Error::format(0, format!("expected an index of version {version}, found {found}")));
        }
        Ok(())
    }

    /// Whether the metadata were [`sealed`]: those of a `.sidx` were not always.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.metadata.contains_key(SEAL)
    }

    /// An error unless the metadata are as they were [`sealed`].
    pub fn check_seal(&self) -> Result<()> {
        if self.number("check", 16)? == i128::from(seal(&self.metadata)) {
            Ok(())
        } else {
            Err(Error::format(0, "not a usable index: its metadata are damaged"))
        }
    }

    /// An error unless there are as many rows as the file was written with.
    pub fn check_rows(&self) -> Result<()> {
        if self.number("rows", 10)? == i128::from(self.rows) {
            return Ok(());
        }
        let (rows, found) = (self.text("rows")?, self.rows);
        Err(Error::format(0, format!("not a usable index: it was written with {rows} rows and has {found}")))
    }

    /// What the schema says under `seekset.{key}`.
    pub fn text(&self, key: &str) -> Result<&str> {
        let value = self.metadata.get(&format!("seekset.{key}")).map(String::as_str);
        value.ok_or_else(|| Error::format(0, format!("not a usable index: its metadata lack seekset.{key}")))
    }

    /// The number that stands under `seekset.{key}`.
    pub fn number(&self, key: &str, radix: u32) -> Result<i128> {
        let text = self.text(key)?;
        i128::from_str_radix(text, radix)
            .map_err(|_| Error::format(0, format!("not a usable index: seekset.{key} is '{text}', not a number")))
    }

    /// The buffer's numbers.
    #[must_use]
    pub fn numbers<T: bytemuck::Pod>(&self, buffer: usize) -> &[T] {
        bytemuck::try_cast_slice(self.bytes(buffer)).unwrap_or(&[])
    }

    /// The buffer's bytes.
    #[must_use]
    pub fn bytes(&self, buffer: usize) -> &[u8] {
        self.buffers.get(buffer).and_then(|range| self.store.bytes().get(range.clone())).unwrap_or(&[])
    }

    /// The bytes behind the columns.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Where in the store a buffer lies.
    #[must_use]
    pub fn place(&self, buffer: usize) -> Range<usize> {
        self.buffers.get(buffer).cloned().unwrap_or(0..0)
    }
}

/// An Arrow file whose footer was read.
struct Open<'a> {
    footer: Footer<'a>,
    schema: Schema,
    /// What stands before the footer and its mark.
    before: &'a [u8],
}

struct Parsed {
    metadata: HashMap<String, String>,
    rows: u64,
    buffers: Vec<Range<usize>>,
}

fn open_file(bytes: &[u8]) -> Result<Open<'_>, String> {
    let body = bytes
        .strip_prefix(MAGIC)
        .and_then(|b| b.strip_suffix(MAGIC))
        .ok_or("it does not start and end as an Arrow file")?;
    let (body, len) = body.split_last_chunk::<4>().ok_or("it is too short")?;
    let len = usize::try_from(i32::from_le_bytes(*len)).map_err(|_| "its footer has a negative length")?;
    let at = body.len().checked_sub(len).ok_or("its footer is longer than the file")?;
    let before = bytes[..MAGIC.len() + at].strip_suffix(&END).ok_or("its batch does not end before its footer")?;
    let footer = arrow_ipc::root_as_footer(&body[at..]).map_err(|e| format!("its footer is damaged ({e})"))?;
    let schema = footer.schema().ok_or("it has no schema")?;
    let schema = arrow_ipc::convert::try_fb_to_schema(schema).map_err(|e| format!("its schema is damaged ({e})"))?;
    Ok(Open { footer, schema, before })
}

/// Finds the buffers. Everything that a length or an offset in the file leads to is checked on the way.
fn parse(file: &Open<'_>, fields: &[(&str, DataType)]) -> Result<Parsed, String> {
    let Open { footer, schema, before } = file;
    let same = schema.fields().len() == fields.len()
        && schema.fields().iter().zip(fields).all(|(f, (name, kind))| f.name() == name && f.data_type() == kind);
    if !same {
        let kind = schema.metadata().get(KIND).map(|kind| format!("; of kinds of index, {}", told(kind)));
        return Err(format!("its columns are not those of this version{}", kind.unwrap_or_default()));
    }
    let batches = footer.recordBatches().ok_or("it has no batch")?;
    if batches.len() != 1 {
        return Err(format!("it has {} batches instead of one", batches.len()));
    }
    let (rows, buffers) = parse_batch(before, batches.get(0), fields)?;
    Ok(Parsed { metadata: schema.metadata().clone().into(), rows, buffers })
}

fn parse_batch(bytes: &[u8], block: &Block, fields: &[(&str, DataType)]) -> Result<(u64, Vec<Range<usize>>), String> {
    let number = |n: i64| usize::try_from(n).map_err(|_| "its batch has a negative length".to_owned());
    let start = number(block.offset())?;
    let after = start.checked_add(number(i64::from(block.metaDataLength()))?).ok_or("its batch is out of bounds")?;
    let message = bytes.get(start..after).and_then(|b| b.get(8..)).ok_or("its batch is out of bounds")?;
    let message: Message<'_> =
        arrow_ipc::root_as_message(message).map_err(|e| format!("its batch is damaged ({e})"))?;
    let batch = message.header_as_record_batch().ok_or("its batch is something else")?;
    if batch.compression().is_some() {
        return Err("it is compressed, which seekset does not write".to_owned());
    }
    // All the bytes that are left: some that were put in or taken out anywhere show here.
    let fits = |body: &&[u8]| number(block.bodyLength()).is_ok_and(|len| len == body.len());
    let body = bytes.get(after..).filter(fits).ok_or("its body is too short or too long")?;
    let listed = batch.buffers().ok_or("it has no buffers")?;
    let rows = number(batch.length())?;
    if rows > body.len() {
        return Err(format!("it claims {rows} rows in {} bytes", body.len()));
    }
    let mut listed = listed.iter();
    let mut found = Vec::new();
    let mut next = |least: usize| {
        let buffer = listed.next().ok_or("a buffer is missing")?;
        let (at, len) = (number(buffer.offset())?, number(buffer.length())?);
        let end = at.checked_add(len).filter(|&end| end <= body.len()).ok_or("a buffer is out of bounds")?;
        if len < least || (after + at) % 8 != 0 {
            return Err(format!("a buffer of {len} bytes is too short for {rows} rows or lies askew"));
        }
        Ok(after + at..after + end)
    };
    for (_, kind) in fields {
        next(0)?; // validity
        let width = |w: usize, n: usize| n.checked_mul(w).ok_or("it claims more rows than fit");
        match kind {
            DataType::LargeUtf8 => {
                found.push(exactly(next(width(8, rows + 1)?)?, 8 * (rows + 1)));
                found.push(next(0)?);
            }
            DataType::List(child) | DataType::LargeList(child) => {
                let end = if matches!(kind, DataType::List(_)) { 4 } else { 8 };
                found.push(exactly(next(width(end, rows + 1)?)?, end * (rows + 1)));
                next(0)?; // the child's validity
                let (values, each) = (next(0)?, child.data_type().primitive_width().unwrap_or(1));
                found.push(exactly(values.clone(), values.len() / each * each));
            }
            kind => {
                let bytes = width(kind.primitive_width().unwrap_or(1), rows)?;
                found.push(exactly(next(bytes)?, bytes));
            }
        }
    }
    Ok((rows as u64, found))
}

fn exactly(range: Range<usize>, len: usize) -> Range<usize> {
    range.start..range.start + len
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::io::Spills;
    use crate::io::spool::Spool;
    use arrow_schema::Field;

    fn fields() -> [(&'static str, DataType); 3] {
        let list = DataType::List(Arc::new(Field::new("item", DataType::UInt64, false)));
        [("name", DataType::LargeUtf8), ("size", DataType::UInt32), ("marks", list)]
    }

    fn spool(numbers: &[u8]) -> Spool {
        let mut spool = Spills::elsewhere().spool(1 << 10);
        spool.append(numbers).unwrap();
        spool
    }

    /// Two rows: ("a", 7, [1, 2]) and ("bc", 8, []).
    fn file() -> Vec<u8> {
        let fields = fields().map(|(name, kind)| Field::new(name, kind, false)).to_vec();
        let schema = Schema::new_with_metadata(fields, HashMap::from([("key".to_owned(), "value".to_owned())]));
        let cast = |numbers: &[u64]| spool(bytemuck::cast_slice(numbers));
        let mut columns = [
            Column::Text(cast(&[0, 1, 3]), spool(b"abc")),
            Column::Numbers(spool(bytemuck::cast_slice(&[7_u32, 8]))),
            Column::Lists(spool(bytemuck::cast_slice(&[0_u32, 2, 2])), cast(&[1, 2]), 8),
        ];
        let mut out = Vec::new();
        write(&mut out, &schema, 2, &mut columns, || Ok(())).unwrap();
        out
    }

    #[test]
    fn columns_are_read_as_they_were_written() {
        let columns = Columns::open(Store::memory(&file()), &fields()).unwrap();
        assert_eq!(columns.rows(), 2);
        assert_eq!(columns.metadata["key"], "value");
        assert_eq!((columns.numbers::<u64>(0), columns.bytes(1)), (&[0, 1, 3][..], &b"abc"[..]));
        assert_eq!(columns.numbers::<u32>(2), [7, 8]);
        assert_eq!((columns.numbers::<u32>(3), columns.numbers::<u64>(4)), (&[0, 2, 2][..], &[1, 2][..]));
        assert_eq!((columns.bytes(5), columns.place(5)), (&[][..], 0..0));
        assert!((0..5).all(|buffer| columns.place(buffer).start.is_multiple_of(ALIGN as usize)));
    }

    #[test]
    fn other_columns_are_refused() {
        let [name, size, marks] = fields();
        for wanted in [
            vec![name.clone(), size.clone()],
            vec![size.clone(), name.clone(), marks.clone()],
            vec![("other", DataType::LargeUtf8), size.clone(), marks.clone()],
            vec![name.clone(), ("size", DataType::UInt64), marks.clone()],
        ] {
            let error = Columns::open(Store::memory(&file()), &wanted).unwrap_err().to_string();
            assert!(error.contains("its columns are not those of this version"), "{error}");
        }
    }

    #[test]
    fn what_is_no_arrow_file_is_refused() {
        let file = file();
        for bytes in [
            &b""[..],
            b"ARROW1",
            b"ARROW1ARROW1",
            b"ARROW1\0\0\0\0\xff\xff\xff\xffARROW1",
            &file[1..],
            &file[..file.len() - 1],
        ] {
            assert!(Columns::open(Store::memory(bytes), &fields()).is_err());
        }
    }
}
