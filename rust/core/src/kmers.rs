//! What sequences are made of: how often each word of `k` letters occurs.

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::io::threads;

/// Batches of less work, in letters and in counts, are done on the calling thread: handing over would cost more.
const LITTLE_WORK: usize = 1 << 16;

/// Words of `k` letters over an alphabet whose letters are the ids from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kmers {
    letters: u32,
    k: u32,
    width: u32,
}

impl Kmers {
    /// More words than this are refused: a vector of them would take more than 4 MiB.
    pub const MOST: u32 = 1 << 20;

    /// Words of `k` letters over `letters` letters.
    ///
    /// ```
    /// use seekset_core::kmers::Kmers;
    /// assert_eq!(Kmers::new(20, 2)?.width(), 400);
    /// assert!(Kmers::new(20, 5).is_err());
    /// # Ok::<(), seekset_core::Error>(())
    /// ```
    pub fn new(letters: u32, k: u32) -> Result<Self> {
        if letters == 0 || k == 0 {
            let message =
                format!("words of {k} letters over an alphabet of {letters} can't be counted: both are at least 1");
            return Err(Error::Mismatch(message));
        }
        match letters.checked_pow(k).filter(|&width| width <= Self::MOST) {
            Some(width) => Ok(Self { letters, k, width }),
            None => Err(Error::Mismatch(format!(
                "there are {letters}^{k} words of {k} letters over an alphabet of {letters}, and at most {} can be counted",
                Self::MOST
            ))),
        }
    }

    /// How many words there are.
    #[must_use]
    pub fn width(self) -> usize {
        self.width as usize
    }

    /// The share of each word among the words of each sequence, in the order of their letters' ids; zeros where a sequence
    /// has no word. Other ids than the alphabet's are letters that no word has.
    ///
    /// `ends` are where sequences start, and where the last one ends. What comes out for a sequence depends on its letters
    /// alone: neither on those beside it nor on the number of threads.
    ///
    /// ```
    /// use seekset_core::kmers::Kmers;
    /// let mut shares = [0.0; 8];
    /// // 0 0 1 has the words 00 and 01; of 1 9 1 1 it is 11 alone, because 9 is no letter.
    /// Kmers::new(2, 2)?.frequencies(&[0, 0, 1, 1, 9, 1, 1], &[0, 3, 7], &mut shares)?;
    /// assert_eq!(shares, [0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    /// # Ok::<(), seekset_core::Error>(())
    /// ```
    pub fn frequencies(self, ids: &[i64], ends: &[i32], out: &mut [f32]) -> Result<()> {
        let sequences = sequences(ids, ends)?;
        if out.len() != sequences.len() * self.width() {
            let message = format!(
                "the output has room for {} numbers, not for {} words of {} sequences",
                out.len(),
                self.width,
                sequences.len()
            );
            return Err(Error::Mismatch(message));
        }
        let work = ids.len() + out.len();
        let jobs = out.chunks_exact_mut(self.width()).zip(sequences);
        if work < LITTLE_WORK {
            jobs.for_each(|(out, ids)| self.sequence(ids, out));
            return Ok(());
        }
        let jobs: Vec<_> = jobs.collect();
        threads::in_pool(|| jobs.into_par_iter().for_each(|(out, ids)| self.sequence(ids, out)))
    }

    /// Counts the words of one sequence where their shares will stand, and divides.
    fn sequence(self, ids: &[i64], out: &mut [f32]) {
        out.fill(0.0);
        let words = self.count(ids, bytemuck::cast_slice_mut(out));
        if words > 0 {
            // Counts are whole numbers of 32 bits until they are divided, and zeros are the same in both.
            let words = f64::from(words);
            for share in out {
                *share = (f64::from(share.to_bits()) / words) as f32;
            }
        }
    }

    /// Counts words, and returns how many there were.
    fn count(self, ids: &[i64], counts: &mut [u32]) -> u32 {
        let (letters, k) = (i64::from(self.letters), self.k as usize);
        // What the first letter of a word adds to its number.
        let first = self.width / self.letters;
        let mut words = 0;
        for run in ids.split(|&id| !(0..letters).contains(&id)).filter(|run| run.len() >= k) {
            let (head, _) = run.split_at(k - 1);
            let mut word = head.iter().fold(0, |word, &id| word * self.letters + id as u32);
            for (&left, &id) in run.iter().zip(&run[k - 1..]) {
                word = word * self.letters + id as u32;
                counts[word as usize] += 1;
                word -= left as u32 * first;
            }
            words += (run.len() - k + 1) as u32;
        }
        words
    }
}

