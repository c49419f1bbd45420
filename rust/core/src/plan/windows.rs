//! Overlapping windows over stretches of letters: counted, never stored.
//!
//! What a window is follows from the length of its stretch (a contig, or a region of one) and the window's number there.
//! So a plan of any number of windows is one number for each stretch, where its windows end, and a window is found by a
//! search among those.

use crate::error::{Error, Result};
use crate::io::room::reserve;

/// The most tokens of a window, and letters of a stride: products with them stay within 64 bits.
const MOST: u64 = 1 << 31;

/// What becomes of the letters after the last window that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// They are in no window: Sharded Eden's rule, which counts windows with their specials as letters.
    Drop,
    /// One more window ends where the stretch ends.
    Anchor,
    /// One more window begins at the next multiple of the stride and is shorter.
    Partial,
}

impl std::str::FromStr for Tail {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "drop" => Ok(Self::Drop),
            "anchor" => Ok(Self::Anchor),
            "partial" => Ok(Self::Partial),
            _ => Err(Error::Mismatch(format!("tail must be \"drop\", \"anchor\" or \"partial\", not \"{name}\""))),
        }
    }
}

/// How stretches are cut into windows.
///
/// ```
/// use seekset_core::plan::windows::{Tail, Windows};
/// let windows = Windows::new(10, 8, 6, Tail::Anchor, 1)?;
/// // 19 letters: two windows of 8 at multiples of 6, and one that ends where the stretch ends.
/// assert_eq!(windows.count(19), 3);
/// assert_eq!([0, 1, 2].map(|k| windows.span(19, k)), [(0, 8), (6, 8), (11, 8)]);
/// # Ok::<(), seekset_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    window: u64,
    content: u64,
    stride: u64,
    tail: Tail,
    min_length: u64,
    edges: Option<(u64, u64)>,
}

impl Windows {
    /// Windows of `window` tokens, of which `content` are letters, every `stride` letters. Stretches of fewer letters than
    /// `min_length` have none.
    pub fn new(window: u64, content: u64, stride: u64, tail: Tail, min_length: u64) -> Result<Self> {
        if content == 0 || content > window {
            return Err(Error::Mismatch(format!(
                "a window of {window} tokens has no room for letters beside {} special tokens",
                window.saturating_sub(content)
            )));
        }
        if window > MOST || stride > MOST {
            let most = MOST;
            return Err(Error::Mismatch(format!(
                "window and stride must be at most {most}, but are {window} and {stride}"
            )));
        }
        if stride == 0 {
            return Err(Error::Mismatch("stride must be at least 1, but is 0".to_owned()));
        }
        Ok(Self { window, content, stride, tail, min_length, edges: None })
    }

    /// The same with special tokens only where a stretch begins, and where it ends: so many each, together those that are
    /// not content. Where a window has none, it has letters in their place; it reaches the end of its stretch only if
    /// there is room for what stands there.
    #[must_use]
    pub fn with_edges(self, first: u64, last: u64) -> Self {
        let edges = Some((first, last)).filter(|_| first.checked_add(last) == Some(self.window - self.content));
        Self { edges, ..self }
    }

    /// The tokens of a window.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Letters from one window's start to the next one's.
    #[must_use]
    pub fn stride(&self) -> u64 {
        self.stride
    }

    /// How many windows a stretch has.
    #[must_use]
    pub fn count(&self, length: u64) -> u64 {
        if length < self.min_length {
            return 0;
        }
        match self.tail {
            Tail::Drop => 1 + length.saturating_sub(self.window) / self.stride,
            Tail::Anchor => 1 + self.more(length),
            // A window after the last letter would be empty, as with a stride beyond the content.
            Tail::Partial => 1 + self.more(length).min(length.saturating_sub(1) / self.stride),
        }
    }

    /// How many windows after a stretch's first it takes to reach its end.
    fn more(&self, length: u64) -> u64 {
        if length <= self.content { 0 } else { self.anchor(length).div_ceil(self.stride) }
    }

