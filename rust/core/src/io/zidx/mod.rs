//! `.zidx`: where to begin inflating a gzip or zlib file, what must come out, and where its records start.
//!
//! Opened in constant time over a mapping. The file is cut into pages, each with a checksum that is compared whenever the
//! page is used, so that damage to it is an error and never another answer. The bytes are described in docs/formats.md.

mod builder;

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

pub use builder::{Builder, Starts};

use crate::error::{Error, Result};
use crate::io::Fingerprint;
use crate::io::deflate::{Kind, WINDOW};
use crate::io::store::Store;

/// Uncompressed bytes between two points, unless told otherwise.
pub const SPACING: u64 = 4 << 20;

/// Uncompressed bytes with a checksum of their own; fewer before a point and at the end.
pub const CHUNK: u64 = 1 << 16;

const MAGIC: [u8; 8] = *b"SEEKZIDX";
const VERSION: u64 = 1;
const HEAD: usize = 16;
const PAGE: usize = 4096;
/// Words of the tail, the last of which is the checksum of the others.
const TAIL: usize = 13;
const POINT: usize = 40;

/// Where inflating can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Point {
    /// The compressed bit at which a block starts.
    pub bit: u64,
    /// The uncompressed byte that comes out first.
    pub out: u64,
    /// The number of the first checksum that is about what comes out.
    first_sum: u64,
    /// Where the window lies among the windows, how many bytes it takes there, and how many it holds.
    window: u64,
    stored: u32,
    held: u32,
}

/// The facts at the end of the file.
#[derive(Debug, Clone, Copy)]
struct Tail {
    kind: Kind,
    fingerprint: Fingerprint,
    data_size: u64,
    points: u64,
    sums: u64,
    starts: u64,
    windows: u64,
    pages_check: u64,
}

impl Tail {
    fn words(&self) -> [u64; TAIL] {
        let Fingerprint { size, mtime_ns, sample } = self.fingerprint;
        let kind = match self.kind {
            Kind::Gzip => 1,
            Kind::Zlib => 2,
        };
        let mut words = [
            size,
            mtime_ns as u64,
            (mtime_ns >> 64) as u64,
            sample,
            kind,
            self.data_size,
            CHUNK,
            self.points,
            self.sums,
            self.starts,
            self.windows,
            self.pages_check,
            0,
        ];
        words[TAIL - 1] = xxh3_64(bytemuck::cast_slice(&words[..TAIL - 1]));
        words
    }

    fn read(words: [u64; TAIL]) -> Result<Self, String> {
        if words[TAIL - 1] != xxh3_64(bytemuck::cast_slice(&words[..TAIL - 1])) {
            return Err("the checksum of its tail does not fit".to_owned());
        }
        let [size, low, high, sample, kind, data_size, chunk, points, sums, starts, windows, pages_check, _] = words;
        let kind = match kind {
            1 => Kind::Gzip,
            2 => Kind::Zlib,
            other => return Err(format!("it is about a compression numbered {other}, which is not known")),
        };
        if chunk != CHUNK || points == 0 {
            return Err(format!("its checksums are about {chunk} bytes each, and it has {points} points"));
        }
        // No deflate stream grows by more than 1032 to 1.
        if data_size / 1040 > size {
            return Err(format!("a file of {size} bytes does not inflate to {data_size}"));
        }
        let mtime_ns = (i128::from(high as i64) << 64) | i128::from(low);
        let fingerprint = Fingerprint { size, mtime_ns, sample };
        Ok(Self { kind, fingerprint, data_size, points, sums, starts, windows, pages_check })
    }

