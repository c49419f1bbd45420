//! Where each request's letters go in an output, and what stands around them.

use crate::error::{Error, Result};

/// What is put before and after the letters of every request.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a, T> {
    /// Before.
    pub prefix: &'a [T],
    /// After.
    pub suffix: &'a [T],
}

/// Where each of the requests starts in a ragged output, and where the last one ends.
#[must_use]
pub fn offsets(letters: &[u64], ends: usize) -> Vec<i64> {
    let mut at = 0;
    std::iter::once(0)
        .chain(letters.iter().map(|&n| {
            at += n as i64 + ends as i64;
            at
        }))
        .collect()
}

/// Cuts `out` into one slot after another, each with its ends written.
pub fn ragged<'a, T: Copy>(
    out: &'a mut [T],
    letters: &[u64],
    width: usize,
    ends: Ends<'_, T>,
) -> Result<Vec<&'a mut [T]>> {
    slots(out, letters, width, |_| ends)
}

/// The same, where each slot has ends of its own.
pub fn slots<'a, 'e, T: Copy + 'e>(
    mut out: &'a mut [T],
    letters: &[u64],
    width: usize,
    ends: impl Fn(usize) -> Ends<'e, T>,
) -> Result<Vec<&'a mut [T]>> {
    let around = |row: usize| ends(row).prefix.len() + ends(row).suffix.len();
    let needed: u64 = letters.iter().enumerate().map(|(row, &n)| n * width as u64 + around(row) as u64).sum();
    if needed != out.len() as u64 {
        return Err(Error::Mismatch(format!("the output holds {} values, but the rows need {needed}", out.len())));
    }
    Ok(letters
        .iter()
        .enumerate()
        .map(|(row, &n)| {
            let (slot, rest) = std::mem::take(&mut out).split_at_mut(n as usize * width + around(row));
            out = rest;
            write_ends(slot, ends(row))
        })
        .collect())
}

/// The shape of a rectangular output.
#[derive(Debug, Clone, Copy)]
pub struct Rectangle<T> {
    /// Letters (and ends) per row.
    pub columns: usize,
    /// Values per letter.
    pub width: usize,
    /// What a row is filled with after its letters.
    pub pad: T,
}

/// Takes the rows of a rectangular `out`, with ends written and the rest of each row filled.
pub fn padded<'a, T: Copy>(
    out: &'a mut [T],
    letters: &[u64],
    shape: Rectangle<T>,
    ends: Ends<'_, T>,
) -> Result<Vec<&'a mut [T]>> {
    rows(out, letters, shape, |_| ends)
}

/// The same, where each row has ends of its own.
pub fn rows<'a, 'e, T: Copy + 'e>(
    out: &'a mut [T],
    letters: &[u64],
    shape: Rectangle<T>,
    ends: impl Fn(usize) -> Ends<'e, T>,
) -> Result<Vec<&'a mut [T]>> {
    let Rectangle { columns, width, pad } = shape;
    let around = |row: usize| ends(row).prefix.len() + ends(row).suffix.len();
    let needs = |row: usize, n: u64| n + around(row) as u64;
    if let Some((row, &n)) = letters.iter().enumerate().find(|&(row, &n)| needs(row, n) > columns as u64) {
        let needed = needs(row, n);
        return Err(Error::Mismatch(format!("window {row} needs {needed} columns, but the output has {columns}")));
    }
    let needed = columns.checked_mul(width).and_then(|row| row.checked_mul(letters.len()));
    if needed != Some(out.len()) {
        let (len, rows) = (out.len(), letters.len());
        return Err(Error::Mismatch(format!(
            "the output holds {len} values, but {rows} windows of {columns} were asked for"
        )));
    }
    if columns == 0 {
        return Ok(letters.iter().map(|_| <&mut [T]>::default()).collect());
    }
    Ok(out
        .chunks_exact_mut(columns * width)
        .zip(letters)
        .enumerate()
        .map(|(row, (values, &n))| {
            let (slot, rest) = values.split_at_mut(n as usize * width + around(row));
            rest.fill(pad);
            write_ends(slot, ends(row))
        })
        .collect())
}

