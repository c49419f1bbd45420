//! Whose turn it is: sources take turns in proportion to their weights, none ever a row ahead of or behind its share.
//!
//! This is the chairman assignment problem, and Tijdeman's rule solves it: of `k` sources, the `j`-th turn of one whose
//! share is `w` (`j` from 0, `d = 1 / (2k - 2)`) may come from turn `(j + d) / w` on, and of those that may, the one
//! comes that must soonest: by `(j + 1 - d) / w`. No source then deviates from its share by more than `1 - d`. Taking
//! whoever is furthest behind is simpler, but deviates by more than a row once there are many sources.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::error::{Error, Result};

/// When an epoch of several sources ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// With the last row of the source that is the first to have none left.
    First,
    /// When all sources have none left: every row comes once.
    All,
    /// When every source has come to its end once; those that did so before begin anew.
    Cycle,
}

/// The sources whose turn it is, one after another, as an iterator over their numbers.
///
/// ```
/// use seekset_core::plan::schedule::{Schedule, Stop};
/// let turns = Schedule::new(&[6, 2], None, Stop::All)?;
/// assert_eq!(turns.collect::<Vec<_>>(), [0, 0, 1, 0, 0, 0, 1, 0]);
/// # Ok::<(), seekset_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Schedule {
    rows: Vec<u64>,
    weights: Vec<u64>,
    proportional: bool,
    stop: Stop,
    /// Rows each source has left in its pass.
    left: Vec<u64>,
    /// Which sources have come to an end, once at least.
    ended: Vec<bool>,
    /// How many have not; none is the end of the epoch.
    unended: usize,
    turns: Turns,
}

impl Schedule {
    /// A schedule of sources with so many rows; in proportion to these, unless weights are given.
    ///
    /// Sources without rows have no turns.
    pub fn new(rows: &[u64], weights: Option<&[u64]>, stop: Stop) -> Result<Self> {
        let proportional = weights.is_none();
        let weights = weights.unwrap_or(rows).to_vec();
        if weights.len() != rows.len() {
            let message = format!("there are {} sources, but {} weights", rows.len(), weights.len());
            return Err(Error::Mismatch(message));
        }
        if let Some(source) = (0..rows.len()).find(|&source| rows[source] > 0 && weights[source] == 0) {
            return Err(Error::Mismatch(format!("source {source} has rows, but its weight is 0")));
        }
        // Turns are counted in products of these; beyond, they would not fit into 128 bits.
        if rows.len() > 1 << 20 || rows.iter().chain(&weights).any(|&count| count > 1 << 48) {
            return Err(Error::Mismatch("at most 2^20 sources of at most 2^48 rows can take turns".into()));
        }
        let unended = rows.iter().filter(|&&rows| rows > 0).count();
        let turns = Turns::new((0..rows.len()).filter(|&source| rows[source] > 0), &weights);
        let ended = vec![false; rows.len()];
        let (rows, left) = (rows.to_vec(), rows.to_vec());
        Ok(Self { rows, weights, proportional, stop, left, ended, unended, turns })
    }

    /// When the epoch ends.
    #[must_use]
    pub fn stop(&self) -> Stop {
        self.stop
    }

    /// How many turns an epoch has.
    pub fn total(rows: &[u64], weights: Option<&[u64]>, stop: Stop) -> Result<u64> {
        let turns = Self::new(rows, weights, stop)?;
        Ok(if stop == Stop::All { rows.iter().sum() } else { turns.count() as u64 })
    }

    /// Takes note that a source had its turn, and of what follows where that was its last.
    fn taken(&mut self, source: usize) {
        self.left[source] -= 1;
        if self.left[source] > 0 {
            return;
        }
        self.unended -= usize::from(!std::mem::replace(&mut self.ended[source], true));
        match self.stop {
            Stop::First => self.unended = 0,
            // In proportion to rows, all sources come to their ends with the last turn, and none has a turn after its end.
            Stop::All if self.proportional => {}
            Stop::All => {
                let left = &self.left;
                self.turns = Turns::new((0..left.len()).filter(|&source| left[source] > 0), &self.weights);
            }
            Stop::Cycle => self.left[source] = self.rows[source],
        }
    }
}

impl Iterator for Schedule {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.unended == 0 {
            return None;
        }
        let source = self.turns.next();
        self.taken(source);
        Some(source)
    }
}

/// The endless turns of some sources.
#[derive(Debug, Clone)]
struct Turns {
    /// What shares are parts of.
    whole: u64,
    /// `2k - 2`, at least 1.
    parts: u64,
    now: u64,
    waiting: BinaryHeap<Reverse<Waiting>>,
    ready: BinaryHeap<Reverse<Ready>>,
}

/// A source whose next turn may not come yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    from: u64,
    source: usize,
    had: u64,
    weight: u64,
}

/// A source whose next turn may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ready {
    /// When it must, times its weight.
    due: u128,
    weight: u64,
    source: usize,
    had: u64,
}

