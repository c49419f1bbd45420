//! Windows read by several threads, each with databases and values of its own.

use rayon::prelude::*;

use super::sequences::{EdenSequences, Window};
use crate::error::{Error, Place, Result};
use crate::gather::Kernel;
use crate::gather::complement::COMPLEMENT;
use crate::gather::letters::EvenLines;
use crate::io::sqlite::forks::enter;
use crate::io::sqlite::told;
use crate::io::sqlite::values::{Value, Values};
use crate::io::threads;

/// Fewer windows than this are read on the calling thread: handing over would cost more.
const FEW: usize = 8;

/// Letters read at a time, which bounds what a thread needs besides the output.
const STEP: usize = 1 << 18;

/// One thread's share of a batch: windows by their places in it, and the letters that each turns out to have.
struct Part<'b> {
    reader: Values,
    places: &'b [u32],
    letters: Vec<u64>,
}

pub(super) fn gather<'o, K: Kernel>(
    sequences: &EdenSequences,
    windows: &[Window<'_>],
    kernel: &K,
    cut: impl FnOnce(&[u64]) -> Result<Vec<&'o mut [K::Out]>> + Send,
) -> Result<()>
where
    K::Out: 'o,
{
    let order = order(windows);
    let count = if windows.len() <= FEW { 1 } else { threads::threads() };
    let shares: Vec<&[u32]> = order.chunks(windows.len().div_ceil(count).max(1)).collect();
    let readers = sequences.readers(shares.len());
    let part = |(reader, places)| Part { reader, places, letters: Vec::new() };
    let mut parts: Vec<Part<'_>> = readers.into_iter().zip(shares).map(part).collect();
    // Into the pool once: each time costs about as much as reading a window does.
    let done = if parts.len() > 1 {
        threads::in_pool(|| fill(sequences, windows, &mut parts, kernel, cut)).flatten()
    } else {
        fill(sequences, windows, &mut parts, kernel, cut)
    };
    sequences.give(parts.into_iter().map(|part| part.reader).collect());
    done
}

