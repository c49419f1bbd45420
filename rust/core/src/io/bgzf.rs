//! BGZF: gzip in blocks of at most 64 KiB, each of which can be inflated on its own.
//!
//! Inflating is libdeflate's; what is done here is to find the block for an offset. Both the checksum and the size of
//! every block are compared before its bytes are used.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use libdeflater::{Crc, Decompressor};

use super::gzi::Gzi;
use super::source::{Scratch, Source, checked};
use crate::error::{Error, Result};

/// The first bytes of every gzip member.
pub const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The empty block that writers put at the end, so that readers can tell a whole file from a cut one.
pub const END_MARK: [u8; 28] = *b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0\x1b\0\x03\0\0\0\0\0\0\0\0\0";

const TRAILER: usize = 8;

/// One block, as its header and trailer describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockInfo {
    /// Bytes of the header, before the compressed data.
    pub header: usize,
    /// Bytes of the whole block.
    pub size: usize,
}

/// Reads the header of the block that starts `bytes`. `None`: this is gzip, but not BGZF.
pub fn parse_block(bytes: &[u8], at: u64) -> Result<Option<BlockInfo>> {
    let fixed = bytes.get(..12).ok_or_else(|| Error::corrupt(at, "a block header is cut short"))?;
    if fixed[..3] != [0x1f, 0x8b, 8] {
        return Err(Error::corrupt(
            at,
            format!("expected the start of a gzip block, found 0x{:02x} 0x{:02x}", fixed[0], fixed[1]),
        ));
    }
    if fixed[3] & 4 == 0 {
        return Ok(None);
    }
    let extra = usize::from(u16::from_le_bytes([fixed[10], fixed[11]]));
    let mut fields = bytes.get(12..12 + extra).ok_or_else(|| Error::corrupt(at, "a block header is cut short"))?;
    while let [a, b, low, high, rest @ ..] = fields {
        let len = usize::from(u16::from_le_bytes([*low, *high]));
        if (*a, *b, len) == (b'B', b'C', 2) {
            let size = rest.get(..2).map(|s| usize::from(u16::from_le_bytes([s[0], s[1]])) + 1);
            return size
                .filter(|&size| size >= 12 + extra + TRAILER)
                .map(|size| Some(BlockInfo { header: 12 + extra, size }))
                .ok_or_else(|| Error::corrupt(at, "a block claims to be shorter than its own header"));
        }
        fields = rest.get(len..).unwrap_or(&[]);
    }
    Ok(None)
}

/// How many bytes a block inflates to, from its trailer.
fn inflated_size(block: &[u8]) -> u32 {
    block.last_chunk::<4>().map_or(0, |size| u32::from_le_bytes(*size))
}

/// Whether a block holds nothing, as its trailer says; one that says so and holds something is an error.
fn is_empty(block: &[u8], info: BlockInfo, at: u64, decompressor: &mut Decompressor) -> Result<bool> {
    if inflated_size(block) > 0 {
        return Ok(false);
    }
    let (data, trailer) = block[info.header..].split_at(info.size - info.header - TRAILER);
    // Five bytes are the longest way to say nothing. More are somebody else's, behind the end of what is inflated.
    if data.len() <= 5 && trailer == [0; TRAILER] && decompressor.deflate_decompress(data, &mut []) == Ok(0) {
        return Ok(true);
    }
    Err(Error::corrupt(at, "a block claims to be empty and is not"))
}

/// Whether the compressed bytes end as they should.
pub(crate) fn has_end_mark(raw: &dyn Source) -> Result<bool> {
    let Some(start) = raw.len().checked_sub(END_MARK.len() as u64) else { return Ok(false) };
    Ok(raw.bytes(start..raw.len(), &mut Scratch::default())? == END_MARK)
}

/// Walks over the blocks that start in `span`, without inflating: `found` gets each one's offset, size and inflated size.
pub(crate) fn walk(
    raw: &dyn Source,
    span: Range<u64>,
    mut found: impl FnMut(u64, u64, u64) -> Result<()>,
) -> Result<()> {
    let mut at = span.start;
    let mut scratch = Scratch::default();
    let mut decompressor = Decompressor::new();
    while at < span.end {
        let head = raw.bytes(at..raw.len().min(at + (1 << 16)), &mut scratch)?;
        let info = parse_block(head, at)?.ok_or_else(|| not_bgzf(at))?;
        let block = head.get(..info.size).ok_or_else(|| {
            Error::corrupt(at, format!("the file ends inside a block of {} bytes: it was cut short", info.size))
        })?;
        let inflated = inflated_size(block);
        if inflated > 1 << 16 {
            return Err(Error::corrupt(at, format!("a block claims {inflated} bytes; BGZF allows 65536")));
        }
        is_empty(block, info, at, &mut decompressor)?;
        found(at, info.size as u64, u64::from(inflated))?;
        at += info.size as u64;
    }
    Ok(())
}