    /// The first letter of a window that reaches a stretch's end, other than the stretch's first window.
    fn anchor(&self, length: u64) -> u64 {
        match self.edges {
            None => length.saturating_sub(self.content),
            Some((_, last)) => length.saturating_add(last).saturating_sub(self.window).max(1),
        }
    }

    /// The first letter of a stretch's `k`-th window, and how many letters it has.
    #[must_use]
    pub fn span(&self, length: u64, k: u64) -> (u64, u64) {
        let start = k.saturating_mul(self.stride);
        let start = match self.tail {
            Tail::Anchor => start.min(self.anchor(length)),
            Tail::Drop | Tail::Partial => start,
        };
        let left = length.saturating_sub(start);
        let Some((first, last)) = self.edges else { return (start, left.min(self.content)) };
        let room = self.window - if start == 0 { first } else { 0 };
        let reaches = left.saturating_add(last) <= room;
        (start, if reaches { left } else { room.min(left.saturating_sub(1)) })
    }

    /// How many letters of a stretch are in no window.
    #[must_use]
    pub fn unseen(&self, length: u64) -> u64 {
        let count = self.count(length);
        let Some(last) = count.checked_sub(1) else { return length };
        let (start, letters) = self.span(length, last);
        let hole = |k: u64| {
            let (start, letters) = self.span(length, k);
            self.span(length, k + 1).0.saturating_sub(start + letters)
        };
        // The first window may have fewer letters than others, and the last may have been moved back, into the hole before
        // it or the window before that: all other holes are alike.
        let holes = match last {
            0 => 0,
            1 => hole(0),
            _ => hole(0) + (last - 2) * hole(1) + hole(last - 1),
        };
        holes + (length - (start + letters))
    }
}

/// Where the windows of each stretch end, counted over all of them, from the lengths of the stretches; those without one
/// have no windows.
pub fn ends(windows: &Windows, lengths: impl Iterator<Item = Option<u64>>, ends: &mut Vec<i64>) -> Result<()> {
    let mut end = ends.last().copied().unwrap_or(0);
    reserve(ends, lengths.size_hint().0)?;
    for length in lengths {
        let count = length.map_or(Ok(0), |length| i64::try_from(windows.count(length))).ok();
        end = count.and_then(|count| end.checked_add(count)).ok_or_else(|| {
            Error::Mismatch("there are more windows than 63 bits can count; give a larger stride".to_owned())
        })?;
        ends.push(end);
    }
    Ok(())
}

/// The windows that are not full, which only the last of a stretch can be, and how many letters each has.
pub fn short(windows: &Windows, ends: &[i64], lengths: impl Iterator<Item = u64>) -> (Vec<i64>, Vec<i64>) {
    let mut before = 0;
    let spans = ends.iter().zip(lengths).filter_map(|(&end, length)| {
        let count = end - std::mem::replace(&mut before, end);
        let (_, letters) = windows.span(length, u64::try_from(count - 1).ok()?);
        (letters < windows.content).then_some((end - 1, letters as i64))
    });
    spans.unzip()
}

/// The stretch that a window is of, and its number there.
pub fn locate(ends: &[i64], window: i64) -> Result<(usize, u64)> {
    let rows = ends.last().map_or(0, |&end| end.max(0) as u64);
    let stretch = ends.partition_point(|&end| end <= window);
    if window < 0 || stretch == ends.len() {
        return Err(Error::RowOutOfRange { row: window, rows });
    }
    let before = stretch.checked_sub(1).map_or(0, |before| ends[before]);
    Ok((stretch, (window - before).max(0) as u64))
}

