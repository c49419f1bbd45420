//! Columns under way: the values of one feature, record after record.

use super::list::{List, Number, Refusal};
use super::schema::{Dtype, Feature, Shape, Values};
use super::wire::Fault;

/// Room that the caller owns, for a column of fixed shape: as many values as the records have.
#[derive(Debug)]
pub enum Slot<'o> {
    /// Floats.
    F32(&'o mut [f32]),
    /// Integers.
    I64(&'o mut [i64]),
    /// Smaller integers.
    I32(&'o mut [i32]),
}

/// The values of a column.
#[derive(Debug, PartialEq)]
pub enum Cells<'a> {
    /// They are in the slot that was given.
    Placed,
    /// Floats.
    F32(Vec<f32>),
    /// Integers.
    I64(Vec<i64>),
    /// Smaller integers.
    I32(Vec<i32>),
    /// Byte strings, where they lie in the payloads.
    Bytes(Vec<&'a [u8]>),
}

/// One feature of all records.
#[derive(Debug, PartialEq)]
pub struct Column<'a> {
    /// The values, record after record.
    pub values: Cells<'a>,
    /// Where each record's rows start, and where the last one's end, if its shape is ragged. Of a sequence: where each
    /// step's rows start.
    pub offsets: Option<Vec<i64>>,
    /// Where each record's steps start, and where the last one's end, if it is a sequence.
    pub steps: Option<Vec<i64>>,
}

/// Why a feature of a record does not fit the column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    Fault(Fault),
    Missing,
    Kind(super::list::Kind),
    Count(usize),
    Range(i64),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Fault(fault) => Self::Fault(fault),
            Refusal::Range(value) => Self::Range(value),
        }
    }
}

/// A column that is being filled by one thread.
pub(super) struct Builder<'a, 'o> {
    feature: &'a Feature,
    cells: Building<'a, 'o>,
    /// Where the rows of each record (or step) end, if there may be any number of them.
    ends: Vec<i64>,
    /// Where the steps of each record end.
    steps: Option<Vec<i64>>,
}

