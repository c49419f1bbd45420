//! TFRecord files written record by record, with the index beside.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use flate2::write::{GzEncoder, ZlibEncoder};

use super::indexing::is_index;
use crate::error::{Error, Result};
use crate::index::idx;
use crate::io::open::beside;
use crate::io::whole::{WholeFile, refuse_to_replace};
use crate::scan::tfrecord::{AROUND, Entry, frame};

/// How all of a file is compressed, as TensorFlow does it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// One gzip member.
    Gzip,
    /// One zlib stream.
    Zlib,
}

impl FromStr for Compression {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "gzip" => Ok(Self::Gzip),
            "zlib" => Ok(Self::Zlib),
            _ => Err(Error::Mismatch(format!("compression must be \"gzip\", \"zlib\" or None, not \"{name}\""))),
        }
    }
}

enum Out {
    Plain(WholeFile),
    Gzip(GzEncoder<WholeFile>),
    Zlib(ZlibEncoder<WholeFile>),
}

impl Out {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(file) => file,
            Self::Gzip(encoder) => encoder,
            Self::Zlib(encoder) => encoder,
        }
    }

    fn finish(self) -> io::Result<WholeFile> {
        match self {
            Self::Plain(file) => Ok(file),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zlib(encoder) => encoder.finish(),
        }
    }
}

/// A TFRecord file under way. Dropped without [`TfRecordWriter::publish`], it leaves what was there before.
///
/// ```
/// use seekset_core::tfrecord::{Compression, OpenOptions, TfRecordWriter};
/// use seekset_core::TfRecordFile;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("two.tfrecord");
/// let mut writer = TfRecordWriter::create(&path, Compression::None, true)?;
/// writer.write(b"one")?;
/// writer.write(b"two")?;
/// assert_eq!(writer.publish()?, 2);
/// assert_eq!(TfRecordFile::open(&path, &OpenOptions::default())?.payload(1)?, b"two");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TfRecordWriter {
    path: PathBuf,
    out: Out,
    index: Option<WholeFile>,
    line: Vec<u8>,
    end: u64,
    records: u64,
    failed: bool,
}

impl TfRecordWriter {
    /// Starts a file, and with `index` the index that DALI reads. A compressed file has none: no offset into it would be
    /// of use to DALI.
    pub fn create(path: &Path, compression: Compression, index: bool) -> Result<Self> {
        let index = if index && compression == Compression::None {
            let index = beside(path, ".idx");
            refuse_to_replace(&index, Some(path), ".idx", is_index)?;
            Some(WholeFile::create(&index)?)
        } else {
            None
        };
        let file = WholeFile::create(path)?;
        let level = flate2::Compression::default();
        let out = match compression {
            Compression::None => Out::Plain(file),
            Compression::Gzip => Out::Gzip(GzEncoder::new(file, level)),
            Compression::Zlib => Out::Zlib(ZlibEncoder::new(file, level)),
        };
        Ok(Self { path: path.to_owned(), out, index, line: Vec::new(), end: 0, records: 0, failed: false })
    }

    /// How many records were written.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Adds a record. After an error the file can't be finished any more.
    pub fn write(&mut self, payload: &[u8]) -> Result<()> {
        self.refuse_if_failed()?;
        let written = self.add(payload);
        self.failed = written.is_err();
        written.map_err(|e| Error::io(&self.path, e))
    }

    fn add(&mut self, payload: &[u8]) -> io::Result<()> {
        let out = self.out.writer();
        out.write_all(&frame::header(payload.len() as u64))?;
        out.write_all(payload)?;
        out.write_all(&frame::checksum(payload).to_le_bytes())?;
        let entry = Entry { offset: self.end, size: payload.len() as u64 + AROUND };
        if let Some(index) = &mut self.index {
            self.line.clear();
            idx::push_line(&mut self.line, entry);
            index.write_all(&self.line)?;
        }
        self.end += entry.size;
        self.records += 1;
        Ok(())
    }

    /// Gives the file, and then its index, their names, replacing what was there. The records are on the disk by then.
    pub fn publish(self) -> Result<u64> {
        self.refuse_if_failed()?;
        let Self { path, out, index, records, .. } = self;
        let mut file = out.finish().map_err(|e| Error::io(&path, e))?;
        file.sync()?;
        file.publish()?;
        index.map(WholeFile::publish).transpose()?;
        Ok(records)
    }

    fn refuse_if_failed(&self) -> Result<()> {
        if self.failed {
            let path = self.path.display();
            return Err(Error::Mismatch(format!("{path}: a record could not be written, so the file was given up")));
        }
        Ok(())
    }
}