/// The error for gzip that can't be read at random.
#[must_use]
pub fn not_bgzf(at: u64) -> Error {
    Error::format(
        at,
        "expected BGZF, found plain gzip, which can't be read at random; convert it: gunzip -c FILE.gz | bgzip > FILE.bgz.gz, or decompress it",
    )
}

/// What reading compressed blocks needs from call to call.
pub struct Inflate {
    decompressor: Decompressor,
    compressed: Scratch,
    /// The block inflated last: of which file, and which of its bytes.
    cached: Option<(u64, Range<u64>)>,
    block: Vec<u8>,
}

impl Default for Inflate {
    fn default() -> Self {
        Self { decompressor: Decompressor::new(), compressed: Scratch::default(), cached: None, block: Vec::new() }
    }
}

/// The uncompressed bytes of a BGZF file.
pub struct Bgzf {
    /// Different from that of every other in this process: one scratch may serve several.
    number: u64,
    raw: Box<dyn Source>,
    blocks: Gzi,
    len: u64,
}

impl Bgzf {
    /// A source over the compressed bytes `raw`, whose blocks `blocks` lists.
    pub fn new(raw: Box<dyn Source>, blocks: Gzi) -> Result<Self> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let len = blocks.inflated_len(&*raw)?;
        Ok(Self { number: NUMBERS.fetch_add(1, Ordering::Relaxed), raw, blocks, len })
    }

    /// Inflates block `number` into `out`, which must be of its inflated size.
    fn inflate(&self, number: usize, span: &Span, state: &mut Inflate, out: &mut [u8]) -> Result<()> {
        let at = span.compressed.start;
        let wrong = |what: &str| Error::corrupt(at, format!("block {number}: {what}"));
        let mut rest = self.raw.bytes(span.compressed.clone(), &mut state.compressed)?;
        let (info, block) = loop {
            let info = parse_block(rest, at)?.ok_or_else(|| wrong("it is gzip, but not BGZF"))?;
            let block =
                rest.get(..info.size).ok_or_else(|| wrong("it is longer than the .gzi says; delete the .gzi"))?;
            // Empty blocks have no entries of their own and stand in the span of the block before or after them.
            if out.is_empty() || !is_empty(block, info, at, &mut state.decompressor)? {
                break (info, block);
            }
            rest = &rest[info.size..];
        };
        let mut after = &rest[info.size..];
        while !after.is_empty() {
            let next = parse_block(after, at)?.filter(|next| next.size <= after.len());
            let next = next.ok_or_else(|| wrong("what follows it is no block; delete the .gzi"))?;
            if !is_empty(&after[..next.size], next, at, &mut state.decompressor)? {
                return Err(wrong("the .gzi leaves out the block after it; delete the .gzi"));
            }
            after = &after[next.size..];
        }
        if inflated_size(block) as usize != out.len() {
            return Err(wrong("its size differs from what the .gzi says; delete the .gzi"));
        }
        let (data, trailer) = block[info.header..].split_at(info.size - info.header - TRAILER);
        let size = state
            .decompressor
            .deflate_decompress(data, out)
            .map_err(|e| wrong(&format!("it can't be inflated ({e})")))?;
        let mut crc = Crc::new();
        crc.update(out);
        if size != out.len() || trailer[..4] != crc.sum().to_le_bytes() {
            return Err(wrong("its checksum does not fit its bytes"));
        }
        Ok(())
    }

    /// Makes sure that block `number` is the cached one.
    fn cache(&self, number: usize, span: &Span, state: &mut Inflate) -> Result<()> {
        let key = (self.number, span.inflated.clone());
        if state.cached.as_ref() == Some(&key) {
            return Ok(());
        }
        state.cached = None;
        let mut block = std::mem::take(&mut state.block);
        block.resize((span.inflated.end - span.inflated.start) as usize, 0);
        let result = self.inflate(number, span, state, &mut block);
        state.block = block;
        result?;
        state.cached = Some(key);
        Ok(())
    }
}

