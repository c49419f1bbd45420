//! A mixed pool: rows of many shards, packed, drawn in the order that [`Mixing`] plans and unpacked into batches.
//!
//! Whoever reads shards hands them over as [blocks](Block) of packed rows. They are stored at once, and get a slot of the
//! pool when it is their turn: rows that are read ahead take the room of rows that have been drawn.

pub mod arena;
pub mod packed;

use std::collections::HashMap;
use std::fmt;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::io::room::reserve;
use crate::io::threads;
use crate::plan::Mixing;
use crate::plan::mixing::Row;
use arena::{Arena, Stored};
use packed::Field;

/// Batches of fewer bytes are unpacked by the thread that wants them.
const SHARED_FROM: usize = 1 << 18;

/// Rows that a thread packs or unpacks at a time.
const ROWS_AT_ONCE: usize = 64;

/// Packed rows of a stretch of a shard, one after another.
pub struct Block {
    content: Box<dyn AsRef<[u8]> + Send + Sync>,
    /// Where each row ends; a row of no bytes is one that could not be read.
    ends: Vec<u64>,
}

impl Block {
    /// A block, if its rows lie within its content.
    pub fn new(content: Box<dyn AsRef<[u8]> + Send + Sync>, ends: Vec<u64>) -> Result<Self> {
        let len = (*content).as_ref().len() as u64;
        if !ends.is_sorted() || ends.last().copied().unwrap_or(0) != len {
            return Err(Error::Mismatch(format!("packed rows must end one after another, the last at {len}")));
        }
        Ok(Self { content, ends })
    }

    fn row(&self, row: u32) -> &[u8] {
        let row = row as usize;
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &(*self.content).as_ref()[start as usize..self.ends[row] as usize]
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("rows", &self.ends.len()).finish_non_exhaustive()
    }
}

/// What [`MixedPool::fill`] could do.
#[derive(Debug, Default)]
pub struct Filled {
    /// The rows that were drawn, in order. The values of one that could not be read from its shard are zeros.
    pub rows: Vec<Row>,
    /// The reading that must be provided before more can be drawn; without one, a short batch is the last.
    pub missing: Option<u32>,
}

/// The bytes a pool takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes {
    /// Of packed rows, pooled or waiting to be.
    pub rows: usize,
    /// Memory for rows, used or not.
    pub allocated: usize,
    /// Of rows that wait.
    pub waiting: usize,
}

/// Rows of a reading that wait for a slot, from the first on that is still to be loaded.
#[derive(Debug)]
struct Staged {
    first: u32,
    rows: Vec<Stored>,
}

/// A pool and what is in it.
#[derive(Debug)]
pub struct MixedPool {
    mixing: Mixing,
    fields: Vec<Field>,
    arena: Arena,
    slots: Vec<Stored>,
    /// By reading: rows that were provided and wait for a slot.
    staged: HashMap<u32, Staged>,
    /// Rows and slots of readings that are pooled by plan, but not yet provided: where a pool begins in the middle.
    absent: HashMap<u32, Vec<(u32, u32)>>,
    /// The bytes of rows that wait: counted as they come and go, because every batch asks.
    waiting: usize,
}

/// Bytes that a pool needs for each row, beside the row's own: its slot, and what the plan knows of it.
const BOOKKEEPING: usize = size_of::<Stored>() + size_of::<(u32, u32)>() + 2 * size_of::<u32>();

impl MixedPool {
    /// A pool of rows with these fields, whose plan may be in the middle of an epoch already.
    pub fn new(mixing: Mixing, fields: Vec<Field>) -> Result<Self> {
        if fields.is_empty() {
            return Err(Error::Mismatch("rows without fields can't be pooled".into()));
        }
        let mut absent: HashMap<u32, Vec<(u32, u32)>> = HashMap::new();
        if mixing.drawn() > 0 {
            for Row { slot, reading, row } in mixing.pooled() {
                absent.entry(reading).or_default().push((row, slot));
            }
        }
        let (arena, slots, staged) = (Arena::default(), Vec::new(), HashMap::new());
        Ok(Self { mixing, fields, arena, slots, staged, absent, waiting: 0 })
    }

    /// The bytes that a packed row of so many takes in a pool, all in all.
    #[must_use]
    pub const fn cost(packed: usize) -> usize {
        Arena::cost(packed) + BOOKKEEPING
    }

    /// The plan, which knows what is needed next.
    pub fn mixing(&mut self) -> &mut Mixing {
        &mut self.mixing
    }

