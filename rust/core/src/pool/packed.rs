//! Rows of fixed-shape numbers in as few bytes as hold them exactly: what was a third of a megabyte of ones and zeros as
//! floats is bits.
//!
//! A packed row has, for each field, a byte that says how its values are written, and these. The shortest way is taken,
//! row by row:
//!
//! | way | values | bytes, of `n` values of `w` bytes |
//! |---|---|---|
//! | zero | nothing but zeros | 0 |
//! | bits | zeros and ones | n / 8 |
//! | few | a count, then place (two bytes) and value of what is not zero | 1 + (2 + w) each |
//! | sparse | a bit for each, then what is not zero | n / 8 + w each |
//! | whole | whole numbers from 0 to 255 | n |
//! | low, high | the lower or upper bytes of each, where the others are zero in all | n × bytes |
//! | plain | as they are | n × w |
//!
//! Values are compared as bits: a negative zero, or a NaN with its payload, comes back as it was.

use crate::error::{Error, Result};

/// A field of a row: so many values of so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Bytes of a value: 1, 2, 4 or 8.
    pub width: usize,
    /// Values in a row.
    pub values: usize,
    /// Whether they are floating point numbers.
    pub float: bool,
}

impl Field {
    /// A field, if its values are of a size that numbers have.
    pub fn new(width: usize, values: usize, float: bool) -> Result<Self> {
        let sound = matches!((width, float), (1, false) | (2 | 4 | 8, _)) && values < 1 << 32;
        let refuse = || Error::Mismatch(format!("a field can't have {values} values of {width} bytes"));
        if sound { Ok(Self { width, values, float }) } else { Err(refuse()) }
    }

    /// Bytes of a row's values as they are.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.width * self.values
    }

    /// Bytes of the values of so many rows, unless they are too many to be counted.
    #[must_use]
    pub fn bytes_of(&self, rows: usize) -> Option<usize> {
        self.bytes().checked_mul(rows)
    }

    /// The bits of a one.
    fn one(&self) -> u64 {
        match (self.float, self.width) {
            (false, _) => 1,
            (true, 2) => 0x3c00,
            (true, 4) => 1.0_f32.to_bits().into(),
            (true, _) => 1.0_f64.to_bits(),
        }
    }
}

const ZERO: u8 = 0;
const BITS: u8 = 1;
const FEW: u8 = 2;
const SPARSE: u8 = 3;
const WHOLE: u8 = 4;
const PLAIN: u8 = 5;
/// And with it, how many bytes of each value are kept.
const LOW: u8 = 0x10;
const HIGH: u8 = 0x20;
const KEPT: u8 = 0x0f;

/// Packs the values of one field of one row, and appends them.
pub fn pack(field: Field, values: &[u8], out: &mut Vec<u8>) {
    match field.width {
        1 => pack_wide::<1>(field, values, out),
        2 => pack_wide::<2>(field, values, out),
        4 => pack_wide::<4>(field, values, out),
        _ => pack_wide::<8>(field, values, out),
    }
}

/// What is to be known of values before a way is chosen.
struct Survey {
    nonzero: usize,
    /// Bits that any value has.
    bits: u64,
    ones: bool,
    whole: bool,
}

fn bits_of<const W: usize>(value: [u8; W]) -> u64 {
    let mut wide = [0; 8];
    wide[..W].copy_from_slice(&value);
    u64::from_le_bytes(wide)
}

/// The whole number from 0 to 255 that a value is, if it is one.
fn whole(field: Field, bits: u64) -> Option<u8> {
    match (field.float, field.width) {
        (false, _) => u8::try_from(bits).ok(),
        (true, 4) => {
            let byte = f32::from_bits(bits as u32) as u8;
            (u64::from(f32::from(byte).to_bits()) == bits).then_some(byte)
        }
        (true, 8) => {
            let byte = f64::from_bits(bits) as u8;
            (f64::from(byte).to_bits() == bits).then_some(byte)
        }
        // Halves are left to the other ways: they have no numbers in Rust yet.
        (true, _) => (bits == 0).then_some(0),
    }
}

