//! Which row follows which in a mixed pool, decided by counting alone: no row is looked at.
//!
//! A reader's rows lie in stretches of shards, those of each source in the order in which they are read. They are loaded
//! into a pool of slots and drawn from it. Whose turn it is to be *drawn* from is told by a [`Schedule`]; whose turn it
//! is to be *loaded* from, by the same schedule, which runs ahead by as many rows as are pooled. So there is always a row
//! of the source whose turn it is, however small the pool, and the pool holds every source's share. Of the source's
//! pooled rows, each is as likely as any other.
//!
//! Where the pool has fallen below a threshold, rows are loaded until it is full. A shard may lie half in the pool and
//! half not.

use super::permutation::mix;
use super::schedule::{Schedule, Stop};
use crate::error::{Error, Result};

/// What a pool does, beside the rows it is given.
#[derive(Debug, Clone)]
pub struct Rules {
    /// How many rows it holds.
    pub pool_rows: u64,
    /// Below how many it is filled again.
    pub threshold: u64,
    /// From how many stretches of a source rows are loaded by turns.
    pub open: usize,
    /// When the epoch ends.
    pub stop: Stop,
    /// What rows are drawn by.
    pub key: u64,
}

/// A row that is loaded or drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Where in the pool it is.
    pub slot: u32,
    /// The reading it is of: stretches are counted as they are opened, and again where a source begins anew.
    pub reading: u32,
    /// Which row of the stretch it is.
    pub row: u32,
}

/// The state of a pool, without what is in it.
#[derive(Debug, Clone)]
pub struct Mixing {
    rules: Rules,
    /// Of each stretch, over all sources.
    lengths: Vec<u32>,
    loads: Loads,
    /// A copy of the loads that is ahead of them, to see which stretches are opened next.
    scout: Loads,
    turns: Schedule,
    /// The pooled rows of each source. A row is drawn from anywhere in here, which the processor has to wait for: what
    /// is known of it lies together, so that it waits once.
    pooled: Vec<Vec<Row>>,
    /// How many slots have ever been in use.
    slots: u32,
    /// Those of them that hold no row.
    free: Vec<u32>,
    /// The row that is loaded next, once it has been asked for.
    next: Option<(usize, Row)>,
    filling: bool,
    held: u64,
    drawn: u64,
}

impl Mixing {
    /// A pool before its first row. `sources` are the lengths of each source's stretches.
    pub fn new(sources: &[Vec<u32>], weights: Option<&[u64]>, rules: Rules) -> Result<Self> {
        if rules.pool_rows < 1 || rules.pool_rows > u64::from(u32::MAX) {
            return Err(Error::Mismatch(format!("a pool has from 1 to 2^32 - 1 rows, not {}", rules.pool_rows)));
        }
        if rules.threshold > rules.pool_rows {
            let Rules { pool_rows, threshold, .. } = rules;
            return Err(Error::Mismatch(format!("a pool of {pool_rows} rows can't be filled below {threshold}")));
        }
        if rules.open < 1 {
            return Err(Error::Mismatch("at least one shard of a source must be open".into()));
        }
        let rows: Vec<u64> = sources.iter().map(|lengths| lengths.iter().map(|&rows| u64::from(rows)).sum()).collect();
        let turns = Schedule::new(&rows, weights, rules.stop)?;
        let loads = Loads::new(sources, turns.clone(), rules.open);
        let pooled = vec![Vec::new(); sources.len()];
        let scout = loads.clone();
        let lengths = sources.concat();
        Ok(Self {
            rules,
            lengths,
            loads,
            scout,
            turns,
            pooled,
            slots: 0,
            free: Vec::new(),
            next: None,
            filling: true,
            held: 0,
            drawn: 0,
        })
    }

    /// How many rows have been drawn.
    #[must_use]
    pub fn drawn(&self) -> u64 {
        self.drawn
    }

    /// How many rows are pooled.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Which stretch a reading is of, counted over all sources.
    #[must_use]
    pub fn stretch(&self, reading: u32) -> u32 {
        // Either may be ahead: the scout where somebody looks ahead, the loads where nobody does.
        let reading = reading as usize;
        self.loads.readings.get(reading).copied().unwrap_or_else(|| self.scout.readings[reading])
    }

