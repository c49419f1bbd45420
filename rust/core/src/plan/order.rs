//! Many requests in the order in which they lie in the file.

use super::batch::Request;

/// Below this number, comparing is as quick as counting.
const FEW: usize = 1024;

/// Bits of a row that one pass sorts by.
const DIGIT: u32 = 11;

/// A request by its place among the requests, with the row it asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Key {
    pub row: u64,
    pub request: u64,
}

/// The requests by row, then start. Rows are in file order.
pub(super) fn by_place(requests: &[Request]) -> Vec<Key> {
    let mut keys: Vec<Key> =
        requests.iter().zip(0..).map(|(wanted, request)| Key { row: wanted.row, request }).collect();
    if !keys.is_sorted_by_key(|key| key.row) {
        if keys.len() <= FEW {
            keys.sort_by_key(|key| key.row);
        } else {
            sort_by_row(&mut keys);
        }
    }
    let start = |key: &Key| requests[key.request as usize].start;
    for same in keys.chunk_by_mut(|a, b| a.row == b.row).filter(|same| same.len() > 1) {
        same.sort_by_key(start);
    }
    keys
}

/// Sorts by counting, the last digits first: a batch of rows takes a millisecond where comparing takes several.
fn sort_by_row(keys: &mut Vec<Key>) {
    let largest = keys.iter().map(|key| key.row).max().unwrap_or(0);
    let mut sorted = vec![Key::default(); keys.len()];
    for shift in (0..u64::BITS - largest.leading_zeros()).step_by(DIGIT as usize) {
        let digit = |key: &Key| (key.row >> shift) as usize & ((1 << DIGIT) - 1);
        let mut starts = [0_usize; 1 << DIGIT];
        for key in &*keys {
            starts[digit(key)] += 1;
        }
        let mut before = 0;
        for start in &mut starts {
            before += std::mem::replace(start, before);
        }
        for key in &*keys {
            let start = &mut starts[digit(key)];
            sorted[*start] = *key;
            *start += 1;
        }
        std::mem::swap(keys, &mut sorted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(wanted: &[(u64, u64)]) -> Vec<usize> {
        let request = |&(row, start): &(u64, u64)| Request { start, ..Request::whole(row) };
        let requests: Vec<Request> = wanted.iter().map(request).collect();
        by_place(&requests).iter().map(|key| key.request as usize).collect()
    }

    #[test]
    fn requests_come_by_row_then_start_then_as_asked() {
        for (wanted, expected) in [
            (&[][..], &[][..]),
            (&[(7, 0)], &[0]),
            (&[(1, 0), (1, 0), (2, 0)], &[0, 1, 2]),
            (&[(2, 5), (1, 9), (2, 4), (1, 9), (0, 0)], &[4, 1, 3, 2, 0]),
            (&[(u64::MAX, 0), (0, 0), (1 << 40, 1), (1 << 40, 0)], &[1, 3, 2, 0]),
        ] {
            assert_eq!(order(wanted), expected, "{wanted:?}");
        }
    }

    #[test]
    fn counting_and_comparing_agree() {
        for bits in [1, 11, 12, 23, 64] {
            let wanted: Vec<(u64, u64)> = (0..3 * FEW as u64)
                .map(|k| xxhash_rust::xxh3::xxh3_64(&k.to_le_bytes()))
                .map(|hash| (hash >> (64 - bits), hash % 3))
                .collect();
            let mut expected: Vec<usize> = (0..wanted.len()).collect();
            expected.sort_by_key(|&k| wanted[k]);
            assert_eq!(order(&wanted), expected, "{bits} bits");
        }
    }
}