fn survey<const W: usize>(field: Field, values: &[[u8; W]]) -> Survey {
    let one = field.one();
    let (mut nonzero, mut bits, mut others) = (0, 0, 0_usize);
    for &value in values {
        let value = bits_of(value);
        nonzero += usize::from(value != 0);
        others += usize::from(value != 0 && value != one);
        bits |= value;
    }
    let whole = others > 0 && values.iter().all(|&value| whole(field, bits_of(value)).is_some());
    Survey { nonzero, bits, ones: others == 0, whole }
}

/// How many bytes of each value are to be kept, and whether they are the upper ones.
fn kept(field: Field, bits: u64) -> (usize, bool) {
    let low = (u64::BITS - bits.leading_zeros()).div_ceil(8) as usize;
    let high = field.width - field.width.min((bits.trailing_zeros() / 8) as usize);
    if high < low { (high, true) } else { (low, false) }
}

fn pack_wide<const W: usize>(field: Field, values: &[u8], out: &mut Vec<u8>) {
    let values = values.as_chunks::<W>().0;
    let Survey { nonzero, bits, ones, whole: is_whole } = survey(field, values);
    let bitmap = values.len().div_ceil(8);
    let few = nonzero < 256 && values.len() <= 1 << 16;
    let (keep, upper) = kept(field, bits);
    // Of equals the first is taken, which is the quickest to unpack.
    let mut ways = [
        (if nonzero == 0 { 0 } else { usize::MAX }, ZERO),
        (if ones { bitmap } else { usize::MAX }, BITS),
        (if is_whole { values.len() } else { usize::MAX }, WHOLE),
        (values.len() * W, PLAIN),
        (values.len() * keep, if upper { HIGH } else { LOW } | keep as u8),
        (if few { 1 + nonzero * (2 + W) } else { usize::MAX }, FEW),
        (bitmap + nonzero * W, SPARSE),
    ];
    ways.sort_by_key(|&(bytes, _)| bytes);
    let way = ways[0].1;
    out.push(way);
    match way {
        ZERO => {}
        BITS => pack_bits(values, out),
        WHOLE => out.extend(values.iter().map(|&value| whole(field, bits_of(value)).unwrap_or(0))),
        PLAIN => out.extend(values.as_flattened()),
        FEW => {
            out.push(nonzero as u8);
            for (place, value) in values.iter().enumerate().filter(|(_, value)| **value != [0; W]) {
                out.extend((place as u16).to_le_bytes());
                out.extend(value);
            }
        }
        SPARSE => {
            pack_bits(values, out);
            values.iter().filter(|value| **value != [0; W]).for_each(|value| out.extend(value));
        }
        _ => {
            let part = if upper { W - keep..W } else { 0..keep };
            for value in values {
                out.extend(&value[part.clone()]);
            }
        }
    }
}

/// A bit for each value that is not zero.
fn pack_bits<const W: usize>(values: &[[u8; W]], out: &mut Vec<u8>) {
    let byte = |values: &[[u8; W]]| {
        values.iter().enumerate().fold(0, |byte, (bit, value)| byte | u8::from(*value != [0; W]) << bit)
    };
    out.extend(values.chunks(8).map(byte));
}

/// Unpacks a row into the values of its fields, of which `out` gives the room for each.
pub fn unpack<'o>(fields: &[Field], mut row: &[u8], out: impl Iterator<Item = &'o mut [u8]>) -> Result<()> {
    for (field, out) in fields.iter().zip(out) {
        let unpacked = match field.width {
            1 => unpack_wide::<1>(*field, &mut row, out),
            2 => unpack_wide::<2>(*field, &mut row, out),
            4 => unpack_wide::<4>(*field, &mut row, out),
            _ => unpack_wide::<8>(*field, &mut row, out),
        };
        unpacked.ok_or_else(|| damaged(*field))?;
    }
    if row.is_empty() { Ok(()) } else { Err(damaged(fields[fields.len() - 1])) }
}

fn damaged(field: Field) -> Error {
    let Field { width, values, .. } = field;
    Error::Mismatch(format!("a packed row is damaged: it has no {values} values of {width} bytes where they should be"))
}

