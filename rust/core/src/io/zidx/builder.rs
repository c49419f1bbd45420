//! A `.zidx` under way: fed while a file is inflated, written when that has come to its end.

use std::io::{self, Write};

use libdeflater::{CompressionLvl, Compressor};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{CHUNK, HEAD, MAGIC, PAGE, Point, Tail, VERSION};
use crate::error::Result;
use crate::io::Fingerprint;
use crate::io::deflate::Kind;
use crate::io::spool::{Spills, Spool};
use crate::watch::{Beat, Watch};

/// Bytes that each table keeps in memory before it moves to disk.
const IN_MEMORY: usize = 4 << 20;

/// Where records start in the uncompressed data, in rising order.
#[derive(Debug)]
pub struct Starts {
    spool: Spool,
    batch: Vec<u64>,
}

impl Starts {
    /// None yet.
    #[must_use]
    pub fn new(spills: &Spills) -> Self {
        Self { spool: spills.spool(IN_MEMORY), batch: Vec::new() }
    }

    /// One more.
    pub fn push(&mut self, start: u64) -> Result<()> {
        self.batch.push(start);
        if self.batch.len() == PAGE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.spool.append(bytemuck::cast_slice(&self.batch))?;
        self.batch.clear();
        Ok(())
    }
}

/// Collects points, windows and checksums of what a file inflates to.
pub struct Builder {
    spacing: u64,
    points: Spool,
    sums: Spool,
    windows: Spool,
    compressor: Compressor,
    hash: Xxh3,
    /// Bytes that the current chunk has so far.
    in_chunk: u64,
    /// Uncompressed bytes so far.
    out: u64,
    last_point: Option<u64>,
}

impl Builder {
    /// Points about `spacing` uncompressed bytes apart.
    #[must_use]
    pub fn new(spills: &Spills, spacing: u64) -> Self {
        let spool = || spills.spool(IN_MEMORY);
        Self {
            spacing: spacing.max(1),
            points: spool(),
            sums: spool(),
            windows: spool(),
            compressor: Compressor::new(CompressionLvl::default()),
            hash: Xxh3::new(),
            in_chunk: 0,
            out: 0,
            last_point: None,
        }
    }

    /// Whether the next place where inflating can begin should become a point.
    pub(crate) fn is_due(&self) -> bool {
        self.last_point.is_none_or(|last| self.out - last >= self.spacing)
    }

    /// The next uncompressed bytes.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.out += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min((CHUNK - self.in_chunk) as usize));
            self.hash.update(now);
            self.in_chunk += now.len() as u64;
            bytes = later;
            if self.in_chunk == CHUNK {
                self.end_chunk()?;
            }
        }
        Ok(())
    }

    /// Inflating can begin at compressed bit `bit`, after the bytes `window`.
    pub(crate) fn point(&mut self, bit: u64, window: &[u8]) -> Result<()> {
        self.end_chunk()?;
        let mut packed = vec![0; self.compressor.deflate_compress_bound(window.len())];
        let stored = match self.compressor.deflate_compress(window, &mut packed) {
            Ok(len) if len < window.len() => &packed[..len],
            _ => window,
        };
        let point = Point {
            bit,
            out: self.out,
            first_sum: self.sums.len() / 8,
            window: self.windows.len(),
            stored: stored.len() as u32,
            held: window.len() as u32,
        };
        self.windows.append(stored)?;
        self.points.append(bytemuck::bytes_of(&point))?;
        self.last_point = Some(self.out);
        Ok(())
    }

    fn end_chunk(&mut self) -> Result<()> {
        if self.in_chunk > 0 {
            self.sums.append(&self.hash.digest().to_le_bytes())?;
            self.hash.reset();
            self.in_chunk = 0;
        }
        Ok(())
    }

    /// Writes the index of a file that was inflated to its end and looked like `fingerprint`.
    pub fn finish(
        mut self,
        kind: Kind,
        fingerprint: &Fingerprint,
        mut starts: Starts,
        out: &mut impl Write,
        watch: &dyn Watch,
    ) -> Result<()> {
        self.end_chunk()?;
        starts.flush()?;
        let mut tail = Tail {
            kind,
            fingerprint: *fingerprint,
            data_size: self.out,
            points: self.points.len() / size_of::<Point>() as u64,
            sums: self.sums.len() / 8,
            starts: starts.spool.len() / 8,
            windows: self.windows.len(),
            pages_check: 0,
        };
        let padding = tail.windows.next_multiple_of(8) - tail.windows;
        let mut beat = Beat::new(watch, fingerprint.size);
        let mut paged = Paged { out, page: Vec::with_capacity(PAGE), sums: Vec::new() };
        paged.write_all(&MAGIC)?;
        paged.write_all(&VERSION.to_le_bytes())?;
        debug_assert_eq!(paged.page.len(), HEAD);
        for table in [&mut self.points, &mut self.sums, &mut starts.spool, &mut self.windows] {
            table.copy_to(&mut paged, || beat.go_on())?;
        }
        paged.write_all(&[0; 8][..padding as usize])?;
        let sums = paged.end()?;
        tail.pages_check = xxh3_64(bytemuck::cast_slice(&sums));
        out.write_all(bytemuck::cast_slice(&sums))?;
        out.write_all(bytemuck::cast_slice(&tail.words()))?;
        Ok(())
    }
}

/// Passes bytes on and keeps the checksum of every page of them.
struct Paged<'a, W> {
    out: &'a mut W,
    page: Vec<u8>,
    sums: Vec<u64>,
}

impl<W: Write> Paged<'_, W> {
    fn end(mut self) -> Result<Vec<u64>> {
        self.flush_page()?;
        Ok(self.sums)
    }

    fn flush_page(&mut self) -> io::Result<()> {
        if !self.page.is_empty() {
            self.sums.push(xxh3_64(&self.page));
            self.out.write_all(&self.page)?;
            self.page.clear();
        }
        Ok(())
    }
}

impl<W: Write> Write for Paged<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PAGE - self.page.len());
        self.page.extend_from_slice(&bytes[..taken]);
        if self.page.len() == PAGE {
            self.flush_page()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