    /// The bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        Bytes { rows: self.arena.used(), allocated: self.arena.allocated(), waiting: self.waiting }
    }

    /// Hands over the rows of a reading, once. Where it is an error, the pool is what it was before.
    pub fn provide(&mut self, reading: u32, block: Block) -> Result<()> {
        let (rows, planned) = (block.ends.len(), self.mixing.rows(reading).unwrap_or(0) as usize);
        if rows != planned || planned == 0 {
            return Err(Error::Mismatch(format!("{rows} rows were read where {planned} were planned")));
        }
        if self.staged.contains_key(&reading) {
            return Err(Error::Mismatch(format!("reading {reading} was provided before, and rows of it still wait")));
        }
        let absent = self.absent.get(&reading).map_or(&[][..], Vec::as_slice);
        let first = self.mixing.first_unloaded(reading);
        let needed = absent.iter().map(|&(row, _)| row).chain(first.unwrap_or(planned as u32)..planned as u32);
        let mut stored = self.arena.store_all(needed.map(|row| block.row(row)))?;
        let rows = stored.split_off(absent.len());
        for ((_, slot), stored) in self.absent.remove(&reading).unwrap_or_default().into_iter().zip(stored) {
            self.put(slot, stored);
        }
        if let Some(first) = first {
            self.waiting += rows.iter().map(|row| Arena::cost(row.len())).sum::<usize>();
            self.staged.insert(reading, Staged { first, rows });
        }
        Ok(())
    }

    /// Draws up to `want` rows and unpacks them, one after another, into `out`: for each field, room for so many rows.
    pub fn fill(&mut self, want: usize, out: &mut [&mut [u8]]) -> Result<Filled> {
        let too_short = |(field, out): (&Field, &&mut [u8])| field.bytes_of(want).is_none_or(|bytes| out.len() < bytes);
        if out.len() != self.fields.len() || self.fields.iter().zip(&*out).any(too_short) {
            return Err(Error::Mismatch(format!("there is no room for {want} rows of {} fields", self.fields.len())));
        }
        let mut filled = Filled::default();
        loop {
            filled.missing = self.load();
            if filled.missing.is_some() || filled.rows.len() == want {
                return Ok(filled);
            }
            let start = filled.rows.len();
            while let Some(row) = (filled.rows.len() < want).then(|| self.mixing.draw()).flatten() {
                filled.rows.push(row);
            }
            let drawn = &filled.rows[start..];
            if drawn.is_empty() {
                return Ok(filled);
            }
            self.unpack(drawn, &mut self.room(out, start, drawn.len()))?;
            for row in drawn {
                self.arena.free(self.slots[row.slot as usize]);
            }
        }
    }

    /// Moves rows into the pool until it is as full as it should be; else says which reading is missing.
    fn load(&mut self) -> Option<u32> {
        if let Some(&reading) = self.absent.keys().min() {
            return Some(reading);
        }
        while let Some(Row { slot, reading, row }) = self.mixing.to_load() {
            let Some(staged) = self.staged.get(&reading) else { return Some(reading) };
            let place = (row - staged.first) as usize;
            let (stored, last) = (staged.rows[place], place + 1 == staged.rows.len());
            self.put(slot, stored);
            self.mixing.loaded();
            self.waiting -= Arena::cost(stored.len());
            if last {
                self.staged.remove(&reading);
            }
        }
        None
    }

    fn put(&mut self, slot: u32, stored: Stored) {
        let slot = slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, Stored::default());
        }
        self.slots[slot] = stored;
    }

    /// The parts of the output that some rows fill.
    fn room<'o>(&self, out: &'o mut [&mut [u8]], start: usize, rows: usize) -> Vec<&'o mut [u8]> {
        let fields = self.fields.iter().map(Field::bytes);
        out.iter_mut().zip(fields).map(|(out, bytes)| &mut out[start * bytes..(start + rows) * bytes]).collect()
    }

    fn unpack(&self, rows: &[Row], out: &mut [&mut [u8]]) -> Result<()> {
        let bytes: usize = self.fields.iter().map(Field::bytes).sum();
        if rows.len() * bytes < SHARED_FROM || threads::threads() == 1 {
            return self.unpack_part(rows, out);
        }
        let parts: Vec<_> = rows.chunks(ROWS_AT_ONCE).zip(self.parts(out)).collect();
        threads::in_pool(|| parts.into_par_iter().try_for_each(|(rows, mut out)| self.unpack_part(rows, &mut out)))?
    }

    /// The output, cut into parts of so many rows.
    fn parts<'o>(&self, out: &'o mut [&mut [u8]]) -> impl Iterator<Item = Vec<&'o mut [u8]>> {
        let mut rest: Vec<&mut [u8]> = out.iter_mut().map(|out| &mut **out).collect();
        let bytes: Vec<usize> = self.fields.iter().map(|field| field.bytes() * ROWS_AT_ONCE).collect();
        std::iter::from_fn(move || {
            let cut = rest.iter_mut().zip(&bytes).map(|(rest, &bytes)| {
                let taken = std::mem::take(rest);
                let (part, after) = taken.split_at_mut(bytes.min(taken.len()));
                *rest = after;
                part
            });
            Some(cut.collect())
        })
    }

    fn unpack_part(&self, rows: &[Row], out: &mut [&mut [u8]]) -> Result<()> {
        let mut row = Vec::new();
        for (at, Row { slot, .. }) in rows.iter().enumerate() {
            let stored = self.slots[*slot as usize];
            let room = out.iter_mut().zip(&self.fields);
            let mut room = room.map(|(out, field)| &mut out[at * field.bytes()..(at + 1) * field.bytes()]);
            if stored.is_empty() {
                room.for_each(|room| room.fill(0));
                continue;
            }
            row.clear();
            self.arena.read(stored, &mut row);
            packed::unpack(&self.fields, &row, &mut room)?;
        }
        Ok(())
    }
}