fn take<'r>(row: &mut &'r [u8], count: usize) -> Option<&'r [u8]> {
    let (taken, rest) = row.split_at_checked(count)?;
    *row = rest;
    Some(taken)
}

fn unpack_wide<const W: usize>(field: Field, row: &mut &[u8], out: &mut [u8]) -> Option<()> {
    let out = out.as_chunks_mut::<W>().0;
    let way = take(row, 1)?[0];
    match way {
        ZERO => out.fill([0; W]),
        BITS => unpack_bits(take(row, out.len().div_ceil(8))?, field.one(), out),
        WHOLE => {
            let bytes = take(row, out.len())?;
            out.iter_mut().zip(bytes).for_each(|(value, &byte)| *value = from_whole(field, byte));
        }
        PLAIN => {
            let plain = take(row, out.len() * W)?;
            out.as_flattened_mut().copy_from_slice(plain);
        }
        FEW => {
            out.fill([0; W]);
            let count = take(row, 1)?[0];
            for _ in 0..count {
                let place = u16::from_le_bytes(take(row, 2)?.try_into().ok()?);
                *out.get_mut(usize::from(place))? = take(row, W)?.try_into().ok()?;
            }
        }
        SPARSE => unpack_sparse(row, out)?,
        _ => {
            let keep = usize::from(way & KEPT);
            let part = match way & !KEPT {
                LOW if keep <= W => 0..keep,
                HIGH if keep <= W => W - keep..W,
                _ => return None,
            };
            out.fill([0; W]);
            let kept = take(row, out.len() * keep)?;
            if keep > 0 {
                out.iter_mut()
                    .zip(kept.chunks_exact(keep))
                    .for_each(|(value, kept)| value[part.clone()].copy_from_slice(kept));
            }
        }
    }
    Some(())
}

fn from_whole<const W: usize>(field: Field, byte: u8) -> [u8; W] {
    let bits = match (field.float, field.width) {
        (true, 4) => f32::from(byte).to_bits().into(),
        (true, 8) => f64::from(byte).to_bits(),
        _ => byte.into(),
    };
    narrow(bits)
}

fn narrow<const W: usize>(bits: u64) -> [u8; W] {
    let wide = bits.to_le_bytes();
    std::array::from_fn(|at| wide[at])
}

fn unpack_bits<const W: usize>(bits: &[u8], one: u64, out: &mut [[u8; W]]) {
    // Without a branch, and eight values at a time: this is where most of a board's time goes.
    let value = |byte: u8, bit: usize| narrow::<W>(one & u64::from(byte >> bit & 1).wrapping_neg());
    let (eights, rest) = out.as_chunks_mut::<8>();
    for (values, &byte) in eights.iter_mut().zip(bits) {
        *values = std::array::from_fn(|bit| value(byte, bit));
    }
    if let Some(&byte) = bits.get(eights.len()) {
        rest.iter_mut().enumerate().for_each(|(bit, out)| *out = value(byte, bit));
    }
}

