//! Copies the addressed letters into buffers that the caller owns, in parallel. Which letters is not decided here.

pub mod complement;
pub mod kernel;
pub mod layout;
pub mod letters;
pub mod table;

pub use kernel::{Kernel, OneHot, Raw, Translate};
pub use table::TokenTable;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::io::{Scratch, Source, threads};
use crate::plan::Batch;
use crate::plan::batch::Piece;

/// Batches of fewer letters are copied on the calling thread: handing over would cost more.
const FEW_LETTERS: u64 = 1 << 16;

/// Pieces that one thread takes at a time.
const PIECES_AT_ONCE: usize = 64;

/// Letters that are under way, with the place they go to.
struct Job<'a, T> {
    piece: Piece,
    out: &'a mut [T],
}

/// Fills `slots`, one per request of the batch and exactly as long as its letters need, in any number of threads.
pub fn gather<K: Kernel>(source: &dyn Source, batch: Batch, kernel: &K, slots: Vec<&mut [K::Out]>) -> Result<()> {
    source.check_unchanged()?;
    let (pieces, letters) = batch.into_parts();
    let total: u64 = letters.iter().sum();
    let mut jobs = jobs(pieces, &letters, kernel.width(), slots)?;
    let run = |scratch: &mut Scratch, job: &mut Job<'_, K::Out>| copy(source, kernel, scratch, job);
    if total < FEW_LETTERS {
        let mut scratch = Scratch::default();
        return jobs.iter_mut().try_for_each(|job| run(&mut scratch, job));
    }
    threads::in_pool(|| {
        jobs.par_chunks_mut(PIECES_AT_ONCE)
            .try_for_each_init(Scratch::default, |scratch, jobs| jobs.iter_mut().try_for_each(|job| run(scratch, job)))
    })
}

/// Gives every piece its part of its request's slot.
fn jobs<'a, T>(pieces: Vec<Piece>, letters: &[u64], width: usize, slots: Vec<&'a mut [T]>) -> Result<Vec<Job<'a, T>>> {
    let fits = slots.len() == letters.len()
        && slots.iter().zip(letters).all(|(slot, &n)| slot.len() as u64 == n * width as u64);
    if !fits {
        return Err(Error::Mismatch("the output does not have the shape that the rows need".to_owned()));
    }
    let mut slots: Vec<Option<&mut [T]>> = slots.into_iter().map(Some).collect();
    let jobs = pieces.into_iter().map(|piece| {
        // Pieces of one request come in order: each takes its part off the front, or off the back when reversed.
        let slot = slots[piece.request].take().unwrap_or_default();
        let len = piece.address.letters() as usize * width;
        let (out, rest) = if piece.reverse {
            let (rest, out) = slot.split_at_mut(slot.len() - len);
            (out, rest)
        } else {
            slot.split_at_mut(len)
        };
        slots[piece.request] = Some(rest);
        Job { piece, out }
    });
    Ok(jobs.collect())
}

fn copy<K: Kernel>(source: &dyn Source, kernel: &K, scratch: &mut Scratch, job: &mut Job<'_, K::Out>) -> Result<()> {
    let Job { piece, out } = job;
    let (width, reverse) = (kernel.width(), piece.reverse);
    let mut left = &mut **out;
    let mut done = 0;
    letters::each_run(source, &piece.address, scratch, |letters| {
        let len = letters.len() * width;
        let slot = std::mem::take(&mut left);
        let (now, rest) = if reverse {
            let (rest, now) = slot.split_at_mut(slot.len() - len);
            (now, rest)
        } else {
            slot.split_at_mut(len)
        };
        left = rest;
        let written = if reverse { kernel.write_reversed(letters, now) } else { kernel.write(letters, now) };
        let position = piece.start + done;
        done += letters.len() as u64;
        written.map_err(|at| Error::UnknownLetter {
            table: kernel.name().to_owned(),
            row: piece.row,
            id: None,
            position: position + at as u64,
            letter: char::from(letters[at]),
        })
    })
}
