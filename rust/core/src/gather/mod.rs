//! Copies the addressed letters into buffers that the caller owns, in parallel. Which letters is not decided here.

pub mod complement;
pub mod kernel;
pub mod layout;
pub mod letters;
pub mod table;

pub use kernel::{Kernel, OneHot, Raw, Translate};
pub use table::TokenTable;

use rayon::prelude::*;

use complement::COMPLEMENT;

use crate::error::{Error, Result};
use crate::io::prefetch::prefetch;
use crate::io::{Scratch, Source, threads};
use crate::plan::Address;
use crate::plan::batch::{Batch, Part};

/// Batches of fewer letters are copied on the calling thread: handing over would cost more.
const FEW_LETTERS: u64 = 1 << 16;

/// Jobs that one thread takes at a time.
const TAKEN: usize = 256;

/// Jobs whose addresses are worked out, and whose bytes are asked for, before the first of them is copied; so many more
/// have their rows of the index asked for. Records lie far apart: waiting for each would take longer than copying it.
const AHEAD: usize = 16;

/// Bytes asked for ahead; the processor itself goes on fetching what is read in order.
const PREFETCHED: u64 = 512;

/// Letters that are under way, with the place they go to.
struct Job<'a, T> {
    part: Part,
    out: &'a mut [T],
}

/// Fills `slots`, one per request of the batch and exactly as long as its letters need, in any number of threads.
pub fn gather<K: Kernel>(source: &dyn Source, batch: &Batch<'_>, kernel: &K, slots: Vec<&mut [K::Out]>) -> Result<()> {
    let mut jobs = jobs(batch, kernel.width(), slots)?;
    let run = |scratch: &mut Scratch, jobs: &mut [Job<'_, K::Out>]| {
        let mut rest = jobs;
        while !rest.is_empty() {
            let (now, later) = rest.split_at_mut(AHEAD.min(rest.len()));
            later.iter().take(AHEAD).for_each(|job| batch.prefetch(&job.part));
            copy_some(source, batch, kernel, scratch, now)?;
            rest = later;
        }
        Ok(())
    };
    if batch.letters().iter().sum::<u64>() < FEW_LETTERS {
        return run(&mut Scratch::default(), &mut jobs);
    }
    threads::in_pool(|| jobs.par_chunks_mut(TAKEN).try_for_each_init(Scratch::default, run))?
}

/// Gives every part its place in its request's slot.
fn jobs<'a, T>(batch: &Batch<'_>, width: usize, slots: Vec<&'a mut [T]>) -> Result<Vec<Job<'a, T>>> {
    let letters = batch.letters();
    let fits = slots.len() == letters.len()
        && slots.iter().zip(letters).all(|(slot, &n)| slot.len() as u64 == n * width as u64);
    if !fits {
        return Err(Error::Mismatch("the output does not have the shape that the rows need".to_owned()));
    }
    let mut slots: Vec<Option<&mut [T]>> = slots.into_iter().map(Some).collect();
    let jobs = batch.parts().iter().map(|&part| {
        let slot = slots[part.request].take().unwrap_or_default();
        let (out, rest) = take(slot, part.letters as usize * width, part.reverse);
        slots[part.request] = Some(rest);
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

fn copy_some<K: Kernel>(
    source: &dyn Source,
    batch: &Batch<'_>,
    kernel: &K,
    scratch: &mut Scratch,
    jobs: &mut [Job<'_, K::Out>],
) -> Result<()> {
    let mut addresses = [None; AHEAD];
    for (address, job) in addresses.iter_mut().zip(&*jobs) {
        let found = batch.address(&job.part)?;
        source.prefetch(found.offset(), found.letters().min(PREFETCHED));
        prefetch(&job.out[..job.out.len().min(PREFETCHED as usize)]);
        *address = Some(found);
    }
    for (job, address) in jobs.iter_mut().zip(addresses.iter().flatten()) {
        copy(source, address, kernel, scratch, job)?;
    }
    Ok(())
}

fn copy<K: Kernel>(
    source: &dyn Source,
    address: &Address,
    kernel: &K,
    scratch: &mut Scratch,
    job: &mut Job<'_, K::Out>,
) -> Result<()> {
    let (width, part, reverse) = (kernel.width(), job.part, job.part.reverse);
    let mut left = &mut *job.out;
    let mut done = 0;
    letters::each_run(source, address, scratch, |letters| {
        let (now, rest) = take(std::mem::take(&mut left), letters.len() * width, reverse);
        left = rest;
        let written = if reverse { kernel.write_reversed(letters, now) } else { kernel.write(letters, now) };
        let position = part.start + done;
        done += letters.len() as u64;
        written.map_err(|at| Error::UnknownLetter {
            table: kernel.name().to_owned(),
            row: part.row,
            id: None,
            position: position + at as u64,
            letter: char::from(if reverse { COMPLEMENT[usize::from(letters[at])] } else { letters[at] }),
        })
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
