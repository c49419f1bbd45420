//! What becomes of a letter on its way into the output.

use super::complement::COMPLEMENT;
use super::letters::EvenLines;
use super::table::TokenTable;
use crate::error::{Error, Result};
use crate::io::shuffle::{BLOCK, Shuffle};

/// Turns letters into output values. `Err(k)`: letter `k` has no value.
pub trait Kernel: Sync {
    /// The output's values.
    type Out: Copy + Send;

    /// How many columns each letter gets; none where it becomes a single value.
    fn columns(&self) -> Option<usize> {
        None
    }

    /// Output values per letter.
    fn width(&self) -> usize {
        self.columns().unwrap_or(1)
    }

    /// Writes `letters` to `out`, which holds `width` values for each.
    fn write(&self, letters: &[u8], out: &mut [Self::Out]) -> Result<(), usize>;

    /// Writes the letters of even lines, which stand in `bytes` with line ends between them, to `out`. `Err((k, b))`:
    /// letter `k`, which is byte `b`, has no value.
    #[inline]
    fn write_lines(&self, bytes: &[u8], lines: &EvenLines, out: &mut [Self::Out]) -> Result<(), (usize, usize)> {
        let width = self.width();
        lines.each(|byte, letter, run| {
            let written = self.write(&bytes[byte..byte + run], &mut out[letter * width..(letter + run) * width]);
            written.map_err(|at| (letter + at, byte + at))
        })
    }

    /// Writes the reverse complement of `letters` to `out`.
    fn write_reversed(&self, letters: &[u8], out: &mut [Self::Out]) -> Result<(), usize>;

    /// The name of the table behind it, for messages.
    fn name(&self) -> &str;
}

/// Writes lines in blocks, by `block` wherever one fits, which is told how many of its letters count: at the end of a line it writes a few values too many, which those
/// of the next line replace. `exactly` writes the rest. Copying so many bytes whatever the line takes a fraction of the
/// time that copying exactly so many does.
#[inline]
fn in_blocks<T>(
    bytes: &[u8],
    lines: &EvenLines,
    out: &mut [T],
    block: impl Fn(&[u8; BLOCK], usize, &mut [T; BLOCK]),
    exactly: impl Fn(&[u8], &mut [T]),
) {
    let line = |byte: usize, letter: usize, run: usize| {
        for at in (0..run).step_by(BLOCK) {
            let (from, to) = (&bytes[byte + at..], &mut out[letter + at..]);
            if let (Some(from), Some(to)) = (from.first_chunk(), to.first_chunk_mut()) {
                block(from, BLOCK.min(run - at), to);
            } else {
                let left = run - at;
                exactly(&from[..left], &mut to[..left]);
                break;
            }
        }
        Ok::<(), std::convert::Infallible>(())
    };
    let Ok(()) = lines.each(line);
}

/// The letters as they are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Raw;

impl Kernel for Raw {
    type Out = u8;

    #[inline]
    fn write(&self, letters: &[u8], out: &mut [u8]) -> Result<(), usize> {
        out.copy_from_slice(letters);
        Ok(())
    }

    #[inline]
    fn write_lines(&self, bytes: &[u8], lines: &EvenLines, out: &mut [u8]) -> Result<(), (usize, usize)> {
        in_blocks(bytes, lines, out, |from, _, to| *to = *from, |from, to| to.copy_from_slice(from));
        Ok(())
    }

    fn write_reversed(&self, letters: &[u8], out: &mut [u8]) -> Result<(), usize> {
        for (value, &letter) in out.iter_mut().rev().zip(letters) {
            *value = COMPLEMENT[usize::from(letter)];
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "letters"
    }
}

/// A number that token ids can be.
pub trait Id: Copy + Send + Sync + Default + From<u8> + 'static {
    /// The id as this kind of number, if it fits.
    fn from_id(id: i32) -> Option<Self>;
    /// The number that it is.
    fn number(self) -> i64;
    /// The kind's name, as numpy has it.
    const NAME: &'static str;
}

macro_rules! id {
    ($($kind:ty),*) => {$(
        impl Id for $kind {
            fn from_id(id: i32) -> Option<Self> {
                id.try_into().ok()
            }
            fn number(self) -> i64 {
                self.into()
            }
            const NAME: &'static str = match size_of::<$kind>() {
                1 => "uint8",
                4 => "int32",
                _ => "int64",
            };
        }
    )*};
}
id!(u8, i32, i64);

/// The letters' token ids.
#[derive(Debug, Clone)]
pub struct Translate<T> {
    forward: [T; 256],
    backward: [T; 256],
    /// `forward` again, if all its ids are bytes.
    shuffle: Option<Box<Shuffle>>,
    /// Letters without an id, where the table has none for unknown ones.
    unknown: Option<Box<[bool; 256]>>,
    name: String,
}

