//! Copies the addressed letters into buffers that the caller owns, in parallel. Which letters is not decided here.

pub mod complement;
pub mod kernel;
pub mod layout;
pub mod letters;
pub mod table;
pub mod targets;

pub use kernel::{Kernel, OneHot, Raw, Translate};
pub use table::TokenTable;

use rayon::prelude::*;

use complement::COMPLEMENT;

use crate::error::{Error, Result};
use crate::io::prefetch::prefetch;
use crate::io::room::reserve;
use crate::io::{Scratch, Source, threads};
use crate::plan::address::Lines;
use crate::plan::batch::{Batch, Part};

/// Batches of fewer letters are copied on the calling thread: handing over would cost more.
const FEW_LETTERS: u64 = 1 << 17;

/// Jobs that one thread takes at a time, at most: where there are few, which are long then, each thread gets some.
const TAKEN: usize = 256;

/// The bytes of a job, and the place they go to, are asked for so many jobs before it is copied. Records lie far apart:
/// waiting for each would take longer than copying it.
const AHEAD: usize = 12;

/// Bytes asked for ahead; the processor itself goes on fetching what is read in order.
const PREFETCHED: usize = 512;

/// Letters of so many each, one after another, written by `fill` into the slots it is given; and where each starts.
pub fn gathered(letters: &[u64], fill: impl FnOnce(Vec<&mut [u8]>) -> Result<()>) -> Result<(Vec<u8>, Vec<i64>)> {
    let offsets = layout::offsets(letters, 0);
    let mut bytes = Vec::new();
    let needed = *offsets.last().unwrap_or(&0) as usize;
    reserve(&mut bytes, needed)?;
    bytes.resize(needed, 0);
    fill(layout::ragged(&mut bytes, letters, 1, layout::Ends { prefix: &[], suffix: &[] })?)?;
    Ok((bytes, offsets))
}

/// Letters that are under way, with the place they go to.
struct Job<'a, 'b, T> {
    part: &'b Part,
    out: &'a mut [T],
}

/// Fills `slots`, one per request of the batch and exactly as long as its letters need, in any number of threads.
pub fn gather<K: Kernel>(source: &dyn Source, batch: &Batch<'_>, kernel: &K, slots: Vec<&mut [K::Out]>) -> Result<()> {
    let mut jobs = jobs(batch, kernel.width(), slots)?;
    let run = |scratch: &mut Scratch, jobs: &mut [Job<'_, '_, K::Out>]| {
        let bytes = source.in_memory().unwrap_or(&[]);
        jobs.iter().take(AHEAD).for_each(|job| job.prefetch(bytes));
        for k in 0..jobs.len() {
            if let Some(later) = jobs.get(k + AHEAD) {
                later.prefetch(bytes);
            }
            let Job { part, out } = &mut jobs[k];
            copy(source, batch, part, kernel, scratch, out)?;
        }
        Ok(())
    };
    if batch.letters().iter().sum::<u64>() < FEW_LETTERS {
        return run(&mut Scratch::default(), &mut jobs);
    }
    let taken = jobs.len().div_ceil(4 * threads::threads().max(1)).clamp(1, TAKEN);
    threads::in_pool(|| jobs.par_chunks_mut(taken).try_for_each_init(Scratch::default, run))?
}

impl<T> Job<'_, '_, T> {
    #[inline]
    fn prefetch(&self, bytes: &[u8]) {
        let from = (self.part.address.offset as usize).min(bytes.len());
        let most = PREFETCHED.min(self.part.address.letters as usize);
        prefetch(&bytes[from..(from + most).min(bytes.len())]);
        prefetch(&self.out[..self.out.len().min(PREFETCHED / size_of::<T>())]);
    }
}

/// Gives every part its place in its request's slot.
fn jobs<'a, 'b, T>(batch: &'b Batch<'_>, width: usize, slots: Vec<&'a mut [T]>) -> Result<Vec<Job<'a, 'b, T>>> {
    let letters = batch.letters();
    let fits = slots.len() == letters.len()
        && slots.iter().zip(letters).all(|(slot, &n)| slot.len() as u64 == n * width as u64);
    if !fits {
        return Err(Error::Mismatch("the output does not have the shape that the rows need".to_owned()));
    }
    let mut slots = slots;
    let jobs = batch.parts().iter().map(|part| {
        let slot = &mut slots[part.request as usize];
        let (out, rest) = take(std::mem::take(slot), part.address.letters as usize * width, part.reverse);
        *slot = rest;
        Job { part, out }
    });
    Ok(jobs.collect())
}

/// Takes `len` values off the front of a slot; off its back when letters come in reverse.
fn take<T>(slot: &mut [T], len: usize, reverse: bool) -> (&mut [T], &mut [T]) {
    if reverse {
        let (rest, taken) = slot.split_at_mut(slot.len() - len);
        (taken, rest)
    } else {
        slot.split_at_mut(len)
    }
}

fn copy<K: Kernel>(
    source: &dyn Source,
    batch: &Batch<'_>,
    part: &Part,
    kernel: &K,
    scratch: &mut Scratch,
    out: &mut [K::Out],
) -> Result<()> {
    let (width, address, reverse) = (kernel.width(), &part.address, part.reverse);
    let unknown = |at: usize, letter: u8| {
        let request = batch.request(part);
        Error::UnknownLetter {
            path: None,
            table: kernel.name().to_owned(),
            row: request.row,
            id: None,
            position: request.start + part.from() + at as u64,
            letter: char::from(if reverse { COMPLEMENT[usize::from(letter)] } else { letter }),
        }
    };
    let mut left = out;
    let mut done = 0;
    if !reverse && matches!(address.lines, Lines::Even { .. }) {
        return letters::even_pieces(source, address.offset, letters::even_lines(address), scratch, |bytes, lines| {
            let (now, rest) = std::mem::take(&mut left).split_at_mut(lines.letters * width);
            left = rest;
            let before = done;
            done += lines.letters;
            kernel.write_lines(bytes, lines, now).map_err(|(at, byte)| unknown(before + at, bytes[byte]))
        });
    }
    letters::each_run(source, address, scratch, |letters| {
        let (now, rest) = take(std::mem::take(&mut left), letters.len() * width, reverse);
        left = rest;
        let before = done;
        done += letters.len();
        let written = if reverse { kernel.write_reversed(letters, now) } else { kernel.write(letters, now) };
        written.map_err(|at| unknown(before + at, letters[at]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_off_the_front_or_the_back() {
        for (reverse, taken, left) in [(false, [1, 2], [3]), (true, [2, 3], [1])] {
            let mut slot = [1, 2, 3];
            let (now, rest) = take(&mut slot, 2, reverse);
            assert_eq!((&*now, &*rest), (&taken[..], &left[..]));
        }
        assert_eq!(take(&mut [0_u8; 0], 0, true), (&mut [][..], &mut [][..]));
    }
}