/// The ids of each sequence. `ends` are the caller's: they may say anything.
fn sequences<'a>(ids: &'a [i64], ends: &[i32]) -> Result<Vec<&'a [i64]>> {
    let whole = ends.first() == Some(&0) && ends.last().is_some_and(|&end| usize::try_from(end) == Ok(ids.len()));
    let found: Option<Vec<_>> = if whole { ends.windows(2).map(|span| span_of(ids, span)).collect() } else { None };
    let message = || format!("ends must rise from 0 to the number of ids, which is {}", ids.len());
    found.ok_or_else(|| Error::Mismatch(message()))
}

fn span_of<'a>(ids: &'a [i64], span: &[i32]) -> Option<&'a [i64]> {
    ids.get(usize::try_from(span[0]).ok()?..usize::try_from(span[1]).ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shares(kmers: Kmers, ids: &[i64], ends: &[i32]) -> Vec<f32> {
        let mut out = vec![f32::NAN; (ends.len() - 1) * kmers.width()];
        kmers.frequencies(ids, ends, &mut out).unwrap();
        out
    }

    /// Every word is looked up letter by letter.
    fn plain(letters: i64, k: usize, ids: &[i64]) -> Vec<f32> {
        let known: Vec<&[i64]> =
            ids.windows(k).filter(|word| word.iter().all(|id| (0..letters).contains(id))).collect();
        let word =
            |number: i64| (0..k as u32).rev().map(|place| number / letters.pow(place) % letters).collect::<Vec<_>>();
        let share = |number| match known.len() {
            0 => 0.0,
            words => {
                let count = known.iter().filter(|found| **found == word(number)).count() as u32;
                (f64::from(count) / f64::from(words as u32)) as f32
            }
        };
        (0..letters.pow(k as u32)).map(share).collect()
    }

    proptest! {
        #[test]
        fn shares_are_those_of_a_plain_count(
            letters in 1_u32..5,
            k in 1_u32..4,
            rows in prop::collection::vec(prop::collection::vec(-1_i64..6, 0..20), 0..6),
        ) {
            let ends: Vec<i32> =
                std::iter::once(0).chain(rows.iter().scan(0, |end, row| { *end += row.len() as i32; Some(*end) })).collect();
            let found = shares(Kmers::new(letters, k).unwrap(), &rows.concat(), &ends);
            let expected: Vec<f32> = rows.iter().flat_map(|row| plain(letters.into(), k as usize, row)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_batch_for_many_threads_has_the_shares_of_each_sequence_alone() {
        let kmers = Kmers::new(4, 3).unwrap();
        let ids: Vec<i64> = (0..100_000_i64).map(|n| n * n / 7 % 5).collect();
        let ends = [0, 3, 3, 40_000, 99_000, 100_000];
        let together = shares(kmers, &ids, &ends);
        for (row, span) in ends.windows(2).enumerate() {
            let own = &ids[span[0] as usize..span[1] as usize];
            assert_eq!(together[row * 64..][..64], shares(kmers, own, &[0, own.len() as i32]));
        }
    }

    #[test]
    fn too_many_words_and_none_at_all_are_refused() {
        assert_eq!(Kmers::new(4, 10).unwrap().width(), 1 << 20);
        assert_eq!(
            Kmers::new(4, 11).unwrap_err().to_string(),
            "there are 4^11 words of 11 letters over an alphabet of 4, and at most 1048576 can be counted"
        );
        for (letters, k) in [(20, u32::MAX), (2, 32), (0, 2), (20, 0)] {
            assert!(Kmers::new(letters, k).is_err(), "{letters} {k}");
        }
    }

    #[test]
    fn ends_that_are_not_those_of_the_ids_are_refused() {
        let kmers = Kmers::new(2, 1).unwrap();
        for ends in [&[][..], &[0], &[0, 2], &[0, 4], &[1, 3], &[0, 2, 1, 3], &[0, -1, 3], &[0, 4, 3]] {
            let mut out = vec![0.0; ends.len().saturating_sub(1) * 2];
            let error = kmers.frequencies(&[0, 1, 0], ends, &mut out).unwrap_err();
            assert_eq!(error.to_string(), "ends must rise from 0 to the number of ids, which is 3", "{ends:?}");
        }
        assert!(kmers.frequencies(&[0, 1, 0], &[0, 3], &mut [0.0; 3]).is_err());
        kmers.frequencies(&[], &[0], &mut []).unwrap();
    }
}