impl<T: Id> Translate<T> {
    /// The ids of `table` as numbers of this kind.
    pub fn new(table: &TokenTable) -> Result<Self> {
        let mut forward = [T::default(); 256];
        let mut unknown = [false; 256];
        for (byte, value) in forward.iter_mut().enumerate() {
            match table.id(byte as u8) {
                Some(id) => *value = fit(id, table)?,
                None => unknown[byte] = true,
            }
        }
        let backward = COMPLEMENT.map(|byte| forward[usize::from(byte)]);
        let any = (b'!'..=b'~').any(|byte| unknown[usize::from(byte)]);
        let unknown = any.then(|| Box::new(unknown));
        let shuffle = bytes_of(table).map(|ids| Box::new(Shuffle::new(ids)));
        Ok(Self { forward, backward, shuffle, unknown, name: table.name().to_owned() })
    }
}

/// The ids of a table as bytes, if they fit.
fn bytes_of(table: &TokenTable) -> Option<[u8; 256]> {
    let mut ids = [0; 256];
    for (byte, id) in ids.iter_mut().enumerate() {
        *id = table.id(byte as u8).unwrap_or(0).try_into().ok()?;
    }
    Some(ids)
}

/// A token id as the number the output wants.
pub fn fit<T: Id>(id: i32, table: &TokenTable) -> Result<T> {
    T::from_id(id).ok_or_else(|| {
        Error::Mismatch(format!(
            "token id {id} of table '{}' does not fit into {}; ask for a wider dtype",
            table.name(),
            T::NAME
        ))
    })
}

impl<T: Id> Translate<T> {
    #[inline]
    fn check(&self, letters: &[u8], reversed: bool) -> Result<(), usize> {
        let Some(unknown) = &self.unknown else { return Ok(()) };
        let seen = |&letter: &u8| unknown[usize::from(if reversed { COMPLEMENT[usize::from(letter)] } else { letter })];
        letters.iter().position(seen).map_or(Ok(()), Err)
    }
}

impl<T: Id> Kernel for Translate<T> {
    type Out = T;

    #[inline]
    fn write(&self, letters: &[u8], out: &mut [T]) -> Result<(), usize> {
        self.check(letters, false)?;
        for (value, &letter) in out.iter_mut().zip(letters) {
            *value = self.forward[usize::from(letter)];
        }
        Ok(())
    }

    #[inline]
    fn write_lines(&self, bytes: &[u8], lines: &EvenLines, out: &mut [T]) -> Result<(), (usize, usize)> {
        if self.unknown.is_some() {
            lines.each(|byte, letter, run| {
                self.check(&bytes[byte..byte + run], false).map_err(|at| (letter + at, byte + at))
            })?;
        }
        let one = |letter: &u8| self.forward[usize::from(*letter)];
        let exactly = |from: &[u8], to: &mut [T]| to.iter_mut().zip(from).for_each(|(to, from)| *to = one(from));
        let block = |from: &[u8; BLOCK], letters: usize, to: &mut [T; BLOCK]| match &self.shuffle {
            Some(shuffle) => {
                let mut ids = [0; BLOCK];
                shuffle.apply(from, letters, &mut ids);
                *to = ids.map(T::from);
            }
            None => *to = from.map(|letter| one(&letter)),
        };
        in_blocks(bytes, lines, out, block, exactly);
        Ok(())
    }