/// The places of windows, by where their letters lie.
fn order(windows: &[Window<'_>]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..windows.len() as u32).collect();
    let key = |&place: &u32| {
        let window = &windows[place as usize];
        (window.database, window.contig, window.start)
    };
    order.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
    order
}

fn fill<'o, K: Kernel>(
    sequences: &EdenSequences,
    windows: &[Window<'_>],
    parts: &mut [Part<'_>],
    kernel: &K,
    cut: impl FnOnce(&[u64]) -> Result<Vec<&'o mut [K::Out]>> + Send,
) -> Result<()>
where
    K::Out: 'o,
{
    each(parts.iter_mut().collect(), |part| {
        let _inside = enter();
        let letters = part.places.iter().map(|&place| letters(sequences, &mut part.reader, &windows[place as usize]));
        part.letters = letters.collect::<Result<_>>()?;
        Ok(())
    })?;
    let mut letters = vec![0; windows.len()];
    for part in &*parts {
        for (&place, &n) in part.places.iter().zip(&part.letters) {
            letters[place as usize] = n;
        }
    }
    let mut slots = cut(&letters)?;
    let fits = slots.len() == windows.len()
        && slots.iter().zip(&letters).all(|(slot, &n)| slot.len() as u64 == n * kernel.width() as u64);
    if !fits {
        return Err(Error::Mismatch("the output does not have the shape that the windows need".to_owned()));
    }
    let with_slots = parts.iter_mut().map(|part| {
        let slots = part.places.iter().map(|&place| std::mem::take(&mut slots[place as usize])).collect::<Vec<_>>();
        (part, slots)
    });
    each(with_slots.collect(), |(part, slots)| {
        let _inside = enter();
        let mut scratch = Vec::new();
        part.places.iter().zip(slots).try_for_each(|(&place, slot)| {
            copy(sequences, &mut part.reader, &windows[place as usize], kernel, &mut scratch, slot)
        })
    })
}

/// Does the work of all parts, each on a thread of the pool that this is called in; of several errors, the first part's counts.
fn each<T: Send>(mut parts: Vec<T>, work: impl Fn(T) -> Result<()> + Send + Sync) -> Result<()> {
    // Outside of a pool of our own, rayon would use its global one, in which forked children hang.
    if parts.len() <= 1 {
        return parts.pop().map_or(Ok(()), work);
    }
    let done: Vec<Result<()>> = parts.into_par_iter().with_max_len(1).map(work).collect();
    done.into_iter().collect()
}

/// How many letters a window has: all that were asked for, or those up to the contig's end.
fn letters(sequences: &EdenSequences, reader: &mut Values, window: &Window<'_>) -> Result<u64> {
    let length = value(sequences, reader, window)?.len();
    match length.checked_sub(window.start) {
        Some(left) => Ok(left.min(window.letters)),
        None => Err(Error::Mismatch(format!(
            "{} starts at letter {}, but the contig has {length} letters; the window database was made for a longer one",
            sequences.named(window),
            window.start
        ))),
    }
}

fn value<'r>(sequences: &EdenSequences, reader: &'r mut Values, window: &Window<'_>) -> Result<&'r mut Value> {
    let path = &sequences.paths()[window.database as usize];
    reader.get(window.database, path, window.contig)?.ok_or_else(|| {
        Error::Mismatch(format!("{} is not there: the database has no such contig", sequences.named(window)))
    })
}

fn copy<K: Kernel>(
    sequences: &EdenSequences,
    reader: &mut Values,
    window: &Window<'_>,
    kernel: &K,
    scratch: &mut Vec<u8>,
    out: &mut [K::Out],
) -> Result<()> {
    let path = &sequences.paths()[window.database as usize];
    let value = value(sequences, reader, window)?;
    let width = kernel.width();
    let step = STEP * width;
    let pieces = out.len().div_ceil(step);
    for piece in 0..pieces {
        // Reversed letters fill the output from its end.
        let (low, high) = (piece * step, out.len().min((piece + 1) * step));
        let slot = if window.reverse { out.len() - high..out.len() - low } else { low..high };
        let from = window.start + (piece * STEP) as u64;
        scratch.resize((high - low) / width, 0);
        value.read(from, scratch).map_err(|e| told(e, path))?;
        check(scratch).map_err(|at| {
            let (contig, position, byte) = (window.contig, from + at as u64, scratch[at]);
            let message = format!(
                "contig '{contig}', position {position}: expected a letter (ASCII), found the byte 0x{byte:02x}"
            );
            Error::Format { path: Some(path.clone()), place: Place::default(), message }
        })?;
        scratch.make_ascii_uppercase();
        write(kernel, scratch, window.reverse, &mut out[slot]).map_err(|at| Error::UnknownLetter {
            path: Some(path.clone()),
            table: kernel.name().to_owned(),
            row: window.number as u64,
            id: Some(window.contig.to_owned()),
            position: from + at as u64,
            letter: char::from(if window.reverse { COMPLEMENT[usize::from(scratch[at])] } else { scratch[at] }),
        })?;
    }
    Ok(())
}

/// `Err(k)`: byte `k` is no ASCII, or a NUL, as pages hold that were never written.
fn check(letters: &[u8]) -> Result<(), usize> {
    let odd = |&byte: &u8| byte == 0 || byte > 127;
    // Without a way out of the loop, many bytes are looked at at a time.
    if letters.iter().fold(false, |any, byte| any | odd(byte)) {
        return letters.iter().position(odd).map_or(Ok(()), Err);
    }
    Ok(())
}

fn write<K: Kernel>(kernel: &K, letters: &[u8], reverse: bool, out: &mut [K::Out]) -> Result<(), usize> {
    if reverse {
        return kernel.write_reversed(letters, out);
    }
    let len = letters.len();
    // One line: kernels have a faster way for lines than for letters.
    let line = EvenLines { letters: len, room: len.max(1), line: len.max(1), gap: 0 };
    kernel.write_lines(letters, &line, out).map_err(|(at, _)| at)
}
