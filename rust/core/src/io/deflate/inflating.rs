//! The one pass over a compressed file: a reader of what it inflates to, which notes points on the way.

use std::io::{self, Read};

use super::decoder::Decoder;
use super::header::Kind;
use crate::error::Result;
use crate::io::source::Source;
use crate::io::zidx::Builder;
use crate::watch::{Beat, Watch};

/// Uncompressed bytes that are made in one go.
const PIECE: usize = 1 << 16;

/// Reads what a gzip or zlib file inflates to, from its start to its end, in bounded memory.
///
/// The checksums in the file are compared on the way: whoever has read to the end has read what was compressed. Errors of
/// the crate pass through [`Read`] inside an [`io::Error`] and are themselves again once they become an
/// [`Error`](crate::Error).
///
/// ```
/// use std::io::Read;
/// use seekset_core::io::deflate::{Inflating, Kind};
/// use seekset_core::watch::Unwatched;
/// # use std::io::Write;
/// # let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
/// # packer.write_all(b"what was compressed")?;
/// # let file = packer.finish()?;
/// let mut text = String::new();
/// Inflating::new(&file, Kind::Gzip, &Unwatched)?.read_to_string(&mut text)?;
/// assert_eq!(text, "what was compressed");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Inflating<'a> {
    raw: &'a dyn Source,
    decoder: Decoder,
    beat: Beat<'a>,
    builder: Option<&'a mut Builder>,
    piece: Vec<u8>,
    /// Bytes of the piece that were handed out.
    taken: usize,
    ended: bool,
}

impl<'a> Inflating<'a> {
    /// At the start of the compressed bytes `raw`.
    pub fn new(raw: &'a dyn Source, kind: Kind, watch: &'a dyn Watch) -> Result<Self> {
        let decoder = Decoder::new(kind, true)?;
        let beat = Beat::new(watch, raw.len());
        Ok(Self { raw, decoder, beat, builder: None, piece: Vec::new(), taken: 0, ended: false })
    }

    /// The same, with all that is needed to read the file at random put into `builder`.
    #[must_use]
    pub fn into_index(mut self, builder: &'a mut Builder) -> Self {
        self.builder = Some(builder);
        self
    }

    /// What is still to come is read and dropped: what is wrong with it is an error, and a builder knows the whole file.
    pub fn finish(mut self) -> Result<()> {
        while !self.ended {
            self.refill()?;
        }
        Ok(())
    }

    /// Makes the next piece, of a file that is still what it was at open. It may be empty before the end, too.
    fn refill(&mut self) -> Result<()> {
        self.raw.check_unchanged()?;
        let due = self.builder.as_ref().is_some_and(|builder| builder.is_due());
        self.piece.resize(PIECE, 0);
        self.taken = 0;
        let filled = self.decoder.fill(self.raw, &mut self.piece, due);
        self.piece.truncate(filled.as_ref().map_or(0, |filled| filled.len));
        let filled = filled?;
        if let Some(builder) = &mut self.builder {
            builder.take(&self.piece)?;
            if let Some(bit) = filled.boundary {
                builder.point(bit, &self.decoder.window())?;
            }
        }
        self.ended = filled.ended;
        self.beat.tell(self.decoder.at())
    }
}

impl Read for Inflating<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.piece.len() && !self.ended {
            self.refill().map_err(|error| match error {
                crate::Error::Io { path: None, source } => source,
                error => io::Error::other(error),
            })?;
        }
        let now = out.len().min(self.piece.len() - self.taken);
        out[..now].copy_from_slice(&self.piece[self.taken..self.taken + now]);
        self.taken += now;
        Ok(now)
    }
}