    fn write_reversed(&self, letters: &[u8], out: &mut [T]) -> Result<(), usize> {
        self.check(letters, true)?;
        for (value, &letter) in out.iter_mut().rev().zip(letters) {
            *value = self.backward[usize::from(letter)];
        }
        Ok(())
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// One row per letter: 1 at the letter's place in the alphabet, 0 elsewhere.
#[derive(Debug, Clone)]
pub struct OneHot<T> {
    /// The rows of all 256 bytes, one after another.
    rows: Vec<T>,
    width: usize,
}

impl<T: Copy> OneHot<T> {
    /// An encoding of the letters of `alphabet`, in both cases. Other letters get a row of `unknown`.
    ///
    /// ```
    /// use seekset_core::gather::{Kernel, OneHot};
    /// let kernel = OneHot::new("ACGT", 0.0, 1.0, 0.25)?;
    /// let mut rows = [0.0; 2 * 4];
    /// kernel.write(b"gN", &mut rows).expect("every letter has a row");
    /// assert_eq!(rows, [0.0, 0.0, 1.0, 0.0, 0.25, 0.25, 0.25, 0.25]);
    /// # Ok::<(), seekset_core::Error>(())
    /// ```
    pub fn new(alphabet: &str, zero: T, one: T, unknown: T) -> Result<Self> {
        let letters = alphabet.as_bytes();
        let distinct = letters.iter().enumerate().all(|(k, a)| !letters[..k].iter().any(|b| a.eq_ignore_ascii_case(b)));
        if letters.is_empty() || !distinct || !letters.iter().all(u8::is_ascii_graphic) {
            return Err(Error::Mismatch(format!(
                "one_hot must be different ASCII letters, such as \"ACGT\", not \"{alphabet}\""
            )));
        }
        let width = letters.len();
        let mut rows = vec![unknown; 256 * width];
        for byte in 0..=255_u8 {
            if let Some(place) = letters.iter().position(|letter| letter.eq_ignore_ascii_case(&byte)) {
                let row = &mut rows[usize::from(byte) * width..][..width];
                row.fill(zero);
                row[place] = one;
            }
        }
        Ok(Self { rows, width })
    }

    fn row(&self, letter: u8) -> &[T] {
        &self.rows[usize::from(letter) * self.width..][..self.width]
    }
}

impl<T: Copy + Send + Sync> Kernel for OneHot<T> {
    type Out = T;

    fn columns(&self) -> Option<usize> {
        Some(self.width)
    }

    fn write(&self, letters: &[u8], out: &mut [T]) -> Result<(), usize> {
        for (row, &letter) in out.chunks_exact_mut(self.width).zip(letters) {
            row.copy_from_slice(self.row(letter));
        }
        Ok(())
    }

    fn write_reversed(&self, letters: &[u8], out: &mut [T]) -> Result<(), usize> {
        for (row, &letter) in out.chunks_exact_mut(self.width).rev().zip(letters) {
            row.copy_from_slice(self.row(COMPLEMENT[usize::from(letter)]));
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "one_hot"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both<K: Kernel<Out: Default>>(kernel: &K, letters: &[u8]) -> [Result<Vec<K::Out>, usize>; 2] {
        let empty = || vec![K::Out::default(); letters.len() * kernel.width()];
        let (mut forward, mut reversed) = (empty(), empty());
        let results = [kernel.write(letters, &mut forward), kernel.write_reversed(letters, &mut reversed)];
        let [first, second] = results;
        [first.map(|()| forward), second.map(|()| reversed)]
    }

    #[test]
    fn letters_are_copied_or_complemented_from_the_end() {
        assert_eq!(both(&Raw, b"AACgn-"), [Ok(b"AACgn-".to_vec()), Ok(b"-ncGTT".to_vec())]);
        assert_eq!(both(&Raw, b""), [Ok(vec![]), Ok(vec![])]);
    }

    #[test]
    fn ids_are_those_of_the_table_in_every_width() {
        let table = TokenTable::new("wide", [(b'A', 1), (b'T', 200), (b'C', 7)]).unwrap();
        assert_eq!(both(&Translate::<u8>::new(&table).unwrap(), b"AT"), [Ok(vec![1, 200]), Ok(vec![1, 200])]);
        assert_eq!(both(&Translate::<i64>::new(&table).unwrap(), b"AAT"), [Ok(vec![1, 1, 200]), Ok(vec![1, 200, 200])]);
        let table = TokenTable::new("wider", [(b'A', 256)]).unwrap();
        let message = Translate::<u8>::new(&table).unwrap_err().to_string();
        assert_eq!(message, "token id 256 of table 'wider' does not fit into uint8; ask for a wider dtype");
        assert!(Translate::<i32>::new(&table).is_ok());
    }

    #[test]
    fn the_first_letter_without_an_id_is_told_by_its_place() {
        let table = TokenTable::new("few", [(b'A', 1), (b'T', 2), (b'C', 3)]).unwrap();
        let kernel = Translate::<i32>::new(&table).unwrap();
        // 'C' is known but its complement is not; 'G' is the other way round.
        assert_eq!(both(&kernel, b"ATCG"), [Err(3), Err(2)]);
        assert_eq!(both(&kernel, b"AG"), [Err(1), Ok(vec![3, 2])]);
        let kernel = Translate::<i32>::new(&table.with_specials([("unk".to_owned(), 9)])).unwrap();
        assert_eq!(both(&kernel, b"CG"), [Ok(vec![3, 9]), Ok(vec![3, 9])]);
    }

    #[test]
    fn one_hot_rows_stand_for_letters_of_both_cases() {
        let kernel = OneHot::new("AC", 0, 1, 5).unwrap();
        assert_eq!(both(&kernel, b"Acx"), [Ok(vec![1, 0, 0, 1, 5, 5]), Ok(vec![5, 5, 5, 5, 5, 5])]);
        assert_eq!(both(&kernel, b"TG"), [Ok(vec![5, 5, 5, 5]), Ok(vec![0, 1, 1, 0])]);
        for alphabet in ["", "ACA", "Aa", "A C", "\u{e9}"] {
            assert!(OneHot::new(alphabet, 0, 1, 0).is_err(), "{alphabet:?}");
        }
    }
}