    /// Where points, checksums, record starts, windows and page checksums lie, one after another.
    fn sections(&self) -> Option<[Range<usize>; 5]> {
        let mut at = HEAD;
        let mut section = |count: u64, width: usize| {
            let start = at;
            at = usize::try_from(count).ok()?.checked_mul(width)?.checked_add(start)?;
            Some(start..at)
        };
        let [points, sums, starts] = [section(self.points, POINT)?, section(self.sums, 8)?, section(self.starts, 8)?];
        let windows = section(self.windows.checked_next_multiple_of(8)?, 1)?;
        let pages = section(windows.end.div_ceil(PAGE) as u64, 8)?;
        Some([points, sums, starts, windows, pages])
    }
}

/// The index of a compressed file, open for reading in place.
#[derive(Debug, Clone)]
pub struct Zidx {
    store: Store,
    tail: Tail,
    points: Range<usize>,
    sums: Range<usize>,
    starts: Range<usize>,
    windows: Range<usize>,
    pages: Range<usize>,
}

impl Zidx {
    /// Opens the bytes of a `.zidx`. Costs next to the same for a megabyte of data and for a terabyte.
    pub fn open(store: Store) -> Result<Self> {
        let fail = |why: String| Error::format(0, format!("not a usable index of a compressed file: {why}"));
        let (tail, [points, sums, starts, windows, pages]) = parse(store.bytes()).map_err(fail)?;
        Ok(Self { store, tail, points, sums, starts, windows, pages })
    }

    /// How the file is compressed.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.tail.kind
    }

    /// What the compressed file looked like when it was indexed.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.tail.fingerprint
    }

    /// Bytes of the uncompressed data.
    #[must_use]
    pub fn data_size(&self) -> u64 {
        self.tail.data_size
    }

    /// How many points there are; at least one.
    #[must_use]
    pub fn points(&self) -> u64 {
        self.tail.points
    }

    /// How many records there are.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.tail.starts
    }

    /// Which uncompressed bytes record `row` takes: up to the next one, or to the end.
    pub fn record(&self, row: u64) -> Result<Range<u64>> {
        let row_out = || Error::RowOutOfRange { row: i64::try_from(row).unwrap_or(i64::MAX), rows: self.records() };
        let last = row.checked_add(1).filter(|&next| next <= self.records()).ok_or_else(row_out)?;
        let starts = self.starts(row..self.records().min(last + 1))?;
        let range = starts[0]..starts.get(1).copied().unwrap_or(self.data_size());
        if range.start < range.end && range.end <= self.data_size() { Ok(range) } else { Err(damaged("a record")) }
    }

    /// Where the records of `rows`, which must be rows of the index, start in the uncompressed data.
    pub fn starts(&self, rows: Range<u64>) -> Result<&[u64]> {
        self.words(&self.starts, rows)
    }

    /// Point `number` and the uncompressed bytes up to the next one.
    pub fn point(&self, number: u64) -> Result<(Point, Range<u64>)> {
        if number >= self.points() {
            return Err(damaged("a point"));
        }
        let last = number + 1 == self.points();
        let words = self.words(&self.points, number * 5..(number + if last { 1 } else { 2 }) * 5)?;
        let points: &[Point] = bytemuck::cast_slice(words);
        let span = points[0].out..points.get(1).map_or(self.data_size(), |next| next.out);
        let fits = span.start <= span.end && span.end <= self.data_size() && (number > 0 || span.start == 0);
        if fits { Ok((points[0], span)) } else { Err(damaged("a point")) }
    }

    /// The number of the last point at or before an uncompressed byte.
    pub fn point_of(&self, offset: u64) -> Result<u64> {
        let (mut low, mut high) = (0, self.points());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.point(middle)?.0.out <= offset { low = middle } else { high = middle }
        }
        Ok(low)
    }

    /// The checksum (xxh3-64) of chunk `number` of what comes out at a point.
    pub fn sum(&self, point: &Point, number: u64) -> Result<u64> {
        let at = point.first_sum.checked_add(number).filter(|&at| at < self.tail.sums);
        let at = at.ok_or_else(|| damaged("a point"))?;
        Ok(self.words(&self.sums, at..at + 1)?[0])
    }

    /// The bytes that come before a point, as far as what follows may refer to them.
    pub fn window(&self, point: &Point) -> Result<Vec<u8>> {
        let end = point.window.checked_add(point.stored.into()).filter(|&end| end <= self.tail.windows);
        let (Some(end), true) = (end, point.held as usize <= WINDOW) else { return Err(damaged("a point")) };
        let from = self.windows.start;
        let stored = self.checked(from + point.window as usize..from + end as usize)?;
        let mut window = vec![0; point.held as usize];
        if stored.len() == window.len() {
            window.copy_from_slice(stored);
        } else if libdeflater::Decompressor::new().deflate_decompress(stored, &mut window) != Ok(window.len()) {
            return Err(damaged("a window"));
        }
        Ok(window)
    }

    /// Compares the checksums of all pages, and looks whether points and records follow each other.
    pub fn verify(&self) -> Result<()> {
        self.checked(0..self.windows.end)?;
        (0..self.points()).try_for_each(|number| self.point(number).map(drop))?;
        (0..self.records()).try_for_each(|row| self.record(row).map(drop))
    }

    /// An error if the file that the index is mapped from was cut or overwritten.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        self.store.check_unchanged()
    }

    fn words(&self, section: &Range<usize>, range: Range<u64>) -> Result<&[u64]> {
        let place = |at: u64| usize::try_from(at).ok()?.checked_mul(8)?.checked_add(section.start);
        match (place(range.start), place(range.end)) {
            (Some(start), Some(end)) if start <= end && end <= section.end => {
                bytemuck::try_cast_slice(self.checked(start..end)?).map_err(|_| damaged("a table"))
            }
            _ => Err(damaged("a table")),
        }
    }

    /// Bytes of the index, after the checksums of the pages they lie in were compared.
    fn checked(&self, range: Range<usize>) -> Result<&[u8]> {
        let bytes = self.store.bytes();
        let gone = || Error::stale("its .zidx was cut while it was read; open it again");
        let sums: &[u64] =
            bytemuck::try_cast_slice(bytes.get(self.pages.clone()).ok_or_else(gone)?).map_err(|_| gone())?;
        for page in range.start / PAGE..range.end.div_ceil(PAGE) {
            let end = ((page + 1) * PAGE).min(self.windows.end);
            if sums.get(page) != Some(&xxh3_64(&bytes[page * PAGE..end])) {
                return Err(damaged(&format!("page {page}")));
            }
        }
        Ok(&bytes[range])
    }
}

