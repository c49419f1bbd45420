//! Memory for rows of any length that come and go in any order: cells of one size, in chains.
//!
//! A free cell serves any row, so nothing is ever lost between rows and the memory taken is that of the most cells that
//! were in use at once. Chunks are never moved: a vector that doubles would take three times what it holds.

use crate::error::{Error, Result};
use crate::io::room::reserve;

/// A cell is a cache line: what a row has there, and the next cell of its chain.
const CELL: usize = 64;
const CONTENT: usize = CELL - 4;

/// Cells are asked for from the system so many at a time.
const CHUNK: usize = 4096;

/// The end of a chain, or of the free cells.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Cell {
    content: [u8; CONTENT],
    next: u32,
}

/// Where a row lies. An empty row lies nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    head: u32,
    len: u32,
}

impl Default for Stored {
    fn default() -> Self {
        Self { head: NONE, len: 0 }
    }
}

impl Stored {
    /// How many bytes the row has.
    #[must_use]
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// The cells, and which of them are free.
#[derive(Debug)]
pub struct Arena {
    chunks: Vec<Box<[Cell]>>,
    /// The first free cell of those that were in use; they are a chain.
    free: u32,
    /// How many cells were ever in use.
    begun: u32,
    used: u32,
}

impl Default for Arena {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: NONE, begun: 0, used: 0 }
    }
}

impl Arena {
    /// The bytes that a row of so many takes.
    #[must_use]
    pub const fn cost(len: usize) -> usize {
        len.div_ceil(CONTENT) * CELL
    }

    /// The bytes that rows take.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used as usize * CELL
    }

    /// The bytes that were asked for from the system.
    #[must_use]
    pub fn allocated(&self) -> usize {
        self.chunks.len() * CHUNK * CELL
    }

    /// Stores some rows, or none of them.
    pub fn store_all<'r>(&mut self, rows: impl Iterator<Item = &'r [u8]>) -> Result<Vec<Stored>> {
        let mut stored = Vec::new();
        for row in rows {
            match self.store(row) {
                Ok(row) => stored.push(row),
                Err(error) => {
                    for row in stored {
                        self.free(row);
                    }
                    return Err(error);
                }
            }
        }
        Ok(stored)
    }

    /// Stores a row.
    pub fn store(&mut self, row: &[u8]) -> Result<Stored> {
        if u32::try_from(row.len()).is_err() {
            return Err(too_large(row.len()));
        }
        let mut stored = Stored::default();
        let mut last = NONE;
        for part in row.chunks(CONTENT) {
            let number = self.take().inspect_err(|_| self.free(stored))?;
            let cell = self.cell_mut(number);
            cell.content[..part.len()].copy_from_slice(part);
            cell.next = NONE;
            if last == NONE {
                stored.head = number;
            } else {
                self.cell_mut(last).next = number;
            }
            last = number;
            stored.len += part.len() as u32;
        }
        Ok(stored)
    }

    /// Appends what a row has.
    pub fn read(&self, row: Stored, out: &mut Vec<u8>) {
        let (mut left, mut number) = (row.len(), row.head);
        while left > 0 {
            let cell = self.cell(number);
            let here = left.min(CONTENT);
            out.extend_from_slice(&cell.content[..here]);
            (left, number) = (left - here, cell.next);
        }
    }

    /// Lets go of a row.
    pub fn free(&mut self, row: Stored) {
        let cells = row.len().div_ceil(CONTENT);
        if cells == 0 {
            return;
        }
        let mut last = row.head;
        for _ in 1..cells {
            last = self.cell(last).next;
        }
        // The chain stays a chain: who takes it next finds its cells beside each other.
        self.cell_mut(last).next = self.free;
        self.free = row.head;
        self.used -= cells as u32;
    }

    fn take(&mut self) -> Result<u32> {
        let number = if self.free == NONE {
            if self.begun as usize == self.chunks.len() * CHUNK {
                self.grow()?;
            }
            self.begun += 1;
            self.begun - 1
        } else {
            let number = self.free;
            self.free = self.cell(number).next;
            number
        };
        self.used += 1;
        Ok(number)
    }

    fn grow(&mut self) -> Result<()> {
        if self.begun as usize + CHUNK >= NONE as usize {
            return Err(too_large(self.allocated()));
        }
        let mut chunk = Vec::new();
        reserve(&mut chunk, CHUNK)?;
        chunk.resize(CHUNK, Cell { content: [0; CONTENT], next: NONE });
        self.chunks.push(chunk.into_boxed_slice());
        Ok(())
    }

    fn cell(&self, number: u32) -> &Cell {
        &self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    fn cell_mut(&mut self, number: u32) -> &mut Cell {
        &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }
}

fn too_large(bytes: usize) -> Error {
    Error::Mismatch(format!("a pool holds 256 GiB in rows of up to 4 GiB, but {bytes} bytes are to be in it"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(arena: &Arena, row: Stored) -> Vec<u8> {
        let mut out = Vec::new();
        arena.read(row, &mut out);
        out
    }

    proptest! {
        #[test]
        fn rows_come_back_whatever_was_freed_between(steps in prop::collection::vec((0_usize..400, any::<bool>(), any::<u8>()), 1..200)) {
            let mut arena = Arena::default();
            let mut held: Vec<(Stored, Vec<u8>)> = Vec::new();
            for (len, free, byte) in steps {
                if free && !held.is_empty() {
                    let (stored, row) = held.swap_remove(len % held.len());
                    prop_assert_eq!(read(&arena, stored), row);
                    arena.free(stored);
                } else {
                    let row: Vec<u8> = (0..len).map(|k| byte.wrapping_add(k as u8)).collect();
                    held.push((arena.store(&row).unwrap(), row));
                }
                prop_assert_eq!(arena.used(), held.iter().map(|(row, _)| Arena::cost(row.len())).sum::<usize>());
            }
            for (stored, row) in held {
                prop_assert_eq!(read(&arena, stored), row);
            }
        }
    }

    #[test]
    fn memory_is_that_of_the_most_rows_at_once() {
        let mut arena = Arena::default();
        for _ in 0..10 {
            let rows: Vec<Stored> = (0..CHUNK).map(|k| arena.store(&vec![1; k % 60]).unwrap()).collect();
            for row in rows {
                arena.free(row);
            }
        }
        assert_eq!((arena.used(), arena.allocated()), (0, CHUNK * CELL));
    }
}
