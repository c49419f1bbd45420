//! Many windows at once, in the order in which they lie in the file.

use rayon::prelude::*;

use super::address::Address;
use crate::error::{Error, Result};
use crate::index::sidx::Sidx;
use crate::io::threads;

/// Windows longer than this are cut into pieces that several threads can work on.
const PIECE: u64 = 1 << 20;

/// Requests below this number are resolved on the calling thread.
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

/// A piece of a request with its address.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// Which request it belongs to.
    pub request: usize,
    /// The record's row.
    pub row: u64,
    /// The first letter, counted in the record.
    pub start: u64,
    /// How many letters of the request come before it.
    pub before: u64,
    /// Whether the request is for the reverse complement.
    pub reverse: bool,
    /// Where it lies.
    pub address: Address,
}

/// Requests resolved to addresses.
#[derive(Debug)]
pub struct Batch {
    /// In the order in which they lie in the file.
    pieces: Vec<Piece>,
    /// Letters of each request, in the order asked.
    letters: Vec<u64>,
}

impl Batch {
    /// Resolves requests. The order asked for stays the order of the results.
    pub fn plan(index: &Sidx, requests: &[Request]) -> Result<Self> {
        let order = file_order(requests);
        let resolve = |&request: &usize| resolve(index, requests, request);
        let resolved: Vec<Resolved> = if requests.len() <= FEW {
            order.iter().map(resolve).collect::<Result<_>>()?
        } else {
            threads::in_pool(|| order.par_iter().map(resolve).collect::<Result<_>>())?
        };
        let mut letters = vec![0; requests.len()];
        let mut pieces = Vec::with_capacity(requests.len());
        for one in resolved {
            letters[one.piece.request] = one.piece.address.letters();
            match one.more {
                None => pieces.push(one.piece),
                Some(more) => {
                    letters[one.piece.request] += more.iter().map(|piece| piece.address.letters()).sum::<u64>();
                    pieces.push(one.piece);
                    pieces.extend(more);
                }
            }
        }
        Ok(Self { pieces, letters })
    }

    /// Letters of each request, in the order asked.
    #[must_use]
    pub fn letters(&self) -> &[u64] {
        &self.letters
    }

    /// The pieces in the order of the file.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The same batch as a list of pieces in the order of the file and the letters of each request.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Piece>, Vec<u64>) {
        (self.pieces, self.letters)
    }
}

/// The numbers of the requests, sorted by where they lie: rows are in file order.
fn file_order(requests: &[Request]) -> Vec<usize> {
    let key = |&k: &usize| (requests[k].row, requests[k].start);
    let mut order: Vec<usize> = (0..requests.len()).collect();
    if requests.len() <= FEW {
        order.sort_unstable_by_key(key);
    } else {
        threads::in_pool(|| order.par_sort_unstable_by_key(key));
    }
    order
}

/// A request's first piece, and the rest where it was cut.
struct Resolved {
    piece: Piece,
    more: Option<Vec<Piece>>,
}

fn resolve(index: &Sidx, requests: &[Request], request: usize) -> Result<Resolved> {
    let Request { row, start, letters, reverse } = requests[request];
    let entry = index.entry(row)?;
    let available = entry.length.checked_sub(start).ok_or_else(|| {
        Error::Mismatch(format!("a window starts at letter {start} of row {row}, which has {} letters", entry.length))
    })?;
    let letters = letters.min(available);
    let piece = |before: u64| {
        let address = Address::window(index, row, &entry, start + before, PIECE.min(letters - before))?;
        Ok(Piece { request, row, start: start + before, before, reverse, address })
    };
    let more = if letters <= PIECE {
        None
    } else {
        Some((PIECE..letters).step_by(PIECE as usize).map(piece).collect::<Result<_>>()?)
    };
    Ok(Resolved { piece: piece(0)?, more })
}
