//! Records put together byte by byte, for the tests of TFRecord files.

use std::path::{Path, PathBuf};

use seekset_core::Entry;
use seekset_core::scan::tfrecord::frame;

/// One record.
pub fn record(payload: &[u8]) -> Vec<u8> {
    [&frame::header(payload.len() as u64)[..], payload, &frame::checksum(payload).to_le_bytes()].concat()
}

/// Some records, one after another.
pub fn records(payloads: &[&[u8]]) -> Vec<u8> {
    payloads.iter().flat_map(|payload| record(payload)).collect()
}

/// A header with this length and a checksum that fits.
pub fn claims(length: u64) -> Vec<u8> {
    frame::header(length).to_vec()
}

/// Entries from pairs.
pub fn entries(pairs: &[(u64, u64)]) -> Vec<Entry> {
    pairs.iter().map(|&(offset, size)| Entry { offset, size }).collect()
}

/// A folder of a test's own with a TFRecord file in it.
pub struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    pub fn new(bytes: &[u8]) -> Self {
        let folder = Self { folder: tempfile::tempdir().expect("a folder") };
        std::fs::write(folder.data(), bytes).expect("a file");
        folder
    }

    pub fn data(&self) -> PathBuf {
        self.path("x.tfrecord")
    }

    pub fn index(&self) -> PathBuf {
        self.path("x.tfrecord.idx")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Names of all files in it.
    pub fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.folder.path()).expect("a folder");
        let mut names: Vec<String> =
            names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// What a file holds, as text.
pub fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("text")
}