impl Ord for Ready {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mine, theirs) = (self.due * u128::from(other.weight), other.due * u128::from(self.weight));
        mine.cmp(&theirs).then(self.source.cmp(&other.source))
    }
}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Turns {
    fn new(sources: impl Iterator<Item = usize>, weights: &[u64]) -> Self {
        let sources: Vec<usize> = sources.collect();
        let divisor = sources.iter().fold(0, |divisor, &source| gcd(divisor, weights[source])).max(1);
        let whole = sources.iter().map(|&source| weights[source] / divisor).sum();
        let parts = (2 * sources.len() as u64).saturating_sub(2).max(1);
        let mut turns = Self { whole, parts, now: 0, waiting: BinaryHeap::new(), ready: BinaryHeap::new() };
        for source in sources {
            turns.wait(source, 0, weights[source] / divisor);
        }
        turns
    }

    fn wait(&mut self, source: usize, had: u64, weight: u64) {
        self.waiting.push(Reverse(Waiting { from: self.first_turn(had, weight), source, had, weight }));
    }

    /// The turn from which on a source that had so many may have another: `(had + d) / share`, rounded up.
    fn first_turn(&self, had: u64, weight: u64) -> u64 {
        let small = had.checked_mul(self.parts).and_then(|had| (had + 1).checked_mul(self.whole));
        if let (Some(dividend), Some(divisor)) = (small, self.parts.checked_mul(weight)) {
            return dividend.div_ceil(divisor);
        }
        // Only where it must be: division by numbers of 128 bits takes ten times as long.
        let dividend = (u128::from(had) * u128::from(self.parts) + 1) * u128::from(self.whole);
        dividend.div_ceil(u128::from(self.parts) * u128::from(weight)) as u64
    }

    fn next(&mut self) -> usize {
        self.now += 1;
        while let Some(&Reverse(first)) = self.waiting.peek() {
            // With none ready the next one comes all the same, so that no arithmetic can leave a turn without a source.
            if first.from > self.now && !self.ready.is_empty() {
                break;
            }
            self.waiting.pop();
            let Waiting { source, had, weight, .. } = first;
            let due = (u128::from(had) + 1) * u128::from(self.parts) - 1;
            self.ready.push(Reverse(Ready { due, weight, source, had }));
        }
        let Some(Reverse(Ready { source, had, weight, .. })) = self.ready.pop() else {
            unreachable!("a schedule that has not ended has a source")
        };
        self.wait(source, had + 1, weight);
        source
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn turns(rows: &[u64], weights: Option<&[u64]>, stop: Stop) -> Vec<usize> {
        Schedule::new(rows, weights, stop).unwrap().collect()
    }

    proptest! {
        #[test]
        fn every_prefix_is_within_a_row_of_each_share(rows in prop::collection::vec(0_u64..60, 1..12)) {
            let whole: u64 = rows.iter().sum();
            let mut had = vec![0; rows.len()];
            for (now, source) in (1_u64..).zip(turns(&rows, None, Stop::All)) {
                had[source] += 1;
                for (&had, &rows) in had.iter().zip(&rows) {
                    let deviation = i128::from(had * whole) - i128::from(now * rows);
                    prop_assert!(deviation.unsigned_abs() < u128::from(whole));
                }
            }
            prop_assert_eq!(had, rows);
        }

        #[test]
        fn weights_hold_until_a_source_ends(pairs in prop::collection::vec((1_u64..40, 1_u64..9), 1..8)) {
            let (rows, weights): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
            let whole: u64 = weights.iter().sum();
            let mut had = vec![0; rows.len()];
            let order = turns(&rows, Some(&weights), Stop::First);
            for (now, &source) in (1_u64..).zip(&order) {
                had[source] += 1;
                for (&had, &weight) in had.iter().zip(&weights) {
                    prop_assert!((i128::from(had * whole) - i128::from(now * weight)).unsigned_abs() < u128::from(whole));
                }
            }
            let last = *order.last().unwrap();
            prop_assert_eq!(had[last], rows[last]);
            prop_assert!(had.iter().zip(&rows).enumerate().all(|(k, (had, rows))| k == last || had < rows));
        }

        #[test]
        fn all_and_cycle_reach_every_end(pairs in prop::collection::vec((0_u64..30, 1_u64..9), 1..6)) {
            let (rows, weights): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
            let count = |order: &[usize], source| order.iter().filter(|&&at| at == source).count() as u64;
            let all = turns(&rows, Some(&weights), Stop::All);
            let cycled = turns(&rows, Some(&weights), Stop::Cycle);
            for (source, &rows) in rows.iter().enumerate() {
                prop_assert_eq!(count(&all, source), rows);
                prop_assert!(count(&cycled, source) >= rows);
            }
            if let Some((_, before)) = cycled.split_last() {
                prop_assert!(rows.iter().enumerate().any(|(source, &rows)| count(before, source) < rows));
            }
            prop_assert_eq!(Schedule::total(&rows, Some(&weights), Stop::Cycle).unwrap(), cycled.len() as u64);
        }
    }

    #[test]
    fn orders_are_frozen() {
        // A schedule that changed would break runs that resume.
        assert_eq!(turns(&[5, 3, 1], None, Stop::All), [0, 1, 0, 1, 0, 0, 2, 1, 0]);
        assert_eq!(turns(&[3, 3], Some(&[2, 1]), Stop::All), [0, 1, 0, 0, 1, 1]);
        assert_eq!(turns(&[2, 3], Some(&[1, 1]), Stop::Cycle), [0, 1, 0, 1, 0, 1]);
        assert_eq!(turns(&[2, 0, 9], None, Stop::First).len(), 11 - 2);
    }

    #[test]
    fn no_rows_are_no_turns() {
        for stop in [Stop::First, Stop::All, Stop::Cycle] {
            assert!(turns(&[], None, stop).is_empty());
            assert!(turns(&[0, 0], None, stop).is_empty());
        }
    }

    #[test]
    fn weights_that_do_not_fit_are_refused() {
        let refused =
            |rows: &[u64], weights: &[u64]| Schedule::new(rows, Some(weights), Stop::All).unwrap_err().to_string();
        assert_eq!(refused(&[1, 2], &[1]), "there are 2 sources, but 1 weights");
        assert_eq!(refused(&[1, 2], &[1, 0]), "source 1 has rows, but its weight is 0");
        assert!(refused(&[1], &[u64::MAX]).contains("2^48"));
    }
}