enum Building<'a, 'o> {
    F32(Numbers<'o, f32>),
    I64(Numbers<'o, i64>),
    I32(Numbers<'o, i32>),
    Bytes(Vec<&'a [u8]>),
}

/// Numbers that go to a slot, or grow where there is none.
struct Numbers<'o, T> {
    slot: Option<&'o mut [T]>,
    grown: Vec<T>,
}

impl<'o, T: Number> Numbers<'o, T> {
    fn new(slot: Option<&'o mut [T]>) -> Self {
        Self { slot, grown: Vec::new() }
    }

    /// Room for the next values.
    fn room(&mut self, count: usize) -> &mut [T] {
        if let Some(slot) = &mut self.slot {
            return slot.split_off_mut(..count).unwrap_or_default();
        }
        let at = self.grown.len();
        self.grown.resize(at + count, T::default());
        &mut self.grown[at..]
    }

    fn add(&mut self, list: &List<'_>, shape: Shape) -> Result<usize, Trouble> {
        let count = match shape {
            Shape::Fixed(count) => count,
            Shape::Ragged(_) => list.count()?,
        };
        let found = T::fill(list, self.room(count))?;
        if found == count { Ok(found) } else { Err(Trouble::Count(found)) }
    }
}

impl<'a, 'o> Builder<'a, 'o> {
    /// A column for `feature`, with a place for its values if they are of fixed shape.
    pub(super) fn new(feature: &'a Feature, slot: Option<Slot<'o>>, sequence: bool) -> Self {
        let cells = match (slot, feature.dtype) {
            (Some(Slot::F32(slot)), _) => Building::F32(Numbers::new(Some(slot))),
            (Some(Slot::I64(slot)), _) => Building::I64(Numbers::new(Some(slot))),
            (Some(Slot::I32(slot)), _) => Building::I32(Numbers::new(Some(slot))),
            (None, Dtype::F32) => Building::F32(Numbers::new(None)),
            (None, Dtype::I64) => Building::I64(Numbers::new(None)),
            (None, Dtype::I32) => Building::I32(Numbers::new(None)),
            (None, Dtype::Bytes) => Building::Bytes(Vec::new()),
        };
        Self { feature, cells, ends: Vec::new(), steps: sequence.then(Vec::new) }
    }

    pub(super) fn feature(&self) -> &'a Feature {
        self.feature
    }

    /// Adds the values of the next record, or of its next step.
    #[inline]
    pub(super) fn add(&mut self, list: Option<&List<'a>>) -> Result<(), Trouble> {
        let Some(list) = list else { return self.add_default() };
        if list.kind() != self.feature.dtype.kind() {
            return Err(Trouble::Kind(list.kind()));
        }
        let shape = self.feature.shape;
        let found = match &mut self.cells {
            Building::F32(numbers) => numbers.add(list, shape)?,
            Building::I64(numbers) => numbers.add(list, shape)?,
            Building::I32(numbers) => numbers.add(list, shape)?,
            Building::Bytes(strings) => {
                let before = strings.len();
                list.each_bytes(|bytes| strings.push(bytes))?;
                strings.len() - before
            }
        };
        self.end(found)
    }

    fn add_default(&mut self) -> Result<(), Trouble> {
        let Some(default) = &self.feature.default else { return Err(Trouble::Missing) };
        let count = match (&mut self.cells, default) {
            (Building::F32(numbers), Values::F32(default)) => copied(numbers, default),
            (Building::I64(numbers), Values::I64(default)) => copied(numbers, default),
            (Building::I32(numbers), Values::I32(default)) => copied(numbers, default),
            (Building::Bytes(strings), Values::Bytes(default)) => {
                strings.extend(default.iter().map(Vec::as_slice));
                default.len()
            }
            // A schema takes no default of another type.
            _ => return Err(Trouble::Missing),
        };
        self.end(count)
    }

    /// Notes where a record (or step) ends that has so many values.
    #[inline]
    fn end(&mut self, found: usize) -> Result<(), Trouble> {
        match self.feature.shape {
            Shape::Fixed(count) if found == count => Ok(()),
            Shape::Ragged(width) if found.is_multiple_of(width) => {
                self.ends.push(self.ends.last().unwrap_or(&0) + (found / width) as i64);
                Ok(())
            }
            _ => Err(Trouble::Count(found)),
        }
    }

    /// Notes how many steps the record had.
    pub(super) fn end_steps(&mut self, count: usize) {
        if let Some(steps) = &mut self.steps {
            steps.push(steps.last().unwrap_or(&0) + count as i64);
        }
    }
}

fn copied<T: Number>(numbers: &mut Numbers<'_, T>, default: &[T]) -> usize {
    numbers.room(default.len()).copy_from_slice(default);
    default.len()
}

/// The column that the threads' parts make up, in their order.
pub(super) fn join<'a>(feature: &Feature, sequence: bool, placed: bool, parts: Vec<Builder<'a, '_>>) -> Column<'a> {
    let offsets = matches!(feature.shape, Shape::Ragged(_)).then(|| summed(parts.iter().map(|part| &part.ends[..])));
    let steps = sequence.then(|| summed(parts.iter().map(|part| part.steps.as_deref().unwrap_or_default())));
    let cells: Vec<_> = parts.into_iter().map(|part| part.cells).collect();
    let values = match feature.dtype {
        _ if placed => Cells::Placed,
        Dtype::F32 => Cells::F32(chained(cells, |cells| if let Building::F32(it) = cells { it.grown } else { vec![] })),
        Dtype::I64 => Cells::I64(chained(cells, |cells| if let Building::I64(it) = cells { it.grown } else { vec![] })),
        Dtype::I32 => Cells::I32(chained(cells, |cells| if let Building::I32(it) = cells { it.grown } else { vec![] })),
        Dtype::Bytes => Cells::Bytes(chained(cells, |cells| if let Building::Bytes(it) = cells { it } else { vec![] })),
    };
    Column { values, offsets, steps }
}

/// All values one after another; those of one part are not copied.
fn chained<P, T: Copy>(parts: Vec<P>, values: impl Fn(P) -> Vec<T>) -> Vec<T> {
    let mut parts: Vec<Vec<T>> = parts.into_iter().map(values).collect();
    if parts.len() == 1 { parts.swap_remove(0) } else { parts.concat() }
}

/// Ends that were counted in each part from its start, counted from the start of the first; before them a 0.
fn summed<'p>(parts: impl Iterator<Item = &'p [i64]>) -> Vec<i64> {
    let mut offsets = vec![0];
    for part in parts {
        let base = *offsets.last().unwrap_or(&0);
        offsets.extend(part.iter().map(|end| base + end));
    }
    offsets
}