    /// How many rows a reading has, if there is one of this number yet.
    #[must_use]
    pub fn rows(&self, reading: u32) -> Option<u32> {
        let known = self.loads.readings.len().max(self.scout.readings.len());
        ((reading as usize) < known).then(|| self.lengths[self.stretch(reading) as usize])
    }

    /// The row that must be loaded before any can be drawn, if there is one. It stays the same until it [is
    /// loaded](Self::loaded).
    pub fn to_load(&mut self) -> Option<Row> {
        if !self.filling {
            return None;
        }
        if self.next.is_none() && self.held < self.rules.pool_rows {
            self.next = self.loads.next().map(|(source, reading, row)| {
                let slot = self.free.pop().unwrap_or(self.slots);
                (source, Row { slot, reading, row })
            });
        }
        self.filling = self.next.is_some();
        self.next.map(|(_, row)| row)
    }

    /// Takes note that the row [to load](Self::to_load) is in its slot.
    pub fn loaded(&mut self) {
        let Some((source, row)) = self.next.take() else { return };
        self.slots = self.slots.max(row.slot + 1);
        self.pooled[source].push(row);
        self.held += 1;
    }

    /// Draws the next row, unless rows must be loaded first, or none is left.
    ///
    /// Its slot is free from now on: whoever wants what is in it takes it before the next row is loaded.
    pub fn draw(&mut self) -> Option<Row> {
        if self.to_load().is_some() || self.held == 0 {
            return None;
        }
        let source = self.turns.next()?;
        let rows = &mut self.pooled[source];
        let random = mix(self.rules.key.wrapping_add(mix(self.drawn)));
        let at = (u128::from(random) * rows.len() as u128) >> u64::BITS;
        let row = rows.swap_remove(at as usize);
        self.free.push(row.slot);
        self.drawn += 1;
        self.held -= 1;
        self.filling = self.held < self.rules.threshold.max(1);
        Some(row)
    }

    /// The next row, loading all that must be: for those who want the order alone.
    pub fn draw_next(&mut self) -> Option<Row> {
        while self.to_load().is_some() {
            self.loaded();
        }
        self.draw()
    }

    /// The reading that is opened next, of all that were not told of before, in the order in which they are needed.
    pub fn next_reading(&mut self) -> Option<u32> {
        let known = self.scout.readings.len();
        while self.scout.told == known {
            // Empty stretches are no readings, so that a row may open none or one.
            if self.scout.next().is_none() && self.scout.readings.len() == known {
                return None;
            }
            if self.scout.readings.len() > known {
                break;
            }
        }
        self.scout.told += 1;
        Some(self.scout.told as u32 - 1)
    }

    /// What is pooled.
    pub fn pooled(&self) -> impl Iterator<Item = Row> {
        self.pooled.iter().flatten().copied()
    }

    /// The first row of a reading that is still to be loaded, if there is one.
    #[must_use]
    pub fn first_unloaded(&self, reading: u32) -> Option<u32> {
        if let Some((_, row)) = self.next.filter(|(_, row)| row.reading == reading) {
            return Some(row.row);
        }
        if reading as usize >= self.loads.readings.len() {
            return Some(0);
        }
        self.open().find(|lane| lane.reading == reading).map(|lane| lane.row)
    }

    /// The readings that someone who begins here needs at once: those of what is pooled, and those that are open.
    ///
    /// [`Self::next_reading`] tells those that come after.
    pub fn resume(&mut self) -> Vec<u32> {
        let mut readings: Vec<u32> = self.pooled().map(|row| row.reading).collect();
        readings.extend(self.open().map(|lane| lane.reading));
        readings.extend(self.next.map(|(_, row)| row.reading));
        readings.sort_unstable();
        readings.dedup();
        self.scout = self.loads.clone();
        self.scout.told = self.scout.readings.len();
        readings
    }

    fn open(&self) -> impl Iterator<Item = &Lane> {
        self.loads.lanes.iter().flat_map(|lanes| &lanes.open)
    }
}