fn write_ends<'a, T: Copy>(slot: &'a mut [T], ends: Ends<'_, T>) -> &'a mut [T] {
    let (prefix, rest) = slot.split_at_mut(ends.prefix.len());
    let (letters, suffix) = rest.split_at_mut(rest.len() - ends.suffix.len());
    prefix.copy_from_slice(ends.prefix);
    suffix.copy_from_slice(ends.suffix);
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Ends<'_, u8> = Ends { prefix: &[], suffix: &[] };

    #[test]
    fn offsets_add_letters_and_ends() {
        assert_eq!(offsets(&[], 2), [0]);
        assert_eq!(offsets(&[3, 0, 5], 0), [0, 3, 3, 8]);
        assert_eq!(offsets(&[3, 0, 5], 2), [0, 5, 7, 14]);
    }

    #[test]
    fn ragged_slots_lie_between_their_ends() {
        let mut out = [9; 6];
        let slots = ragged(&mut out, &[2, 0, 1], 1, Ends { prefix: &[1], suffix: &[] }).unwrap();
        assert_eq!(slots.iter().map(|slot| slot.len()).collect::<Vec<_>>(), [2, 0, 1]);
        slots.into_iter().flatten().for_each(|value| *value = 5);
        assert_eq!(out, [1, 5, 5, 1, 1, 5]);
    }

    #[test]
    fn an_output_of_another_size_is_refused() {
        let mut out = [0; 6];
        assert!(ragged(&mut out, &[2, 3], 1, NONE).is_err());
        assert!(ragged(&mut out, &[2, 1], 2, NONE).is_ok());
        let shape = |columns| Rectangle { columns, width: 1, pad: 0 };
        assert!(padded(&mut out, &[2, 3], shape(3), NONE).is_ok());
        assert!(padded(&mut out, &[2, 3], shape(4), NONE).is_err());
        assert!(padded(&mut out, &[2, 4], shape(3), NONE).is_err());
        // Twice as many columns are more than can be counted, not six.
        assert!(padded(&mut out, &[2, 3], shape((1 << 63) + 3), NONE).is_err());
        assert!(padded(&mut out, &[2, 3], shape(3), Ends { prefix: &[1], suffix: &[] }).is_err());
    }

    #[test]
    fn rows_of_a_rectangle_are_filled_to_their_end() {
        let mut out = [9; 12];
        let shape = Rectangle { columns: 3, width: 2, pad: 7 };
        let slots = padded(&mut out, &[1, 3], shape, NONE).unwrap();
        slots.into_iter().flatten().for_each(|value| *value = 5);
        assert_eq!(out, [5, 5, 7, 7, 7, 7, 5, 5, 5, 5, 5, 5]);
        let empty = padded(&mut [], &[0, 0], Rectangle { columns: 0, width: 1, pad: 0 }, NONE).unwrap();
        assert_eq!(empty.len(), 2);
    }

    #[test]
    fn rows_may_have_ends_of_their_own() {
        let mut out = [9; 8];
        let ends = |row| Ends { prefix: [&[1][..], &[2, 3]][row], suffix: [&[4][..], &[]][row] };
        let shape = Rectangle { columns: 4, width: 1, pad: 7 };
        let slots = rows(&mut out, &[1, 2], shape, ends).unwrap();
        slots.into_iter().flatten().for_each(|value| *value = 5);
        assert_eq!(out, [1, 5, 4, 7, 2, 3, 5, 5]);
        let message = rows(&mut out, &[1, 3], shape, ends).unwrap_err().to_string();
        assert_eq!(message, "window 1 needs 5 columns, but the output has 4");
    }
}
