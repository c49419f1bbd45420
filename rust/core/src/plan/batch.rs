//! Many windows at once, in the order in which they lie in the file.

use rayon::prelude::*;

use super::address::Address;
use super::order::{self, Key};
use crate::error::{Error, Result};
use crate::index::sidx::{Entries, Sidx};
use crate::io::prefetch::prefetch;
use crate::io::threads;

/// Requests below this number are planned on the calling thread.
const FEW: usize = 2048;

/// Requests that one thread takes at a time.
const TAKEN: usize = 1024;

/// Rows of the index are asked for so many requests before they are read.
const AHEAD: usize = 24;

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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// Where it lies.
    pub address: Address,
    /// Which request it belongs to.
    pub request: u64,
    /// Which part of that request it is. All parts but the last have [`Address::MOST`] letters.
    pub number: u32,
    /// Whether it is to be given as its reverse complement.
    pub reverse: bool,
}

impl Part {
    /// Letters of the request that come before it.
    #[must_use]
    pub fn from(&self) -> u64 {
        u64::from(self.number) * u64::from(Address::MOST)
    }
}

/// Requests resolved to addresses, sorted by where they lie, with the number of letters of each known.
#[derive(Debug)]
pub struct Batch<'a> {
    requests: &'a [Request],
    parts: Vec<Part>,
    letters: Vec<u64>,
}

impl<'a> Batch<'a> {
    /// Plans requests. The order asked for stays the order of the results.
    pub fn plan(index: &Sidx, requests: &'a [Request]) -> Result<Self> {
        let keys = order::by_place(requests);
        let mut parts = vec![Part::default(); keys.len()];
        let mut lengths = vec![0; keys.len()];
        let resolved = if keys.len() <= FEW {
            resolve(index.entries(), requests, &keys, &mut parts, &mut lengths)
        } else {
            threads::in_pool(|| {
                let chunks = parts.par_chunks_mut(TAKEN).zip(lengths.par_chunks_mut(TAKEN)).zip(keys.par_chunks(TAKEN));
                chunks.try_for_each(|((parts, lengths), keys)| resolve(index.entries(), requests, keys, parts, lengths))
            })?
        };
        // Whichever was met first by some thread: what is told is the first one in the order asked.
        let told = || requests.iter().find_map(|wanted| first_part(index.entries(), wanted).err());
        resolved.map_err(|met| told().unwrap_or(met))?;
        let mut letters = vec![0; requests.len()];
        for (key, &length) in keys.iter().zip(&lengths) {
            letters[key.request as usize] = length;
        }
        if lengths.iter().any(|&length| length > Address::MOST.into()) {
            parts = cut(index, requests, &parts, &lengths)?;
        }
        Ok(Self { requests, parts, letters })
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

    /// The request that a part belongs to.
    #[must_use]
    pub fn request(&self, part: &Part) -> &'a Request {
        &self.requests[part.request as usize]
    }
}

/// Finds the first part of each request, and how many letters the request has in all.
fn resolve(
    entries: Entries<'_>,
    requests: &[Request],
    keys: &[Key],
    parts: &mut [Part],
    lengths: &mut [u64],
) -> Result<()> {
    for (k, (key, (part, length))) in keys.iter().zip(parts.iter_mut().zip(lengths)).enumerate() {
        if let Some(later) = keys.get(k + AHEAD) {
            entries.prefetch(later.row);
            prefetch(std::slice::from_ref(&requests[later.request as usize]));
        }
        let wanted = &requests[key.request as usize];
        let (address, letters) = first_part(entries, wanted)?;
        *part = Part { address, request: key.request, number: 0, reverse: wanted.reverse };
        *length = letters;
    }
    Ok(())
}

#[inline]
fn first_part(entries: Entries<'_>, wanted: &Request) -> Result<(Address, u64)> {
    let &Request { row, start, .. } = wanted;
    let entry = entries.get(row)?;
    let Some(left) = entry.length.checked_sub(start) else {
        let length = entry.length;
        return Err(Error::Mismatch(format!(
            "a window starts at letter {start} of row {row}, which has {length} letters"
        )));
    };
    let letters = left.min(wanted.letters);
    Ok((Address::window(entries.index(), row, &entry, start, letters.min(Address::MOST.into()))?, letters))
}

