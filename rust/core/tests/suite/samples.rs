//! Files on disk and compressed bytes, for tests that start from a path.

use std::path::PathBuf;

use libdeflater::{CompressionLvl, Compressor, Crc};
use seekset_core::fasta::{Fasta, OpenOptions};
use seekset_core::index::sidx::Builder;
use seekset_core::io::{Access, Fingerprint, Source};
use seekset_core::scan::fasta::scan;
use seekset_core::watch::Unwatched;
use tempfile::TempDir;

/// A file in a folder of its own, which goes with it.
pub struct Sample {
    folder: TempDir,
    name: &'static str,
}

impl Sample {
    pub fn new(bytes: &[u8]) -> Self {
        Self::named("sample.fa", bytes)
    }

    pub fn named(name: &'static str, bytes: &[u8]) -> Self {
        let sample = Self { folder: tempfile::tempdir().expect("a folder"), name };
        std::fs::write(sample.path(), bytes).expect("a file");
        sample
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join(self.name)
    }

    pub fn open(&self, access: Access) -> Fasta {
        Fasta::open(&self.path(), &OpenOptions { access, ..OpenOptions::default() }).expect("a FASTA file")
    }
}

/// The bytes of the index of a file in memory.
pub fn index_of(file: &[u8]) -> Vec<u8> {
    let source = file.to_vec();
    let fingerprint = Fingerprint { size: source.len() as u64, mtime_ns: 1, sample: 2 };
    let mut builder =
        Builder::new(&source as &dyn Source, &seekset_core::io::Spills::elsewhere(), &Unwatched).expect("a builder");
    scan(&source, 1, &Unwatched, &mut builder).expect("a FASTA file");
    let mut bytes = Vec::new();
    builder.finish(&fingerprint, &mut bytes).expect("an index");
    bytes
}

/// The empty block that marks the end of a BGZF file, as the format's description has it.
pub const END_MARK: &[u8] = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0\x1b\0\x03\0\0\0\0\0\0\0\0\0";

/// One BGZF block.
pub fn block(data: &[u8], level: i32) -> Vec<u8> {
    let mut deflate = Compressor::new(CompressionLvl::new(level).expect("a level"));
    let mut packed = vec![0; deflate.deflate_compress_bound(data.len())];
    let len = deflate.deflate_compress(data, &mut packed).expect("room");
    let mut crc = Crc::new();
    crc.update(data);
    let size = u16::try_from(18 + len + 8 - 1).expect("a block of at most 64 KiB");
    let mut block = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0".to_vec();
    block.extend(size.to_le_bytes());
    block.extend(&packed[..len]);
    block.extend(crc.sum().to_le_bytes());
    block.extend((data.len() as u32).to_le_bytes());
    block
}

/// `data` in blocks of the given sizes, over and over; a size of 0 is an empty block.
pub fn blocks(data: &[u8], sizes: &[usize], level: i32) -> Vec<Vec<u8>> {
    assert!(sizes.iter().any(|&size| size > 0), "some block must hold bytes");
    let mut rest = data;
    let mut sizes = sizes.iter().cycle();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(*sizes.next().expect("a cycle")));
        found.push(block(now, level));
        rest = later;
    }
    found
}

/// `data` as bgzip writes it: blocks of 65280 bytes and the mark of the end.
pub fn bgzip(data: &[u8]) -> Vec<u8> {
    let mut file = blocks(data, &[0xff00], 1).concat();
    file.extend(END_MARK);
    file
}