fn unpack_sparse<const W: usize>(row: &mut &[u8], out: &mut [[u8; W]]) -> Option<()> {
    let bitmap = take(row, out.len().div_ceil(8))?;
    out.fill([0; W]);
    for (values, &byte) in out.chunks_mut(8).zip(bitmap) {
        let mut left = byte;
        while left != 0 {
            let value = values.get_mut(left.trailing_zeros() as usize)?;
            *value = take(row, W)?.try_into().ok()?;
            left &= left - 1;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(field: Field, values: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        pack(field, values, &mut out);
        out
    }

    fn unpacked(fields: &[Field], row: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut out: Vec<Vec<u8>> = fields.iter().map(|field| vec![0xee; field.bytes()]).collect();
        unpack(fields, row, out.iter_mut().map(Vec::as_mut_slice))?;
        Ok(out)
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// The way and the bytes of a row of floats.
    fn way(values: &[f32]) -> (u8, usize) {
        let field = Field::new(4, values.len(), true).unwrap();
        let row = packed(field, &floats(values));
        assert_eq!(unpacked(&[field], &row).unwrap()[0], floats(values));
        (row[0], row.len())
    }

    #[test]
    fn the_shortest_way_is_taken() {
        let mut board = vec![0.0; 507];
        assert_eq!(way(&board), (ZERO, 1));
        (0..507).step_by(3).for_each(|k| board[k] = 1.0);
        assert_eq!(way(&board), (BITS, 1 + 64));
        board[0] = 255.0;
        assert_eq!(way(&board), (WHOLE, 1 + 507));
        let mut policy = vec![0.0; 169];
        policy[100] = 0.3;
        assert_eq!(way(&policy), (FEW, 1 + 1 + 6));
        (0..169).step_by(4).for_each(|k| policy[k] = 0.3);
        assert_eq!(way(&policy), (SPARSE, 1 + 22 + 4 * 43));
        policy.fill(0.3);
        assert_eq!(way(&policy), (PLAIN, 1 + 169 * 4));
        policy.fill(0.375);
        assert_eq!(way(&policy), (HIGH | 2, 1 + 169 * 2));
        assert_eq!(way(&[-0.0]), (HIGH | 1, 2));
        assert_eq!(way(&[f32::NAN, f32::from_bits(0x7fc0_0001), 1e-42, -1.0]).0, PLAIN);
    }

    #[test]
    fn whole_numbers_are_low_bytes() {
        let field = Field::new(8, 3, false).unwrap();
        let values: Vec<u8> = [1_i64, 300, 70_000].iter().flat_map(|value| value.to_le_bytes()).collect();
        let row = packed(field, &values);
        assert_eq!((row[0], row.len()), (LOW | 3, 10));
        assert_eq!(unpacked(&[field], &row).unwrap()[0], values);
    }

    fn field() -> impl Strategy<Value = Field> {
        let kinds =
            prop::sample::select(vec![(1, false), (2, false), (2, true), (4, false), (4, true), (8, false), (8, true)]);
        (kinds, 0_usize..40).prop_map(|((width, float), values)| Field::new(width, values, float).unwrap())
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back(field in field(), noise in prop::collection::vec(any::<u8>(), 320), sparse in any::<bool>(), small in any::<bool>()) {
            // Of every value, or of every ninth; all of its bytes, or the lowest.
            let keep = |at: usize| {
                (!sparse || (at / field.width).is_multiple_of(9)) && (!small || at.is_multiple_of(field.width))
            };
            let values: Vec<u8> = (0..field.bytes()).map(|at| if keep(at) { noise[at] } else { 0 }).collect();
            let row = packed(field, &values);
            prop_assert!(row.len() <= 1 + field.bytes());
            prop_assert_eq!(&unpacked(&[field], &row).unwrap()[0], &values);
        }

        #[test]
        fn ones_and_small_numbers_come_back(values in prop::collection::vec(prop::sample::select(vec![0.0_f32, 1.0, 2.0, 254.5, 255.0, 256.0, -1.0, 0.5]), 0..50), ones in any::<bool>()) {
            let values: Vec<f32> = if ones { values.iter().map(|value| value.clamp(0.0, 1.0).round()).collect() } else { values };
            way(&values);
        }

        #[test]
        fn damaged_rows_are_errors(fields in prop::collection::vec(field(), 1..4), row in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = unpacked(&fields, &row);
        }
    }

    #[test]
    fn rows_that_are_cut_or_too_long_are_errors() {
        let field = Field::new(4, 3, true).unwrap();
        let row = packed(field, &floats(&[0.1, 0.2, 0.3]));
        for cut in 0..row.len() {
            assert!(unpacked(&[field], &row[..cut]).is_err());
        }
        let longer: Vec<u8> = row.iter().copied().chain([0]).collect();
        assert!(unpacked(&[field], &longer).unwrap_err().to_string().contains("damaged"));
        assert!(unpacked(&[field], &[LOW | 9]).is_err());
    }

    #[test]
    fn fields_of_odd_sizes_are_refused() {
        for (width, float) in [(0, false), (3, false), (16, true), (1, true)] {
            assert!(Field::new(width, 1, float).is_err());
        }
    }
}