/// Packs rows: of each field, the values of all rows one after another. Gives the packed rows, and where each ends.
pub fn pack_rows(fields: &[Field], columns: &[&[u8]], rows: usize) -> Result<(Vec<u8>, Vec<u64>)> {
    if columns.len() != fields.len() || fields.iter().zip(columns).any(|(f, c)| f.bytes_of(rows) != Some(c.len())) {
        return Err(Error::Mismatch(format!("the columns are not of {rows} rows of {} fields", fields.len())));
    }
    let part = |start: usize| {
        let (mut content, mut ends) = (Vec::new(), Vec::new());
        for row in start..rows.min(start + ROWS_AT_ONCE) {
            for (field, column) in fields.iter().zip(columns) {
                packed::pack(*field, &column[row * field.bytes()..(row + 1) * field.bytes()], &mut content);
            }
            ends.push(content.len() as u64);
        }
        (content, ends)
    };
    let starts: Vec<usize> = (0..rows).step_by(ROWS_AT_ONCE).collect();
    let few = columns.iter().map(|column| column.len()).sum::<usize>() < SHARED_FROM;
    let parts: Vec<_> = if few || threads::threads() == 1 {
        starts.into_iter().map(part).collect()
    } else {
        threads::in_pool(|| starts.into_par_iter().map(part).collect())?
    };
    let (mut content, mut ends) = (Vec::new(), Vec::new());
    reserve(&mut content, parts.iter().map(|(content, _)| content.len()).sum())?;
    reserve(&mut ends, rows)?;
    for (part, part_ends) in parts {
        let before = content.len() as u64;
        content.extend(part);
        ends.extend(part_ends.into_iter().map(|end| before + end));
    }
    Ok((content, ends))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::mixing::Rules;
    use crate::plan::schedule::Stop;

    const FIELDS: [(usize, usize, bool); 2] = [(8, 1, false), (4, 3, true)];

    fn fields() -> Vec<Field> {
        FIELDS.map(|(width, values, float)| Field::new(width, values, float).unwrap()).to_vec()
    }

    /// Row `row` of stretch `stretch` has the numbers 1000 * stretch + row, and as floats 0, 1 and itself.
    fn block(stretch: u32, rows: u32) -> Block {
        let numbers: Vec<u16> = (0..rows).map(|row| (1000 * stretch + row) as u16).collect();
        let first: Vec<u8> = numbers.iter().flat_map(|&n| i64::from(n).to_le_bytes()).collect();
        let second: Vec<u8> =
            numbers.iter().flat_map(|&n| [0.0, 1.0, f32::from(n)]).flat_map(f32::to_le_bytes).collect();
        let (content, ends) = pack_rows(&fields(), &[&first, &second], rows as usize).unwrap();
        Block::new(Box::new(content), ends).unwrap()
    }

    fn mixing(pool_rows: u64) -> Mixing {
        let rules = Rules { pool_rows, threshold: pool_rows / 2, open: 1, stop: Stop::All, key: 3 };
        Mixing::new(&[vec![5, 7], vec![300]], None, rules).unwrap()
    }

    const LENGTHS: [u32; 3] = [5, 7, 300];

    /// The bytes of rows that wait, each looked at.
    fn waiting(pool: &MixedPool) -> usize {
        let rows = pool.staged.iter().flat_map(|(reading, staged)| {
            let next = pool.mixing.first_unloaded(*reading).unwrap_or(staged.first) - staged.first;
            &staged.rows[next as usize..]
        });
        rows.map(|row| Arena::cost(row.len())).sum()
    }

    /// The numbers of all rows, drawn some at a time, with blocks provided when they are missing.
    fn numbers(mut pool: MixedPool, at_once: usize) -> Vec<i64> {
        let mut found = Vec::new();
        loop {
            let (mut first, mut second) = (vec![0xee; 8 * at_once], vec![0xee; 12 * at_once]);
            let filled = pool.fill(at_once, &mut [&mut first, &mut second]).unwrap();
            for (at, row) in filled.rows.iter().enumerate() {
                let number = i64::from_le_bytes(first[at * 8..at * 8 + 8].try_into().unwrap());
                let float = f32::from_le_bytes(second[at * 12 + 8..at * 12 + 12].try_into().unwrap());
                assert_eq!(number, i64::from(1000 * pool.mixing().stretch(row.reading) + row.row));
                assert!((float - f32::from(number as u16)).abs() < f32::EPSILON);
                found.push(number);
            }
            match filled.missing {
                Some(reading) => {
                    let stretch = pool.mixing().stretch(reading);
                    pool.provide(reading, block(stretch, LENGTHS[stretch as usize])).unwrap();
                }
                None if filled.rows.len() < at_once => {
                    assert_eq!(pool.bytes(), Bytes { rows: 0, waiting: 0, ..pool.bytes() });
                    return found;
                }
                None => {}
            }
            assert_eq!(pool.bytes().waiting, waiting(&pool));
        }
    }

    #[test]
    fn batches_are_the_planned_rows() {
        let mut plan = mixing(40);
        let planned: Vec<Row> = std::iter::from_fn(|| plan.draw_next()).collect();
        let expected: Vec<i64> =
            planned.iter().map(|row| i64::from(1000 * plan.stretch(row.reading) + row.row)).collect();
        for at_once in [1, 7, 200, 1000] {
            assert_eq!(numbers(MixedPool::new(mixing(40), fields()).unwrap(), at_once), expected);
        }
    }

    #[test]
    fn a_pool_begins_anywhere() {
        let whole = numbers(MixedPool::new(mixing(40), fields()).unwrap(), 10);
        for skip in 0..whole.len() {
            let mut plan = mixing(40);
            (0..skip).for_each(|_| assert!(plan.draw_next().is_some()));
            assert_eq!(numbers(MixedPool::new(plan, fields()).unwrap(), 50), whole[skip..], "after {skip}");
        }
    }

    #[test]
    fn rows_that_could_not_be_read_are_zeros() {
        let mut pool = MixedPool::new(mixing(1000), fields()).unwrap();
        while let Some(reading) = pool.mixing().next_reading() {
            let stretch = pool.mixing().stretch(reading);
            let good = block(stretch, LENGTHS[stretch as usize]);
            let content = (*good.content).as_ref()[good.ends[0] as usize..].to_vec();
            let ends = good.ends.iter().map(|end| end - good.ends[0]).collect();
            pool.provide(reading, Block::new(Box::new(content), ends).unwrap()).unwrap();
        }
        let (mut first, mut second) = (vec![0xee; 8 * 312], vec![0xee; 12 * 312]);
        let filled = pool.fill(312, &mut [&mut first, &mut second]).unwrap();
        assert_eq!(filled.rows.len(), 312);
        let bad: Vec<usize> = (0..312).filter(|&place| filled.rows[place].row == 0).collect();
        assert_eq!(bad.len(), 3);
        for place in bad {
            assert_eq!(first[place * 8..place * 8 + 8], [0; 8]);
            assert_eq!(second[place * 12..place * 12 + 12], [0; 12]);
        }
        assert_eq!((pool.bytes().rows, pool.bytes().waiting), (0, 0));
    }

    #[test]
    fn the_bytes_of_rows_that_wait_are_counted_as_they_come_and_go() {
        let mut pool = MixedPool::new(mixing(40), fields()).unwrap();
        let reading = pool.mixing().next_reading().unwrap();
        let stretch = pool.mixing().stretch(reading);
        assert_eq!(LENGTHS[stretch as usize], 300);
        let rows = block(stretch, 300);
        let cost: usize = (0..300).map(|row| Arena::cost(rows.row(row).len())).sum();
        pool.provide(reading, rows).unwrap();
        assert_eq!((pool.bytes().waiting, waiting(&pool)), (cost, cost));
        let (mut first, mut second) = ([0; 8], [0; 12]);
        assert!(pool.fill(1, &mut [&mut first, &mut second]).unwrap().missing.is_some());
        let loaded = pool.mixing().first_unloaded(reading).unwrap();
        assert!(loaded > 0, "rows were pooled until those of the other source were missing");
        assert_eq!(pool.bytes().waiting, waiting(&pool));
        assert!(pool.bytes().waiting < cost);
    }

    #[test]
    fn a_reading_is_provided_once() {
        let mut pool = MixedPool::new(mixing(40), fields()).unwrap();
        let reading = pool.mixing().next_reading().unwrap();
        pool.provide(reading, block(2, 300)).unwrap();
        let before = pool.bytes();
        let refused = pool.provide(reading, block(2, 300)).unwrap_err();
        assert_eq!(refused.to_string(), "reading 0 was provided before, and rows of it still wait");
        assert_eq!(pool.bytes(), before);
        let expected = numbers(MixedPool::new(mixing(40), fields()).unwrap(), 10);
        assert_eq!(numbers(pool, 10), expected);
    }

    /// A file of nothing but a hole, which takes no memory.
    struct Hole(std::sync::Arc<crate::io::mapped::Mapped>);

    impl AsRef<[u8]> for Hole {
        fn as_ref(&self) -> &[u8] {
            self.0.as_bytes()
        }
    }

    #[test]
    fn rows_that_cannot_be_stored_leave_the_pool_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = tempfile::tempfile_in(folder.path()).unwrap();
        let (small, large) = (1000, 1 << 32);
        file.set_len(299 * small + large).unwrap();
        let hole = crate::io::mapped::Mapped::unnamed(file, folder.path()).unwrap();
        let whole = numbers(MixedPool::new(mixing(40), fields()).unwrap(), 10);
        for skip in [0, 100] {
            let mut plan = mixing(40);
            (0..skip).for_each(|_| assert!(plan.draw_next().is_some()));
            let mut pool = MixedPool::new(plan, fields()).unwrap();
            let readings = if skip == 0 { vec![pool.mixing().next_reading().unwrap()] } else { pool.mixing().resume() };
            let reading = *readings.iter().find(|&&reading| pool.mixing().stretch(reading) == 2).unwrap();
            // The last row of a block is one that waits, so that all others are stored before it.
            let ends = (1..300).map(|row| row * small).chain([299 * small + large]).collect();
            let refused = pool.provide(reading, Block::new(Box::new(Hole(hole.clone())), ends).unwrap()).unwrap_err();
            assert!(refused.to_string().contains("rows of up to 4 GiB, but 4294967296 bytes"), "{refused}");
            assert_eq!((pool.bytes().rows, pool.bytes().waiting), (0, 0));
            for reading in readings {
                let stretch = pool.mixing().stretch(reading);
                pool.provide(reading, block(stretch, LENGTHS[stretch as usize])).unwrap();
            }
            assert_eq!(numbers(pool, 50), whole[skip..], "after {skip}");
        }
    }

    #[test]
    fn blocks_that_do_not_fit_are_refused() {
        assert!(Block::new(Box::new(vec![0; 3]), vec![2]).is_err());
        assert!(Block::new(Box::new(vec![0; 3]), vec![2, 1, 3]).is_err());
        let mut pool = MixedPool::new(mixing(1000), fields()).unwrap();
        assert_eq!(pool.mixing().next_reading(), Some(0));
        let refused = pool.provide(0, block(2, 299)).unwrap_err();
        assert_eq!(refused.to_string(), "299 rows were read where 300 were planned");
        let (mut first, mut second) = ([0; 8], [0; 12]);
        // So many rows of eight bytes are none, modulo 2^64.
        for want in [2, 1 << 61, usize::MAX] {
            let refused = pool.fill(want, &mut [&mut first, &mut second]).unwrap_err();
            assert_eq!(refused.to_string(), format!("there is no room for {want} rows of 2 fields"));
        }
        assert!(pack_rows(&fields(), &[&[], &[]], 1 << 62).is_err());
    }
}
