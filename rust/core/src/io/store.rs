//! Bytes that are kept as they are on disk: a mapped file, or memory where there is none.

use std::path::Path;
use std::sync::Arc;

use super::mapped::Mapped;
use crate::error::Result;

/// The bytes of an index or a block table: a mapped file, or memory where no file could be written.
#[derive(Debug, Clone)]
pub enum Store {
    /// A file.
    File(Arc<Mapped>),
    /// Memory, aligned as a mapping would be, and how many bytes of it count.
    Memory(Arc<[u64]>, usize),
}

impl Store {
    /// Keeps bytes in memory.
    #[must_use]
    pub fn memory(bytes: &[u8]) -> Self {
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        Self::Memory(words.collect(), bytes.len())
    }

    /// An error if the file was cut or overwritten; replacing it by another does no harm to the mapping.
    pub fn check_unchanged(&self) -> Result<()> {
        match self {
            Self::File(mapped) => mapped.guarded().check_not_overwritten(),
            Self::Memory(..) => Ok(()),
        }
    }

    /// The name of the file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(mapped) => Some(mapped.guarded().path()),
            Self::Memory(..) => None,
        }
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::File(mapped) => mapped.as_bytes(),
            Self::Memory(words, len) => bytemuck::cast_slice(words).get(..*len).unwrap_or(&[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_holds_what_it_was_given() {
        for len in 0..20 {
            let bytes: Vec<u8> = (0..len).collect();
            assert_eq!(Store::memory(&bytes).bytes(), bytes);
        }
    }
}