fn damaged(what: &str) -> Error {
    Error::stale(format!("its .zidx is damaged ({what} does not fit); delete it, and it is built again"))
}

fn parse(bytes: &[u8]) -> Result<(Tail, [Range<usize>; 5]), String> {
    if !bytes.starts_with(&MAGIC) {
        return Err("it does not start as one".to_owned());
    }
    let version = bytes.get(8..HEAD).and_then(|version| version.try_into().ok()).map(u64::from_le_bytes);
    if version != Some(VERSION) {
        let version = version.map_or("none".to_owned(), |version| version.to_string());
        return Err(format!("its version is {version}, and this program's is {VERSION}"));
    }
    let (_, tail) = bytes.split_last_chunk::<{ 8 * TAIL }>().ok_or("it was cut short")?;
    let tail = Tail::read(bytemuck::pod_read_unaligned(tail))?;
    let sections = tail.sections().ok_or("its tables are longer than any file")?;
    let [.., pages] = &sections;
    if pages.end + 8 * TAIL != bytes.len() {
        return Err(format!("it has {} bytes instead of {}", bytes.len(), pages.end + 8 * TAIL));
    }
    if xxh3_64(&bytes[pages.clone()]) != tail.pages_check {
        return Err("the checksum of its page checksums does not fit".to_owned());
    }
    Ok((tail, sections))
}