/// Whether each window is to be given as its reverse complement in an epoch: a coin for each, from the seed.
#[must_use]
pub fn coins(seed: u64, epoch: u64, windows: &[i64]) -> Vec<bool> {
    let base = super::permutation::mix(super::permutation::mix(seed ^ 0x7265_7665_7273_6521).wrapping_add(epoch));
    windows.iter().map(|&window| super::permutation::mix(base ^ window as u64) >> 63 == 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(tail: Tail) -> Windows {
        Windows::new(10, 8, 6, tail, 0).unwrap()
    }

    fn spans(windows: &Windows, length: u64) -> Vec<(u64, u64)> {
        (0..windows.count(length)).map(|k| windows.span(length, k)).collect()
    }

    #[test]
    fn edens_rule_counts_windows_with_their_specials() {
        let eden = Windows::new(8192, 8190, 7992, Tail::Drop, 0).unwrap();
        let counts = [0, 1, 8191, 8192, 16_183, 16_184].map(|length| eden.count(length));
        assert_eq!(counts, [1, 1, 1, 1, 1, 2]);
        assert_eq!(spans(&windows(Tail::Drop), 16), [(0, 8), (6, 8)]);
        assert_eq!(spans(&windows(Tail::Drop), 15), [(0, 8)]);
        assert_eq!(spans(&windows(Tail::Drop), 3), [(0, 3)]);
        assert_eq!(spans(&windows(Tail::Drop), 0), [(0, 0)]);
    }

    #[test]
    fn anchored_windows_end_where_the_stretch_ends() {
        let anchored = windows(Tail::Anchor);
        assert_eq!(spans(&anchored, 8), [(0, 8)]);
        assert_eq!(spans(&anchored, 9), [(0, 8), (1, 8)]);
        assert_eq!(spans(&anchored, 14), [(0, 8), (6, 8)]);
        assert_eq!(spans(&anchored, 15), [(0, 8), (6, 8), (7, 8)]);
        assert_eq!(spans(&anchored, 5), [(0, 5)]);
    }

    #[test]
    fn partial_windows_start_at_multiples_of_the_stride() {
        let partial = windows(Tail::Partial);
        assert_eq!(spans(&partial, 14), [(0, 8), (6, 8)]);
        assert_eq!(spans(&partial, 15), [(0, 8), (6, 8), (12, 3)]);
        assert_eq!(spans(&partial, 8), [(0, 8)]);
        let sparse = Windows::new(3, 3, 10, Tail::Partial, 1).unwrap();
        assert_eq!(spans(&sparse, 10), [(0, 3)]);
        assert_eq!(spans(&sparse, 11), [(0, 3), (10, 1)]);
        assert_eq!(spans(&sparse, 0), []);
    }

    #[test]
    fn every_letter_is_in_a_window_or_counted_as_unseen() {
        for tail in [Tail::Drop, Tail::Anchor, Tail::Partial] {
            for (content, stride, specials) in [(1, 1, 0), (3, 2, 1), (4, 4, 2), (3, 7, 0), (5, 6, 2)] {
                let windows = Windows::new(content + specials, content, stride, tail, 2).unwrap();
                for length in 0..60 {
                    let mut seen = vec![false; length as usize];
                    for (start, letters) in spans(&windows, length) {
                        assert!(start + letters <= length && letters <= content, "{windows:?}, {length}");
                        assert!(letters > 0, "{windows:?}, {length}");
                        seen[start as usize..(start + letters) as usize].fill(true);
                    }
                    let unseen = seen.iter().filter(|&&seen| !seen).count() as u64;
                    assert_eq!(windows.unseen(length), unseen, "{windows:?}, {length}");
                    if tail != Tail::Drop && stride <= content && length >= 2 {
                        assert_eq!(unseen, 0, "{windows:?}, {length}");
                    }
                }
            }
        }
    }

    #[test]
    fn windows_have_letters_where_others_have_specials() {
        let edged = windows(Tail::Anchor).with_edges(1, 1);
        assert_eq!(spans(&edged, 8), [(0, 8)]);
        assert_eq!(spans(&edged, 9), [(0, 8), (1, 8)]);
        assert_eq!(spans(&edged, 15), [(0, 9), (6, 9)]);
        assert_eq!(spans(&edged, 16), [(0, 9), (6, 9), (7, 9)]);
        assert_eq!(spans(&windows(Tail::Partial).with_edges(1, 1), 16), [(0, 9), (6, 9), (12, 4)]);
        assert_eq!(spans(&windows(Tail::Drop).with_edges(1, 1), 16), [(0, 9), (6, 9)]);
    }

    #[test]
    fn letters_that_windows_with_edges_leave_out_are_counted() {
        for tail in [Tail::Drop, Tail::Anchor, Tail::Partial] {
            for (window, stride, edges) in
                [(5, 3, (1, 1)), (5, 4, (1, 1)), (5, 5, (1, 1)), (5, 7, (0, 1)), (6, 6, (1, 0)), (3, 1, (1, 1))]
            {
                let content = window - edges.0 - edges.1;
                let windows = Windows::new(window, content, stride, tail, 1).unwrap().with_edges(edges.0, edges.1);
                for length in 1..60 {
                    let mut seen = vec![false; length as usize];
                    for (start, letters) in spans(&windows, length) {
                        seen[start as usize..(start + letters) as usize].fill(true);
                    }
                    let unseen = seen.iter().filter(|&&seen| !seen).count() as u64;
                    assert_eq!(windows.unseen(length), unseen, "{windows:?}, {length}");
                    if tail == Tail::Anchor && stride <= window - edges.0.max(edges.1) {
                        assert_eq!(unseen, 0, "{windows:?}, {length}");
                    }
                }
            }
        }
    }

    #[test]
    fn windows_are_found_among_ends() {
        let mut found = vec![];
        ends(&Windows::new(8, 8, 6, Tail::Partial, 1).unwrap(), [0, 20, 0, 0, 3].into_iter().map(Some), &mut found)
            .unwrap();
        assert_eq!(found, [0, 3, 3, 3, 4]);
        assert_eq!([0, 2, 3].map(|window| locate(&found, window).unwrap()), [(1, 0), (1, 2), (4, 0)]);
        for outside in [-1, 4] {
            let message = locate(&found, outside).unwrap_err().to_string();
            assert_eq!(message, format!("row {outside} is out of range: there are 4 rows, 0 to 3"));
        }
        assert!(locate(&[], 0).is_err());
        found.clear();
        ends(&windows(Tail::Drop), [Some(20), None, Some(3)].into_iter(), &mut found).unwrap();
        assert_eq!(found, [2, 2, 3]);
    }

    #[test]
    fn short_windows_are_told_with_their_letters() {
        let (partial, lengths) = (windows(Tail::Partial), [14, 15, 0, 3]);
        let mut found = vec![];
        ends(&partial, lengths.into_iter().map(Some), &mut found).unwrap();
        assert_eq!(short(&partial, &found, lengths.into_iter()), (vec![4, 5, 6], vec![3, 0, 3]));
    }

    #[test]
    fn more_windows_than_can_be_counted_are_refused() {
        let dense = Windows::new(1, 1, 1, Tail::Anchor, 0).unwrap();
        let mut found = vec![];
        assert!(ends(&dense, [u64::MAX].into_iter().map(Some), &mut found).is_err());
        assert!(ends(&dense, [1 << 62, 1 << 62].into_iter().map(Some), &mut found).is_err());
        assert!(Windows::new(2, 0, 1, Tail::Drop, 0).is_err() && Windows::new(2, 2, 0, Tail::Drop, 0).is_err());
    }

    #[test]
    fn coins_fall_evenly_and_are_frozen() {
        let numbers: Vec<i64> = (0..10_000).collect();
        let heads = |seed, epoch| coins(seed, epoch, &numbers);
        for (seed, epoch) in [(0, 0), (0, 1), (1, 0), (u64::MAX, 7)] {
            let share = heads(seed, epoch).iter().filter(|&&head| head).count();
            assert!((4_800..5_200).contains(&share), "{share}");
        }
        let alike = heads(0, 0).iter().zip(heads(0, 1)).filter(|&(a, b)| *a == b).count();
        assert!((4_800..5_200).contains(&alike), "{alike}");
        let first: Vec<u8> = heads(0, 0)[..16].iter().map(|&head| head.into()).collect();
        assert_eq!(first, [0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 1]);
    }
}
