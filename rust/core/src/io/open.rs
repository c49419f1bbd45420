//! From a path to a source: what kind of file it is decides how it is read.

use std::ffi::OsString;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use super::bgzf::{self, Bgzf, GZIP_MAGIC};
use super::fingerprint::Fingerprint;
use super::guarded::Guarded;
use super::gzi::Gzi;
use super::mapped::Mapped;
use super::pread::Pread;
use super::source::{Scratch, Source};
use super::store::Store;
use super::whole::WholeFile;
use crate::error::{Error, Result};
use crate::watch::{Unwatched, Watch};

/// How bytes are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// Through a memory map: fastest.
    #[default]
    Mmap,
    /// By `pread`: for files that others may shrink at any moment.
    Pread,
}

impl FromStr for Access {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "mmap" => Ok(Self::Mmap),
            "pread" => Ok(Self::Pread),
            _ => Err(Error::Mismatch(format!("io must be \"mmap\" or \"pread\", not \"{name}\""))),
        }
    }
}

/// How far the `.gzi` of a BGZF file is believed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Table {
    /// It is used if it fits as far as a few looks tell, and made anew if not.
    #[default]
    Sampled,
    /// It is compared block by block, for those who are about to read the whole file.
    Compared,
    /// It is used if it fits; if not, that is an error. Where there is none, one is made in memory: nothing is written.
    Kept,
}

/// An open file: its uncompressed bytes and what it looked like.
pub struct Opened {
    /// The uncompressed bytes.
    pub source: Arc<dyn Source>,
    /// Of the file as it lies on disk.
    pub fingerprint: Fingerprint,
    /// What is odd about the file and no reason not to read it.
    pub remark: Option<String>,
}

struct Shared(Arc<Mapped>);

impl Source for Shared {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn bytes<'a>(&'a self, range: std::ops::Range<u64>, scratch: &'a mut Scratch) -> Result<&'a [u8]> {
        self.0.bytes(range, scratch)
    }
    fn in_memory(&self) -> Option<&[u8]> {
        self.0.in_memory()
    }
    fn prefetch(&self, offset: u64, len: u64) {
        self.0.prefetch(offset, len);
    }
    fn check_unchanged(&self) -> Result<()> {
        self.0.check_unchanged()
    }
}

/// Opens a plain or BGZF-compressed file. A BGZF file's `.gzi` is used if it fits and made if it does not.
pub fn open_source(path: &Path, access: Access) -> Result<Opened> {
    open_watched(path, access, Table::default(), &Unwatched)
}

/// [`open_source`], with a say in what becomes of a `.gzi`, and watched while one is made.
pub fn open_watched(path: &Path, access: Access, table: Table, watch: &dyn Watch) -> Result<Opened> {
    let (raw, fingerprint, start): (Box<dyn Source>, _, _) = match access {
        Access::Mmap => {
            let mapped = Mapped::open(path)?;
            let (fingerprint, start) = look(mapped.guarded())?;
            (Box::new(Shared(mapped)), fingerprint, start)
        }
        Access::Pread => {
            let pread = Pread::open(path)?;
            let (fingerprint, start) = look(pread.guarded())?;
            (Box::new(pread), fingerprint, start)
        }
    };
    refuse_foreign(start).and_then(|()| refuse_nothing(path, raw.len())).map_err(|e| e.in_file(path))?;
    if !start.starts_with(&GZIP_MAGIC) {
        return Ok(Opened { source: raw.into(), fingerprint, remark: None });
    }
    let blocks = blocks(&*raw, path, &fingerprint, table, watch).map_err(|e| e.in_file(path))?;
    let remark = (!bgzf::has_end_mark(&*raw).map_err(|e| e.in_file(path))?)
        .then(|| "the empty block that ends every BGZF file is missing: the file may have been cut short".to_owned());
    let source = Bgzf::new(raw, blocks).map_err(|e| e.in_file(path))?;
    Ok(Opened { source: Arc::new(source), fingerprint, remark })
}

fn look(guarded: &Guarded) -> Result<(Fingerprint, [u8; 6])> {
    let mut start = [0; 6];
    // A shorter file leaves zeros, which are nobody's magic.
    guarded.with_file(|file| file.read_at(&mut start, 0))?;
    Ok((guarded.with_file(Fingerprint::of)?, start))
}

/// Formats that people have and that can't be read at random.
fn refuse_foreign(start: [u8; 6]) -> Result<()> {
    let kind = match start {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        [0xfd, b'7', b'z', b'X', b'Z', 0] => "xz",
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41] => "bzip2",
        _ => return Ok(()),
    };
    Err(Error::format(
        0,
        format!("expected text or BGZF, found a {kind} file; decompress it, or recompress it with bgzip"),
    ))
}