/// Where a block lies in the compressed and in the uncompressed bytes.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub compressed: Range<u64>,
    pub inflated: Range<u64>,
}

/// The bytes `wanted` of a block that holds the bytes `held`. They fit, unless the table changed meanwhile.
fn part<'a>(block: &'a [u8], held: &Range<u64>, wanted: &Range<u64>) -> Result<&'a [u8]> {
    let from = wanted.start.checked_sub(held.start);
    let part = from.and_then(|from| block.get(from as usize..from as usize + (wanted.end - wanted.start) as usize));
    part.ok_or_else(|| Error::stale("its .gzi changed while it was read; open it again"))
}

impl Source for Bgzf {
    fn len(&self) -> u64 {
        self.len
    }

    fn bytes<'a>(&'a self, range: Range<u64>, scratch: &'a mut Scratch) -> Result<&'a [u8]> {
        let wanted = checked(&range, self.len)?.len();
        if wanted == 0 {
            return Ok(&[]);
        }
        let Scratch { bytes, inflate, .. } = scratch;
        let state = inflate.get_or_insert_default();
        let mut number = self.blocks.block_of(range.start);
        let first = self.blocks.span(number, self.raw.len(), self.len)?;
        if range.end <= first.inflated.end {
            self.cache(number, &first, state)?;
            return part(&state.block, &first.inflated, &range);
        }
        if bytes.len() < wanted {
            bytes.resize(wanted, 0);
        }
        let mut at = range.start;
        while at < range.end {
            let span = self.blocks.span(number, self.raw.len(), self.len)?;
            let end = span.inflated.end.min(range.end);
            if end <= at {
                return Err(Error::stale("its .gzi changed while it was read; open it again"));
            }
            let out = &mut bytes[(at - range.start) as usize..(end - range.start) as usize];
            if at == span.inflated.start && end == span.inflated.end {
                self.inflate(number, &span, state, out)?;
            } else {
                self.cache(number, &span, state)?;
                out.copy_from_slice(part(&state.block, &span.inflated, &(at..end))?);
            }
            (at, number) = (end, number + 1);
        }
        Ok(&bytes[..wanted])
    }

    fn chunk_end(&self, at: u64, want: u64) -> u64 {
        // Whole blocks, so that none is inflated for two chunks.
        let end = at.saturating_add(want);
        if end >= self.len {
            return self.len;
        }
        let number = self.blocks.block_of(end);
        self.blocks.span(number, self.raw.len(), self.len).map_or(end, |span| span.inflated.end)
    }

    fn check_unchanged(&self) -> Result<()> {
        self.raw.check_unchanged()?;
        self.blocks.check_unchanged()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with the given flags and extra fields.
    fn header(flags: u8, extra: &[u8]) -> Vec<u8> {
        let len = extra.len() as u16;
        [&[0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 0xff][..], &len.to_le_bytes(), extra].concat()
    }

    #[test]
    fn the_size_of_a_block_is_in_its_extra_field() {
        for (bytes, expected) in [
            (header(4, b"BC\x02\0\x1b\0"), Some(BlockInfo { header: 18, size: 28 })),
            (header(4, b"XY\x03\0abcBC\x02\0\xff\xff"), Some(BlockInfo { header: 25, size: 65536 })),
            (header(4, b"XY\x03\0abc"), None),
            (header(4, b"BC\x03\0\x1b\0\0"), None),
            (header(4, b""), None),
            (header(0, b"BC\x02\0\x1b\0"), None),
        ] {
            assert_eq!(parse_block(&bytes, 7).unwrap(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn headers_that_are_cut_or_contradict_themselves_are_refused() {
        let whole = header(4, b"BC\x02\0\x1b\0");
        for (bytes, message) in [
            (&whole[..11], "a block header is cut short"),
            (&whole[..17], "a block header is cut short"),
            (&header(4, b"BC\x02\0\x18\0"), "a block claims to be shorter than its own header"),
            (&header(4, b"BC\x02\0\x1b"), "a block claims to be shorter than its own header"),
            (b">a\nACGTACGTACGT", "expected the start of a gzip block, found 0x3e 0x61"),
        ] {
            assert_eq!(parse_block(bytes, 7).unwrap_err().to_string(), format!("<bytes>: byte 7: {message}"));
        }
    }
}