/// The rows that are loaded, one after another.
#[derive(Debug, Clone)]
struct Loads {
    turns: Schedule,
    lanes: Vec<Lanes>,
    /// The stretch of each reading.
    readings: Vec<u32>,
    /// How many of the readings somebody was told of.
    told: usize,
    repeat: bool,
}

impl Loads {
    fn new(sources: &[Vec<u32>], turns: Schedule, open: usize) -> Self {
        let mut first = 0;
        let lanes = sources.iter().map(|lengths| {
            let stretches = (first..).zip(lengths.iter().copied()).filter(|&(_, rows)| rows > 0).collect();
            first += lengths.len() as u32;
            Lanes { stretches, next: 0, most: open, open: Vec::new(), turn: 0 }
        });
        let lanes = lanes.collect();
        let repeat = turns.stop() == Stop::Cycle;
        Self { turns, lanes, readings: Vec::new(), told: 0, repeat }
    }

    /// Source, reading and row of what is loaded next.
    fn next(&mut self) -> Option<(usize, u32, u32)> {
        let source = self.turns.next()?;
        let (reading, row) = self.lanes[source].next(&mut self.readings, self.repeat)?;
        Some((source, reading, row))
    }
}

/// The stretches of one source of which rows are loaded by turns.
#[derive(Debug, Clone)]
struct Lanes {
    /// Number and length of each.
    stretches: Vec<(u32, u32)>,
    /// The one that is opened next.
    next: usize,
    most: usize,
    open: Vec<Lane>,
    turn: usize,
}

/// A stretch that is open.
#[derive(Debug, Clone, Copy)]
struct Lane {
    reading: u32,
    row: u32,
    rows: u32,
}

impl Lanes {
    fn next(&mut self, readings: &mut Vec<u32>, repeat: bool) -> Option<(u32, u32)> {
        if repeat && self.open.is_empty() && self.next == self.stretches.len() {
            self.next = 0;
        }
        while self.open.len() < self.most && self.next < self.stretches.len() {
            let lane = self.opened(readings);
            self.open.push(lane);
        }
        self.turn = if self.turn < self.open.len() { self.turn } else { 0 };
        let lane = self.open.get_mut(self.turn)?;
        let found = (lane.reading, lane.row);
        lane.row += 1;
        if lane.row < lane.rows {
            self.turn += 1;
        } else if self.next < self.stretches.len() {
            self.open[self.turn] = self.opened(readings);
            self.turn += 1;
        } else {
            // The lane after it is the next: those behind it move up.
            self.open.remove(self.turn);
        }
        Some(found)
    }