/// An error for a file without any bytes that should be compressed by its name: not even nothing is compressed to that.
pub(crate) fn refuse_nothing(path: &Path, bytes: u64) -> Result<()> {
    let packed = ["gz", "bgz", "bgzf", "zlib"];
    let named = path.extension().is_some_and(|suffix| packed.iter().any(|one| suffix.eq_ignore_ascii_case(one)));
    if bytes > 0 || !named {
        return Ok(());
    }
    let message = "expected compressed data, as its name says, found no bytes at all: it may have been cut short";
    Err(Error::format(0, message))
}

/// `path` with `.suffix` added.
#[must_use]
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn blocks(raw: &dyn Source, path: &Path, seen: &Fingerprint, table: Table, watch: &dyn Watch) -> Result<Gzi> {
    let mut scratch = Scratch::default();
    let head = raw.bytes(0..raw.len().min(1 << 16), &mut scratch)?;
    bgzf::parse_block(head, 0)?.ok_or_else(|| bgzf::not_bgzf(0))?;
    let gzi_path = beside(path, ".gzi");
    let there = Mapped::open(&gzi_path).ok();
    if let Some(known) = there.as_ref().filter(|_| table != Table::Compared).and_then(|there| usable(raw, there, seen))
    {
        return Ok(known);
    }
    if there.is_some() && table == Table::Kept {
        return Err(Error::stale(format!("its block table {} is not that of the file", gzi_path.display())));
    }
    let bytes = Gzi::build(raw, watch)?;
    let fits = there.is_some_and(|there| there.as_bytes() == bytes && is_newer(&there, seen));
    if !fits && table != Table::Kept {
        // A folder that can't be written is no reason not to read.
        let _ = WholeFile::create(&gzi_path).and_then(|mut file| {
            std::io::Write::write_all(&mut file, &bytes)?;
            file.publish()
        });
    }
    Gzi::open(Store::memory(&bytes))
}

/// What lies beside the file as its table, if it is no older than the file and fits it.
fn usable(raw: &dyn Source, there: &Arc<Mapped>, seen: &Fingerprint) -> Option<Gzi> {
    let gzi = Gzi::open(Store::File(Arc::clone(there))).ok().filter(|_| is_newer(there, seen))?;
    gzi.fits(raw).then_some(gzi)
}

/// Whether a table is no older than the file it is for.
fn is_newer(there: &Mapped, seen: &Fingerprint) -> bool {
    there.guarded().mtime_ns() >= seen.mtime_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_have_names() {
        assert_eq!("mmap".parse::<Access>().unwrap(), Access::Mmap);
        assert_eq!("pread".parse::<Access>().unwrap(), Access::Pread);
        assert!("MMAP".parse::<Access>().is_err());
    }

    #[test]
    fn suffixes_are_added_to_the_whole_name() {
        assert_eq!(beside(Path::new("a/b.fa.gz"), ".gzi"), Path::new("a/b.fa.gz.gzi"));
        assert_eq!(beside(Path::new("b"), ".sidx"), Path::new("b.sidx"));
    }

    #[test]
    fn short_files_are_taken_for_what_they_start_like() {
        for (start, kind) in [
            (*b"\x28\xb5\x2f\xfd\0\0", Some("zstd")),
            (*b"\xfd7zXZ\0", Some("xz")),
            (*b"BZh91A", Some("bzip2")),
            (*b"BZhACG", None),
            (*b">a\nACG", None),
            ([0; 6], None),
        ] {
            let error = refuse_foreign(start).err().map(|e| e.to_string());
            assert_eq!(error.is_some(), kind.is_some());
            assert!(error.is_none_or(|error| error.contains(kind.unwrap_or("?"))));
        }
    }

    #[test]
    fn both_accesses_read_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for bytes in [&b""[..], b">", b">a\nACGT\n"] {
            std::fs::write(&path, bytes).unwrap();
            for access in [Access::Mmap, Access::Pread] {
                let opened = open_source(&path, access).unwrap();
                assert_eq!((opened.source.len(), opened.fingerprint.size), (bytes.len() as u64, bytes.len() as u64));
                assert_eq!(opened.source.bytes(0..bytes.len() as u64, &mut Scratch::default()).unwrap(), bytes);
                assert!(opened.source.bytes(0..bytes.len() as u64 + 1, &mut Scratch::default()).is_err());
                assert_eq!(opened.remark, None);
            }
        }
    }
}