/// Cuts requests that one address can't cover, so that several threads can work on them.
fn cut(index: &Sidx, requests: &[Request], whole: &[Part], lengths: &[u64]) -> Result<Vec<Part>> {
    let mut parts = Vec::with_capacity(whole.len());
    for (&part, &letters) in whole.iter().zip(lengths) {
        parts.push(part);
        if letters <= Address::MOST.into() {
            continue;
        }
        let &Request { row, start, .. } = &requests[part.request as usize];
        if letters > index.data_size() {
            let size = index.data_size();
            return Err(Error::stale(format!(
                "its index has {letters} letters in row {row} of a file of {size} bytes"
            )));
        }
        let entry = index.entry(row)?;
        for number in 1..letters.div_ceil(Address::MOST.into()) as u32 {
            let next = Part { number, ..part };
            let letters = (letters - next.from()).min(Address::MOST.into());
            parts.push(Part { address: Address::window(index, row, &entry, start + next.from(), letters)?, ..next });
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::sidx::tests::index_of;

    #[test]
    fn parts_come_in_file_order_and_letters_in_the_order_asked() {
        let index = index_of(b">a\nACGT\n>b\nAC\n>c\n");
        let request = |row, start, letters| Request { row, start, letters, reverse: false };
        let requests = [request(2, 0, 9), request(1, 1, 9), request(0, 2, 1), request(1, 0, 1)];
        let batch = Batch::plan(&index, &requests).unwrap();
        assert_eq!(batch.letters(), [0, 1, 1, 1]);
        let order: Vec<(u64, u64)> = batch.parts().iter().map(|part| (part.request, part.address.offset)).collect();
        assert_eq!(order, [(2, 5), (3, 11), (1, 12), (0, 17)]);
        assert!(batch.parts().iter().all(|part| *batch.request(part) == requests[part.request as usize]));
        assert_eq!(Batch::plan(&index, &[]).unwrap().parts(), []);
    }

    #[test]
    fn long_windows_are_cut_into_parts() {
        let most = u64::from(Address::MOST);
        let index = index_of(&[&b">a\n"[..], &vec![b'A'; (2 * most + 7) as usize]].concat());
        let whole = Request { reverse: true, ..Request::whole(0) };
        for (request, expected) in [
            (whole, vec![(0, most), (most, most), (2 * most, 7)]),
            (Request { start: 7, ..whole }, vec![(7, most), (7 + most, most)]),
            (Request { letters: most, ..whole }, vec![(0, most)]),
            (Request { start: 2 * most + 6, ..whole }, vec![(2 * most + 6, 1)]),
        ] {
            let requests = [request];
            let batch = Batch::plan(&index, &requests).unwrap();
            let place = |part: &Part| (part.address.offset - 3, part.address.letters.into());
            assert_eq!(batch.parts().iter().map(place).collect::<Vec<_>>(), expected);
            assert!(batch.parts().iter().all(|part| part.reverse && request.start + part.from() == place(part).0));
            assert_eq!(batch.letters(), [expected.iter().map(|&(_, letters)| letters).sum::<u64>()]);
        }
        let after = [Request { start: 2 * most + 7, ..whole }];
        assert_eq!(Batch::plan(&index, &after).unwrap().letters(), [0]);
    }

    #[test]
    fn a_length_that_no_file_holds_is_not_cut_into_parts() {
        let index = index_of(b">a\nACGT\n");
        let found = cut(&index, &[Request::whole(0)], &[Part::default()], &[u64::MAX]);
        let message = found.unwrap_err().to_string();
        assert!(message.ends_with("letters in row 0 of a file of 8 bytes"), "{message}");
    }

    #[test]
    fn requests_that_cannot_be_met_say_why() {
        let index = index_of(b">a\nACGT\n");
        let message = |request| Batch::plan(&index, &[Request::whole(0), request]).unwrap_err().to_string();
        assert_eq!(message(Request::whole(1)), "row 1 is out of range: there is one row, row 0");
        let beyond = Request { start: 5, ..Request::whole(0) };
        assert_eq!(message(beyond), "a window starts at letter 5 of row 0, which has 4 letters");
    }

    #[test]
    fn of_many_requests_the_first_that_cannot_be_met_is_told() {
        let index = index_of(&b">a\nACGT\n".repeat(9));
        let mut requests = vec![Request::whole(3); 3 * FEW];
        (requests[4000].row, requests[5000].row) = (12, 9);
        let message = Batch::plan(&index, &requests).unwrap_err().to_string();
        assert_eq!(message, "row 12 is out of range: there are 9 rows, 0 to 8");
    }
}
