//! Many windows at once, in the order in which they lie in the file.

use rayon::prelude::*;

use super::address::Address;
use crate::error::{Error, Result};
use crate::index::sidx::Sidx;
use crate::io::threads;

/// Windows longer than this are cut into parts that several threads can work on.
const PART: u64 = 1 << 20;

/// Requests below this number are planned on the calling thread.
const FEW: usize = 2048;

/// Letters `start..start + letters` of a record; fewer where the record ends before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The record's row.
    pub row: u64,
    /// The first letter.
    pub start: u64,
    /// The most letters to take.
    pub letters: u64,
    /// Whether to give the reverse complement of the window.
    pub reverse: bool,
}

impl Request {
    /// All letters of a record.
    #[must_use]
    pub fn whole(row: u64) -> Self {
        Self { row, start: 0, letters: u64::MAX, reverse: false }
    }
}

/// A request, or a part of a long one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The record's row.
    pub row: u64,
    /// The first letter, counted in the record.
    pub start: u64,
    /// Which request it belongs to.
    pub request: usize,
    /// How many letters it has.
    pub letters: u32,
    /// Whether it is to be given as its reverse complement.
    pub reverse: bool,
}

/// Requests sorted by where they lie, with the number of letters of each known.
///
/// Addresses are worked out one by one as they are needed ([`Batch::address`]): a batch costs little more than its list.
#[derive(Debug)]
pub struct Batch<'a> {
    index: &'a Sidx,
    parts: Vec<Part>,
    letters: Vec<u64>,
}

impl<'a> Batch<'a> {
    /// Plans requests. The order asked for stays the order of the results.
    pub fn plan(index: &'a Sidx, requests: &[Request]) -> Result<Self> {
        let letters = letters(index, requests)?;
        let mut parts = Vec::with_capacity(requests.len());
        for (request, (wanted, &letters)) in requests.iter().zip(&letters).enumerate() {
            let &Request { row, start, reverse, .. } = wanted;
            let part = |done: u64| {
                let letters = PART.min(letters - done) as u32;
                Part { row, start: start + done, request, letters, reverse }
            };
            parts.push(part(0));
            parts.extend((PART..letters).step_by(PART as usize).map(part));
        }
        // Rows are in file order.
        if parts.len() <= FEW {
            parts.sort_unstable();
        } else {
            threads::in_pool(|| parts.par_sort_unstable())?;
        }
        Ok(Self { index, parts, letters })
    }

    /// Letters of each request, in the order asked.
    #[must_use]
    pub fn letters(&self) -> &[u64] {
        &self.letters
    }

    /// All parts, in the order of the file. Parts of one request come in order.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Says that the address of a part will be wanted shortly.
    #[inline]
    pub fn prefetch(&self, part: &Part) {
        self.index.prefetch(part.row);
    }

    /// Where a part lies.
    #[inline]
    pub fn address(&self, part: &Part) -> Result<Address> {
        let entry = self.index.entry(part.row)?;
        Address::window(self.index, part.row, &entry, part.start, part.letters.into())
    }
}

/// How many letters each request has.
fn letters(index: &Sidx, requests: &[Request]) -> Result<Vec<u64>> {
    let lengths = index.lengths();
    let one = |request: &Request| {
        // Addresses compare the checksum of a length; until then, a damaged one must not cost more memory than the file.
        let length = lengths.get(request.row as usize).copied().filter(|&length| length <= index.data_size());
        length.and_then(|length| length.checked_sub(request.start)).map_or(u64::MAX, |left| left.min(request.letters))
    };
    let letters: Vec<u64> = if requests.len() <= FEW {
        requests.iter().map(one).collect()
    } else {
        threads::in_pool(|| requests.par_iter().map(one).collect())?
    };
    match letters.iter().position(|&letters| letters == u64::MAX) {
        None => Ok(letters),
        Some(wrong) => Err(out_of_reach(index, requests[wrong])),
    }
}

#[cold]
fn out_of_reach(index: &Sidx, request: Request) -> Error {
    let Request { row, start, .. } = request;
    match index.entry(row) {
        Err(error) => error,
        Ok(entry) => {
            let length = entry.length;
            Error::Mismatch(format!("a window starts at letter {start} of row {row}, which has {length} letters"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::sidx::tests::index_of;

    #[test]
    fn parts_come_in_file_order_and_letters_in_the_order_asked() {
        let index = index_of(b">a\nACGT\n>b\nAC\n>c\n");
        let request = |row, start, letters| Request { row, start, letters, reverse: false };
        let batch =
            Batch::plan(&index, &[request(2, 0, 9), request(1, 1, 9), request(0, 2, 1), request(1, 0, 1)]).unwrap();
        assert_eq!(batch.letters(), [0, 1, 1, 1]);
        let order: Vec<(usize, u64)> = batch.parts().iter().map(|part| (part.request, part.start)).collect();
        assert_eq!(order, [(2, 2), (3, 0), (1, 1), (0, 0)]);
        assert_eq!(Batch::plan(&index, &[]).unwrap().parts(), []);
    }

    #[test]
    fn long_windows_are_cut_into_parts() {
        let index = index_of(&[&b">a\n"[..], &vec![b'A'; (2 * PART + 7) as usize]].concat());
        let whole = Request { reverse: true, ..Request::whole(0) };
        for (request, starts) in [
            (whole, vec![(0, PART), (PART, PART), (2 * PART, 7)]),
            (Request { start: 7, ..whole }, vec![(7, PART), (7 + PART, PART)]),
            (Request { letters: PART, ..whole }, vec![(0, PART)]),
            (Request { start: 2 * PART + 7, ..whole }, vec![(2 * PART + 7, 0)]),
        ] {
            let batch = Batch::plan(&index, &[request]).unwrap();
            let parts: Vec<(u64, u64)> = batch.parts().iter().map(|part| (part.start, part.letters.into())).collect();
            assert_eq!(parts, starts);
            assert_eq!(batch.letters(), [starts.iter().map(|&(_, letters)| letters).sum::<u64>()]);
            assert!(batch.parts().iter().all(|part| part.reverse && batch.address(part).is_ok()));
        }
    }

    #[test]
    fn requests_that_cannot_be_met_say_why() {
        let index = index_of(b">a\nACGT\n");
        let message = |request| Batch::plan(&index, &[Request::whole(0), request]).unwrap_err().to_string();
        assert_eq!(message(Request::whole(1)), "row 1 is out of range: there are 1 rows, 0 to 0");
        let beyond = Request { start: 5, ..Request::whole(0) };
        assert_eq!(message(beyond), "a window starts at letter 5 of row 0, which has 4 letters");
    }
}
