//! The ids of an index: text, and a checksum of each.

use super::columns::Columns;
use super::lookup::hash_name;
use crate::io::prefetch::prefetch;

/// Bytes of an id that are asked for ahead.
const MOST_PREFETCHED: u64 = 128;

/// The columns that hold ids, looked up once for many rows.
#[derive(Clone, Copy)]
pub struct Ids<'a> {
    ends: &'a [u64],
    bytes: &'a [u8],
    checks: &'a [u32],
}

impl<'a> Ids<'a> {
    /// Ids whose ends, bytes and checksums are these buffers.
    #[inline]
    pub(super) fn new(columns: &'a Columns, ends: usize, bytes: usize, checks: usize) -> Self {
        Self { ends: columns.numbers(ends), bytes: columns.bytes(bytes), checks: columns.numbers(checks) }
    }

    /// The id of a row. Nothing if there is no such row, or it is damaged.
    #[inline]
    #[must_use]
    pub fn get(&self, row: u64) -> Option<&'a str> {
        self.checked(row).map(|(id, _)| id)
    }

    /// The same, and its checksum.
    #[inline]
    #[must_use]
    pub fn checked(&self, row: u64) -> Option<(&'a str, u32)> {
        let (id, check) = self.unchecked(row)?;
        let sound = check == hash_name(id) as u32;
        Some((std::str::from_utf8(id).ok().filter(|_| sound)?, check))
    }

    /// The id of a row as it lies there, and its checksum, for those who have compared them before.
    #[inline]
    #[must_use]
    pub fn unchecked(&self, row: u64) -> Option<(&'a [u8], u32)> {
        let (from, to) = self.span(row)?;
        let id = self.bytes.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)?;
        Some((id, *self.checks.get(usize::try_from(row).ok()?)?))
    }

    /// Bytes of all ids. Nothing if where they begin or end is damaged, which the ids there tell.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        let Some(last) = (self.ends.len() as u64).checked_sub(2) else { return Some(0) };
        self.get(0).and_then(|_| self.get(last))?;
        self.ends.last()?.checked_sub(*self.ends.first()?)
    }

    #[inline]
    fn span(&self, row: u64) -> Option<(u64, u64)> {
        let &[from, to] = self.ends.get(usize::try_from(row).ok()?..)?.first_chunk::<2>()?;
        Some((from, to))
    }

    /// Says that [`Ids::prefetch`] will be called for a row.
    #[inline]
    pub fn prefetch_place(&self, row: u64) {
        let Ok(row) = usize::try_from(row) else { return };
        prefetch(self.ends.get(row..=row).unwrap_or(&[]));
        prefetch(self.checks.get(row..=row).unwrap_or(&[]));
    }

    /// Says that the id of a row, whose place is near by now, will be wanted shortly.
    #[inline]
    pub fn prefetch(&self, row: u64) {
        let Some((from, to)) = self.span(row) else { return };
        let to = to.min(from.saturating_add(MOST_PREFETCHED));
        prefetch(self.bytes.get(from as usize..to as usize).unwrap_or(&[]));
    }
}