    fn opened(&mut self, readings: &mut Vec<u32>) -> Lane {
        let (stretch, rows) = self.stretches[self.next];
        self.next += 1;
        readings.push(stretch);
        Lane { reading: readings.len() as u32 - 1, row: 0, rows }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn rules(pool_rows: u64, threshold: u64) -> Rules {
        Rules { pool_rows, threshold, open: 1, stop: Stop::All, key: 7 }
    }

    /// Stretch and row of everything, in order.
    fn order(mixing: &mut Mixing) -> Vec<(u32, u32)> {
        std::iter::from_fn(|| mixing.draw_next())
            .collect::<Vec<_>>()
            .into_iter()
            .map(|found| (mixing.stretch(found.reading), found.row))
            .collect()
    }

    fn sources() -> impl Strategy<Value = Vec<Vec<u32>>> {
        prop::collection::vec(prop::collection::vec(0_u32..9, 0..5), 1..4)
    }

    proptest! {
        #[test]
        fn every_row_is_drawn_once(sources in sources(), pool in 1_u64..40, threshold in 0_u64..40, open in 1_usize..4) {
            let rules = Rules { open, ..rules(pool, threshold.min(pool)) };
            let found = order(&mut Mixing::new(&sources, None, rules).unwrap());
            let lengths = sources.iter().flatten().enumerate();
            let expected: BTreeSet<_> =
                lengths.flat_map(|(stretch, &rows)| (0..rows).map(move |row| (stretch as u32, row))).collect();
            prop_assert_eq!(found.len(), expected.len());
            prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        }

        #[test]
        fn the_pool_is_never_over_its_rows(sources in sources(), pool in 1_u64..20, threshold in 0_u64..20) {
            let threshold = threshold.min(pool);
            let mut mixing = Mixing::new(&sources, None, rules(pool, threshold)).unwrap();
            let total: u64 = sources.iter().flatten().map(|&rows| u64::from(rows)).sum();
            while let Some(found) = mixing.draw_next() {
                prop_assert!(u64::from(found.slot) < pool);
                prop_assert!(mixing.held() < pool);
                // What is left is in the pool, or the pool is as full as it should be.
                let left = total - mixing.drawn();
                prop_assert!(mixing.held() == left || mixing.held() + 1 >= threshold.max(1));
            }
            prop_assert_eq!(mixing.drawn(), total);
        }

        #[test]
        fn what_is_opened_next_is_told_in_order(sources in sources(), pool in 1_u64..20, open in 1_usize..4, skip in 0_u64..30) {
            let mut mixing = Mixing::new(&sources, None, Rules { open, ..rules(pool, pool) }).unwrap();
            for _ in 0..skip {
                mixing.draw_next();
            }
            let mut known: BTreeSet<u32> = mixing.resume().into_iter().collect();
            while let Some(reading) = mixing.next_reading() {
                prop_assert!(known.insert(reading), "told twice");
            }
            let mut slots: BTreeSet<u32> = mixing.pooled().map(|row| row.slot).collect();
            while mixing.held() > 0 || mixing.to_load().is_some() {
                while let Some(row) = mixing.to_load() {
                    prop_assert!(known.contains(&row.reading));
                    prop_assert!(slots.insert(row.slot), "a slot that is not free");
                    mixing.loaded();
                }
                let row = mixing.draw().unwrap();
                prop_assert!(slots.remove(&row.slot));
            }
        }
    }

    #[test]
    fn orders_are_frozen() {
        // An order that changed would break runs that resume.
        let mut mixing = Mixing::new(&[vec![3, 2], vec![2]], None, rules(4, 3)).unwrap();
        assert_eq!(order(&mut mixing), FROZEN);
    }

    const FROZEN: [(u32, u32); 7] = [(0, 2), (2, 0), (1, 0), (0, 0), (1, 1), (2, 1), (0, 1)];

    #[test]
    fn a_pool_of_one_row_is_the_order_of_reading() {
        let mut mixing = Mixing::new(&[vec![2, 2]], None, rules(1, 1)).unwrap();
        assert_eq!(order(&mut mixing), [(0, 0), (0, 1), (1, 0), (1, 1)]);
    }

    #[test]
    fn open_stretches_take_turns() {
        let mut mixing = Mixing::new(&[vec![3, 1, 2]], None, Rules { open: 2, ..rules(1, 1) }).unwrap();
        assert_eq!(order(&mut mixing), [(0, 0), (1, 0), (0, 1), (2, 0), (0, 2), (2, 1)]);
    }

    #[test]
    fn a_source_that_begins_anew_is_read_again() {
        let cycle = Rules { stop: Stop::Cycle, ..rules(1, 1) };
        let mut mixing = Mixing::new(&[vec![1, 1], vec![5]], Some(&[1, 1]), cycle).unwrap();
        let found = order(&mut mixing);
        let ours: Vec<u32> = found.iter().map(|found| found.0).filter(|&stretch| stretch < 2).collect();
        assert_eq!(ours, [0, 1, 0, 1, 0]);
    }

    #[test]
    fn every_pooled_row_is_as_likely() {
        let mut first = [0; 8];
        for key in 0..8_000 {
            let mut mixing = Mixing::new(&[vec![8]], None, Rules { key, ..rules(8, 1) }).unwrap();
            first[mixing.draw_next().unwrap().row as usize] += 1;
        }
        assert!(first.iter().all(|&count| (870..1130).contains(&count)), "{first:?}");
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        let refused = |rules| Mixing::new(&[vec![1]], None, rules).unwrap_err().to_string();
        assert!(refused(rules(0, 0)).contains("from 1"));
        assert!(refused(rules(3, 4)).contains("can't be filled below 4"));
        assert!(refused(Rules { open: 0, ..rules(1, 1) }).contains("at least one shard"));
    }
}
